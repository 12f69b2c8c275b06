# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""The rdma_pairs stage: RDMA writes between neighbouring nodes in both directions, one rail at a time.

The job puts ``busbar-rdma RAIL CLIENT SERVER: `` before each line of a client of perftest's ib_write_bw. The heading
contains the unit, ``BW average[Gb/sec]`` or ``BW average[MiB/sec]`` (``[MB/sec]`` in older releases), and the row has
bytes, iterations, peak, average and message rate (linux-rdma/perftest src/perftest_parameters.h, RESULT_FMT and
REPORT_FMT, commit 00b55b6660d0170dabe2c1b49193e8fbe265086e). Warnings may appear between the two.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypedDict

from ...common.option_names_in_messages import option
from ...common.printable import plain_text
from ..option_types import Span
from ..planned_tests import profile_of
from ..result_presentation import at_least
from ..stage_base import Next
from .program_stage import ProgramStage
from .report_columns import Column, Figures, Gauge
from .stage_verdict import Fault, Floors, Judged

if TYPE_CHECKING:
    from ..result_presentation import Metric, ShownTest
    from ..validation_types import Options, State

_LINE = re.compile(r"^busbar-rdma (\S{1,64}) (\S{1,255}) (\S{1,255}): ?(.*)$")
_HEAD = re.compile(r"^\s*#bytes\s+#iterations\s+BW peak\[(\S+)/sec\]\s+BW average\[(\S+)/sec\]")
_NUMBER = r"\d+\.?\d*"
_ROW = re.compile(rf"^\s*(\d+)\s+(\d+)\s+({_NUMBER})\s+({_NUMBER})(?:\s+({_NUMBER}))?\s*$")
_LOUD = re.compile(r"couldn't|unable|failed|error|not found|cannot|denied", re.IGNORECASE)
# Factors to Gb/s (10^9 bits per second); perftest's MB is 2^20 bytes.
_UNITS = {"Gb": 1.0, "MiB": (1 << 20) * 8 / 1e9, "MB": (1 << 20) * 8 / 1e9}
_LONGEST = 200
_TOLERANCE = 0.02


class Way(NamedTuple):
    """One direction of a pair on one rail: the rail, the sender and the receiver."""

    rail: str
    client: str
    server: str


class Measured(TypedDict):
    """The bandwidth of one client in Gb/s; if it was not measured, None and the reason."""

    gbps: float | None
    message: str


def read_pairs(text: str) -> dict[Way, Measured]:
    """Return the bandwidth of each direction; it never raises.

    Output with several rows, or with a message rate that contradicts the average, counts as not measured.
    """
    lines: dict[Way, list[str]] = {}
    for line in text.splitlines():
        if found := _LINE.match(line):
            lines.setdefault(Way(found[1], found[2], found[3]), []).append(found[4])
    return {way: _measured(lines_of) for way, lines_of in lines.items()}


def _measured(lines: list[str]) -> Measured:
    unit, values, message = None, [], ""
    for line in lines:
        if head := _HEAD.match(line):
            unit = _UNITS.get(head[2])
        elif unit and (row := _ROW.match(line)):
            average = float(row[4]) * unit
            # perftest prints the rate in 10^6 messages per second; 10^6 / 10^9 gives Gb/s.
            expected = int(row[1]) * 8 * float(row[5] or 0) / 1e3
            if row[5] and abs(expected - average) > _TOLERANCE * max(expected, average):
                return {
                    "gbps": None,
                    "message": f"the message rate contradicts the bandwidth: {' '.join(row[0].split())}",
                }
            values.append(average)
        elif _LOUD.search(line):
            message = plain_text(line.strip())[:_LONGEST]
    if len(values) == 1:
        return {"gbps": values[0], "message": ""}
    return {"gbps": None, "message": message or f"{len(values)} results"}


_TWO = 2
# Published RDMA writes on healthy 100 Gb/s links reach at least 0.97 of the NIC rate.
_SHARE, _SOURCE = 0.9, "computed: 0.9 of the rate of the profile's NICs"
_RAIL = re.compile(r"[\w.-]+")


class RdmaPairsOptions(TypedDict):
    """The validation_rdma_pairs_* options: gbps is the floor of a rail (0: a fraction of the profile's NIC rate)."""

    script: str
    seconds: Annotated[int, Span(1)]
    gbps: Annotated[float, Span(0)]
    rails: list[str]
    program: str


