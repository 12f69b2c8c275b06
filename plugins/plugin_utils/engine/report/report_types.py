# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""The data types of a parsed report, and of comparisons between reports.

All keys are present and all text is printable; unknown values are None. Bandwidths are in GB/s, sizes in bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from ..validation.result_presentation import ShownTest

if TYPE_CHECKING:
    from ....module_utils.hardware.machine_parts import Part
    from ..validation.resume_nodes import NodeChange
    from ..validation.validation_types import JobEnd, Peers, Unresolved


class Row(TypedDict):
    """A row of an nccl-tests table: size, and busbw out-of-place and in-place."""

    size: int
    out_of_place: float | None
    in_place: float | None


class Fabric(TypedDict):
    """Networks and NICs that NCCL used, according to its log."""

    networks: list[str]
    nics: list[str]
    gdrdma: object
    nvls: object
    in_network: object


class Run(TypedDict):
    """An nccl-tests table."""

    program: str | None
    nccl_tests_version: str | None
    nccl_version: str | None
    hosts: list[str]
    devices: list[str]
    fabric: Fabric
    rows: list[Row]


class Matrix(TypedDict):
    """A matrix of a check; odd contains row and column of each slow cell, p2p is whether the floor applies."""

    title: str
    unit: str
    what: str
    p2p: bool
    rows: list[str]
    columns: list[str]
    values: list[list[float | None]]
    odd: list[tuple[int, int]]


class Result(TypedDict):
    """A result of a diagnosis; ids identify units such as GPUs."""

    category: str
    test: str
    unit: str
    status: str
    ids: list[str]
    messages: list[str]


class ReadTest(ShownTest):
    """A test; if it used a single rail, collective includes the name of the rail."""

    collective: str
    reason: str
    measured_busbw: float | None
    at_size: int | None
    floor: float | None
    ceiling: float | None
    findings: list[str]
    peers: Peers | None
    tail: list[str]
    program: str | None
    version: str | None
    matrices: list[Matrix]
    results: list[Result]
    ranks: int
    source: str | None
    output: str | None
    left_out: dict[str, str]
    environment: dict[str, str]
    parts: dict[str, list[Part]]
    job: JobEnd
    runs: list[Run]


class Culprit(TypedDict):
    """A culprit; kind is node, rail, link or boundary."""

    kind: str
    nodes: list[str]
    reason: str


class ReadReport(TypedDict):
    """A report.

    Attributes:
        started: ISO 8601.
        culprits: None if no search ran.
        unresolved: nodes without a conclusive verdict.
        suspected: nodes that may be slow, without conclusive evidence.
        node_changes: nodes that were drained or resumed.
        leftovers: changes to the cluster that could not be reverted.
    """

    verdict: str
    reason: str
    cluster: str
    started: str
    backend: str
    nodes: list[str]
    left_out: dict[str, str]
    node_reasons: list[str]
    settings: dict[str, str]
    culprits: list[Culprit] | None
    unresolved: list[Unresolved]
    suspected: list[Unresolved]
    node_changes: list[NodeChange]
    leftovers: list[str]
    tests: list[ReadTest]


class Past(TypedDict):
    """A value of an earlier report."""

    started: str
    busbw: float
    verdict: str


class Compared(TypedDict):
    """The comparison of a value with its history and with the fleet.

    Changes are relative to the median or the last value; None without enough values. flags contains a message for each
    drift.
    """

    subject: str
    name: str
    nodes: list[str]
    stage: str
    collective: str
    size: int
    busbw: float
    verdict: str
    past: list[Past]
    last_change: float | None
    own_median: float | None
    own_change: float | None
    fleet_median: float | None
    fleet_change: float | None
    flags: list[str]


class NodeFigure(TypedDict):
    """The results of a node in a stage of a report: medians over its tests."""

    node: str
    stage: str
    collective: str
    verdict: str
    busbw: float | None
    floor: float | None
    ceiling: float | None
