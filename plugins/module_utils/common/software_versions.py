"""Read the installed versions of the GPU stack, Slurm, munge, Enroot and Pyxis."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

__all__ = ["versions"]

PACKAGES = {
    "container_toolkit": ["nvidia-container-toolkit"],
    "dcgm": ["datacenter-gpu-manager-4-core", "datacenter-gpu-manager"],
    "dcgm_exporter": ["datacenter-gpu-manager-exporter", "dcgm-exporter"],
    # Packages of Debian, SchedMD, EPEL and OpenHPC.
    "slurm": ["slurmctld", "slurmd", "slurmdbd", "slurm-client", "slurm-smd", "slurm", "slurm-ohpc"],
    "munge": ["munge"],
    "enroot": ["enroot", "enroot-hardened"],
    "pyxis": ["nvslurm-plugin-pyxis"],
}
PACKAGES_TIMEOUT_S = 20
WORDS = 3


def versions(root: Path = Path("/")) -> dict[str, str]:
    """Return the installed versions of the GPU stack, Slurm, munge, Enroot and Pyxis."""
    names = [name for each in PACKAGES.values() for name in each]
    debian = (root / "var/lib/dpkg/status").exists()
    query = ["dpkg-query", "-W", "-f", "${db:Status-Status} ${Package} ${Version}\\n"]
    command = query if debian else ["rpm", "-q", "--qf", "installed %{NAME} %{VERSION}-%{RELEASE}\\n"]
    try:
        output = subprocess.run(  # noqa: S603 - fixed arguments
            [*command, *names], check=False, capture_output=True, text=True, timeout=PACKAGES_TIMEOUT_S
        ).stdout
    except (OSError, subprocess.SubprocessError):
        output = ""
    lines = [line.split() for line in output.splitlines()]
    installed = {words[1]: words[2] for words in lines if len(words) == WORDS and words[0] == "installed"}
    toolkits = (re.fullmatch(r"cuda-(\d+)\.(\d+)", path.name) for path in (root / "usr/local").glob("cuda-*"))
    newest = max(((int(match[1]), int(match[2])) for match in toolkits if match), default=())
    # The pyxis role builds a library for each Slurm release: pyxis-0.24.0-slurm24.11.5-MARK.so.
    plugins = (re.match(r"pyxis-([\d.]+)-slurm", path.name) for path in (root / "usr/lib/busbar/spank").glob("pyxis-*"))
    found = {
        "driver": _text(root / "sys/module/nvidia/version"),
        "cuda": ".".join(map(str, newest)),
        **{key: next((installed[name] for name in each if name in installed), "") for key, each in PACKAGES.items()},
    }
    found["pyxis"] = found["pyxis"] or max((match[1] for match in plugins if match), default="")
    return {key: version for key, version in found.items() if version}


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
