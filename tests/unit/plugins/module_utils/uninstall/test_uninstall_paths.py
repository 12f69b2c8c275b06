"""What an uninstallation does with files and accounts."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.uninstall.accounts import choose_groups, choose_users
from ansible_collections.busbar.cluster.plugins.module_utils.uninstall.paths import (
    Step,
    is_below,
    merged,
    path_step,
    top_paths,
    without_block,
)

FILE = {"kind": "file", "mode": 0o644, "uid": 0, "gid": 0}
LINK = {"kind": "link", "target": "/a", "mode": 0o777, "uid": 0, "gid": 0}
FOLDER = {"kind": "directory", "mode": 0o755, "uid": 0, "gid": 0}
BY_HAND = "changed by hand since busbar wrote it"


@pytest.mark.parametrize(
    ("was", "texts", "now", "text", "step"),
    [
        (None, ["ours"], FILE, "ours", Step("remove")),
        (None, ["older", "ours"], FILE, "older", Step("remove")),
        (None, ["ours"], FILE, "theirs", Step("remove", aside=True, why=BY_HAND)),
        (None, ["ours"], None, "", Step("")),
        (FILE, ["ours"], FILE, "ours", Step("restore")),
        (FILE, ["ours"], FILE, "theirs", Step("restore", aside=True, why=BY_HAND)),
        (FILE, ["ours"], FILE, "original", Step("")),
        (FILE, ["ours"], {**FILE, "mode": 0o600}, "original", Step("restore")),
        # One that a run has noted and was killed before it wrote, and one that it removed.
        (FILE, ["absent"], None, "", Step("restore")),
        (FILE, [], None, "", Step("")),
        (FILE, [], FILE, "whatever", Step("")),
        (None, [], FILE, "whatever", Step("leave", why="not as busbar made it")),
        (None, [], LINK, "", Step("remove")),
        (LINK, [], LINK, "", Step("")),
        (FILE, ["ours"], LINK, "", Step("leave", why="a link now, and a file before")),
        (None, [], FOLDER, "", Step("rmdir")),
        (FOLDER, [], FOLDER, "", Step("")),
    ],
)
def test_path(was: Any, texts: list[str], now: Any, text: str, step: Step) -> None:  # noqa: ANN401
    assert path_step({"was": was, "texts": texts}, now, text, "original" if was == FILE else "") == step


def test_lines_of_others_stay_in_a_shared_file() -> None:
    entry = {"was": FILE, "texts": ["ours"], "last": "x"}
    assert path_step(entry, FILE, "theirs", "original").action == "merge"
    original = "127.0.0.1 localhost\n127.0.1.1 gpu1\n"
    last = "127.0.0.1 localhost\n\n# BEGIN busbar\n10.0.0.1 gpu1\n# END busbar\n"
    now = last.replace("localhost\n\n", "localhost\n10.9.9.9 printer\n\n")
    assert merged(original, last, now) == "127.0.0.1 localhost\n127.0.1.1 gpu1\n10.9.9.9 printer\n"
    without = now.replace("127.0.0.1 localhost\n", "")
    assert merged(original, last, without) == "127.0.1.1 gpu1\n10.9.9.9 printer\n"


def test_blocks() -> None:
    text = "first\n# BEGIN x\nours\n# END x\nlast\n"
    assert without_block(text, "# BEGIN x", "# END x") == "first\nlast\n"
    assert without_block("first\n# BEGIN x\nrest\n", "# BEGIN x", "# END x") == "first\n# BEGIN x\nrest\n"


def test_folders() -> None:
    assert is_below("/shared/home/a", ["/srv", "/shared"]) == "/shared"
    assert is_below("/shared2", ["/shared"]) == ""
    assert top_paths(["/a/b", "/a", "/a-b", "/c/d"]) == ["/a", "/a-b", "/c/d"]


USERS = {
    "alice": ["alice", "x", "2001", "2000"],
    "mysql": ["mysql", "x", "101", "101"],
    "mine": ["mine", "x", "5", "2000"],
}


def test_users_stay_while_they_run_something_own_data_or_were_there() -> None:
    made = ["alice", "mysql", "mine", "gone"]
    assert choose_users(made, ["mine"], USERS, set(), {}) == (["alice", "mysql"], {})
    going, kept = choose_users(made, ["mine"], USERS, {2001}, {101: "/var/lib/mysql"})
    assert going == []
    assert kept["mysql"] == "owns /var/lib/mysql, which stays"
    assert "run this again" in kept["alice"]


def test_groups_stay_while_somebody_is_in_them() -> None:
    groups = {
        "research": ["research", "x", "2000", ""],
        "rdma": ["rdma", "x", "7", "bob,mine"],
        "free": ["free", "x", "9", "bob"],
    }
    going, kept = choose_groups(["research", "rdma", "free", "root"], ["root"], groups, {"mine": USERS["mine"]})
    assert going == ["free"]
    assert kept == {"research": "mine is in it", "rdma": "mine is in it"}
