"""The series of the measures, which follow from the measures' declarations."""

from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from monitor.measures.base import Measure
from monitor.metrics.series import REPORT_LABELS, VERSION_LABELS, Labels, Level, Rows, Series, Value
from monitor.recalibration.comparison import LiveComparison
from monitor.reports.evaluation.report import Report

T = TypeVar("T")

MAP_LABELS: Final = (*VERSION_LABELS, "map")
"""``map`` is ``none``, ``champion`` or ``candidate``."""

STATISTICS: Final = {
    "value": "",
    "lower": "lower end of its 95% confidence interval",
    "upper": "upper end of its 95% confidence interval",
    "null_mean": "its mean if the model were perfectly calibrated on the same predictions",
    "null_q95": "its 95% point if the model were perfectly calibrated on the same predictions",
    "p_value": "share of perfectly calibrated resamples that are at least as far off",
    "error_bound": "how far it can lie from that of the raw predictions, which are kept in cells",
}
"""Field of a measure's result -> the meaning of its series."""

_ALERTED: Final = frozenset({(measure, end) for measure in ("kce", "smce") for end in ("lower", "null_q95")})
"""(measure, statistic) that the rules in helm/rules/windows read: an interval above the level under calibration."""

_ESTIMATED_BOUND: Final = (
    "estimate of how far it can lie from that of the raw predictions, which are kept in cells; the raw predictions may "
    "have other bins"
)


def measure_series(measures: Iterable[Measure]) -> tuple[Series[Report], ...]:
    """The series of the measures of windows: one for each measure and statistic.

    A measure in percent is exported as a ratio: ``tce`` becomes ``calibration_tce_ratio``. Nats and standard deviations
    have no unit in Prometheus.
    """

    def reader(measure: str, statistic: str, scale: float) -> Callable[[Report], float | None]:
        def read(report: Report) -> float | None:
            result = report.measures.get(measure)
            value = None if result is None else getattr(result, statistic)
            return None if value is None else value * scale

        return read

    return _series_of(
        measures,
        "calibration_",
        REPORT_LABELS,
        STATISTICS,
        note="Absent when the data is insufficient.",
        reader=reader,
    )


def map_series(measures: Iterable[Measure]) -> tuple[Series[LiveComparison], ...]:
    """The series of raw and recalibrated scores, such as ``calibration_map_tce_ratio``."""

    def reader(measure: str, statistic: str, scale: float) -> Callable[[LiveComparison], Rows]:
        def read(live: LiveComparison) -> Rows:
            maps = ((name, shown.measures.get(measure)) for name, shown in live.maps.by_name().items())
            values = ((name, getattr(result, statistic)) for name, result in maps if result is not None)
            return [((name,), value * scale) for name, value in values if value is not None]

        return read

    return _series_of(
        measures,
        "calibration_map_",
        MAP_LABELS,
        ("value", "lower", "upper", "null_q95"),
        note="Of what a map makes of sampled events that no refit saw. Absent when the data is insufficient.",
        reader=reader,
    )


def _series_of(
    measures: Iterable[Measure],
    prefix: str,
    labels: Labels,
    statistics: Iterable[str],
    *,
    note: str,
    reader: Callable[[str, str, float], Callable[[T], Value]],
) -> tuple[Series[T], ...]:
    result = []
    for measure in sorted(measures, key=lambda measure: (measure.rank, measure.name)):
        in_percent = measure.unit == "percent"
        stem = f"{prefix}{measure.name}" + ("_ratio" if in_percent else "")
        for statistic in statistics:
            estimated = statistic == "error_bound" and not measure.error_bound_is_certain
            meaning = (_ESTIMATED_BOUND if estimated else STATISTICS[statistic]) or measure.help
            # A p-value is a share of resamples whatever the measure's unit.
            scale = 0.01 if in_percent and statistic != "p_value" else 1.0
            result.append(
                Series(
                    stem if statistic == "value" else f"{stem}_{statistic}",
                    f"{measure.title}: {meaning}".rstrip(".") + f". {note}",
                    reader(measure.name, statistic, scale),
                    labels,
                    Level.VALUES if statistic == "value" or (measure.name, statistic) in _ALERTED else Level.INTERVALS,
                    is_ratio=statistic == "p_value" or measure.unit in {"percent", "ratio"},
                )
            )
    return tuple(result)


def _skce(statistic: str) -> Series[Report]:
    def read(report: Report) -> float | None:
        result = report.canonical.get("skce")
        return None if result is None else getattr(result, statistic)

    return Series(
        "calibration_skce" if statistic == "value" else f"calibration_skce_{statistic}",
        f"SKCE: {STATISTICS[statistic] or 'squared kernel calibration error'}, of whole probability vectors of a model "
        "of several classes. Absent when the data is insufficient, and where panes hold no sketches.",
        read,
        REPORT_LABELS,
        Level.VALUES if statistic == "value" else Level.INTERVALS,
        is_ratio=True,
    )


CANONICAL: Final = tuple(map(_skce, ("value", "lower", "upper", "null_mean", "null_q95", "p_value")))
"""The series of a report's canonical measures."""
