"""Module that chooses how RDMA accesses GPU memory."""

from __future__ import annotations

DOCUMENTATION = r"""
module: gpudirect
author: busbar contributors (!UNKNOWN)
short_description: Configure RDMA access to GPU memory
description:
  - Chooses between dma-buf and nvidia_peermem based on driver, kernel and PCI bus. Fails if O(mode) is not possible.
  - Writes the list of modules to load at boot, unless the host is a container. Does not load them.
extends_documentation_fragment: busbar.cluster.attributes.diff
options:
  host: {description: Name of the host., type: str, required: true}
  mode: {description: "V(auto), V(dmabuf), V(nvidia_peermem) or V(none).", type: str, required: true}
  rdma: {description: Whether the hardware profile has RDMA NICs., type: bool, required: true}
  gdrcopy: {description: Whether to load the module of GDRCopy., type: bool, default: false}
"""

EXAMPLES = r"""
- busbar.cluster.gpudirect: {host: gpu1, mode: auto, rdma: true}
"""

RETURN = r"""
container: {description: Type of the container or empty., returned: success, type: str}
load: {description: Modules to load now., returned: success, type: list, elements: str}
acs_redirects: {description: Whether ACS redirects traffic between GPUs and NICs., returned: success, type: bool}
notes: {description: Chosen mode with its reason and slow PCI settings., returned: success, type: list, elements: str}
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.common.host_files import keep_files
from ..module_utils.common.problems import make_problem, refusal
from ..module_utils.nvidia.gpudirect import bus_notes, choose_mode
from ..module_utils.nvidia.gpudirect_host import read_gpudirect

# Modules to load at boot, and the dependencies between them.
MODULES_FILE = "/etc/modules-load.d/busbar-gpudirect.conf"
ORDER_FILE = "/etc/modprobe.d/busbar-gpudirect.conf"
HEADER = "#\n# Ansible managed\n#\n"
ORDER = "softdep nvidia_peermem pre: nvidia ib_uverbs\n"


def boot_files(modules: list[str]) -> list[dict[str, str]]:
    """Return the files that load the modules at boot."""
    texts = {
        MODULES_FILE: "".join(f"{name}\n" for name in modules),
        ORDER_FILE: ORDER if "nvidia_peermem" in modules else "",
    }
    return [
        {"path": path, "content": f"{HEADER}{text}"} if text else {"path": path, "state": "absent"}
        for path, text in texts.items()
    ]


def main() -> None:
    """Run the module."""
    text: dict[str, Any] = {"type": "str", "required": True}
    module = AnsibleModule(
        argument_spec={
            "host": text,
            "mode": text,
            "rdma": {"type": "bool", "required": True},
            "gdrcopy": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    host, found = module.params["host"], read_gpudirect(module)
    chosen = choose_mode(module.params["mode"], {**found, "rdma": module.params["rdma"]})
    if chosen["problem"]:
        problem = make_problem([host], "gpudirect_mode", chosen["problem"], chosen["remedy"])
        module.fail_json(**refusal("This step changed nothing.", [problem]))
    modules = ["nvidia_peermem"] if chosen["mode"] == "nvidia_peermem" else []
    modules += ["gdrdrv"] if module.params["gdrcopy"] else []
    is_loaded = {"nvidia_peermem": found["peermem_loaded"], "gdrdrv": found["gdrcopy_loaded"]}
    diff: list[dict[str, str]] = []
    if not found["container"] and (chosen["mode"] or module.params["gdrcopy"]):
        try:
            _paths, diff = keep_files(module, boot_files(modules))
        except OSError as exc:
            module.fail_json(msg=f"{host}: {exc}")
    kernel = f"the host is a container ({found['container']}): kernel modules are not loaded"
    module.exit_json(
        changed=bool(diff),
        diff=diff,
        mode=chosen["mode"],
        container=found["container"],
        load=[name for name in modules if not is_loaded[name] and found["loaded"] and not found["container"]],
        acs_redirects=any(found["acs"].values()),
        notes=[
            f"{chosen['mode'] or 'undecided'}: {chosen['reason']}",
            *([kernel] if found["container"] else []),
            *bus_notes(found),
        ],
    )


if __name__ == "__main__":
    main()
