"""Raw and recalibrated scores side by side, on live events that no refit saw: one model's version at one instant."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from monitor.errors import InputError
from monitor.local.calibration import confidence_and_hit
from monitor.maps import RecalibrationMap, apply_map
from monitor.maps.identity import Identity
from monitor.maps.labelled import LabelledEvents
from monitor.recalibration.comparison import Evaluate, plain, report_parts, rfc3339
from monitor.recalibration.data import LEAST_EVENTS, LEAST_OF_EACH
from monitor.recalibration.guard import weigh
from monitor.store.recalibrations import Sample

Floats = NDArray[np.float64]

NONE: Final = "none"
CHAMPION: Final = "champion"
CANDIDATE: Final = "candidate"
MAPS: Final = (NONE, CHAMPION, CANDIDATE)

COMPARED: Final = ((CHAMPION, NONE), (CANDIDATE, NONE), (CANDIDATE, CHAMPION))
"""Pairs of maps, with evidence that the first is better than the second."""


@dataclass(frozen=True, eq=False)
class Shown:
    """A map that is measured.

    Attributes
    ----------
    id
        Of the refit that made it; None for no map.
    map
        The map itself; None where it cannot be read.
    missing
        Why it cannot be read, in words.
    """

    id: str | None
    map: RecalibrationMap | None
    missing: str | None = None


def live_document(
    sample: Sample,
    shown: Mapping[str, Shown],
    *,
    since_ms: int,
    changed_ms: int,
    evaluate: Evaluate,
    draws: int,
) -> dict[str, Any]:
    """What docs/recalibration.md describes ("live"): JSON, of finite numbers.

    Parameters
    ----------
    sample
        The events since ``since_ms``.
    shown
        ``champion``, ``candidate`` or both -> the map.
    since_ms
        From when on no fit and no comparison of these maps saw events, milliseconds since the epoch.
    changed_ms
        When these events were first looked at, milliseconds since the epoch.
    evaluate
        Makes the report of predictions P(y = 1). Of many classes, it is told the largest probability, and whether that
        class came true.
    draws
        Resamples for the measures' intervals and levels, at least 19; 0 leaves both out.
    """
    events = sample.events
    insufficient = _insufficient(events, since_ms)
    maps: dict[str, Any] = dict.fromkeys(MAPS)
    # As they are, to the last bit: a map makes probabilities add up to 1 once more.
    predictions: dict[str, Floats] = {NONE: events.prediction} if insufficient is None else {}
    for name, each in {NONE: Shown(None, Identity(events.classes)), **shown}.items():
        missing = each.missing
        if name != NONE and each.map is not None and insufficient is None:
            try:
                predictions[name] = apply_map(
                    each.map, events.prediction, features=events.features, segments=events.segments
                )
            except InputError as error:
                missing = f"the map cannot be applied to these events: {error}"
        report = _report(evaluate, predictions[name], events, draws) if name in predictions else {}
        maps[name] = {
            "id": each.id,
            "method": None if each.map is None else each.map.method,
            "describe": None if each.map is None else each.map.describe(),
            "measures": {},
            "verdict": None,
            "insufficient": insufficient,
            "omitted": {},
            "missing": missing,
            **report,
        }
    document = {
        "since": rfc3339(since_ms),
        "until": rfc3339(int(events.time_ms[-1]) + 1) if len(events) else None,
        "changed": rfc3339(changed_ms),
        "n": len(events),
        "population": sample.population,
        "weighted": not events.is_whole,
        "left_out": dict(sample.left_out),
        "insufficient": insufficient,
        "maps": maps,
        "evidence": {
            f"{better}_against_{other}": weigh(
                predictions[other], predictions[better], events.outcome, events.weight
            ).to_dict()
            if better in predictions and other in predictions
            else None
            for better, other in COMPARED
        },
    }
    told: dict[str, Any] = plain(document)
    return told


def _report(evaluate: Evaluate, prediction: Floats, events: LabelledEvents, draws: int) -> dict[str, Any]:
    # Measures of whole vectors take seconds each, which is too much for what is looked at all the time.
    p, y = (prediction, events.outcome) if events.is_binary else confidence_and_hit(prediction, events.outcome)
    weight = None if events.is_whole else events.weight
    return report_parts(evaluate(p, y, weight=weight, draws=draws).to_dict())


def _insufficient(events: LabelledEvents, since_ms: int) -> str | None:
    """Why there is nothing to be said yet, in words; None where there is."""
    n, since = len(events), rfc3339(since_ms)
    if n < LEAST_EVENTS:
        return f"{n} labelled event{'' if n == 1 else 's'} since {since}, at least {LEAST_EVENTS} are needed"
    hit = confidence_and_hit(events.prediction, events.outcome)[1]
    names = ("the outcome 1", "the outcome 0") if events.is_binary else ("their largest class", "another class")
    for name, count in zip(names, (int(hit.sum()), int((1.0 - hit).sum())), strict=True):
        if count < LEAST_OF_EACH:
            told = f"only {count:,} of {n:,} labelled events since {since} have {name}"
            return f"{told}, at least {LEAST_OF_EACH} are needed"
    return None
