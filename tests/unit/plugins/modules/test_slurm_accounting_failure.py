"""Tests of the message when sacctmgr fails, with the remedy if slurmdbd does not answer."""

from __future__ import annotations

from ansible_collections.busbar.cluster.plugins.modules.slurm_accounting import failure, only_missing_entries

# Output of Slurm 24.11 with slurmdbd stopped.
REFUSED = """\
sacctmgr: error: _open_persist_conn: failed to open persistent connection to host:ctl:6819: Connection refused
sacctmgr: error: Sending PersistInit msg: Connection refused
"""


def test_unresponsive_slurmdbd_is_reported_with_the_remedy() -> None:
    said = failure(["list", "account"], REFUSED)
    assert said.startswith("`sacctmgr list account` failed: sacctmgr: error: ")
    assert "remedy: slurmdbd does not answer" in said


def test_other_failure_shows_only_the_message_of_slurm() -> None:
    said = failure(["add", "user", "alice"], " Nothing new added.\n")
    assert said == "`sacctmgr add user alice` failed: Nothing new added."


def test_existing_entries_can_be_left_unchanged() -> None:
    made = ["add", "user", "erin", "Account=ml", "Cluster=x"]
    gone = ["delete", "user", "where", "name=frank"]
    changed = ["modify", "user", "where", "name=erin", "cluster=x", "account=ml", "set", "Fairshare=1"]
    taken = ["delete", "user", "where", "name=erin", "cluster=x", "account=other"]
    account = ["delete", "account", "where", "name=ml"]
    assert only_missing_entries([made, changed, taken, gone, account]) == [made, gone]
