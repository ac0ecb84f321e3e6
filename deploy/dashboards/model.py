"""One model: whether it is off, in what way, since when, and whether anything has helped."""

from collections.abc import Iterator
from typing import Final

from grafana_foundation_sdk.builders import stat, timeseries
from grafana_foundation_sdk.models.dashboard import Dashboard, VariableSort

from deploy.dashboards.board import Noted, board, choice, namespaces
from deploy.dashboards.panels import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    RED,
    VERDICTS,
    AnyPanel,
    Property,
    Query,
    coloured,
    lines,
    number,
)
from deploy.dashboards.promql import BY_VERSION, alarms, largest, share, summed
from deploy.dashboards.reliability import reliability_diagram, reliability_volume
from monitor.measures import WINDOW_MEASURES
from monitor.measures.base import Measure
from monitor.windows.maturity import COHORTS

_MODEL: Final = 'namespace=~"$namespace",model="$model"'
_VERSION: Final = f'{_MODEL},version="$version"'
_SEGMENT: Final = f'{_VERSION},segment="$segment"'
_WINDOW: Final = f'{_SEGMENT},window="$window"'

_DASHED: Final[Property] = ("custom.lineStyle", {"fill": "dash", "dash": [8, 6]})
_INVISIBLE: Final[Property] = ("custom.lineWidth", 0)
_LOWER, _UPPER = "95% interval, lower end", "95% interval, upper end"
_CHANCE: Final = "95% of calibrated models are below"

_LINE: Final = "line of the budget"
_DETECTORS: Final = {"calibration": BLUE, "prevalence": ORANGE, "change": GREY, "serving_map": PURPLE}

_MAPS: Final = {"none": ("raw", GREY), "champion": ("champion", GREEN), "candidate": ("candidate", PURPLE)}


def model() -> Dashboard:
    """The dashboard of one model."""
    return board(
        "model",
        "Calibration: one model",
        "One version of a model in one window: what is measured, with intervals and what chance alone would do, "
        "whether it is the prior or the shape, and what refits have changed.",
        [
            namespaces(),
            choice("model", "Model", 'calibration_window_predictions{namespace=~"$namespace"}'),
            choice("version", "Version", f"calibration_window_predictions{{{_MODEL}}}", sort=VariableSort.NATURAL_DESC),
            choice("segment", "Segment", f"calibration_window_predictions{{{_VERSION}}}", first="all"),
            choice("window", "Window", f"calibration_window_predictions{{{_SEGMENT}}}"),
        ],
        [
            ("Now", _now()),
            ("Evidence, with the budget's line", _evidence()),
            ("Is it the prior or the shape?", _prior_or_shape()),
            ("Measures, with their intervals and what chance alone does", _measures()),
            ("Outcomes and volume", _outcomes()),
            ("Repairs: raw against recalibrated scores, on events that no refit saw", _repairs()),
        ],
        notes=_notes(),
        span="now-24h",
    )


def _now() -> Iterator[stat.Panel]:
    yield number(
        "Verdict",
        "What is found of the window beyond chance. Prior shift: an offset to all logits is all it takes. Shape: some "
        "predictions are too high where others are not. Too little data: nothing is said.",
        Query(f"max by (verdict) (calibration_verdict{{{_WINDOW}}}) == 1", "{{verdict}}", kind="instant"),
        names=True,
        trend=False,
        fields={verdict: [("displayName", text), coloured(colour)] for verdict, (text, colour) in VERDICTS.items()},
    )
    yield number(
        "Offset",
        "What has to be added to every logit so that the mean prediction is right: 0 is none, below 0 predictions are "
        "too high. 0.2 changes odds by a fifth.",
        Query(largest("calibration_offset_logit", _WINDOW)),
        decimals=2,
    )
    yield number(
        "Shape error",
        "Root mean square by which logits are off after the best offset. The tolerance of the model, 0.05 unless set, "
        "is no fault.",
        Query(largest("calibration_logit_error_after_offset", _WINDOW)),
        decimals=2,
        colours=((None, GREEN), (0.2, ORANGE), (0.4, RED)),
    )
    yield number(
        "Labelled",
        "Predictions of the window whose outcome is known: what all measures are of.",
        Query(summed("calibration_window_labelled", _WINDOW)),
        unit="short",
    )
    yield number(
        "Label coverage",
        "Share of the window's predictions whose outcome is known or implied. Far below what is usual here, those that "
        "are known may not stand for the rest.",
        Query(share("calibration_window_labelled", "calibration_window_predictions", _WINDOW)),
        unit="percentunit",
        colours=((None, RED), (0.5, ORANGE), (0.8, GREEN)),
    )
    yield number(
        "Newest event",
        "How long ago the newest event of the model was. Windows end one horizon before it, and stand still with it.",
        Query(f"time() - max(calibration_watermark_timestamp_seconds{{{_MODEL}}})"),
        unit="s",
    )


