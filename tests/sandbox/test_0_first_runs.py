"""Tests of the first and the second run of the whole site, before any other test changes the sandbox."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from conftest import QUICK, recap

if TYPE_CHECKING:
    from conftest import Cluster

pytestmark = [pytest.mark.proves(), pytest.mark.core]


def test_first_run_ends_with_a_validated_cluster(sandbox: Cluster, whole_first_run: str) -> None:
    if not whole_first_run:
        pytest.skip("the sandbox stood before these tests")
    counts = recap(whole_first_run)
    assert set(counts) == {"ctl", "login", *sandbox.compute}
    assert min(count["changed"] for count in counts.values()) > 5
    assert "Verdict: PASS" in whole_first_run
    assert str(sandbox.inventory) in whole_first_run.splitlines()[0]
    sandbox.wait_idle()
    assert set(sandbox.node_states()) == set(sandbox.compute)


def test_new_node_gets_its_packages_in_one_transaction(sandbox: Cluster, whole_first_run: str) -> None:
    if not whole_first_run:
        pytest.skip("the sandbox stood before these tests")
    for node in ("ctl", "login", *sandbox.compute):
        history = sandbox.exec(node, "grep -h ^Commandline: /var/log/apt/history*.log").stdout.splitlines()
        assert len(history) == 1, (node, history)


def test_second_run_changes_nothing_and_validation_passes(sandbox: Cluster) -> None:
    sandbox.wait_idle()
    done = sandbox.busbar("provision", "-i", str(sandbox.inventory), "--diff", *QUICK)
    assert done.returncode == 0, done.stdout + done.stderr
    assert {counts["changed"] for counts in recap(done.stdout).values()} == {0}, done.stdout
    assert "Verdict: PASS" in done.stdout
