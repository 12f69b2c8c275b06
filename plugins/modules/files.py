"""Module that keeps several small text files in one go."""

from __future__ import annotations

DOCUMENTATION = r"""
module: files
author: busbar contributors
short_description: Keep several text files in one go
description:
  - Writes, corrects or removes any number of small text files with one execution per host.
    A loop over M(ansible.builtin.template) costs two executions per file and host, also when nothing changes.
  - Every file is validated before the first one is replaced, and each is replaced whole.
  - Missing parent directories are made with mode 0755.
  - With O(pending), a run that dies before the files came into force is made good by the next one.
extends_documentation_fragment: busbar.cluster.attributes.diff
options:
  files:
    description: The files, in the order in which they are written.
    type: list
    elements: dict
    required: true
    suboptions:
      path:
        description: Absolute path.
        type: path
        required: true
      content:
        description: The whole text. Required unless the file is to be absent.
        type: str
      mode:
        description: Permissions, in octal as a string.
        type: str
        default: "0644"
      owner:
        description: Name of the owner. Empty leaves it as it is.
        type: str
        default: root
      group:
        description: Name of the group. Empty leaves it as it is.
        type: str
        default: root
      validate:
        description: Command that checks the new text; C(%s) stands for a file that holds it.
        type: str
      hidden:
        description: Whether the diff keeps silent about its text. A task that writes a secret needs C(no_log) as well.
        type: bool
        default: false
      state:
        description: Whether the file should be there.
        type: str
        choices: [present, absent]
        default: present
  pending:
    description:
      - Absolute path of a note, mode 0600, written before the first file changes; it holds the former texts.
      - While it is there, the files that it names count as changed, with the text of before the first change.
        Whoever applies the files removes it.
    type: path
  recorded:
    description:
      - Whether C(busbar provision uninstall) takes the change back. Files of the provisioning host, which is no node,
        are not recorded.
    type: bool
    default: true
  unsafe_writes:
    description: Write in place where a file cannot be replaced, such as a bind mount of a container.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Write limits and kernel settings
  busbar.cluster.files:
    files:
      - path: /etc/security/limits.d/80-busbar.conf
        content: "* - memlock unlimited\n"
      - path: /etc/sudoers.d/busbar
        content: "%admins ALL=(ALL:ALL) ALL\n"
        mode: "0440"
        validate: visudo -cf %s
  register: __example_files
"""

RETURN = r"""
changed_paths:
  description:
    - The files that were (or in check mode would be) written, corrected or removed, and those that O(pending) names.
  returned: always
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.common.host_files import FILE_OPTIONS, keep_files


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "files": {"type": "list", "elements": "dict", "required": True, "options": FILE_OPTIONS},
            "pending": {"type": "path"},
            "recorded": {"type": "bool", "default": True},
            "unsafe_writes": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    try:
        changed_paths, diff = keep_files(
            module,
            module.params["files"],
            module.params["pending"],
            unsafe_writes=module.params["unsafe_writes"],
            recorded=module.params["recorded"],
        )
    except (OSError, ValueError) as exc:
        module.fail_json(msg=f"files: {exc}")
    module.exit_json(changed=bool(changed_paths), changed_paths=changed_paths, diff=diff)


if __name__ == "__main__":
    main()
