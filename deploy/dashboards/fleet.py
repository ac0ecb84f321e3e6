"""Which models need me: all of them, the worst first."""

from collections.abc import Iterator
from typing import Final

from grafana_foundation_sdk.builders import stat, table, timeseries
from grafana_foundation_sdk.models.dashboard import Dashboard, DataTransformerConfig

from deploy.dashboards.board import UIDS, board, choice, namespaces
from deploy.dashboards.panels import (
    BLUE,
    GREEN,
    ORANGE,
    RED,
    VERDICTS,
    YELLOW,
    Query,
    by_value,
    coloured,
    lines,
    merged,
    number,
    rows,
    words,
)
from deploy.dashboards.promql import BY_VERSION, BY_WINDOW, above_line, alarms, faults, largest, share, summed

_CHOSEN: Final = 'namespace=~"$namespace",model=~"$model"'
_WHOLE: Final = f'{_CHOSEN},segment="all",window=~"$window"'
_FIRING: Final = 'ALERTS{alertname=~"Calibration.+",alertstate="firing",namespace=~"$namespace"}'

_FAULT: Final = f"max by {BY_WINDOW} ({faults(_WHOLE)})"
_IN_WORST: Final = f"and on {BY_WINDOW} topk by {BY_VERSION} (1, {_FAULT})"
"""Picks the window of each version in which it is furthest off."""

_COVERAGE: Final = (
    f"min by {BY_VERSION} ({share('calibration_window_labelled', 'calibration_window_predictions', _WHOLE, BY_WINDOW)})"
)
_AGE: Final = f"time() - max by (model) (calibration_watermark_timestamp_seconds{{{_CHOSEN}}})"
_VERSIONS: Final = summed("calibration_window_predictions", _WHOLE, BY_VERSION)
_OF_VERDICT: Final = f"max by (model, version, window, verdict) (calibration_verdict{{{_WHOLE}}}) == 1"

EVIDENCE_COLOURS: Final = ((None, GREEN), (-1.0, YELLOW), (0.0, RED))
"""Decimal logarithm over the line: an alert is pending from a tenth of it on."""

STATES: Final = {"0": ("", "text"), "1": ("pending", YELLOW), "2": ("firing", RED), "3": ("acknowledged", ORANGE)}
"""Values of calibration_alert_state."""

FAULT_COLOURS: Final = ((None, GREEN), (0.1, YELLOW), (0.2, ORANGE), (0.4, RED))
"""0.2 changes odds by 22%, 0.4 by 49%."""

_MODEL_LINK: Final = (
    f"/d/{UIDS['model']}?${{datasource:queryparam}}&${{namespace:queryparam}}"
    "&var-model=${__data.fields.model:percentencode}&var-version=${__data.fields.version:percentencode}"
    "&var-window=${__data.fields.window:percentencode}&var-segment=all&${__url_time_range}"
)


def fleet() -> Dashboard:
    """The dashboard of all models."""
    return board(
        "fleet",
        "Calibration: all models",
        "Which models need me: each with its evidence, since when and by how much it is off, and how far its outcomes "
        "have come in.",
        [
            namespaces(),
            choice("model", "Model", 'calibration_window_predictions{namespace=~"$namespace"}', several=True),
            choice("window", "Window", f"calibration_window_predictions{{{_CHOSEN}}}", several=True),
        ],
        [
            ("Now", _now()),
            ("Which models need me", [_table(), _alerts()]),
            ("Over time", _over_time()),
        ],
        span="now-24h",
    )


def _now() -> Iterator[stat.Panel]:
    yield number(
        "Models",
        "Models of which predictions are held now, in whatever window.",
        Query(f"count(count by (model) (calibration_window_predictions{{{_CHOSEN}}}))"),
    )
    yield number(
        "Versions with an alarm",
        "Versions of models about which the service has an alert that fires: sequential evidence has reached the line "
        "that the budget of false alarms draws. The table below says which, since when, and by how much they are off.",
        Query(f"count({alarms(_CHOSEN)}) or vector(0)"),
        colours=((None, GREEN), (1, ORANGE)),
    )
    yield number(
        "Alerts firing",
        "Alerts of the calibration monitor that fire now in Prometheus, of models and of the service itself.",
        Query(f"count({_FIRING}) or vector(0)"),
        colours=((None, GREEN), (1, RED)),
    )
    yield number(
        "Least label coverage",
        "Share of predictions whose outcome is known, in the window where it is least. What is measured there may "
        "not stand for the rest: outcomes that come early are often of one kind.",
        Query(f"min({_COVERAGE})"),
        unit="percentunit",
        colours=((None, RED), (0.5, ORANGE), (0.8, GREEN)),
    )
    yield number(
        "Oldest data",
        "How long ago the newest event of the model was that has been silent the longest. Windows stand still "
        "while there are no events, and so do alerts.",
        Query(f"max({_AGE})"),
        unit="s",
        colours=((None, GREEN), (3600, YELLOW), (86400, RED)),
    )
    yield number(
        "Refits failed",
        "Refits that ended with an error within the time shown. Those that were rejected, for they were not better "
        "on data they never saw, are no failures.",
        Query(
            "sum(max by (model) (increase(calibration_refits_total"
            f'{{{_CHOSEN},result="failed"}}[$__range]))) or vector(0)',
            kind="instant",
        ),
        decimals=0,
        colours=((None, GREEN), (0.5, ORANGE)),
        trend=False,
    )


