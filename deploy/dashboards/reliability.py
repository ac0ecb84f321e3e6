"""The reliability diagram, of the counts in its bins."""

from collections.abc import Mapping
from typing import Final

from grafana_foundation_sdk.builders import barchart, common, xychart
from grafana_foundation_sdk.models.common import StackingMode, TooltipDisplayMode
from grafana_foundation_sdk.models.dashboard import DataTransformerConfig
from grafana_foundation_sdk.models.xychart import SeriesMapping, XYShowMode

from deploy.dashboards.panels import BLUE, GREY, Property, Query, coloured, furnish, legend_below, merged
from deploy.dashboards.promql import share, summed

_SAID, _WAS, _DIAGONAL = "mean prediction", "share of positives", "perfectly calibrated"
_LOWER, _UPPER, _COUNT = "95% interval, lower end", "95% interval, upper end", "labelled"
_Z = 1.96
_SOLID: Final = {"fill": "solid"}
_DOTTED: Final = {"fill": "dot", "dash": [2, 6]}


def reliability_diagram(selector: str) -> xychart.Panel:
    """What happened over what was said, bin by bin, with Wilson's intervals and the diagonal."""
    said = share("calibration_bin_summed_predictions", "calibration_bin_labelled", selector, "(bin)")
    panel = furnish(
        xychart.Panel(),
        "Reliability diagram",
        "Share of positive outcomes over the mean prediction, in ten bins of equal width; the larger a point, the more "
        "predictions its bin holds. Right is the diagonal: above it predictions are too low, below it too high. The "
        "dotted lines are 95% intervals (Wilson): a diagonal within them can be chance. Of several classes, how often "
        "the top label came true. Empty unless the settings say `exposition.level: all`, which is not the default: "
        "the page of the model has the diagram at any level.",
        Query(said, kind="table"),
        Query(share("calibration_bin_positives", "calibration_bin_labelled", selector, "(bin)"), kind="table"),
        Query(said, kind="table"),
        Query(_wilson(selector, "-"), kind="table"),
        Query(_wilson(selector, "+"), kind="table"),
        Query(f"{summed('calibration_bin_labelled', selector, '(bin)')} > 0", kind="table"),
        unit="percentunit",
        size=(12, 16),
        fields={
            _SAID: [("min", 0), ("max", 1), ("custom.axisLabel", "mean prediction")],
            _WAS: _drawn(XYShowMode.POINTS_AND_LINES, 2, _SOLID, BLUE),
            _DIAGONAL: _drawn(XYShowMode.LINES, 1, _SOLID, GREY),
            _LOWER: _drawn(XYShowMode.LINES, 1, _DOTTED, BLUE),
            _UPPER: _drawn(XYShowMode.LINES, 1, _DOTTED, BLUE),
            _COUNT: [("unit", "short"), ("decimals", 0)],
        },
    )
    panel.transformations(
        [
            *merged(
                {
                    "bin": "bin",
                    "Value #A": _SAID,
                    "Value #B": _WAS,
                    "Value #C": _DIAGONAL,
                    "Value #D": _LOWER,
                    "Value #E": _UPPER,
                    "Value #F": _COUNT,
                },
                hidden=["Time"],
            ),
            # Lines are drawn from row to row.
            DataTransformerConfig(id_val="sortBy", options={"fields": {}, "sort": [{"field": _SAID}]}),
        ]
    )
    panel.mapping(SeriesMapping.MANUAL)
    panel.series([_series(_WAS, sized=True), _series(_LOWER), _series(_UPPER), _series(_DIAGONAL)])
    panel.tooltip(common.VizTooltipOptions().mode(TooltipDisplayMode.SINGLE))
    return panel.legend(legend_below())


def reliability_volume(selector: str) -> barchart.Panel:
    """How many predictions each bin holds."""
    panel = furnish(
        barchart.Panel(),
        "Labelled predictions by bin",
        "How the predictions are spread: labelled predictions in ten bins of equal width, each named by its lower "
        "edge, with how many of them were positive. Empty unless the settings say `exposition.level: all`.",
        Query(f"{summed('calibration_bin_labelled', selector, '(bin)')}", kind="table"),
        Query(f"{summed('calibration_bin_positives', selector, '(bin)')}", kind="table"),
        unit="short",
        size=(8, 8),
        fields={"labelled": [coloured(BLUE)], "positive": [coloured("orange")]},
    )
    panel.transformations(
        [
            *merged({"bin": "bin", "Value #A": "labelled", "Value #B": "positive"}, hidden=["Time"]),
            DataTransformerConfig(id_val="sortBy", options={"fields": {}, "sort": [{"field": "bin"}]}),
        ]
    )
    panel.x_field("bin").stacking(StackingMode.NONE).fill_opacity(60).line_width(1)
    return panel.legend(legend_below())


def _wilson(selector: str, sign: str) -> str:
    """One end of Wilson's interval of the share of positives in each bin: k of n, and z of 95%.

    (k + z^2/2 -+ z sqrt(k (n - k) / n + z^2/4)) / (n + z^2); Wilson 1927.
    """
    n = f"({summed('calibration_bin_labelled', selector, '(bin)')} > 0)"
    k = summed("calibration_bin_positives", selector, "(bin)")
    half = _Z**2 / 2
    return f"({k} + {half:.4f} {sign} {_Z} * sqrt({k} * ({n} - {k}) / {n} + {half / 2:.4f})) / ({n} + {_Z**2:.4f})"


def _drawn(show: XYShowMode, width: int, line: Mapping[str, object], colour: str) -> list[Property]:
    return [
        ("custom.show", show.value),
        ("custom.lineWidth", width),
        ("custom.lineStyle", line),
        ("custom.pointSize", {"fixed": 8, "min": 6, "max": 28}),
        coloured(colour),
        ("min", 0),
        ("max", 1),
        ("custom.axisLabel", "share of positives"),
    ]


def _series(field: str, *, sized: bool = False) -> xychart.XYSeriesConfig:
    series = (
        xychart.XYSeriesConfig()
        .name(xychart.XychartXYSeriesConfigName().fixed(field))
        .frame(xychart.XychartXYSeriesConfigFrame().matcher(xychart.MatcherConfig().id("byIndex").options(0)))
        .x(xychart.XychartXYSeriesConfigX().matcher(_named(_SAID)))
        .y(xychart.XychartXYSeriesConfigY().matcher(_named(field)))
    )
    if sized:
        series.size(xychart.XychartXYSeriesConfigSize().matcher(_named(_COUNT)))
    return series


def _named(field: str) -> xychart.MatcherConfig:
    return xychart.MatcherConfig().id("byName").options(field)
