"""A challenger beside what serves now and beside no map at all, on later events that no fit saw."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from monitor.errors import InputError
from monitor.local import FeatureMap, PrincipalComponents, Standardised
from monitor.local.calibration import confidence_and_hit
from monitor.local.features import DEFAULT_DIMENSIONS
from monitor.maps import RecalibrationMap, apply_map
from monitor.maps.identity import Identity
from monitor.maps.labelled import LabelledEvents
from monitor.progress import Progress
from monitor.recalibration.comparison_local import LocalFinding, local_finding
from monitor.recalibration.comparison_segments import compare_segments
from monitor.recalibration.data import RefitData
from monitor.recalibration.decision import COST_RATIOS, prediction_rejection_ratio, reward
from monitor.recalibration.guard import Guard, judge, weigh

Floats = NDArray[np.float64]
DRAWS: Final = 499
"""Resamples for intervals and levels of the measures."""


class Evaluated(Protocol):
    """A report."""

    def to_dict(self) -> dict[str, Any]:
        """As JSON shows it."""
        ...


class Evaluate(Protocol):
    """Makes the whole report of predictions and outcomes: :func:`monitor.evaluate`."""

    def __call__(
        self, p: ArrayLike, y: ArrayLike, *, weight: ArrayLike | None = None, draws: int | None = None
    ) -> Evaluated:
        """The report of predictions of shape (n,) or (n, K); weights come with the former alone."""
        ...


@dataclass(frozen=True, eq=False)
class Contender:
    """A map, and what it is called.

    Attributes
    ----------
    id
        Of the refit that made it; None if it has none.
    map
        The map itself.
    """

    id: str | None
    map: RecalibrationMap


@dataclass(frozen=True, eq=False)
class Comparison:
    """What the held-out events say.

    Attributes
    ----------
    document
        The comparison as docs/recalibration.md describes it: JSON, of finite numbers.
    guard
        Whether the challenger may be promoted.
    predictions
        ``none``, ``challenger`` and, if one could be applied, ``champion`` -> float64, (n,) or (n, K).
    phi
        float64, shape (n, d): coordinates of the held-out events; None where there are no features.
    """

    document: Mapping[str, Any]
    guard: Guard
    predictions: Mapping[str, Floats]
    phi: Floats | None


@dataclass(frozen=True, eq=False)
class _Sides:
    """Maps by their names in the document, and what they make of the held-out events."""

    contenders: Mapping[str, Contender]
    predictions: Mapping[str, Floats]
    notes: Sequence[str] = field(default_factory=tuple)

    @property
    def serving(self) -> str:
        return "champion" if "champion" in self.predictions else "none"


def compare(
    data: RefitData,
    challenger: Contender,
    champion: Contender | None = None,
    *,
    evaluate: Evaluate,
    left_out: Mapping[str, int] | None = None,
    draws: int = DRAWS,
    seed: int = 0,
    progress: Progress | None = None,
) -> Comparison:
    """Compare a challenger with what serves and with no map.

    Parameters
    ----------
    data
        What the challenger was fitted on, and the later events that all are compared on.
    challenger, champion
        The new map, and the one that serves, if one does. A champion that cannot be applied to these events, because
        their features are of another length, say, is left out, and the guard's notes say so: the challenger is then
        compared with no map, which is what such events get now.
    evaluate
        Makes the report of each map's predictions.
    left_out
        Reason -> events of the sample that did not fit the others.
    draws
        Resamples for the measures' intervals and levels, at least 19; 0 leaves both out.
    seed
        Of the local errors' draws. The measures' are seeded by what they are of.
    progress
        Told the share of the work done.
    """
    held = data.held_out
    sides = _apply(held, challenger, champion)
    names = list(sides.predictions)
    phi = None if held.features is None else _feature_map(data.fit).apply(held.features)
    weight = None if held.is_whole else held.weight
    told = progress or _ignore
    steps = 2 * len(names) + 1
    reports: dict[str, Mapping[str, Any]] = {}
    local: dict[str, LocalFinding] = {}
    for number, (name, prediction) in enumerate(sides.predictions.items()):
        reports[name] = _report(evaluate, prediction, held, draws)
        told((2 * number + 1) / steps)
        local[name] = local_finding(prediction, held.outcome, weight, phi, seed=seed)
        told((2 * number + 2) / steps)
    segments, few = compare_segments(held, sides.predictions)
    against = {
        name: weigh(sides.predictions[name], sides.predictions["challenger"], held.outcome, held.weight)
        for name in names
        if name != "challenger"
    }
    missing = local["challenger"].missing or local[sides.serving].missing
    guard = judge(
        serving="the map that serves" if sides.serving == "champion" else "no map",
        against_serving=against[sides.serving],
        against_none=against["none"],
        events=len(held),
        local=local["challenger"].error if missing is None else None,
        local_serving=local[sides.serving].error if missing is None else None,
        notes=[
            *data.notes,
            *sides.notes,
            *([f"Errors among events that are alike were not compared: {missing}."] if missing else []),
        ],
    )
    maps: dict[str, Any] = {"none": None, "champion": None, "challenger": None}
    for name in names:
        maps[name] = _shown(sides.contenders[name], reports[name], local[name])
    document = {
        "fit": {
            **_span(data.fit),
            "changed_at": None if data.change is None else rfc3339(data.change.time_ms),
            "change_p_value": None if data.change is None else data.change.p_value,
            "left_out": dict(left_out or {}),
        },
        "held_out": {**_span(held), "weighted": not held.is_whole},
        "maps": maps,
        "segments": segments,
        "segments_left_out": few,
        "evidence": {f"against_{name}": against[name].to_dict() if name in against else None for name in _OTHERS},
        "guard": {**guard.to_dict(), "against": sides.serving},
        "decision": _decision(held, sides.predictions),
    }
    told(1.0)
    return Comparison(plain(document), guard, sides.predictions, phi)


_OTHERS: Final = ("none", "champion")


def rfc3339(milliseconds: int) -> str:
    """Milliseconds since the epoch, as reports show times."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _apply(held: LabelledEvents, challenger: Contender, champion: Contender | None) -> _Sides:
    contenders = {"none": Contender(None, Identity(held.classes))}
    predictions = {"none": held.prediction}
    notes: list[str] = []
    if champion is not None:
        try:
            predictions["champion"] = _applied(champion, held)
            contenders["champion"] = champion
        except InputError as error:
            notes.append(f"The map that serves could not be applied, and no map stands in its place: {error}.")
    predictions["challenger"] = _applied(challenger, held)
    contenders["challenger"] = challenger
    return _Sides(contenders, predictions, notes)


