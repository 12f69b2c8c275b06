"""Module that keeps one file of exports and applies it without dropping a client."""

from __future__ import annotations

DOCUMENTATION = r"""
module: nfs_exports
author: busbar contributors
short_description: Keep a file of NFS exports and apply it
description:
  - Tries the new file first. C(exportfs) has no dry run, and an error in one line makes it drop B(all) exports; so it
    is run in a mount namespace of its own, with a copy of C(/etc/exports.d) and an empty table, where it checks
    syntax, clients and directories, and neither the real table nor any client sees it.
  - Then writes the file and applies it with C(exportfs -ra), which leaves clients that are still allowed alone. When
    that fails the old file is put back and applied again.
  - Proves that every export is in the table of C(exportfs -s), and applies the file again where one is missing.
notes:
  - Writes C(/etc/exports.d/busbar.exports).
extends_documentation_fragment: busbar.cluster.attributes.diff
options:
  path:
    description: The file, in C(/etc/exports.d).
    type: path
    default: /etc/exports.d/busbar.exports
  header:
    description: Comment that the file begins with.
    type: str
    default: ""
  exports:
    description: What is exported, as items of C(nfs_server_exports). Without any and without O(header) the file goes.
    type: list
    elements: dict
    required: true
  clients:
    description: Who may mount what an export without clients of its own offers.
    type: list
    elements: str
    default: []
  options:
    description: Options that those of each export are merged over.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- name: Export the shared tree
  busbar.cluster.nfs_exports:
    exports: [{path: /shared}]
    clients: [10.0.0.0/24]
    options: [rw, sync, no_subtree_check, root_squash]
"""

RETURN = r"""
exported:
  description: What is exported, as C(exportfs -s) says it; empty in check mode on a host without the NFS server.
  returned: always
  type: list
  elements: str
"""

import os
import shutil
import tempfile
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.common.baseline import before_write, take_baseline
from ..module_utils.storage.nfs_exports import exports_file, missing_exports

STATE = "/var/lib/nfs"
# The table of exports is a file below /var/lib/nfs; exportfs(8).
TRIAL = 'mount --bind "$1" "$2" && mount --bind "$3" "$4" && exportfs -ra && echo "--- shown" && exportfs -s'
MARK = "--- shown\n"


def exportfs(module: AnsibleModule, *arguments: str) -> tuple[int, str, str]:
    """Return status, output and errors of exportfs; a name that it cannot resolve counts as an error."""
    status, out, err = module.run_command(["exportfs", *arguments], environ_update={"LC_ALL": "C.UTF-8"})
    return (status or int("Failed to" in err)), out, err.strip()


def trial_error(module: AnsibleModule, path: Path, content: str) -> str:
    """Return why exportfs would refuse the new file together with those of others; '' when it would not."""
    with tempfile.TemporaryDirectory(prefix="busbar-exports-") as folder:
        state, exports = Path(folder, "state"), Path(folder, "exports.d")
        state.mkdir()
        exports.mkdir()
        for other in path.parent.glob("*.exports"):
            shutil.copy(other, exports / other.name)
        (exports / path.name).write_text(content)
        command = ["unshare", "--mount", "--propagation", "private", "sh", "-c", TRIAL, "trial"]
        command += [str(state), STATE, str(exports), str(path.parent)]
        status, out, err = module.run_command(command, environ_update={"LC_ALL": "C.UTF-8"})
    if status or "Failed to" in err:
        return " ".join(err.split()) or f"exportfs ends with {status}"
    missing = missing_exports(content, out.partition(MARK)[2])
    return f"exportfs leaves out {describe(missing)}" if missing else ""


def already_there(content: str) -> str:
    """Return the exports of directories that exist; in check mode the others are still to be made."""
    lines = content.replace("\\\n", " ").splitlines()
    return "".join(f"{line}\n" for line in lines if line.startswith("#") or Path(line.split(" ")[0]).is_dir())


def describe(exports: list[tuple[str, str]]) -> str:
    """Return exports in words: '/shared for 10.0.0.0/24'."""
    return ", ".join(f"{path} for {client}" for path, client in exports)


def write(module: AnsibleModule, path: Path, content: str | None) -> None:
    """Replace the file whole; no content removes it."""
    before_write(module, {str(path): content or None})
    if not content:
        path.unlink(missing_ok=True)
        return
    descriptor, name = tempfile.mkstemp(prefix="busbar-")
    module.add_cleanup_file(name)
    with os.fdopen(descriptor, "w") as stream:
        stream.write(content)
    os.chmod(name, 0o644)  # noqa: PTH101 - a string from Ansible's own helpers
    module.atomic_move(name, str(path))


def apply(module: AnsibleModule, path: Path, before: str | None, content: str) -> None:
    """Write the file and apply it; put the old one back when that fails."""
    write(module, path, content)
    status, _, err = exportfs(module, "-ra")
    if status:
        write(module, path, before)
        exportfs(module, "-ra")
        module.fail_json(msg=f"{path}: exportfs refuses it, and the old exports were put back: {' '.join(err.split())}")


def keep(module: AnsibleModule, path: Path, content: str) -> tuple[bool, str | None, str]:
    """Bring file and table to their state; return whether that changes something, the old text and the table."""
    before = path.read_text(errors="replace") if path.exists() else None
    differs = (before or "") != content
    if module.get_bin_path("exportfs") is None:
        if not module.check_mode:
            module.fail_json(msg="there is no exportfs: install the NFS server first")
        return differs, before, ""
    if differs:
        if not module.check_mode:
            take_baseline(module)
            path.parent.mkdir(mode=0o755, exist_ok=True)
        tried = already_there(content) if module.check_mode else content
        error = trial_error(module, path, tried) if tried and path.parent.is_dir() else ""
        if error:
            module.fail_json(msg=f"{path} was not written, nothing is changed: {error}")
    missing = missing_exports(content, exportfs(module, "-s")[1])
    if module.check_mode or not (differs or missing):
        return differs or bool(missing), before, exportfs(module, "-s")[1]
    apply(module, path, before, content)
    _, shown, _ = exportfs(module, "-s")
    missing = missing_exports(content, shown)
    if missing:
        module.fail_json(msg=f"{path}: applied, but exportfs does not show {describe(missing)}")
    return True, before, shown


def wanted_text(module: AnsibleModule) -> str:
    """Return the text of the file."""
    given = module.params
    nameless = [export for export in given["exports"] if not export.get("path")]
    if nameless:
        module.fail_json(msg=f"Nothing was changed. nfs_server_exports: {nameless[0]} has no path. Remedy: set it")
    return f"{given['header']}{exports_file(given['exports'], given['clients'], given['options'])}"


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "default": "/etc/exports.d/busbar.exports"},
            "header": {"type": "str", "default": ""},
            "exports": {"type": "list", "elements": "dict", "required": True},
            "clients": {"type": "list", "elements": "str", "default": []},
            "options": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    path, content = Path(module.params["path"]), wanted_text(module)
    try:
        changed, before, shown = keep(module, path, content)
    except (OSError, ValueError) as exc:
        module.fail_json(msg=f"nfs_exports: {exc}")
    headers = {"before_header": str(path), "after_header": str(path)}
    diff = {"before": before or "", "after": content, **headers} if (before or "") != content else {}
    module.exit_json(changed=changed, exported=[line for line in shown.splitlines() if line.strip()], diff=diff)


if __name__ == "__main__":
    main()
