"""Fit maps, and compare each with the map that serves, and with no map, on later events that no fit saw."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np

from monitor.arrays import Floats, Ints
from monitor.errors import InputError, NotEnoughData
from monitor.events.times import format_time
from monitor.inference import NullLevel
from monitor.local import PrincipalComponents, Standardised, local_calibration_error
from monitor.local.calibration import DEFAULT_GAMMA, confidence_and_hit
from monitor.local.features import DEFAULT_DIMENSIONS
from monitor.maps import RecalibrationMap, apply_map, fit_map
from monitor.maps.base import Method, OptionValue
from monitor.maps.identity import Identity
from monitor.measures import ece, mce, smce
from monitor.options import TOLERANCE
from monitor.progress import StageProgress, no_progress
from monitor.recalibration.comparison import (
    ComparedMap,
    ComparedMaps,
    ComparedSegment,
    Comparison,
    DecisionValue,
    FitSpan,
    HeldOutSpan,
    LeveledError,
    LocalErrors,
    MapEvidences,
    Rewards,
    SegmentErrors,
)
from monitor.recalibration.data import RefitData
from monitor.recalibration.decision import COST_RATIOS, prediction_rejection_ratio, reward
from monitor.recalibration.guard import MIN_E_VALUE, Against, LocalExcess, MapEvidence, judge, weigh
from monitor.reports.evaluation.classes import ClassReport
from monitor.reports.evaluation.evaluate import evaluate
from monitor.reports.evaluation.report import Report
from monitor.scores import ScoreTable
from monitor.scores.labelled import NO_SEGMENT, LabelledEvents

DRAWS: Final = 499
"""Resamples for intervals and levels of the measures."""

LOCAL_DRAWS: Final = 199
"""Resamples of a calibrated model for the local errors."""

LOCAL_POINTS: Final = 2000
"""Number of events at which local errors are computed; their neighbours are all held-out events."""

MIN_SEGMENT_EVENTS: Final = 50
"""Smaller segments are not compared."""

MAX_SEGMENTS: Final = 100
"""Only the largest segments are compared."""

_NULL_SMCE: Final = 0.9
"""smCE of a calibrated model, in units of sqrt(mean p (1 - p) / n) (section 3 of the mathematics)."""

Evaluate = Callable[..., Report | ClassReport]
"""Reports on predictions and outcomes, as :func:`monitor.evaluate` does; called with ``weight`` and ``draws``."""

FitOn = Callable[[Method, RefitData], LabelledEvents]


@dataclass(frozen=True, eq=False)
class Candidate:
    """One method, fitted and compared; or why it could not be fitted.

    Attributes
    ----------
    method, options
        What to fit.
    min_e_value
        Required e-value.
    failure
        Why it could not be fitted; else None.
    map, comparison
        None if it could not be fitted.
    predictions
        ``none``, ``champion``, if one could be applied, and ``challenger`` -> float64, (n,) or (n, K); empty if it
        could not be fitted.
    phi
        float64, shape (n, d): coordinates of the held-out events; None where there are no features.
    """

    method: Method
    options: Mapping[str, OptionValue]
    min_e_value: float
    failure: str | None = None
    map: RecalibrationMap | None = None
    comparison: Comparison | None = None
    predictions: Mapping[str, Floats] = field(default_factory=dict)
    phi: Floats | None = None

    @property
    def evidence(self) -> MapEvidence | None:
        """Evidence that it is better than no map; None if it was not fitted."""
        return None if self.comparison is None else self.comparison.evidence.against_none

    @property
    def sure(self) -> bool:
        """Whether the evidence is sufficient, given the number of methods."""
        return self.evidence is not None and self.evidence.reaches(self.min_e_value)

    @property
    def better(self) -> bool:
        """Whether the evidence is sufficient and the guard passed it."""
        return self.comparison is not None and self.comparison.guard.passed and self.sure

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON shows it."""
        return {
            "method": self.method.name,
            "options": dict(self.options),
            "better": self.better,
            "failure": self.failure,
            "comparison": None if self.comparison is None else self.comparison.to_dict(),
        }


def on_earlier_events(_: Method, data: RefitData) -> LabelledEvents:
    """Fit every method on the events of the data to fit on."""
    return data.fit


