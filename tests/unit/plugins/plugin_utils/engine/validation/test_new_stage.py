"""Tests that a stage registered only here is planned, judged, reported and exported.

It measures the clock offset of each node and compares it with an option of the stage.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

import jsonschema
import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.report.junit import junit
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.report.metrics import metrics
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.report.report_reader import normalised
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation import stage_registry
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.check_options import (
    typed,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.next_tests import (
    budget,
    next_step,
    with_results,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.option_types import Span
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.programs.program_stage import (
    ProgramStage,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.programs.report_columns import (
    Column,
    Figures,
    Gauge,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.programs.stage_verdict import (
    Fault,
    Judged,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.result_presentation import (
    CODES,
    bars,
    curves,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.validation_report import (
    report,
    summary_lines,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.report_files import write_pages
from junitparser import Failure, JUnitXml
from prometheus_client.parser import text_string_to_metric_families
from report_samples import nccl_text
from validation_samples import job_entry, validation_options

if TYPE_CHECKING:
    from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.report.report_types import ReadReport, ReadTest
    from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.result_presentation import (
        Chart,
        Metric,
        Series,
        ShownTest,
    )
    from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.validation_types import (
        Options,
        Report,
        State,
    )

SCHEMA = json.loads((Path(__file__).parents[6] / "roles/validation/files/report.schema.json").read_text())
NODES = ["gpu1", "gpu2", "gpu3"]


class ClockOptions(TypedDict):
    """The option validation_clock_most_ms, and the job script."""

    script: str
    most_ms: Annotated[float, Span(0)]


class Clock(ProgramStage[ClockOptions]):
    """A stage that compares the clocks of all nodes; its job prints a line 'clock NODE MILLISECONDS' for each."""

    name = "clock"
    form = ClockOptions
    title = "Clocks"
    figures = Figures(
        columns=(Column("node", "Node", "text"), Column("offset", "Offset, ms")),
        values=(Column("most_ms"),),
        gauges=(Gauge("clock_offset_seconds", "Of a node.", "offset", (("node", "node"),), 1e-3),),
        note="Against the clock of the controller.",
    )

    def judged(self, options: Options, nodes: list[str], ranks: int, text: str) -> Judged:
        """Judge each clock against the option."""
        del ranks
        most = self.own(options)["most_ms"]
        lines = [line.split() for line in text.splitlines() if line.startswith("clock ")]
        offsets = {node: float(offset) for _word, node, offset in lines}
        late = {node: f"{offset:g} ms off" for node, offset in offsets.items() if offset > most}
        return Judged(
            result=f"at most {max(offsets.values(), default=0):g} ms off",
            faults=[Fault(node, words, f"{node}: {words}, {most:g} allowed") for node, words in late.items()],
            gaps=[f"{node} told nothing" for node in nodes if node not in offsets],
            figures={"most_ms": most, "rows": [{"node": node, "offset": offset} for node, offset in offsets.items()]},
        )

    def charts(self, figures: dict[str, Any]) -> list[Chart]:
        """Show bars and a line."""
        limits = [] if figures["most_ms"] is None else [figures["most_ms"]]
        names, offsets = ([row[key] for row in figures["rows"]] for key in ("node", "offset"))
        points = [[float(number), offset] for number, offset in enumerate(offsets)]
        series: list[Series] = [{"name": "offset", "values": offsets, "limits": limits}]
        return [*bars("", "ms", names, series), *curves("In order", "ms", "node", points, {"offset": 1}, limits=limits)]

    def facts(self, figures: dict[str, Any]) -> list[tuple[str, str]]:
        """Show the limit."""
        return [("Allowed", f"{figures['most_ms']} ms")]

    def metrics(self, test: ShownTest) -> list[Metric]:
        """Return metrics of the whole test and of each node."""
        whole: Metric = {"name": "clock_verdict", "help": "Of all.", "labels": {}, "value": CODES[test["verdict"]]}
        return [whole, *super().metrics(test)]


CLOCK = {"script": "#!/bin/bash\nclock\n", "most_ms": "5"}
OPTIONS = validation_options(NODES, stages=["clock", "cluster"], clock=CLOCK, drain_failed="true", drain_limit="50")


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Register the stage before all stages of busbar."""
    monkeypatch.setattr(stage_registry, "STAGES", (Clock(), *stage_registry.STAGES))


def after(text: str | None, **changes: Any) -> State:  # noqa: ANN401 - any part of an entry
    step = next_step(OPTIONS)
    return with_results(OPTIONS, None, step, {"tests": [job_entry("clock", NODES, **changes)]}, [text])


