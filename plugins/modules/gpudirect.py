"""Module that chooses how RDMA reaches the memory of GPUs."""

from __future__ import annotations

DOCUMENTATION = r"""
module: gpudirect
author: busbar contributors
short_description: Choose how RDMA reaches the memory of GPUs
description:
  - Reads the driver, the kernel and the PCI bus, and chooses between dma-buf and nvidia_peermem, or refuses a mode that
    the host cannot have.
  - Writes which modules are loaded at boot, on a host with a kernel of its own. Where nothing can be decided yet, it
    leaves what there is.
  - Loading the modules is left to the caller.
extends_documentation_fragment: busbar.cluster.attributes.diff
options:
  host:
    description: Name of the host, as the errors call it.
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
    description: Whether the module of GDRCopy is loaded, too.
    type: bool
    default: false
  modules_file:
    description: File that says what is loaded at boot.
    type: path
    required: true
  order_file:
    description: File of modprobe that says what is loaded before.
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
  description: The mode. Empty when it cannot be known yet.
  returned: success
  type: str
container:
  description: Kind of container that this is. Empty on a host with a kernel of its own.
  returned: success
  type: str
load:
  description: Modules that are to be loaded now. None while no driver is loaded, or in a container.
  returned: success
  type: list
  elements: str
acs_redirects:
  description: Whether a bridge above GPUs and NICs sends what they want of each other over the root complex.
  returned: success
  type: bool
notes:
  description: The mode with its reason, and what of the PCI bus slows copies down.
  returned: success
  type: list
  elements: str
problems:
  description: Why nothing was done, each with C(hosts), C(key), C(problem) and C(remedy).
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
    kernel = f"its kernel is that of its host ({found['container']}): no module is loaded"
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
