"""The second run of the whole site, before any other test could change what it finds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conftest import QUICK, recap

if TYPE_CHECKING:
    from conftest import Cluster


def test_second_run_changes_nothing_and_says_pass(sandbox: Cluster) -> None:
    sandbox.wait_idle()
    done = sandbox.busbar("provision", "-i", str(sandbox.inventory), "--diff", *QUICK)
    assert done.returncode == 0, done.stdout + done.stderr
    assert {counts["changed"] for counts in recap(done.stdout).values()} == {0}, done.stdout
    assert "PASS" in done.stdout
    assert str(sandbox.inventory) in done.stdout.splitlines()[0]
