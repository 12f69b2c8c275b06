"""Tests of the dashboards: they are complete and query only existing metrics."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from dashboard_files import FOLDER, asked, dashboards, panels, substituted, variables
from known_metrics import known_metrics, names_in
from promtool import promtool

if TYPE_CHECKING:
    from pathlib import Path

BOARDS = dashboards()
NAMES = ["gpu", "health", "job", "node", "overview", "storage"]
# Grafana migrates dashboards of an older schema. In 36, the first that is accepted here, data sources are references;
# 38 is the schema of Grafana 10.0, the oldest supported release.
SCHEMAS = range(36, 39)
# Variables that Grafana replaces in an expression, with example values.
GRAFANA = {"__rate_interval": "1m", "__interval": "1m", "__range": "6h"}
PLAIN = {"none", "short", "string"}


def every_board() -> list[Any]:
    return [pytest.param(board, id=name) for name, board in BOARDS.items()]


def every_panel() -> list[Any]:
    return [
        pytest.param(panel, id=f"{name}-{panel['id']}") for name, board in BOARDS.items() for panel in panels(board)
    ]


def unknown_metrics(boards: dict[str, dict[str, Any]]) -> dict[str, list[str]]:
    """Return the metrics that no exporter provides, by the query that uses them."""
    found = {item.name: sorted(names_in(item.expr) - known_metrics()) for item in asked(boards)}
    return {name: missing for name, missing in found.items() if missing}


def as_sent(board: dict[str, Any], expr: str) -> str:
    return substituted(expr, GRAFANA | dict.fromkeys(variables(board), ".*"))


def test_all_dashboards_exist() -> None:
    assert sorted(BOARDS) == NAMES


@pytest.mark.parametrize("board", every_board())
def test_dashboard_has_all_required_fields(board: dict[str, Any]) -> None:
    assert board["title"]
    assert board["description"]
    assert board["schemaVersion"] in SCHEMAS
    assert board["editable"] is False
    assert board.get("id") is None, "Grafana gives the number"
    assert board["tags"] == ["busbar"]
    assert board["links"][0]["tags"] == ["busbar"]
    assert board["time"]["from"].startswith("now-")


@pytest.mark.parametrize("board", every_board())
def test_variables_have_a_default_and_work_on_any_data_source(board: dict[str, Any]) -> None:
    known_variables = variables(board)
    source = known_variables.pop("datasource")
    assert (source["type"], source["query"]) == ("datasource", "prometheus")
    assert source["current"]["value"] == "busbar-prometheus"
    for name, variable in known_variables.items():
        assert variable["label"], name
        assert variable["datasource"]["uid"] == "${datasource}", name
        asked_for = variable["query"]["query"]
        assert asked_for.startswith("label_values("), name
        assert names_in(asked_for.rpartition(",")[0].removeprefix("label_values(")) <= known_metrics(), name
        if variable["multi"]:
            assert variable["current"]["value"] == "$__all", name
            assert variable["allValue"] == ".*", name


def test_ids_and_uids_are_unique() -> None:
    uids = Counter(board["uid"] for board in BOARDS.values())
    assert uids == dict.fromkeys((f"busbar-{name}" for name in NAMES), 1)
    for name, board in BOARDS.items():
        numbers = Counter(panel["id"] for panel in board["panels"])
        assert set(numbers.values()) == {1}, name
        titles = Counter(item[:3] for item in asked({name: board}))
        assert set(titles.values()) == {1}, [title for title, number in titles.items() if number > 1]


@pytest.mark.parametrize("board", every_board())
def test_panels_do_not_overlap(board: dict[str, Any]) -> None:
    taken: dict[tuple[int, int], str] = {}
    for panel in board["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24, panel["title"]
        columns, rows = range(place["x"], place["x"] + place["w"]), range(place["y"], place["y"] + place["h"])
        for cell in itertools.product(columns, rows):
            assert cell not in taken, f"{panel['title']} lies on {taken[cell]}"
            taken[cell] = panel["title"]


@pytest.mark.parametrize("board", every_board())
def test_rows_have_no_gaps(board: dict[str, Any]) -> None:
    """Each line of panels ends at the right edge, and its panels have equal heights or are stacked."""
    rows = [panel["gridPos"]["y"] for panel in board["panels"] if panel["type"] == "row"]
    ends = [*rows[1:], max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in board["panels"])]
    for start, end in zip(rows, ends, strict=True):
        inside = [panel["gridPos"] for panel in panels(board) if start < panel["gridPos"]["y"] < end]
        assert sum(place["w"] * place["h"] for place in inside) == 24 * (end - start - 1), (board["title"], start)


@pytest.mark.parametrize("panel", every_panel())
def test_panel_has_all_required_fields(panel: dict[str, Any]) -> None:
    assert panel["title"]
    assert panel["description"].endswith("."), panel["title"]
    assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
    assert panel["targets"], panel["title"]
    for target in panel["targets"]:
        assert target["expr"].strip(), panel["title"]
        assert target["datasource"] == panel["datasource"]
        if panel["type"] == "table":
            assert target["format"] == "table"
        else:
            assert target["legendFormat"], panel["title"]
    assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])


@pytest.mark.parametrize("panel", [item for item in every_panel() if item.values[0]["type"] == "table"])
def test_columns_of_tables_are_labels_that_the_queries_keep(panel: dict[str, Any]) -> None:
    """The column of a label that `by` dropped would be empty."""
    kept = {label for target in panel["targets"] for label in re.findall(r"by \(([^)]*)\)", target["expr"])}
    labels = {label.strip() for names in kept for label in names.split(",")}
    shown = next(item for item in panel["transformations"] if item["id"] == "filterFieldsByName")
    values = {f"Value #{target['refId']}" for target in panel["targets"]} | {"Value"}
    assert set(shown["options"]["include"]["names"]) <= labels | values


@pytest.mark.parametrize("panel", every_panel())
def test_panels_have_the_unit_of_their_metrics(panel: dict[str, Any]) -> None:
    """The suffix of a metric's name is its unit; a ratio of two metrics has none."""
    unit = panel["fieldConfig"]["defaults"]["unit"]
    if panel["type"] == "table" or unit not in PLAIN:
        return
    for target in panel["targets"]:
        whole = re.fullmatch(r"(?:(?:sum|max|min|avg) by \([^)]*\) )?\(?([\w:]+)\{[^}]*\}\)?", target["expr"])
        if whole:
            assert not re.search(r"(bytes|seconds|celsius|watts|ratio)(_total)?$", whole[1]), panel["title"]


