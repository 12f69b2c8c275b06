"""Tests of single-node checks in Slurm: simulated programs print the output of the real ones, the rest is real.

The sandbox has no GPU. A script replaces p2pBandwidthLatencyTest: it prints synthetic values in that program's format,
and says so; cells in a node's fault file get a third of the value.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from check_samples import diag_text
from conftest import as_json
from matrix_samples import p2p_text

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

    from conftest import Cluster

# The measured CPU cores are shared with other programs: a failed test runs again and is shown as a rerun.
pytestmark = [
    pytest.mark.proves("validation"),
    pytest.mark.grows,
    pytest.mark.flaky(reruns=1, only_rerun=["AssertionError"]),
]

PASS, FAIL, INCONCLUSIVE = 0, 1, 3
P2P, DCGMI = "/usr/local/bin/simulated-p2p", "/usr/local/bin/simulated-dcgmi"
SLOW = "/run/simulated-p2p-slow"
HEALTHY = p2p_text(2, lambda _one, _two: 12.0).replace("Tesla V100-SXM2-16GB", "Simulated GPU")
BROKEN = p2p_text(2, lambda _one, _two: 12.0, {("uni", 1, 0): 4.0}).replace("Tesla V100-SXM2-16GB", "Simulated GPU")
DIAG = diag_text(gpus=2).replace("4.4.1", "simulated")
PROGRAMS = {
    P2P: f"#!/bin/sh\nif [ -e {SLOW} ]; then cat <<'END'\n{BROKEN}END\nelse cat <<'END'\n{HEALTHY}END\nfi\n",
    DCGMI: f"#!/bin/sh\n[ \"$*\" = 'diag -r 1 -j' ] || exit 2\necho '{DIAG}'\n",
}
CHECKS = json.dumps(
    {
        "validation_node_checks": ["p2p", "dcgm_diag"],
        "validation_p2p_binary": P2P,
        "validation_dcgm_diag_binary": DCGMI,
        # Not tested here: small, short, and with a floor that a busy machine reaches as well.
        "validation_max_bytes": "1M",
        "validation_seconds_per_size": 0.2,
        "validation_floor_gbs": 0.001,
    }
)


@pytest.fixture(scope="module")
def programs(sandbox: Cluster) -> Iterator[Cluster]:
    """Install the simulated programs on the sandbox's compute nodes; they are removed at the end."""
    sandbox.wait_idle()
    for node in sandbox.compute:
        for path, text in PROGRAMS.items():
            sandbox.exec(node, f"cat >{path} <<'PROGRAM'\n{text}PROGRAM\nchmod 0755 {path}")
    yield sandbox
    for node in sandbox.compute:
        sandbox.exec(node, f"rm -f {' '.join(PROGRAMS)} {SLOW}")


def validate(cluster: Cluster, *arguments: str) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    """Run the validation with the checks, and return its output and report."""
    latest = cluster.state / "reports/latest"
    before = latest.resolve()
    given = ("-t", "validation_run,validation_install", "-e", CHECKS, *arguments)
    done = cluster.busbar("validate", "--sandbox", "--name", cluster.name, *given, timeout=300)
    assert latest.resolve() != before, done.stdout + done.stderr
    return done, as_json((latest / "report.json").read_text(encoding="utf-8"))


def test_healthy_nodes_pass_each_check_with_a_line_per_check(programs: Cluster) -> None:
    done, report = validate(programs)
    assert done.returncode == PASS, done.stdout + done.stderr
    kinds = {test["name"]: (test["kind"], test["verdict"]) for test in report["tests"]}
    for node in programs.compute:
        assert kinds[f"p2p-{node}"] == ("p2p", "PASS")
        assert kinds[f"dcgm_diag-{node}"] == ("dcgm_diag", "PASS")
        assert f"PASS  p2p-{node} on {node}: 2 GPUs, all pairs at 3.15 GB/s or more" in done.stdout
        assert f"PASS  dcgm_diag-{node} on {node}: 2 results passed" in done.stdout
    test = next(test for test in report["tests"] if test["kind"] == "p2p")
    assert test["devices"] == ["Simulated GPU"] * 2
    assert test["matrices"][1]["values"] == [[741.0, 12.0], [12.0, 741.0]]
    latest = programs.state / "reports/latest"
    assert "Simulated GPU" in (latest / test["output"]).read_text(encoding="utf-8")
    assert "busbar_check_verdict{" in (latest / "busbar.prom").read_text(encoding="utf-8")
    assert f'name="{test["name"]}"' in (latest / "junit.xml").read_text(encoding="utf-8")


def test_slow_cell_fails_its_node_and_others_are_judged(programs: Cluster) -> None:
    bad, *good = sorted(programs.compute, reverse=True)
    programs.exec(bad, f"touch {SLOW}")
    try:
        done, report = validate(programs)
    finally:
        programs.exec(bad, f"rm -f {SLOW}")
    assert done.returncode == FAIL, done.stdout + done.stderr
    assert report["reason"].startswith(f"p2p-{bad}: {bad}: GPU 0 and GPU 1: 4 GB/s")
    assert [(item["kind"], item["nodes"]) for item in report["culprits"]] == [("node", [bad])]
    assert f"FAIL  culprit nodes: {bad}\n" in done.stdout
    verdicts = {test["name"]: test["verdict"] for test in report["tests"]}
    assert verdicts[f"p2p-{bad}"] == "FAIL"
    assert {verdicts[f"{kind}-{node}"] for kind in ("p2p", "dcgm_diag", "node") for node in good} == {"PASS"}
    assert not any(bad in test["nodes"] for test in report["tests"] if test["stage"] == "cluster")


def test_diagnosis_that_does_not_run_is_not_a_pass_and_drains_no_node(programs: Cluster) -> None:
    mute = json.dumps({"validation_dcgm_diag_binary": "/bin/true", "validation_node_checks": ["dcgm_diag"]})
    done, report = validate(programs, "-e", mute)
    assert done.returncode == INCONCLUSIVE, done.stdout + done.stderr
    verdicts = {test["name"]: test["verdict"] for test in report["tests"]}
    assert {verdicts[f"dcgm_diag-{node}"] for node in programs.compute} == {"INCONCLUSIVE"}
    assert "the output contains no JSON from dcgmi diag" in report["reason"]
    assert verdicts["cluster"] == "PASS"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"validation_node_checks": ["p2q"]}, "validation_node_checks: 'p2q' is not one of"),
        ({"validation_p2p_binary": "/no/such/program"}, "/no/such/program does not exist or is not executable"),
        ({"__validation_p2p_time_limit": 0}, "validation_p2p_time_limit: 0 is out of range"),
        ({"validation_stages": ["cluster"]}, "requires the stage node"),
    ],
)
def test_wrong_options_are_refused_before_any_job(programs: Cluster, options: dict[str, Any], words: str) -> None:
    before = (programs.state / "reports/latest").resolve()
    done = programs.playbook("validate.yml", "-e", CHECKS, "-e", json.dumps(options), timeout=300)
    assert done.returncode != 0
    assert words in done.stdout
    assert (programs.state / "reports/latest").resolve() == before
