"""The preflight of an inventory with many faults lists all at once, with key, place and remedy; exit code 2."""

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
"""


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the preflight says of these."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "group_vars").mkdir()
    (folder / "group_vars/all.yml").write_text(VARIABLES)
    return refused(folder)


def refused(folder: Path) -> str:
    """What the preflight says of a site with these hosts."""
    (folder / "hosts.yml").write_text(HOSTS)
    command = ["busbar", "provision", "preflight", "-i", str(folder / "hosts.yml")]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stdout
    return str(done.stdout)


def test_the_former_list_of_users_is_refused_with_entries_to_paste(tmp_path: Path) -> None:
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
    assert "users_accounts[erin]: the uid is missing" in text


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
    ],
)
def test_each_fault_is_listed(said: str, key: str, place: str, words: str) -> None:
    lines = said.splitlines()
    (at,) = (number for number, line in enumerate(lines) if f"{key}: " in line)
    assert place in lines[at]
    assert words in f"{lines[at]} {lines[at + 1]}"
    assert "remedy: " in lines[at + 1]
    assert "BBBBnotakey" not in said
