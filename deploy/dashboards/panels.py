"""Panels as these dashboards have them: each with a title, a unit and a description that says how to read it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeVar

from grafana_foundation_sdk.builders import (
    barchart,
    common,
    dashboard,
    prometheus,
    stat,
    table,
    timeseries,
    xychart,
)
from grafana_foundation_sdk.models.common import (
    BigValueColorMode,
    BigValueGraphMode,
    BigValueTextMode,
    GraphThresholdsStyleMode,
    LegendDisplayMode,
    LegendPlacement,
    ScaleDistribution,
    SortOrder,
    StackingMode,
    TooltipDisplayMode,
    VisibilityMode,
)
from grafana_foundation_sdk.models.dashboard import (
    DataSourceRef,
    DataTransformerConfig,
    DynamicConfigValue,
    FieldColorModeId,
    Threshold,
    ThresholdsMode,
    ValueMap,
    ValueMapping,
    ValueMappingResult,
)
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from monitor.reports.evaluation.report import Verdict

SOURCE: Final = DataSourceRef(type_val="prometheus", uid="${datasource}")
"""The Prometheus that is chosen at the top of each dashboard."""

GREEN, YELLOW, ORANGE, RED, BLUE, PURPLE, GREY = "green", "yellow", "orange", "red", "blue", "purple", "#808080"

Property = tuple[str, object]
"""Identifier and value of an option that is set for one field alone."""

Colours = Sequence[tuple[float | None, str]]
"""From which value on there is which colour; the first begins at None."""


@dataclass(frozen=True, slots=True)
class Query:
    """What a panel asks Prometheus.

    Attributes
    ----------
    expr
        In PromQL, with the dashboard's variables.
    legend
        Name of the result; ``{{label}}`` is the value of a label.
    kind
        ``range``: over the time range shown; ``instant``: at its end; ``table``: at its end, one row a result.
    """

    expr: str
    legend: str = ""
    kind: Literal["range", "instant", "table"] = "range"

    def build(self, ref_id: str) -> prometheus.Dataquery:
        """As a panel holds it."""
        built = prometheus.Dataquery().expr(self.expr).ref_id(ref_id).datasource(SOURCE)
        if self.legend:
            built.legend_format(self.legend)
        if self.kind == "range":
            return built.range().format(PromQueryFormat.TIME_SERIES)
        return built.instant().format(PromQueryFormat.TABLE if self.kind == "table" else PromQueryFormat.TIME_SERIES)


AnyPanel = barchart.Panel | stat.Panel | table.Panel | timeseries.Panel | xychart.Panel
PanelBuilder = TypeVar("PanelBuilder", barchart.Panel, stat.Panel, table.Panel, timeseries.Panel, xychart.Panel)


def furnish(
    panel: PanelBuilder,
    title: str,
    description: str,
    *queries: Query,
    unit: str = "none",
    size: tuple[int, int],
    fields: Mapping[str, Sequence[Property]] | None = None,
) -> PanelBuilder:
    """Give a panel what all have.

    Parameters
    ----------
    unit
        Grafana's identifier of it, such as ``percentunit``.
    size
        Width, of 24, and height, in Grafana's grid.
    fields
        What is set for fields of these names alone.
    """
    panel.title(title).description(description).datasource(SOURCE).unit(unit).span(size[0]).height(size[1])
    panel.targets([query.build(chr(ord("A") + at)) for at, query in enumerate(queries)])
    for name, properties in (fields or {}).items():
        panel.override_by_name(name, [DynamicConfigValue(id_val=option, value=value) for option, value in properties])
    return panel


def lines(
    title: str,
    description: str,
    *queries: Query,
    unit: str = "none",
    size: tuple[int, int] = (8, 8),
    least: float | None = 0.0,
    most: float | None = None,
    colours: Colours | None = None,
    stacked: bool = False,
    logarithmic: bool = False,
    fields: Mapping[str, Sequence[Property]] | None = None,
) -> timeseries.Panel:
    """Lines over time; ``colours`` are drawn as dashed lines at their values."""
    panel = furnish(timeseries.Panel(), title, description, *queries, unit=unit, size=size, fields=fields)
    panel.line_width(1).fill_opacity(40 if stacked else 0).show_points(VisibilityMode.NEVER)
    panel.tooltip(common.VizTooltipOptions().mode(TooltipDisplayMode.MULTI).sort(SortOrder.DESCENDING))
    panel.legend(legend_below())
    if stacked:
        panel.stacking(common.StackingConfig().mode(StackingMode.NORMAL))
    if logarithmic:
        panel.scale_distribution(common.ScaleDistributionConfig().type(ScaleDistribution.LOG).log(10))
    if least is not None:
        panel.axis_soft_min(least)
    if most is not None:
        panel.axis_soft_max(most)
    if colours is not None:
        panel.thresholds(thresholds(colours))
        panel.thresholds_style(common.GraphThresholdsStyleConfig().mode(GraphThresholdsStyleMode.DASHED))
    return panel


def legend_below() -> common.VizLegendOptions:
    """A legend below the panel, without values."""
    legend = common.VizLegendOptions().display_mode(LegendDisplayMode.LIST).placement(LegendPlacement.BOTTOM)
    return legend.show_legend(show_legend=True).calcs([])


def number(
    title: str,
    description: str,
    *queries: Query,
    unit: str = "none",
    colours: Colours = ((None, BLUE),),
    decimals: int | None = None,
    names: bool = False,
    trend: bool = True,
    fields: Mapping[str, Sequence[Property]] | None = None,
) -> stat.Panel:
    """The last value, large; ``names`` shows the name of the result instead, such as a verdict."""
    panel = furnish(stat.Panel(), title, description, *queries, unit=unit, size=(4, 4), fields=fields)
    panel.reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]).values(values=False).fields(""))
    panel.text_mode(BigValueTextMode.NAME if names else BigValueTextMode.AUTO)
    panel.color_mode(BigValueColorMode.VALUE)
    panel.graph_mode(BigValueGraphMode.AREA if trend else BigValueGraphMode.NONE)
    panel.thresholds(thresholds(colours)).no_value("no data")
    if decimals is not None:
        panel.decimals(decimals)
    return panel


def rows(
    title: str,
    description: str,
    *queries: Query,
    unit: str = "none",
    size: tuple[int, int],
    transformations: Sequence[DataTransformerConfig],
    sort_by: str,
    fields: Mapping[str, Sequence[Property]] | None = None,
) -> table.Panel:
    """A table, with the largest value of a column first."""
    panel = furnish(table.Panel(), title, description, *queries, unit=unit, size=size, fields=fields)
    panel.transformations(list(transformations)).sort_by(
        [common.TableSortByFieldState().display_name(sort_by).desc(desc=True)]
    )
    panel.thresholds(thresholds([(None, "text")])).no_value("none")
    return panel


def merged(names: Mapping[str, str], hidden: Iterable[str]) -> list[DataTransformerConfig]:
    """Tables of several queries as one: rows join where they agree in all labels that all have.

    Parameters
    ----------
    names
        Field of a query's table (``Value #A``, or a label) -> its column's title, in the columns' order.
    hidden
        Fields that are not shown.
    """
    return [
        DataTransformerConfig(id_val="merge", options={}),
        DataTransformerConfig(
            id_val="organize",
            options={
                "excludeByName": dict.fromkeys(hidden, True),
                "indexByName": {name: at for at, name in enumerate(names)},
                "renameByName": dict(names),
            },
        ),
    ]


def thresholds(colours: Colours) -> dashboard.ThresholdsConfig:
    """From which value on there is which colour."""
    steps = [Threshold(value=value, color=colour) for value, colour in colours]
    return dashboard.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(steps)


def coloured(colour: str) -> Property:
    """A colour for one field."""
    return ("color", {"mode": FieldColorModeId.FIXED.value, "fixedColor": colour})


def by_value(colours: Colours) -> list[Property]:
    """A table's cells in the colours of their values."""
    return [
        ("thresholds", {"mode": "absolute", "steps": [{"value": value, "color": colour} for value, colour in colours]}),
        ("custom.cellOptions", {"type": "color-text"}),
    ]


def words(mapping: Mapping[str, tuple[str, str]]) -> list[ValueMapping]:
    """Values as people read them: value -> its words and colour."""
    return [
        ValueMap(
            options={
                value: ValueMappingResult(text=text, color=colour, index=at)
                for at, (value, (text, colour)) in enumerate(mapping.items())
            }
        )
    ]


_VERDICT_COLOURS: Final = {
    Verdict.CALIBRATED: GREEN,
    Verdict.PRIOR_SHIFT: ORANGE,
    Verdict.SHAPE: RED,
    Verdict.BOTH: RED,
    Verdict.INSUFFICIENT: "text",
}

VERDICTS: Final = {verdict.value: (verdict.words, _VERDICT_COLOURS[verdict]) for verdict in Verdict}
"""Verdict -> its words and its colour."""
