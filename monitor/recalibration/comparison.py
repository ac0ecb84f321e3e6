"""Compare a new map with the map that serves, and with no map, on later events that no fit saw."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Final

import msgspec
import numpy as np

from monitor.arrays import Floats, Ints
from monitor.errors import InputError, NotEnoughData
from monitor.events.times import format_time
from monitor.inference import NullLevel
from monitor.local import FeatureMap, PrincipalComponents, Standardised, local_calibration_error
from monitor.local.calibration import DEFAULT_GAMMA, confidence_and_hit
from monitor.local.features import DEFAULT_DIMENSIONS
from monitor.maps import RecalibrationMap, apply_map
from monitor.maps.identity import Identity
from monitor.maps.labelled import NO_SEGMENT, LabelledEvents
from monitor.measures import ece, mce, smce
from monitor.progress import StageProgress, no_progress
from monitor.recalibration.data import RefitData
from monitor.recalibration.decision import COST_RATIOS, prediction_rejection_ratio, reward
from monitor.recalibration.guard import Guard, LocalError, judge, weigh
from monitor.reports.evaluation.classes import ClassReport
from monitor.reports.evaluation.report import Report
from monitor.scores import ScoreTable

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

_STEP: Final = "comparing on later events"
_NULL_SMCE: Final = 0.9
"""smCE of a calibrated model, in units of sqrt(mean p (1 - p) / n) (section 3 of the mathematics)."""


Evaluate = Callable[..., Report | ClassReport]
"""Reports on predictions and outcomes, as :func:`monitor.evaluate` does; called with ``weight`` and ``draws``."""


@dataclass(frozen=True, eq=False)
class Contender:
    """A map and its id.

    Attributes
    ----------
    id
        Id of the refit; None if it has none.
    map
        The map.
    """

    id: str | None
    map: RecalibrationMap


@dataclass(frozen=True, eq=False)
class Comparison:
    """The result of a comparison on the held-out events.

    Attributes
    ----------
    document
        The document of docs/recalibration.md ("comparison"): JSON with finite numbers.
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


@dataclass(frozen=True, slots=True)
class LocalFinding:
    """Local errors of one map.

    Attributes
    ----------
    document
        Their part of the comparison; None if they are unknown.
    error
        What the guard uses; None if they are unknown.
    missing
        Why they are unknown.
    """

    document: Mapping[str, Any] | None = None
    error: LocalError | None = None
    missing: str | None = None


def compare(
    data: RefitData,
    challenger: Contender,
    champion: Contender | None = None,
    *,
    evaluate: Evaluate,
    left_out: Mapping[str, int],
    draws: int = DRAWS,
    seed: int = 0,
    progress: StageProgress = no_progress,
) -> Comparison:
    """Compare a challenger with the champion and with no map.

    Parameters
    ----------
    data
        The events that the challenger was fitted on, and the later events to compare on.
    challenger, champion
        The new map, and the map that serves, if any. A champion that cannot be applied to these events (their features
        have another length, say) is left out and noted by the guard: such events get no map now.
    evaluate
        Makes the report of each map's predictions.
    left_out
        Reason -> number of events of the sample that did not match the others.
    draws
        Resamples for the measures' intervals and levels, at least 19; 0 leaves both out.
    seed
        Seed of the local errors' draws. The measures' draws are seeded by their data.
    progress
        Called with the current step and the share of the work that is done.
    """
    held = data.held_out
    contenders = {"none": Contender(None, Identity(held.classes))}
    predictions = {"none": held.prediction}
    notes = [*data.notes]
    if champion is not None:
        try:
            predictions["champion"] = _applied(champion, held)
            contenders["champion"] = champion
        except InputError as error:
            notes.append(f"The map that serves could not be applied, and no map stands in its place: {error}.")
    predictions["challenger"] = _applied(challenger, held)
    contenders["challenger"] = challenger
    serving = "champion" if "champion" in predictions else "none"
    phi = None if held.features is None else _feature_map(data.fit).apply(held.features)
    weight = None if held.is_whole else held.weight
    steps = 2 * len(predictions) + 1
    maps: dict[str, Any] = {"none": None, "champion": None, "challenger": None}
    local: dict[str, LocalFinding] = {}
    for number, (name, prediction) in enumerate(predictions.items()):
        report = _report(evaluate, prediction, held, draws)
        progress(_STEP, (2 * number + 1) / steps)
        local[name] = local_finding(prediction, held.outcome, weight, phi, seed=seed)
        progress(_STEP, (2 * number + 2) / steps)
        fitted = contenders[name]
        maps[name] = {
            "id": fitted.id,
            "method": fitted.map.method,
            "describe": fitted.map.describe(),
            **report,
            "local": local[name].document,
        }
    segments, few = compare_segments(held, predictions)
    against = {
        name: weigh(prediction, predictions["challenger"], held.outcome, held.weight)
        for name, prediction in predictions.items()
        if name != "challenger"
    }
    missing = local["challenger"].missing or local[serving].missing
    if missing is not None:
        notes.append(f"Errors among events that are alike were not compared: {missing}.")
    guard = judge(
        serving="the map that serves" if serving == "champion" else "no map",
        against_serving=against[serving],
        against_none=against["none"],
        events=len(held),
        local=local["challenger"].error if missing is None else None,
        local_serving=local[serving].error if missing is None else None,
        notes=notes,
    )
    document = {
        "fit": {
            **_span(data.fit),
            "changed_at": None if data.change is None else format_time(data.change.time_ms),
            "change_p_value": None if data.change is None else data.change.p_value,
            "left_out": dict(left_out),
        },
        "held_out": {**_span(held), "weighted": not held.is_whole},
        "maps": maps,
        "segments": segments,
        "segments_left_out": few,
        "evidence": {
            f"against_{name}": against[name].to_dict() if name in against else None for name in ("none", "champion")
        },
        "guard": {**asdict(guard), "against": serving},
        "decision": _decision(held, predictions),
    }
    progress(_STEP, 1.0)
    return Comparison(to_json_types(document), guard, predictions, phi)