class RdmaPairs(ProgramStage[RdmaPairsOptions]):
    """Finds rails that are slow in one direction, which collectives hide because they also use the other rails."""

    name = "rdma_pairs"
    form = RdmaPairsOptions
    title = "RDMA writes"
    rank = 3
    figures = Figures(
        columns=(
            Column("rail", "Rail", "text"),
            Column("client", "From", "text"),
            Column("server", "To", "text"),
            Column("gbps", "Gb/s"),
            Column("message", "", "long", former="said"),
        ),
        values=(Column("gbps_floor"),),
        gauges=(
            Gauge(
                "rdma_pairs_bytes_per_second",
                "Lowest rate at which a node sends over a rail to one of its neighbours.",
                "gbps",
                (("node", "client"), ("rail", "rail")),
                1e9 / 8,
            ),
        ),
        note="RDMA writes by perftest, one rail and one direction at a time.",
        order=lambda row: row["gbps"] or 0.0,
    )

    def problems(self, options: Options) -> list[str]:
        """Return the problems with the rail names."""
        if self.requested(options) and not all(_RAIL.fullmatch(rail) for rail in self.own(options)["rails"]):
            return [f"{option('rdma_pairs_rails')}: must be a list of names of NICs, such as [mlx5_0, mlx5_1]"]
        return []

    def next_tests(self, options: Options, state: State, nodes: list[str]) -> Next:
        """Return the stage's only test if at least two nodes are available."""
        if not self.tests_of(state) and len(nodes) + options["partners"] < _TWO:
            return Next(skipped=f"{len(nodes)} node(s) passed the earlier stages (required: 2)")
        return super().next_tests(options, state, nodes)

    def judged(self, options: Options, nodes: list[str], ranks: int, text: str) -> Judged:
        """Return the slow directions, and the culprits."""
        del ranks
        own, floors, profiles = self.own(options), Floors(), [profile_of(options, node) for node in nodes]
        kinds = [[nic for nic in profile.get("nics") or [] if nic.get("rdma")] for profile in profiles]
        rates = [min(float(nic["gbps"]) for nic in nics) for nics in kinds if nics]
        floor = floors.pick(own["gbps"], _SHARE * min(rates) if rates and len(rates) == len(nodes) else None, _SOURCE)
        rails = len(own["rails"]) or min((sum(int(nic["count"]) for nic in nics) for nics in kinds), default=0) or 1
        found = {way: item for way, item in read_pairs(text).items() if {way.client, way.server} <= set(nodes)}
        good = {way: item["gbps"] for way, item in found.items() if item["gbps"] is not None}
        slow = {way: gbps for way, gbps in good.items() if floor and 0 < gbps < floor}
        each = [
            f"{way.rail}: {way.client} to {way.server} {gbps:.4g} Gb/s, floor {floor:.4g}" for way, gbps in slow.items()
        ]
        speeds = f"{min(good.values()):.4g} to {max(good.values()):.4g} Gb/s" if good else ""
        return Judged(
            result=f"{len(good)} directions, {speeds}" if good else "nothing was measured",
            faults=[*_blamed(good, slow, floor or 0.0), *(Fault("", words) for words in each)],
            gaps=_gaps(found, nodes, rails),
            doubt=""
            if floor
            else f"no floor is known: the hardware profile has no NIC with RDMA; set {option('rdma_pairs_gbps')}",
            source=str(floors),
            program="ib_write_bw of perftest",
            figures={
                "gbps_floor": floor,
                "rows": [{**way._asdict(), **item} for way, item in sorted(found.items(), key=lambda pair: pair[0])],
            },
        )

    def facts(self, figures: dict[str, Any]) -> list[tuple[str, str]]:
        """Return the floor."""
        return [at_least((figures["gbps_floor"], "{:g} Gb/s on each rail"))]

    def metrics(self, test: ShownTest) -> list[Metric]:
        """Return the lowest rate at which each node sends over each rail."""
        rows = [row for row in (test["own"] or {"rows": []})["rows"] if row["gbps"] is not None]
        lowest = {(row["client"], row["rail"]): row for row in sorted(rows, key=lambda row: -row["gbps"])}
        return self.figures.metrics({"rows": list(lowest.values())})


def _gaps(found: dict[Way, Measured], nodes: list[str], rails: int) -> list[str]:
    """Return the missing measurements."""
    if len(nodes) < _TWO:
        return ["a pair requires two nodes"]
    lost = {way: item["message"] for way, item in found.items() if item["gbps"] is None}
    gaps = [f"{way.rail}: {way.client} to {way.server}: {message}" for way, message in lost.items()]
    known = sorted({way.rail for way in found})
    if len(known) < rails:
        gaps.append(f"{len(known)} rail(s) reported results (expected {rails})")
    for rail in known:
        for words, place in (("sent nothing", 1), ("received nothing", 2)):
            seen = {way[place] for way in found if way.rail == rail}
            gaps += [f"{rail}: {node} {words}" for node in nodes if node not in seen]
    return gaps


def _blamed(good: dict[Way, float], slow: dict[Way, float], floor: float) -> list[Fault]:
    """Return the nodes that are too slow in one direction with two neighbours that are fast with other nodes."""
    faults = []
    for place, words in ((1, "sends"), (2, "receives")):
        for rail, node in dict.fromkeys((way.rail, way[place]) for way in slow):
            mine = [way for way in good if way.rail == rail and way[place] == node]
            others = {way[3 - place] for way in mine}
            fast = [way for way, gbps in good.items() if way.rail == rail and node not in way[1:] and gbps >= floor]
            if len(others) >= _TWO and set(mine) <= set(slow) and others <= {way[3 - place] for way in fast}:
                most = f"{rail}: {words} at most {max(slow[way] for way in mine):.4g} Gb/s"
                faults.append(Fault(node, f"{most} with {len(others)} nodes, floor {floor:.4g}"))
    return faults
