"""Module that chooses how RDMA reaches the memory of GPUs."""

from __future__ import annotations

DOCUMENTATION = r"""
module: gpudirect
author: busbar contributors
short_description: Configure RDMA access to GPU memory
description:
  - Reads the driver, the kernel and the PCI bus, and chooses between dma-buf and nvidia_peermem, or refuses a mode that
    the host does not support.
  - Writes the list of modules to load at boot, unless the host is a container. If the mode is not known yet, it leaves
    the files unchanged.
  - Does not load the modules.
extends_documentation_fragment: busbar.cluster.attributes.diff
options:
  host:
    description: Name of the host, for messages.
    type: str
    required: true
  mode:
    description: V(auto), V(dmabuf), V(nvidia_peermem) or V(none).
    type: str
    required: true
  rdma:
    description: Whether the hardware declares RDMA NICs.
    type: bool
    required: true
  gdrcopy:
    description: Whether to load the module of GDRCopy, too.
    type: bool
    default: false
  modules_file:
    description: modules-load.d file with the modules to load at boot.
    type: path
    required: true
  order_file:
    description: modprobe.d file with the dependencies between them.
    type: path
    required: true
"""

EXAMPLES = r"""
- name: Choose how RDMA reaches GPUs
  busbar.cluster.gpudirect:
    host: "{{ inventory_hostname }}"
    mode: auto
    rdma: true
    modules_file: /etc/modules-load.d/busbar-gpudirect.conf
    order_file: /etc/modprobe.d/busbar-gpudirect.conf
  register: __example_gpudirect
"""

RETURN = r"""
mode:
  description: The chosen mode. Empty if it is not known yet.
  returned: success
  type: str
container:
  description: Type of the container. Empty if the host is not a container.
  returned: success
  type: str
load:
  description: Modules to load now. Empty while no driver is loaded, or in a container.
  returned: success
  type: list
  elements: str
acs_redirects:
  description: Whether ACS on a bridge redirects traffic between GPUs and NICs through the root complex.
  returned: success
  type: bool
notes:
  description: The mode with its reason, and properties of the PCI bus that slow down copies.
  returned: success
  type: list
  elements: str
problems:
  description: Reasons for changing nothing, each with C(hosts), C(key), C(problem) and C(remedy).
  returned: failure
  type: list
  elements: dict
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.common.host_files import keep_files
from ..module_utils.common.problems import make_problem
from ..module_utils.common.refusal import refusal
from ..module_utils.nvidia.gpudirect import bus_notes, choose_mode
from ..module_utils.nvidia.gpudirect_host import read_gpudirect

HEADER = "#\n# Ansible managed\n#\n"
ORDER = "softdep nvidia_peermem pre: nvidia ib_uverbs\n"


def boot_files(paths: dict[str, str], modules: list[str]) -> list[dict[str, str]]:
    """Return the files that have the modules loaded at boot."""
    texts = {
        paths["modules_file"]: "".join(f"{name}\n" for name in modules),
        paths["order_file"]: ORDER if "nvidia_peermem" in modules else "",
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
            "modules_file": {"type": "path", "required": True},
            "order_file": {"type": "path", "required": True},
        },
        supports_check_mode=True,
    )
    host, found = module.params["host"], read_gpudirect(module)
    chosen = choose_mode(module.params["mode"], {**found, "rdma": module.params["rdma"]})
    if chosen["problem"]:
        problem = make_problem([host], "gpudirect_mode", chosen["problem"], chosen["remedy"])
        module.fail_json(**refusal("Nothing was changed.", [problem]))
    modules = ["nvidia_peermem"] if chosen["mode"] == "nvidia_peermem" else []
    modules += ["gdrdrv"] if module.params["gdrcopy"] else []
    is_loaded = {"nvidia_peermem": found["peermem_loaded"], "gdrdrv": found["gdrcopy_loaded"]}
    diff: list[dict[str, str]] = []
    if not found["container"] and (chosen["mode"] or module.params["gdrcopy"]):
        try:
            _paths, diff = keep_files(module, boot_files(module.params, modules))
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
