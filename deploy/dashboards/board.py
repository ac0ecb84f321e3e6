"""What the dashboards have in common: variables, links to each other, and their layout."""

from collections.abc import Iterable, Sequence
from typing import Final

from grafana_foundation_sdk.builders import dashboard
from grafana_foundation_sdk.models.dashboard import (
    AnnotationContainer,
    AnnotationQuery,
    Dashboard,
    DashboardCursorSync,
    DashboardDashboardTemplating,
    DashboardDashboardTime,
    DashboardLink,
    DashboardLinkType,
    GridPos,
    Panel,
    RowPanel,
    VariableOption,
    VariableRefresh,
    VariableSort,
)

from deploy.dashboards.panels import SOURCE, AnyPanel

TAG: Final = "calibration-monitor"
GRAFANA: Final = "11.6.0"
"""The version whose panels are written. Without it Grafana takes an XY chart for one of the old form."""

UIDS: Final = {"fleet": "calibration-fleet", "model": "calibration-model", "pipeline": "calibration-pipeline"}
"""Never to change: links and bookmarks hold them."""

WIDTH: Final = 24


class Noted(AnnotationQuery):
    """An annotation as Prometheus' data source reads it; the typed form knows only what all data sources have.

    The value of each result is the time of an event, in milliseconds. The same event is the same value at each scrape,
    and becomes one mark.
    """

    def __init__(self, name: str, expr: str, *, title: str, text: str, colour: str) -> None:
        super().__init__(name=name, datasource=SOURCE, enable=True, icon_color=colour, expr=expr)
        self._title, self._text = title, text

    def to_json(self) -> dict[str, object]:
        """As the dashboard's file has it."""
        return {
            **super().to_json(),
            "useValueForTime": True,
            "titleFormat": self._title,
            "textFormat": self._text,
            "tagKeys": "",
            "step": "",
        }


def choice(
    name: str,
    label: str,
    series: str,
    *,
    of: str | None = None,
    several: bool = False,
    sort: VariableSort = VariableSort.NATURAL_ASC,
    first: str | None = None,
) -> dashboard.QueryVariable:
    """A variable whose values are those of a label.

    Parameters
    ----------
    series
        A selector of the series that have it.
    of
        The label; the variable's name if left out.
    several
        Whether several values can be chosen, or all, which is the default then. "All" matches series without the label
        too.
    first
        The value chosen at first, where there is one of this name.
    """
    variable = dashboard.QueryVariable(name).label(label).datasource(SOURCE)
    query = f"label_values({series}, {of or name})"
    # qryType 1 is Grafana's name for label_values.
    variable.query({"qryType": 1, "query": query, "refId": f"variable-{name}"})
    variable.refresh(VariableRefresh.ON_TIME_RANGE_CHANGED).sort(sort)
    if several:
        variable.multi(multi=True).include_all(include_all=True).all_value(".*")
        variable.current(VariableOption(text="All", value="$__all", selected=True))
    elif first is not None:
        variable.current(VariableOption(text=first, value=first, selected=True))
    return variable


def namespaces() -> dashboard.QueryVariable:
    """Where the monitor is installed several times."""
    return choice("namespace", "Namespace", "calibration_build_info", several=True)


def board(
    name: str,
    title: str,
    description: str,
    variables: Sequence[dashboard.QueryVariable],
    rows: Sequence[tuple[str, Iterable[AnyPanel]]],
    *,
    notes: Sequence[AnnotationQuery] = (),
    span: str = "now-6h",
) -> Dashboard:
    """A dashboard of rows of panels.

    Parameters
    ----------
    name
        As in UIDS.
    rows
        Title of each row and its panels, in their order.
    notes
        What is marked in all panels.
    span
        The time range at first.
    """
    source = dashboard.DatasourceVariable("datasource").label("Prometheus").type("prometheus")
    return Dashboard(
        uid=UIDS[name],
        title=title,
        description=description,
        tags=[TAG],
        editable=True,
        graph_tooltip=DashboardCursorSync.CROSSHAIR,
        time=DashboardDashboardTime(from_val=span, to="now"),
        refresh="30s",
        links=[
            DashboardLink(
                title="Calibration",
                type_val=DashboardLinkType.DASHBOARDS,
                tags=[TAG],
                icon="dashboard",
                tooltip="The other dashboards of the calibration monitor",
                keep_time=True,
            )
        ],
        templating=DashboardDashboardTemplating(
            list_val=[source.build(), *(variable.build() for variable in variables)]
        ),
        annotations=AnnotationContainer(list_val=list(notes)),
        panels=_laid_out(rows),
    )


def _laid_out(rows: Sequence[tuple[str, Iterable[AnyPanel]]]) -> list[Panel | RowPanel]:
    """The panels, each with a number, in the highest free place below its row's header, the leftmost of these."""
    panels: list[Panel | RowPanel] = []
    bottom = 0
    for title, content in rows:
        panels.append(RowPanel(title=title, id_val=len(panels) + 1, grid_pos=GridPos(x=0, y=bottom, w=WIDTH, h=1)))
        used = [bottom + 1] * WIDTH
        for builder in content:
            panel = builder.build()
            size = panel.grid_pos or GridPos()
            top, left = min((max(used[left : left + size.w]), left) for left in range(WIDTH - size.w + 1))
            used[left : left + size.w] = [top + size.h] * size.w
            panel.grid_pos = GridPos(x=left, y=top, w=size.w, h=size.h)
            panel.id_val, panel.plugin_version = len(panels) + 1, GRAFANA
            panels.append(panel)
        bottom = max(used)
    return panels
