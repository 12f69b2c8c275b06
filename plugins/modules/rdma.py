"""Module that configures a host for RDMA."""

from __future__ import annotations

DOCUMENTATION = r"""
module: rdma
author: busbar contributors (!UNKNOWN)
short_description: Configure a host for RDMA
description:
  - Writes limits of locked memory, names of devices and interfaces, modules to load at boot, RoCE defaults and
    addresses of IP over InfiniBand, and removes stale ones. Refuses O(settings) that do not fit the host.
  - Changes nothing while one of O(packages) is missing. Does not load modules or restart services.
extends_documentation_fragment: busbar.cluster.attributes.diff
options:
  host: {description: Name of the host., type: str, required: true}
  packages: {description: Packages that must be installed first., type: list, elements: str, default: []}
  settings:
    description: Options of the role rdma, as roles/rdma/tasks/files.yml passes them.
    type: dict
    required: true
"""

EXAMPLES = r"""
- busbar.cluster.rdma: {host: gpu1, settings: "{{ rdma_settings }}"}
"""

RETURN = r"""
changed_paths: {description: "Written, corrected or removed files.", returned: success, type: list, elements: str}
missing_packages: {description: Packages that are not installed., returned: success, type: list, elements: str}
container: {description: 'Type of the container, empty on a machine.', returned: success, type: str}
load: {description: Modules to load now., returned: success, type: list, elements: str}
commands: {description: Commands that assign addresses., returned: success, type: list, elements: list}
notes: {description: Skipped steps and findings., returned: success, type: list, elements: str}
missing_nics: {description: Declared NICs without an active port., returned: success, type: str}
nccl_gid: {description: C(index) and the C(note) that explains it., returned: success, type: dict}
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.common.host_files import keep_files
from ..module_utils.common.problems import problem_lines, refusal
from ..module_utils.nvidia.rdma_host import read_rdma
from ..module_utils.nvidia.rdma_plan import nccl_gid_index, nic_problems, rdma_plan

OPTIONS: dict[str, Any] = {
    "host": {"type": "str", "required": True},
    "packages": {"type": "list", "elements": "str", "default": []},
    "settings": {"type": "dict", "required": True},
}


def found_on(module: AnsibleModule) -> dict[str, Any]:
    """Return the RDMA facts of the host."""
    settings = module.params["settings"]
    addresses = [str(entry.get("address") or "").partition("/")[0] for entry in settings["ipoib"]]
    addresses = [address for address in addresses if address]
    return read_rdma(module, module.params["packages"], addresses, subnet_manager=settings["opensm"])


def missing_nics(host: str, nics: list[dict[str, Any]], found: dict[str, Any]) -> str:
    """Describe the declared NICs that are missing on this host."""
    return "\n".join(line for item in nic_problems(host, nics, found) for line in problem_lines(item, host))


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=OPTIONS, supports_check_mode=True)
    host, settings = module.params["host"], module.params["settings"]
    found = found_on(module)
    plan = rdma_plan(host, settings, found)
    if plan["problems"]:
        module.fail_json(**refusal("This step changed nothing:", plan["problems"]))
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
        missing_nics=missing_nics(host, settings["nics"], found),
        nccl_gid=nccl_gid_index(settings["gid_index"], found["ports"]),
    )


if __name__ == "__main__":
    main()
