"""What an alarm is about: what is wrong, since when, for whom, compared with before, and what to do."""

import math
import shlex
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from monitor.alarms.missing_labels import Labelled, Labels
from monitor.events.model import ALL, SeriesKey
from monitor.events.times import format_time
from monitor.inference.cox import fit_cox
from monitor.reports.evaluation.diagnosis import diagnose
from monitor.reports.evaluation.places import Place, places
from monitor.reports.evaluation.report import Diagnosis, Verdict, reliability_bins
from monitor.reports.formatting import minute_text, pair, plain, rounded
from monitor.scores import GridTable, ScoreTable
from monitor.scores.steps import Steps
from monitor.sequential.calibration import CalibrationBets
from monitor.sequential.change_point import find_change
from monitor.sequential.detector import Detector
from monitor.windows.panes import ClosedPanes

_DRAWS: Final = 199
_WIDER: Final = 1.15
"""The span was chosen by the outcomes that it holds. At the alarm, of 200 streams each, usual intervals of 95% held an
offset of 0.5 in 92.5% and one of 0.25 in 91%."""
_MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 60 * _MINUTE_MS

PRIOR_SHIFT: Final = "prior_shift"
SHAPE: Final = "shape"
BOTH: Final = "both"
MISSING_LABELS: Final = "missing_labels"
"""An offset explains it, and labels may be missing because of what they are, which shifts odds as well."""
UNCLEAR: Final = "unclear"
"""Predictions are wrong, and the outcomes since the change do not say how."""
NOT_WORSE: Final = "not_worse"
"""Outcomes changed, and predictions are as good as before, or better."""

_LABELS: Final = {Verdict.PRIOR_SHIFT: PRIOR_SHIFT, Verdict.SHAPE: SHAPE, Verdict.BOTH: BOTH}


class ChangeSet(NamedTuple):
    """When a change came: [from, to] holds it in 95% of alarms, by simulation."""

    at_ms: int
    """The most likely."""
    from_ms: int
    to_ms: int
    is_open: bool = False
    """Whether it may have come before ``from``: panes are kept since then only."""

    @classmethod
    def at(cls, at_ms: int) -> "ChangeSet":
        """A change of which only the most likely time is known."""
        return cls(at_ms, at_ms, at_ms)

    def to_json(self) -> dict[str, Any]:
        """Its times."""
        times = {"at": self.at_ms, "from": self.from_ms, "to": self.to_ms}
        return {**{name: format_time(at_ms) for name, at_ms in times.items()}, "open": self.is_open}


