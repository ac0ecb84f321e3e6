"""What an alarm is about: what is wrong, since when, compared with before, and what to do."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from monitor.events.model import ALL, SeriesKey
from monitor.events.times import format_time
from monitor.reports.evaluation.diagnosis import diagnose, offset_interval, slope_interval
from monitor.reports.evaluation.report import Diagnosis, Verdict, reliability_bins
from monitor.scores import ScoreTable
from monitor.sequential.steps import Steps
from monitor.windows.panes import ClosedPanes

_DRAWS: Final = 199

PRIOR_SHIFT: Final = "prior_shift"
SHAPE: Final = "shape"
BOTH: Final = "both"
UNCLEAR: Final = "unclear"
"""Too little is kept of the time since the change to say."""
NOT_WORSE: Final = "not_worse"
"""Outcomes changed, and predictions are as good as before, or better."""

_LABELS: Final = {Verdict.PRIOR_SHIFT: PRIOR_SHIFT, Verdict.SHAPE: SHAPE, Verdict.BOTH: BOTH}


class Attribution:
    """Explains alarms with the panes of a model.

    Parameters
    ----------
    panes
        Of all partitions.
    widths_ms
        The widths that panes are kept in, ascending.
    serve
        Steps of a series -> as the map makes them that serves it.
    """

    def __init__(
        self,
        panes: ClosedPanes,
        widths_ms: Sequence[int],
        serve: Callable[[SeriesKey, Steps], Steps] = lambda _, steps: steps,
    ) -> None:
        self._panes = panes
        self._serve = serve
        self._widths_ms = sorted(widths_ms)

    def explain(
        self, series: SeriesKey, since_ms: int, to_ms: int, *, tolerance: float, robust: bool, changed: bool
    ) -> tuple[str, int, dict[str, Any]]:
        """Say what has been wrong with a series since a change: a sentence, how many labelled events say so, and JSON.

        Parameters
        ----------
        since_ms, to_ms
            The change point, and up to when predictions are settled.
        tolerance
            Error of the logits up to which nothing is called a fault.
        robust
            Whether evidence that no change of prevalence moves has raised an alarm: then it is not the prior alone.
        changed
            Whether the alarm is that outcomes changed, for better or worse.
        """
        after = self._span(series, since_ms, to_ms, tolerance)
        before = self._span(series, after.from_ms - max(to_ms - after.from_ms, 0), after.from_ms, tolerance)
        label = NOT_WORSE if changed and not after.is_worse_than(before) else _label(after.diagnosis, robust=robust)
        remedy = _remedy(label, after.diagnosis)
        since = f"since {format_time(since_ms)}"
        command = f"monitor recalibrate {series.model} --version {series.version} --since {format_time(since_ms)}"
        document = {
            "label": label,
            "segment": None if series.segment == ALL else series.segment,
            "since": format_time(since_ms),
            "after": after.to_json(),
            "before": before.to_json(),
            "remedy": {"text": remedy, "command": command},
        }
        whom = "" if series.segment == ALL else f" of {series.segment}"
        what = f"outcomes{whom} have changed {since}: {_WHAT[label]}" if changed else f"{_WHAT[label]}{whom} {since}"
        return f"{what}; {remedy}", after.labelled, document

    def _span(self, series: SeriesKey, from_ms: int, to_ms: int, tolerance: float) -> "_Span":
        """The settled predictions of a span, as far back as panes are kept."""
        kept = {width_ms: self._panes.kept_from_ms(series, width_ms) for width_ms in self._widths_ms}
        width_ms = next((width for width in self._widths_ms if kept[width] <= from_ms), None)
        if width_ms is None:
            width_ms = min(self._widths_ms, key=kept.__getitem__)
        begin_ms = -(-max(from_ms, kept[width_ms]) // width_ms) * width_ms
        steps = Steps.of([(to_ms, self._panes.sum(series, width_ms, begin_ms, to_ms))])
        table = self._serve(series, steps).tables()[0]
        if self._panes.policy(series.model).implied_negative:
            table = table.with_implied_negatives()
        scores = table.to_scores()
        found = diagnose(scores, draws=_DRAWS, tolerance=tolerance) if table.labelled else None
        return _Span(begin_ms, to_ms, table.predictions, scores, found)


class _Span(NamedTuple):
    """The settled predictions of [from, to)."""

    from_ms: int
    to_ms: int
    predictions: int
    scores: ScoreTable
    """Of the labelled ones."""
    diagnosis: Diagnosis | None
    """None without labelled predictions."""

    @property
    def labelled(self) -> int:
        """Number of labelled predictions."""
        return int(self.scores.counts.sum())

    def is_worse_than(self, other: "_Span") -> bool:
        """Whether calibration is wrong, and more so than in another span."""
        now, before = self.diagnosis, other.diagnosis
        if now is None or now.verdict not in _LABELS:
            return False
        return before is None or before.error is None or now.error is None or now.error > before.error

    def to_json(self) -> dict[str, Any]:
        """Numbers, verdict and reliability diagram."""
        numbers: dict[str, Any] = {
            "from": format_time(self.from_ms),
            "to": format_time(self.to_ms),
            "predictions": self.predictions,
            "labelled": self.labelled,
        }
        found = self.diagnosis
        if found is None:
            return numbers
        return numbers | {
            "prevalence": self.scores.prevalence,
            "mean_prediction": self.scores.mean_prediction,
            "verdict": found.verdict.value,
            "sentence": found.sentence,
            "offset": found.offset,
            "offset_interval": _interval(offset_interval(found)),
            "slope": found.slope,
            "slope_interval": _interval(slope_interval(found)),
            "bins": [one._asdict() for one in reliability_bins(self.scores)],
        }


_WHAT: Final[Mapping[str, str]] = {
    PRIOR_SHIFT: "the prior has shifted",
    SHAPE: "the shape of the predictions is wrong",
    BOTH: "prior and shape are wrong",
    UNCLEAR: "predictions are wrong",
    NOT_WORSE: "predictions are as good as before",
}


def _label(diagnosis: Diagnosis | None, *, robust: bool) -> str:
    label = UNCLEAR if diagnosis is None else _LABELS.get(diagnosis.verdict, UNCLEAR)
    if robust and label in {PRIOR_SHIFT, UNCLEAR}:
        # The evidence that an offset cannot explain it is stronger than one look at few data.
        return BOTH if label == PRIOR_SHIFT else SHAPE
    return label


def _remedy(label: str, diagnosis: Diagnosis | None) -> str:
    if label == NOT_WORSE:
        return "nothing has to be done"
    if label == PRIOR_SHIFT and diagnosis is not None and diagnosis.offset is not None:
        return f"add {diagnosis.offset:.2f} to the logit"
    return "refit on the events since then"


def _interval(interval: tuple[float, float] | None) -> list[float] | None:
    return None if interval is None or not all(map(math.isfinite, interval)) else list(interval)
