"""Tests of whether a drain of a node belongs to the driver update."""

from __future__ import annotations

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.slurm.driver_drain import node_service, unknown_jobs

OURS = "busbar: NVIDIA driver 580.95.05"


@pytest.mark.parametrize(
    ("line", "known", "drain", "ours", "answers"),
    [
        ("gpu1|idle|none", True, True, True, True),
        ("gpu1|mixed|none", True, True, True, True),
        ("gpu1|idle*|none", True, True, True, False),
        ("gpu1|drained|cable, Meyer", True, False, False, True),
        ("gpu1|draining|cable, Meyer", True, False, False, True),
        (f"gpu1|drained|{OURS}", True, False, True, True),
        (f"gpu1|draining|{OURS} failed: no driver is loaded", True, False, True, True),
        ("gpu1|down*|Not responding", True, False, False, False),
        ("gpu1|maint|none", True, False, False, True),
        ("gpu10|idle|none", False, False, False, False),
        ("", False, False, False, False),
    ],
)
def test_node_is_drained_and_resumed_only_by_the_driver_update(
    line: str, *, known: bool, drain: bool, ours: bool, answers: bool
) -> None:
    found = node_service("gpu1", f"{line}\n")
    assert (found["known"], found["drain"], found["ours"], found["answers"]) == (known, drain, ours, answers)


@pytest.mark.parametrize(
    ("answer", "daemons", "said"),
    [
        ({"rc": 0, "stdout": "gpu1|idle|none\n"}, ["slurmd", "slurmstepd"], ""),
        ({"rc": 0, "stdout": ""}, ["slurmd"], ""),
        ({"rc": 0, "stdout": "gpu10|idle|none\n"}, ["slurmstepd"], "slurmstepd is running, but Slurm has no node"),
        (
            {"rc": 1, "stderr": "Unable to contact"},
            ["slurmd"],
            "slurmd is running, but sinfo failed: Unable to contact",
        ),
        (
            {"rc": 2, "msg": "No such file: sinfo"},
            ["slurmstepd"],
            "slurmstepd is running, but sinfo failed: No such file",
        ),
        ({}, ["slurmd"], "slurmd is running, but sinfo failed: no answer"),
        # A new cluster: Slurm is not installed yet on either side.
        ({"rc": 2, "msg": "No such file: sinfo"}, [], ""),
    ],
)
def test_missing_answer_is_not_an_empty_job_list(answer: dict[str, object], daemons: list[str], said: str) -> None:
    found = unknown_jobs("gpu1", answer, daemons)
    assert found.startswith(said)
    assert bool(found) == bool(said)
