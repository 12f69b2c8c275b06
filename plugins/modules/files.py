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
attributes:
  check_mode:
    description: Can run in check mode and return changed status prediction without modifying target.
    support: full
  diff_mode:
    description: Will return details on what has changed (or possibly needs changing in check mode).
    support: full
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

import contextlib
import json
import os
import shlex
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible.module_utils.basic import AnsibleModule

if TYPE_CHECKING:
    from collections.abc import Iterator

OPTIONS: dict[str, Any] = {
    "path": {"type": "path", "required": True},
    "content": {"type": "str"},
    "mode": {"type": "str", "default": "0644"},
    "owner": {"type": "str", "default": "root"},
    "group": {"type": "str", "default": "root"},
    "validate": {"type": "str"},
    "hidden": {"type": "bool", "default": False},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
}


def current_text(path: Path) -> str | None:
    """Return the text of a file, or None when there is none."""
    try:
        return path.read_bytes().decode(errors="replace")
    except FileNotFoundError:
        return None


def write_temporary(module: AnsibleModule, text: str) -> str:
    """Return the path of a private file that holds the text; Ansible removes it in the end."""
    descriptor, name = tempfile.mkstemp(prefix="busbar-")
    module.add_cleanup_file(name)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(text.encode())
    return name


def validate(module: AnsibleModule, item: dict[str, Any], temporary: str) -> None:
    """Fail the module unless the file's own program accepts the new text."""
    words = [word.replace("%s", temporary) for word in shlex.split(item["validate"])]
    if module.check_mode and module.get_bin_path(words[0]) is None:
        return  # the program comes with a package that a real run would have installed by now
    status, out, err = module.run_command(words)
    if status != 0:
        reason = (err or out).strip()
        module.fail_json(msg=f"{item['path']} was not written: `{shlex.join(words)}` refuses it: {reason}")


def set_attributes(module: AnsibleModule, item: dict[str, Any]) -> bool:
    """Correct mode, owner and group of a file; return whether one of them differed."""
    changed = module.set_mode_if_different(item["path"], item["mode"], changed=False)
    changed = module.set_owner_if_different(item["path"], item["owner"] or None, changed)
    return bool(module.set_group_if_different(item["path"], item["group"] or None, changed))


@contextlib.contextmanager
def new_files_private() -> Iterator[None]:
    """Have new files belong to their maker alone: Ansible gives a file that was not there the mode of the umask."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


def keep(module: AnsibleModule, item: dict[str, Any], before: str | None, temporary: str | None) -> bool:
    """Bring one file to its state; return whether that changes something."""
    path = Path(item["path"])
    if item["state"] == "absent":
        if before is not None and not module.check_mode:
            path.unlink()
        return before is not None
    if temporary is None:
        return set_attributes(module, item)
    if not module.check_mode:
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        os.chmod(temporary, int(item["mode"], 8))  # noqa: PTH101 - a string from Ansible's own helpers
        if before is not None:
            set_attributes(module, item)  # or the new text would for a moment have the old mode and owner
        with new_files_private():
            module.atomic_move(temporary, item["path"], unsafe_writes=module.params["unsafe_writes"])
        set_attributes(module, item)
    return True


def plan(module: AnsibleModule) -> list[tuple[dict[str, Any], str | None, str | None]]:
    """Return for each file its options, its present text and the file with the new text, all of them validated."""
    steps = []
    for item in module.params["files"]:
        if not os.path.isabs(item["path"]) or (item["state"] == "present" and item["content"] is None):  # noqa: PTH117
            module.fail_json(msg=f"{item['path']}: the path must be absolute, and a file that is present needs content")
        before = current_text(Path(item["path"]))
        temporary = None
        if item["state"] == "present" and before != item["content"]:
            temporary = write_temporary(module, item["content"])
            if item["validate"]:
                validate(module, item, temporary)
        steps.append((item, before, temporary))
    return steps


def read_pending(module: AnsibleModule) -> dict[str, str | None]:
    """Return the former text of each file that was written but never came into force; None where there was no file."""
    text = current_text(Path(module.params["pending"])) if module.params["pending"] else None
    try:
        noted = json.loads(text) if text else {}
    except ValueError as exc:
        module.fail_json(msg=f"{module.params['pending']} is damaged ({exc}): remove it and restart its service")
    return {item["path"]: noted[item["path"]] for item in module.params["files"] if item["path"] in noted}


def note_pending(module: AnsibleModule, former: dict[str, str | None]) -> None:
    """Keep the former texts until somebody applies the new ones."""
    if not module.params["pending"] or not former or module.check_mode:
        return
    path = Path(module.params["pending"])
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = write_temporary(module, json.dumps(former))
    with new_files_private():
        module.atomic_move(temporary, str(path))
    path.chmod(0o600)


def keep_all(module: AnsibleModule) -> tuple[list[str], list[dict[str, str]]]:
    """Bring all files to their states; return the paths that changed or never came into force, and their texts."""
    changed_paths, diff = [], []
    pending = read_pending(module)
    steps = plan(module)
    changes = {
        item["path"]: before
        for item, before, temporary in steps
        if temporary or (item["state"] == "absent" and before is not None)
    }
    note_pending(module, changes | pending)
    for item, before, temporary in steps:
        if keep(module, item, before, temporary) or item["path"] in pending:
            changed_paths.append(item["path"])
            former = pending.get(item["path"], before) or ""
            after = "" if item["state"] == "absent" else item["content"]
            if item["hidden"]:
                former, after = ("(not shown)\n" if text else "" for text in (former, after))
            headers = {"before_header": item["path"], "after_header": item["path"]}
            diff.append({"before": former, "after": after, **headers})
    return changed_paths, diff


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "files": {"type": "list", "elements": "dict", "required": True, "options": OPTIONS},
            "pending": {"type": "path"},
            "unsafe_writes": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    try:
        changed_paths, diff = keep_all(module)
    except (OSError, ValueError) as exc:
        module.fail_json(msg=f"files: {exc}")
    module.exit_json(changed=bool(changed_paths), changed_paths=changed_paths, diff=diff)


if __name__ == "__main__":
    main()