def validated(text: str) -> Report:
    """Return the report of the stage and of the following stages."""
    state = after(text)
    step = next_step(OPTIONS, state)
    nodes = step["tests"][0]["job"]["nodes"]
    whole = [nccl_text(nodes, 8, 365.0)]
    return report(OPTIONS, with_results(OPTIONS, state, step, {"tests": [job_entry("cluster", nodes)]}, list(whole)))


GOOD = "clock gpu1 0.5\nclock gpu2 1.5\nclock gpu3 0.25\n"
BAD = GOOD.replace("1.5", "900")


def test_stage_is_planned_in_order_with_typed_options() -> None:
    step = next_step(OPTIONS)
    assert (step["stage"], [test["name"] for test in step["tests"]]) == ("clock", ["clock"])
    job = step["tests"][0]["job"]
    assert (job["nodes"], job["script"], job["minimum"]) == (NODES, CLOCK["script"], 1)
    assert typed(OPTIONS)["own"]["clock"]["most_ms"] == 5
    assert "clock: at most 600 s; cluster: all nodes together" in budget(OPTIONS)
    assert next_step(OPTIONS | {"stages": ["cluster"]})["stage"] == "cluster"


def test_blamed_node_is_reported_drained_and_excluded() -> None:
    found = validated(BAD)
    assert found["tests"][1]["nodes"] == ["gpu1", "gpu3"]
    assert (found["verdict"], found["reason"]) == ("FAIL", "clock: gpu2: 900 ms off")
    assert [(item["kind"], item["nodes"], item["tests"]) for item in found["culprits"]] == [
        ("node", ["gpu2"], ["clock"])
    ]
    assert [item["node"] for item in found["drain"]["nodes"]] == ["gpu2"]
    assert summary_lines(found)[0] == "FAIL  clock on gpu[1-3]: gpu2: 900 ms off, 5 allowed"


def test_all_files_of_a_report_are_written(tmp_path: Path) -> None:
    written = json.dumps(validated(BAD))
    jsonschema.validate(json.loads(written), SCHEMA, cls=jsonschema.Draft202012Validator)
    (tmp_path / "report.json").write_text(written)
    write_pages(tmp_path)
    page = (tmp_path / "report.html").read_text()
    section = page.split('<section id="stage-clock">')[1].split("</section>")[0]
    for words in ("<h2>Clocks</h2>", "Offset, ms</button>", ">900</td>", "Against the clock", "5.0 ms"):
        assert words in section
    assert section.count('class="plot"') == 2
    assert '<section id="checks">' not in page
    suite = next(iter(JUnitXml.fromstring((tmp_path / "junit.xml").read_text())))
    cases = {case.name: case for case in suite}
    assert cases["clock"].classname == "busbar.validation.clock"
    assert [type(result) for result in cases["clock"].result] == [Failure]
    told = {item.name: item.samples for item in text_string_to_metric_families((tmp_path / "busbar.prom").read_text())}
    offsets = {sample.labels["node"]: sample.value for sample in told["busbar_clock_offset_seconds"]}
    assert offsets == {"gpu1": 0.0005, "gpu2": 0.9, "gpu3": 0.00025}
    assert [sample.value for sample in told["busbar_clock_verdict"]] == [1]
    assert "busbar_check_verdict" not in told


def test_metrics_use_the_last_value_of_a_node_and_the_last_report_of_the_whole() -> None:
    first = normalised(json.loads(json.dumps(validated(GOOD))))
    alone: ReadTest = {**first["tests"][0], "own": {"most_ms": 5.0, "rows": [{"node": "gpu2", "offset": 2.0}]}}
    second: ReadReport = {**first, "tests": [alone]}
    other: ReadReport = {**first, "tests": []}
    told = {item.name: item.samples for item in text_string_to_metric_families(metrics(second, [first]))}
    offsets = {sample.labels["node"]: sample.value for sample in told["busbar_clock_offset_seconds"]}
    assert offsets == {"gpu1": 0.0005, "gpu2": 0.002, "gpu3": 0.00025}
    later = {item.name: item.samples for item in text_string_to_metric_families(metrics(other, [first]))}
    assert len(later["busbar_clock_offset_seconds"]) == 3
    assert "busbar_clock_verdict" not in later


def test_report_shows_the_tests_of_an_unknown_stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = json.dumps(validated(BAD))
    monkeypatch.undo()
    (tmp_path / "report.json").write_text(written)
    write_pages(tmp_path)
    page = (tmp_path / "report.html").read_text()
    assert "stage-clock" not in page
    assert "gpu2: 900 ms off, 5 allowed" in page.split('<section id="checks">')[1]
    assert 'classname="busbar.validation.clock"' in junit(normalised(json.loads(written)))
