import json
from typing import Any

import numpy as np
import pytest
from msgspec import to_builtins

from monitor import evaluate
from monitor.local import PrincipalComponents, Standardised, local_calibration_error
from monitor.maps import METHODS, RecalibrationMap, check_options, fit_map
from monitor.measures import ece, mce, smce
from monitor.recalibration.compare import MAX_SEGMENTS, Candidate, compare, compare_segments
from monitor.recalibration.comparison import Comparison
from monitor.recalibration.data import RefitData, refit_data
from monitor.recalibration.decision import prediction_rejection_ratio, reward
from monitor.recalibration.guard import weigh
from monitor.scores import ScoreTable
from monitor.scores.labelled import LabelledEvents
from tests.recalibration.samples import sample

DRAWS = 39


def compared(
    data: RefitData, method: str = "beta", champion: RecalibrationMap | str | None = None, **options: Any
) -> Candidate:
    if isinstance(champion, str):
        champion = fit_map(METHODS[champion], data.fit)
    (found,) = compare(
        data,
        [(METHODS[method], check_options(METHODS[method], {}))],
        map_id="rc_new",
        champion=None if champion is None else ("rc_old", champion),
        draws=DRAWS,
        **{"left_out": {}, **options},
    )
    return found


def comparison_of(found: Candidate) -> Comparison:
    assert found.comparison is not None
    return found.comparison


def document_of(found: Candidate) -> dict[str, Any]:
    return comparison_of(found).to_dict()


def window(events: LabelledEvents) -> RefitData:
    return refit_data(events, window_ms=10**12)


def test_a_comparison_holds_all_that_its_document_promises() -> None:
    data = window(sample(4000, local=0.5))
    shares: list[float] = []
    found = compared(
        data, champion="temperature", left_out={"without features": 3}, progress=lambda _, share: shares.append(share)
    )
    document = document_of(found)
    json.dumps(document, allow_nan=False)
    assert list(document) == [
        *("fit", "held_out", "maps", "segments", "segments_left_out", "evidence", "guard", "decision"),
    ]
    assert document["fit"] == {
        "n": 2800,
        "from": "2023-11-14T22:13:20.000Z",
        "to": "2023-11-14T22:59:59.001Z",
        "data_hash": data.fit.content_hash(),
        "changed_at": None,
        "change_p_value": None,
        "left_out": {"without features": 3},
    }
    assert document["held_out"]["n"] == 1200
    assert document["held_out"]["weighted"] is False
    assert list(document["maps"]) == ["none", "champion", "challenger"]
    for name, method, each in zip(
        document["maps"], ("identity", "temperature", "beta"), document["maps"].values(), strict=True
    ):
        assert each["method"] == method
        report = evaluate(found.predictions[name], data.held_out.outcome, draws=DRAWS).to_dict()
        assert each["measures"] == report["measures"]
        assert each["verdict"]["sentence"] == report["diagnosis"]["sentence"]
        for score in ("brier", "log_loss", "tce", "smce"):
            assert each["measures"][score]["lower"] is not None
    assert [each["id"] for each in document["maps"].values()] == [None, "rc_old", "rc_new"]
    assert shares == sorted(shares)
    assert shares[-1] < 1.0


@pytest.mark.parametrize("weighted", [False, True])
def test_local_errors_of_all_maps_are_seen_by_one_feature_map_of_the_fit(weighted: bool) -> None:
    data = window(sample(3000, local=0.5, weighted=weighted))
    found = compared(data)
    assert data.fit.features is not None
    assert data.held_out.features is not None
    phi = Standardised.fit(data.fit.features, data.fit.weight).apply(data.held_out.features)
    assert found.phi == pytest.approx(phi)
    for name in ("none", "challenger"):
        local = document_of(found)["maps"][name]["local"]
        expected = local_calibration_error(
            found.predictions[name],
            data.held_out.outcome,
            phi,
            weight=data.held_out.weight if weighted else None,
            draws=199,
            max_points=2000,
            seed=0,
        )
        assert local["mlce"]["value"] == expected.mlce
        assert local["mlce"]["excess"] == expected.mlce_excess
        assert local["mean_lce"]["excess"] == expected.mean_lce_excess
        assert (local["gamma"], local["dimensions"], local["n"]) == (0.4, 3, 900)


def test_many_features_are_reduced() -> None:
    data = window(sample(1500, dimensions=25))
    found = compared(data)
    assert data.fit.features is not None
    assert data.held_out.features is not None
    phi = PrincipalComponents.fit(data.fit.features, 20).apply(data.held_out.features)
    assert found.phi == pytest.approx(phi)
    assert found.phi is not None
    assert found.phi.shape[1] == 20


def test_evidence_is_against_what_serves_and_against_no_map() -> None:
    data = window(sample(3000, weighted=True))
    found = compared(data, champion="offset")
    held = data.held_out
    for name in ("none", "champion"):
        expected = weigh(found.predictions[name], found.predictions["challenger"], held.outcome, held.weight)
        assert document_of(found)["evidence"][f"against_{name}"] == to_builtins(expected)
    assert document_of(found)["guard"]["against"] == "champion"
    alone = compared(data)
    assert document_of(alone)["evidence"]["against_champion"] is None
    assert document_of(alone)["maps"]["champion"] is None
    assert document_of(alone)["guard"]["against"] == "none"


def test_a_repair_passes_and_the_same_again_does_not() -> None:
    data = window(sample(6000, slope=2.0))
    assert comparison_of(compared(data)).guard.passed
    again = comparison_of(compared(data, champion="beta")).guard
    assert not again.passed
    assert again.reasons[0].startswith("Not evidently better than the map that serves: ")