def _table() -> table.Panel:
    return rows(
        "Versions, the strongest evidence first",
        "One row a version. 'Evidence' is its decimal logarithm over the budget's line: an alert fires from 0 on, and "
        "within 1 below it is pending; 'since' is the change that it speaks for then. The rest is of all its events, "
        "in the window in which it is furthest off: 'off by' is the root mean square by which its logits are off, "
        "offset and shape together, and 0 where that may be chance; 0.2 changes odds by a fifth. A click on a model "
        "opens it.",
        Query(above_line(_CHOSEN), kind="table"),
        Query(f"{_OF_VERDICT} {_IN_WORST}", kind="table"),
        Query(_in_worst(largest("calibration_offset_logit", _WHOLE, BY_WINDOW)), kind="table"),
        Query(_in_worst(largest("calibration_logit_error_after_offset", _WHOLE, BY_WINDOW)), kind="table"),
        Query(_in_worst(summed("calibration_window_labelled", _WHOLE, BY_WINDOW)), kind="table"),
        Query(_COVERAGE, kind="table"),
        Query(f"0 * {_VERSIONS} + on (model) group_left () ({_AGE})", kind="table"),
        Query(f"topk by {BY_VERSION} (1, {_FAULT})", kind="table"),
        Query(f"1000 * min by {BY_VERSION} (calibration_change_point_timestamp_seconds{{{_CHOSEN}}})", kind="table"),
        Query(largest("calibration_alert_state", _CHOSEN, BY_VERSION), kind="table"),
        unit="short",
        size=(16, 11),
        transformations=merged(
            {
                "model": "model",
                "version": "version",
                "Value #J": "alert",
                "Value #A": "evidence",
                "Value #I": "since",
                "verdict": "verdict",
                "Value #H": "off by",
                "Value #C": "offset",
                "Value #D": "shape",
                "window": "window",
                "Value #E": "labelled",
                "Value #F": "coverage",
                "Value #G": "newest event",
            },
            hidden=["Time", "Value #B"],
        ),
        sort_by="evidence",
        fields={
            "model": [("links", [{"title": "Open ${__data.fields.model}", "url": _MODEL_LINK}])],
            "verdict": [("mappings", words(VERDICTS)), ("custom.cellOptions", {"type": "color-text"})],
            "alert": [("mappings", words(STATES)), ("custom.cellOptions", {"type": "color-text"})],
            "evidence": [("decimals", 1), *by_value(EVIDENCE_COLOURS)],
            "since": [("unit", "dateTimeAsIso")],
            "off by": [("decimals", 2), *by_value(FAULT_COLOURS)],
            "offset": [("decimals", 2)],
            "shape": [("decimals", 2)],
            "coverage": [
                ("unit", "percentunit"),
                ("decimals", 0),
                *by_value(((None, RED), (0.5, ORANGE), (0.8, GREEN))),
            ],
            "newest event": [("unit", "s"), ("decimals", 0)],
        },
    )


def _alerts() -> table.Panel:
    return rows(
        "Alerts",
        "What Alertmanager has been told of. The name of each alert is that of its runbook.",
        Query(f"max by (alertname, severity, model, version, segment, window) ({_FIRING})", kind="table"),
        size=(8, 11),
        transformations=[
            DataTransformerConfig(
                id_val="organize",
                options={
                    "excludeByName": {"Time": True, "Value": True},
                    "indexByName": {name: at for at, name in enumerate(("alertname", "severity", "model", "version"))},
                    "renameByName": {"alertname": "alert"},
                },
            )
        ],
        sort_by="alert",
        fields={
            "severity": [
                (
                    "mappings",
                    words({"critical": ("critical", RED), "warning": ("warning", ORANGE), "info": ("info", BLUE)}),
                ),
                ("custom.cellOptions", {"type": "color-text"}),
            ]
        },
    )


def _over_time() -> Iterator[timeseries.Panel]:
    yield lines(
        "Evidence above the line of the budget",
        "Decimal logarithm of each version's evidence over the line at which an alert fires: 0, dashed. Within 1 below "
        "it is pending. It is at least 0 while an alert fires.",
        Query(above_line(_CHOSEN), "{{model}} {{version}}"),
        size=(24, 8),
        least=None,
        colours=((None, "transparent"), (0.0, RED)),
    )
    yield lines(
        "Off by, in the worst window",
        "Root mean square by which a version's logits are off, offset and shape together, in its worst window; 0 "
        "where that may be chance. Dashed: 0.2 and 0.4, which change odds by a fifth and a half.",
        Query(f"max by {BY_VERSION} ({faults(_WHOLE)})", "{{model}} {{version}}"),
        size=(12, 8),
        colours=((None, GREEN), (0.2, ORANGE), (0.4, RED)),
    )
    yield lines(
        "Windows by verdict",
        "Windows of whole models by what is found of them. Where orange or red grows, the fleet drifts.",
        Query(
            f"count by (verdict) ({_OF_VERDICT})",
            "{{verdict}}",
        ),
        size=(12, 8),
        stacked=True,
        fields={verdict: [coloured(colour), ("displayName", text)] for verdict, (text, colour) in VERDICTS.items()},
    )
    yield lines(
        "Label coverage",
        "Share of the predictions whose outcome is known, of the window where it is least. It falls when outcomes "
        "come late, or no more.",
        Query(f"min by (model) ({_COVERAGE})", "{{model}}"),
        unit="percentunit",
        size=(12, 8),
        most=1.0,
    )
    yield lines(
        "Age of the newest event",
        "How long ago the newest event of each model was. A line that climbs is a model whose events have stopped.",
        Query(_AGE, "{{model}}"),
        unit="s",
        size=(12, 8),
    )


def _in_worst(expr: str) -> str:
    """Of each version, what an expression says of the window in which it is furthest off."""
    return f"max by {BY_VERSION} ({expr} {_IN_WORST})"
