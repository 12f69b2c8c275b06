"""What a host says of its part in a MariaDB cluster, from what its MariaDB and its data say."""

from __future__ import annotations

import getpass
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.slurm.galera_host import Host

if TYPE_CHECKING:
    from pathlib import Path

ONE = "11111111-2222-3333-4444-555555555555"
NOTE = f"# GALERA saved state\nversion: 2.1\nuuid:    {ONE}\nseqno:   42\nsafe_to_bootstrap: 1\n"
MEMBER = {"wsrep_on": "ON", "wsrep_cluster_status": "Primary", "wsrep_cluster_state_uuid": ONE}


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        pytest.param(MEMBER, (True, False, ONE, ONE, 42, True), id="member"),
        pytest.param(MEMBER | {"wsrep_cluster_status": "non-Primary"}, (True, False, "", ONE, 42, True), id="waits"),
        pytest.param({}, (False, False, "", ONE, 42, True), id="stopped"),
        pytest.param({"wsrep_on": "OFF"}, (True, True, "", "", -1, False), id="goes on outside of it"),
    ],
)
def test_part_in_a_cluster(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    status: dict[str, str],
    expected: tuple[bool, bool, str, str, int, bool],
) -> None:
    (tmp_path / "grastate.dat").write_text(NOTE)
    monkeypatch.setattr(Host, "status", lambda _self: status)
    found = Host(str(tmp_path), "/run/none").look(recover=False)
    keys = ("running", "alone", "cluster", "was_in", "transaction", "left_last")
    assert tuple(found[key] for key in keys) == expected  # type: ignore[literal-required]


def test_who_was_killed_counts_as_the_user_and_the_groups_of_the_unit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it cannot read the private key, and ends before it has counted."""
    (tmp_path / "grastate.dat").write_text(NOTE.replace("42", "-1"))
    unit = f"User={getpass.getuser()}\nSupplementaryGroups=busbar-tls\n"

    def run(command: list[str], **how: Any) -> subprocess.CompletedProcess[str]:  # noqa: ANN401 - any option of it
        if command[:2] == ["systemctl", "show"]:
            return subprocess.CompletedProcess(command, 0, unit, "")
        if command == ["galera_recovery"]:
            may_read = how.get("user") == getpass.getuser() and how.get("extra_groups") == ["busbar-tls"]
            said = f"WSREP: Recovered position {ONE}:17" if may_read else "[ERROR] SSL error: Unable to get private key"
            return subprocess.CompletedProcess(command, 0 if may_read else 1, "", said)
        return subprocess.CompletedProcess(command, 0 if command[0] == "systemctl" else 1, "", "")

    monkeypatch.setattr(subprocess, "run", run)
    assert Host(str(tmp_path), "/run/none").look(recover=True)["transaction"] == 17
