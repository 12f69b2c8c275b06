"""Run nvidia-smi for a module, and find Slurm jobs on the host."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from ansible.module_utils.basic import AnsibleModule

    # Runs nvidia-smi with options; returns exit status and output.
    Smi = Callable[[list[str]], tuple[int, str]]

__all__ = ["local_jobs", "one_line", "smi_runner"]

PATHS = ["/usr/local/bin", "/usr/local/nvidia/bin", "/usr/lib/wsl/lib"]
TIMEOUT_S = 120
_STEP = re.compile(r"^slurmstepd: \[(\d+)")


def smi_runner(module: AnsibleModule) -> Smi | None:
    """Return a function that runs nvidia-smi on this host, or None if it is missing.

    The function kills nvidia-smi if it hangs in the driver; a GPU reset may take a minute.
    """
    program = module.get_bin_path("nvidia-smi", opt_dirs=PATHS)
    if program is None:
        return None

    def run(words: list[str]) -> tuple[int, str]:
        limited = ["timeout", "-k", "5", str(TIMEOUT_S), program, *words]
        status, out, err = module.run_command(limited, data="", environ_update={"LC_ALL": "C"})
        return status, f"{out}\n{err}".strip()

    return run


def one_line(text: str) -> str:
    """Return the output of a program as one line, for a message."""
    return " ".join(text.split())[:500] or "no output"


def local_jobs(proc: Path = Path("/proc")) -> list[str]:
    """Return the ids of the jobs with a step on this host, from the names of slurmstepd processes."""
    found = set()
    for folder in proc.glob("[0-9]*"):
        try:
            match = _STEP.match((folder / "cmdline").read_text(errors="replace").replace("\0", " "))
        except OSError:  # the process has just exited
            continue
        if match:
            found.add(match.group(1))
    return sorted(found, key=int)
