"""Raw and recalibrated scores side by side."""

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

import numpy as np
import pytest
from msgspec import to_builtins
from numpy.typing import NDArray

from monitor import evaluate
from monitor.local.calibration import confidence_and_hit
from monitor.maps import METHODS, apply_map, fit_map
from monitor.recalibration.guard import weigh
from monitor.recalibration.live import CANDIDATE, CHAMPION, NONE, Shown, live_document
from monitor.reports.evaluation.evaluate import evaluate as report_of
from monitor.scores.labelled import LabelledEvents
from monitor.store.recalibrations import Sample
from tests.recalibration.samples import START_MS, sample

DRAWS = 19
NOW_MS = START_MS + 10**9


def shown(method: str = "beta", number: int = 1, **told: Any) -> Shown:
    return Shown(f"rc_{number}", fit_map(METHODS[method], sample(3000, seed=9, **told)))


def told(events: LabelledEvents, shown: Mapping[str, Shown], **given: Any) -> dict[str, Any]:
    document = live_document(
        Sample(events, 2 * len(events), given.pop("left_out", {})),
        shown,
        since_ms=START_MS - 5,
        changed_ms=NOW_MS,
        evaluate=given.pop("evaluate", evaluate),
        draws=DRAWS,
    )
    assert not given
    return document.to_dict()


def applied(each: Shown | None, events: LabelledEvents) -> NDArray[np.float64]:
    """What a map makes of the predictions, or none."""
    if each is None:
        return events.prediction
    assert each.map is not None
    return apply_map(each.map, events.prediction, features=events.features)


def test_every_map_has_the_report_of_its_predictions() -> None:
    events = sample(2000)
    maps = {"champion": shown("temperature", 1), "candidate": shown("beta", 2)}
    document = told(events, maps, left_out={"features missing": 4})
    assert {key: document[key] for key in ("n", "population", "weighted", "insufficient", "left_out")} == {
        "n": 2000,
        "population": 4000,
        "weighted": False,
        "insufficient": None,
        "left_out": {"features missing": 4},
    }
    assert (document["since"], document["until"]) == ("2023-11-14T22:13:19.995Z", "2023-11-14T22:46:39.001Z")
    assert datetime.fromisoformat(document["changed"]).timestamp() * 1000 == NOW_MS
    assert [(name, each["id"], each["method"]) for name, each in document["maps"].items()] == [
        ("none", None, "identity"),
        ("champion", "rc_1", "temperature"),
        ("candidate", "rc_2", "beta"),
    ]
    for name, each in document["maps"].items():
        report = evaluate(applied(maps.get(name), events), events.outcome, draws=DRAWS).to_dict()
        assert each["measures"] == report["measures"]
        assert each["verdict"] == report["diagnosis"]
        assert each["missing"] is None
    # The slope is 1.5: the maps repair it.
    assert document["maps"]["none"]["verdict"]["verdict"] == "shape_miscalibration"
    smce = {name: each["measures"]["smce"]["value"] for name, each in document["maps"].items()}
    assert max(smce["champion"], smce["candidate"]) < smce["none"]


def test_evidence_is_that_of_the_guard() -> None:
    events = sample(2000)
    champion, candidate = shown("temperature", 1), shown("beta", 2)
    found = told(events, {"champion": champion, "candidate": candidate})["evidence"]
    p = {
        name: applied(each, events)
        for name, each in zip((NONE, CHAMPION, CANDIDATE), (None, champion, candidate), strict=True)
    }
    for better, other in (("champion", "none"), ("candidate", "none"), ("candidate", "champion")):
        assert found[f"{better}_against_{other}"] == to_builtins(
            weigh(p[other], p[better], events.outcome, events.weight)
        )
    assert found["champion_against_none"]["e_value"] > 20
    alone = told(events, {"candidate": candidate})
    assert alone["maps"]["champion"] is None
    assert alone["evidence"]["champion_against_none"] is alone["evidence"]["candidate_against_champion"] is None
    assert alone["evidence"]["candidate_against_none"] == found["candidate_against_none"]


def test_a_weighted_sample_is_measured_by_its_weights() -> None:
    events = sample(2000, weighted=True)
    document = told(events, {"champion": shown()})
    assert document["weighted"]
    report = evaluate(events.prediction, events.outcome, weight=events.weight, draws=DRAWS).to_dict()
    assert document["maps"]["none"]["measures"] == report["measures"]
    assert "tce" in document["maps"]["none"]["omitted"]


def test_of_many_classes_it_is_the_largest_probability() -> None:
    events = sample(2000, classes=3)
    document = told(events, {"champion": shown("temperature", classes=3)})
    confidence, hit = confidence_and_hit(events.prediction, events.outcome)
    assert document["maps"]["none"]["measures"] == evaluate(confidence, hit, draws=DRAWS).to_dict()["measures"]
    assert document["evidence"]["champion_against_none"]["e_value"] > 20


def test_the_measures_are_those_that_are_asked_for() -> None:
    chosen = partial(report_of, measures=["brier", "smce"])
    document = told(sample(500), {"champion": shown()}, evaluate=chosen)
    assert list(document["maps"]["champion"]["measures"]) == ["smce", "brier"]


@pytest.mark.parametrize(
    ("events", "why"),
    [
        (sample(99), r"99 labelled events since 2023-11-14T22:13:19.995Z, at least 100 are needed"),
        (sample(1), r"^1 labelled event since 2023-11-14T22:13:19.995Z, at least 100 are needed"),
        (sample(0), r"0 labelled events since 2023-11-14T22:13:19.995Z, at least 100 are needed"),
        (replace(sample(100), outcome=np.zeros(100, np.int64)), "only 0 of 100 .* have the outcome 1, at least 5"),
        (replace(sample(100), outcome=np.ones(100, np.int64)), "only 0 of 100 .* have the outcome 0, at least 5"),
    ],
)
def test_too_few_events_say_how_many_and_nothing_else(events: LabelledEvents, why: str) -> None:
    document = told(events, {"champion": shown()})
    assert document["n"] == len(events)
    assert re.search(why, document["insufficient"])
    for name in ("none", "champion"):
        each = document["maps"][name]
        assert (each["measures"], each["verdict"], each["insufficient"]) == ({}, None, document["insufficient"])
    assert set(document["evidence"].values()) == {None}
    assert (document["until"] is None) == (len(events) == 0)


def test_a_map_that_does_not_fit_says_why_and_the_others_are_measured() -> None:
    events = sample(1000, dimensions=2)
    document = told(events, {"champion": shown("lore", dimensions=3), "candidate": shown("beta", 2)})
    champion = document["maps"]["champion"]
    assert champion["missing"].startswith("the map cannot be applied to these events: ")
    assert "3" in champion["missing"]
    assert (champion["measures"], champion["method"], champion["id"]) == ({}, "lore", "rc_1")
    assert document["maps"]["candidate"]["measures"]
    assert document["evidence"]["candidate_against_none"] is not None
    assert document["evidence"]["candidate_against_champion"] is document["evidence"]["champion_against_none"] is None


def test_a_map_that_cannot_be_read_says_why() -> None:
    document = told(sample(1000), {"champion": Shown("rc_1", None, "the map cannot be read: damaged")})
    champion = document["maps"]["champion"]
    assert (champion["missing"], champion["method"]) == ("the map cannot be read: damaged", None)
    assert document["maps"]["none"]["measures"]
