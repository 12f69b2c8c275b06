"""Tests of the differences between the MIG instances of a GPU and a layout."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.nvidia.mig_change import (
    GpuState,
    boot_layout,
    mig_plan,
    mig_states,
)
from ansible_collections.busbar.cluster.plugins.module_utils.slurm.local_node import gres_of, node_fields
from busbar.sandbox.recording import gpu_recording
from simulated_gpus import SIMULATED_A100

SEVEN = {"profile": "1g.5gb", "count": 7}
FULL = tuple(("1g.5gb", start) for start in range(7))
CREATE = ["mig", "-i", "0", "-cgi", "1g.5gb:0,1g.5gb:1,1g.5gb:2,1g.5gb:3,1g.5gb:4,1g.5gb:5,1g.5gb:6", "-C"]
REMOVE = [["mig", "-i", "0", "-dci"], ["mig", "-i", "0", "-dgi"]]
LISTING = """
+-------------------------------------------------------+
| GPU instances:                                        |
| GPU   Name             Profile  Instance   Placement  |
|                          ID       ID       Start:Size |
|=======================================================|
|   0  MIG 3g.20gb          9        2          4:4     |
+-------------------------------------------------------+
|   0  MIG 1g.5gb+me       20       11          0:1     |
+-------------------------------------------------------+
"""


def gpu(*instances: tuple[str, int], on: bool | None = True, **changes: Any) -> GpuState:  # noqa: ANN401
    return GpuState(0, "NVIDIA A100-SXM4-40GB", 40960, on, on, instances, complete=True)._replace(**changes)


def test_modes_and_instances_are_read() -> None:
    query = gpu_recording("gpu1", 2, SIMULATED_A100).replace(">Disabled</current_mig>", ">Enabled</current_mig>", 1)
    first, second = mig_states(query, LISTING)
    assert (first.on, first.pending) == (True, False)
    assert first.instances == (("1g.5gb+me", 0), ("3g.20gb", 4))
    # The log lists no compute instance for these GPU instances.
    assert not first.complete
    assert (second.on, second.instances, second.complete) == (False, (), True)
    assert mig_states(gpu_recording("gpu1", 1), "No MIG-enabled devices found.")[0].on is None


@pytest.mark.parametrize(
    ("layout", "state", "steps"),
    [
        (SEVEN, gpu(*FULL), []),
        ([], gpu(on=False), []),
        ([], gpu(on=None), []),
        (SEVEN, gpu(on=False), [["-i", "0", "-mig", "1"], CREATE]),
        (SEVEN, gpu(), [CREATE]),
        (SEVEN, gpu(*FULL[:6]), [*REMOVE, CREATE]),
        (SEVEN, gpu(*FULL, complete=False), [*REMOVE, CREATE]),
        ([], gpu(*FULL), [*REMOVE, ["-i", "0", "-mig", "0"]]),
        ([], gpu(), [["-i", "0", "-mig", "0"]]),
        # Enabled, with a pending reset.
        (SEVEN, gpu(on=False, pending=True), [["-i", "0", "-mig", "1"], CREATE]),
    ],
)
def test_only_differences_are_changed(layout: object, state: GpuState, steps: list[list[str]]) -> None:
    plan = mig_plan(layout, [state])
    assert plan.problems == []
    assert plan.steps == steps
    assert bool(plan.before) == bool(plan.after) == bool(steps)


def test_difference_is_shown_per_gpu() -> None:
    plan = mig_plan({"profile": "3g.20gb", "count": 2}, [gpu(("1g.5gb", 0))])
    assert plan.before == "GPU 0: MIG on\nGPU 0: 1g.5gb at 0\n"
    assert plan.after == "GPU 0: MIG on\nGPU 0: 3g.20gb at 0\nGPU 0: 3g.20gb at 4\n"


@pytest.mark.parametrize(
    ("layout", "state", "words"),
    [
        (SEVEN, gpu(on=None), "GPU 0: NVIDIA A100-SXM4-40GB does not support MIG"),
        (SEVEN, gpu(model="NVIDIA Z9"), "GPU 0: no MIG profiles are known for NVIDIA Z9 with 40960 MiB"),
        ({"profile": "1g.5gb", "count": 8}, gpu(), "GPU 0: 8 x 1g.5gb on one A100 40 GB, which supports at most 7"),
        ({"profile": "1g.5gb", "gpus": [1]}, gpu(), "GPU 1 does not exist: the node has 1 GPUs"),
    ],
)
def test_impossible_layout_is_reported_and_nothing_planned(layout: object, state: GpuState, words: str) -> None:
    plan = mig_plan(layout, [state])
    assert words in "; ".join(plan.problems)
    assert plan.steps == []


def test_boot_layout_lists_each_partitioned_gpu() -> None:
    a100 = {"model": "NVIDIA A100-SXM4-40GB", "memory_mb": 40960, "count": 3}
    layout = [{"profile": "3g.20gb", "count": 2, "gpus": [0]}, {"profile": "7g.40gb", "gpus": [2]}]
    assert boot_layout(a100, layout) == ["0 3g.20gb:0,3g.20gb:4", "2 7g.40gb:0"]
    assert boot_layout(a100, []) == []
    with pytest.raises(ValueError, match="no MIG profiles are known for"):
        boot_layout({**a100, "model": "NVIDIA L40S"}, layout)


def test_node_record_of_slurm_is_parsed() -> None:
    text = (
        "NodeName=gpu1 Arch=x86_64\n   ActiveFeatures=(null)\n   Gres=gpu:1g.5gb:7(S:0),gpu:a100:1\n"
        "   State=IDLE+DRAIN ThreadsPerCore=1\n   Reason=busbar: MIG layout [root@2026-11-21T06:57:24]\n"
    )
    fields = node_fields(text)
    assert fields == {"Gres": "gpu:1g.5gb:7(S:0),gpu:a100:1", "State": "IDLE+DRAIN", "Reason": "busbar: MIG layout"}
    assert gres_of(fields["Gres"]) == {"1g.5gb": 7, "a100": 1}
    assert gres_of("(null)") == gres_of("craynetwork:4") == {}
    assert node_fields("NodeName=gpu1 State=IDLE Gres=gpu:2\n")["Reason"] == ""
    assert gres_of("gpu:2") == {"": 2}
