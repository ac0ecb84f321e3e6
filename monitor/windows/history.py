"""The history of reports: what is saved of each evaluation, and read again as figures over time."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from math import isnan
from typing import Any, Final, NamedTuple

import numpy as np

from monitor.arrays import Floats, Ints
from monitor.classes import CLASS_MEASURES
from monitor.events.model import SeriesKey
from monitor.measures import MEASURES
from monitor.measures.base import MeanLoss, Unit
from monitor.reports.evaluation.report import (
    REACH,
    Diagnosis,
    MeasureResult,
    Report,
    ReportKey,
    ScoreResult,
    Severity,
    Verdict,
)
from monitor.reports.evaluation.segments import false_discovery_control
from monitor.store import history
from monitor.store.database import Database
from monitor.store.history import FIELDS, Points
from monitor.store.series import MINUTE_MS

CANONICAL: Final = ("skce",)
"""Measures of whole probability vectors that windows may have."""

_FIT: Final = ("offset", "slope")
"""Beside the measures of a point: the numbers of its diagnosis that tell the prior from the shape, with intervals."""
"""Standard errors from an offset to the ends of its interval."""

STEPS_MS: Final = tuple(MINUTE_MS * minutes for minutes in (1, 5, 15, 60, 180, 360, 720, 1440, 10080))
"""Steps that are chosen where a request names none; each divides the next."""


class History:
    """Reads the history of a store. Any thread.

    Parameters
    ----------
    database
        The database of the store.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def series(self, model: str) -> Sequence[SeriesKey]:
        """The series of a model that have a history, the one with the newest points last."""
        with self._database.reading() as connection:
            return history.series_of(connection, model)

    def read(
        self,
        key: ReportKey,
        *,
        from_ms: int | None = None,
        to_ms: int | None = None,
        step_ms: int | None = None,
        max_points: int,
    ) -> tuple[Points, int]:
        """The points of a series and window that end in [from, to], and the step between them.

        Parameters
        ----------
        step_ms
            Of each step (k * step, (k + 1) * step] the last point is returned; if left out, the shortest of STEPS_MS
            with which there are at most ``max_points``.

        Raises
        ------
        StoreUnavailable
            The database does not answer.
        """
        with self._database.reading() as connection:
            points = history.read(connection, key.series, from_ms, to_ms)
        points = points.take(points.window == key.window)
        if step_ms is None:
            step_ms = fitting_step(points, max_points)
        return points.thinned(step_ms), step_ms

    def segments(
        self,
        version: SeriesKey,
        window: str,
        measure: str,
        *,
        from_ms: int | None = None,
        to_ms: int | None = None,
        step_ms: int | None = None,
        max_values: int,
    ) -> "SegmentHistory":
        """One measure of all segments of a version in a window, on common steps. Parameters are those of :meth:`read`.

        Parameters
        ----------
        version
            Any series of the version.
        max_values
            Where no step is named, the shortest of STEPS_MS with which segments times steps are at most this.

        Raises
        ------
        StoreUnavailable
            The database does not answer.
        """
        with self._database.reading() as connection:
            points = history.read_segments(connection, version, window, measure, (from_ms, to_ms))
        points = {segment: of_segment for segment, of_segment in points.items() if of_segment.to_ms.size}
        if step_ms is None:
            ends = np.concatenate([NO_ENDS, *(of_segment.to_ms for of_segment in points.values())])
            step_ms = next(
                (step for step in STEPS_MS if len(points) * np.unique((ends - 1) // step).size <= max_values),
                STEPS_MS[-1],
            )
        return SegmentHistory.of(points, measure, step_ms)


NO_ENDS: Final = np.zeros(0, np.int64)


class SegmentHistory(NamedTuple):
    """One measure of segments over time; arrays have shape (segments, steps), nan where a segment has no window."""

    step_ms: int
    start_ms: Ints
    """Starts of the steps, shape (steps,), without those in which no window ends."""
    segments: Sequence[str]
    n: Floats
    gap: Floats
    """Mean prediction less prevalence: above 0 where predictions are too high."""
    value: Floats
    null_q95: Floats
    q_value: Floats
    """Smallest false-discovery rate at which the segment is called miscalibrated, among those of its step."""

    @classmethod
    def of(cls, points: Mapping[str, Points], measure: str, step_ms: int) -> "SegmentHistory":
        """The last window of each segment in each step."""
        thinned = {segment: of_segment.thinned(step_ms) for segment, of_segment in points.items()}
        starts = {segment: (of.to_ms - 1) // step_ms * step_ms for segment, of in thinned.items()}
        start_ms = np.unique(np.concatenate([NO_ENDS, *starts.values()]))
        columns = np.full((5, len(thinned), start_ms.size), np.nan)
        for row, (segment, of) in enumerate(thinned.items()):
            value, *_, null_q95, p_value = of.measures.get(measure, np.full((of.n.size, len(FIELDS)), np.nan)).T
            with np.errstate(invalid="ignore"):
                gap = of.mean_prediction - of.positives / np.where(of.n, of.n, np.nan)
            columns[:, row, np.searchsorted(start_ms, starts[segment])] = of.n, gap, value, null_q95, p_value
        n, gap, value, null_q95, p_value = columns
        return cls(step_ms, start_ms, list(thinned), n, gap, value, null_q95, _corrected(p_value))


def _corrected(p_value: Floats) -> Floats:
    """Correct p-values for the number of segments in each step (Benjamini and Hochberg); (segments, steps) each."""
    q_value = np.full(p_value.shape, np.nan)
    for step, tested in enumerate(~np.isnan(p_value.T)):
        if tested.any():
            q_value[tested, step] = false_discovery_control(p_value[tested, step])
    return q_value


def fitting_step(points: Points, max_points: int) -> int:
    """The shortest of STEPS_MS with which there are at most so many points; the longest if there is none."""
    return next((step for step in STEPS_MS if points.thinned(step).to_ms.size <= max_points), STEPS_MS[-1])


def points_of(reports: Iterable[Report]) -> dict[SeriesKey, Points]:
    """Series -> the points of reports on it. Reports on windows that hold nothing have none.

    Intervals, levels and verdicts that are of earlier predictions are left out: they will be saved once they are
    renewed, under the end of the window of which they are.
    """
    by_series: dict[SeriesKey, list[Report]] = {}
    for report in reports:
        if report.predictions:
            by_series.setdefault(report.key.series, []).append(report)
    return {series: _points(found) for series, found in by_series.items()}


def _points(reports: Iterable[Report]) -> Points:
    rows, measures = [], []
    for report in reports:
        outdated = report.intervals_outdated_since_ms is not None
        diagnosis = None if outdated else report.diagnosis
        mean = np.nan if report.mean_prediction is None else report.mean_prediction
        verdict = "" if diagnosis is None else diagnosis.verdict.value
        severity = "" if diagnosis is None or diagnosis.severity is None else diagnosis.severity.value
        counts = (report.n, report.positives, report.predictions)
        rows.append((report.window, report.to_ms, report.from_ms, *counts, mean, verdict, severity))
        of_report = {
            name: [result.value, *_uncertainty(None if outdated else result)]
            for name, result in {**report.measures, **report.canonical}.items()
        }
        measures.append(of_report | _fit(diagnosis))
    return Points.of_rows(rows, measures)


def _fit(diagnosis: Diagnosis | None) -> dict[str, list[float]]:
    """The offset and the slope as measures are kept: value, and ends of the interval."""
    fit = {}
    if diagnosis is not None and diagnosis.offset is not None and diagnosis.offset_interval is not None:
        fit["offset"] = [diagnosis.offset, *diagnosis.offset_interval]
    if diagnosis is not None and diagnosis.slope is not None:
        ends = (diagnosis.slope_lower, diagnosis.slope_upper)
        fit["slope"] = [diagnosis.slope, *(np.nan if end is None else end for end in ends)]
    return {name: [*fields, *[np.nan] * (len(FIELDS) - len(fields))] for name, fields in fit.items()}


def _uncertainty(result: MeasureResult | None) -> list[float]:
    values = [None if result is None else getattr(result, field) for field in FIELDS[1:]]
    return [np.nan if value is None else value for value in values]


def reports_of(key: ReportKey, points: Points, measures: Collection[str] | None = None) -> list[Report]:
    """Reports with what is kept of them, of the points of a series and window; with all measures if left out.

    Numbers have seven digits. The diagnosis has a verdict, a severity, and the offset and the slope with their
    intervals; it is None, as intervals and levels are, where these were not computed for the window.
    """
    of_measures = {
        name: _seven_digits(fields).tolist()
        for name, fields in points.measures.items()
        if name not in _FIT and (measures is None or name in measures)
    }
    fits = [_seven_digits(points.measures.get(name, np.full((points.n.size, 3), np.nan))) for name in _FIT]
    counts = (points.from_ms, points.to_ms, points.n, points.positives, points.predictions)
    means = _seven_digits(points.mean_prediction)
    verdicts = zip(points.verdict.tolist(), points.severity.tolist(), strict=True)
    return [
        Report(
            *key.series,
            key.window,
            from_ms,
            to_ms,
            n,
            positives,
            predictions,
            prevalence=positives / n if n else None,
            mean_prediction=_known(mean),
            measures={
                name: _result(name, fields[at]) for name, fields in of_measures.items() if not isnan(fields[at][0])
            },
            diagnosis=_diagnosis(verdict, severity, *(fit[at].tolist() for fit in fits)) if verdict else None,
        )
        for at, ((from_ms, to_ms, n, positives, predictions), mean, (verdict, severity)) in enumerate(
            zip(np.stack(counts, axis=1).tolist(), means.tolist(), verdicts, strict=True)
        )
    ]


def _diagnosis(verdict: str, severity: str, offset: Sequence[float], slope: Sequence[float]) -> Diagnosis:
    of_offset, _, upper, *_ = offset
    return Diagnosis(
        Verdict(verdict),
        "",
        severity=Severity(severity) if severity else None,
        offset=_known(of_offset),
        offset_error=_known(round((upper - of_offset) / REACH, 7)),
        **{f"slope{end}": _known(value) for end, value in zip(("", "_lower", "_upper"), slope, strict=False)},
    )


def _result(name: str, fields: Sequence[float]) -> MeasureResult:
    value, *uncertainty = fields
    kind = ScoreResult if isinstance(MEASURES.get(name), MeanLoss) else MeasureResult
    return kind(value, unit_of(name), *map(_known, uncertainty))


def unit_of(measure: str) -> Unit:
    """The unit of a measure of windows."""
    return MEASURES[measure].unit if measure in MEASURES else CLASS_MEASURES[measure].unit


def _known(value: float) -> float | None:
    return None if isnan(value) else value


def _seven_digits(values: Any) -> Any:
    """Single-precision numbers as doubles of seven digits, which are all that they hold: 0.1, not 0.100000001."""
    doubles = np.asarray(values, np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        digits = 6 - np.floor(np.log10(np.abs(doubles)))
        scale = np.where(np.isfinite(digits), 10.0 ** np.clip(digits, -300, 300), 1.0)
        return np.round(doubles * scale) / scale
