"""Tests of parsing Slurm's records of nodes over time."""

from __future__ import annotations

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.slurm.node_events import (
    failed_jobs,
    node_events,
    nodes_now,
)

REASON = "busbar health: GPU 1 is lost"
NODES = f"""\
NodeName=gpu1 Arch=x86_64 State=IDLE+DRAIN BootTime=1763850000 Version=24.11.5 Reason={REASON} [root@1763853000]
NodeName=gpu2 Arch=x86_64 State=MIXED BootTime=None Version=24.11.5
"""
EVENTS = """\
|1763850000|Unknown||slurm(64030)|Cluster Registered TRES
gpu1|1763853000|Unknown|DRAIN|root(0)|busbar health: GPU 1 is lost
gpu2|1763850000|1763850100|DOWN*|slurm(64030)|Not responding
gpu1|1763851000|1763851100|DRAIN|alice(2001)|a reason | with a bar
half a line
"""
JOBS = """\
11|NODE_FAIL|0:0|alice|2|gpu[1-2]|gpu2|1763850050|train
12|FAILED|1:0|bob|1|gpu1||1763850040|a|b
13|NODE_FAIL|0:0|bob|1|gpu1|None|1763850060|x
14|CANCELLED by 0|0:0|bob|0|None assigned||1763850070|x
"""


def test_states_are_parsed_with_reason_and_author() -> None:
    found = nodes_now(NODES)
    assert found["gpu1"] == {
        "state": "drained",
        "flags": "IDLE+DRAIN",
        "reason": "busbar health: GPU 1 is lost",
        "by": "root",
        "since": 1763853000,
        "booted": 1763850000,
        "version": "24.11.5",
    }
    assert (found["gpu2"]["state"], found["gpu2"]["reason"], found["gpu2"]["booted"]) == ("mixed", "", None)
    with pytest.raises(ValueError, match="scontrol returned no nodes: No nodes"):
        nodes_now("No nodes in the system\n")


def test_events_are_sorted_by_time() -> None:
    found = node_events(EVENTS)
    assert [(each["node"], each["until"], each["by"]) for each in found] == [
        *(("gpu2", 1763850100, "slurm"), ("gpu1", 1763851100, "alice"), ("gpu1", None, "root")),
    ]
    assert found[1]["reason"] == "a reason | with a bar"
    assert {each["node"] for each in node_events(EVENTS, ["gpu2"])} == {"gpu2"}


def test_failed_jobs_are_parsed_with_the_failed_node() -> None:
    found = {each["job"]: each for each in failed_jobs(JOBS)}
    assert list(found) == ["12", "11", "13"]
    assert (found["11"]["failed_nodes"], found["11"]["nodes"], found["11"]["count"]) == (["gpu2"], "gpu[1-2]", 2)
    # A job on a single node failed on that node.
    assert (found["13"]["failed_nodes"], found["12"]["name"]) == (["gpu1"], "a|b")
    assert [each["job"] for each in failed_jobs(JOBS, ["gpu2"])] == ["11"]
