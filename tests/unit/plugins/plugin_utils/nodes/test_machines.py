"""Tests of detecting replaced machines by host keys and serial numbers."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.action.replaced_machine import (
    change_of,
    compared,
    known_parts,
)

OLD, NEW, OTHERS = "ssh-ed25519 OLD", "ssh-ed25519 NEW", "ssh-ed25519 OTHER"


def part(kind: str, serial: str = "", identity: str = "") -> dict[str, str]:
    return {"kind": kind, "serial": serial, "id": identity, "name": "x"}


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ([part("machine", "A")], [part("machine", "B")], ("A", "B", False)),
        ([part("machine", "A")], [part("machine", "A")], ("A", "A", True)),
        # A job cannot read the machine's serial number, but both sources have the GPUs' serial numbers.
        ([part("gpu", "1"), part("gpu", "2")], [part("machine", "A"), part("gpu", "2")], ("1, 2", "2", True)),
        ([part("gpu", "", "GPU-1")], [part("machine", "A"), part("gpu", "", "GPU-2")], ("GPU-1", "GPU-2", False)),
        ([part("gpu", "1")], [part("nic", "", "aa:bb")], ("1", "aa:bb", False)),
        ([], [part("machine", "A")], ("", "A", False)),
        ([], [], ("", "", False)),
    ],
)
def test_machines_are_compared_by_the_parts_that_both_report(
    before: list[dict[str, str]], after: list[dict[str, str]], expected: tuple[str, str, bool]
) -> None:
    assert compared(before, after) == expected


@pytest.mark.parametrize(
    ("key", "same_serial", "allow_same", "last", "event", "problem"),
    [
        (NEW, False, False, "", "replaced", ""),
        (NEW, True, False, "", "reinstalled", ""),
        (
            OLD,
            True,
            False,
            "",
            "",
            "it is still the old machine: its host key is already recorded, ",
        ),
        (OLD, False, False, "", "", "it is still the old machine"),
        (OLD, True, True, "", "provisioned again", ""),
        # An interrupted run is continued; after the machine was admitted, the run is finished.
        (OLD, False, False, "replaced", "", ""),
        (OLD, False, False, "admitted", "", "it is still the old machine"),
        ("ssh-ed25519 GONE", False, False, "", "", "its host key is revoked"),
        (OTHERS, False, True, "", "", "it has the host key of gpu4"),
    ],
)
def test_change_of_a_machine_is_classified(  # noqa: PLR0913, PLR0917 - a table
    key: str,
    same_serial: bool,  # noqa: FBT001
    allow_same: bool,  # noqa: FBT001
    last: str,
    event: str,
    problem: str,
) -> None:
    records: list[dict[str, Any]] = [{"at": 1, "node": "gpu3", "event": last, "host_key": OLD}] if last else []
    found = change_of(
        "gpu3",
        key,
        known={"gpu3": OLD, "gpu4": OTHERS},
        former=["ssh-ed25519 GONE"],
        records=records,
        same_serial=same_serial,
        allow_same=allow_same,
    )
    assert (found.event, found.problem[: len(problem)]) == (event, problem)
    assert bool(found.problem) == bool(problem) == bool(found.remedy)


def test_node_missing_in_the_ledger_counts_as_replaced() -> None:
    given: dict[str, Any] = {"known": {}, "former": [], "records": [], "same_serial": False, "allow_same": False}
    assert change_of("gpu3", NEW, **given).event == "replaced"


def test_last_recorded_machine_is_used() -> None:
    records: list[dict[str, Any]] = [
        {"node": "gpu3", "parts": [part("machine", "A")]},
        {"node": "gpu3", "parts": [part("machine", "B"), "damaged"]},
        {"node": "gpu3", "parts": "damaged"},
        {"node": "gpu4", "parts": [part("machine", "C")]},
    ]
    assert known_parts("gpu3", records) == [part("machine", "B")]
    assert known_parts("gpu9", records) == []
