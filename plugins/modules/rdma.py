"""Module that sets a host up for RDMA."""

from __future__ import annotations

DOCUMENTATION = r"""
module: rdma
author: busbar contributors
short_description: Configure a host for RDMA
description:
  - Reads the RDMA devices of a host, its network and its packages, and refuses options that do not fit.
  - Writes the limits of locked memory, the names of devices and interfaces, the modules to load at boot, the RoCE
    defaults of connections, and the addresses of IP over InfiniBand. Removes those of former runs.
  - Changes nothing while one of O(packages) is missing, and returns the missing ones.
  - Does not load modules, restart services or configure interfaces at run time.
notes:
  - Writes C(/etc/security/limits.d/85-busbar-rdma.conf), C(/etc/modules-load.d/busbar-rdma.conf),
    C(/etc/udev/rules.d/60-rdma-persistent-naming.rules), C(/etc/udev/rules.d/90-busbar-ipoib.rules),
    C(/etc/systemd/system/busbar-roce.service), C(/usr/local/lib/busbar/roce_defaults),
    C(/etc/systemd/system/slurmd.service.d/busbar-rdma.conf), links in C(/etc/systemd/network), and interfaces in
    C(/etc/network/interfaces.d) or C(/etc/NetworkManager/system-connections).
extends_documentation_fragment: busbar.cluster.attributes.diff
options:
  host:
    description: Name of the host, for messages.
    type: str
    required: true
  packages:
    description: Packages that must be installed first. A virtual package counts as missing.
    type: list
    elements: str
    default: []
  nics:
    description: NICs that the hardware declares, each with C(count), C(gbps) and C(rdma).
    type: list
    elements: dict
    default: []
  source:
    description: V(distribution) or V(doca).
    type: str
    required: true
  memlock:
    description: Limit of locked memory, in KiB or V(unlimited). If empty, it stays unchanged.
    type: str
    required: true
  kernel_managed:
    description: Whether to manage names, modules and interfaces; V(auto), V(always) or V(never).
    type: str
    required: true
  modules:
    description: Modules to load at boot.
    type: list
    elements: str
    default: []
  naming:
    description: Naming of devices without an entry in O(names); V(fallback), V(pci), V(guid) or V(kernel).
    type: str
    required: true
  names:
    description: Device names by PCI address.
    type: dict
    default: {}
  interface_names:
    description: Interface names by PCI address.
    type: dict
    default: {}
  ipoib:
    description: Interfaces of IP over InfiniBand, each with C(name), C(address), C(mode) and C(mtu).
    type: list
    elements: dict
    default: []
  networks:
    description: Networks that must contain the addresses of O(ipoib).
    type: list
    elements: str
    default: []
  opensm:
    description: Whether this host runs the subnet manager.
    type: bool
    default: false
  roce_mode:
    description: Default RoCE version of connections. If empty, it stays unchanged.
    type: str
    default: ''
  roce_tos:
    description: Default type of service of RoCE connections. If negative, it stays unchanged.
    type: int
    default: -1
  gid_index:
    description: GID index of NCCL on RoCE; V(auto), a number, or empty for none.
    type: str
    default: ''
"""

EXAMPLES = r"""
- name: Write limits, names, modules and interfaces of RDMA
  busbar.cluster.rdma:
    host: "{{ inventory_hostname }}"
    source: distribution
    memlock: unlimited
    kernel_managed: auto
    naming: fallback
    modules: [ib_umad, ib_ipoib, rdma_ucm, mlx5_ib]
  register: __example_rdma
"""

RETURN = r"""
changed_paths:
  description: Files that were (or in check mode would be) written, corrected or removed.
  returned: success
  type: list
  elements: str
missing_packages:
  description: Those of O(packages) that are not installed. If there is one, nothing is changed.
  returned: success
  type: list
  elements: str
container:
  description: Type of the container. Empty if the host is not a container.
  returned: success
  type: str
load:
  description: Modules to load now.
  returned: success
  type: list
  elements: str
commands:
  description: Commands that assign missing or changed addresses to interfaces.
  returned: success
  type: list
  elements: list
notes:
  description: Skipped steps with the reason, changes that need a reboot, and findings to check.
  returned: success
  type: list
  elements: str
missing_nics:
  description: Declared NICs without an active port at their rate, as text with the remedy.
  returned: success
  type: str
nccl_gid:
  description: C(index) (empty if none was chosen), and C(note), the reason for an empty index.
  returned: success
  type: dict
problems:
  description: Reasons for changing nothing, each with C(hosts), C(key), C(problem) and C(remedy).
  returned: failure
  type: list
  elements: dict
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.common.host_files import keep_files
from ..module_utils.common.problems import problem_lines
from ..module_utils.common.refusal import refusal
from ..module_utils.nvidia.rdma_gid import nccl_gid_index
from ..module_utils.nvidia.rdma_host import read_rdma
from ..module_utils.nvidia.rdma_plan import nic_problems, rdma_plan

TEXT: dict[str, Any] = {"type": "str", "required": True}
TEXTS: dict[str, Any] = {"type": "list", "elements": "str", "default": []}
OPTIONS: dict[str, Any] = {
    "host": TEXT,
    "packages": TEXTS,
    "nics": {"type": "list", "elements": "dict", "default": []},
    "source": TEXT,
    "memlock": TEXT,
    "kernel_managed": TEXT,
    "modules": TEXTS,
    "naming": TEXT,
    "names": {"type": "dict", "default": {}},
    "interface_names": {"type": "dict", "default": {}},
    "ipoib": {"type": "list", "elements": "dict", "default": []},
    "networks": TEXTS,
    "opensm": {"type": "bool", "default": False},
    "roce_mode": {"type": "str", "default": ""},
    "roce_tos": {"type": "int", "default": -1},
    "gid_index": {"type": "str", "default": ""},
}


def found_on(module: AnsibleModule) -> dict[str, Any]:
    """Return what the host has for RDMA."""
    given = module.params
    addresses = [str(entry.get("address") or "").partition("/")[0] for entry in given["ipoib"]]
    asked = [address for address in addresses if address]
    return read_rdma(module, given["packages"], asked, subnet_manager=given["opensm"])


def missing_nics(host: str, nics: list[dict[str, Any]], found: dict[str, Any]) -> str:
    """Return the declared NICs that are missing, as text; they are this one host's."""
    return "\n".join(line for item in nic_problems(host, nics, found) for line in problem_lines(item, host))


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=OPTIONS, supports_check_mode=True)
    host = module.params["host"]
    found = found_on(module)
    plan = rdma_plan(host, module.params, found)
    if plan["problems"]:
        module.fail_json(**refusal("Nothing was changed:", plan["problems"]))
    missing = [name for name in module.params["packages"] if name not in found["packages"]]
    changed_paths: list[str] = []
    diff: list[dict[str, str]] = []
    if module.check_mode or not missing:
        try:
            changed_paths, diff = keep_files(module, plan["files"])
        except OSError as exc:
            module.fail_json(msg=f"{host}: {exc}")
    waiting = [item for item in plan["apply"] if item["pending"] or item["path"] in changed_paths]
    module.exit_json(
        changed=bool(changed_paths),
        changed_paths=changed_paths,
        diff=diff,
        missing_packages=missing,
        container=found["container"],
        load=plan["load"],
        commands=[command for item in waiting for command in item["commands"]],
        notes=plan["skipped"] + plan["notes"],
        missing_nics=missing_nics(host, module.params["nics"], found),
        nccl_gid=nccl_gid_index(module.params["gid_index"], found["ports"]),
    )


if __name__ == "__main__":
    main()