def compare(
    data: RefitData,
    methods: Sequence[tuple[Method, Mapping[str, OptionValue]]],
    *,
    map_id: str | None = None,
    champion: tuple[str | None, RecalibrationMap] | None = None,
    fit_on: FitOn = on_earlier_events,
    timed: bool = True,
    left_out: Mapping[str, int],
    tolerance: float = TOLERANCE,
    draws: int = DRAWS,
    seed: int = 0,
    progress: StageProgress = no_progress,
) -> list[Candidate]:
    """Fit each method, and compare its map with the champion and with no map on the later events.

    Each of k methods must reach an e-value of 20 k: if none is better than no map, one of them reaches it with a
    probability of at most 1 / 20.

    Parameters
    ----------
    data
        The events to fit on, and the later ones to compare on.
    methods
        At least one, with checked options.
    map_id
        Id of the refit; None if it has none.
    champion
        Id and map of what serves, if a map does. One that cannot be applied to these events (their features have
        another length, say) is left out and noted by the guard: such events get no map now.
    fit_on
        Chooses what a method is fitted on: the earlier events, or others of the same time.
    timed
        Whether the events have times.
    left_out
        Reason -> number of events of the sample that did not match the others.
    tolerance
        Error of the logits up to which a verdict is "calibrated".
    draws
        Resamples for the measures' intervals and levels, at least 19; 0 leaves both out.
    seed
        Seed of the local errors' draws. The measures' draws are seeded by their data.
    progress
        Called with the current step and the share of the work that is done.

    Raises
    ------
    InputError
        A method lacks what it needs.
    """
    candidates: list[Candidate] = []
    comparer: _Comparer | None = None
    for number, (method, options) in enumerate(methods):

        def report(step: str, share: float, number: int = number) -> None:
            progress(step, (number + share) / len(methods))

        report(f"fitting {method.title}", 0.0)
        candidate = Candidate(method, options, MIN_E_VALUE * len(methods))
        events = fit_on(method, data)
        try:
            fitted = fit_map(method, events, options)
        except NotEnoughData as error:
            candidates.append(replace(candidate, failure=str(error)))
            continue
        report(f"comparing {method.title} on later events", 0.3)
        comparer = comparer or _Comparer(
            data, champion, partial(evaluate, of_classes=True, tolerance=tolerance), draws, seed
        )
        report(f"comparing {method.title} on later events", 0.7)
        fit = FitSpan(
            **_span(events, data.fit, timed=timed),
            changed_at=format_time(data.change.time_ms) if data.change is not None and timed else None,
            change_p_value=None if data.change is None else data.change.p_value,
            left_out=left_out,
        )
        held_out = HeldOutSpan(**_span(data.held_out, data.held_out, timed=timed), weighted=not data.held_out.is_whole)
        prediction, comparison = comparer.compare(map_id, fitted, fit, held_out)
        predictions = {name: measured.prediction for name, measured in comparer.baselines.items()}
        candidates.append(
            replace(
                candidate,
                map=fitted,
                comparison=comparison,
                predictions=predictions | {"challenger": prediction},
                phi=comparer.phi,
            )
        )
    return candidates


def map_details(method: str, options: Mapping[str, Any], comparison: Comparison, created_ms: int) -> dict[str, Any]:
    """Return what is stored with a map about its fit."""
    fit = comparison.fit
    return {
        "method": method,
        "options": dict(options),
        "data_hash": fit.data_hash,
        "fitted_on": {"n": fit.n, "from": fit.start, "to": fit.end},
        "created": format_time(created_ms),
    }


class _Measured(NamedTuple):
    """A map on the held-out events."""

    prediction: Floats
    report: ComparedMap
    excess: LocalExcess | None
    missing: str
    """Why ``excess`` is unknown; else empty."""


