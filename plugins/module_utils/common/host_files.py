"""Validate and replace several files on a host together, for `templates` and other modules."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import os
import shlex
import shutil
import tempfile
import zipfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .baseline import before_making, before_write

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ansible.module_utils.basic import AnsibleModule

__all__ = ["FILE_OPTIONS", "current_text", "keep_files", "make_directory"]

FILE_OPTIONS: dict[str, Any] = {
    "path": {"type": "path", "required": True},
    "content": {"type": "str"},
    "packed": {"type": "str"},
    "mode": {"type": "str", "default": "0644"},
    "owner": {"type": "str", "default": "root"},
    "group": {"type": "str", "default": "root"},
    "validate": {"type": "str"},
    "hidden": {"type": "bool", "default": False},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
}
# With this error handler, binary content stays unchanged when it is decoded and encoded again.
_EXACT = "surrogateescape"
_DIRECTORY = "(directory)\n"
_DEFAULTS = {key: option.get("default") for key, option in FILE_OPTIONS.items()}


def current_text(path: Path, errors: str = "replace") -> str | None:
    """Return the text of a file, or None if it does not exist."""
    try:
        return path.read_bytes().decode(errors=errors)
    except FileNotFoundError:
        return None


def write_temporary(module: AnsibleModule, text: str) -> str:
    """Write text to a private temporary file, which Ansible removes at the end, and return its path."""
    descriptor, name = tempfile.mkstemp(prefix="busbar-")
    module.add_cleanup_file(name)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(text.encode(errors=_EXACT))
    return name


def validate(module: AnsibleModule, item: dict[str, Any], temporary: str) -> None:
    """Fail the module unless the validation command accepts the new content."""
    words = [word.replace("%s", temporary) for word in shlex.split(item["validate"])]
    if module.check_mode and module.get_bin_path(words[0]) is None:
        return  # outside check mode, an earlier task has installed the program
    status, out, err = module.run_command(words)
    if status != 0:
        reason = (err or out).strip()
        module.fail_json(msg=f"{item['path']} was not written: `{shlex.join(words)}` rejected it: {reason}")


def set_attributes(module: AnsibleModule, item: dict[str, Any]) -> bool:
    """Correct mode, owner and group of a file; return whether any differed."""
    changed = module.set_mode_if_different(item["path"], item["mode"], changed=False)
    changed = module.set_owner_if_different(item["path"], item["owner"] or None, changed)
    return bool(module.set_group_if_different(item["path"], item["group"] or None, changed))


@contextlib.contextmanager
def umask(mask: int) -> Iterator[None]:
    """Set the umask within a `with` block."""
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def keep(
    module: AnsibleModule, item: dict[str, Any], before: str | None, temporary: str | None, *, unsafe_writes: bool
) -> bool:
    """Write, correct or remove one file; return whether it changed."""
    path = Path(item["path"])
    if item["state"] == "absent":
        if before is not None and not module.check_mode:
            if before == _DIRECTORY and path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
        return before is not None
    if temporary is None:
        return set_attributes(module, item)
    if not module.check_mode:
        with umask(0o022):
            path.parent.mkdir(parents=True, exist_ok=True)
        os.chmod(temporary, int(item["mode"], 8))  # noqa: PTH101 - the path is a string
        if before is not None:
            set_attributes(module, item)  # otherwise the new content briefly has the old mode and owner
        with umask(0o077):  # Ansible gives a new file the mode of the umask
            module.atomic_move(temporary, item["path"], unsafe_writes=unsafe_writes)
        set_attributes(module, item)
    return True


def plan(module: AnsibleModule, files: Sequence[dict[str, Any]]) -> list[tuple[dict[str, Any], str | None, str | None]]:
    """Return the options, the current content and the validated temporary file of each file."""
    steps = []
    for item in files:
        if not os.path.isabs(item["path"]) or (item["state"] == "present" and item["content"] is None):  # noqa: PTH117
            module.fail_json(msg=f"{item['path']}: path must be absolute, and state present requires content")
        path = Path(item["path"])
        is_directory = item["state"] == "absent" and path.is_dir() and not path.is_symlink()
        before = _DIRECTORY if is_directory else current_text(path, _EXACT)
        temporary = None
        if item["state"] == "present" and before != item["content"]:
            temporary = write_temporary(module, item["content"])
            if item["validate"]:
                validate(module, item, temporary)
        steps.append((item, before, temporary))
    return steps


def read_pending(module: AnsibleModule, files: Sequence[Mapping[str, Any]], note: str | None) -> dict[str, str | None]:
    """Return the previous content of each file that was written but not applied; None if the file did not exist."""
    text = current_text(Path(note)) if note else None
    try:
        noted = json.loads(text) if text else {}
    except ValueError as exc:
        module.fail_json(msg=f"{note} is damaged ({exc}): remove it and restart its service")
    return {item["path"]: noted[item["path"]] for item in files if item["path"] in noted}


def note_pending(module: AnsibleModule, note: str | None, former: dict[str, str | None]) -> None:
    """Save the previous file contents until a handler applies the new ones."""
    if not note or not former or module.check_mode:
        return
    path = Path(note)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = write_temporary(module, json.dumps(former))
    with umask(0o077):
        module.atomic_move(temporary, str(path))
    path.chmod(0o600)


def keep_files(
    module: AnsibleModule,
    files: Sequence[Mapping[str, Any]],
    pending: str | None = None,
    *,
    unsafe_writes: bool = False,
) -> tuple[list[str], list[dict[str, str]]]:
    """Write or remove files; return the paths that changed or have not been applied, and their diffs.

    Args:
        module: the running module.
        files: entries with the keys of `FILE_OPTIONS`; only `path` is required.
        pending: path of a JSON file that records files written but not applied.
        unsafe_writes: whether to write in place if a file cannot be replaced.

    Raises:
        OSError: a file cannot be read or written.
    """
    changed_paths, diff = [], []
    given = [unpacked({**_DEFAULTS, **item}) for item in files]
    left = read_pending(module, given, pending)
    steps = plan(module, given)
    changes = {
        item["path"]: before
        for item, before, temporary in steps
        if temporary or (item["state"] == "absent" and before is not None)
    }
    texts = {item["path"]: None if item["state"] == "absent" else item["content"] for item, _, _ in steps}
    before_write(module, {path: text and text.encode(errors=_EXACT) for path in changes for text in [texts[path]]})
    note_pending(module, pending, changes | left)
    for item, before, temporary in steps:
        if keep(module, item, before, temporary, unsafe_writes=unsafe_writes) or item["path"] in left:
            changed_paths.append(item["path"])
            former = left.get(item["path"], before) or ""
            after = "" if item["state"] == "absent" else item["content"]
            if item["hidden"]:
                former, after = ("(not shown)\n" if text else "" for text in (former, after))
            former, after = shown(former), shown(after)
            headers = {"before_header": item["path"], "after_header": item["path"]}
            diff.append({"before": former, "after": after, **headers})
    return changed_paths, diff


def unpacked(item: dict[str, Any]) -> dict[str, Any]:
    """Return an entry with its compressed content unpacked."""
    if item["packed"] is None:
        return item
    return {**item, "content": zlib.decompress(base64.b64decode(item["packed"])).decode(errors=_EXACT)}


def shown(text: str) -> str:
    """Return content for the diff: the members if it is a zip archive (such as a zipapp), otherwise the text."""
    data = text.encode(errors=_EXACT)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = archive.infolist()
    except zipfile.BadZipFile:
        return data.decode(errors="replace")
    return "".join(f"{each.filename}: {each.file_size} bytes, CRC {each.CRC:08x}\n" for each in members)


def make_directory(module: AnsibleModule, path: Path) -> None:
    """Create a directory and its missing parents with mode 0755, regardless of the umask."""
    if missing := [each for each in (path, *path.parents) if not each.exists()]:
        before_making(module, "directory", *missing)
        with umask(0o022):
            path.mkdir(parents=True)
