"""What slices did, as one run; and the files that go to other hosts."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import pytest
from busbar.run.display import PlainDisplay
from busbar.run.events import Run
from busbar.run.slices import carried
from busbar.run.slices.together import Tally, put_together

if TYPE_CHECKING:
    from pathlib import Path

STATS = {"ok": {"gpu1": 3}, "changed": {"gpu1": 1}, "failures": {}, "dark": {}}


def event(kind: str, host: str, **result: Any) -> dict[str, Any]:  # noqa: ANN401
    return {"event": kind, "event_data": {"host": host, "task": "Try", "res": result}}


def run_of(*events: dict[str, Any]) -> tuple[Run, Tally]:
    run, tally = Run(PlainDisplay(io.StringIO()), lambda _: 0), Tally()
    for each in events:
        run.handle(each)
        tally.take(each)
    tally.close()
    return run, tally


def test_recaps_become_one() -> None:
    first = run_of({"event": "playbook_on_stats", "event_data": STATS})
    second = run_of(event("runner_on_ok", "gpu2", changed=True), event("runner_on_failed", "gpu2", msg="Broken."))
    whole = put_together(PlainDisplay(io.StringIO()), [first, second])
    assert whole.recap.splitlines()[1:] == [
        "gpu1 : ok=3    changed=1    unreachable=0    failed=0    skipped=0    rescued=0    ignored=0",
        "gpu2 : ok=1    changed=1    unreachable=0    failed=1    skipped=0    rescued=0    ignored=0",
    ]
    assert [(found.message, found.hosts) for found in whole.failures] == [("Broken.", ["gpu2"])]
    assert whole.stats["failures"] == {"gpu2": 1}


def test_what_an_earlier_attempt_changed_counts() -> None:
    run, last = run_of(event("runner_on_ok", "gpu1"))
    last.earlier = [run_of(event("runner_on_ok", "gpu1", changed=True))[1]]
    last.close()
    whole = put_together(PlainDisplay(io.StringIO()), [(run, last)])
    assert whole.stats["changed"] == {"gpu1": 1}


def test_the_same_failure_in_two_slices_is_said_once() -> None:
    runs = [run_of(event("runner_on_failed", host, msg="Wrong.")) for host in ("gpu1", "gpu2")]
    whole = put_together(PlainDisplay(io.StringIO()), runs)
    assert [found.hosts for found in whole.failures] == [["gpu1", "gpu2"]]


def test_a_site_is_sent_without_what_a_run_writes(tmp_path: Path) -> None:
    for name in ("inventory/hosts.yml", "secrets/key", "logs/a.log", "reports/r", ".git/x", "ansible.cfg"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    assert sorted(carried.looks(tmp_path)) == ["ansible.cfg", "inventory/hosts.yml", "secrets/key"]


def test_files_arrive_for_their_owner_alone_and_only_what_changed_is_sent(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    (here / "key").write_text("secret")
    (here / "key").chmod(0o644)
    before = carried.looks(here)
    carried.apply(there, carried.contents(here, list(before)))
    assert (there / "key").read_text() == "secret"
    assert (there / "key").stat().st_mode & 0o777 == 0o600
    (here / "more").write_text("new")
    assert carried.changed(before, carried.looks(here)) == ["more"]


@pytest.mark.parametrize("name", ["../outside", "/etc/outside", "a/../../outside"])
def test_a_path_that_leads_out_of_the_site_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="is no file of the site"):
        carried.apply(tmp_path, {name: (0o600, "")})
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_no_site_alone_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(carried, "_MOST_BYTES", 3)
    (tmp_path / "disk.img").write_text("large")
    with pytest.raises(carried.TooLargeError, match="lie in the site's folder"):
        carried.looks(tmp_path)
