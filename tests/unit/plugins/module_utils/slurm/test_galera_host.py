"""What a host says of its part in a MariaDB cluster, from what its MariaDB and its data say."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
