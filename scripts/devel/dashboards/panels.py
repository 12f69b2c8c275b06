"""Panels as this product draws them: every one has title, description, unit, data source and a query."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, TypeVar

from grafana_foundation_sdk.builders import bargauge, prometheus, stat, statetimeline, table, timeseries
from grafana_foundation_sdk.builders import common as common_builders
from grafana_foundation_sdk.builders import dashboard as dashboard_builders
from grafana_foundation_sdk.models import common
from grafana_foundation_sdk.models import dashboard as models
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["DATASOURCE", "Column", "Placed", "bars", "board_link", "graph", "query", "stats", "tabled", "timeline"]

DATASOURCE = models.DataSourceRef(type_val="prometheus", uid="${datasource}")
Query = prometheus.Dataquery
Panel = TypeVar("Panel", timeseries.Panel, stat.Panel, table.Panel, bargauge.Panel, statetimeline.Panel)
AnyPanel = timeseries.Panel | stat.Panel | table.Panel | bargauge.Panel | statetimeline.Panel
# (from this value on, colour); the first one holds below as well.
Steps = tuple[tuple[float, str], ...]
Words = dict[int, tuple[str, str]]


@dataclasses.dataclass(frozen=True)
class Placed:
    """A panel with the room it takes, in columns (of 24) and rows."""

    panel: AnyPanel
    width: int
    height: int


@dataclasses.dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        title: what stands above it.
        unit: Grafana's name of the unit; '' is plain text.
        link: address to which its cells lead.
        words: value to (text, colour).
        steps: thresholds that colour the cell.
        width: in pixels; 0 leaves it to Grafana.
    """

    title: str
    unit: str = ""
    link: str = ""
    words: Words | None = None
    steps: Steps = ()
    width: int = 0


def query(expr: str, legend: str = "") -> Query:
    """Return a query over time; its series are called `legend`, with labels as {{label}}."""
    made = prometheus.Dataquery().expr(expr).range().datasource(DATASOURCE)
    return made.legend_format(legend or "__auto")


def board_link(board: str, **variables: str) -> str:
    """Return the address of another dashboard with variables set and the time kept."""
    chosen = "".join(f"&var-{name}={value}" for name, value in variables.items())
    return f"/d/busbar-{board}?${{__url_time_range}}&${{cluster:queryparam}}&${{datasource:queryparam}}{chosen}"


def graph(  # noqa: PLR0913 - what a graph is
    title: str,
    description: str,
    unit: str,
    *queries: Query,
    stacked: bool = False,
    low: float | None = 0,
    high: float | None = None,
    steps: Steps = (),
    colours: Mapping[str, str] | None = None,
    dashed: Sequence[str] = (),
    width: int = 12,
    height: int = 8,
) -> Placed:
    """Return lines over time; names in `dashed` (patterns) are limits, drawn as such."""
    panel = _common(timeseries.Panel(), title, description, unit, queries)
    legend = common_builders.VizLegendOptions().display_mode(common.LegendDisplayMode.TABLE).show_legend(True)  # noqa: FBT003 - the library's way
    legend = legend.placement(common.LegendPlacement.BOTTOM).calcs(["lastNotNull", "max"])
    tooltip = common_builders.VizTooltipOptions().mode(common.TooltipDisplayMode.MULTI)
    tooltip = tooltip.sort(common.SortOrder.DESCENDING)
    panel.legend(legend).tooltip(tooltip).line_width(1).fill_opacity(60 if stacked else 8)
    # A point now and then (a validation) is to be seen; a gap where a node was away is not to be bridged.
    panel.show_points(common.VisibilityMode.AUTO).span_nulls(False)  # noqa: FBT003
    if stacked:
        panel.stacking(common_builders.StackingConfig().mode(common.StackingMode.NORMAL))
    if low is not None:
        panel.min(low)
    if high is not None:
        panel.max(high)
    if steps:
        panel.thresholds(_thresholds(steps))
        style = common_builders.GraphThresholdsStyleConfig().mode(common.GraphTresholdsStyleMode.DASHED)
        panel.thresholds_style(style)
    for name, colour in (colours or {}).items():
        panel.override_by_name(name, [_value("color", {"mode": "fixed", "fixedColor": colour})])
    for pattern in dashed:
        line = _value("custom.lineStyle", {"fill": "dash", "dash": [8, 8]})
        panel.override_by_regexp(pattern, [line, _value("custom.fillOpacity", 0)])
    return Placed(panel, width, height)


def stats(  # noqa: PLR0913
    title: str,
    description: str,
    unit: str,
    *queries: Query,
    steps: Steps = (),
    words: Words | None = None,
    names: bool = False,
    decimals: int | None = None,
    link: str = "",
    width: int = 4,
    height: int = 4,
) -> Placed:
    """Return the last value in large digits; `names` shows the series' name in its place."""
    panel = _common(stat.Panel(), title, description, unit, queries)
    # Only the last value counts: one that is gone is not to be shown as if it still held.
    panel.reduce_options(common_builders.ReduceDataOptions().calcs(["last"]))
    panel.graph_mode(common.BigValueGraphMode.NONE if words or names else common.BigValueGraphMode.AREA)
    panel.color_mode(common.BigValueColorMode.BACKGROUND if words else common.BigValueColorMode.VALUE)
    one = len(queries) == 1
    mode = common.BigValueTextMode.VALUE if one else common.BigValueTextMode.VALUE_AND_NAME
    panel.text_mode(common.BigValueTextMode.NAME if names else mode)
    panel.thresholds(_thresholds(steps or ((0, "blue"),)))
    if words:
        panel.mappings(_mappings(words))
    if decimals is not None:
        panel.decimals(decimals)
    if link:
        panel.data_links([_link(title, link)])
    return Placed(panel, width, height)