class Attribution:
    """Explains alarms with the panes of a model.

    Parameters
    ----------
    panes
        Of all partitions.
    serve
        Steps of a series -> as the map makes them that serves it.
    """

    def __init__(
        self,
        panes: ClosedPanes,
        serve: Callable[[SeriesKey, Steps], Steps],
    ) -> None:
        self._panes = panes
        self._serve = serve

    def change_set(self, series: SeriesKey, detector: Detector, since_ms: int, until_ms: int) -> ChangeSet:
        """Estimate when a change came, from the bets on the panes that are kept.

        Parameters
        ----------
        detector
            As it is now: its bets refer to the first predictions of the series, which panes are kept of no longer.
        since_ms
            The most likely time, by the evidence.
        until_ms
            When the alarm was raised, or up to when predictions are settled.
        """
        # As far before the change as the alarm came after it, or as far as there are panes.
        width_ms = self._panes.width_kept_since(series, since_ms - (until_ms - since_ms))
        steps = self._serve(series, self._panes.settled_steps(series, width_ms, 0, until_ms))
        if steps.end_ms.size == 0:
            return ChangeSet(since_ms, since_ms, since_ms, is_open=True)
        # The steps before now are bet on with all that it has learnt until now.
        bets = detector.bet(steps, held=True) if isinstance(detector, CalibrationBets) else detector.bet(steps)
        if bets.end_ms.size == 0:
            return ChangeSet.at(since_ms)
        start_ms = int(steps.end_ms[0]) - width_ms
        begins_ms = find_change(bets, start_ms).begins_ms
        # The change may have come anywhere in the last of these panes.
        first_ms, last_ms = min(int(begins_ms[0]), since_ms), max(int(begins_ms[-1]) + width_ms, since_ms)
        is_open = first_ms <= start_ms <= self._panes.kept_from_ms(series, width_ms)
        return ChangeSet(since_ms, first_ms, last_ms, is_open)

    def explain(
        self,
        series: SeriesKey,
        change: ChangeSet,
        to_ms: int,
        *,
        tolerance: float,
        robust: bool,
        changed: bool,
        segments: Mapping[str, float],
        last: Mapping[str, Any],
    ) -> tuple[str, int, dict[str, Any]]:
        """Say what has been wrong with a series since a change: a sentence, how many labelled events say so, and JSON.

        Parameters
        ----------
        change
            When it came.
        to_ms
            Up to when predictions are settled.
        tolerance
            Error of the logits up to which nothing is called a fault.
        robust
            Whether evidence that no change of prevalence moves has raised an alarm: then it is not the prior alone.
        changed
            Whether the alarm is that outcomes changed, for better or worse.
        segments
            Segments and classes to blame, with the logarithm of their evidence.
        last
            JSON of the last time, of this change; empty the first time. What it says of the time before the change
            stays: panes of that time are not kept for ever, and a verdict that compares with it would turn.
        """
        after = self._span(series, change.at_ms, to_ms, tolerance)
        span = self._span(series, after.from_ms - max(to_ms - after.from_ms, 0), after.from_ms, tolerance)
        before = with_more_labels(span.to_json(), last.get("before", {}))
        labels = Labels.of(after.table, Labelled(before["predictions"], before["labelled"]))
        label = _label(after.diagnosis, robust=robust)
        if changed and after.is_no_worse_than(before.get("error")):
            label = NOT_WORSE
        elif label == PRIOR_SHIFT and labels.doubt:
            label = MISSING_LABELS
        remedy = _remedy(label, after.diagnosis, labels.doubt, there="" if series.segment == ALL else " there")
        document = {
            "label": label,
            "segment": None if series.segment == ALL else series.segment,
            "change_point": change.to_json(),
            "since": {
                "predictions": after.table.predictions,
                "labelled": after.labelled,
                "hours": round((to_ms - change.at_ms) / _HOUR_MS, 2),
            },
            "region": _region(after.scores, label),
            "segments": [
                self._segment(SeriesKey(series.model, series.version, name), evidence, change.at_ms, to_ms)
                for name, evidence in segments.items()
            ],
            "after": after.to_json(),
            "before": before,
            "labels": labels.to_json(),
            "remedy": {"text": remedy, "command": _command(label, series, change.at_ms)},
        }
        return f"{_sentence(series, label, change, after, changed=changed)} {remedy}", after.labelled, document

    def _segment(self, series: SeriesKey, log10_evidence: float, from_ms: int, to_ms: int) -> dict[str, Any]:
        """How far off a segment is, and how certain that is."""
        part = self._table(series, from_ms, to_ms)
        numbers: dict[str, Any] = {
            "segment": series.segment,
            "log10_evidence": log10_evidence,
            "labelled": int(part.scores.counts.sum()),
        }
        if not numbers["labelled"]:
            return numbers
        fit = fit_cox(part.scores)
        reach = 1.96 * fit.offset_error
        slopes = None if fit.slope_lower is None or fit.slope_upper is None else (fit.slope_lower, fit.slope_upper)
        return numbers | {
            "prevalence": part.scores.prevalence,
            "mean_prediction": part.scores.mean_prediction,
            "offset": fit.offset,
            "offset_interval": _interval(fit.offset, (fit.offset - reach, fit.offset + reach)),
            "slope": None if fit.slope is None or not math.isfinite(fit.slope) else fit.slope,
            "slope_interval": _interval(fit.slope, slopes),
        }

    def _span(self, series: SeriesKey, from_ms: int, to_ms: int, tolerance: float) -> "_Span":
        """The settled predictions of a span with their diagnosis."""
        part = self._table(series, from_ms, to_ms)
        if part.scores.rows == 0:
            return part
        return part._replace(diagnosis=diagnose(part.scores, draws=_DRAWS, tolerance=tolerance))

    def _table(self, series: SeriesKey, from_ms: int, to_ms: int) -> "_Span":
        """The settled predictions of a span, as far back as panes are kept."""
        begin_ms, settled = self._panes.settled_span(series, from_ms, to_ms)
        (table,) = self._serve(series, Steps.of([(to_ms, settled)])).tables()
        return _Span(begin_ms, to_ms, table, table.to_scores(), None)