def test_links_have_existing_dashboards_and_variables() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in FOLDER.iterdir())
    links = set(re.findall(r'"/d/busbar-(\w+)\?([^"]*)"', text))
    assert {target for target, _ in links} >= {"node", "gpu", "job", "health"}
    for target, arguments in links:
        assert target in BOARDS
        assert set(re.findall(r"var-(\w+)=", arguments)) <= set(variables(BOARDS[target])), (target, arguments)


def test_every_metric_has_an_exporter() -> None:
    assert unknown_metrics(BOARDS) == {}


def test_every_selector_filters_by_the_selected_cluster() -> None:
    for item in asked(BOARDS):
        for matchers in re.findall(r"\{([^}]*)\}", item.expr):
            assert 'cluster=~"$cluster"' in matchers, item.name


def test_every_variable_of_a_query_is_defined_in_its_dashboard() -> None:
    for item in asked(BOARDS):
        as_sent(BOARDS[item.board], item.expr)  # raises KeyError for a variable without a value


def test_every_query_is_valid_promql(tmp_path: Path) -> None:
    rules = [
        {"record": f"query:{number}:is_promql", "expr": as_sent(BOARDS[item.board], item.expr)}
        for number, item in enumerate(asked(BOARDS))
    ]
    file = tmp_path / "queries.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}), encoding="utf-8")
    assert f"{len(rules)} rules found" in promtool("check", "rules", file)
    assert len(rules) > 150
