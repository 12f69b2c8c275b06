"""The preflight of an inventory with many faults lists all of them with key, location and remedy; exit code 2."""

from __future__ import annotations

import subprocess
import textwrap
from typing import TYPE_CHECKING

import pytest
import yaml

if TYPE_CHECKING:
    from pathlib import Path

HOSTS = """\
all:
  vars: {ansible_connection: local, ansible_user: admin}
  children:
    slurm_controller: {hosts: {ctl: {ansible_host: 192.0.2.1}}}
    slurm_database: {hosts: {ctl: }}
    slurm_compute: {hosts: {"gpu[1:2]": }, vars: {hardware: dgx_h100}}
    nfs_server: {hosts: {ctl: }}
    monitorings: {hosts: {ctl: }}
"""
VARIABLES = """\
slurm_partition: []
user_accounts: []
slurm_port: many
hosts_timezone: Europe/Berlinn
users_accounts:
  - {name: alice, uid: 2001, authorized_keys: ["{{ lookup('file', 'keys/alice.pub') }}"]}
  - {name: bob, uid: 2002, authorized_keys: [ssh-ed25519 BBBBnotakey], slurm: {account: research}}
  - {name: erin, slurm: {account: research}}
slurm_accounts: [{name: research, limit: {}}]
alertmanager_email: {password: "{{ lookup('file', '/nowhere/smtp') }}"}
nfs_server_exports: [{path: /}]
slurm_qos: "{{ site_parts }}"
site_parts: {a: 1}
"""