class _Span(NamedTuple):
    """The settled predictions of [from, to)."""

    from_ms: int
    to_ms: int
    table: GridTable
    scores: ScoreTable
    """Scores of the labelled events."""
    diagnosis: Diagnosis | None
    """None without labelled predictions."""

    @property
    def labelled(self) -> int:
        """Number of labelled predictions."""
        return self.table.labelled

    def is_no_worse_than(self, error: float | None) -> bool:
        """Whether calibration is right, or its error at most that of another span, of which None is known."""
        now = self.diagnosis
        if now is None or now.verdict is Verdict.INSUFFICIENT:
            return False
        if now.verdict is Verdict.CALIBRATED:
            return True
        return error is not None and now.error is not None and now.error <= error

    def to_json(self) -> dict[str, Any]:
        """Numbers, verdict and reliability diagram."""
        numbers: dict[str, Any] = {
            "from": format_time(self.from_ms),
            "to": format_time(self.to_ms),
            "predictions": self.table.predictions,
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
            "error": found.error,
            "offset": found.offset,
            "offset_interval": _interval(found.offset, found.offset_interval),
            "slope": found.slope,
            "slope_interval": _interval(found.slope, found.slope_interval),
            "bins": [one._asdict() for one in reliability_bins(self.scores)],
        }


def with_more_labels(now: Mapping[str, Any], last: Mapping[str, Any]) -> Mapping[str, Any]:
    """The numbers of the time before a change: as they are now, or as they were while more of its panes were kept."""
    return last if last.get("labelled", 0) > now.get("labelled", 0) else now


def _label(diagnosis: Diagnosis | None, *, robust: bool) -> str:
    label = UNCLEAR if diagnosis is None else _LABELS.get(diagnosis.verdict, UNCLEAR)
    if robust and label in {PRIOR_SHIFT, UNCLEAR}:
        # The evidence that an offset cannot explain it is stronger than one look at few data.
        return BOTH if label == PRIOR_SHIFT else SHAPE
    return label


def _sentence(series: SeriesKey, label: str, change: ChangeSet, after: _Span, *, changed: bool) -> str:
    """What is wrong, and since when."""
    name = f"{plain(series.model)} {plain(series.version)}"
    name += "" if series.segment == ALL else f" for {plain(series.segment)}"
    since = f"since {minute_text(change.at_ms)}{' or earlier' if change.is_open else ''}"
    if label == NOT_WORSE:
        return f"Outcomes of {name} have changed {since}; its predictions fit them as well as before, or better."
    found = after.diagnosis
    if label == UNCLEAR or found is None or found.verdict not in _LABELS:
        few = f"the {after.labelled:,} outcomes that are kept since then do not say how"
        return f"Predictions of {name} do not fit their outcomes {since}; {few}."
    parts, numbers = [], []
    if label in {PRIOR_SHIFT, MISSING_LABELS, BOTH}:
        parts.append(f"too {'low' if (found.offset or 0.0) > 0.0 else 'high'}")
        numbers.append("{} predicted, {} came true".format(*pair(*_means(after.scores))))
    if label in {SHAPE, BOTH}:
        parts.append(_shape(found))
        numbers += [] if (slope := _slope_text(found)) is None else [slope]
        worst = _worst(after.scores)
        numbers += [] if worst is None else [f"{str(worst)[:1].lower()}{str(worst)[1:]}"]
    start = "Outcomes have changed from the reference: predictions" if changed else "Predictions"
    return f"{start} of {name} are {' and '.join(parts)} {since}: {'; '.join(numbers)}."


