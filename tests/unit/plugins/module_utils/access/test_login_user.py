"""Tests of finding the user who logged in from the parent processes."""

from __future__ import annotations

import pwd
from typing import TYPE_CHECKING

from ansible_collections.busbar.cluster.plugins.module_utils.access.login_user import login_user

if TYPE_CHECKING:
    from pathlib import Path

NOBODY = pwd.getpwnam("nobody")


def _processes(folder: Path, uids: list[int]) -> int:
    """Write a chain of processes, each with its real user; return the PID of the last."""
    for number, uid in enumerate(uids, start=1):
        (folder / str(number)).mkdir()
        status = f"Name:\tx\nPPid:\t{number - 1}\nUid:\t{uid}\t0\t0\t0\n"
        (folder / str(number) / "status").write_text(status)
    return len(uids)


def test_login_user_is_the_user_who_requested_root(tmp_path: Path) -> None:
    last = _processes(tmp_path, [0, 0, NOBODY.pw_uid, NOBODY.pw_uid, 0, 0])
    assert login_user(tmp_path, last).pw_name == "nobody"


def test_outermost_user_is_the_login_user(tmp_path: Path) -> None:
    last = _processes(tmp_path, [0, NOBODY.pw_uid, 0, pwd.getpwnam("daemon").pw_uid])
    assert login_user(tmp_path, last).pw_name == "nobody"


def test_root_is_returned_without_a_known_user(tmp_path: Path) -> None:
    assert login_user(tmp_path, _processes(tmp_path, [0, 0])).pw_uid == 0
    assert login_user(tmp_path, 99).pw_uid == 0
    (tmp_path / "other").mkdir()
    assert login_user(tmp_path / "other", _processes(tmp_path / "other", [0, 2**31 - 5])).pw_uid == 0
