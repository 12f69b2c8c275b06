"""Read the state of the NVIDIA driver from package manager, kernel, firmware and services."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..common.package_changes import parse_madison
from ..common.systemd import unit_states
from ..hardware.gpu_facts import find_smi, pci_devices, read_gpus
from ..hardware.gpu_facts_merge import proc_version
from ..hardware.pci_devices import classify
from .driver_choice import NODES_FILE
from .driver_packages import EL_HEADERS, header_names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible.module_utils.basic import AnsibleModule

__all__ = ["read_answering_gpus", "read_driver"]

UNITS = ["nvidia-persistenced", "nvidia-fabricmanager", "nvidia-imex"]
SECURE_BOOT = "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
SIGNING_KEYS = ("var/lib/shim-signed/mok/MOK.der", "var/lib/dkms/mok.pub", "var/lib/dkms/mok.der")
# In loading order.
MODULES = ("nvidia", "nvidia-uvm", "ib_umad")
# File names of the module in NVIDIA's and Debian's packages.
MODULE_FILE = re.compile(r"nvidia(-current(-open)?|-tesla(-\d+)?(-open)?|-open)?\.ko(\.(gz|xz|zst))?")
# dkms 2.8 to 3.2: "nvidia/580.95.05, 6.8.0-136-generic, x86_64: installed", "nvidia/580.95.05: added".
DKMS_LINE = re.compile(r"(?P<module>[^/,:]+)/(?P<version>[^,:]+)(?:, (?P<kernel>[^,]+), [^:]+)?: (?P<state>\w+)")
LOG_LINES = 15
SLURM = ("slurmd", "slurmstepd")
SMI_PATIENCE_S = 30
SMI_VERSION = re.compile(r"<driver_version>([^<]+)</driver_version>")


def read(path: Path) -> str:
    """Return the text of a small file, or '' if it cannot be read."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def pairs(text: str) -> dict[str, str]:
    """Return the version of each installed package, from lines with name, version and status."""
    words = (line.split() for line in text.splitlines())
    return {line[0]: line[1] for line in words if len(line) > 2 and line[2][1] == "i"}  # noqa: PLR2004 - name, version and status


def packages(module: AnsibleModule, release: str, names: list[str], family: list[str]) -> dict[str, Any]:
    """Return installed and available packages, including the headers of the running kernel."""
    kernels: list[str] = []
    if module.get_bin_path("dpkg-query"):
        shape = "${Package} ${Version} ${db:Status-Abbrev}\n"
        patterns = [*family, *names, "linux-image-*", "linux-headers-*"]
        installed = pairs(module.run_command(["dpkg-query", "-W", "-f", shape, *patterns])[1])
        kernels = sorted(name for name in installed if name.startswith("linux-image-"))
        queried = [*names, *header_names(release, kernels)]
        available = parse_madison(module.run_command(["apt-cache", "madison", *queried])[1])
        index = not module.check_mode or bool(available)
    else:
        shape = "%{NAME} %{VERSION}-%{RELEASE} ii\n"
        patterns = [*family, *names, "kmod-nvidia*", EL_HEADERS]
        installed = pairs(module.run_command(["rpm", "-qa", "--qf", shape, *patterns])[1])
        available = repoquery(module, names)
        index = bool(available)
    return {"installed": installed, "available": available, "index": index, "kernels": kernels}


def repoquery(module: AnsibleModule, names: list[str]) -> dict[str, list[str]]:
    """Return the versions in dnf's repositories, including those in streams that are not enabled.

    With module_hotfixes dnf hides no version of a repository: dnf.conf(5), repo options.
    """
    command = ["dnf", "-q", "--setopt=*.module_hotfixes=1", "repoquery", "--showduplicates"]
    text = module.run_command([*command, "--qf", "%{name} %{evr}", *names])[1]
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        name, _, version = line.partition(" ")
        if name in names and version not in found.setdefault(name, []):
            found[name].append(version)
    return found


def module_files(root: Path, release: str) -> Iterator[Path]:
    """Yield the driver's module files for a kernel, without following the links to its source."""
    for folder, _, files in os.walk(root / "lib/modules" / release):
        yield from (Path(folder) / name for name in sorted(files) if MODULE_FILE.fullmatch(name))


def built(module: AnsibleModule, root: Path, release: str) -> list[str]:
    """Return the driver versions whose module is installed for the running kernel."""
    program = module.get_bin_path("modinfo")
    if not program:
        return []
    queried = (module.run_command([program, "-F", "version", str(path)]) for path in module_files(root, release))
    return sorted({out.strip() for status, out, _ in queried if status == 0 and out.strip()})


def dkms_status(text: str) -> list[dict[str, str]]:
    """Return the driver's lines of ``dkms status``; nvidia-fs is a separate module with its own versions."""
    matches = (DKMS_LINE.match(line) for line in text.splitlines())
    found = [{key: value or "" for key, value in match.groupdict().items()} for match in matches if match]
    return [item for item in found if item["module"].startswith("nvidia") and item["module"] != "nvidia-fs"]


def make_log(root: Path) -> dict[str, Any]:
    """Return the newest log of a failed DKMS build; DKMS moves the logs of successful builds elsewhere."""
    logs = sorted((root / "var/lib/dkms").glob("nvidia*/*/build/make.log"), key=lambda path: path.stat().st_mtime)
    if not logs:
        return {"path": "", "lines": []}
    return {"path": f"/{logs[-1].relative_to(root)}", "lines": read(logs[-1]).splitlines()[-LOG_LINES:]}


