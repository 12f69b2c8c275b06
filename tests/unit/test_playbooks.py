"""add_nodes runs the roles of a site run on a new node, and on other hosts only those that a join needs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import yaml
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar

if TYPE_CHECKING:
    from collections.abc import Iterator

TOP = Path(__file__).resolve().parents[2]
PLAYBOOKS = TOP / "playbooks"
GROUPS = {
    "slurm_controller": ["ctl"],
    "slurm_database": ["db"],
    "slurm_login": ["login"],
    "slurm_compute": ["gpu1", "gpu2", "gpu3", "gpu4"],
    "nfs_server": ["nfs", "gpu3"],
    "nfs_client": ["login", "gpu1", "gpu2"],
    "monitoring": ["mon"],
}
# gpu3 is also a file server, and gpu4 also a time server.
TIME_SERVERS = ["ctl", "gpu4"]
NEW, OLD = "gpu2", "gpu1"
# Intended differences between a site run and a join on a new node.
SITE_ONLY = {
    # At its end, a site run excludes nodes with jobs from the validation; a new node has no jobs.
    "__validation_ends_site": True,
}
JOIN_ONLY = {
    # A join does not wait for a reboot.
    "nvidia_driver_reboot": False,
}
# Validation options of nodes behind the gate, in a site run too.
BOTH = {"all_roles_follow": True}
ADMISSION = {
    # New nodes are measured with known good nodes; alone, a bad node is indistinguishable from a bad link.
    "validation_nodes": "{{ ansible_play_hosts_all }}",
    "validation_partners": 2,
    # Nodes behind the gate are drained.
    "validation_out_of_service": True,
}
# Roles that a join runs on each host that serves the new node.
SERVER = ["hosts/main", "ssh/main", "firewall/main", "fail2ban/main"]
SECRETS = "preflight/secrets"
# Options that an operator of update_nodes may set.
UPDATE_NODES = yaml.safe_load((PLAYBOOKS / "vars/update_nodes.yml").read_text())


class Play(NamedTuple):
    """A play after all imports, with its variables and the playbook that contains it."""

    text: dict[str, Any]
    variables: dict[str, Any]
    playbook: str


@pytest.fixture(name="inventory")
def _inventory(tmp_path: Path) -> Path:
    path = tmp_path / "hosts.yml"
    children: dict[str, Any] = {group: {"hosts": {name: {} for name in hosts}} for group, hosts in GROUPS.items()}
    path.write_text(yaml.safe_dump({"all": {"children": children}}))
    return path


def plays(playbook: str, given: dict[str, Any] | None = None) -> Iterator[Play]:
    """Yield the plays that run without --tags in order, imported plays included; variables of an import win."""
    path = str(PLAYBOOKS / f"{playbook}.yml")
    for entry in DataLoader().load_from_file(path, trusted_as_template=True):
        variables = entry.get("vars", {}) | (given or {})
        imported = entry.get("ansible.builtin.import_playbook")
        if imported:
            yield from plays(imported.removeprefix("busbar.cluster.").removesuffix(".yml"), variables)
        elif "never" not in entry.get("tags", []):
            yield Play(entry, variables, playbook)


def calls(tasks: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the roles that tasks call, as ROLE/FILE, also in blocks and in task files."""
    for task in tasks:
        for word in ("import_role", "include_role"):
            role = task.get(f"ansible.builtin.{word}")
            if role:
                files = [(role["name"], role.get("tasks_from", "main"))]
                if "{{" in role["name"]:
                    known = UPDATE_NODES["__update_nodes_known_roles"]
                    files = [UPDATE_NODES["__update_nodes_parts"].get(name, (name, "main")) for name in known]
                yield from (named(name, file, task.get("vars")) for name, file in files)
        for word in ("import_tasks", "include_tasks"):
            file = task.get(f"ansible.builtin.{word}")
            if file:
                name = Path(file["file"] if isinstance(file, dict) else file).name
                yield from calls(yaml.safe_load((PLAYBOOKS / "tasks" / name).read_text(encoding="utf-8")))
        for part in ("block", "rescue", "always"):
            yield from calls(task.get(part, []))


