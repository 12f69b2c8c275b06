# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""The gemm stage: all GPUs multiply the same matrices, and copy memory, at the same time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from ...common.option_names_in_messages import option
from ..option_types import Span
from ..planned_tests import profile_of
from ..result_presentation import at_least, bars, text_cell
from .gemm_results import Floor, compared, gaps_of, known_floor, reached, read_products
from .program_stage import ProgramStage
from .report_columns import DEVICE, Column, Figures, Gauge
from .stage_verdict import Floors, Judged

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..result_presentation import Cell, Chart, Series
    from ..validation_types import Options

_MOST_BARS = 64


class GemmOptions(TypedDict):
    """The validation_gemm_* options: floors in TFLOP/s and GB/s (0: use the profile's), spread in percent."""

    script: str
    seconds: Annotated[float, Span(0.1)]
    size: Annotated[int, Span(0)]
    spread: Annotated[float, Span(0, 100)]
    tflops: Annotated[float, Span(0)]
    memory_gbs: Annotated[float, Span(0)]
    wrong_node: str
    python: str
    image: str


def _results(row: dict[str, Any]) -> Cell:
    return text_cell("wrong", "fail") if row["wrong"] else text_cell("as expected")


class Gemm(ProgramStage[GemmOptions]):
    """Finds GPUs that are slower than comparable ones, and GPUs that compute wrong results."""

    name = "gemm"
    form = GemmOptions
    title = "Matrix products"
    rank = 1
    per_gpu = True
    figures = Figures(
        columns=(
            *DEVICE,
            Column("kind", "Kind", "text"),
            Column("tflops", "TFLOP/s"),
            Column("lowest_tflops", "Slowest batch"),
            Column("median_share", "Share of median, %", factor=100),
            Column("memory_gbs", "Memory, GB/s"),
            Column("wrong", "Results", "text", read=lambda value: value is True, cell=_results),
        ),
        values=(
            Column("precision", kind="text"),
            *map(Column, ("size", "tflops_floor", "memory_floor_gbs", "spread_limit")),
        ),
        gauges=(
            Gauge("gemm_tflops", "Operations per second of matrix products on a device, in units of 10^12.", "tflops"),
            Gauge(
                "gemm_memory_bytes_per_second",
                "Bytes per second that a copy in a device's memory reads and writes.",
                "memory_gbs",
                factor=1e9,
            ),
            Gauge("gemm_wrong", "1 if a device gave wrong results, else 0.", "wrong"),
        ),
        note=(
            "All GPUs multiply the same matrices at the same time. The median is that of identical GPUs. A result that "
            "differs from that of identical GPUs, or from an earlier result of the same GPU, is silent data corruption."
        ),
        order=lambda row: (not row["wrong"], row["tflops"] or 0.0),
    )

    def budget(self, options: Options) -> list[str]:
        """Return the maximum duration."""
        seconds = self.own(options)["seconds"]
        return [f"gemm: all GPUs at once for {seconds:g} s (time limit {options['test_time_limit']} s)"]

    def judged(self, options: Options, nodes: list[str], ranks: int, text: str) -> Judged:
        """Return the devices with wrong results or low speed."""
        own, chosen = self.own(options), Floors()
        found, messages = read_products(text, nodes, "cpu" if options["backend"] == "mpi" else "gpu")
        floors: dict[str, Floor] = {}
        for node in nodes:
            profile = profile_of(options, node) if options["backend"] == "nccl" else {}
            known, source = known_floor(profile), (profile.get("gemm") or {}).get("source")
            speed = chosen.pick(own["tflops"], known.tflops, source)
            floors[node] = Floor(speed, chosen.pick(own["memory_gbs"], known.memory_gbs, source))
        applied = [floors[rank["node"]] for rank in found]
        remedy = f" ({option('gemm_image')}, or the nodes' packages)"
        gaps = gaps_of(found, messages, nodes, ranks)
        return Judged(
            result=reached(found),
            faults=compared(found, floors, own["spread"] / 100),
            gaps=[f"{node}: {words}{remedy if node in messages else ''}" for node, words in gaps.items()],
            doubt=_doubt(applied),
            source=str(chosen),
            program="busbar_gemm",
            version=found[0]["library"] if found else None,
            figures={
                "precision": found[0]["precision"] if found else "",
                "size": found[0]["size"] if found else None,
                "tflops_floor": _least(floor.tflops for floor in applied),
                "memory_floor_gbs": _least(floor.memory_gbs for floor in applied),
                "spread_limit": own["spread"] / 100,
                "rows": [{column.key: rank[column.key] for column in self.figures.columns} for rank in found],
            },
        )

    def charts(self, figures: dict[str, Any]) -> list[Chart]:
        """Return a bar chart of the slowest device of each node, slowest first."""
        slowest: dict[str, float | None] = {}
        for row in figures["rows"]:
            slowest.setdefault(row["node"], row["tflops"])
        labels, floor = list(slowest)[:_MOST_BARS], figures["tflops_floor"]
        series: Series = {"name": "measured", "values": [slowest[node] for node in labels]}
        series["limits"] = [floor] if floor else []
        return bars("Slowest of each node", "TFLOP/s", labels, [series])

    def facts(self, figures: dict[str, Any]) -> list[tuple[str, str]]:
        """Return the size of the matrices and the floors."""
        size, speed, memory = (figures[key] for key in ("size", "tflops_floor", "memory_floor_gbs"))
        matrices = f"{size:.0f} x {size:.0f}, {figures['precision']}" if size else ""
        return [("Matrices", matrices), at_least((speed, "{:.4g} TFLOP/s"), (memory, "{:.4g} GB/s of memory"))]


def _doubt(floors: list[Floor]) -> str:
    """Return why the result is inconclusive although no speed is below a floor; otherwise empty."""
    for what, key in (("", "tflops"), (" of the memory", "memory_gbs")):
        if any(getattr(floor, key) is None for floor in floors):
            return f"no floor{what} is known: set gemm in the hardware profile, or {option(f'gemm_{key}')}"
    return ""


def _least(floors: Iterable[float | None]) -> float | None:
    return min((floor for floor in floors if floor is not None), default=None)
