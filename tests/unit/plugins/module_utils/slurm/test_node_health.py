"""What is wrong with a node, and what to tell Slurm about it."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.hardware.gpu_sources import join_sources
from ansible_collections.busbar.cluster.plugins.module_utils.slurm.node_health import (
    Disk,
    Record,
    device_paths,
    drain_reason,
    node_record,
    problems_of,
    step,
)
from gpu_samples import gpu_xml, log_xml

SOUND = [Disk("/", free_mb=5000, free_files=9), Disk("/tmp", free_mb=100)]  # noqa: S108
DECLARED = {"gpus": 2, "free_mb": 100}
LABEL_1 = "0000:11:00.0, serial 1650000000001"
UNCORRECTABLE = "<dram_uncorrectable>3</dram_uncorrectable>"
THERMAL = "<clocks_event_reason_hw_thermal_slowdown>Active</clocks_event_reason_hw_thermal_slowdown>"


def facts(*gpus: str, state: str = "ok", errors: tuple[str, ...] = (), **smi: str) -> dict[str, Any]:
    """What a node tells whose nvidia-smi prints these GPUs."""
    printed = {"query": log_xml(*gpus)} if gpus else {}
    found = join_sources({"state": state, **printed, **smi}, {}, [])
    return {**found, "errors": [*errors, *found["errors"]]}


@pytest.mark.parametrize(
    ("told", "problem"),
    [
        (facts(gpu_xml(0), gpu_xml(1)), None),
        (facts(gpu_xml(0), gpu_xml(1, reasons=THERMAL)), None),
        (facts(state="unusable"), None),
        (facts(gpu_xml(0), gpu_xml(1, memory="GPU is lost")), f"GPU 1 ({LABEL_1}) is lost: the driver cannot reach it"),
        (facts(gpu_xml(0)), "GPUs: 2 declared, 1 found; these answer: 0 at 0000:10:00.0"),
        (
            facts(gpu_xml(0), gpu_xml(1, volatile=UNCORRECTABLE)),
            f"GPU 1 ({LABEL_1}) 3 uncorrectable ECC errors since the driver was loaded",
        ),
        (
            facts(gpu_xml(0, memory="[Unknown Error]"), gpu_xml(1)),
            "GPU 0 (0000:10:00.0, serial 1650000000000) answers with errors only",
        ),
        (facts(gpu_xml(0), gpu_xml(1, state="GPU requires reset")), f"GPU 1 ({LABEL_1}) requires a reset"),
        (facts(gpu_xml(0, name="Unknown Error"), gpu_xml(1)), None),
        (
            facts(gpu_xml(0, memory="GPU is lost"), gpu_xml(1, memory="GPU is lost")),
            "GPU 0,1 (of 2) is lost: the driver cannot reach it",
        ),
    ],
)
def test_gpus(told: dict[str, Any], problem: str | None) -> None:
    found = problems_of(DECLARED, told, [], SOUND)
    assert len(found) == (problem is not None), found
    assert problem is None or found[0].startswith(problem)


@pytest.mark.parametrize(
    ("told", "problems"),
    [
        (
            facts(state="hung", errors=("nvidia-smi did not answer in 10 s",)),
            ["nvidia-smi: fails: nvidia-smi did not answer in 10 s", "GPUs: 2 declared, 0 found"],
        ),
        (facts(state="absent"), ["GPUs: 2 declared, 0 found", "nvidia-smi: is not there any more"]),
        (
            facts(state="failed", query="Unable to determine the device handle for GPU 0000:3B:00.0: Unknown Error"),
            [
                "nvidia-smi: fails: Unable to determine the device handle for GPU 0000:3B:00.0: Unknown Error",
                "GPUs: 2 declared, 0 found",
            ],
        ),
    ],
    ids=["hung", "absent", "failed"],
)
def test_an_nvidia_smi_that_tells_nothing(told: dict[str, Any], problems: list[str]) -> None:
    assert problems_of(DECLARED, told, [], SOUND) == problems


def test_a_node_without_gpus_is_not_asked_for_them() -> None:
    assert problems_of({"gpus": 0, "free_mb": 100}, None, [], SOUND) == []


@pytest.mark.parametrize(
    ("disk", "problem"),
    [
        (Disk("/", read_only=True, free_mb=5000), "/ is read-only"),
        (Disk("/", free_mb=99.4), "/ is full: 99 MiB free, 100 are needed"),
        (Disk("/", free_mb=5000, free_files=0), "/ is full: no inode is free"),
        (Disk("/", error="Input/output error"), "/ does not answer: Input/output error"),
    ],
)
def test_disks(disk: Disk, problem: str) -> None:
    assert problems_of(DECLARED, None, [], [disk]) == [problem]


def test_device_files() -> None:
    assert device_paths("/dev/nvidia[0-1,4]") == ["/dev/nvidia0", "/dev/nvidia1", "/dev/nvidia4"]
    assert device_paths("/dev/nvidia0") == ["/dev/nvidia0"]
    assert device_paths("/dev/nvidia0,/dev/nvidia3") == ["/dev/nvidia0", "/dev/nvidia3"]
    assert device_paths("") == []
    missing = ["/dev/nvidia1", "/dev/nvidia2"]
    assert problems_of(DECLARED, None, missing, []) == ["missing: /dev/nvidia1, /dev/nvidia2"]


def test_a_reason_is_one_short_line() -> None:
    assert drain_reason(['GPU 1 "x"\nis lost']) == "busbar health: GPU 1 'x' is lost"
    assert drain_reason(list("abcde")) == "busbar health: a; b; c; and 2 more"
    long = drain_reason(["x" * 900])
    assert (len(long), long[-3:]) == (400, "...")


def shown(state: str, reason: str = "") -> str:
    tail = f"   Reason={reason} [root@2026-11-21T06:44:01]\n" if reason else ""
    return f"NodeName=gpu1 Arch=x86_64\n   OS=Linux\n   State={state} ThreadsPerCore=1 Owner=N/A\n{tail}"


def test_a_node_as_scontrol_shows_it() -> None:
    assert node_record(shown("IDLE")) == Record(frozenset({"IDLE"}), "")
    told = node_record(shown("MIXED*+DRAIN", "busbar health: GPU 1 [of 2] is lost"))
    assert told == Record(frozenset({"MIXED", "DRAIN"}), "busbar health: GPU 1 [of 2] is lost")
    with pytest.raises(ValueError, match="Node gpu9 not found"):
        node_record("Node gpu9 not found\n")


OURS, ADMINS = "busbar health: GPU 1 is lost", "new memory on Monday"


@pytest.mark.parametrize(
    ("problems", "state", "reason", "resume", "expected"),
    [
        (["x"], "IDLE", "", False, "drain"),
        (["x"], "ALLOCATED", "", True, "drain"),
        (["x"], "IDLE*", ADMINS, False, "drain"),
        (["x"], "MIXED+DRAIN", OURS, False, "keep"),
        (["x"], "IDLE+DRAIN", ADMINS, True, "leave"),
        (["x"], "DOWN", "Not responding", False, "leave"),
        ([], "IDLE+DRAIN", OURS, True, "resume"),
        ([], "DOWN+DRAIN", OURS, True, "resume"),
        ([], "IDLE+DRAIN", OURS, False, "keep"),
        ([], "IDLE+DRAIN", ADMINS, True, "leave"),
        ([], "IDLE+DRAIN", f"see {OURS}", True, "leave"),
        ([], "IDLE", OURS, True, "leave"),
    ],
)
def test_what_to_do(problems: list[str], state: str, reason: str, resume: bool, expected: str) -> None:  # noqa: FBT001
    assert step(problems, node_record(shown(state, reason)), resume=resume) == expected
