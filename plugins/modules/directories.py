"""Module that makes directories, and corrects only what is declared of those that are there."""

from __future__ import annotations

DOCUMENTATION = r"""
module: directories
author: busbar contributors
short_description: Make directories without touching what is in them
description:
  - Makes missing directories with one execution per host. Their missing parents belong to root, with mode 0755,
    whatever the directory itself is given; M(ansible.builtin.file) gives parents the mode of the last one.
  - Of a directory that is there, only what is declared is corrected, and nothing below it.
extends_documentation_fragment: busbar.cluster.attributes.diff
options:
  directories:
    description: The directories.
    type: list
    elements: dict
    required: true
    suboptions:
      path:
        description: Absolute path.
        type: path
        required: true
      owner:
        description: Owner; left alone when not given, root for a new directory.
        type: str
      group:
        description: Group; left alone when not given, root for a new directory.
        type: str
      mode:
        description: Permissions in octal, as a string; left alone when not given, 0755 for a new directory.
        type: str
"""

EXAMPLES = r"""
- name: Make the shared tree
  busbar.cluster.directories:
    directories:
      - {path: /shared}
      - {path: /shared/data, group: research, mode: "2770"}
"""

RETURN = r"""
changed_paths:
  description: The directories that were (or in check mode would be) made or corrected.
  returned: always
  type: list
  elements: str
"""

from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.common.host_files import make_directory


def keep(module: AnsibleModule, item: dict[str, Any]) -> bool:
    """Bring one directory to its state; return whether that changes something."""
    path = Path(item["path"])
    if path.is_symlink() or (path.exists() and not path.is_dir()):
        module.fail_json(msg=f"{path} is not a directory: remove it, or declare another path")
    made = not path.exists()
    if made:
        if module.check_mode:
            return True
        make_directory(module, path)
    changed = module.set_owner_if_different(str(path), item["owner"], made)
    changed = module.set_group_if_different(str(path), item["group"], changed)
    return bool(module.set_mode_if_different(str(path), item["mode"], changed))


def main() -> None:
    """Run the module."""
    options = {name: {"type": "str"} for name in ("owner", "group", "mode")}
    module = AnsibleModule(
        argument_spec={
            "directories": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "options": {"path": {"type": "path", "required": True}, **options},
            },
        },
        supports_check_mode=True,
    )
    try:
        changed = [item["path"] for item in module.params["directories"] if keep(module, item)]
    except OSError as exc:
        module.fail_json(msg=f"directories: {exc}")
    diff = {"before": "", "after": "".join(f"{path}\n" for path in changed), "after_header": "directories"}
    module.exit_json(changed=bool(changed), changed_paths=changed, diff=diff if changed else {})


if __name__ == "__main__":
    main()
