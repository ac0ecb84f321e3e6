"""The series of the measures, as their declarations imply them, and with them the list of all series."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from monitor.measures.base import Measure
from monitor.metrics.http_series import HTTP
from monitor.metrics.levels import Level
from monitor.metrics.pipeline_series import PIPELINE
from monitor.metrics.refit_series import MAP_LABELS, RECALIBRATION
from monitor.metrics.reliability_series import COVERAGE, RELIABILITY
from monitor.metrics.series import DIAGNOSIS, EVALUATION, PROCESS, REPORT_LABELS, WINDOWS, Series

STATISTICS: Final = {
    "value": "",
    "lower": "lower end of its 95% confidence interval",
    "upper": "upper end of its 95% confidence interval",
    "null_mean": "its mean if the model were perfectly calibrated on the same predictions",
    "null_q95": "its 95% point if the model were perfectly calibrated on the same predictions",
    "p_value": "share of perfectly calibrated resamples that are at least as far off",
    "error_bound": "how far it can lie from that of the raw predictions, which are kept in cells",
}
"""Field of a measure's result -> what its series says."""

_EVIDENCE: Final = frozenset({(measure, end) for measure in ("kce", "smce") for end in ("lower", "null_q95")})
"""(measure, statistic) that CalibrationDegraded weighs: an interval that lies above the level under calibration."""

_ESTIMATED_BOUND: Final = (
    "estimate of how far it can lie from that of the raw predictions, which are kept in cells; the raw predictions may "
    "have other bins"
)


@dataclass(frozen=True, slots=True)
class MeasureSeries:
    """One statistic of one measure: which field of which result, and its series."""

    measure: str
    statistic: str
    scale: float
    """What the field is multiplied by, so that the series is a ratio."""
    series: Series


def measure_series(measures: Iterable[Measure]) -> tuple[MeasureSeries, ...]:
    """The series of the measures of windows, as their declarations imply them: one a measure and statistic.

    A measure in percent is exported as a ratio: ``tce`` becomes ``calibration_tce_ratio``. Nats and standard deviations
    have no unit in Prometheus.
    """
    return _series_of(measures, "calibration_", REPORT_LABELS, STATISTICS, "Absent when the data is insufficient.")


def map_series(measures: Iterable[Measure]) -> tuple[MeasureSeries, ...]:
    """The same of raw and recalibrated scores, side by side: ``calibration_map_tce_ratio``."""
    statistics = {name: STATISTICS[name] for name in ("value", "lower", "upper", "null_q95")}
    return _series_of(
        measures,
        "calibration_map_",
        MAP_LABELS,
        statistics,
        "Of what a map makes of sampled events that no refit saw. Absent when the data is insufficient.",
    )


def _series_of(
    measures: Iterable[Measure], prefix: str, labels: tuple[str, ...], statistics: Mapping[str, str], note: str
) -> tuple[MeasureSeries, ...]:
    found = []
    for measure in sorted(measures, key=lambda measure: (measure.rank, measure.name)):
        in_percent = measure.unit == "percent"
        stem = f"{prefix}{measure.name}" + ("_ratio" if in_percent else "")
        for statistic, of_all in statistics.items():
            estimated = statistic == "error_bound" and not measure.error_bound_is_certain
            says = _ESTIMATED_BOUND if estimated else of_all
            series = Series(
                stem if statistic == "value" else f"{stem}_{statistic}",
                "gauge",
                labels,
                "ratio" if statistic == "p_value" or measure.unit in {"percent", "ratio"} else "",
                f"{measure.title}: {says or measure.help}".rstrip(".") + f". {note}",
                Level.VALUES if statistic == "value" or (measure.name, statistic) in _EVIDENCE else Level.INTERVALS,
            )
            # A p-value is a share of resamples whatever the measure's unit.
            scale = 0.01 if in_percent and statistic != "p_value" else 1.0
            found.append(MeasureSeries(measure.name, statistic, scale, series))
    return tuple(found)


_OF_VECTORS: Final = (
    "of whole probability vectors of a model of several classes. Absent when the data is insufficient, and where panes "
    "hold no sketches."
)

CANONICAL: Final = tuple(
    MeasureSeries(
        "skce",
        statistic,
        1.0,
        Series(
            "calibration_skce" if statistic == "value" else f"calibration_skce_{statistic}",
            "gauge",
            REPORT_LABELS,
            "ratio",
            f"SKCE: {STATISTICS[statistic] or 'squared kernel calibration error'}, {_OF_VECTORS}",
            Level.VALUES if statistic == "value" else Level.INTERVALS,
        ),
    )
    for statistic in ("value", "lower", "upper", "null_mean", "null_q95", "p_value")
)
"""The series of a report's canonical measures."""


def catalogue(measures: Iterable[Measure]) -> tuple[Series, ...]:
    """Every series that the service exports."""
    measures = tuple(measures)
    return (
        *(each.series for each in measure_series(measures)),
        *(each.series for each in CANONICAL),
        *DIAGNOSIS,
        *WINDOWS,
        *RELIABILITY,
        *COVERAGE,
        *EVALUATION,
        *(each.series for each in map_series(measures)),
        *RECALIBRATION,
        *PIPELINE,
        *HTTP,
        *PROCESS,
    )
