"""Tests of the validation action in ansible-playbook, with a simulated Slurm cluster of local processes."""

from __future__ import annotations

import json
import os
import signal
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from ansible_collections.busbar.cluster.plugins.action.validation import problems_of, unknown_options
from report_samples import nccl_text, validation
from validation_samples import validation_options
from validation_site import NODES, USER, Site, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another")


@pytest.fixture
def site() -> Iterator[Site]:
    # Not below pytest's own directory: every other pytest that starts revokes access to it for the user of the jobs.
    with tempfile.TemporaryDirectory(prefix="busbar-test-") as place:
        Path(place).chmod(0o755)
        found = Site(Path(place) / "site")
        yield found
        found.end()


def test_unwritable_reports_dir_is_reported_with_its_remedy() -> None:
    arguments = {"options": validation_options(["gpu1"]), "output_limit": "1G", "reports_dir": "/proc/none"}
    said = "/proc/none: /proc is not writable: No such file or directory. Set a folder in which this user can write"
    assert f"validation_reports_dir: {said}" in problems_of(arguments)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("validation_node", "is not an option of any role (given by -e): did you mean validation_nodes? "),
        ("validation_foo", "is not an option of any role (given by -e): correct the name"),
        ("validaton_stages", "is not an option of any role (given by -e): did you mean validation_stages? "),
        ("nccl_validation_nodes", ""),
        ("validation_nodes", ""),
        ("new_nodes", ""),
        ("update_nodes_validation", ""),
    ],
)
def test_misspelt_command_line_option_is_refused(name: str, said: str) -> None:
    found = unknown_options({name: "gpu1"}, "other")
    assert [problem.startswith(f"{name}: {said}") for problem in found] == ([True] if said else [])
    assert unknown_options({name: "gpu1"}, f"other,{name}") == []


def test_drained_nodes_are_tested_in_a_reservation_and_released_by_drain_owner(site: Site) -> None:
    site.drain("gpu1", "busbar: slow")
    site.drain("gpu2", "fan is loud")
    said = site.validate(out_of_service=True)
    found = site.report
    assert (found["verdict"], found["held"]) == ("PASS", {"gpu1": "busbar: slow", "gpu2": "fan is loud"})
    assert found["held_by"] == dict.fromkeys(("gpu1", "gpu2"), "bob, 2026-11-20T10:00:00")
    assert (found["resumed"], found["leftovers"]) == ([{"node": "gpu1", "problem": ""}], [])
    assert site.drained == {"gpu2": "fan is loud"}
    create, resume, *again = site.changes[:4]
    words = "create reservation ReservationName=busbar-validation Nodes=gpu1,gpu2 StartTime=now Duration="
    assert create.startswith(words)
    assert create.endswith(f"Users={USER} Flags=maint,ignore_jobs")
    assert resume == "update NodeName=gpu1,gpu2 State=RESUME"
    assert {*again} == {
        "update NodeName=gpu1 State=DRAIN Reason=busbar: slow",
        "update NodeName=gpu2 State=DRAIN Reason=fan is loud",
    }
    assert site.changes[-2:] == ["delete ReservationName=busbar-validation", "update nodename=gpu1 state=resume"]
    for number in ("1", "2", "3"):
        asked = (site.slurm / "jobs" / number / "asked").read_text(encoding="utf-8")
        assert "--reservation=busbar-validation" in asked
    assert "stays drained  gpu2: fan is loud (bob, 2026-11-20T10:00:00)" in said
    assert "resumed  gpu1: was drained: busbar: slow (bob, 2026-11-20T10:00:00)" in said