def _evidence() -> Iterator[timeseries.Panel]:
    yield lines(
        "Evidence",
        "How much there is against the version, by detector, and the line at which the budget of false alarms lets an "
        "alert fire. It may be looked at as often as one likes. calibration: predictions are wrong; prevalence: no "
        "offset explains it; change: outcomes are not what they were in the reference. While an alert "
        "fires, it is the most there was. Red marks in all panels are change points of alerts that fire.",
        Query(f"10 ^ {largest('calibration_evidence', _VERSION, '(detector)')}", "{{detector}}"),
        Query(f"10 ^ {largest('calibration_evidence_line', _VERSION)}", _LINE),
        unit="sci",
        size=(16, 8),
        least=None,
        logarithmic=True,
        fields={
            **{name: [coloured(colour)] for name, colour in _DETECTORS.items()},
            _LINE: [coloured(RED), _DASHED],
        },
    )
    yield lines(
        "Common shock of a horizon",
        "Standard deviation in logits by which all predictions of one horizon are off together, with its 95% interval. "
        "Where twice the lower end is more than the tolerance of the model, alarms may be false more often than the "
        "budget allows; a drift counts as a shock, too.",
        Query(largest("calibration_shock_logit", _VERSION), "common shock"),
        Query(largest("calibration_shock_logit_upper", _VERSION), _UPPER),
        Query(largest("calibration_shock_logit_lower", _VERSION), _LOWER),
        fields={"common shock": [coloured(BLUE), ("custom.lineWidth", 2)], **_band()},
    )


def _prior_or_shape() -> Iterator[AnyPanel]:
    yield reliability_diagram(_WINDOW)
    yield lines(
        "Prevalence against mean prediction",
        "Share of positive outcomes, and mean of the predictions, over the window. Two lines that part are predictions "
        "that are too low or too high as a whole, though the model may still rank well.",
        Query(share("calibration_window_positives", "calibration_window_labelled", _WINDOW), "prevalence"),
        Query(largest("calibration_mean_prediction_ratio", _WINDOW), "mean prediction"),
        unit="percentunit",
        size=(12, 8),
        least=None,
        fields={"prevalence": [coloured(ORANGE)], "mean prediction": [coloured(BLUE)]},
    )
    yield _with_interval(
        "Offset",
        "What has to be added to every logit so that the mean prediction is right, with its 95% interval. An interval "
        "that excludes 0 is a prior that has shifted; right is 0, the green line.",
        "calibration_offset_logit",
        right=0.0,
        size=(12, 8),
    )
    yield _with_interval(
        "Slope",
        "Slope of the true logits over the predicted ones, with its 95% interval. Right is 1, the green line; below 1 "
        "predictions are too sure of themselves, above 1 not sure enough.",
        "calibration_slope",
        right=1.0,
        size=(8, 8),
    )
    yield reliability_volume(_WINDOW)
    yield lines(
        "Evidence",
        "p-values, on a logarithmic scale: that the model is calibrated, and that a shifted prior is all there is. "
        "They are of one window, and no guard against many looks: alerts go by evidence.",
        Query(_at_least(largest("calibration_p_value", _WINDOW)), "calibrated"),
        Query(_at_least(largest("calibration_prior_shift_p_value", _WINDOW)), "a shifted prior is all"),
        least=None,
        most=1.0,
        logarithmic=True,
    )


def _at_least(p_value: str) -> str:
    """A p-value that a logarithmic axis can show: one that rounds to 0 is none there."""
    return f"clamp_min({p_value}, 1e-16)"


def _measures() -> Iterator[timeseries.Panel]:
    for measure in sorted(WINDOW_MEASURES.values(), key=lambda each: (each.rank, each.name)):
        yield _measured(measure)


def _measured(measure: Measure) -> timeseries.Panel:
    in_percent = measure.unit == "percent"
    series = f"calibration_{measure.name}" + ("_ratio" if in_percent else "")
    return lines(
        measure.title,
        f"{measure.help.rstrip('.')}. The band is its 95% interval. The dashed line is what 95% of perfectly "
        "calibrated models stay below with the same predictions: chance alone brings a value so far, and what counts "
        "is a band that lies above it. Band and dashed line need `exposition.level: "
        "intervals` in the settings, or `all`; the default has neither.",
        Query(largest(series, _WINDOW), measure.title),
        Query(largest(f"{series}_upper", _WINDOW), _UPPER),
        Query(largest(f"{series}_lower", _WINDOW), _LOWER),
        Query(largest(f"{series}_null_q95", _WINDOW), _CHANCE),
        unit="percentunit" if in_percent or measure.unit == "ratio" else "none",
        fields={
            measure.title: [coloured(BLUE), ("custom.lineWidth", 2)],
            **_band(),
            _CHANCE: [coloured(ORANGE), _DASHED],
        },
    )


def _with_interval(
    title: str, description: str, series: str, *, right: float, size: tuple[int, int]
) -> timeseries.Panel:
    return lines(
        title,
        description,
        Query(largest(series, _WINDOW), title.lower()),
        Query(largest(f"{series}_upper", _WINDOW), _UPPER),
        Query(largest(f"{series}_lower", _WINDOW), _LOWER),
        size=size,
        least=None,
        colours=((None, "transparent"), (right, GREEN)),
        fields={title.lower(): [coloured(BLUE), ("custom.lineWidth", 2)], **_band()},
    )


