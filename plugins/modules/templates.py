"""Module behind the action `busbar.cluster.templates`: writes the files that the action rendered."""

from __future__ import annotations

DOCUMENTATION = r"""
module: templates
author: busbar contributors (!UNKNOWN)
short_description: Write the configuration files of a role
description:
  - Renders all templates on the provisioning host, as M(ansible.builtin.template) does, and writes, corrects or removes
    the files in a single execution on the host. Validates all files before it replaces the first. Each file is replaced
    atomically. A loop over M(ansible.builtin.template) needs two executions per file and host, even without changes.
  - Creates missing parent directories with mode 0755.
  - The path of a template equals the path on the host. C(/etc/slurm/slurm.conf) is rendered from
    C(templates/etc/slurm/slurm.conf.j2), or copied from C(files/etc/slurm/slurm.conf).
  - The diff of a zipapp lists its members with size and checksum.
  - Refuses missing templates, duplicate files and unknown keys.
extends_documentation_fragment: busbar.cluster.attributes.diff
options:
  files:
    description: Files to write, in this order.
    type: list
    elements: dict
    default: []
    suboptions:
      dest:
        description: Absolute path on the host.
        type: path
        required: true
      src:
        description:
          - Template below C(templates/) if it ends with C(.j2), else a file below C(files/), which is copied unchanged.
          - With a trailing slash, a folder below C(files/), whose files are written into the directory O(files[].dest).
          - By default the path of O(files[].dest).
        type: str
      content:
        description: Content of the file, instead of a template.
        type: str
      program:
        description:
          - Python files below C(files/). The first is the entry point of a program; the others are modules.
          - The program is a zipapp of these files and their imports from C(module_utils) by the name of the collection.
            It runs with C(/usr/bin/python3 -IB), and its default O(files[].mode) is V(0755).
        type: list
        elements: str
      vars:
        description: Additional variables for the template.
        type: dict
        default: {}
      when:
        description: Whether to process this entry. If false, the file stays unchanged.
        type: bool
        default: true
      state:
        description:
          - Whether the file must exist. Templates of absent files are not rendered.
          - V(absent) also removes a directory with its contents.
        type: str
        choices: [present, absent]
        default: present
      mode:
        description: Permissions, in octal as a string.
        type: str
        default: "0644"
      owner:
        description: Name of the owner. If empty, it stays unchanged.
        type: str
        default: root
      group:
        description: Name of the group. If empty, it stays unchanged.
        type: str
        default: root
      validate:
        description: Command that validates the new content; C(%s) stands for a temporary file with it.
        type: str
      hidden:
        description: Whether to hide the content in the diff. A task that writes a secret also needs C(no_log).
        type: bool
        default: false
  more:
    description:
      - Files from a filter or lookup, with C(path), C(content), and as in O(files) C(mode), C(owner), C(group),
        C(validate), C(hidden) and C(state). They are written first.
      - A file with C(src), and optionally C(vars), is rendered from that template.
    type: list
    elements: dict
    default: []
  pending:
    description:
      - Absolute path of a file (mode 0600) that is written before the first change and contains the previous contents.
      - While it exists, its files count as changed, so that the next run completes an interrupted one. The task that
        applies the files removes it.
    type: path
"""

EXAMPLES = r"""
- name: Write the configuration of Slurm
  busbar.cluster.templates:
    files:
      - {dest: /etc/slurm/cgroup.conf}
      - {dest: /etc/slurm/slurmdbd.conf, owner: slurm, mode: "0600", hidden: true}
      - {dest: /etc/slurm/gres.conf, state: "{{ 'present' if slurm_gpus else 'absent' }}"}
      - {dest: "{{ example_config }}", src: etc/example.conf.j2, validate: example --check %s}
  register: __example_written
"""

RETURN = r"""
changed_paths:
  description:
    - Files that were (or in check mode would be) written, corrected or removed, and those that O(pending) lists.
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
        },
        supports_check_mode=True,
    )
    try:
        changed_paths, diff = keep_files(module, module.params["files"], module.params["pending"])
    except (OSError, ValueError) as exc:
        module.fail_json(msg=f"templates: {exc}")
    module.exit_json(changed=bool(changed_paths), changed_paths=changed_paths, diff=diff)


if __name__ == "__main__":
    main()
