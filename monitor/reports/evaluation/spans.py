"""Calibration over time: reports of consecutive spans of the data."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from scipy.special import chdtrc

from monitor.arrays import Floats, Ints
from monitor.errors import NotEnoughData
from monitor.measures import MEASURES
from monitor.measures.base import Measure
from monitor.progress import Progress, no_progress
from monitor.reports.evaluation.assess import WINDOW_DRAWS, Minimum
from monitor.reports.evaluation.evaluate import evaluate_binary
from monitor.reports.evaluation.report import Report
from monitor.reports.formatting import rounded_share

MAX_SPANS: Final = 12
"""More are hard to distinguish at a glance, and each costs as much as a window."""

SPAN_MEASURES: Final = {name: MEASURES[name] for name in ("tce", "kce", "smce")}

_FILLED: Final = 0.75
"""Share of the non-empty spans that must hold enough data, so that a holiday does not force longer spans."""

_SIGNIFICANT: Final = 0.05
_UNITS: Final = {"day": 86_400_000, "hour": 3_600_000, "minute": 60_000, "second": 1000, "millisecond": 1}


@dataclass(frozen=True, slots=True)
class Spans:
    """Reports of consecutive spans of equal length.

    Attributes
    ----------
    length_ms
        Length of each span, milliseconds, rounded.
    reports
        In order of time; the report of a span with too little data says so.
    """

    length_ms: int
    reports: tuple[Report, ...]

    @property
    def change_p_value(self) -> float | None:
        """p-value of one offset of the logits for all spans; None with fewer than two offsets.

        Cochran's Q: squared deviations of the offsets from their mean, in units of their standard errors, are
        chi-squared with one degree of freedom fewer than there are spans.
        """
        diagnoses = (report.diagnosis for report in self.reports if report.diagnosis is not None)
        offsets = [(d.offset, d.offset_error) for d in diagnoses if d.offset is not None and d.offset_error is not None]
        if len(offsets) < 2:
            return None
        offset, error = np.array(offsets).T
        weight = error**-2.0
        return float(chdtrc(len(offsets) - 1, weight @ (offset - np.average(offset, weights=weight)) ** 2))

    @property
    def sentence(self) -> str:
        """What changed, in words."""
        measured = [report for report in self.reports if report.insufficient is None]
        first, last = measured[0], measured[-1]
        rates = [rounded_share(report.prevalence) for report in (first, last)]
        means = [rounded_share(report.mean_prediction) for report in (first, last)]
        text = (
            f"{len(self.reports)} spans of {duration(self.length_ms)} each. From the first to the last, the share that "
            f"came true went from {' to '.join(rates)}, and the mean prediction from {' to '.join(means)}."
        )
        p_value = self.change_p_value
        if p_value is None:
            return text
        verdict = (
            "changed by more than chance: what was right in one span was not in another"
            if p_value <= _SIGNIFICANT
            else "did not change by more than chance"
        )
        return f"{text} How far the predictions are too high or too low {verdict} (p = {p_value:.2g})."


def spans_of(
    prediction: Floats,
    outcome: Floats,
    time_ms: Ints,
    *,
    weight: Floats | None = None,
    measures: Mapping[str, Measure] = SPAN_MEASURES,
    draws: int = WINDOW_DRAWS,
    seed: int | None = None,
    progress: Progress = no_progress,
) -> Spans:
    """Report on up to 12 spans of equal length, from the first to the last prediction with an outcome.

    There are fewer where data are sparse: at least three quarters of the non-empty spans hold what a window needs.

    Parameters
    ----------
    prediction, outcome, weight
        Of predictions with an outcome: see :func:`~monitor.reports.evaluation.evaluate.evaluate_binary`; shape (n,).
    time_ms
        Ints of the predictions, shape (n,), milliseconds since the epoch.
    measures, draws, seed, progress
        See :func:`~monitor.reports.evaluation.evaluate.evaluate_binary`.

    Raises
    ------
    NotEnoughData
        Not even two spans would hold enough data, or all events have one time.
    """
    number = _number(time_ms, outcome)
    place, edges = _places(time_ms, number), _edges(time_ms, number)
    # Sorted once, so that each span's rows lie side by side.
    order = np.argsort(place, kind="stable")
    ends = np.searchsorted(place[order], np.arange(number + 1))
    reports = []
    for span in range(number):
        rows = order[ends[span] : ends[span + 1]]
        report = evaluate_binary(
            prediction[rows],
            outcome[rows],
            weight=None if weight is None else weight[rows],
            measures=measures,
            minimum=Minimum(),
            draws=draws,
            seed=seed,
        )
        reports.append(replace(report, from_ms=int(edges[span]), to_ms=int(edges[span + 1])))
        progress((span + 1) / number)
    return Spans(round((edges[-1] - edges[0]) / number), tuple(reports))


def duration(milliseconds: int) -> str:
    """Format a length of time in its largest unit, with three digits: ``2.5 days``, ``1 hour``."""
    unit, size = next(((unit, size) for unit, size in _UNITS.items() if milliseconds >= size), ("millisecond", 1))
    text = f"{milliseconds / size:.3g}" if milliseconds < 1000 * size else f"{milliseconds / size:,.0f}"
    return f"{text} {unit}" if text == "1" else f"{text} {unit}s"


def _number(time_ms: Ints, outcome: Floats) -> int:
    """Find the largest number of spans that hold enough data."""
    minimum = Minimum()
    if time_ms.size and time_ms.min() < time_ms.max():
        for number in range(MAX_SPANS, 1, -1):
            place = _places(time_ms, number)
            events = np.bincount(place, minlength=number)
            positives = np.bincount(place, outcome, minlength=number)
            enough = (events >= minimum.events) & (positives >= minimum.positives)
            enough &= events - positives >= minimum.negatives
            if enough.sum() >= max(2.0, _FILLED * np.count_nonzero(events)):
                return number
    raise NotEnoughData(
        f"to be shown over time, outcomes of two spans at least are needed, with {minimum.events} predictions, "
        f"{minimum.positives} positives and {minimum.negatives} negatives each"
    )


def _places(time_ms: Ints, number: int) -> Ints:
    """Find the span of each event, shape (n,)."""
    return np.searchsorted(_edges(time_ms, number)[1:-1], time_ms, side="right")


def _edges(time_ms: Ints, number: int) -> Ints:
    """Compute edges of spans, shape (number + 1,): [edge, next edge); the last ends after the last event."""
    first, length = int(time_ms.min()), int(time_ms.max()) + 1 - int(time_ms.min())
    return np.array([first + span * length // number for span in range(number + 1)], np.int64)
