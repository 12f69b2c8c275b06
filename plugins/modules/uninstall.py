"""Module that brings a host back to what it was before busbar."""

from __future__ import annotations

DOCUMENTATION = r"""
module: uninstall
author: busbar contributors
short_description: Bring a host back to what it was before busbar
description:
  - Reads the record that busbar's modules have made while they changed the host, and undoes it. Packages that busbar
    installed go, unless one that it did not install needs them; files that it replaced come back, those that it made
    go; so do users, groups, units, repositories and holds.
  - What was there before, homes, and O(data) stay. A file that was changed by hand since is kept in
    C(/var/lib/busbar/kept).
  - A host that busbar changed before it kept a record is refused. Without a sign of busbar nothing is done.
  - The record goes last, so a run that was killed is finished by the next one.
notes:
  - Removes C(/var/lib/busbar), except for C(/var/lib/busbar/kept) and O(data).
extends_documentation_fragment: busbar.cluster.attributes.diff
options:
  host:
    description: Name of the host, for messages.
    type: str
    required: true
  data:
    description: Directories with data that are never touched, whoever made them.
    type: list
    elements: path
    default: []
  users:
    description: Users whom builtin modules made for services.
    type: list
    elements: str
    default: []
  units:
    description: Units of the system that are enabled and started, and that get their former state back.
    type: list
    elements: str
    default: []
  blocks:
    description: Blocks that builtin modules set in files, each with C(path), C(begin) and C(end).
    type: list
    elements: dict
    default: []
    suboptions:
      path:
        description: The file.
        type: path
        required: true
      begin:
        description: The line before the block.
        type: str
        required: true
      end:
        description: The line after it.
        type: str
        required: true
  made:
    description: Links, empty directories and files that builtin modules made.
    type: list
    elements: dict
    default: []
    suboptions:
      path:
        description: The path.
        type: path
        required: true
      content:
        description: The whole text of a file; one with another text stays.
        type: str
        default: ""
      any_text:
        description: Whether a file is busbar's whatever its text.
        type: bool
        default: false
  replaced:
    description: Files and links that builtin modules replaced.
    type: list
    elements: path
    default: []
"""

EXAMPLES = r"""
- name: Bring the host back
  busbar.cluster.uninstall:
    host: "{{ inventory_hostname }}"
    data: [/shared, /var/lib/mysql]
"""

RETURN = r"""
removed:
  description: What was (or in check mode would be) removed.
  returned: always
  type: list
  elements: str
restored:
  description: What was (or in check mode would be) given its former state.
  returned: always
  type: list
  elements: str
kept:
  description: What stays, with the reason.
  returned: always
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.common.host_baseline import signs_of_busbar
from ..module_utils.common.host_record import RECORD, Record, open_record
from ..module_utils.uninstall.host import Host, RefusedError

REMEDY = (
    "reinstall the machine, or take it out of the cluster with `busbar provision remove_nodes` and leave it as it is. "
    "Nothing was changed"
)


def refuse_older(module: AnsibleModule, signs: list[str]) -> None:
    """Refuse a host whose former state nobody noted."""
    module.fail_json(
        msg=f"{module.params['host']}: busbar has changed this host before it kept a record of that "
        f"({', '.join(signs)}), so what was there before is not known.\n    remedy: {REMEDY}"
    )


def bring_back(module: AnsibleModule, record: Record) -> None:
    """Undo what the record says, or refuse."""
    if record.baseline is None:
        if signs := signs_of_busbar(RECORD):
            refuse_older(module, signs)
        module.exit_json(changed=False, removed=[], restored=[], kept=[])
        return
    if record.baseline["older"]:
        refuse_older(module, record.baseline["older"])
    if not module.check_mode:
        record.settle(module, killed=True)
    host = Host(module, record)
    try:
        host.run()
    except RefusedError as exc:
        module.fail_json(msg=f"{module.params['host']}: {exc}\n    remedy: put that right and run this again")
    result = {
        "changed": bool(host.removed or host.restored),
        "removed": list(dict.fromkeys(host.removed)),
        "restored": list(dict.fromkeys(host.restored)),
        "kept": list(dict.fromkeys(host.kept)),
        "diff": host.diff,
    }
    if host.problems:
        module.fail_json(msg=f"{module.params['host']}: not done yet: {'; '.join(host.problems)}", **result)
    module.exit_json(**result)


def main() -> None:
    """Run the module."""
    names = {"type": "list", "elements": "str", "default": []}
    paths = {"type": "list", "elements": "path", "default": []}
    path, text = {"type": "path", "required": True}, {"type": "str", "required": True}
    block = {"path": path, "begin": text, "end": text}
    made = {"path": path, "content": {"type": "str", "default": ""}, "any_text": {"type": "bool", "default": False}}
    module = AnsibleModule(
        argument_spec={
            "host": text,
            "data": paths,
            "users": names,
            "units": names,
            "blocks": {"type": "list", "elements": "dict", "default": [], "options": block},
            "made": {"type": "list", "elements": "dict", "default": [], "options": made},
            "replaced": paths,
        },
        supports_check_mode=True,
    )
    try:
        if module.check_mode or not RECORD.exists():
            bring_back(module, Record(RECORD))
        with open_record() as record:
            bring_back(module, record)
    except (OSError, ValueError) as exc:
        module.fail_json(msg=f"{module.params['host']}: {exc}")


if __name__ == "__main__":
    main()
