# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Parse an untrusted validation report: check it, and convert all keys to the expected types."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any, cast

from ....module_utils.hardware.machine_parts import read_parts
from ..common.printable import printable
from ..validation.result_presentation import text_cell
from ..validation.resume_nodes import node_changes
from ..validation.stage_registry import stage_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..validation.result_presentation import Cell, Table
    from ..validation.resume_nodes import NodeChange
    from ..validation.validation_types import JobEnd, Peers, Unresolved
    from .report_types import Culprit, Matrix, ReadReport, ReadTest, Result, Run


COLLECTIVE = "collective"
_MOST_LABELS = 128
_MOST_MATRICES = 64
_MOST_RESULTS = 2000
_ORDER = {"fail": 0, "warn": 2, "skip": 3, "pass": 4}
_STRANGE = 1
_BADGES = {"fail": "fail", "warn": "inconclusive", "skip": "skip", "pass": "pass"}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _matrices(value: object) -> list[Matrix]:
    """Return the valid matrices of a test.

    Returns:
        title, unit, what, p2p, rows and columns (labels), values (None if not measured), odd (row and column of slow
        cells, within the matrix).
    """
    found: list[Matrix] = []
    for own in map(_dict, _list(value)[:_MOST_MATRICES]):
        rows, columns = ([printable(label) for label in _list(own.get(key))] for key in ("rows", "columns"))
        values = [[_number(cell) for cell in _list(line)] for line in _list(own.get("values"))]
        fits = len(values) == len(rows) and all(len(line) == len(columns) for line in values)
        if not (fits and 0 < len(rows) <= _MOST_LABELS and 0 < len(columns) <= _MOST_LABELS):
            continue
        odd = [_place(place, rows, columns) for place in _list(own.get("odd"))]
        found.append(
            {
                "title": printable(own.get("title") or ""),
                "unit": printable(own.get("unit") or ""),
                "what": printable(own.get("what") or ""),
                "p2p": own.get("p2p") is True,
                "rows": rows,
                "columns": columns,
                "values": values,
                "odd": [place for place in odd if place is not None],
            }
        )
    return found


def _place(value: object, rows: list[str], columns: list[str]) -> tuple[int, int] | None:
    """Return the row and column of a cell; None if the matrix does not contain the cell."""
    pair = [item for item in _list(value) if isinstance(item, int) and not isinstance(item, bool)]
    if len(pair) != len(("row", "column")) or not (0 <= pair[0] < len(rows) and 0 <= pair[1] < len(columns)):
        return None
    return pair[0], pair[1]


def _result(value: object) -> Result:
    """Return a result of a diagnosis."""
    own = _dict(value)
    found = {
        **_printed(own, ("category", "test", "unit", "status")),
        "ids": [printable(one) for one in _list(own.get("ids"))],
        "messages": [printable(words) for words in _list(own.get("messages"))],
    }
    return cast("Result", found)


def results_table(results: list[Result]) -> Table:
    """Return a table of diagnosis results, failures first; GPUs with equal results share a row."""
    alike: dict[tuple[str, str, str, str, str], list[str]] = {}
    for result in results:
        words = "; ".join(result["messages"])
        key = (result["status"], result["test"], result["unit"], result["category"], words)
        alike.setdefault(key, []).extend(result["ids"])
    rows = sorted(alike.items(), key=lambda row: _ORDER.get(row[0][0], _STRANGE))
    return {
        "columns": [("Status", "text"), ("Test", "text"), ("Of", "text"), ("Category", "text"), ("Message", "long")],
        "rows": [_cells(number, *key, ids) for number, (key, ids) in enumerate(rows, start=1)],
    }


def _cells(  # noqa: PLR0913, PLR0917 - one for each cell
    number: int, status: str, test: str, unit: str, category: str, words: str, ids: list[str]
) -> list[Cell]:
    return [
        {"text": status, "value": number, "badge": _BADGES.get(status, "inconclusive")},
        text_cell(test),
        text_cell(f"{unit} {', '.join(ids)}".strip() or "node"),
        text_cell(category),
        text_cell(words),
    ]


SCHEMA = 1
VERDICTS = ("PASS", "FAIL", "INCONCLUSIVE")
HALVES = ("out_of_place", "in_place")

_PAIR = 2
# A rail is a NIC of a single node.
_OF_A_NODE = frozenset({"node", "rail"})
_LARGEST = 1e308


def _number(value: object) -> float | None:
    known = isinstance(value, (int, float)) and not isinstance(value, bool) and -_LARGEST < value < _LARGEST
    return float(value) if known else None  # type: ignore[arg-type]


def _texts(value: object) -> list[str]:
    if isinstance(value, (list, tuple)):
        return [printable(item) for item in value]
    return []


def _pairs(value: object) -> dict[str, str]:
    return {printable(key): printable(item) for key, item in value.items()} if isinstance(value, dict) else {}


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _dicts(value: object) -> list[dict[str, Any]]:
    return [item for item in _list(value) if isinstance(item, dict)]


