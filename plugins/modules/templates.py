"""Module behind the action `busbar.cluster.templates`: keeps the files that the action rendered."""

from __future__ import annotations

DOCUMENTATION = r"""
module: templates
author: busbar contributors
short_description: Keep the files of a role that the task lists
description:
  - Renders all templates on the provisioning host, as M(ansible.builtin.template) does, and writes, corrects or removes
    the files with one execution on the host. All are validated before the first one is replaced, each whole.
    A loop over M(ansible.builtin.template) costs two executions per file and host, also when nothing changes.
  - Missing parent directories are created with mode 0755.
  - The templates of a role lie where their files lie on the host. C(/etc/slurm/slurm.conf) is rendered from
    C(templates/etc/slurm/slurm.conf.j2), or copied from C(files/etc/slurm/slurm.conf).
  - The diff of a program lists its members with size and checksum.
  - A template that is missing, a file that is listed twice, and a key that is not known are refused.
extends_documentation_fragment: busbar.cluster.attributes.diff
options:
  files:
    description: The files, in the order in which they are written.
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
          - Template below C(templates/), when it ends with C(.j2), else file below C(files/), which is copied as it is.
          - With a slash at its end it is a folder below C(files/), whose files go into the directory O(files[].dest).
          - By default the path of O(files[].dest).
        type: str
      content:
        description: The whole text, instead of a template.
        type: str
      program:
        description:
          - Python files below C(files/). The first is the entry point of a program; the others are modules that are
            added to it.
          - The program is a zipapp of these files and of what they import from C(module_utils) by the name of the
            collection. It runs with C(/usr/bin/python3 -IB), and its default O(files[].mode) is V(0755).
        type: list
        elements: str
      vars:
        description: Variables that the template has besides those of the task.
        type: dict
        default: {}
      when:
        description: Whether this entry counts. Where it does not, the file stays as it is.
        type: bool
        default: true
      state:
        description:
          - Whether the file should be there. The template of a file that should not is not rendered.
          - V(absent) also removes a directory with its contents.
        type: str
        choices: [present, absent]
        default: present
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
  more:
    description:
      - Files that a filter or lookup has listed, with C(path), C(content), and as in O(files) C(mode), C(owner),
        C(group), C(validate), C(hidden) and C(state). They are written first.
      - One with C(src), and perhaps C(vars), has its text from that template.
    type: list
    elements: dict
    default: []
  pending:
    description:
      - Absolute path of a note, mode 0600, written before the first file changes; it holds the former texts.
      - While it exists, the files that it names count as changed, with the text of before the first change, so that the
        next run completes one that died. The task that applies the files removes the note.
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