def _shape(found: Diagnosis) -> str:
    """What is wrong with the shape, as a predicate of the word "predictions"."""
    ends = _interval(found.slope, found.slope_interval)
    if ends is None or ends[0] <= 1.0 <= ends[1]:
        return "wrong in parts of their range"
    if ends[1] < 0.0:
        return "the wrong way round"
    return "too sure of themselves" if ends[1] < 1.0 else "not sure enough of themselves"


def _slope_text(found: Diagnosis) -> str | None:
    ends = _interval(found.slope, found.slope_interval)
    if found.slope is None or ends is None:
        return None
    return f"slope {found.slope:.2f} ({ends[0]:.2f} to {ends[1]:.2f}), where 1 is right"


def _means(scores: ScoreTable) -> tuple[float, float]:
    """Mean prediction and prevalence of a table with events."""
    return scores.mean_prediction or 0.0, scores.prevalence or 0.0


def _worst(scores: ScoreTable) -> Place | None:
    """The range of predictions that misses most."""
    return max(places(scores), key=lambda place: place.share, default=None)


def _region(scores: ScoreTable, label: str) -> dict[str, Any] | None:
    """The range of predictions that a fault of shape is most about."""
    worst = _worst(scores) if label in {SHAPE, BOTH} and scores.rows else None
    if worst is None:
        return None
    return {"from": worst.first, "to": worst.last, "predicted": worst.predicted, "came_true": worst.happened}


def _remedy(label: str, diagnosis: Diagnosis | None, doubt: str | None, *, there: str) -> str:
    if label == NOT_WORSE:
        return "Nothing has to be done."
    if label == MISSING_LABELS:
        advice = "Look at how they come before anything is added to the logit."
        return f"Labels may be missing because of what they are: {doubt}. {advice}"
    if label == PRIOR_SHIFT and diagnosis is not None and diagnosis.offset is not None:
        ends = _interval(diagnosis.offset, diagnosis.offset_interval)
        sure = "" if ends is None else f" ({ends[0]:.2f} to {ends[1]:.2f})"
        odds = rounded(math.exp(diagnosis.offset))
        return (
            f"It has become {odds} times as likely (in odds){there} as the model says. "
            f"Adding {diagnosis.offset:.2f}{sure} to every logit{there} repairs it."
        )
    if doubt is not None:
        return f"Refit on the events since then, unless labels are missing because of what they are: {doubt}."
    return "Refit on the events since then."


def _command(label: str, series: SeriesKey, since_ms: int) -> str | None:
    """The command that does what the remedy says."""
    if label in {NOT_WORSE, MISSING_LABELS}:
        return None
    # An offset of all predictions would be wrong for the other segments.
    method = " --method offset" if label == PRIOR_SHIFT and series.segment == ALL else ""
    model, version = shlex.quote(series.model), shlex.quote(series.version)
    return f"monitor recalibrate {model} --version {version}{method} --since {format_time(since_ms)[:19]}Z --wait"


def _interval(value: float | None, ends: tuple[float, float] | None) -> list[float] | None:
    """An interval that holds the truth in 95% of alarms, from one of 95% for a span that was not chosen."""
    if value is None or ends is None or not all(map(math.isfinite, ends)):
        return None
    return [value + _WIDER * (end - value) for end in ends]