def test_interruption_restores_drained_nodes_and_removes_the_reservation(site: Site) -> None:
    site.drain("gpu1", "busbar: new")
    site.prints("node-gpu1", "", "sleep 300")
    run = site.start(out_of_service=True, nodes=["gpu1"], pool=NODES)
    wait_until(site, lambda: site.running() == ["1"] and site.drained == {"gpu1": "busbar: new"})
    run.send_signal(signal.SIGINT)
    run.wait(60)
    wait_until(site, (site.latest / "report.html").exists)
    assert (site.report["verdict"], site.report["resumed"]) == ("INCONCLUSIVE", [])
    assert site.drained == {"gpu1": "busbar: new"}
    assert "delete ReservationName=busbar-new" in site.changes
    assert "delete ReservationName=busbar-validation" in site.changes
    assert not [*site.slurm.glob("reservation-*")]
    assert site.running() == []


# More bytes than the memory limit allows, three times as many in `scripts/test full`.
SIZE = 300_000_000 if int(os.environ.get("BUSBAR_TEST_DAMAGES", "0")) >= 10_000 else 100_000_000


def loud(size: int) -> str:
    """Return a script that prints this many bytes of repeated NCCL lines about connections."""
    line = "gpu1:100:2{0:05d} [{1}] NCCL INFO Channel {2:02d}/0 : {3}[0] -> {4}[0] [send] via NET/IB/{1}/GDRDMA"
    part = "\\n".join(line.format(n, n % 8, n % 32, n, n + 1) for n in range(1000))
    return f"python3 - <<'END'\nfor _ in range({size // len(part) + 1}):\n    print('{part}')\nEND"


def test_large_output_does_not_increase_memory_use(site: Site) -> None:
    most = []
    for script in ("", loud(SIZE * 102 // 100)):
        site.prints("cluster", nccl_text(NODES, 8, 365.0, program="all_reduce"), script)
        _pid, status, used = os.wait4(site.start(stages=["cluster"]).pid, 0)
        assert status == 0, site.said
        assert site.report["verdict"] == "PASS", site.report["reason"]
        # Peak memory of ansible-playbook and its children in kB.
        most.append(used.ru_maxrss)
    assert (site.latest / "cluster.out").stat().st_size > SIZE
    # A second report within the same second gets its own directory.
    assert sorted(path.name for path in site.latest.parent.iterdir()) == [
        "20261120T000000Z",
        "20261120T000000Z-2",
        "latest",
    ]
    assert most[1] - most[0] < 64 << 10, most


def test_endless_output_is_truncated_and_not_judged(site: Site) -> None:
    site.prints("cluster", nccl_text(NODES, 8, 365.0, program="all_reduce"), loud(30_000_000))
    site.validate(stages=["cluster"], output_limit="20M")
    (test,) = site.report["tests"]
    assert (test["verdict"], test["reason"]) == (
        "INCONCLUSIVE",
        "the output is longer than 20M (validation_output_limit)",
    )
    assert (site.latest / "cluster.out").stat().st_size == 20 << 20
    assert list(site.out.iterdir()) == []


@pytest.mark.parametrize(("how", "verdict"), [("finding", "PASS"), ("fail", "FAIL")])
def test_drift_since_earlier_reports_is_reported_or_fails(site: Site, how: str, verdict: str) -> None:
    tests = [{"name": f"node-{node}", "stage": "node", "nodes": [node], "peak": 475.0} for node in NODES]
    for day in range(10, 15):
        place = site.folder / "reports" / f"202611{day}T080000Z"
        place.mkdir(parents=True)
        data = validation(tests, started=f"2026-11-{day}T08:00:00Z")
        (place / "report.json").write_text(json.dumps(data), encoding="utf-8")
    site.prints("node-gpu1", nccl_text(["gpu1"], 8, 440.0, program="all_reduce"))
    said = site.validate(stages=["node"], floor_gbs=400, drift=how)
    found = site.report
    assert found["verdict"] == verdict, said
    assert [item["name"] for item in found["drift"]] == ["node-gpu1"]
    slow = next(test for test in found["tests"] if test["name"] == "node-gpu1")
    assert slow["findings"][-1].startswith("drift: 440 GB/s is 7.4 % below its median of 5 earlier passes, 475")
    assert [culprit["nodes"] for culprit in found.get("culprits", [])] == ([["gpu1"]] if how == "fail" else [])
