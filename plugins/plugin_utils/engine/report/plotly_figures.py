# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Create the figures of a report as plotly dictionaries.

Plotly interprets some HTML tags in strings, so all names are escaped.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from ..common.hostlist import unfold_hosts
from ..common.printable import human_size
from ..validation.stage_registry import stage_of
from .report_reader import curves, everyone

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..validation.result_presentation import Bars, Chart, Lines, Series
    from .report_types import Compared, Matrix, ReadReport, ReadTest

INK, MUTED, GRID = "#1c2733", "#5b6b7a", "#e6eaee"
BLUE, TEAL, RED, GREY = "#2563a8", "#3aa394", "#b42318", "#8593a0"
_LINES = (BLUE, TEAL, "#b7791f", "#7c4dbd", "#c2517a", "#4d7c2a", "#3b6fd4", "#8a5a44")
_MOST_TICKS = 9
_PAIR = 2
_LONGEST = 32
_MOST_WRITTEN = 16
_FLAT = 10
_UPRIGHT = 300
_HALVES = (("out_of_place", "out-of-place", "solid"), ("in_place", "in-place", "dot"))


def _plain(text: object) -> str:
    """Return text for plotly, escaped and shortened."""
    words = str(text)
    return escape(words if len(words) <= _LONGEST else f"{words[: _LONGEST - 1]}\u2026", quote=False)


def _layout(height: int, **more: Any) -> dict[str, Any]:  # noqa: ANN401 - plotly's options
    return {
        "height": height,
        "autosize": True,
        "font": {"family": "system-ui, sans-serif", "size": 13, "color": INK},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "margin": {"l": 56, "r": 14, "t": 12, "b": 48},
        "hoverlabel": {"namelength": -1, "bgcolor": "#ffffff", "bordercolor": GRID, "font": {"color": INK}},
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "font": {"color": MUTED}},
        **more,
    }


def _axis(title: str, **more: Any) -> dict[str, Any]:  # noqa: ANN401 - plotly's options
    return {
        "title": {"text": title, "font": {"color": MUTED, "size": 12}},
        "gridcolor": GRID,
        "zerolinecolor": GRID,
        "linecolor": GRID,
        "tickfont": {"color": MUTED, "size": 11},
        "fixedrange": False,
        **more,
    }