def held_out_until_ms(document: Mapping[str, Any]) -> int:
    """Return the end of a comparison's events, milliseconds since the epoch."""
    return round(datetime.fromisoformat(document["held_out"]["to"]).timestamp() * 1000)


def map_details(method: str, options: Mapping[str, Any], comparison: Comparison, created_ms: int) -> dict[str, Any]:
    """Return what is stored with a map about its fit."""
    fit = comparison.document["fit"]
    return {
        "method": method,
        "options": dict(options),
        "data_hash": fit["data_hash"],
        "fitted_on": {key: fit[key] for key in ("n", "from", "to")},
        "created": format_time(created_ms),
    }


def _applied(contender: Contender, held: LabelledEvents) -> Floats:
    return apply_map(contender.map, held.prediction, features=held.features, segments=held.segments)


def _feature_map(fit: LabelledEvents) -> FeatureMap:
    """Fit one feature map for all maps, so that neighbours do not depend on predictions; weighted, as LoRe's is."""
    x = fit.features
    if x is None:
        raise InputError("there are no features to fit a feature map on")
    if x.shape[1] > DEFAULT_DIMENSIONS:
        return PrincipalComponents.fit(x, DEFAULT_DIMENSIONS, fit.weight)
    return Standardised.fit(x, fit.weight)


def report_on(evaluate: Evaluate, prediction: Floats, events: LabelledEvents, draws: int) -> dict[str, Any]:
    """Return the report's part of a document about maps; for many classes, of the top label."""
    p, y = (prediction, events.outcome) if events.is_binary else confidence_and_hit(prediction, events.outcome)
    weight = None if events.is_whole else events.weight
    return _parts(evaluate(p, y, weight=weight, draws=draws).to_dict())


def _report(evaluate: Evaluate, prediction: Floats, held: LabelledEvents, draws: int) -> Mapping[str, Any]:
    """Return the report's part of the document; for many classes, of the top label and of whole vectors."""
    if held.is_whole and not held.is_binary:
        report = evaluate(prediction, held.outcome, draws=draws).to_dict()
        parts = _parts(report["top_label"])
        parts["omitted"] |= report["omitted"]
        return {**parts, "canonical": report["measures"], "classwise": report["classwise"]}
    parts = report_on(evaluate, prediction, held, draws)
    if held.is_binary:
        return parts
    parts["omitted"]["canonical"] = "measures of whole vectors need events without weights"
    return {**parts, "canonical": {}, "classwise": {}}


def _parts(report: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "measures": report["measures"],
        "verdict": report["diagnosis"],
        "insufficient": report["insufficient"],
        "omitted": dict(report["omitted"]),
    }


def _span(events: LabelledEvents) -> dict[str, Any]:
    return {
        "n": len(events),
        "from": format_time(int(events.time_ms[0])),
        "to": format_time(int(events.time_ms[-1]) + 1),
        "data_hash": events.content_hash(),
    }


