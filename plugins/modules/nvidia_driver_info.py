"""Module that reads what a host has of the NVIDIA driver."""

from __future__ import annotations

DOCUMENTATION = r"""
module: nvidia_driver_info
author: busbar contributors
short_description: What a host has of the NVIDIA driver, and what its repositories offer
description:
  - Reads package manager, kernel, firmware and services. Changes nothing, and needs no driver and no GPU.
attributes:
  check_mode:
    description: Changes nothing in any mode.
    support: full
options:
  names:
    description: Packages whose versions in the repositories are wanted.
    type: list
    elements: str
    required: true
  family:
    description: Patterns of the packages that are looked for among the installed ones.
    type: list
    elements: str
    required: true
  timeout_s:
    description: How long to wait for nvidia-smi, which is asked only where the kernel shows no driver, in seconds.
    type: int
    default: 30
"""

EXAMPLES = r"""
- name: Read what there is of the driver
  busbar.cluster.nvidia_driver_info:
    names: [nvidia-driver-cuda]
    family: ["nvidia-*", "libnvidia-*"]
  register: __example_driver
"""

RETURN = r"""
available:
  description: Versions in the repositories by package.
  returned: always
  type: dict
installed:
  description: Versions of the installed packages of the family.
  returned: always
  type: dict
index:
  description: Whether the repositories could be asked. In check mode, one that is still to be added cannot, and
    dnf shows nothing of a stream before it is enabled.
  returned: always
  type: bool
loaded:
  description: Version of the loaded driver, empty when there is none.
  returned: always
  type: str
parameters:
  description: Parameters that the loaded driver runs with.
  returned: always
  type: dict
kernel_release:
  description: Release of the running kernel.
  returned: always
  type: str
gpus:
  description: NVIDIA GPUs on the PCI bus.
  returned: always
  type: int
nouveau:
  description: Whether the module nouveau is loaded.
  returned: always
  type: bool
secure_boot:
  description: Whether the firmware enforces Secure Boot.
  returned: always
  type: bool
signing_key:
  description: Certificate of the key that DKMS signs with, empty when there is none.
  returned: always
  type: str
key_enrolled:
  description: Whether the firmware trusts that key.
  returned: always
  type: bool
initramfs:
  description: The program that makes initial file systems, V(update-initramfs), V(dracut) or empty.
  returned: always
  type: str
units:
  description: C(enabled) and C(active) of the driver's services by name, as systemd says.
  returned: always
  type: dict
"""

import os
import re
import subprocess
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.common.package_changes import parse_madison
from ..module_utils.hardware.gpu_sources import proc_version
from ..module_utils.hardware.pci_devices import classify

UNITS = ["nvidia-persistenced", "nvidia-fabricmanager", "nvidia-imex"]
SECURE_BOOT = "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
SIGNING_KEYS = ("var/lib/shim-signed/mok/MOK.der", "var/lib/dkms/mok.pub", "var/lib/dkms/mok.der")
SMI_VERSION = re.compile(r"<driver_version>([^<]+)</driver_version>")


def read(path: Path) -> str:
    """Return the text of a small file, empty when it cannot be read."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def pairs(text: str) -> dict[str, str]:
    """Return name to version from lines of both, and of a third word that tells whether it is installed."""
    words = (line.split() for line in text.splitlines())
    return {line[0]: line[1] for line in words if len(line) > 2 and line[2][1] == "i"}  # noqa: PLR2004 - three words


def packages(module: AnsibleModule) -> dict[str, Any]:
    """Return what is installed and what is to be had."""
    names, family = module.params["names"], module.params["family"]
    if module.get_bin_path("dpkg-query"):
        shape = "${Package} ${Version} ${db:Status-Abbrev}\n"
        installed = pairs(module.run_command(["dpkg-query", "-W", "-f", shape, *family, *names])[1])
        available = parse_madison(module.run_command(["apt-cache", "madison", *names])[1])
        index = not module.check_mode or bool(available)
    else:
        shape = "%{NAME} %{VERSION}-%{RELEASE} ii\n"
        installed = pairs(module.run_command(["rpm", "-qa", "--qf", shape, *family, *names, "kmod-nvidia*"])[1])
        # A stream that is not enabled yet hides its packages, so that nothing is known before.
        available, index = {}, False
    return {"installed": installed, "available": available, "index": index}


def loaded_version(module: AnsibleModule, root: Path) -> str:
    """Return the version of the loaded driver; nvidia-smi is asked where /proc has nothing, as in some containers."""
    version = proc_version(read(root / "proc/driver/nvidia/version"))
    program = module.get_bin_path("nvidia-smi", opt_dirs=["/usr/local/bin"])
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
            timeout=module.params["timeout_s"],
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
    """Return what the firmware says of Secure Boot; the last of the variable's five bytes is the answer."""
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


def units(text: str) -> dict[str, dict[str, str]]:
    """Return the units in the output of ``systemctl show -p Id,UnitFileState,ActiveState``."""
    found = {}
    for block in text.split("\n\n"):
        values = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        name = values.get("Id", "").removesuffix(".service")
        found[name] = {"enabled": values.get("UnitFileState", ""), "active": values.get("ActiveState", "")}
    return found


def gpus_on_bus(root: Path) -> int:
    """Return how many NVIDIA GPUs are on the PCI bus."""
    folders = (root / "sys/bus/pci/devices").glob("*")
    kinds = (classify(read(folder / "vendor").strip()[2:], read(folder / "class").strip()[2:6]) for folder in folders)
    return sum(kind == "gpu" for kind in kinds)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "names": {"type": "list", "elements": "str", "required": True},
            "family": {"type": "list", "elements": "str", "required": True},
            "timeout_s": {"type": "int", "default": 30},
        },
        supports_check_mode=True,
    )
    root = Path("/")
    show = ["systemctl", "show", "-p", "Id,UnitFileState,ActiveState", *UNITS]
    module.exit_json(
        changed=False,
        **packages(module),
        loaded=loaded_version(module, root),
        parameters=parameters(read(root / "proc/driver/nvidia/params")),
        kernel_release=os.uname().release,
        gpus=gpus_on_bus(root),
        nouveau=(root / "sys/module/nouveau").exists(),
        initramfs=next((name for name in ("update-initramfs", "dracut") if module.get_bin_path(name)), ""),
        units=units(module.run_command(show)[1]),
        **firmware(module, root),
    )


if __name__ == "__main__":
    main()
