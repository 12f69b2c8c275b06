"""Whose journals are kept: a host that floods takes nothing from the others."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.monitoring.journal_store import (
    CURRENT,
    Journal,
    closed_name,
    excess_bytes,
    host_of,
    read_store,
    settle,
    size_bytes,
)

if TYPE_CHECKING:
    from pathlib import Path

MIB = 1 << 20


def journals(host: str, number: int, *, written_s: float = 1000, closed: bool = True) -> list[Journal]:
    """As many journals of a host, 10 MiB each, one second after the other."""
    return [Journal(host, f"{host}/{n}", 10 * MIB, written_s + n, closed) for n in range(number)]


def removed(store: list[Journal], excess: int, oldest_s: float = 0) -> list[str]:
    """Paths of the journals that are taken away."""
    return [each.path for each in settle(store, excess, oldest_s)[0]]


def named(*common: str, dns: tuple[str, ...] = ()) -> dict[str, object]:
    """A certificate as Python's ssl tells it."""
    return {
        "subject": tuple((("commonName", name),) for name in common),
        "subjectAltName": tuple(("DNS", name) for name in dns),
    }


@pytest.mark.parametrize(
    ("certificate", "host"),
    [
        (named("gpu1"), "gpu1"),
        (named("GPU1.site.example", dns=("gpu1",)), "gpu1.site.example"),
        (named(dns=("dgx-01", "10.0.0.1")), "dgx-01"),
        (named("a" * 120), "a" * 120),
        (None, ""),
        ({}, ""),
        (named("a" * 121), ""),
        *(
            (named(evil), "")
            for evil in ("..", ".", "../ctl", "/etc", "a/b", "a..b", "a b", "-x", "a\nb", "", ".a", "a.")
        ),
    ],
)
def test_a_certificate_names_a_directory_and_nothing_else(certificate: dict[str, object] | None, host: str) -> None:
    assert host_of(certificate) == host


def test_a_flood_takes_nothing_from_the_others() -> None:
    """Host gpu9 sends 100 journals after the evidence of gpu1, which is far older, was received."""
    store = [*journals("gpu1", 3, written_s=1), *journals("gpu2", 2, written_s=2), *journals("gpu9", 100)]
    excess = excess_bytes(store, free=1 << 40, max_use=200 * MIB, keep_free=0)
    gone = removed(store, excess)
    assert len(gone) == 85
    assert {path.split("/")[0] for path in gone} == {"gpu9"}
    assert gone[:2] == ["gpu9/0", "gpu9/1"]


def test_two_that_flood_share_what_is_left() -> None:
    store = [*journals("gpu1", 1), *journals("gpu8", 50), *journals("gpu9", 100)]
    left = {each.path for each in store} - set(removed(store, 110 * 10 * MIB))
    assert {host: sum(path.startswith(host) for path in left) for host in ("gpu1", "gpu8", "gpu9")} == {
        "gpu1": 1,
        "gpu8": 20,
        "gpu9": 20,
    }


def test_age_counts_for_all_and_what_is_written_to_stays() -> None:
    store = [*journals("gpu1", 3, written_s=1), *journals("gpu1", 1, written_s=1, closed=False)]
    store[-1] = store[-1]._replace(path="gpu1/current")
    assert removed(store, 0, oldest_s=2.5) == ["gpu1/0", "gpu1/1"]
    assert removed(store, 1 << 40) == ["gpu1/0", "gpu1/1", "gpu1/2"]


def current(host: str, mebibytes: int) -> Journal:
    """The journal of a host that is written to."""
    return Journal(host, f"{host}/current", mebibytes * MIB, 1000, closed=False)


def test_the_one_that_floods_closes_what_it_writes_to_before_others_lose_anything() -> None:
    store = [current("gpu1", 9), *journals("gpu1", 3, written_s=1), current("gpu9", 100), *journals("gpu9", 1)]
    gone, close = settle(store, 60 * MIB, oldest_s=0)
    assert [each.path for each in gone] == ["gpu9/0"]
    assert [each.path for each in close] == ["gpu9/current"]
    again = [current("gpu1", 9), *journals("gpu1", 3, written_s=1), current("gpu9", 8)]
    again.append(Journal("gpu9", "gpu9/closed", 100 * MIB, 2000, closed=True))
    gone, close = settle(again, 60 * MIB, oldest_s=0)
    assert ([each.path for each in gone], close) == (["gpu9/closed"], [])


def test_what_is_as_good_as_empty_is_not_closed_again_and_again() -> None:
    assert settle([current("gpu1", 8), current("gpu2", 16)], 1 << 40, oldest_s=0) == ([], [])


def test_what_must_go() -> None:
    store = journals("a", 10)
    assert excess_bytes(store, free=1 << 40, max_use=60 * MIB, keep_free=0) == 40 * MIB
    assert excess_bytes(store, free=5 * MIB, max_use=1 << 40, keep_free=25 * MIB) == 20 * MIB
    assert excess_bytes(store, free=1 << 40, max_use=1 << 40, keep_free=MIB) == 0


def test_a_store_is_read_without_following_links(tmp_path: Path) -> None:
    (tmp_path / "gpu1").mkdir()
    (tmp_path / "gpu1" / CURRENT).write_bytes(b"x" * 8192)
    closed = tmp_path / "gpu1" / closed_name(1_700_000_000.5, 3)
    closed.write_bytes(b"x")
    os.utime(closed, (5, 5))
    (tmp_path / "remote@old.journal").write_bytes(b"x")
    (tmp_path / "gpu1" / "notes.txt").write_text("x")
    (tmp_path / "gpu2").symlink_to("/")
    (tmp_path / ".hidden").mkdir()
    found = {(each.host, each.closed): each for each in read_store(tmp_path)}
    assert found.keys() == {("gpu1", False), ("gpu1", True), ("", True)}
    assert found["gpu1", False].size >= 8192
    assert found["gpu1", True].written_s == 5
    assert closed.name == "remote@00060a241825e120-0000000000000003.journal~"


def test_sizes() -> None:
    assert [size_bytes(text) for text in ("7", "64M", "20G", "1T")] == [7, 64 << 20, 20 << 30, 1 << 40]
    with pytest.raises(ValueError, match="is no size"):
        size_bytes("20GB")
