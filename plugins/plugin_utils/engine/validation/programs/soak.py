# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""The soak stage: alternates matrix products and all-reduces for a given time, and monitors all nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from ...common.option_names_in_messages import option
from ...nccl.ras import ras_words
from ..nccl_judge import PASS
from ..option_types import Span, bytes_of
from ..result_presentation import curves, points
from .program_stage import ProgramStage
from .report_columns import DEVICE, Column, Figures, Gauge
from .soak_judge import expected_of, judge_soak
from .soak_samples import read_soak

if TYPE_CHECKING:
    from ..result_presentation import Chart, Metric, ShownTest
    from ..validation_types import Options, Planned
    from .stage_verdict import Judged

_MINUTE_S = 60


class SoakOptions(TypedDict):
    """The validation_soak_* options: spread and decay in percent, bytes as a size for bytes_of."""

    script: str
    minutes: Annotated[float, Span(0.1)]
    gemm_seconds: Annotated[float, Span(0.1)]
    interval: Annotated[float, Span(0.1)]
    bytes: str
    iterations: Annotated[int, Span(1)]
    spread: Annotated[float, Span(0, 100)]
    decay: Annotated[float, Span(0, 100)]
    kernel_log: bool


class Soak(ProgramStage[SoakOptions]):
    """Finds faults that appear only under sustained load."""

    name = "soak"
    form = SoakOptions
    title = "Soak"
    rank = 1
    per_gpu = True
    figures = Figures(
        columns=(
            *DEVICE,
            Column("tflops_first", "TFLOP/s, first"),
            Column("tflops_last", "TFLOP/s, last"),
            Column("lowest_clock_mhz", "Lowest clock, MHz"),
            Column("median_clock_mhz", "Median clock, MHz"),
            Column("highest_temperature_c", "Highest temperature, °C"),
            Column("highest_power_w", "Highest power, W"),
            Column("uncorrectable", "Uncorrectable errors"),
            Column("correctable", "Correctable errors"),
            Column("pcie_replays", "PCIe replays"),
            Column("nvlink_errors", "NVLink errors"),
            Column("slowed", "Throttling", "long", badge="fail"),
        ),
        values=(
            *map(Column, ("seconds", "turns", "decay_limit")),
            Column("busbw", read=lambda value: [row for row in points(value, 2) if row[1] is not None]),
            Column("watched", read=lambda value: points(value, 4)),
        ),
        gauges=(
            Gauge("soak_temperature_celsius", "Highest temperature of a device in a soak.", "highest_temperature_c"),
            Gauge("soak_clock_mhz", "Lowest clock of a device in a soak.", "lowest_clock_mhz"),
            Gauge("soak_uncorrectable_errors", "Uncorrectable memory errors of a device in a soak.", "uncorrectable"),
        ),
        note=(
            "Matrix products and all-reduces alternate. First and last: the first and last iteration. The column "
            "Throttling contains the reasons that nvidia-smi reported."
        ),
        order=lambda row: (not row["uncorrectable"], not row["slowed"], row["tflops_last"] or 0.0),
    )

    def problems(self, options: Options) -> list[str]:
        """Return the problems with the size, and with a time limit for all tests that is too short."""
        if not self.requested(options):
            return []
        own, problems = self.own(options), []
        try:
            bytes_of(own["bytes"])
        except ValueError as exc:
            problems.append(f"{option('soak_bytes')}: {exc}")
        if 0 < options["time_limit"] < self.job_limit(options):
            problems.append(
                f"{option('time_limit')}: {options['time_limit']} is less than the {self.job_limit(options)} s that "
                f"the stage soak may take: raise it, or lower {option('soak_minutes')} ({own['minutes']:g})"
            )
        if own["interval"] > own["minutes"] * _MINUTE_S / 2:
            problems.append(
                f"{option('soak_interval')}: {own['interval']:g} s is more than half of {option('soak_minutes')} "
                f"({own['minutes']:g}): lower it"
            )
        return problems

    def job_limit(self, options: Options) -> int:
        """Return the seconds after which the job is cancelled, including an iteration that starts late."""
        return int(self.own(options)["minutes"] * _MINUTE_S) + options["test_time_limit"]

    def budget(self, options: Options) -> list[str]:
        """Return the duration."""
        return [f"soak: all nodes for {self.own(options)['minutes']:g} min, at most {self.job_limit(options)} s"]

    def exported(self, options: Options, ranks: int) -> dict[str, Any]:
        """Return the variable that sets how long the job runs."""
        del ranks
        return {"BUSBAR_SOAK_SECONDS": int(self.own(options)["minutes"] * _MINUTE_S)}

    def judged(self, options: Options, nodes: list[str], ranks: int, text: str) -> Judged:
        """Return the nodes that failed under load."""
        what = "cpu" if options["backend"] == "mpi" else "gpu"
        return judge_soak(read_soak(text), nodes, expected_of(self.own(options), ranks, what))

    def answer(self, options: Options, planned: Planned, nodes: list[str], text: str) -> dict[str, Any]:
        """Return the result, with NCCL RAS reports unless it passed."""
        found = super().answer(options, planned, nodes, text)
        return found if found["verdict"] == PASS else {**found, "findings": found["findings"] + ras_words(text)}

    def charts(self, figures: dict[str, Any]) -> list[Chart]:
        """Return the curves over time."""
        watched = figures["watched"]
        return [
            *curves("All-reduce", "GB/s", "minutes", figures["busbw"], {"busbw": 1}),
            *curves("Clocks", "MHz", "minutes", watched, {"median": 2, "lowest": 1}),
            *curves("Temperature", "°C", "minutes", watched, {"highest": 3}),
        ]

    def facts(self, figures: dict[str, Any]) -> list[tuple[str, str]]:
        """Return the duration, the iterations and the limit."""
        seconds, turns, limit = (figures[key] for key in ("seconds", "turns", "decay_limit"))
        return [
            ("Asked for", "" if seconds is None else f"{seconds / _MINUTE_S:.4g} min"),
            ("Iterations", "" if turns is None else f"{turns:.0f}"),
            ("Allowed loss of speed", "" if limit is None else f"{limit:.0%}"),
        ]

    def metrics(self, test: ShownTest) -> list[Metric]:
        """Return the bandwidth of the first and the last all-reduce, and the samples of each device."""
        speeds = [row[1] for row in (test["own"] or {"busbw": []})["busbw"]]
        words = "Bus bandwidth of the all-reduce in the first and the last iteration of a soak."
        gauge = Gauge("soak_busbw_bytes_per_second", words, "busbw", (("turn", "turn"),), 1e9)
        ends = (("first", speeds[0]), ("last", speeds[-1])) if speeds else ()
        return [gauge.sample({"turn": turn, "busbw": speed}) for turn, speed in ends] + super().metrics(test)
