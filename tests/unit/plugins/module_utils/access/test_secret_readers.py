"""Tests of which users can read a file, by its mode, its groups and its parent directories."""

from __future__ import annotations

import pytest
from ansible_collections.busbar.cluster.plugins.modules.secret_info import Place, readers, too_open

ACCOUNTS = {
    "root": (0, 0),
    "munge": (110, 110),
    "prometheus": (120, 120),
    "alice": (2001, 2000),
    "nobody": (65534, 65534),
    "slurm": (64030, 64030),
    "erin": (200101, 20000),
}
MEMBERS = {110: [], 120: ["prometheus"], 130: ["alice"], 0: []}
TOP = Place(0o755, 0, 0)


def who(mode: int, uid: int = 0, gid: int = 0, *folders: Place) -> list[str]:
    return readers(Place(mode, uid, gid), [TOP, *folders], ACCOUNTS, MEMBERS)


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        (Place(0o400, 110, 110), ["munge"]),
        (Place(0o600, 4711, 0), ["4711"]),
        (Place(0o640, 0, 120), ["root", "prometheus"]),
        (Place(0o640, 0, 2000), ["root", "alice"]),
        (Place(0o640, 0, 130), ["root", "alice"]),
        (Place(0o644, 0, 0), ["root", "everybody"]),
    ],
)
def test_readers_follow_mode_and_groups(file: Place, expected: list[str]) -> None:
    assert readers(file, [TOP], ACCOUNTS, MEMBERS) == expected


def test_users_without_directory_access_are_not_readers() -> None:
    assert who(0o644, 0, 0, Place(0o700, 0, 0)) == ["root"]
    assert who(0o640, 0, 130, Place(0o750, 0, 0)) == ["root"]
    assert who(0o640, 0, 130, Place(0o750, 0, 130)) == ["root", "alice"]
    assert who(0o644, 0, 130, Place(0o750, 0, 130)) == ["root", "alice"]


@pytest.mark.parametrize(
    ("mode", "who", "problem"),
    [
        (0o400, ["munge"], ""),
        (0o640, ["root", "nobody", "prometheus"], ""),
        (0o640, ["root", "alice"], "it is readable by users: alice"),
        (0o600, ["alice"], "it is readable by users: alice"),
        (0o600, ["erin"], "it is readable by users: erin"),
        (0o600, ["slurm"], ""),
        (0o644, ["root", "everybody"], "it is readable by all users of the host"),
        (0o602, ["root"], "it is writable by all users of the host"),
    ],
)
def test_file_is_too_open_if_users_can_access_it(mode: int, who: list[str], problem: str) -> None:
    assert too_open(Place(mode, 0, 0), who, ACCOUNTS) == problem
