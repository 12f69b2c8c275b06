"""The SELinux boolean for homes on NFS is set, with a stand-in for the module, which needs libraries of SELinux."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from ansible_collections.busbar.cluster.plugins.module_utils.storage.mounts import nfs_home_mounts
from busbar.paths import collection
from plays import played

if TYPE_CHECKING:
    from pathlib import Path

# Fails like ansible.posix.seboolean: if SELinux is disabled, or the policy lacks the boolean.
SEBOOLEAN = """\
#!/usr/bin/python3
import json
from pathlib import Path
from ansible.module_utils.basic import AnsibleModule

spec = {"name": {"type": "str", "required": True}, "state": {"type": "bool", "required": True}}
spec |= {"persistent": {"type": "bool", "default": False}, "ignore_selinux_state": {"type": "bool", "default": False}}
module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
kept = Path("FOLDER/booleans.json")
known = json.loads(kept.read_text())
if known is None:
    module.fail_json(msg="SELinux is disabled on this host.")
if module.params["name"] not in known:
    module.fail_json(msg=f"SELinux boolean {module.params['name']} is not defined in persistent policy")
changed = known[module.params["name"]] != module.params["state"]
if changed and module.params["persistent"] and not module.check_mode:
    kept.write_text(json.dumps({**known, module.params["name"]: module.params["state"]}))
module.exit_json(changed=changed)
"""
PACKAGES = """\
from ansible.module_utils.basic import AnsibleModule

AnsibleModule(argument_spec={"name": {"type": "list"}}, supports_check_mode=True).exit_json(changed=False)
"""
HOMES = [{"type": "nfs", "src": "srv:/shared", "path": "/shared"}]


@pytest.mark.parametrize(
    ("entries", "base", "paths"),
    [
        (HOMES, "/shared/home", ["/shared"]),
        (HOMES, "/shared", ["/shared"]),
        (HOMES, "/home", []),
        (HOMES, "/shared2/home", []),
        # Each group has its own server.
        ([{"type": "nfs", "path": "/home/physics"}, {"type": "nfs", "path": "/home/chemistry"}], "/home", 2),
        ([{"type": "lustre", "path": "/home"}], "/home", []),
        ([], "/home", []),
    ],
)
def test_mounts_with_homes(entries: list[dict[str, Any]], base: str, paths: list[str] | int) -> None:
    found = nfs_home_mounts(entries, base)
    assert (len(found) if isinstance(paths, int) else found) == paths


def play(folder: Path, *options: str, status: str, boolean: object) -> tuple[str, Any]:
    """Run the tasks on this machine; return the output in one line, and the booleans afterwards."""
    (folder / "booleans.json").write_text(json.dumps(boolean))
    library = folder / "collections/ansible_collections/ansible/posix/plugins/modules"
    library.mkdir(parents=True, exist_ok=True)
    (library / "seboolean.py").write_text(SEBOOLEAN.replace("FOLDER", str(folder)))
    role = collection() / "roles/storage_mounts"
    tasks = (role / "tasks/selinux.yml").read_text().replace("busbar.cluster.packages", "packages")
    (folder / "library").mkdir(exist_ok=True)
    (folder / "library/packages.py").write_text(PACKAGES)
    own = yaml.safe_load((role / "vars/main.yml").read_text())
    distribution = yaml.safe_load((role / "vars/RedHat.yml").read_text())
    known = {"ansible_facts": {"selinux": {"status": status}}} if status else {"ansible_facts": {"selinux": False}}
    given = {
        "__storage_mounts_selinux": own["__storage_mounts_selinux"].replace("ansible_facts", "facts_given"),
        "__storage_mounts_selinux_packages": distribution["__storage_mounts_selinux_packages"],
        "facts_given": known["ansible_facts"],
    }
    (folder / "tasks.yml").write_text(tasks.replace("not in ansible_facts", "not in facts_given"))
    lines = [{"hosts": "el", "gather_facts": False, "tasks": [{"ansible.builtin.include_tasks": "tasks.yml"}]}]
    collections = str(folder / "collections")
    _code, said = played(folder, lines, "el", *options, given=given, ANSIBLE_COLLECTIONS_PATH=collections)
    return said, json.loads((folder / "booleans.json").read_text())


def test_boolean_is_set_once_and_check_mode_only_reports(tmp_path: Path) -> None:
    off = {"use_nfs_home_dirs": False}
    said, after = play(tmp_path, "--check", status="enabled", boolean=off)
    assert ("changed=1" in said, after) == (True, off), said
    said, after = play(tmp_path, status="enabled", boolean=off)
    assert ("changed=1" in said, after) == (True, {"use_nfs_home_dirs": True}), said
    said, _ = play(tmp_path, status="enabled", boolean=after)
    assert "changed=0" in said
    assert "failed=0" in said


@pytest.mark.parametrize("status", ["disabled", "Missing selinux Python library", ""])
def test_hosts_without_selinux_are_left_alone(tmp_path: Path, status: str) -> None:
    said, _ = play(tmp_path, status=status, boolean=None)
    assert "failed=0" in said, said
    assert "changed=0" in said