def _busbw_axis(values: list[float]) -> dict[str, Any]:
    """Return an axis from zero, or a logarithmic one if the largest value would flatten the others."""
    low, high = min(values), max(values)
    if 0 < low < high / _FLAT and sorted(values)[len(values) // 2] < high / _FLAT:
        return _axis("busbw, GB/s", type="log", dtick=1, tickformat="~g")
    return _axis("busbw, GB/s", rangemode="tozero")


def _ticks(sizes: list[int]) -> list[int]:
    step = max(1, -(-len(sizes) // _MOST_TICKS))
    return sizes[::-1][::step][::-1]


def curve_figure(test: ReadTest) -> dict[str, Any] | None:
    """Return busbw over message size with floor and ceiling, or None if nothing was measured."""
    found = curves(test)
    sizes = sorted({size for halves in found.values() for points in halves.values() for size, _ in points})
    if not sizes:
        return None
    data = []
    for number, (program, halves) in enumerate(found.items()):
        colour = _LINES[(2 * number) % len(_LINES)], _LINES[(2 * number + 1) % len(_LINES)]
        for (half, words, dash), line in zip(_HALVES, colour):
            if halves[half]:
                name = f"{program}, {words}" if len(found) > 1 else words
                data.append(_line(_plain(name), halves[half], line, dash))
    span = [sizes[0], sizes[-1]] if len(sizes) > 1 else [sizes[0] / 2, sizes[0] * 2]
    limits = (("floor", test["floor"], RED, "dash"), ("ceiling", test["ceiling"], GREY, "longdash"))
    data += [_level(name, value, span, colour, dash) for name, value, colour, dash in limits if value is not None]
    ticks = _ticks(sizes)
    labels = [human_size(size) for size in ticks]
    layout = _layout(
        320,
        hovermode="x unified",
        xaxis=_axis("message size", type="log", tickvals=ticks, ticktext=labels, unifiedhovertitle={"text": "busbw"}),
        yaxis=_busbw_axis([value for trace in data for value in trace["y"]]),
    )
    return {"data": data, "layout": layout}


def _line(name: str, points: list[tuple[int, float]], colour: str, dash: str) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": name,
        "x": [size for size, _ in points],
        "y": [busbw for _, busbw in points],
        "customdata": [human_size(size) for size, _ in points],
        "line": {"color": colour, "width": 2, "dash": dash},
        "marker": {"size": 6},
        "hovertemplate": "%{y:.4~g} GB/s at %{customdata}",
    }


def _level(name: str, value: float, span: Sequence[float], colour: str, dash: str) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": f"{name} {value:.4g}",
        "x": span,
        "y": [value, value],
        "line": {"color": colour, "width": 1.5, "dash": dash},
        "hoverinfo": "skip",
    }


def _in_order(nodes: set[str]) -> list[str]:
    try:
        known = unfold_hosts(sorted(nodes))
    except ValueError:
        known = []
    return known if set(known) == nodes else sorted(nodes)


def heat_maps(report: ReadReport) -> list[dict[str, Any]]:
    """Return a heat map of busbw by pair of nodes for each collective that pairs ran.

    Returns:
        Dictionaries with ``title`` and ``figure``.
    """
    groups: dict[str, dict[tuple[str, str], ReadTest]] = {}
    for test in report["tests"]:
        who = everyone(test)
        stage = stage_of(test)
        if stage and stage.maps_pairs and len(who) == _PAIR:
            groups.setdefault(test["collective"], {})[who[0], who[1]] = test
    return [{"title": collective, "figure": _heat_map(pairs)} for collective, pairs in groups.items()]


def _heat_map(pairs: dict[tuple[str, str], ReadTest]) -> dict[str, Any]:
    names = _in_order({name for pair in pairs for name in pair})
    place = {name: number for number, name in enumerate(names)}
    cells = []
    for (one, two), test in pairs.items():
        busbw = test["measured_busbw"]
        shown = "no figure" if busbw is None else f"{busbw:.4g} GB/s"
        text = f"{_plain(one)} and {_plain(two)}<br>{shown}, {test['verdict']}"
        cells.append([place[one], place[two], 0.0 if busbw is None else busbw, text])
    top = max((test["measured_busbw"] or 0.0 for test in pairs.values()), default=0.0) or 1.0
    floor = max((test["floor"] or 0.0 for test in pairs.values()), default=0.0)
    labels = [_plain(name) for name in names]
    at = list(range(0, len(names), max(1, -(-len(names) // 40))))
    ticks = {"tickvals": at, "ticktext": [labels[number] for number in at], "showgrid": False, "zeroline": False}
    trace = {
        "type": "heatmap",
        # The script of the page expands this to the symmetric matrices `z` and `customdata`. With a thousand nodes
        # these would have two million values, nearly all for untested pairs.
        "meta": {"size": len(names), "cells": cells},
        "zmin": 0,
        "zmax": max(top, floor),
        "colorscale": _scale(min(1.0, floor / max(top, floor))),
        "hovertemplate": "%{customdata}<extra></extra>",
        "hoverongaps": False,
        "xgap": 2 if len(names) <= 100 else 0,  # noqa: PLR2004 - gaps would hide smaller cells
        "ygap": 2 if len(names) <= 100 else 0,  # noqa: PLR2004
        "colorbar": {"title": {"text": "GB/s"}, "thickness": 12, "outlinewidth": 0, "tickfont": {"color": MUTED}},
    }
    height = min(760, 170 + 26 * len(names))
    layout = _layout(
        height,
        xaxis=_axis("", tickangle=-45 if len(names) > 8 else 0, **ticks),  # noqa: PLR2004 - eight names fit
        yaxis=_axis("", autorange="reversed", **ticks),
    )
    layout["xaxis"]["automargin"] = layout["yaxis"]["automargin"] = True
    return {"data": [trace], "layout": layout}


def _scale(floor: float) -> list[list[Any]]:
    """Return a colour scale: red below the floor, blue above it; without a floor, only blue."""
    if floor <= 0:
        return [[0, "#e8f0f7"], [1, BLUE]]
    below = [[0, "#7a1208"], [floor, "#f0b7ad"]]
    return below if floor >= 1 else [*below, [floor, "#d3e3f2"], [1, BLUE]]


def matrix_figure(matrix: Matrix, floor: float | None) -> dict[str, Any]:
    """Return a heat map of a matrix with the values in its cells; slow cells have a red frame.

    The colour scale covers only cells between different GPUs, because local memory is many times faster.

    Args:
        matrix: a matrix of a test in a normalised report.
        floor: floor of this matrix in GB/s; None if none was applied.
    """
    square = len(matrix["rows"]) == len(matrix["columns"]) > 1
    cells = [
        value
        for row, line in enumerate(matrix["values"])
        for column, value in enumerate(line)
        if value is not None and not (square and row == column)
    ]
    top = max([*cells, floor or 0.0], default=0.0) or 1.0
    late = matrix["unit"] != "GB/s"
    trace = {
        "type": "heatmap",
        "z": [[None if value is None else min(value, top) for value in line] for line in matrix["values"]],
        "zmin": 0,
        "zmax": top,
        "colorscale": [[0, "#f3f0fa"], [1, "#7c4dbd"]] if late else _scale((floor or 0.0) / top),
        "text": [["" if value is None else f"{value:.4g}" for value in line] for line in matrix["values"]],
        "texttemplate": "%{text}" if len(matrix["columns"]) <= _MOST_WRITTEN else "",
        "textfont": {"size": 12 if len(matrix["columns"]) <= 8 else 9},  # noqa: PLR2004 - eight columns fit on a phone
        "hovertemplate": f"%{{y}}, %{{x}}: %{{text}} {_plain(matrix['unit'])}<extra></extra>",
        "hoverongaps": False,
        "xgap": 2,
        "ygap": 2,
        "showscale": False,
    }
    height = 96 + 30 * len(matrix["rows"])
    ticks = {"showgrid": False, "zeroline": False}
    layout = _layout(
        height,
        margin={"l": 64, "r": 14, "t": 8, "b": 34},
        xaxis=_axis("", tickvals=list(range(len(matrix["columns"]))), ticktext=_gpus(matrix["columns"]), **ticks),
        yaxis=_axis("", tickvals=list(range(len(matrix["rows"]))), ticktext=_gpus(matrix["rows"]), **ticks),
        shapes=[_frame(row, column) for row, column in matrix["odd"]],
    )
    layout["yaxis"]["autorange"] = "reversed"
    return {"data": [trace], "layout": layout}


def _gpus(labels: list[str]) -> list[str]:
    """Return the labels of the axis; the empty label of a matrix with one row becomes "all"."""
    return [f"GPU {_plain(label)}" if label else "all" for label in labels]


def _frame(row: int, column: int) -> dict[str, Any]:
    around = {"x0": column - 0.5, "x1": column + 0.5, "y0": row - 0.5, "y1": row + 0.5}
    return {"type": "rect", **around, "line": {"color": RED, "width": 3}}


def chart_figure(chart: Chart) -> dict[str, Any]:
    """Return the figure of a stage's chart; the limits of a series are dashed lines in its colour."""
    return _lines_figure(chart) if chart["kind"] == "lines" else _bars_figure(chart)


def _colours(series: list[Series]) -> list[str]:
    return [GRID if item.get("pale") else _LINES[number % len(_LINES)] for number, item in enumerate(series)]


def _bars_figure(chart: Bars) -> dict[str, Any]:
    names = [_plain(label) for label in chart["labels"]]
    unit, sideways = _plain(chart["unit"]), chart["sideways"]
    data: list[dict[str, Any]] = []
    for series, colour in zip(chart["series"], _colours(chart["series"])):
        name, values = _plain(series["name"]), list(series["values"])
        who, shown = ("%{y}", "%{x:.4~g}") if sideways else ("%{x}", "%{y:.4~g}")
        bars: dict[str, Any] = {"type": "bar", "name": name, "marker": {"color": colour}}
        bars |= {"orientation": "h", "x": values, "y": names} if sideways else {"x": names, "y": values}
        if "words" in series:
            bars |= {"text": [_plain(words) for words in series["words"]], "textposition": "auto"}
        data.append({**bars, "hovertemplate": f"{who}, {name}: {shown} {unit}<extra></extra>"})
        data += [_across(f"{name} floor", limit, names, chart, colour) for limit in series.get("limits", [])]
    amount = _axis(unit, rangemode="tozero")
    if sideways:
        axes = {"xaxis": amount, "yaxis": _axis("", type="category", autorange="reversed", automargin=True)}
    else:
        axes = {"xaxis": _axis("", type="category"), "yaxis": amount}
    height = 120 + 44 * len(names) if sideways else _UPRIGHT
    return {"data": data, "layout": _layout(height, barmode="group", **axes)}


def _across(name: str, at: float, names: list[str], chart: Bars, colour: str) -> dict[str, Any]:
    """Return a line across all bars."""
    count = max(2, len(names))
    level, along = [at] * count, [*names, *names][:count]
    places = {"x": level, "y": along} if chart["sideways"] else {"x": along, "y": level}
    line = {"color": colour, "width": 2, "dash": "dash"}
    words = f"{name}: {at:.4g} {_plain(chart['unit'])}<extra></extra>"
    return {"type": "scatter", "mode": "lines+markers", "name": name, **places, "line": line, "hovertemplate": words}


def _lines_figure(chart: Lines) -> dict[str, Any]:
    unit, at = _plain(chart["unit"]), chart["at"]
    data: list[dict[str, Any]] = []
    for series, colour in zip(chart["series"], _colours(chart["series"])):
        name = _plain(series["name"])
        line = {"x": at, "y": list(series["values"]), "line": {"color": colour, "width": 2}}
        words = f"%{{x:.4~g}}, {name}: %{{y:.4~g}} {unit}<extra></extra>"
        data.append({"type": "scatter", "mode": "lines+markers", "name": name, **line, "hovertemplate": words})
        data += [_level(f"{name} floor", limit, at, RED, "dash") for limit in series.get("limits", [])]
    axes = {"xaxis": _axis(_plain(chart["across"])), "yaxis": _axis(unit, rangemode="tozero")}
    return {"data": data, "layout": _layout(_UPRIGHT, **axes)}


def trend_figure(compared: Sequence[Compared], started: str) -> dict[str, Any] | None:
    """Return busbw over time for tests with earlier results, or None if there are none.

    Args:
        compared: the result of drift; the first eight values with a history are shown, drifted ones first.
        started: start of this report's validation, ISO 8601.
    """
    ordered = sorted((item for item in compared if item["past"]), key=lambda item: not item["flags"])
    data: list[dict[str, Any]] = []
    for item, colour in zip(ordered, _LINES):
        past = [*item["past"], {"started": started, "busbw": item["busbw"], "verdict": item["verdict"]}]
        data.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": _plain(item["name"]),
                "x": [_plain(point["started"]) for point in past],
                "y": [point["busbw"] for point in past],
                "customdata": [point["verdict"] for point in past],
                "line": {"color": colour, "width": 2},
                "marker": {"size": 8, "symbol": ["circle" if p["verdict"] == "PASS" else "x" for p in past]},
                "hovertemplate": "%{x|%d %b %Y %H:%M}: %{y:.4~g} GB/s, %{customdata}",
            }
        )
    if not data:
        return None
    axes = {"xaxis": _axis("", type="date"), "yaxis": _busbw_axis([value for trace in data for value in trace["y"]])}
    return {"data": data, "layout": _layout(340, hovermode="closest", **axes)}
