"""Module that plans the changes to the NVIDIA driver of a host from its current state."""

from __future__ import annotations

DOCUMENTATION = r"""
module: nvidia_driver
author: busbar contributors (!UNKNOWN)
short_description: Plan the installation of the NVIDIA driver on a host
description:
  - Reads package manager, repositories, kernel, firmware, services and GPUs, and derives from the hardware and the
    declaration the required packages, files, modules and services, pending reboots, and problems.
  - Works without a driver and without a GPU.
extends_documentation_fragment: busbar.cluster.attributes.read_only
options:
  host: {description: Name of the host., type: str, required: true}
  hardware: {description: Hardware profile of the host., type: dict, required: true}
  settings: {description: Checked options of the role nvidia_driver., type: dict, required: true}
  system: {description: "C(distribution), C(major) and C(container).", type: dict, required: true}
  locked: {description: "Driver versions to which the cluster is locked, by branch.", type: dict, default: {}}
"""

EXAMPLES = r"""
- busbar.cluster.nvidia_driver: {host: gpu1, hardware: {}, settings: {}, system: {}}
"""

RETURN = r"""
version: {description: Target version; empty if unknown in check mode., returned: always, type: str}
offer: {description: Available versions of the branch., returned: always, type: dict}
problems: {description: Reasons why the driver cannot be installed., returned: always, type: list, elements: dict}
unready: {description: Reasons why the driver does not serve all GPUs yet., returned: always, type: list, elements: str}
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.nvidia.driver_host import read_answering_gpus, read_driver, unready_reasons
from ..module_utils.nvidia.driver_plan import driver_plan

SHOWN = ("loaded", "kernel_release", "gpus", "slurm", "units", "make_log")


def unready(hardware: dict[str, Any], plan: dict[str, Any], found: dict[str, Any]) -> list[str]:
    """Return why the loaded driver cannot be used yet; the GPUs are queried only if the driver version matches."""
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