def bars(  # noqa: PLR0913
    title: str,
    description: str,
    unit: str,
    *queries: Query,
    steps: Steps = (),
    high: float | None = None,
    width: int = 12,
    height: int = 8,
) -> Placed:
    """Return one bar for each series, by its last value."""
    panel = _common(bargauge.Panel(), title, description, unit, queries).min(0)
    panel.reduce_options(common_builders.ReduceDataOptions().calcs(["lastNotNull"]))
    panel.orientation(common.VizOrientation.HORIZONTAL).display_mode(common.BarGaugeDisplayMode.BASIC)
    panel.thresholds(_thresholds(steps or ((0, "blue"),)))
    if high is not None:
        panel.max(high)
    return Placed(panel, width, height)


def timeline(
    title: str,
    description: str,
    *queries: Query,
    words: Words,
    width: int = 24,
    height: int = 8,
) -> Placed:
    """Return a band for each series that shows when it had which state."""
    panel = _common(statetimeline.Panel(), title, description, "none", queries)
    panel.mappings(_mappings(words)).merge_values(True).fill_opacity(80)  # noqa: FBT003
    panel.show_value(common.VisibilityMode.NEVER)
    legend = common_builders.VizLegendOptions().display_mode(common.LegendDisplayMode.LIST).show_legend(True)  # noqa: FBT003
    panel.legend(legend.placement(common.LegendPlacement.BOTTOM).calcs([]))
    return Placed(panel, width, height)


def tabled(  # noqa: PLR0913
    title: str,
    description: str,
    exprs: Sequence[str],
    columns: Mapping[str, Column],
    *,
    sort: str = "",
    descending: bool = True,
    width: int = 12,
    height: int = 8,
) -> Placed:
    """Return a table of what holds now, its columns in order, each other label left out.

    Columns are named by label, or by 'Value' (one query) and 'Value #A', 'Value #B' … (several, joined by labels).
    """
    queries = [
        prometheus.Dataquery().expr(expr).instant().format(PromQueryFormat.TABLE).datasource(DATASOURCE)
        for expr in exprs
    ]
    panel = _common(table.Panel(), title, description, "short", queries)
    order = {name: index for index, name in enumerate(columns)}
    names = {name: column.title for name, column in columns.items()}
    if len(queries) > 1:
        panel.with_transformation(models.DataTransformerConfig(id_val="merge", options={}))
    keep = {"include": {"names": list(columns)}}
    panel.with_transformation(models.DataTransformerConfig(id_val="filterFieldsByName", options=keep))
    organized = {"excludeByName": {}, "indexByName": order, "renameByName": names}
    panel.with_transformation(models.DataTransformerConfig(id_val="organize", options=organized))
    for column in columns.values():
        panel.override_by_name(column.title, _cell(column))
    if sort:
        panel.sort_by([common_builders.TableSortByFieldState().display_name(columns[sort].title).desc(descending)])
    return Placed(panel, width, height)


def _cell(column: Column) -> list[models.DynamicConfigValue]:
    values = [_value("unit", column.unit or "string")]
    if column.width:
        values.append(_value("custom.width", column.width))
    if column.link:
        link = {"title": f"Open {column.title}", "url": column.link}
        values.append(_value("links", [link]))
    if column.words:
        mapping = {str(key): {"text": text, "color": colour} for key, (text, colour) in column.words.items()}
        values.append(_value("mappings", [{"type": "value", "options": mapping}]))
    if column.steps:
        steps = [{"value": None if index == 0 else at, "color": hue} for index, (at, hue) in enumerate(column.steps)]
        values.append(_value("thresholds", {"mode": "absolute", "steps": steps}))
    if column.words or column.steps:
        values.append(_value("custom.cellOptions", {"type": "color-text"}))
    return values


def _common(panel: Panel, title: str, description: str, unit: str, queries: Sequence[Query]) -> Panel:
    panel.title(title).description(description).unit(unit).datasource(DATASOURCE).no_value("no data")
    for index, item in enumerate(queries):
        panel.with_target(item.ref_id(chr(ord("A") + index)))
    return panel


def _value(name: str, value: object) -> models.DynamicConfigValue:
    return models.DynamicConfigValue(id_val=name, value=value)


def _thresholds(steps: Steps) -> dashboard_builders.ThresholdsConfig:
    made = [models.Threshold(None if index == 0 else at, colour) for index, (at, colour) in enumerate(steps)]
    return dashboard_builders.ThresholdsConfig().mode(models.ThresholdsMode.ABSOLUTE).steps(made)


def _mappings(words: Words) -> list[models.ValueMapping]:
    options = {
        str(key): models.ValueMappingResult(text=text, color=colour, index=index)
        for index, (key, (text, colour)) in enumerate(words.items())
    }
    return [models.ValueMap(options=options)]


def _link(title: str, url: str) -> dashboard_builders.DashboardLink:
    return dashboard_builders.DashboardLink(title).url(url)
