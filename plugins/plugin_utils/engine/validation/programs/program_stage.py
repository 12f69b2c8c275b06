# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""The base class of stages that run one program on all nodes in one job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, cast

from ..planned_tests import candidates, check_entry, gpu_count, profile_names, profile_of, with_variables
from ..stage_base import Next, Own, Stage
from .report_columns import Figures

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..result_presentation import Chart, Metric, Section, ShownTest
    from ..validation_types import Entry, Options, Planned, State, Test
    from .stage_verdict import Judged

_PAIR = 2


class ProgramStage(Stage[Own]):
    """A stage that runs one job on all nodes; a single node runs with the configured number of partners.

    A subclass declares its options (`form`) and `figures`, and implements `judged`. The job template is job_NAME.sh.j2.

    Attributes:
        per_gpu: whether the job has one rank per GPU instead of one per node.
        figures: values of its tests in report.json; without columns if the stage has none.
        proves: whether a FAIL is kept if the job failed; a low speed on a failing node is not conclusive.
    """

    per_gpu: ClassVar[bool] = False
    figures: ClassVar[Figures] = Figures(())
    proves: ClassVar[bool] = False

    # -- the job -------------------------------------------------------------------------------------------------

    def exported(self, options: Options, ranks: int) -> dict[str, Any]:
        """Return the environment variables of the job, in addition to BUSBAR_RANKS_PER_NODE."""
        del options, ranks
        return {}

    def job_limit(self, options: Options) -> int | None:
        """Return the seconds after which the job is cancelled; None to apply validation_test_time_limit."""
        del options
        return None

    def _ranks_per_node(self, options: Options, nodes: list[str]) -> int:
        """Return the ranks per node: 1, or the number of GPUs of the node with the fewest."""
        if not self.per_gpu:
            return 1
        if options["backend"] == "mpi":
            return options["mpi_ranks_per_node"]
        return max(1, min((gpu_count(profile_of(options, node)) for node in nodes), default=1))

    def next_tests(self, options: Options, state: State, nodes: list[str]) -> Next:
        """Return the stage's only test, unless it has already run."""
        if self.tests_of(state):
            return Next()
        return Next([self._planned(options, nodes)]) if nodes else Next(skipped="no node passed the earlier stages")

    def _planned(self, options: Options, nodes: list[str]) -> Planned:
        partners = options["partners"] if len(nodes) < _PAIR else 0
        others = candidates(options, nodes) if partners else []
        ranks = self._ranks_per_node(options, nodes + others)
        script, arguments = cast("str", options["own"][self.name]["script"]), [f"--ntasks-per-node={ranks}"]
        if self.per_gpu:
            script = with_variables(script, {"BUSBAR_RANKS_PER_NODE": ranks, **self.exported(options, ranks)})
            arguments += ["--export=ALL", *([f"--gpus-per-node={ranks}"] if options["backend"] == "nccl" else [])]
        planned: Planned = {
            "name": self.name,
            "stage": self.name,
            "kind": self.name,
            "ranks_per_node": ranks,
            "job": {
                "name": self.name,
                "nodes": nodes,
                "candidates": others,
                "partners": partners,
                "minimum": 1,
                "script": script,
                "arguments": [*arguments, *options["sbatch_arguments"]],
                "output": options["output"],
            },
        }
        limit = self.job_limit(options)
        return planned if limit is None else {**planned, "time_limit": limit}

    # -- its output ----------------------------------------------------------------------------------------------

    def judged(self, options: Options, nodes: list[str], ranks: int, text: str) -> Judged:
        """Return the evaluated output of the job; it never raises.

        Args:
            options: options of the validation.
            nodes: the nodes that took part.
            ranks: ranks on each node.
            text: the output; may be empty.
        """
        raise NotImplementedError

    def answer(self, options: Options, planned: Planned, nodes: list[str], text: str) -> dict[str, Any]:
        """Return the verdict, reason, findings and other keys of the test's entry."""
        return self.judged(options, nodes, planned["ranks_per_node"], text).answer(self.name)

    def judge(self, options: Options, planned: Planned, entry: Entry, text: str | None) -> list[Test]:
        """Return the report entry of the test."""
        nodes = entry["nodes"] + entry["partners"]
        answer = self.answer(options, planned, nodes, text or "")
        ranks = planned["ranks_per_node"] * len(nodes)
        hardware = ", ".join(profile_names(options, nodes))
        return [check_entry(planned, entry, text, answer, hardware=hardware, ranks=ranks, proves=self.proves)]

    # -- the report ----------------------------------------------------------------------------------------------

    def read(self, value: object, plain: Callable[[object], str]) -> dict[str, Any] | None:
        """Return the stage-specific values of a test."""
        return self.figures.read(value, plain) if self.figures.columns else None

    def charts(self, figures: dict[str, Any]) -> list[Chart]:
        """Return the charts of a test, from its values with rows in the order of the page."""
        del figures
        return []

    def facts(self, figures: dict[str, Any]) -> list[tuple[str, str]]:
        """Return the terms and values that are shown below the table."""
        del figures
        return []

    def section(self, figures: dict[str, Any]) -> Section:
        """Return the section with the charts, the table and the facts of a test."""
        if not self.figures.columns:
            return super().section(figures)
        ordered = self.figures.ordered(figures)
        return {
            "charts": self.charts(ordered),
            "table": self.figures.table(ordered),
            "note": self.figures.note,
            "facts": self.facts(ordered),
        }

    def metrics(self, test: ShownTest) -> list[Metric]:
        """Return the samples for Prometheus."""
        return self.figures.metrics(test["own"]) if test["own"] else []