def named(role: str, file: str, variables: dict[str, Any] | None) -> str:
    """Return ROLE/FILE and the options of the call."""
    options = [f"{name}={value}" for name, value in (variables or {}).items()]
    return " ".join([f"{role.removeprefix('busbar.cluster.')}/{file}", *options])


def roles(play: Play) -> list[str]:
    """Return the roles of a play in the order in which they run, without roles that have only defaults."""
    text = play.text
    own = [named(role["role"], "main", role.get("vars")) for role in text.get("roles", [])]
    own = [role for role in own if (TOP / "roles" / role.partition("/")[0] / "tasks").is_dir()]
    tasks = text.get("tasks", []) + text.get("post_tasks", [])
    return [*calls(text.get("pre_tasks", [])), *own, *calls(tasks)]


def hosts(play: Play, inventory: Path, new: str = "") -> set[str]:
    """Return the hosts of a play after a node was found to be new."""
    manager = InventoryManager(loader=DataLoader(), sources=[str(inventory)])
    if new:
        join(manager, "busbar_new_nodes", [new])
        join(manager, "busbar_new_and_servers", new_and_servers(manager))
    variables = play.variables | {"groups": manager.get_groups_dict()}
    pattern = Templar(loader=DataLoader(), variables=variables).template(play.text["hosts"])
    return {str(host.name) for host in manager.get_hosts(pattern)}


def join(manager: InventoryManager, group: str, names: list[str]) -> None:
    """Add hosts to a group as add_host does."""
    manager.add_group(group)
    for name in names:
        manager.add_host(name, group)


def new_and_servers(manager: InventoryManager) -> list[str]:
    """Return the hosts that the playbook adds to the group of new nodes and servers."""
    first = next(play for play in plays("add_nodes") if play.playbook == "add_nodes")
    task = next(task for task in first.text["tasks"] if "new nodes and the servers" in task["name"])
    variables = {**task["vars"], "groups": manager.get_groups_dict(), "hosts_time_servers": TIME_SERVERS}
    return list(Templar(loader=DataLoader(), variables=variables).template(task["loop"]))


def given(playbook: str, host: str, inventory: Path, new: str = "") -> list[str]:
    """Return the roles that a playbook runs on a host, in order."""
    return [role for play in plays(playbook) if host in hosts(play, inventory, new) for role in roles(play)]


def options(playbook: str) -> dict[str, Any]:
    """Return the variables that a playbook passes to imported playbooks, without those that select hosts."""
    variables: dict[str, Any] = {}
    for play in plays(playbook):
        variables |= play.variables
    chosen = {"target", "target_cluster", "target_members"}
    return {name: value for name, value in variables.items() if name not in chosen}


def test_new_node_gets_the_roles_of_a_site_run_in_the_same_order(inventory: Path) -> None:
    site = given("site", NEW, inventory)
    assert {f"{name}/main" for name in ("users", "nvidia_driver", "pyxis", "node_exporter", "validation")} <= {*site}
    assert given("add_nodes", NEW, inventory, NEW) == site


@pytest.mark.parametrize(("tags", "hosts"), [(["all"], "all"), (["validation"], "all"), (["admit"], "all:!all")])
def test_admission_by_tag_validates_only_new_nodes(tags: list[str], hosts: str) -> None:
    *_before, cluster = plays("put_into_service")
    templar = Templar(loader=DataLoader(), variables={**cluster.variables, "ansible_run_tags": tags})
    assert templar.template(cluster.text["hosts"]) == f"slurm_compute:&{hosts}"


