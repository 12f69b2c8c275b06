"""Tests of jobs parsed from Slurm's output."""

from __future__ import annotations

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.slurm.nodes_and_jobs import (
    choose_nodes,
    occupied_words,
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
        ("gpu2", "not idle: mixed"),
        ("gpu3", "down (Not responding)"),
        ("gpu4", "drained (busbar: slow)"),
        ("gpu5", "does not answer"),
        ("gpu6", ""),
        ("gpu9", "not a node in Slurm"),
    ],
)
def test_reason_for_an_unusable_node(node: str, words: str) -> None:
    assert unusable_reason(node, NODES) == words


def test_shared_test_uses_busy_nodes_but_no_unresponsive_ones() -> None:
    assert unusable_reason("gpu2", NODES, share=True) == ""
    assert unusable_reason("gpu5", NODES, share=True) == "does not answer"
    assert choose_nodes(["gpu1", "gpu2"], ["gpu2", "gpu6"], 1, NODES, share=True) == (["gpu1", "gpu2"], ["gpu6"], {})
    assert choose_nodes(["gpu1"], ["gpu2", "gpu6"], 2, NODES, share=True)[1] == ["gpu6"]
    assert "--exclusive" not in sbatch_arguments({"name": "a", "output": "/x"}, ["a"], 1, share=True)


@pytest.mark.parametrize(
    ("queue", "words"),
    [
        ("", ""),
        ("7|alice\n", "job 7 of alice"),
        ("7|alice\n8_[1-3]|bob\n", "job 7 of alice, job 8_[1-3] of bob"),
        ("".join(f"{number}|a\n" for number in range(6)), "job 0 of a, job 1 of a, job 2 of a, job 3 of a and 2 more"),
    ],
)
def test_jobs_that_occupy_a_node_are_named(queue: str, words: str) -> None:
    assert occupied_words(queue) == words


def test_only_idle_nodes_become_partners() -> None:
    usable, partners, left_out = choose_nodes(["gpu3", "gpu4", "gpu6"], ["gpu2", "gpu3", "gpu1"], 2, NODES)
    assert (usable, partners) == (["gpu6"], ["gpu1"])
    assert set(left_out) == {"gpu3", "gpu4"}


def test_job_allocates_its_nodes_exclusively() -> None:
    found = sbatch_arguments({"name": "cluster", "output": "/x", "arguments": ["--gpus-per-node=8"]}, ["a", "b"], 11)
    assert {"--exclusive", "--nodes=2", "--nodelist=a,b", "--time=11", "--no-requeue", "--gpus-per-node=8"} <= set(
        found
    )


def test_queue() -> None:
    found = parse_queue("7|RUNNING|gpu1|None\n8|PENDING|n/a|Resources\n\n")
    assert found["7"] == {"state": "RUNNING", "batch_host": "gpu1", "reason": "None"}
    assert found["8"]["batch_host"] == ""
