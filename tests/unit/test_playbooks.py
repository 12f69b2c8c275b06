"""A new node gets of add_nodes what a site run gives it, and the other hosts of the cluster only what a join needs."""

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
# gpu3 serves files, too, and gpu4 the time.
TIME_SERVERS = ["ctl", "gpu4"]
NEW, OLD = "gpu2", "gpu1"
# How a join differs on a new node, on purpose.
SITE_ONLY = {
    # At the end of a site run nodes with jobs are left out of the validation; a new node has none.
    "__validation_ends_site": True,
}
JOIN_ONLY = {
    # Nobody waits for a reboot in the middle of a join.
    "nvidia_driver_reboot": False,
}
# How the nodes behind the gate are validated, in a site run too.
BOTH = {"all_roles_follow": True}
ADMISSION = {
    # The new nodes are measured together with nodes that are known to be good: one could not tell them from a link.
    "validation_nodes": "{{ ansible_play_hosts_all }}",
    "validation_partners": 2,
    # The gate is a drain.
    "validation_out_of_service": True,
}
# What a join changes on all that serve the new node.
SERVER = ["hosts/main", "ssh/main", "firewall/main", "fail2ban/main"]
SECRETS = "preflight/secrets"
# Those that an operator of update_nodes may name.
UPDATE_NODES = yaml.safe_load((PLAYBOOKS / "vars/update_nodes.yml").read_text())


class Play(NamedTuple):
    """A play as it is after all imports, the variables that it is given and the playbook that it stands in."""

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
    """The plays that run without --tags in their order, imported ones among them; the variables of an import win."""
    path = str(PLAYBOOKS / f"{playbook}.yml")
    for entry in DataLoader().load_from_file(path, trusted_as_template=True):
        variables = entry.get("vars", {}) | (given or {})
        imported = entry.get("ansible.builtin.import_playbook")
        if imported:
            yield from plays(imported.removeprefix("busbar.cluster.").removesuffix(".yml"), variables)
        elif "never" not in entry.get("tags", []):
            yield Play(entry, variables, playbook)


def calls(tasks: list[dict[str, Any]]) -> Iterator[str]:
    """The roles that tasks call, as ROLE/FILE, also in blocks and in files of tasks."""
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
    """ROLE/FILE, and the options that it is called with."""
    options = [f"{name}={value}" for name, value in (variables or {}).items()]
    return " ".join([f"{role.removeprefix('busbar.cluster.')}/{file}", *options])


def roles(play: Play) -> list[str]:
    """The roles of a play in the order in which they run, but for those that have only defaults."""
    text = play.text
    own = [named(role["role"], "main", role.get("vars")) for role in text.get("roles", [])]
    own = [role for role in own if (TOP / "roles" / role.partition("/")[0] / "tasks").is_dir()]
    tasks = text.get("tasks", []) + text.get("post_tasks", [])
    return [*calls(text.get("pre_tasks", [])), *own, *calls(tasks)]


def hosts(play: Play, inventory: Path, new: str = "") -> set[str]:
    """The hosts of a play, after a node was found to be new."""
    manager = InventoryManager(loader=DataLoader(), sources=[str(inventory)])
    if new:
        join(manager, "busbar_new_nodes", [new])
        join(manager, "busbar_new_and_servers", new_and_servers(manager))
    variables = play.variables | {"groups": manager.get_groups_dict()}
    pattern = Templar(loader=DataLoader(), variables=variables).template(play.text["hosts"])
    return {str(host.name) for host in manager.get_hosts(pattern)}


def join(manager: InventoryManager, group: str, names: list[str]) -> None:
    """Do what add_host does."""
    manager.add_group(group)
    for name in names:
        manager.add_host(name, group)


def new_and_servers(manager: InventoryManager) -> list[str]:
    """The hosts that the playbook puts into the group, by its own words."""
    first = next(play for play in plays("add_nodes") if play.playbook == "add_nodes")
    task = next(task for task in first.text["tasks"] if "new nodes and the servers" in task["name"])
    variables = {**task["vars"], "groups": manager.get_groups_dict(), "hosts_time_servers": TIME_SERVERS}
    return list(Templar(loader=DataLoader(), variables=variables).template(task["loop"]))