def _band() -> dict[str, list[Property]]:
    """A band between the ends of an interval."""
    return {
        _UPPER: [coloured(BLUE), _INVISIBLE, ("custom.fillBelowTo", _LOWER), ("custom.fillOpacity", 15)],
        _LOWER: [coloured(BLUE), _INVISIBLE],
    }


def _outcomes() -> Iterator[timeseries.Panel]:
    yield lines(
        "Label coverage by age",
        "Share of the predictions that have an outcome, by their age in quarters of the horizon. Ages stay apart as "
        "long as outcomes come as they always did. Where they stop, the youngest falls first, long before the window "
        "does. Of all segments; implied negatives are no outcomes here.",
        Query(
            share("calibration_cohort_labelled", "calibration_cohort_predictions", _VERSION, "(cohort)"),
            "{{cohort}}",
        ),
        unit="percentunit",
        most=1.0,
        fields={
            cohort: [coloured(colour)]
            for cohort, colour in zip(COHORTS, ("#c7d7f0", "#8fb0e3", "#5787d3", "#2a5fb8", GREEN), strict=True)
        },
    )
    yield lines(
        "Predictions of the window",
        "All of them, and those whose outcome is known. Intervals narrow with the square root of the latter.",
        Query(summed("calibration_window_predictions", _WINDOW), "predictions"),
        Query(summed("calibration_window_labelled", _WINDOW), "labelled"),
        Query(summed("calibration_window_positives", _WINDOW), "positive"),
        unit="short",
        fields={"predictions": [coloured(GREY)], "labelled": [coloured(BLUE)], "positive": [coloured(ORANGE)]},
    )
    yield lines(
        "Too little data",
        "1 where the window holds too little for any measure: then nothing is said of it, and nothing fires. The "
        "report of the window says what is missing.",
        Query(largest("calibration_insufficient_data", _WINDOW), "too little data"),
        most=1.0,
    )


def _repairs() -> Iterator[AnyPanel]:
    for measure in ("smce", "log_loss"):
        yield lines(
            f"{'smCE' if measure == 'smce' else 'Log loss'}, raw and recalibrated",
            "Of the scores as the model gives them, of what the serving map (champion) makes of them, and of what a "
            "map that waits (candidate) would. All on events that no refit of these maps saw, and lower is better.",
            Query(largest(f"calibration_map_{measure}", _VERSION, "(map)"), "{{map}}"),
            unit="percentunit" if measure == "smce" else "none",
            least=0.0 if measure == "smce" else None,
            fields={name: [("displayName", text), coloured(colour)] for name, (text, colour) in _MAPS.items()},
        )
    yield lines(
        "Evidence that a map is better",
        "Decimal logarithm of the e-value of one map against another, or against none. Above 1.3, the dashed line, "
        "chance has less than 1 in 20, at one look; below 0 the other is ahead.",
        Query(largest("calibration_map_log10_e_value", _VERSION, "(map, against)"), "{{map}} against {{against}}"),
        least=None,
        colours=((None, "transparent"), (1.3, GREEN)),
    )
    yield lines(
        "Events that maps are measured on",
        "Sampled labelled events that no refit of the maps shown saw. A new map starts with few of them, so its "
        "measures are uncertain at first.",
        Query(largest("calibration_map_events", _VERSION, "(map)"), "{{map}}"),
        unit="short",
        size=(12, 6),
        fields={name: [("displayName", text), coloured(colour)] for name, (text, colour) in _MAPS.items()},
    )
    yield lines(
        "Refits that ended",
        "Refits of the model since it is known, by how they ended. passed: there is a better map, whether it serves or "
        "not; rejected: it is not better on events it never saw; failed: there is none.",
        Query(largest("calibration_refits_total", _MODEL, "(result)"), "{{result}}"),
        size=(12, 6),
        fields={
            "passed": [coloured(GREEN)],
            "rejected": [coloured(GREY)],
            "failed": [coloured(RED)],
        },
    )


def _notes() -> list[Noted]:
    return [
        Noted(
            "Change points",
            f"1000 * max by (model, version, detector) (calibration_change_point_timestamp_seconds{{{_VERSION}}})"
            f" and on {BY_VERSION} {alarms(_VERSION)}",
            title="{{model}} {{version}} changed",
            text="by the evidence of the detector {{detector}}",
            colour=RED,
        ),
        Noted(
            "Refits",
            f"1000 * max by (model, result) (calibration_refit_timestamp_seconds{{{_MODEL}}})",
            title="Refit of {{model}}",
            text="ended: {{result}}",
            colour=PURPLE,
        ),
        Noted(
            "Maps that came to serve",
            f"1000 * max by (model, version) (calibration_champion_timestamp_seconds{{{_VERSION}}})",
            title="What serves {{model}} {{version}} changed",
            text="a map was promoted, or taken back",
            colour=GREEN,
        ),
    ]
