"""Tests of home directory quotas: declared, active, and set."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.storage.home_quota import (
    NONE,
    Found,
    Limit,
    decide,
    file_system_fault,
    limit_of,
    parse_report,
    setquota_input,
)
from ansible_collections.busbar.cluster.roles.home_quota.files.home_quota import main

if TYPE_CHECKING:
    from pathlib import Path

TEN, TWENTY = Limit(9, 10), Limit(18, 20)
# Output of repquota 4.06.
REPORT = """\
*** Report for user quotas on device /dev/loop0
Block grace time: 7days; Inode grace time: 7days
User,BlockStatus,FileStatus,BlockUsed,BlockSoftLimit,BlockHardLimit,BlockGrace,FileUsed,FileSoftLimit,FileHardLimit,FileGrace
#0,ok,ok,0,0,0,,5,0,0,
#2001,soft,ok,19000,18432,20480,6days,2,0,0,
#2002,ok,ok,0,0,0,,1,100,200,
"""


def test_sizes() -> None:
    assert limit_of("20M", 90) == Limit(18432, 20480)
    # XFS rounds to blocks of up to 64 KiB.
    assert limit_of("7M", 93) == Limit(6 << 10, 7 << 10)
    assert limit_of("1M", 90) == Limit(1 << 10, 1 << 10)
    assert limit_of("1T", 100) == Limit(1 << 30, 1 << 30)
    assert limit_of("none", 90) == NONE
    for wrong in ("", "20", "0G", "20g", "20GB", "-1G"):
        with pytest.raises(ValueError, match="not a size"):
            limit_of(wrong, 90)


@pytest.mark.parametrize(
    ("kind", "options", "said"),
    [
        ("xfs", ["rw", "usrquota"], None),
        ("xfs", ["rw", "quota"], None),
        ("ext4", ["rw", "usrquota"], None),
        ("xfs", ["rw", "noquota"], "without user quotas"),
        ("xfs", ["rw", "usrquota", "uqnoenforce"], "does not enforce limits"),
        ("xfs", ["rw", "prjquota"], "without user quotas"),
        ("ext4", ["rw", "grpquota"], "without user quotas"),
        ("btrfs", ["rw"], "is btrfs"),
        ("nfs4", ["rw"], "is nfs4"),
    ],
)
def test_file_system_without_quotas_is_reported(kind: str, options: list[str], said: str | None) -> None:
    fault = file_system_fault(kind, options, "/srv")
    if said is None:
        assert fault is None
    else:
        assert fault is not None
        assert said in fault[0]
        assert fault[1]


def test_repquota_output_is_parsed() -> None:
    assert parse_report(REPORT) == {
        0: Found(NONE, NONE),
        2001: Found(Limit(18432, 20480), NONE),
        2002: Found(NONE, Limit(100, 200)),
    }
    for wrong in (
        "",
        "repquota: Cannot find mountpoint",
        REPORT.replace("#2001", "alice"),
        REPORT.replace("18432", "x"),
    ):
        with pytest.raises(ValueError):  # noqa: PT011 - the message of int() is also accepted
            parse_report(wrong)


def test_users_get_the_default_or_their_declared_quota() -> None:
    steps = decide({2001: "alice", 2002: "bob", 2003: ""}, {}, {}, TEN, {"bob": TWENTY, "carol": TEN})
    assert steps == ({2001: TEN, 2002: TWENTY, 2003: TEN}, {}, ["carol"])


def test_quota_set_by_an_admin_is_kept_unless_declared() -> None:
    found = {number: Found(Limit(1, 2), NONE) for number in (2001, 2002)}
    steps = decide({2001: "alice", 2002: "bob"}, found, {}, TEN, {"bob": TWENTY})
    assert steps == ({2002: TWENTY}, {2001: Limit(1, 2)}, [])


def test_new_default_replaces_the_old_and_no_default_lifts_it() -> None:
    found, owners = {2001: Found(TEN, NONE), 2002: Found(TWENTY, NONE)}, {2001: "alice", 2002: "bob"}
    assert decide(owners, found, {2001: [TEN]}, TWENTY, {}).limits == {2001: TWENTY}
    assert decide(owners, found, {2001: [TEN]}, NONE, {}).limits == {2001: NONE}
    # Without a default, its limits are lifted and manual limits are kept.
    assert decide(owners, found, {2001: [TEN]}, None, {}) == ({2001: NONE}, {}, [])
    # A run that died after recording the limit that it was about to set.
    assert decide(owners, found, {2001: [TEN, TWENTY]}, TWENTY, {}).limits == {2001: TWENTY}


def test_nothing_is_set_twice() -> None:
    assert decide({2001: "alice"}, {2001: Found(TEN, NONE)}, {2001: [TEN]}, TEN, {}) == ({}, {}, [])


def test_limits_on_files_are_kept() -> None:
    assert setquota_input({2002: TEN, 2001: NONE}, parse_report(REPORT)) == "2001 0 0 0 0\n2002 9 10 100 200\n"


def test_unreadable_file_is_an_error_with_a_remedy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "home_quota.json"
    config.write_text("{")
    assert main([], config) == 1
    assert "busbar provision storage --tags home_quota" in capsys.readouterr().err