def given(playbook: str, host: str, inventory: Path, new: str = "") -> list[str]:
    """What a playbook does to a host, in order."""
    return [role for play in plays(playbook) if host in hosts(play, inventory, new) for role in roles(play)]


def options(playbook: str) -> dict[str, Any]:
    """The variables that a playbook gives to what it imports, without those that choose hosts."""
    variables: dict[str, Any] = {}
    for play in plays(playbook):
        variables |= play.variables
    chosen = {"target", "target_cluster", "target_members"}
    return {name: value for name, value in variables.items() if name not in chosen}


def test_a_new_node_gets_what_a_site_run_gives_it_in_the_same_order(inventory: Path) -> None:
    site = given("site", NEW, inventory)
    assert {f"{name}/main" for name in ("users", "nvidia_driver", "pyxis", "node_exporter", "validation")} <= {*site}
    assert given("add_nodes", NEW, inventory, NEW) == site


@pytest.mark.parametrize(("tags", "hosts"), [(["all"], "all"), (["validation"], "all"), (["admit"], "all:!all")])
def test_an_admission_alone_validates_only_new_nodes(tags: list[str], hosts: str) -> None:
    *_before, cluster = plays("put_into_service")
    templar = Templar(loader=DataLoader(), variables={**cluster.variables, "ansible_run_tags": tags})
    assert templar.template(cluster.text["hosts"]) == f"slurm_compute:&{hosts}"


@pytest.mark.parametrize("chosen", [("--skip-tags", "validation"), ("--tags", "slurm")])
def test_the_validation_user_exists_before_slurm_associates_it(inventory: Path, chosen: tuple[str, str]) -> None:
    """When slurmctld loads an association, it looks up the UID, and it refuses jobs of a user who had none then."""
    playbook = [f"{Path(sys.executable).parent}/ansible-playbook", "-i", str(inventory), str(PLAYBOOKS / "slurm.yml")]
    listed = subprocess.run([*playbook, "--list-tasks", *chosen], capture_output=True, text=True, check=True).stdout
    assert listed.index("user | Read the accounts of this host") < listed.index("Configure accounting")


def test_the_options_of_a_join_differ_only_as_intended() -> None:
    assert options("site") == SITE_ONLY | BOTH | ADMISSION
    assert options("add_nodes") == JOIN_ONLY | BOTH | ADMISSION


def test_a_site_run_admits_new_nodes_before_it_validates_all() -> None:
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
def test_other_hosts_only_learn_of_the_new_node(inventory: Path, host: str, expected: list[str]) -> None:
    assert [role for role in given("add_nodes", host, inventory, NEW) if role != SECRETS] == expected


def test_a_node_is_complete_before_it_is_named_and_named_before_it_takes_jobs(inventory: Path) -> None:
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


def test_without_new_nodes_nothing_is_done(inventory: Path) -> None:
    for host in sorted({host for group in GROUPS.values() for host in group}):
        assert {*given("add_nodes", host, inventory)} == {SECRETS}


def test_ansible_takes_the_playbook_when_there_is_no_group_of_new_nodes(inventory: Path) -> None:
    command = [sys.executable, "-m", "ansible", "playbook", "-i", str(inventory), str(PLAYBOOKS / "add_nodes.yml")]
    done = subprocess.run([*command, "--list-hosts"], check=False, cwd=TOP, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "): Validate the nodes" in done.stdout
    assert "WARNING" not in done.stderr


@pytest.mark.parametrize("path", sorted(PLAYBOOKS.glob("*.yml")), ids=lambda path: path.stem)
def test_every_call_of_a_role_names_a_file_that_is_there(path: Path) -> None:
    for play in plays(path.stem):
        for role, _, file in (call.split()[0].partition("/") for call in roles(play)):
            assert (TOP / "roles" / role / "tasks" / f"{file}.yml").is_file(), f"{play.playbook}: {role}/{file}"
