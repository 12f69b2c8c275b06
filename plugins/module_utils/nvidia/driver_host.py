"""Read the state of the NVIDIA driver of a host, and check whether it is running or needs a reboot."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..common.package_changes import parse_madison
from ..common.problems import Problem, make_problem
from ..common.systemd import unit_states
from ..hardware.gpu_facts import find_smi, pci_devices, query_smi, read, read_gpus
from ..hardware.gpu_facts_merge import proc_version
from .driver_choice import NODES_FILE, known_generation
from .driver_packages import EL_HEADERS, header_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ansible.module_utils.basic import AnsibleModule

__all__ = [
    "blocking_reasons",
    "build_problems",
    "is_build_due",
    "read_answering_gpus",
    "read_driver",
    "unready_reasons",
    "version_order",
]

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
    return {
        "path": f"/{logs[-1].relative_to(root)}",
        "lines": logs[-1].read_text(errors="replace").splitlines()[-LOG_LINES:],
    }


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
    match = SMI_VERSION.search(query_smi(program, timeout_s, links=False)[0].get("query", ""))
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
    running = {read(path) for path in (root / "proc").glob("[0-9]*/comm")}
    return [name for name in SLURM if name in running]


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
        "gpus": len(pci_devices(root)["gpu"]),
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


def version_order(version: str) -> tuple[int, ...]:
    """Return the sort key of a version or kernel release: '12.8.1-1' gives (12, 8, 1, 1)."""
    return tuple(int(part) for part in re.findall(r"\d+", version))


def is_built(version: str, found: Mapping[str, Any]) -> bool:
    """Return whether the running kernel has a module of the version; DKMS may skip a build without an error."""
    return version in found["built"]


def is_build_due(version: str, found: Mapping[str, Any]) -> bool:
    """Return whether DKMS could still build the module for the running kernel, for example after installing headers."""
    return bool(version) and not is_built(version, found) and bool(found["headers"])


def _next_kernel(version: str, found: Mapping[str, Any]) -> str:
    """Return a newer kernel for which DKMS has built the version, or ''."""
    kernels = [
        str(item["kernel"])
        for item in found["dkms"]
        if item["version"] == version and item["state"] == "installed" and item["kernel"]
    ]
    newer = [kernel for kernel in kernels if version_order(kernel) > version_order(str(found["kernel_release"]))]
    return max(newer, key=version_order, default="")


def blocking_reasons(version: str, found: Mapping[str, Any], there: str = "installed") -> list[str]:
    """Return why GPU programs fail on a host with installed driver packages until a reboot.

    Args:
        version: version of the driver, '' if unknown.
        found: result of `read_driver`.
        there: `installed`, or `declared` if that version is not installed yet.
    """
    loaded = str(found["loaded"] or "")
    reasons = ["nouveau is loaded and uses the GPUs"] if found["nouveau"] else []
    if loaded and version and loaded != version:
        reasons.append(f"the loaded driver is {loaded}, but {version} is {there}")
    elif version and not is_built(version, found) and (kernel := _next_kernel(version, found)):
        reasons.append(f"the driver is built for kernel {kernel}, but {found['kernel_release']} is running")
    return reasons


def build_problems(host: str, version: str, found: Mapping[str, Any], *, dkms: bool) -> list[Problem]:
    """Return why the running kernel has no module of the installed driver, with the last lines of DKMS's log."""
    if not version or is_built(version, found) or _next_kernel(version, found):
        return []
    release = str(found["kernel_release"])
    problem = f"driver {version} has no kernel module for the running kernel {release}"
    if not dkms:
        return [
            make_problem([host], "nvidia_driver_build", problem, "boot a kernel for which precompiled modules exist")
        ]
    log, states = found["make_log"], [item for item in found["dkms"] if item["version"] == version]
    if not found["headers"]:
        why = f"the kernel headers are missing in /lib/modules/{release}/build"
        remedy = f"install the headers of {release}, or boot a kernel whose headers the repositories have; run again"
    elif f"/{version}/" in log["path"]:
        why = "the build failed; last lines of " + "\n        ".join([f"{log['path']}:", *log["lines"]])
        remedy = "choose a nvidia_driver_version that builds with this kernel, or boot another kernel; run again"
    else:
        status = ", ".join(f"{item['module']}: {item['state']}" for item in states) or "empty"
        why = f"the DKMS status is {status}"
        remedy = f"run `dkms autoinstall -k {release}` on the host and fix its errors; run again"
    return [make_problem([host], "DKMS", f"{problem}: {why}", remedy)]


def unready_reasons(
    hardware: Mapping[str, Any],
    version: str,
    found: Mapping[str, Any],
    gpus: Mapping[str, Any],
    *,
    fabric_manager: bool,
) -> list[str]:
    """Return why the driver of a host is not usable yet; the fabric takes some time to start.

    Args:
        hardware: hardware profile of the host.
        version: wanted driver version.
        found: result of `read_driver`.
        gpus: result of `read_answering_gpus`.
        fabric_manager: whether the host runs the fabric manager.
    """
    loaded = str(found["loaded"] or "")
    if loaded != version:
        return [f"{f'the driver {loaded}' if loaded else 'no driver'} is loaded, {version} is declared"]
    if gpus["smi_state"] != "ok":
        return [f"nvidia-smi: {next(iter(gpus['errors']), gpus['smi_state'])}"]
    answering = [gpu for gpu in gpus["gpus"] if not gpu["lost"]]
    expected = int(hardware["gpu"]["count"])
    reasons = [] if len(answering) == expected else [f"{len(answering)} of {expected} GPUs answer"]
    return [*reasons, *(_fabric(hardware, answering) if fabric_manager else [])]


def _fabric(hardware: Mapping[str, Any], gpus: list[Mapping[str, Any]]) -> Iterator[str]:
    """Yield why GPUs have not joined the fabric; GPUs older than Hopper and GPUs with MIG report no fabric state."""
    generation = known_generation(hardware["gpu"])
    may_report_nothing = generation is None or not generation.fabric_state
    for gpu in gpus:
        fabric = gpu.get("fabric") or {}
        state, status = str(fabric.get("state") or ""), str(fabric.get("status") or "")
        if not state and (may_report_nothing or str(gpu.get("mig_mode") or "").lower() == "enabled"):
            continue
        if not state:
            yield f"GPU {gpu['index']}: nvidia-smi does not report its fabric state"
        elif state != "Completed":
            yield f"GPU {gpu['index']}: wrong fabric state (found {state}, expected Completed)"
        elif status and status != "Success":
            yield f"GPU {gpu['index']}: could not join its fabric: {status}"