class _Comparer:
    """Compares challengers with no map and with a champion, which it measures once."""

    def __init__(
        self,
        data: RefitData,
        champion: tuple[str | None, RecalibrationMap] | None,
        evaluate: Evaluate,
        draws: int,
        seed: int,
    ) -> None:
        self._held = held = data.held_out
        self._evaluate, self._draws, self._seed = evaluate, draws, seed
        self._notes = [*data.notes]
        self.phi = None if held.features is None else _feature_map(data.fit).apply(held.features)
        # Unchanged to the last bit: the identity would normalise the probabilities again.
        self.baselines = {"none": self._measure(None, Identity(held.classes), held.prediction)}
        if champion is not None:
            try:
                prediction = self._apply(champion[1])
            except InputError as error:
                self._notes.append(
                    f"The map that serves could not be applied, and no map stands in its place: {error}."
                )
            else:
                self.baselines["champion"] = self._measure(*champion, prediction)

    def compare(
        self,
        map_id: str | None,
        fitted: RecalibrationMap,
        fit: FitSpan,
        held_out: HeldOutSpan,
    ) -> tuple[Floats, Comparison]:
        """Return the predictions of a new map, and its comparison."""
        held, baselines = self._held, self.baselines
        challenger = self._measure(map_id, fitted, self._apply(fitted))
        measured = baselines | {"challenger": challenger}
        predictions = {name: one.prediction for name, one in measured.items()}
        evidence = {
            name: weigh(one.prediction, challenger.prediction, held.outcome, held.weight)
            for name, one in baselines.items()
        }
        against: Against = "champion" if "champion" in baselines else "none"
        missing = challenger.missing or baselines[against].missing
        notes = [f"Errors among events that are alike were not compared: {missing}."] if missing else []
        guard = judge(
            against=against,
            against_serving=evidence[against],
            against_none=evidence["none"],
            events=len(held),
            local=None if missing else challenger.excess,
            local_serving=None if missing else baselines[against].excess,
            notes=[*self._notes, *notes],
        )
        segments, segments_left_out = compare_segments(held, predictions)
        comparison = Comparison(
            fit=fit,
            held_out=held_out,
            maps=ComparedMaps(
                none=baselines["none"].report,
                champion=baselines["champion"].report if "champion" in baselines else None,
                challenger=challenger.report,
            ),
            segments=segments,
            segments_left_out=segments_left_out,
            evidence=MapEvidences(against_none=evidence["none"], against_champion=evidence.get("champion")),
            guard=guard,
            decision=_decision_value(held, predictions),
        )
        return challenger.prediction, comparison.plain()

    def _apply(self, fitted: RecalibrationMap) -> Floats:
        held = self._held
        return apply_map(fitted, held.prediction, features=held.features, segments=held.segments)

    def _measure(self, map_id: str | None, fitted: RecalibrationMap, prediction: Floats) -> _Measured:
        held, local, excess, missing = self._held, None, None, ""
        try:
            local, excess = local_errors(
                prediction, held.outcome, None if held.is_whole else held.weight, self.phi, seed=self._seed
            )
        except NotEnoughData as error:
            missing = str(error)
        report = ComparedMap(
            id=map_id,
            method=fitted.method,
            describe=fitted.describe(),
            **_reported(self._evaluate, prediction, held, self._draws),
            local=local,
        )
        return _Measured(prediction, report, excess, missing)


def _span(events: LabelledEvents, times: LabelledEvents, *, timed: bool) -> dict[str, Any]:
    return {
        "n": events.n,
        "start": format_time(int(times.time_ms[0])) if timed else None,
        "end": format_time(int(times.time_ms[-1]) + 1) if timed else None,
        "data_hash": events.content_hash(),
    }


def _feature_map(fit: LabelledEvents) -> PrincipalComponents | Standardised:
    """Fit one feature map for all maps, so that neighbours do not depend on predictions; weighted, as LoRe's is."""
    x = fit.features
    if x is None:
        raise InputError("there are no features to fit a feature map on")
    if x.shape[1] > DEFAULT_DIMENSIONS:
        return PrincipalComponents.fit(x, DEFAULT_DIMENSIONS, fit.weight)
    return Standardised.fit(x, fit.weight)


def report_on(evaluate: Evaluate, prediction: Floats, events: LabelledEvents, draws: int) -> dict[str, Any]:
    """Return the report's part of a :class:`MapReport`; for many classes, of the top label."""
    p, y = (prediction, events.outcome) if events.is_binary else confidence_and_hit(prediction, events.outcome)
    report = evaluate(p, y, weight=None if events.is_whole else events.weight, draws=draws)
    return _parts(report.top_label if isinstance(report, ClassReport) else report)


def _parts(report: Report) -> dict[str, Any]:
    return {
        "measures": report.measures,
        "verdict": report.diagnosis,
        "insufficient": report.insufficient,
        "omitted": dict(report.omitted),
    }


def _reported(evaluate: Evaluate, prediction: Floats, held: LabelledEvents, draws: int) -> dict[str, Any]:
    """Return the report's part of a :class:`ComparedMap`."""
    if held.is_whole and not held.is_binary:
        report = evaluate(prediction, held.outcome, draws=draws)
        if not isinstance(report, ClassReport):
            raise AssertionError("probability vectors have a report of classes")
        parts = _parts(report.top_label)
        parts["omitted"] |= report.omitted
        return {**parts, "canonical": report.measures, "classwise": report.classwise}
    parts = report_on(evaluate, prediction, held, draws)
    if held.is_binary:
        return parts
    parts["omitted"]["canonical"] = "measures of whole vectors need events without weights"
    return {**parts, "canonical": {}, "classwise": {}}


