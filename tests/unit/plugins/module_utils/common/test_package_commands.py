"""Tests of package manager calls: their errors, and services that must not start during the call."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.common import package_commands
from ansible_collections.busbar.cluster.plugins.module_utils.common.package_commands import (
    clear_policy,
    error_text,
    fetch_problems,
    run_manager,
    services_held,
)

if TYPE_CHECKING:
    from pathlib import Path

# Output of apt 3.0 on Debian 13 for a package that cannot be installed.
APT_3 = """\
Reading package lists...
Solving dependencies...
Some packages could not be installed. This may mean that you have
The following information may help to resolve the situation:

The following packages have unmet dependencies:
 needsmore : Depends: nosuchthing (>= 2) but it is not installable
             Depends: bash (>= 99) but 5.2.37-2+b10 is to be installed

E: Unable to correct problems, you have held broken packages.
E: The following information from --solver 3.0 may provide additional context:
   Unable to satisfy dependencies. Reached two conflicting decisions:
   1. needsmore:amd64=1.0 is selected for install
   2. needsmore:amd64 Depends nosuchthing (>= 2)
      but none of the choices are installable:
      [no choices]
"""
DNF = """\
Last metadata expiration check: 0:00:01 ago.
Error:
 Problem: conflicting requests
  - nothing provides nosuchthing >= 2 needed by needsmore-1.0-1.noarch
(try to add '--skip-broken' to skip uninstallable packages)
"""
# Output on Debian 13 for a package whose script fails because of debconf.
SCRIPT = """\
Preparing to unpack .../tzdata_2025b-4_all.deb ...
Unpacking tzdata (2025b-4) ...
Setting up tzdata (2025b-4) ...
debconf: DbDriver "config": /var/cache/debconf/config.dat is locked by another process: Resource temporarily unavailable
dpkg: error processing package tzdata (--configure):
 installed tzdata package post-installation script subprocess returned error exit status 1
Errors were encountered while processing:
 tzdata
E: Sub-process /usr/bin/dpkg returned an error code (1)
"""
# Output of `apt-get update`, with status 0, on a host whose resolver does not answer.
NO_NAMES = """\
Ign:1 http://mirror.example/debian trixie InRelease
Err:1 http://mirror.example/debian trixie InRelease
  Temporary failure resolving 'mirror.example'