def _printed(own: dict[str, Any], keys: Iterable[str]) -> dict[str, str]:
    """Return the given keys as text; a missing value is empty."""
    return {key: printable(own.get(key) or "") for key in keys}


def _optional(value: object) -> str | None:
    return None if value is None else printable(value)


def _run(value: object) -> Run:
    run = _dict(value)
    fabric = _dict(run.get("fabric"))
    rows = [row for row in run.get("rows") or [] if isinstance(row, dict) and _number(row.get("size")) is not None]
    found = {
        **{key: _optional(run.get(key)) for key in ("program", "nccl_tests_version", "nccl_version")},
        **{key: _texts(run.get(key)) for key in ("hosts", "devices")},
        "fabric": {
            **{key: _texts(fabric.get(key)) for key in ("networks", "nics")},
            **{key: fabric.get(key) for key in ("gdrdma", "nvls", "in_network")},
        },
        "rows": [
            {
                "size": int(row["size"]),
                "out_of_place": _number(_dict(row.get("out_of_place")).get("busbw")),
                "in_place": _number(_dict(row.get("in_place")).get("busbw")),
            }
            for row in rows
        ],
    }
    return cast("Run", found)


def _job(value: object) -> JobEnd:
    job = _dict(value)
    texts = _printed(job, ("job_id", "state", "exit_code", "batch_host", "problem"))
    return cast("JobEnd", {**texts, "seconds": _number(job.get("seconds"))})


def _test(number: int, value: object) -> ReadTest:
    where = f"tests[{number}]"
    if not isinstance(value, dict):
        message = f"{where} is not an object"
        raise TypeError(message)
    for key in ("name", "stage"):
        if not isinstance(value.get(key), str) or not value[key]:
            message = f"{where}.{key} is missing"
            raise ValueError(message)
    if value.get("verdict") not in VERDICTS:
        message = f"{where}.verdict is not one of {', '.join(VERDICTS)}"
        raise ValueError(message)
    at_size = _number(value.get("at_size"))
    # With the rail in the name, values over one rail are a separate series in figures, history and metrics.
    rail = f" over {printable(value['rail'])}" if value.get("rail") else ""
    found = {
        **_printed(value, ("name", "stage", "hardware", "reason")),
        **{key: _optional(value.get(key)) for key in ("program", "version", "source", "output")},
        **{key: _number(value.get(key)) for key in ("measured_busbw", "floor", "ceiling", "lowest_gbs")},
        **{key: _texts(value.get(key)) for key in ("nodes", "partners", "findings", "tail")},
        **{key: _pairs(value.get(key)) for key in ("left_out", "environment")},
        "kind": printable(value.get("kind") or COLLECTIVE),
        "collective": printable(value.get("collective") or "") + rail,
        "verdict": value["verdict"],
        "at_size": None if at_size is None else int(at_size),
        "peers": _peers(value.get("peers")),
        "matrices": _matrices(value.get("matrices")),
        "results": [_result(item) for item in _list(value.get("results"))[:_MOST_RESULTS]],
        "own": _own(value),
        "ranks": int(_number(value.get("ranks")) or 0),
        "parts": read_parts(value.get("parts"), printable),
        "job": _job(value.get("job")),
        "runs": [_run(run) for run in _list(value.get("runs"))],
    }
    return cast("ReadTest", found)


def _peers(value: object) -> Peers | None:
    found = {key: _number(_dict(value).get(key)) for key in ("count", "median", "least")}
    count, middle, least = found["count"], found["median"], found["least"]
    if count is None or middle is None or least is None:
        return None
    return {"count": int(count), "median": middle, "least": least}


def _own(value: dict[str, Any]) -> Any:  # noqa: ANN401 - the stage's own form
    """Return the stage-specific values of a test, parsed by its stage; None without values or stage."""
    stage = stage_of(value)
    return stage.read(value.get(stage.name), printable) if stage else None


def normalised(data: object) -> ReadReport:
    """Return a normalised report: all keys have the expected types, and all text is printable.

    Raises:
        ValueError: it is not a validation report, or a newer version of busbar wrote it.
    """
    if not isinstance(data, dict) or not isinstance(data.get("tests"), list) or "verdict" not in data:
        message = "this is not a validation report"
        raise ValueError(message)
    if data.get("schema") != SCHEMA:
        message = f"schema {data.get('schema')!r} is not supported (supported: {SCHEMA})"
        raise ValueError(message)
    if data["verdict"] not in VERDICTS:
        message = f"verdict {data['verdict']!r} is not one of {', '.join(VERDICTS)}"
        raise ValueError(message)
    try:
        tests = [_test(number, test) for number, test in enumerate(data["tests"])]
    except TypeError as exc:
        raise ValueError(str(exc)) from exc
    named = data.get("culprits")
    found = {
        **_printed(data, ("reason", "cluster", "started", "backend")),
        **{key: _texts(data.get(key)) for key in ("nodes", "node_reasons", "leftovers")},
        **{key: _pairs(data.get(key)) for key in ("left_out", "settings")},
        **{key: _doubts(data.get(key)) for key in ("unresolved", "suspected")},
        "verdict": data["verdict"],
        "culprits": [_culprit(item) for item in named] if isinstance(named, list) else None,
        "node_changes": _node_changes(data),
        "tests": tests,
    }
    return cast("ReadReport", found)


