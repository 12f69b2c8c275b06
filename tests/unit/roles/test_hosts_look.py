"""Tasks are skipped if the role hosts found in the same run that they would change nothing."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import yaml
from executables import executable
from templates import worked_out

ROLES = Path(__file__).resolve().parents[3] / "roles"
VARS = {
    **yaml.safe_load((ROLES / "hosts/vars/main.yml").read_text()),
    **yaml.safe_load((ROLES / "site/vars/main.yml").read_text()),
}
LOOK = yaml.safe_load((ROLES / "hosts/tasks/look.yml").read_text())[0]
PLAYBOOK = yaml.safe_load((ROLES.parent / "playbooks/monitoring.yml").read_text())
SHOWN = """\
Id=munge.service
ActiveState=active
UnitFileState=enabled

Id=chrony.service
ActiveState=activating
UnitFileState=enabled

Id=slurmd.service
ActiveState=active
UnitFileState=disabled

Id=dbus.service
ActiveState=active
UnitFileState=static
"""
# Output of `ss -Hltn --cgroup` (iproute2 6.15).
LISTENERS = """\
LISTEN 0      80     127.0.0.1:3306 0.0.0.0:* cgroup:/system.slice/mariadb.service
LISTEN 0      128         [::]:22      [::]:* cgroup:/system.slice/ssh.service
LISTEN 0      4096   10.0.0.5:9100  0.0.0.0:* cgroup:/user.slice/user-0.slice/session-1.scope
"""


@pytest.fixture(name="seen")
def _seen(tmp_path: Path) -> list[str]:
    """Return the output lines of the command, with stand-ins for the programs of a host."""
    answers = {
        "systemctl": SHOWN,
        "findmnt": "rw,nosuid,hidepid=invisible,gid=985\n",
        "id": "polkitd busbar-proc\n",
        "ss": LISTENERS,
    }
    for name, answer in answers.items():
        (tmp_path / f"{name}.txt").write_text(answer)
        executable(tmp_path / name, f'#!/bin/sh\ncat "{tmp_path}/{name}.txt"\n')
    script = worked_out(
        LOOK["ansible.builtin.shell"]["cmd"], **{**VARS, "__hosts_wanted_packages": ["chrony", "munge"]}
    )
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_only_enabled_and_running_units_count(seen: list[str]) -> None:
    given = {**VARS, "__hosts_look": {"stdout_lines": seen}}
    assert worked_out("{{ __site_running_units }}", **given) == ["munge.service"]
    assert worked_out("{{ __hosts_proc_hidden }}", **given) is True
    assert worked_out("{{ __hosts_polkit_groups }}", **given) == ["polkitd", "busbar-proc"]


def test_listeners_are_listed_with_address_and_unit(seen: list[str]) -> None:
    found = worked_out("{{ __site_listeners }}", **{**VARS, "__hosts_look": {"stdout_lines": seen}})
    assert found == ["127.0.0.1:3306 mariadb", "[::]:22 ssh"]


def test_files_of_disabled_roles_are_found() -> None:
    look = {"stdout_lines": ["name a a", "file /etc/systemd/system/busbar-firewall.service"]}
    found = worked_out("{{ __site_files }}", **{**VARS, "__hosts_look": look})
    assert found == ["/etc/systemd/system/busbar-firewall.service"]


@pytest.mark.parametrize("unit", ["busbar-journal-tls.service", "systemd-journal-upload.service.d/busbar.conf"])
def test_a_disabled_upload_of_the_journal_is_removed_where_it_is_set_up(unit: str) -> None:
    (play,) = (play for play in PLAYBOOK if play.get("name", "").startswith("Install exporters"))
    (task,) = (task for task in play["tasks"] if task["name"] == "Configure or remove the upload of the journal")
    given = {**VARS, "journal_remote_enabled": False}
    for lines, asked in ((["name a a"], False), (["name a a", f"file /etc/systemd/system/{unit}"], True)):
        look = {"stdout_lines": lines}
        assert worked_out(f"{{{{ {task['when']} }}}}", **{**given, "__hosts_look": look}) is asked
    assert worked_out(f"{{{{ {task['when']} }}}}", **given) is True


def test_results_are_empty_without_the_role_hosts() -> None:
    asked = "{{ [__site_looked, __site_running_units, __site_files, __site_listeners, __site_present_packages] }}"
    assert worked_out(asked, **VARS) == [False, [], [], [], []]


@pytest.mark.parametrize(
    ("changed", "dry", "present"),
    [(False, False, True), (True, False, True), (False, True, True), (True, True, False)],
)
def test_packages_installed_by_the_role_hosts_are_present(
    seen: list[str], *, changed: bool, dry: bool, present: bool
) -> None:
    given = {**VARS, "__hosts_look": {"stdout_lines": seen}, "ansible_check_mode": dry}
    found = worked_out("{{ __site_present_packages }}", **given, __hosts_installed={"changed": changed})
    assert found == (["chrony", "munge"] if present else [])


def test_packages_are_empty_if_none_were_checked(seen: list[str]) -> None:
    given = {**VARS, "__hosts_look": {"stdout_lines": seen}}
    assert worked_out("{{ __site_present_packages }}", **given) == []
