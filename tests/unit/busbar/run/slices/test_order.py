"""The order of plays over several slices."""

from __future__ import annotations

from busbar.run.slices.order import GO, STOP, Order


def order() -> Order:
    return Order("cluster", ["one", "two"])


def asked(work: Order, number: int, *names: str, together: bool = False) -> list[tuple[str, str]]:
    for name in names:
        work.asks_play(name, number, together=together)
    return work.answers()


def test_a_play_begins_first_on_the_hosts_of_the_cluster() -> None:
    work = order()
    assert asked(work, 0, "one", "cluster") == []
    assert asked(work, 0, "two") == [("cluster", GO)]
    assert asked(work, 1, "cluster") == [("one", GO), ("two", GO)]


def test_a_play_waits_for_the_slowest_slice() -> None:
    work = order()
    asked(work, 0, "cluster", "one", "two")
    asked(work, 1, "cluster")
    assert asked(work, 1, "one") == []
    assert asked(work, 1, "two") == [("cluster", GO)]


def test_what_only_looks_begins_everywhere_at_once() -> None:
    assert len(asked(order(), 0, "cluster", "one", "two", together=True)) == 3


def test_a_slice_that_has_ended_holds_nobody_up() -> None:
    work = order()
    asked(work, 0, "cluster", "one")
    work.ends("two")
    assert work.answers() == [("cluster", GO)]


def test_a_slice_that_begins_anew_is_waited_for() -> None:
    work = order()
    asked(work, 0, "cluster", "one", "two")
    asked(work, 1, "cluster")
    asked(work, 1, "one")
    work.begins("two")
    assert asked(work, 0, "two") == [("two", GO)]
    assert asked(work, 1, "two") == [("cluster", GO)]


def test_the_cluster_is_waited_for_where_it_begins_anew() -> None:
    work = order()
    asked(work, 0, "cluster", "one", "two")
    work.begins("cluster")
    assert asked(work, 0, "cluster") == [("cluster", GO)]
    assert asked(work, 1, "cluster") == [("one", GO), ("two", GO)]


def test_a_run_that_stops_begins_nothing_that_changes_a_host() -> None:
    work = order()
    work.stop()
    assert asked(work, 0, "cluster", "one", "two", together=True) == [("cluster", GO), ("one", GO), ("two", GO)]
    assert asked(work, 1, "cluster", "one", "two") == [("cluster", STOP), ("one", STOP), ("two", STOP)]


def test_what_is_done_once_is_done_by_one_at_a_time() -> None:
    work = order()
    work.asks_alone("one")
    work.asks_alone("two")
    assert work.answers() == [("one", GO)]
    assert work.answers() == []
    work.shares("one")
    assert work.answers() == [("two", GO)]


def test_whoever_dies_gives_way() -> None:
    work = order()
    work.asks_alone("one")
    work.asks_alone("two")
    work.answers()
    work.ends("one")
    assert work.answers() == [("two", GO)]