def _decision(held: LabelledEvents, predictions: Mapping[str, Floats]) -> dict[str, Any]:
    y, w = held.outcome, held.weight
    return {
        "prediction_rejection_ratio": {name: prediction_rejection_ratio(p, y, w) for name, p in predictions.items()},
        "reward": [
            {
                "cost_ratio": ratio,
                "threshold": 1.0 - 1.0 / ratio,
                **{name: reward(p, y, w, ratio) for name, p in predictions.items()},
            }
            for ratio in COST_RATIOS
        ],
    }


def to_json_types(document: Mapping[str, Any]) -> dict[str, Any]:
    """Convert to JSON types: no numpy, no enumerations, null for infinite and nan."""
    encoded = msgspec.json.encode(document, enc_hook=lambda number: number.item())
    return msgspec.json.decode(encoded, type=dict[str, Any])


def local_finding(
    prediction: Floats, outcome: Ints, weight: Floats | None, phi: Floats | None, *, seed: int
) -> LocalFinding:
    """Compute local errors of predictions, (n,) or (n, K), at coordinates (n, d); weights (n,), None if all are 1."""
    if phi is None:
        return LocalFinding(missing="these events have no features")
    try:
        local = local_calibration_error(
            prediction, outcome, phi, weight=weight, max_points=LOCAL_POINTS, draws=LOCAL_DRAWS, seed=seed
        )
    except NotEnoughData as error:
        return LocalFinding(missing=str(error))
    level = local.level
    if level is None:
        raise AssertionError("a level was requested")
    document = {
        "mlce": _with_level(local.mlce, level.mlce),
        "mean_lce": _with_level(local.mean_lce, level.mean_lce),
        "gamma": DEFAULT_GAMMA,
        "dimensions": int(phi.shape[1]),
        "n": int(phi.shape[0]),
        "points": int(local.points.size),
        "valid_share": local.valid_share,
    }
    return LocalFinding(document, LocalError(local.mlce - level.mlce.mean, float(level.mlce.law.std())))


def _with_level(value: float, level: NullLevel) -> dict[str, float]:
    return {
        "value": value,
        "null_mean": level.mean,
        "null_q95": level.q95,
        "p_value": level.p_value,
        "excess": value - level.mean,
    }


def compare_segments(
    held: LabelledEvents, predictions: Mapping[str, Floats]
) -> tuple[list[dict[str, Any]], dict[str, int]]:
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
    all_segments = list(_segments(held))
    large = [(name, rows) for name, rows in all_segments if rows.size >= MIN_SEGMENT_EVENTS]
    large.sort(key=lambda segment: (-segment[1].size, segment[0]))
    observed = {name: confidence_and_hit(p, held.outcome) for name, p in predictions.items()}
    ranked: list[tuple[float, str, dict[str, Any]]] = []
    for name, rows in large[:MAX_SEGMENTS]:
        weight = None if held.is_whole else held.weight[rows]
        measures: dict[str, dict[str, float]] = {}
        for side, (p, hit) in observed.items():
            table = ScoreTable.from_events(p[rows], hit[rows], weight)
            measures[side] = {"smce": smce(table), "ece": ece(table), "mce": mce(table)}
        p, hit = observed["none"][0][rows], observed["none"][1][rows]
        w = held.weight[rows]
        expected = _NULL_SMCE * float(np.sqrt((w**2 * p * (1.0 - p)).sum()) / w.sum())
        record = {
            "segment": name,
            "n": int(rows.size),
            "positives": int(hit.sum()),
            "none": measures["none"],
            "champion": measures.get("champion"),
            "challenger": measures["challenger"],
        }
        ranked.append((expected - measures["none"]["smce"], name, record))
    ranked.sort(key=lambda segment: segment[:2])
    left_out = {
        f"fewer than {MIN_SEGMENT_EVENTS} events": len(all_segments) - len(large),
        f"beyond the {MAX_SEGMENTS} largest": max(0, len(large) - MAX_SEGMENTS),
    }
    return [record for _, _, record in ranked], {reason: count for reason, count in left_out.items() if count}


def _segments(held: LabelledEvents) -> Iterator[tuple[str, Ints]]:
    """Yield name and rows of each segment."""
    for key in sorted(held.segments):
        values, codes = np.unique(held.segments[key], return_inverse=True)
        order = np.argsort(codes, kind="stable")
        bounds = np.searchsorted(codes[order], np.arange(values.size + 1))
        for code, value in enumerate(values.tolist()):
            if value != NO_SEGMENT:
                yield f"{key}={value}", order[bounds[code] : bounds[code + 1]]