def _decision_value(held: LabelledEvents, predictions: Mapping[str, Floats]) -> DecisionValue:
    y, w = held.outcome, held.weight
    return DecisionValue(
        prediction_rejection_ratio={name: prediction_rejection_ratio(p, y, w) for name, p in predictions.items()},
        reward=[
            Rewards(
                cost_ratio=ratio,
                threshold=1.0 - 1.0 / ratio,
                **{name: reward(p, y, w, ratio) for name, p in predictions.items()},
            )
            for ratio in COST_RATIOS
        ],
    )


def local_errors(
    prediction: Floats, outcome: Ints, weight: Floats | None, phi: Floats | None, *, seed: int
) -> tuple[LocalErrors, LocalExcess]:
    """Compute local errors of predictions, (n,) or (n, K), at coordinates (n, d); weights (n,), None if all are 1.

    Raises
    ------
    NotEnoughData
        There are no coordinates, or no event has enough neighbours.
    """
    if phi is None:
        raise NotEnoughData("these events have no features")
    local = local_calibration_error(
        prediction, outcome, phi, weight=weight, max_points=LOCAL_POINTS, draws=LOCAL_DRAWS, seed=seed
    )
    level = local.level
    if level is None:
        raise AssertionError("a level was requested")
    errors = LocalErrors(
        mlce=_with_level(local.mlce, level.mlce),
        mean_lce=_with_level(local.mean_lce, level.mean_lce),
        gamma=DEFAULT_GAMMA,
        dimensions=int(phi.shape[1]),
        n=int(phi.shape[0]),
        points=int(local.points.size),
        valid_share=local.valid_share,
    )
    return errors, LocalExcess(local.mlce - level.mlce.mean, float(level.mlce.law.std()))


def _with_level(value: float, level: NullLevel) -> LeveledError:
    return LeveledError(
        value=value, null_mean=level.mean, null_q95=level.q95, p_value=level.p_value, excess=value - level.mean
    )


def compare_segments(
    held: LabelledEvents, predictions: Mapping[str, Floats]
) -> tuple[list[ComparedSegment], dict[str, int]]:
    """Measure each segment by map; return them with the number of segments left out, by reason.

    Parameters
    ----------
    held
        n events. Those without a value for a key belong to none of its segments.
    predictions
        ``none``, ``champion`` (if any), ``challenger`` -> float64, (n,) or (n, K).

    Returns
    -------
    list
        The worst before recalibration first: by smCE less its expectation for a calibrated model, so that the smallest
        segments are not the worst for their noise.
    dict
        Reason -> number of segments, if above 0.
    """
    all_segments = list(segments_of(held))
    large = [(name, rows) for name, rows in all_segments if rows.size >= MIN_SEGMENT_EVENTS]
    large.sort(key=lambda segment: (-segment[1].size, segment[0]))
    observed = {name: confidence_and_hit(p, held.outcome) for name, p in predictions.items()}
    ranked: list[tuple[float, str, ComparedSegment]] = []
    for name, rows in large[:MAX_SEGMENTS]:
        weight = None if held.is_whole else held.weight[rows]
        errors: dict[str, SegmentErrors] = {}
        for side, (p, hit) in observed.items():
            table = ScoreTable.from_events(p[rows], hit[rows], weight)
            errors[side] = SegmentErrors(smce=smce(table), ece=ece(table), mce=mce(table))
        p, hit = observed["none"][0][rows], observed["none"][1][rows]
        w = held.weight[rows]
        expected = _NULL_SMCE * float(np.sqrt((w**2 * p * (1.0 - p)).sum()) / w.sum())
        segment = ComparedSegment(
            segment=name,
            n=int(rows.size),
            positives=int(hit.sum()),
            none=errors["none"],
            champion=errors.get("champion"),
            challenger=errors["challenger"],
        )
        ranked.append((expected - segment.none.smce, name, segment))
    ranked.sort(key=lambda segment: segment[:2])
    left_out = {
        f"fewer than {MIN_SEGMENT_EVENTS} events": len(all_segments) - len(large),
        f"beyond the {MAX_SEGMENTS} largest": max(0, len(large) - MAX_SEGMENTS),
    }
    return [segment for _, _, segment in ranked], {reason: count for reason, count in left_out.items() if count}


def segments_of(held: LabelledEvents) -> Iterator[tuple[str, Ints]]:
    """Yield name and rows of each segment."""
    for key in sorted(held.segments):
        values, codes = np.unique(held.segments[key], return_inverse=True)
        order = np.argsort(codes, kind="stable")
        bounds = np.searchsorted(codes[order], np.arange(values.size + 1))
        for code, value in enumerate(values.tolist()):
            if value != NO_SEGMENT:
                yield f"{key}={value}", order[bounds[code] : bounds[code + 1]]