def _applied(contender: Contender, held: LabelledEvents) -> Floats:
    return apply_map(contender.map, held.prediction, features=held.features, segments=held.segments)


def _feature_map(fit: LabelledEvents) -> FeatureMap:
    """One for all maps, so that the same events are alike whatever they are predicted; of the stream, as LoRe's are."""
    x = fit.features
    if x is None:
        raise InputError("there are no features to fit a feature map on")
    if x.shape[1] > DEFAULT_DIMENSIONS:
        return PrincipalComponents.fit(x, DEFAULT_DIMENSIONS, fit.weight)
    return Standardised.fit(x, fit.weight)


def _report(evaluate: Evaluate, prediction: Floats, held: LabelledEvents, draws: int) -> Mapping[str, Any]:
    """The report's parts that stand in the document: of many classes, of the top label and of whole vectors."""
    if prediction.ndim == 1:
        weight = None if held.is_whole else held.weight
        return report_parts(evaluate(prediction, held.outcome, weight=weight, draws=draws).to_dict())
    if held.is_whole:
        report = evaluate(prediction, held.outcome, draws=draws).to_dict()
        parts = report_parts(report["top_label"])
        parts["omitted"] |= report["omitted"]
        return {**parts, "canonical": report["measures"], "classwise": report["classwise"]}
    confidence, hit = confidence_and_hit(prediction, held.outcome)
    parts = report_parts(evaluate(confidence, hit, weight=held.weight, draws=draws).to_dict())
    parts["omitted"]["canonical"] = "measures of whole vectors need events without weights"
    return {**parts, "canonical": {}, "classwise": {}}


def report_parts(report: Mapping[str, Any]) -> dict[str, Any]:
    """What documents about maps show of a report."""
    return {
        "measures": report["measures"],
        "verdict": report["diagnosis"],
        "insufficient": report["insufficient"],
        "omitted": dict(report["omitted"]),
    }


def _shown(contender: Contender, report: Mapping[str, Any], local: LocalFinding) -> dict[str, Any]:
    return {
        "id": contender.id,
        "method": contender.map.method,
        "describe": contender.map.describe(),
        **report,
        "local": local.document,
    }


def _span(events: LabelledEvents) -> dict[str, Any]:
    return {
        "n": len(events),
        "from": rfc3339(int(events.time_ms[0])),
        "to": rfc3339(int(events.time_ms[-1]) + 1),
        "data_hash": events.content_hash(),
    }


def _decision(held: LabelledEvents, predictions: Mapping[str, Floats]) -> dict[str, Any]:
    y, w = held.outcome, held.weight
    return {
        "prediction_rejection_ratio": {
            name: prediction_rejection_ratio(p, y, weight=w) for name, p in predictions.items()
        },
        "reward": [
            {
                "cost_ratio": ratio,
                "threshold": 1.0 - 1.0 / ratio,
                **{name: reward(p, y, ratio, weight=w) for name, p in predictions.items()},
            }
            for ratio in COST_RATIOS
        ],
    }


def plain(value: Any) -> Any:
    """The same as JSON knows it: no numpy, no enumerations, and null for what is infinite or nan."""
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else None
    if value is None:
        return None
    raise TypeError(f"a comparison holds JSON, got {value!r}")


def _ignore(share: float) -> None:
    """Nobody asked."""