def _doubts(value: object) -> list[Unresolved]:
    return [
        {"nodes": _texts(item.get("nodes")), "reason": printable(item.get("reason") or "")} for item in _dicts(value)
    ]


def _node_changes(data: dict[str, Any]) -> list[NodeChange]:
    done, resumed = (
        [{"node": printable(item.get("node") or ""), "problem": printable(item.get("problem") or "")} for item in items]
        for items in (_dicts(_dict(data.get("drain")).get("done")), _dicts(data.get("resumed")))
    )
    drained = _dicts(_dict(data.get("drain")).get("nodes"))
    reasons = {printable(item.get("node") or ""): printable(item.get("reason") or "") for item in drained}
    return node_changes(done, resumed, _pairs(data.get("held")), _pairs(data.get("held_by")), reasons)


def _culprit(value: object) -> Culprit:
    if not isinstance(value, dict):
        return {"kind": "node", "nodes": [printable(value)], "reason": ""}
    nodes = _texts(value.get("nodes")) or ([printable(value["node"])] if value.get("node") else [])
    return {
        "kind": printable(value.get("kind") or "node"),
        "nodes": nodes,
        "reason": printable(value.get("reason") or ""),
    }


def culprits(report: ReadReport) -> list[Culprit]:
    """Return the culprits from the search or, without a search, those that the tests prove.

    The latter are nodes that failed alone, and nodes that failed with two or more partners that each passed with other
    nodes.
    """
    if report["culprits"] is not None:
        return list(report["culprits"])
    found: dict[str, str] = {}
    partners: dict[tuple[str, str], set[str]] = {}
    for test in [test for test in report["tests"] if _infers(test)]:
        nodes = everyone(test)
        if test["verdict"] == "FAIL" and len(nodes) == 1:
            found.setdefault(nodes[0], f"{test['name']}: {test['reason']}")
        if len(nodes) == _PAIR:
            for node, other in (nodes, nodes[::-1]):
                partners.setdefault((node, test["verdict"]), set()).add(other)
    for (node, verdict), others in partners.items():
        good = sorted(other for other in others if partners.get((other, "PASS"), set()) - {node})
        if verdict == "FAIL" and len(good) >= _PAIR and (node, "PASS") not in partners:
            found.setdefault(
                node, f"failed with {len(good)} partners that passed with other nodes: {', '.join(good[:8])}"
            )
    return [{"kind": "node", "nodes": [node], "reason": reason} for node, reason in found.items()]


def faulty_nodes(report: ReadReport) -> set[str]:
    """Return the nodes that are culprits, without the nodes of slow links and boundaries."""
    return {node for item in culprits(report) if item["kind"] in _OF_A_NODE for node in item["nodes"]}


def _infers(test: ReadTest) -> bool:
    """Return whether culprits may be inferred from a test, depending on its stage."""
    stage = stage_of(test)
    return stage is None or stage.infers


def everyone(test: ReadTest) -> list[str]:
    """Return all nodes that took part in a test, the tested ones first."""
    return list(dict.fromkeys(test["nodes"] + test["partners"]))


def counts(report: ReadReport) -> dict[str, int]:
    """Return the number of tests by verdict."""
    return {verdict: sum(test["verdict"] == verdict for test in report["tests"]) for verdict in VERDICTS}


def curves(test: ReadTest) -> dict[str, dict[str, list[tuple[int, float]]]]:
    """Return the bandwidth curves of a test.

    Returns:
        For each program and mode (out_of_place, in_place): pairs of size in bytes, ascending, and busbw in GB/s,
        the median over repeats.
    """
    found: dict[str, dict[str, dict[int, list[float]]]] = {}
    for run in test["runs"]:
        program = (run["program"] or test["collective"] or "all_reduce").removesuffix("_perf")
        halves = found.setdefault(program, {half: {} for half in HALVES})
        for row in run["rows"]:
            for half in HALVES:
                busbw = row["out_of_place"] if half == "out_of_place" else row["in_place"]
                if busbw is not None and row["size"] > 0:
                    halves[half].setdefault(row["size"], []).append(busbw)
    return {
        program: {
            half: [(size, median(values)) for size, values in sorted(points.items())] for half, points in halves.items()
        }
        for program, halves in found.items()
        if any(halves.values())
    }
