"""Tests of JUnit XML, metrics, environment and figures of a report."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.report.junit import junit
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.report.metrics import metrics
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.report.plotly_figures import (
    curve_figure,
    heat_maps,
    trend_figure,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.report.report_reader import normalised
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.report.tested_systems import facts_of
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.job_output_parser import environment_of
from check_samples import checked
from junitparser import Error, Failure, JUnitXml
from plotly.graph_objects import Figure
from prometheus_client.parser import text_string_to_metric_families
from report_samples import EVIL, of_pairs, small, validation

NO_ANSWER: dict[str, Any] = {**small(), "tests": [], "verdict": "INCONCLUSIVE", "reason": "no answer"}
LEFT_OUT: dict[str, Any] = {**small(), "left_out": {"gpu9": "down"}, "verdict": "INCONCLUSIVE", "reason": "not tested"}
INCONCLUSIVE = validation([{"name": "c", "stage": "cluster", "nodes": ["gpu1"], "text": "\x1b[31mKilled\x00 ]]>\n"}])
STRANGE = validation([{"name": f'a"\\\n{EVIL}', "stage": "node", "nodes": ["gpu1"], "peak": 472.0}])


@pytest.mark.parametrize(
    ("report", "tests", "failures", "errors"),
    [
        (small(), 5, 0, 0),
        (small(slow=0.5), 5, 1, 0),
        (INCONCLUSIVE, 1, 0, 1),
        (STRANGE, 1, 0, 0),
        (NO_ANSWER, 1, 0, 1),
        (LEFT_OUT, 6, 0, 1),
        (checked(), 17, 2, 0),
    ],
)
def test_junit(report: dict[str, Any], tests: int, failures: int, errors: int) -> None:
    suite = next(iter(JUnitXml.fromstring(junit(normalised(report)))))
    assert (suite.tests, suite.failures, suite.errors) == (tests, failures, errors)
    for case in suite:
        kinds = [type(result) for result in case.result]
        assert kinds in ([], [Failure], [Error])


# Elements, their attributes and children according to junit-10.xsd of Jenkins' xunit plugin
# (src/main/resources/org/jenkinsci/plugins/xunit/types/model/xsd of github.com/jenkinsci/xunit-plugin).
SUREFIRE_TIME = re.compile(r"(([0-9]{0,3},)*[0-9]{3}|[0-9]{0,3})*(\.[0-9]*)?")
RESULT: tuple[set[str], set[str], set[str]] = ({"type", "message"}, set(), set())
SCHEMA: dict[str, tuple[set[str], set[str], set[str]]] = {
    "testsuites": ({"name", "time", "tests", "failures", "errors"}, set(), {"testsuite"}),
    "testsuite": (
        {"name", "tests", "failures", "errors", "group", "time", "skipped", "timestamp", "hostname", "id", "package"},
        {"name", "tests", "failures", "errors"},
        {"properties", "testcase", "system-out", "system-err"},
    ),
    "properties": (set(), set(), {"property"}),
    "property": ({"name", "value"}, {"name", "value"}, set()),
    "testcase": ({"name", "time", "classname", "group"}, {"name"}, {"error", "failure", "system-out", "system-err"}),
    "error": RESULT,
    "failure": RESULT,
    "system-out": (set(), set(), set()),
}


@pytest.mark.parametrize(
    "report", [small(), small(slow=0.5), INCONCLUSIVE, STRANGE, NO_ANSWER, LEFT_OUT, checked()], ids=range(7)
)
@pytest.mark.parametrize("seconds", [None, 0, 0.00001, 1e-9, 42.5, 123456789.25])
def test_junit_matches_the_schema_of_jenkins(report: dict[str, Any], seconds: float | None) -> None:
    timed = normalised(report)
    for test in timed["tests"]:
        test["job"]["seconds"] = seconds
    root = ET.fromstring(junit(timed))  # noqa: S314 - made here
    assert root.tag == "testsuites"
    for element in root.iter():
        allowed, required, children = SCHEMA[element.tag]
        assert required <= set(element.attrib) <= allowed, element.tag
        assert {child.tag for child in element} <= children, element.tag
        assert SUREFIRE_TIME.fullmatch(element.get("time", "")), element.attrib


def test_junit_contains_the_reason_and_the_output() -> None:
    suite = next(iter(JUnitXml.fromstring(junit(normalised(small(slow=0.5))))))
    case = next(case for case in suite if case.result)
    assert (case.name, case.classname, case.time) == ("node-gpu3", "busbar.validation.node", 42.5)
    assert "too slow: 237 GB/s" in case.result[0].message
    assert "Avg bus bandwidth" in case.result[0].text


def samples(report: dict[str, Any]) -> dict[str, list[tuple[dict[str, str], float]]]:
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(metrics(normalised(report))):
        assert family.type == "gauge"
        assert family.documentation
        found[family.name] = [(dict(sample.labels), sample.value) for sample in family.samples]
    return found


def test_metrics() -> None:
    found = samples(small(slow=0.5))
    assert found["busbar_validation_verdict"] == [({"cluster": "alpha"}, 1.0)]
    assert found["busbar_validation_timestamp_seconds"][0][1] == 1795161600
    nodes = {(labels["node"], labels["stage"]): value for labels, value in found["busbar_node_verdict"]}
    assert nodes["gpu3", "node"] == 1
    assert nodes["gpu3", "cluster"] == nodes["gpu1", "node"] == 0
    speed = {labels["test"]: value for labels, value in found["busbar_test_busbw_bytes_per_second"]}
    assert speed["node-gpu3"] == pytest.approx(237e9)
    assert {labels["nodes"] for labels, _ in found["busbar_test_verdict"]} >= {"gpu3", "gpu[1-4]"}


def test_checks_have_separate_metrics() -> None:
    found = samples(checked())
    verdicts = {(labels["node"], labels["check"]): value for labels, value in found["busbar_check_verdict"]}
    assert len(verdicts) == 12
    assert {who for who, value in verdicts.items() if value} == {("gpu2", "p2p"), ("gpu3", "dcgm_diag")}
    slowest = found["busbar_check_slowest_pair_bytes_per_second"]
    assert {(labels["node"], labels["check"]): value for labels, value in slowest}["gpu2", "p2p"] == 126e9
    assert {labels["collective"] for labels, _ in found["busbar_node_verdict"]} == {"all_reduce"}


@pytest.mark.parametrize("report", [NO_ANSWER, LEFT_OUT, INCONCLUSIVE, STRANGE, of_pairs(4)])
def test_metrics_are_always_valid(report: dict[str, Any]) -> None:
    text = metrics(normalised({**report, "started": "yesterday"}))
    lines = [line.rsplit(" ", 1)[0] for line in text.splitlines() if not line.startswith("#")]
    assert len(lines) == len(set(lines))
    assert "busbar_validation_verdict" in samples(report)


def test_label_values_survive_escaping() -> None:
    labels = samples(STRANGE)["busbar_test_verdict"][0][0]
    assert labels["test"] == f'a"\\\n{EVIL}'


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (None, {}),
        ("", {}),
        ("no such line\n", {}),
        (
            "noise\n# busbar: Kernel=6.1\n# busbar: Driver=\n# busbar: A=b=c\n# nThread\n# busbar: Late=1\n",
            {"Kernel": "6.1", "A": "b=c"},
        ),
        ("# busbar: A=1\n# busbar: A=2\n", {"A": "1"}),
    ],
)
def test_environment_is_read_from_the_output(text: str | None, found: dict[str, str]) -> None:
    assert environment_of(text) == found


def test_facts() -> None:
    report = small()
    for number, test in enumerate(report["tests"]):
        test["environment"] = {"Kernel": "6.1" if number else "5.10"}
    facts = dict(facts_of(normalised(report)))
    assert facts["NCCL"] == "2.27.3+cuda12.9"
    assert facts["Devices"] == "NVIDIA H100 80GB HBM3"
    assert facts["NICs"] == ", ".join(f"mlx5_{number}" for number in range(8))
    assert facts["Kernel"] == "6.1 (4\u00d7), 5.10 (1\u00d7)"
    assert "NVLS" not in facts


def test_figures_are_plotly_figures() -> None:
    report = normalised(small())
    figure = curve_figure(report["tests"][0])
    assert figure is not None
    assert [trace["name"] for trace in figure["data"]] == ["out-of-place", "in-place", "floor 460", "ceiling 490.3"]
    assert figure["data"][0]["x"][-1] == 16 << 30
    compared: Any = {"name": "a", "busbw": 1.0, "verdict": "PASS", "flags": []}
    compared["past"] = [{"started": "2026-01-01", "busbw": 1.0, "verdict": "FAIL"}]
    trend = trend_figure([compared], "2026-01-02")
    assert trend is not None
    for made in (figure, trend, heat_maps(normalised(of_pairs(4)))[0]["figure"]):
        Figure(made)
    assert curve_figure(normalised(INCONCLUSIVE)["tests"][0]) is None
    assert trend_figure([], "2026-01-02") is None
    assert heat_maps(report) == []


@pytest.mark.parametrize(("ceiling", "kind"), [(490.0, None), (None, None), (50000.0, "log")])
def test_far_ceiling_switches_to_a_logarithmic_axis(ceiling: float | None, kind: str | None) -> None:
    test = normalised(small())["tests"][0]
    figure = curve_figure({**test, "ceiling": ceiling})
    assert figure is not None
    assert figure["layout"]["yaxis"].get("type") == kind


def test_heat_map_is_symmetric_and_ordered_by_node() -> None:
    report = normalised(of_pairs(11, slow="gpu3"))
    trace = heat_maps(report)[0]["figure"]["data"][0]
    assert heat_maps(report)[0]["figure"]["layout"]["xaxis"]["ticktext"] == [f"gpu{n}" for n in range(1, 12)]
    cells = {(one, two): value for one, two, value, _words in trace["meta"]["cells"]}
    assert cells[0, 2] == 121
    assert (2, 0) not in cells
    assert (0, 0) not in cells