W: Failed to fetch http://mirror.example/debian/dists/trixie/InRelease  Temporary failure resolving 'mirror.example'
W: Some index files failed to download. They have been ignored, or old ones used instead.
"""
BUSY = "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 812 (unattended-upgr)"


def test_apt_reasons_around_the_error_are_shown() -> None:
    lines = error_text(APT_3).splitlines()
    assert lines[0] == "E: Unable to correct problems, you have held broken packages."
    assert "   2. needsmore:amd64 Depends nosuchthing (>= 2)" in lines
    assert "      but none of the choices are installable:" in lines
    assert " needsmore : Depends: nosuchthing (>= 2) but it is not installable" in lines
    assert "             Depends: bash (>= 99) but 5.2.37-2+b10 is to be installed" in lines
    assert not any("Reading package lists" in line or "may help to resolve" in line for line in lines)


def test_dnf_reasons_are_shown() -> None:
    assert error_text(DNF).splitlines() == [
        "Error:",
        " Problem: conflicting requests",
        "  - nothing provides nosuchthing >= 2 needed by needsmore-1.0-1.noarch",
    ]


def test_output_of_a_failing_package_script_is_shown() -> None:
    lines = error_text(SCRIPT).splitlines()
    assert lines[0] == "E: Sub-process /usr/bin/dpkg returned an error code (1)"
    assert "config.dat is locked by another process" in lines[1]
    assert lines[2] == "dpkg: error processing package tzdata (--configure):"
    assert "post-installation script subprocess returned error exit status 1" in lines[3]
    assert not any("Unpacking" in line or "Setting up" in line for line in lines)


def test_unfetched_package_lists_are_reported() -> None:
    assert fetch_problems("Hit:1 http://mirror.example/debian trixie InRelease\n") == ""
    said = fetch_problems(NO_NAMES)
    assert "/InRelease Temporary failure resolving 'mirror.example'" in said
    assert "remedy: check that the host resolves the name" in said
    assert fetch_problems(NO_NAMES, NO_NAMES).strip().startswith("remedy: ")


class Ended(Exception):  # noqa: N818 - simulates fail_json
    """Raised when the module ends."""


class Module:
    """An AnsibleModule whose every command has the same result."""

    # Otherwise the baseline of this machine would be recorded.
    check_mode = True

    def __init__(self, status: int, said: str) -> None:
        """Store the result."""
        self.status, self.said, self.commands = status, said, []  # type: ignore[var-annotated]
        self.result: dict[str, Any] = {}

    def run_command(self, command: list[str], **_: object) -> tuple[int, str, str]:
        """Return the result."""
        self.commands.append(command)
        return self.status, "", self.said

    def fail_json(self, **result: Any) -> None:  # noqa: ANN401
        """Raise Ended."""
        self.result = result
        raise Ended


HOLDER = {"lock": "/var/lib/dpkg/lock", "pid": 812, "process": "apt-get", "command": "apt-get upgrade"}


def test_nothing_runs_while_another_process_holds_the_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package_commands, "lock_holder", lambda: HOLDER)
    module = Module(0, "")
    with pytest.raises(Ended):
        run_manager(module, ["apt-get", "install", "x"])
    assert module.commands == []
    assert module.result["waits_for"] == HOLDER
    assert "held by apt-get (pid 812: apt-get upgrade)" in module.result["msg"]


@pytest.mark.parametrize(
    ("command", "status", "said"),
    [
        (["apt-get", "install", "x"], 100, BUSY),
        (["apt-get", "update"], 100, "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 7 (apt)"),
        (["apt-mark", "hold", "x"], 2, "dpkg: error: dpkg frontend lock was locked by another process with pid 7"),
        (["dnf", "install", "x"], 200, "Failed to obtain the transaction lock (logged in as: root)."),
    ],
)
def test_lock_taken_in_between_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, command: list[str], status: int, said: str
) -> None:
    answers = iter([None, HOLDER])
    monkeypatch.setattr(package_commands, "lock_holder", lambda: next(answers))
    monkeypatch.setattr(package_commands, "first_holder", lambda: next(answers))
    module = Module(status, said)
    with pytest.raises(Ended):
        run_manager(module, command)
    assert module.result["waits_for"] == HOLDER


def test_other_failure_is_not_a_lock_conflict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package_commands, "lock_holder", lambda: None)
    assert run_manager(Module(100, "E: Unable to locate package x"), ["apt-get", "install", "x"])[0] == 100
    assert run_manager(Module(1, "Error: x"), ["dnf", "install", "x"])[0] == 1


@pytest.fixture
def places(tmp_path: Path) -> dict[str, Path]:
    return {"policy": tmp_path / "policy-rc.d", "lock": tmp_path / "lock"}


def answer(policy: Path) -> int:
    """Run policy-rc.d as a package does: 101 forbids the start of a service, 0 allows it."""
    return subprocess.run([policy], check=False).returncode if policy.exists() else 0


@pytest.mark.parametrize("held", [True, False])
def test_services_are_held_only_during_the_call(places: dict[str, Path], *, held: bool) -> None:
    with services_held(held=held, **places):
        assert answer(places["policy"]) == (101 if held else 0)
    assert not places["policy"].exists()


def test_foreign_policy_file_is_kept(places: dict[str, Path]) -> None:
    places["policy"].write_text("mine")
    with services_held(held=True, **places):
        assert places["policy"].read_text() == "mine"
    assert not clear_policy(**places)
    assert places["policy"].read_text() == "mine"


KILLED = """
import os, pathlib, signal, sys
from ansible_collections.busbar.cluster.plugins.module_utils.common.package_commands import services_held
with services_held(held=True, policy=pathlib.Path(sys.argv[1]), lock=pathlib.Path(sys.argv[2])):
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_stale_policy_has_no_effect_and_is_removed(places: dict[str, Path]) -> None:
    here = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", KILLED, *map(str, places.values())], check=False, env=here)
    assert done.returncode == -9
    assert places["policy"].exists()
    assert answer(places["policy"]) == 0
    with services_held(held=True, **places):  # taken over, not treated as a policy of another program
        assert answer(places["policy"]) == 101
    assert not places["policy"].exists()
    subprocess.run([sys.executable, "-c", KILLED, *map(str, places.values())], check=False, env=here)
    assert clear_policy(**places)
    assert not places["policy"].exists()
    assert not clear_policy(**places)


def test_concurrent_installs_share_the_policy(places: dict[str, Path]) -> None:
    with services_held(held=True, **places):
        with services_held(held=True, **places):
            assert not clear_policy(**places)
        assert answer(places["policy"]) == 101
    assert not places["policy"].exists()


def test_lock_file_is_not_accessible_to_other_users(places: dict[str, Path]) -> None:
    with services_held(held=True, **places):
        assert places["lock"].stat().st_mode & 0o077 == 0
    with places["lock"].open() as stream:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