@pytest.mark.parametrize("chosen", [("--skip-tags", "validation"), ("--tags", "slurm")])
def test_the_validation_user_exists_before_slurm_associates_it(inventory: Path, chosen: tuple[str, str]) -> None:
    """An association gets its UID when slurmctld loads it; jobs of a user who has no UID at that time are rejected."""
    playbook = [f"{Path(sys.executable).parent}/ansible-playbook", "-i", str(inventory), str(PLAYBOOKS / "slurm.yml")]
    listed = subprocess.run([*playbook, "--list-tasks", *chosen], capture_output=True, text=True, check=True).stdout
    assert listed.index("user | Read the accounts of this host") < listed.index("Configure accounting")


def test_the_options_of_a_join_differ_only_as_intended() -> None:
    assert options("site") == SITE_ONLY | BOTH | ADMISSION
    assert options("add_nodes") == JOIN_ONLY | BOTH | ADMISSION


def test_site_run_admits_new_nodes_before_it_validates_all_nodes() -> None:
    *_before, admission, cluster = [play for play in plays("site") if "validation/main" in roles(play)]
    assert "busbar_untested_nodes" in admission.variables["target"]
    assert cluster.variables.keys() == SITE_ONLY.keys() | {"target"}


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        (OLD, ["hosts/names", "ssh/members", "firewall/main"]),
        ("db", SERVER),
        ("ctl", ["slurm/preflight", *SERVER, "slurm/main slurm_components=['controller']"]),
        ("login", [*SERVER, "slurm/main slurm_components=['login']"]),
        ("nfs", ["nfs_server/preflight", *SERVER, "nfs_server/main"]),
        ("gpu3", ["nfs_server/preflight", *SERVER, "nfs_server/main"]),
        ("gpu4", SERVER),
        ("mon", [*SERVER, "prometheus/targets"]),
    ],
)
def test_other_hosts_run_only_the_roles_that_a_join_needs(inventory: Path, host: str, expected: list[str]) -> None:
    assert [role for role in given("add_nodes", host, inventory, NEW) if role != SECRETS] == expected


def test_node_is_configured_before_slurmctld_lists_it_and_listed_before_slurmd_starts(inventory: Path) -> None:
    order = [
        (role, host)
        for play in plays("add_nodes")
        for role in roles(play)
        for host in hosts(play, inventory, NEW) & {NEW, "ctl", "login"}
    ]
    steps = [
        (SECRETS, NEW),
        ("slurm/munge", NEW),
        ("slurm/prolog_epilog", NEW),
        ("enroot/prolog", NEW),
        ("slurm/main slurm_components=['controller']", "ctl"),
        ("slurm/main slurm_components=['login']", "login"),
        ("slurm/main slurm_components=['compute']", NEW),
        ("slurm/verify", NEW),
        ("validation/main", NEW),
    ]
    places = [order.index(step) for step in steps]
    assert places == sorted(places)


def test_without_new_nodes_only_secrets_are_checked(inventory: Path) -> None:
    for host in sorted({host for group in GROUPS.values() for host in group}):
        assert {*given("add_nodes", host, inventory)} == {SECRETS}


def test_playbook_is_valid_without_a_group_of_new_nodes(inventory: Path) -> None:
    command = [sys.executable, "-m", "ansible", "playbook", "-i", str(inventory), str(PLAYBOOKS / "add_nodes.yml")]
    done = subprocess.run([*command, "--list-hosts"], check=False, cwd=TOP, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "): Validate the nodes" in done.stdout
    assert "WARNING" not in done.stderr


@pytest.mark.parametrize("path", sorted(PLAYBOOKS.glob("*.yml")), ids=lambda path: path.stem)
def test_every_role_call_names_an_existing_file(path: Path) -> None:
    for play in plays(path.stem):
        for role, _, file in (call.split()[0].partition("/") for call in roles(play)):
            assert (TOP / "roles" / role / "tasks" / f"{file}.yml").is_file(), f"{play.playbook}: {role}/{file}"
