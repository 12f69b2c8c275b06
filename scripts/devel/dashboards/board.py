"""A dashboard of rows of panels, laid out from left to right, with the variables and links that all share."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard as models

from .panels import DATASOURCE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .panels import Placed

__all__ = ["DATASOURCE_UID", "FOLDER", "Variable", "board", "node_variable", "query_variable", "text"]

FOLDER = "busbar"
# The uid of the data source that the role `grafana` provisions; elsewhere the variable offers those that are there.
DATASOURCE_UID = "busbar-prometheus"
COLUMNS = 24
ALL = models.VariableOption(selected=True, text="All", value="$__all")
Variable = builders.QueryVariable


def query_variable(name: str, label: str, source: str, *, several: bool = True) -> Variable:
    """Return a variable whose values come from the labels of series; with `several` it begins with all of them."""
    made = builders.QueryVariable(name).label(label).datasource(DATASOURCE)
    made.query({"query": source, "refId": name}).sort(models.VariableSort.ALPHABETICAL_CASE_INSENSITIVE_ASC)
    # By the time shown: the nodes and jobs of last week are offered for last week.
    made.refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
    if several:
        made.multi(True).include_all(True).all_value(".*").current(ALL)  # noqa: FBT003 - the library's way
    return made


def node_variable(metric: str = "node_uname_info", *, several: bool = True) -> Variable:
    """Return the variable `node`, of the nodes that a metric knows."""
    return query_variable("node", "Node", f'label_values({metric}{{cluster=~"$cluster"}}, node)', several=several)


def board(  # noqa: PLR0913 - what a dashboard is
    name: str,
    title: str,
    description: str,
    rows: Sequence[tuple[str, Sequence[Placed]]],
    variables: Sequence[Variable] = (),
    *,
    since: str = "now-6h",
) -> models.Dashboard:
    """Return a dashboard with the uid busbar-`name`.

    Raises:
        ValueError: a panel is wider than the dashboard.
    """
    made = builders.Dashboard(title).uid(f"busbar-{name}").description(description).tags([FOLDER]).readonly()
    made.timezone("browser").time(since, "now").refresh("1m").tooltip(models.DashboardCursorSync.CROSSHAIR)
    others = builders.DashboardLink("busbar").type(models.DashboardLinkType.DASHBOARDS).tags([FOLDER])
    made.link(others.as_dropdown(True).include_vars(True).keep_time(True).icon("external link"))  # noqa: FBT003
    source = builders.DatasourceVariable("datasource").label("Data source").type("prometheus")
    source.current(models.VariableOption(selected=True, text="Prometheus", value=DATASOURCE_UID))
    made.with_variable(source)
    made.with_variable(query_variable("cluster", "Cluster", "label_values(up, cluster)"))
    for variable in variables:
        made.with_variable(variable)
    top, number = 0, 0
    for heading, panels in rows:
        number += 1
        place = models.GridPos(h=1, w=COLUMNS, x=0, y=top)
        made.with_row(builders.Row(heading).id(number).grid_pos(place))
        top, left, tallest = top + 1, 0, 0
        for item in panels:
            if item.width > COLUMNS:
                message = f"{name}: a panel is {item.width} wide, and a dashboard {COLUMNS}"
                raise ValueError(message)
            if left + item.width > COLUMNS:
                top, left, tallest = top + tallest, 0, 0
            number += 1
            place = models.GridPos(h=item.height, w=item.width, x=left, y=top)
            made.with_panel(item.panel.id(number).grid_pos(place))
            left, tallest = left + item.width, max(tallest, item.height)
        top += tallest
    return made.build()


def text(dashboard: models.Dashboard) -> str:
    """Return a dashboard as the JSON that Grafana reads from a file."""
    return json.dumps(json.loads(JSONEncoder(sort_keys=True).encode(dashboard)), indent=1, sort_keys=True) + "\n"
