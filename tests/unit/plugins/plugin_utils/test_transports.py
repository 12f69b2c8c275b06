"""Tests of validations through both transports: Ansible, and steps of an allocation."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.common.hostlist import fold_for_slurm
from report_samples import nccl_text
from validation_site import NODES, LocalSite, Site, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another")]


FOUR = ["gpu1", "gpu2", "gpu3", "gpu4"]


@contextlib.contextmanager
def made(kind: type[Site], nodes: list[str]) -> Iterator[Site]:
    # Not below pytest's own directory: every other pytest that starts revokes access to it for the user of the jobs.
    with tempfile.TemporaryDirectory(prefix="busbar-test-") as place:
        Path(place).chmod(0o755)
        found = kind(Path(place) / "site", nodes)
        yield found
        found.end()


@pytest.fixture(params=[Site, LocalSite], ids=["ansible", "local"])
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    with made(request.param, NODES) as found:
        yield found


@pytest.fixture(params=[Site, LocalSite], ids=["ansible", "local"])
def four(request: pytest.FixtureRequest) -> Iterator[Site]:
    with made(request.param, FOUR) as found:
        yield found


def test_healthy_cluster_passes_with_outputs_and_a_report(site: Site) -> None:
    said = site.validate()
    assert site.report["verdict"] == "PASS", site.report["reason"]
    assert "VALIDATION validation of gpu[1-2]: node: 2 test(s)" in said
    assert "VALIDATION PASS cluster: " in said
    for name in ("node-gpu1", "node-gpu2", "cluster"):
        assert (site.latest / f"{name}.out").read_bytes() == (site.texts / f"busbar-{name}").read_bytes()
    assert list(site.out.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interruption_keeps_the_results_and_leaves_no_job(site: Site, number: signal.Signals) -> None:
    site.prints("cluster", "", "sleep 300")
    run = site.start()
    wait_until(site, lambda: site.running() == ["3"])
    run.send_signal(number)
    run.wait(60)
    wait_until(site, (site.latest / "report.html").exists)
    found = site.report
    assert (found["verdict"], found["reason"]) == ("INCONCLUSIVE", f"interrupted by {number.name}")
    verdicts = {test["name"]: test["verdict"] for test in found["tests"]}
    assert verdicts == {"node-gpu1": "PASS", "node-gpu2": "PASS", "cluster": "INCONCLUSIVE"}
    assert site.running() == []
    assert (site.work / "3" / "cancelled").exists()
    assert (site.latest / "node-gpu1.out").stat().st_size > 1000
    assert "all_reduce" in (site.latest / "cluster.out").read_text(encoding="utf-8")


def test_time_limit_applies_to_running_jobs(site: Site) -> None:
    site.prints("cluster", "", "sleep 300")
    began = time.monotonic()
    site.validate(stages=["cluster"], time_limit=30)
    assert time.monotonic() - began < 120
    found = site.report
    assert found["verdict"] == "INCONCLUSIVE"
    assert found["tests"][0]["reason"] == "cut off: the time limit of the validation was reached"
    assert found["tests"][0]["job"]["seconds"] <= 30
    assert found["stopped"] == "the time limit of 30 s for all tests cut short cluster"
    assert "--time=1 " in (site.work / "1" / "asked").read_text(encoding="utf-8")
    assert site.running() == []


def test_a_slow_node_is_named(site: Site) -> None:
    site.prints("node-gpu2", nccl_text(["gpu2"], 8, 100.0, program="all_reduce"))
    site.validate()
    assert site.report["verdict"] == "FAIL"
    assert [culprit["nodes"] for culprit in site.report["culprits"]] == [["gpu2"]]


def test_a_slow_link_is_found_by_the_search(four: Site) -> None:
    for size in range(1, len(FOUR) + 1):
        for nodes in itertools.combinations(FOUR, size):
            peak = 475.0 if size == 1 else 73.0 if "gpu2" in nodes else 365.0
            text = nccl_text([*nodes], 8, peak, program="all_reduce")
            for name in (",".join(nodes), fold_for_slurm(nodes)):
                four.prints(name, text)
    script = f'#!/bin/bash\nexec cat "{four.texts}/busbar-$SLURM_JOB_NODELIST"\n'
    four.validate(script=script, collectives=["all_reduce"], search_collective="all_reduce")
    found = four.report
    assert (found["verdict"], [culprit["nodes"] for culprit in found["culprits"]]) == ("FAIL", [["gpu2"]])
    assert found["search_rounds"] > 0
