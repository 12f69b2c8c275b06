"""The vars of uninstall.yml name all paths, units and accounts that builtin modules create on hosts."""

from __future__ import annotations

import re
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator

TOP = Path(__file__).resolve().parents[2]
DECLARED: dict[str, Any] = yaml.safe_load((TOP / "playbooks/vars/uninstall.yml").read_text())
WRITERS = {
    "ansible.builtin.blockinfile": "path",
    "ansible.builtin.copy": "dest",
    "ansible.builtin.file": "path",
    "ansible.builtin.get_url": "dest",
    "ansible.builtin.group": "name",
    "ansible.builtin.lineinfile": "path",
    "ansible.builtin.pip": "virtualenv",
    "ansible.builtin.systemd_service": "name",
    "ansible.builtin.template": "dest",
    "ansible.builtin.unarchive": "dest",
    "ansible.builtin.user": "name",
}
# The uninstallation never removes these.
DATA = " ".join(map(str, (*DECLARED["__uninstall_served"], *DECLARED["__uninstall_of_users"])))
# The uninstallation removes or keeps these trees as a whole, whichever role wrote the files.
BELOW = (
    *("/var/lib/busbar/", "/var/cache/busbar/", "/scratch", "{{ miniforge_path }}/", "{{ slurm_state_directory }}"),
    *("{{ __jupyterhub_environment }}", "{{ __jupyterhub_folder.path }}"),
)
# Names that depend on a loop item or on the host.
BY_LOOP = {
    ("journal_remote", "services.yml"): "systemd-journal-upload, systemd-journal-remote",
    ("hosts", "processes.yml"): "the group busbar-proc, with which the membership of polkitd goes",
    ("jupyterhub", "hub.yml"): "units that the role writes",
    ("lmod", "cache.yml"): "the cache, in __uninstall_made",
    ("nfs_server", "directories.yml"): "in __uninstall_exports",
    ("node_pull", "main.yml"): "units that the role writes, files below /var/lib/busbar",
    ("nvidia_driver", "check.yml"): "nvidia-persistenced, nvidia-fabricmanager",
    ("nvidia_driver", "install.yml"): "nvidia-persistenced, nvidia-fabricmanager",
    ("pxe_server", "server.yml"): "units that the role writes, files below /var/cache/busbar",
    ("rdma", "opensm.yml"): "opensm, opensmd",
    ("slurm", "munge.yml"): "the key of an adopted cluster, which stays",
    ("slurm", "install.yml"): "of a package's directory, with which it goes",
    ("slurm_metrics", "collect.yml"): "links in __uninstall_made, units that the role writes, the user busbar-metrics",
    ("users", "accounts.yml"): "in users_accounts and users_groups",
    ("validation", "run.yml"): "in __uninstall_made, and below /var/lib/busbar",
    ("validation", "user.yml"): "a group of the system, of validation_user",
    ("validation", "user_create.yml"): "validation_user",
}


def load(path: Path) -> Any:  # noqa: ANN401 - YAML has no fixed type
    return yaml.safe_load(path.read_text()) or {} if path.exists() else {}


def tasks(listed: object) -> Iterator[dict[str, Any]]:
    """Yield all tasks of a file, also those in blocks."""
    for task in listed if isinstance(listed, list) else []:
        yield task
        for part in ("block", "always"):
            yield from tasks(task.get(part))


def resolved(text: str, values: dict[str, Any]) -> str:
    """Return a text with text and number variables filled in; others stay."""

    def value(match: re.Match[str]) -> str:
        found = values.get(match[1], "")
        if isinstance(found, bool) or not isinstance(found, (str, int)):
            return match[0]
        whole = resolved(str(found), values)
        return match[0] if not whole or "{{" in re.sub(r"{{ *\w+ *}}", "", whole) else whole

    text = re.sub(r"{{ *([A-Za-z_]\w*) *}}", value, text)
    return re.sub(r"{{ *item\b[^}]*}}", "*", text)


def written() -> Iterator[tuple[str, str, str, str]]:
    """Yield role, file, module and name of everything that builtin modules create on hosts."""
    for folder in sorted((TOP / "roles").iterdir()):
        files = (folder / name for name in ("defaults/main.yml", "vars/main.yml", "vars/Debian.yml"))
        values = {name: value for path in files for name, value in load(path).items()}
        for path in sorted({*(folder / "tasks").glob("*.yml")} - {folder / "tasks/remove.yml"}):
            for task in tasks(load(path)):
                module = next((key for key in task if "." in key), "")
                given = task.get(module)
                if module not in WRITERS or not isinstance(given, dict) or task.get("delegate_to") == "localhost":
                    continue
                if given.get("state") == "absent" or (module.endswith("systemd_service") and not given.get("enabled")):
                    continue
                name = given.get(WRITERS[module]) or given.get("dest") or ""
                yield folder.name, path.name, module, resolved(str(name), values)


def test_everything_that_builtin_modules_create_is_declared() -> None:
    paths = {
        re.sub(
            r"{{ *\w+ \| default\('(.*?)'\) *}}", r"\1", item["path"].replace(" | default(__uninstall_textfiles)", "")
        )
        for item in (*DECLARED["__uninstall_blocks"], *DECLARED["__uninstall_made"])
    }
    known = paths | {*DECLARED["__uninstall_services"]}
    units = {name.rpartition(".")[0] for name in DECLARED["__uninstall_units"]}
    unknown = [
        (role, file, module, name)
        for role, file, module, name in written()
        if (role, file) not in BY_LOOP
        and not any(
            fnmatch(name.replace("__slurm_account_groups_textfile_dir", "__uninstall_textfiles"), path)
            for path in known
        )
        and not name.startswith(BELOW)
        and not (name.strip("{ }*") and name.strip("{ }*") in DATA)
        and not (module.endswith("systemd_service") and (name.split(".")[0] in units or name.startswith("busbar-")))
        and not (module.endswith("systemd_service") and name in DECLARED["__uninstall_units"])
    ]
    assert unknown == []


def test_data_of_servers_is_declared() -> None:
    """Maintainer scripts of Debian's packages remove these when a package is purged."""
    served = " ".join(DECLARED["__uninstall_served"])
    slurm = [yaml.safe_load(path.read_text()) or {} for path in (TOP / "roles/slurm/vars").glob("*.yml")]
    for path in {found["__slurm_state_default"] for found in slurm if "__slurm_state_default" in found}:
        assert path in DECLARED["__uninstall_served"]
    for role, file, name in (
        ("alertmanager", "vars", "__alertmanager_storage"),
        ("prometheus", "defaults", "prometheus_storage_path"),
        ("backup", "defaults", "backup_directory"),
    ):
        assert yaml.safe_load((TOP / f"roles/{role}/{file}/main.yml").read_text())[name] in served


def test_each_exception_is_still_needed() -> None:
    assert {(role, file) for role, file, _module, _name in written()} >= BY_LOOP.keys()