def kernel_side(module: AnsibleModule, root: Path, release: str) -> dict[str, Any]:
    """Return the driver modules of the running kernel and the state of DKMS."""
    dkms = module.get_bin_path("dkms")
    return {
        "headers": (root / "lib/modules" / release / "build/include").exists(),
        "built": built(module, root, release),
        "dkms": dkms_status(module.run_command([dkms, "status"])[1]) if dkms else [],
        "make_log": make_log(root),
        "modules": {name: (root / "sys/module" / name.replace("-", "_")).exists() for name in MODULES},
    }


def loaded_version(program: str | None, root: Path, timeout_s: float = SMI_PATIENCE_S) -> str:
    """Return the version of the loaded driver, from nvidia-smi if /proc does not have it, as in some containers."""
    version = proc_version(read(root / "proc/driver/nvidia/version"))
    if version or not program:
        return version or ""
    try:
        done = subprocess.run(  # noqa: S603
            [program, "-q", "-x"],
            check=False,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    match = SMI_VERSION.search(done.stdout)
    return match.group(1).strip() if match else ""


def parameters(text: str) -> dict[str, str]:
    """Return the parameters in /proc/driver/nvidia/params."""
    split = (line.partition(":") for line in text.splitlines())
    return {key.strip(): value.strip() for key, sign, value in split if sign}


def firmware(module: AnsibleModule, root: Path) -> dict[str, Any]:
    """Return the Secure Boot state; the last of the EFI variable's five bytes is its value."""
    try:
        enforced = (root / SECURE_BOOT).read_bytes()[-1:] == b"\x01"
    except OSError:
        enforced = False
    key = next((f"/{path}" for path in SIGNING_KEYS if (root / path).exists()), "")
    mokutil = module.get_bin_path("mokutil")
    enrolled = False
    if enforced and key and mokutil:
        enrolled = "already enrolled" in module.run_command([mokutil, "--test-key", key])[1]
    return {"secure_boot": enforced, "signing_key": key, "key_enrolled": enrolled}


def persistence_command(module: AnsibleModule) -> str:
    """Return the ExecStart of the package's persistence daemon unit; '' if an administrator replaced the unit."""
    path = module.run_command(["systemctl", "show", "-P", "FragmentPath", "nvidia-persistenced"])[1].strip()
    if not path.startswith(("/lib/", "/usr/lib/")):
        return ""
    lines = (line for line in read(Path(path)).splitlines() if line.startswith("ExecStart="))
    return next(lines, "").partition("=")[2].strip()


def slurm_daemons(root: Path) -> list[str]:
    """Return the running Slurm daemons of a compute node."""
    running = {read(path).strip() for path in (root / "proc").glob("[0-9]*/comm")}
    return [name for name in SLURM if name in running]


def gpus_on_bus(root: Path) -> int:
    """Return the number of NVIDIA GPUs on the PCI bus."""
    folders = (root / "sys/bus/pci/devices").glob("*")
    kinds = (classify(read(folder / "vendor").strip()[2:], read(folder / "class").strip()[2:6]) for folder in folders)
    return sum(kind == "gpu" for kind in kinds)


def read_driver(module: AnsibleModule, names: list[str], family: list[str], root: Path = Path("/")) -> dict[str, Any]:
    """Return the state of the driver on a host, and the versions in its repositories.

    Args:
        module: the running module.
        names: packages to look up in the repositories.
        family: name patterns of installed packages to include.
        root: root directory of the host.

    Returns:
        `available` and `installed` (versions by package), `index` (whether the repositories could be queried),
        `kernels`; `headers`, `built`, `dkms`, `make_log`, `modules` of the running kernel; `loaded` (version, or ''),
        `parameters` of the loaded module, `kernel_release`, `gpus` (number on the PCI bus), `slurm` (running daemons),
        `persistence_command`, `nouveau`, `initramfs`, `units`, `imex_nodes`; `secure_boot`, `signing_key`,
        `key_enrolled`.
    """
    release = os.uname().release
    show = ["systemctl", "show", "-p", "Id,UnitFileState,ActiveState", *UNITS]
    return {
        **packages(module, release, names, family),
        **kernel_side(module, root, release),
        "loaded": loaded_version(find_smi(), root),
        "parameters": parameters(read(root / "proc/driver/nvidia/params")),
        "kernel_release": release,
        "gpus": gpus_on_bus(root),
        "slurm": slurm_daemons(root),
        "persistence_command": persistence_command(module),
        "nouveau": (root / "sys/module/nouveau").exists(),
        "initramfs": next((name for name in ("update-initramfs", "dracut") if module.get_bin_path(name)), ""),
        "units": unit_states(module.run_command(show)[1]),
        "imex_nodes": read(root / NODES_FILE.lstrip("/")),
        **firmware(module, root),
    }


def read_answering_gpus(root: Path = Path("/")) -> dict[str, Any]:
    """Return the GPUs as reported by nvidia-smi and the kernel."""
    return read_gpus(root, pci_devices(root)["gpu"], find_smi(), SMI_PATIENCE_S)
