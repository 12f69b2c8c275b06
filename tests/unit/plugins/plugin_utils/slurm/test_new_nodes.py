"""Tests of nodes to admit to a running cluster, and of machines that it already has."""

from __future__ import annotations

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.slurm.new_nodes import (
    new_node_problems,
    node_admission,
)

DECLARED = ["gpu1", "gpu2", "gpu3", "gpu4"]


def shown(name: str, state: str = "IDLE", reason: str = "", address: str = "") -> str:
    told = f" Reason={reason} [root@2026-11-23T00:00:00]" if reason else ""
    where = f"NodeAddr={address or name} NodeHostName={name}"
    return f"NodeName={name} Arch=x86_64 CoresPerSocket=1 {where} Version=24.11 State={state} CPUTot=4{told}\n"


SHOWN = shown("gpu1", reason="x NodeName=gpu4") + shown("gpu2")
CUT = shown("gpu1") + shown("gpu2", "IDLE+DRAIN", "busbar: new")
FAILED = CUT + shown("gpu3", "DOWN*+DRAIN", "busbar: new: node-gpu3: slow")


@pytest.mark.parametrize(
    ("said", "asked", "expected"),
    [
        (SHOWN, "", ["gpu3", "gpu4"]),
        (SHOWN, "gpu[3-4]", ["gpu3", "gpu4"]),
        ("", "", DECLARED),
        ("".join(map(shown, DECLARED)), "", []),
        (CUT, "", ["gpu2", "gpu3", "gpu4"]),
        (FAILED, "", ["gpu2", "gpu3", "gpu4"]),
        # Left by a killed validation; scontrol shows the reservation after the reason.
        (FAILED.replace("]\n", "] ReservationName=busbar-validation\n"), "", ["gpu2", "gpu3", "gpu4"]),
        (FAILED, ["gpu4", "gpu3"], ["gpu3", "gpu4"]),
        (shown("gpu2", "IDLE+DRAIN", "replaced, jd"), "gpu2", ["gpu2"]),
    ],
)
def test_new_nodes(said: str, asked: str | list[str], expected: list[str]) -> None:
    assert node_admission(DECLARED, said, asked)["new"] == expected


def test_unknown_hosts_are_refused() -> None:
    found = node_admission(DECLARED, SHOWN, "gpu[4-6]")
    (problem,) = found["problems"]
    assert (problem["hosts"], problem["key"], found["new"]) == (["gpu5", "gpu6"], "new_nodes", [])
    assert problem["problem"] == "is not a compute node of the inventory"


def test_invalid_host_list_is_a_problem() -> None:
    (problem,) = node_admission(DECLARED, SHOWN, "gpu[4-")["problems"]
    assert "is not a list of hosts" in problem["problem"]


@pytest.mark.parametrize("state", ["IDLE", "MIXED", "ALLOCATED+DRAIN", "IDLE+RESERVED"])
def test_node_in_service_is_not_admitted_again(state: str) -> None:
    found = node_admission(DECLARED, shown("gpu1", state), "gpu[1,4]")
    (problem,) = found["problems"]
    assert (problem["hosts"], found["new"]) == (["gpu1"], [])
    assert "is in service (" in problem["problem"]
    assert "busbar validate -e 'validation_nodes=gpu1'" in problem["remedy"]


def test_check_mode_includes_nodes_that_would_be_drained() -> None:
    assert node_admission(DECLARED, shown("gpu1"), "gpu1", "gpu[1-2]")["new"] == ["gpu1"]


def test_failed_nodes_are_not_retested_automatically() -> None:
    silent = FAILED.replace("Reason=busbar: new ", "Reason=busbar: new : Not responding ")
    for said in (FAILED, silent):
        assert node_admission(DECLARED, said)["untested"] == ["gpu2"]


def test_node_left_in_the_reservation_by_a_killed_validation_is_new() -> None:
    left = "".join(map(shown, DECLARED)) + "ReservationName=busbar-new StartTime=x Nodes=gpu[2-3] NodeCnt=2 Users=y\n"
    found = node_admission(DECLARED, left)
    assert found["new"] == found["untested"] == ["gpu2", "gpu3"]
    assert node_admission(DECLARED, left, "gpu2")["new"] == ["gpu2"]


def machine(name: str, address: str, slurmd: str = "inactive") -> str:
    return f"{name}\n{slurmd}\n2: eth0    inet {address}/24 brd 10.0.0.255 scope global eth0\n"


@pytest.mark.parametrize(
    ("said", "resolved", "owner"),
    [
        (machine("bare", "10.0.0.9"), "", ""),
        (machine("gpu4", "10.0.0.9", "active"), "", ""),
        # Its slurmd runs as another node, so jobs may be running.
        (machine("old7.site", "10.0.0.9", "active"), "", "old7"),
        # A clone that is not renamed yet.
        (machine("old7", "10.0.0.9"), "", ""),
        (machine("bare", "10.0.0.7"), "10.0.0.7        old7.site old7\n", "old7"),
        (machine("bare", "10.0.0.8"), "", "old8"),
        ("", "10.0.0.7 old7\n", ""),
    ],
)
def test_machine_known_under_another_name_is_refused(said: str, resolved: str, owner: str) -> None:
    slurm = shown("gpu1") + shown("old7") + shown("old8", address="10.0.0.8")
    assert node_admission(DECLARED, slurm)["forgotten"] == ["old7", "old8"]
    problems = new_node_problems(["gpu4"], slurm, {"gpu4": said}, resolved)
    assert [problem["problem"] for problem in problems] == ([f"is already in the cluster as {owner}"] if owner else [])
