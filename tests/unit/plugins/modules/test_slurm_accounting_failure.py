"""The message when sacctmgr fails, with the remedy where slurmdbd does not answer."""

from __future__ import annotations

from ansible_collections.busbar.cluster.plugins.modules.slurm_accounting import failure, only_missing_entries

# Slurm 24.11 with slurmdbd stopped.
REFUSED = """\
sacctmgr: error: _open_persist_conn: failed to open persistent connection to host:ctl:6819: Connection refused
sacctmgr: error: Sending PersistInit msg: Connection refused
"""


def test_a_slurmdbd_that_does_not_answer_is_named_with_the_way_out() -> None:
    said = failure(["list", "account"], REFUSED)
    assert said.startswith("`sacctmgr list account` failed: sacctmgr: error: ")
    assert "remedy: slurmdbd does not answer" in said


def test_another_failure_says_what_slurm_said_alone() -> None:
    said = failure(["add", "user", "alice"], " Nothing new added.\n")
    assert said == "`sacctmgr add user alice` failed: Nothing new added."


def test_what_is_there_can_be_left_as_it_is() -> None:
    made = ["add", "user", "erin", "Account=ml", "Cluster=x"]
    gone = ["delete", "user", "where", "name=frank"]
    changed = ["modify", "user", "where", "name=erin", "cluster=x", "account=ml", "set", "Fairshare=1"]
    taken = ["delete", "user", "where", "name=erin", "cluster=x", "account=other"]
    account = ["delete", "account", "where", "name=ml"]
    assert only_missing_entries([made, changed, taken, gone, account]) == [made, gone]