GROUPS = """\
all:
  vars: {ansible_connection: local, ansible_user: admin}
  children:
    slurm_controller: {hosts: {ctl: {ansible_host: 192.0.2.1}}}
    slurm_database: {}
    slurm_login: {hosts: {login: {ansible_host: 192.0.2.2}}}
    slurm_compute: {children: {gpus: , bare: }}
    gpus: {hosts: {"gpu[1:2]": {ansible_host: 192.0.2.3}}, vars: {hardware: dgx_x1, hardware_room: B12}}
    others: {hosts: {gpu2: }}
    bare: {hosts: {gpu3: }}
    own: {hosts: {gpu4: }, vars: {hardware: own}}
    monitorng: {hosts: {login: }}
    rack1: {hosts: {gpu1: }}
    nfs_server: {hosts: {ctl: }}
    nfs_client: {children: {slurm_compute: }}
"""
PARTS = """\
slurm_partitions: [{name: big, groups: [slurm_login]}, {name: far, nodes: gpu99}]
users_groups: [{name: research, gid: 2000}]
users_accounts: [{name: alice, uid: 2001, group: research}, {name: bob, uid: 2001, group: research}]
hardware_profiles_extra: {own: {memory_gb: 2}}
nfs_server_exports: [{path: /a}, {path: /a/b}, {path: /c, clients: ["*"]}]
nfs_client_mounts: [{src: "ctl:/b", path: /b}, {src: "ctl:/a", path: b}]
"""


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the output of the preflight for the wrong variables."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "group_vars").mkdir()
    (folder / "group_vars/all.yml").write_text(VARIABLES)
    return refused(folder)


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the output of the preflight for wrong groups, hardware, partitions and shared trees."""
    folder = tmp_path_factory.mktemp("parts")
    (folder / "group_vars").mkdir()
    (folder / "group_vars/all.yml").write_text(PARTS)
    (folder / "group_vars/others.yml").write_text("hardware: dgx_h100\n")
    return refused(folder, GROUPS, "-e", "munge_keys=x")


def refused(folder: Path, hosts: str = HOSTS, *more: str) -> str:
    """Return the output of the preflight for a site with these hosts; more arguments may follow."""
    (folder / "hosts.yml").write_text(hosts)
    command = ["busbar", "provision", "preflight", "-i", str(folder / "hosts.yml"), *more]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stdout
    return str(done.stdout)


def test_removed_list_of_users_is_refused_with_entries_to_paste(tmp_path: Path) -> None:
    (tmp_path / "group_vars/all").mkdir(parents=True)
    users, slurm = (tmp_path / "group_vars/all" / name for name in ("users.yml", "slurm.yml"))
    users.write_text("users_accounts:\n  - {name: bob, uid: 2002, comment: \"{{ 'Bob' }}\"}\n")
    slurm.write_text("slurm_accounts: [{name: ml}]\nslurm_users: [{name: bob, accounts: [ml]}, {name: erin}]\n")
    said = refused(tmp_path).splitlines()
    (at,) = (number for number, line in enumerate(said) if "slurm_users: was merged" in line)
    assert "slurm.yml:2" in said[at]
    pasted = textwrap.dedent("\n".join(said[at + 2 : at + 5]))
    assert yaml.safe_load(pasted)["users_accounts"] == [
        {"name": "bob", "uid": 2002, "comment": "{{ 'Bob' }}", "slurm": {"account": "ml"}},
        {"name": "erin", "slurm": {}},
    ]
    slurm.write_text("slurm_accounts: [{name: ml}]\n")
    users.write_text(pasted)
    text = refused(tmp_path)
    assert "slurm_users" not in text
    assert "users_accounts[erin].slurm: has no account" in text
    assert "users_accounts[erin]: uid is missing" in text


@pytest.mark.parametrize(
    ("key", "place", "words"),
    [
        ("group monitorings", "", "did you mean monitoring?"),
        ("slurm_partition", "all.yml:1", "did you mean slurm_partitions?"),
        ("user_accounts", "all.yml:2", "did you mean users_accounts?"),
        ("slurm_port", "all.yml:3", "expected an integer"),
        ("hosts_timezone", "all.yml:4", "did you mean Europe/Berlin?"),
        ("users_accounts[alice].authorized_keys[0]", "all.yml:", "searched: "),
        ("users_accounts[bob].authorized_keys", "", "not an SSH public key"),
        ("users_accounts[erin]", "", "set identity_source"),
        ("slurm_accounts[research].limit", "all.yml:", "did you mean limits?"),
        ("alertmanager_email.password", "all.yml:", "/nowhere/smtp, which does not exist"),
        ("nfs_server_exports[/]", "ctl: ", "the root of the host cannot be"),
        ("slurm_qos", "all.yml:12", "is a mapping (expected a list of mappings)"),
    ],
)
def test_each_fault_is_listed(said: str, key: str, place: str, words: str) -> None:
    lines = said.splitlines()
    (at,) = (number for number, line in enumerate(lines) if f"{key}: " in line)
    assert place in lines[at]
    assert words in f"{lines[at]} {lines[at + 1]}"
    assert "remedy: " in lines[at + 1]
    assert "BBBBnotakey" not in said


@pytest.mark.parametrize(
    ("start", "remedy"),
    [
        ("login: group monitorng: is not a group of busbar", "did you mean monitoring?"),
        ("hardware_room: is not an option of any role (set for group gpus in hosts.yml:8)", "correct the name"),
        ("munge_keys: is not an option of any role (given by -e)", "munge_key?"),
        ("gpu1: hardware: unknown hardware 'dgx_x1'", "set hardware to one of: "),
        (
            "gpu2: hardware: is in several groups that set different values (gpus: dgx_x1, others: dgx_h100)",
            "one of these groups",
        ),
        ("gpu3: hardware: is not set for a compute node", "set hardware"),
        ("gpu4: hardware_profiles_extra.own: memory_gb: unknown key (did you mean memory_mb?)", "correct the profile"),
        ("gpu[1-3],login: users_home_base: /home is not on shared storage", "nfs_server_exports"),
        ("gpu[1-3],login: users_home_base: /home is not on shared storage", "storage_mounts_entries"),
        ("gpu[1-3],login: users_home_base: /home is not on shared storage", "users_create_home"),
        ("ctl: nfs_server_exports[/c].clients: * allows every host", "list the networks"),
        ("ctl: nfs_server_exports: /a/b is inside /a", "export only /a"),
        ("gpu[1-3]: nfs_client_mounts[/b].src: ctl does not export /b, only /a, /a/b, /c", ""),
        ("gpu[1-3]: nfs_client_mounts[b]: is not an absolute path", ""),
        ("slurm_database: has no host, so the cluster has no database", "add a host"),
        ("slurm_partitions[big]: contains no compute node", ""),
        ("gpu99: slurm_partitions[far]: is in this partition, but is not a compute node", ""),
        ("users_accounts: uid 2001 is declared for both alice and bob", "change one of them"),
    ],
)
def test_each_wrong_entry_is_listed(parts: str, start: str, remedy: str) -> None:
    lines = [line.strip() for line in parts.splitlines()]
    (at,) = (number for number, line in enumerate(lines) if line.startswith(start))
    assert lines[at + 1].startswith("remedy: ")
    assert remedy in lines[at + 1]


def test_custom_group_is_accepted(parts: str) -> None:
    assert "rack1" not in parts
    assert "gpu1: hardware: is in several" not in parts


def test_site_without_a_controller_is_refused(tmp_path: Path) -> None:
    text = refused(tmp_path, HOSTS.replace("slurm_controller: {hosts: {ctl: {ansible_host: 192.0.2.1}}}", ""))
    assert "slurm_controller: has no host, so the cluster has no controller" in text