def test_a_map_of_a_calibrated_model_is_refused() -> None:
    found = compared(window(sample(6000, slope=1.0)), method="isotonic")
    assert not comparison_of(found).guard.passed
    assert document_of(found)["guard"]["passed"] is False


def test_a_champion_of_other_features_is_left_out_and_that_is_said() -> None:
    data = window(sample(6000, dimensions=4, slope=2.0))
    other = window(sample(3000, dimensions=3))
    found = compared(data, champion=fit_map(METHODS["lore"], other.fit))
    assert document_of(found)["maps"]["champion"] is None
    assert document_of(found)["guard"]["against"] == "none"
    (note,) = document_of(found)["guard"]["notes"]
    assert note.startswith("The map that serves could not be applied, and no map stands in its place: features must")
    assert comparison_of(found).guard.passed


def test_without_features_local_errors_are_missing_and_that_is_said() -> None:
    found = compared(window(sample(6000, dimensions=None, slope=2.0)))
    assert found.phi is None
    assert document_of(found)["maps"]["none"]["local"] is None
    assert comparison_of(found).guard.notes == (
        "Errors among events that are alike were not compared: these events have no features.",
    )
    assert comparison_of(found).guard.passed


def test_too_few_neighbours_are_said_too() -> None:
    found = compared(window(sample(400, dimensions=20)))
    assert document_of(found)["maps"]["none"]["local"] is None
    assert "effective neighbours" in comparison_of(found).guard.notes[0]


def test_of_weights_measures_that_need_whole_counts_are_left_out() -> None:
    data = window(sample(3000, weighted=True))
    found = compared(data)
    assert document_of(found)["held_out"]["weighted"] is True
    for name in ("none", "challenger"):
        each = document_of(found)["maps"][name]
        assert "tce" not in each["measures"]
        assert each["omitted"]["tce"] == "needs whole counts, not weights"
        table = ScoreTable.from_events(found.predictions[name], data.held_out.outcome, data.held_out.weight)
        assert each["measures"]["smce"]["value"] == pytest.approx(smce(table))


@pytest.mark.parametrize("weighted", [False, True])
def test_many_classes(weighted: bool) -> None:
    data = window(sample(4000, classes=3, weighted=weighted, slope=2.5))
    found = compared(data, method="temperature")
    none = document_of(found)["maps"]["none"]
    confidence = data.held_out.prediction.max(axis=1)
    hit = data.held_out.prediction.argmax(axis=1) == data.held_out.outcome
    weight = data.held_out.weight if weighted else None
    table = ScoreTable.from_events(confidence, hit.astype(float), weight)
    assert none["measures"]["ece"]["value"] == pytest.approx(ece(table))
    if weighted:
        assert none["canonical"] == {}
        assert none["omitted"]["canonical"] == "measures of whole vectors need events without weights"
    else:
        assert {"skce", "canonical_ece"} <= set(none["canonical"])
        assert "smce" in none["classwise"]
    assert comparison_of(found).guard.passed
    json.dumps(document_of(found), allow_nan=False)


def test_segments_are_measured_each_by_itself_the_worst_first() -> None:
    held = sample(6000, local=0.8, weighted=True)
    rng = np.random.default_rng(2)
    after = np.clip(held.prediction + rng.normal(0.0, 0.01, 6000), 0.0, 1.0)
    segments, left_out = compare_segments(held, {"none": held.prediction, "challenger": after})
    assert left_out == {}
    assert segments[-1].segment == "rare=yes"
    assert sum(segment.n for segment in segments[:2]) == 6000
    for name, rows in {
        "half=upper": held.segments["half"] == "upper",
        "half=lower": held.segments["half"] == "lower",
        "rare=yes": held.segments["rare"] == "yes",
    }.items():
        (segment,) = (segment for segment in segments if segment.segment == name)
        assert segment.champion is None
        assert segment.n == rows.sum()
        assert segment.positives == held.outcome[rows].sum()
        for side, p in (("none", held.prediction), ("challenger", after)):
            table = ScoreTable.from_events(p[rows], held.outcome[rows], held.weight[rows])
            errors = segment.none if side == "none" else segment.challenger
            assert (errors.smce, errors.ece, errors.mce) == pytest.approx((smce(table), ece(table), mce(table)))


def test_small_segments_and_those_beyond_the_cap_are_counted() -> None:
    n = 70 * (MAX_SEGMENTS + 5)
    plain = sample(n)
    values = np.array([f"s{number % (MAX_SEGMENTS + 5):03}" for number in range(n)])
    values[:3] = "tiny"
    held = LabelledEvents.of(plain.prediction, plain.outcome, segments={"shop": values})
    segments, left_out = compare_segments(held, {"none": plain.prediction, "challenger": plain.prediction})
    assert len(segments) == MAX_SEGMENTS
    assert left_out == {"fewer than 50 events": 1, "beyond the 100 largest": 5}


def test_decisions_are_those_of_each_map() -> None:
    data = window(sample(2000))
    found = compared(data)
    decision = document_of(found)["decision"]
    y, w = data.held_out.outcome, data.held_out.weight
    for name in ("none", "challenger"):
        p = found.predictions[name]
        assert decision["prediction_rejection_ratio"][name] == prediction_rejection_ratio(p, y, w)
        for row in decision["reward"]:
            assert row[name] == reward(p, y, w, row["cost_ratio"])


def test_what_is_infinite_is_null() -> None:
    events = sample(2000)
    p = events.prediction.copy()
    p[-5] = 1.0 - events.outcome[-5]
    certain = LabelledEvents.of(p, events.outcome, features=events.features)
    found = compared(window(certain), method="histogram")
    json.dumps(document_of(found), allow_nan=False)
    assert "log_loss" in document_of(found)["maps"]["none"]["omitted"]
    assert document_of(found)["evidence"]["against_none"]["log_loss_difference"] is None
