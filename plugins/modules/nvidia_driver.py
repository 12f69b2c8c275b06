"""Module that reads what a host has of the NVIDIA driver and decides what is to be done."""

from __future__ import annotations

DOCUMENTATION = r"""
module: nvidia_driver
author: busbar contributors
short_description: Plan the installation of the NVIDIA driver on a host
description:
  - Reads package manager, repositories, kernel, firmware, services and GPUs, and derives from the hardware and the
    declaration the required packages, files, modules and services, pending reboots, and problems.
  - Changes nothing, and needs no driver and no GPU. O(hardware) must have GPUs, and the declaration must have passed
    the checks of the role.
notes:
  - Writes nothing. The files that it returns are C(/etc/apt/preferences.d/busbar-nvidia_driver.pref),
    C(/etc/modprobe.d/busbar-nvidia.conf), C(/etc/modules-load.d/busbar-nvidia.conf),
    C(/etc/modules-load.d/busbar-nvlsm.conf), C(/etc/nvidia-imex/nodes_config.cfg) and
    C(/etc/systemd/system/nvidia-persistenced.service.d/busbar.conf).
extends_documentation_fragment: busbar.cluster.attributes.read_only
options:
  host:
    description: Name of the host, for messages.
    type: str
    required: true
  hardware:
    description: Hardware profile of the host.
    type: dict
    required: true
  settings:
    description:
      - The declaration, with the keys C(source), C(branch), C(version), C(kernel_modules), C(build), C(kernel_flavour),
        C(kernel_parts), C(module_parameters), C(fabric_manager), C(nvlsm), C(imex), C(imex_nodes) and C(reboot), as the
        options of the role nvidia_driver.
    type: dict
    required: true
  system:
    description: C(distribution) and C(major) of the host, and C(container), whether the host is a container.
    type: dict
    required: true
  locked:
    description: Locked versions of the cluster by branch. They apply if no version is declared.
    type: dict
    default: {}
"""

EXAMPLES = r"""
- name: Read the host and choose its driver
  busbar.cluster.nvidia_driver:
    host: "{{ inventory_hostname }}"
    hardware: "{{ lookup('busbar.cluster.hardware', 'dgx_h100') }}"
    settings: {source: nvidia, branch: "580"}
    system: {distribution: Debian, major: "12", container: false}
  register: __example_driver
"""

RETURN = r"""
version:
  description: Target version of the driver. Empty if only a run without check mode can determine it.
  returned: always
  type: str
offer:
  description: Versions of the branch that are available to the host, for choosing the version of the cluster.
  returned: always
  type: dict
locked:
  description: Locked version of the cluster that was applied. Empty without one.
  returned: always
  type: str
problems:
  description: Reasons why the driver cannot be installed, each with C(hosts), C(key), C(problem) and C(remedy).
  returned: always
  type: list
  elements: dict
files:
  description: Pins and settings, and drop-ins of units whose packages are installed, for M(busbar.cluster.templates).
  returned: always
  type: list
  elements: dict
packages:
  description: The driver's packages, for M(busbar.cluster.packages), as C(headers), C(absent), C(family) and C(stream).
  returned: always
  type: list
  elements: dict
moves:
  description: Whether packages of another version are replaced while programs may use them.
  returned: always
  type: bool
imex_moves:
  description: Whether the list of members of a running IMEX changes.
  returned: always
  type: bool
kernel:
  description: Whether kernel modules, their settings and services are managed.
  returned: always
  type: bool
build:
  description: Whether to run DKMS again for the module of the running kernel.
  returned: always
  type: bool
build_problems:
  description: Reasons why the running kernel has no driver module.
  returned: always
  type: list
  elements: dict
load:
  description: Modules to load now, in order.
  returned: always
  type: list
  elements: str
services:
  description: Services, each with C(name), C(started), and C(right), whether its state is correct.
  returned: always
  type: list
  elements: dict
initramfs:
  description: Command that regenerates the initramfs after changed settings.
  returned: always
  type: str
reboot:
  description: Reasons for a reboot.
  returned: always
  type: list
  elements: str
blocked:
  description: A problem that reports failing GPU programs until that reboot.
  returned: always
  type: list
  elements: dict
unready:
  description: Reasons why the loaded driver does not serve all GPUs and their fabric yet.
  returned: always
  type: list
  elements: str
notes:
  description: Parts left unchanged with the reason, a required reboot, and requirements of Secure Boot.
  returned: always
  type: list
  elements: str
found:
  description:
    - Detected state, as C(loaded) (version of the loaded driver), C(kernel_release), C(gpus) (on the PCI bus), C(slurm)
      (running daemons), C(units), C(make_log).
  returned: always
  type: dict
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.nvidia.driver_host import read_answering_gpus, read_driver
from ..module_utils.nvidia.driver_plan import driver_plan
from ..module_utils.nvidia.driver_state import unready_reasons

SHOWN = ("loaded", "kernel_release", "gpus", "slurm", "units", "make_log")


def unready(hardware: dict[str, Any], plan: dict[str, Any], found: dict[str, Any]) -> list[str]:
    """Return why the loaded driver cannot be used yet; the GPUs are asked only where there may be an answer."""
    if not plan["kernel"] or not (found["gpus"] or found["loaded"]):
        return []
    gpus = read_answering_gpus() if found["loaded"] == plan["version"] else {}
    services = {item["name"] for item in plan["services"]}
    fabric_manager = "nvidia-fabricmanager" in services
    return unready_reasons(hardware, plan["version"], found, gpus, fabric_manager=fabric_manager)


def main() -> None:
    """Run the module."""
    dictionary: dict[str, Any] = {"type": "dict", "required": True}
    module = AnsibleModule(
        argument_spec={
            "host": {"type": "str", "required": True},
            "hardware": dictionary,
            "settings": dictionary,
            "system": dictionary,
            "locked": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    host, hardware, system = (module.params[key] for key in ("host", "hardware", "system"))
    settings = {**module.params["settings"], "check_mode": module.check_mode}
    names = driver_plan(host, hardware, settings, system)
    found = read_driver(module, names["names"], names["family"])
    settings["locked"] = str(module.params["locked"].get(names["key"], ""))
    plan = driver_plan(host, hardware, settings, system, found)
    plan["files"] += plan.pop("drop_ins")
    shown = {key: found[key] for key in SHOWN}
    module.exit_json(
        changed=False, **plan, locked=settings["locked"], found=shown, unready=unready(hardware, plan, found)
    )


if __name__ == "__main__":
    main()
