"""What is found of maps on live events, in memory, for whatever reads it."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from monitor.measures import WINDOW_MEASURES
from monitor.measures.base import Measure
from monitor.recalibration.comparison import LiveComparison
from monitor.recalibration.live import LiveState
from monitor.store.recalibrations import Champion, JobState, Tally
from tests.snapshots import NOW_MS, result

VERSION = ("churn", "7")


def map_of(map_id: str | None, measures: Iterable[Measure] = WINDOW_MEASURES.values(), **told: Any) -> dict[str, Any]:
    """One map's part of a document; each measure is a little above the one before."""
    return {
        "id": map_id,
        "method": "beta",
        "describe": "",
        "measures": {
            each.name: asdict(result(each.unit, (10 if each.unit == "percent" else 0.1) + at / 100))
            for at, each in enumerate(measures)
        },
        "verdict": {"verdict": "calibrated", "sentence": ""},
        "insufficient": None,
        "omitted": {},
        "missing": None,
        **told,
    }


def evidence(log10_e: float) -> dict[str, Any]:
    """Evidence of a difference that is not looked at."""
    difference = {"brier_difference": -0.01, "lower": -0.02, "upper": 0.0, "log_loss_difference": None}
    return {"e_value": 10.0**log10_e, "log10_e": log10_e, **difference}


def document(measures: Iterable[Measure] = WINDOW_MEASURES.values(), **told: Any) -> dict[str, Any]:
    """A document with everything that a document can hold."""
    measures = tuple(measures)
    return {
        "since": "2027-01-15T07:00:00.000Z",
        "until": "2027-01-15T08:00:00.000Z",
        "changed": "2027-01-15T08:00:00.500Z",
        "n": 1234,
        "population": 5000,
        "weighted": False,
        "left_out": {},
        "insufficient": None,
        "maps": {
            "none": map_of(None, measures),
            "champion": map_of("rc_1", measures),
            "candidate": map_of("rc_2", measures),
        },
        "evidence": {
            "champion_against_none": evidence(4.5),
            "candidate_against_none": evidence(5.5),
            "candidate_against_champion": evidence(-0.5),
        },
        **told,
    }


def state(measures: Iterable[Measure] = WINDOW_MEASURES.values(), **told: Any) -> LiveState:
    """Of a model with a champion and a candidate, after five refits and one under way."""
    values: dict[str, Any] = {
        "documents": {VERSION: LiveComparison.of(document(measures))},
        "champions": [Champion(*VERSION, "rc_1", NOW_MS, 1)],
        "tallies": [
            Tally("churn", JobState.CANDIDATE, 2, NOW_MS + 2000, NOW_MS),
            Tally("churn", JobState.CHAMPION, 1, NOW_MS - 9000, NOW_MS - 9500),
            Tally("churn", JobState.FAILED, 1, NOW_MS - 4000, NOW_MS - 7000),
            Tally("churn", JobState.REJECTED, 1, NOW_MS - 5000, NOW_MS - 5500),
            Tally("churn", JobState.RUNNING, 1, None, None),
        ],
        "updated_ms": NOW_MS + 3000,
        "duration_seconds": 0.75,
        **told,
    }
    return LiveState(**values)


@dataclass
class Maps:
    """Stands where the live monitor stands."""

    latest: LiveState = field(default_factory=state)
    known: Mapping[tuple[str, str], None] = field(default_factory=lambda: {VERSION: None})
