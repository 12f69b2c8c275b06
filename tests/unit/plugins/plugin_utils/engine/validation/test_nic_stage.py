"""Tests of stage nic: all nodes together, with communication only over NICs."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.check_options import input_problems
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.next_tests import (
    next_step,
    with_results,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.single_rail_profiles import of_nic_path
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.validation_report import report
from report_samples import nccl_text
from validation_samples import CATALOGUE, job_entry, validation_options

NODES = ["gpu1", "gpu2", "gpu3"]


def judged(peak: float, floor: str = "0", **changes: Any) -> dict[str, Any]:  # noqa: ANN401 - any option
    """Return the test of the stage in a report, after an all-reduce with this peak in GB/s."""
    asked = validation_options(NODES, stages=["nic"], floor_gbs=floor, **changes)
    step = next_step(asked)
    (planned,) = step["tests"]
    assert (planned["job"]["nodes"], planned["collectives"]) == (NODES, ["all_reduce"])
    assert "export BUSBAR_NIC_ALONE=1\n" in planned["job"]["script"]
    state = with_results(asked, None, step, {"tests": [job_entry("nic", NODES)]}, [nccl_text(NODES, 8, peak)])
    assert not next_step(asked, state)["tests"]
    (test,) = report(asked, state)["tests"]
    return dict(test)


@pytest.mark.parametrize(
    ("peak", "verdict"), [(45.0, "PASS"), (38.0, "PASS"), (37.0, "FAIL"), (24.0, "FAIL"), (80.0, "INCONCLUSIVE")]
)
def test_each_gpu_must_reach_75_percent_of_its_share_of_the_nics(peak: float, verdict: str) -> None:
    test = judged(peak)
    assert (test["verdict"], test["floor"]) == (verdict, 37.5), test["reason"]
    assert test["source"].startswith("computed: 0.75 of the 50 GB/s NIC bandwidth for each GPU")
    assert not [words for words in test["findings"] if "NVLS" in words or "wrong number of NICs" in words]


def test_general_floor_option_does_not_apply_to_the_nic_stage() -> None:
    assert judged(45.0, floor="400")["verdict"] == "PASS"


def test_no_floor_is_known_without_rdma() -> None:
    profile = {**CATALOGUE["dgx_h100"], "nics": [{"count": 8, "gbps": 400, "rdma": False}]}
    assert of_nic_path(profile, 8)["busbw"] == {}


@pytest.mark.parametrize("name", sorted(CATALOGUE))
def test_nic_stage_excludes_nvlink(name: str) -> None:
    profile = CATALOGUE[name]
    found = of_nic_path(profile, 4)
    assert (found["gpu"]["nvlink_gbs"], found["nvlink_domain_nodes"]) == (0, 1)
    assert sum(nic["count"] for nic in found["nics"]) == sum(nic["count"] for nic in profile["nics"])
    rate = sum(nic["count"] * nic["gbps"] for nic in profile["nics"]) / 8
    for entry in found["busbw"].values():
        assert (entry["limit_gbs"], entry["floor_gbs"]) == pytest.approx((rate / 4, 0.75 * rate / 4), rel=1e-3)


def test_nic_stage_is_refused_with_mpi() -> None:
    asked = validation_options(NODES, stages=["nic"], backend="mpi", binary="")
    assert input_problems(asked) == [
        "validation_stages: the stage nic requires validation_backend=nccl, to disable other transports"
    ]
