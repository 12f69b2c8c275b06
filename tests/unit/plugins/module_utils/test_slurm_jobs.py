"""What is read from Slurm's answers."""

from __future__ import annotations

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.slurm_jobs import (
    choose_nodes,
    is_over,
    parse_job,
    parse_nodes,
    parse_queue,
    sbatch_arguments,
    unusable_reason,
)

NODES = parse_nodes(
    "gpu1|idle|none\ngpu2|mixed|none\ngpu3|down*|Not responding\ngpu4|drained|busbar: slow\ngpu5|idle*|none\n"
    "gpu6|idle~|none\nnonsense\n"
)


@pytest.mark.parametrize(
    ("node", "words"),
    [
        ("gpu1", ""),
        ("gpu2", ""),
        ("gpu3", "down (Not responding)"),
        ("gpu4", "drained (busbar: slow)"),
        ("gpu5", "does not answer"),
        ("gpu6", ""),
        ("gpu9", "not known to Slurm"),
    ],
)
def test_why_a_node_takes_no_job(node: str, words: str) -> None:
    assert unusable_reason(node, NODES) == words


def test_only_idle_nodes_become_partners() -> None:
    usable, partners, left_out = choose_nodes(["gpu3", "gpu4", "gpu6"], ["gpu2", "gpu3", "gpu1"], 2, NODES)
    assert (usable, partners) == (["gpu6"], ["gpu1"])
    assert set(left_out) == {"gpu3", "gpu4"}


def test_the_job_takes_its_nodes_as_a_whole() -> None:
    found = sbatch_arguments({"name": "cluster", "output": "/x", "arguments": ["--gpus-per-node=8"]}, ["a", "b"], 11)
    assert {"--exclusive", "--nodes=2", "--nodelist=a,b", "--time=11", "--no-requeue", "--gpus-per-node=8"} <= set(
        found
    )


def test_queue() -> None:
    found = parse_queue("7|RUNNING|gpu1|None\n8|PENDING|n/a|Resources\n\n")
    assert found["7"] == {"state": "RUNNING", "batch_host": "gpu1", "reason": "None"}
    assert found["8"]["batch_host"] == ""


def test_job() -> None:
    line = "JobId=7 JobName=a b UserId=root(0) JobState=FAILED ExitCode=1:0 BatchHost=gpu1 StdOut=/x y"
    found = parse_job(line)
    assert (found["JobState"], found["ExitCode"], found["BatchHost"], found["StdOut"]) == (
        "FAILED",
        "1:0",
        "gpu1",
        "/x y",
    )


@pytest.mark.parametrize(
    ("state", "over"), [("RUNNING", False), ("", False), ("CANCELLED+", True), ("COMPLETED", True)]
)
def test_is_over(state: str, over: bool) -> None:  # noqa: FBT001 - a table
    assert is_over(state) is over
