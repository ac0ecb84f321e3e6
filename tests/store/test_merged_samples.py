"""Closed samples of partitions and spans come to labelled events with weights that undo the sampling."""

import json

import numpy as np
import pytest

from monitor.store.closed_samples import BEYOND_CLASSES, NO_FEATURES, OTHER_CLASSES, OTHER_FEATURES, merge
from tests.store.drawn_samples import closed, random_rows, row


def test_what_was_never_full_is_whole_and_in_the_order_of_time() -> None:
    first, second = random_rows(40, 1), random_rows(30, 2)
    merged = merge([closed(first), closed(second)])
    events = merged.events
    assert merged.population == len(events) == 70
    assert events.is_whole
    assert events.time_ms.tolist() == sorted(event["time_ms"] for event in first + second)
    told = sorted(
        (event["time_ms"], event["prediction"][0], event["outcome"], *event["features"]) for event in first + second
    )
    assert events.features is not None
    found = zip(events.time_ms, events.prediction, events.outcome, *events.features.T, strict=True)
    assert sorted(tuple(map(float, each)) for each in found) == sorted(tuple(map(float, each)) for each in told)
    assert merged.left_out == {}


def test_the_order_of_samples_does_not_matter() -> None:
    samples = [closed(random_rows(50, seed), 20) for seed in range(4)]
    one, other = merge(samples, limit=30), merge(samples[::-1], limit=30)
    assert one.events.content_hash() == other.events.content_hash()


def test_times_are_from_and_before() -> None:
    rows = [row(at, time_ms=at) for at in range(1, 11)]
    merged = merge([closed(rows)], from_ms=3, to_ms=7)
    assert merged.events.time_ms.tolist() == [3, 4, 5, 6]
    assert merged.population == 4


def test_weights_undo_the_sampling() -> None:
    # A busy span keeps one in fifty, a quiet one all of it.
    busy, quiet = random_rows(5_000, 1), random_rows(300, 2)
    merged = merge([closed(busy, 100), closed(quiet, 300)])
    assert len(merged.events) == 400
    assert merged.population == 5_300
    assert merged.events.weight.mean() == pytest.approx(1.0)
    mean = np.average(merged.events.prediction, weights=merged.events.weight)
    truth = np.mean([event["prediction"][0] for event in busy + quiet])
    assert abs(mean - truth) < 0.01 < abs(np.mean(merged.events.prediction) - truth) + 0.01
    per_event = merged.population / len(merged.events)
    assert (merged.events.weight * per_event).sum() == pytest.approx(5_300)


def test_a_limit_takes_from_all_spans_alike() -> None:
    # By the upper half of the hashes, which decided who of the busy span is in, nearly all would be of that.
    busy = [row(at) for at in range(20_000)]
    quiet = [row(at, segments='[["span","quiet"]]') for at in range(20_000, 21_000)]
    merged = merge([closed(busy, 1_000), closed(quiet, 1_000)], limit=400)
    assert len(merged.events) == 400
    is_quiet = merged.events.segments["span"] == "quiet"
    assert 170 < np.count_nonzero(is_quiet) < 230
    assert merged.population == 21_000
    assert merged.events.weight[is_quiet].sum() / merged.events.weight.sum() == pytest.approx(1 / 21, abs=0.01)


def test_a_limit_is_stratified() -> None:
    rows = [*(row(at, p=0.3) for at in range(1, 501)), *(row(at, p=0.0005) for at in range(501, 511))]
    merged = merge([closed(rows)], limit=100)
    rare = merged.events.prediction == 0.0005
    assert np.count_nonzero(rare) == 10
    assert merged.events.weight[rare].sum() / merged.events.weight.sum() == pytest.approx(10 / 510)


def test_what_does_not_fit_most_is_left_out_and_counted() -> None:
    rows = [
        *random_rows(20, 1),
        *random_rows(3, 2, prediction=[0.2, 0.3, 0.5]),
        *random_rows(4, 3, features=None),
        *random_rows(2, 4, features=[]),
        *random_rows(5, 5, features=[1.0, 2.0, 3.0]),
        row(10_007, outcome=4),
    ]
    merged = merge([closed(rows)])
    assert merged.left_out == {OTHER_CLASSES: 3, BEYOND_CLASSES: 1, NO_FEATURES: 6, OTHER_FEATURES: 5}
    assert len(merged.events) == merged.population == 20
    assert merged.events.features is not None
    assert merged.events.features.shape == (20, 2)


def test_where_most_have_no_features_none_has_and_none_is_left_out() -> None:
    rows = [*random_rows(20, 1, features=None), *random_rows(5, 2)]
    merged = merge([closed(rows)])
    assert merged.events.features is None
    assert len(merged.events) == 25
    assert merged.left_out == {}


def test_many_classes_keep_their_vectors() -> None:
    vectors = [[0.5, 0.25, 0.25], [0.125, 0.125, 0.75]]
    merged = merge([closed([row(at, prediction=vector, outcome=2) for at, vector in enumerate(vectors, 1)])])
    assert merged.events.classes == 3
    assert sorted(merged.events.prediction.tolist()) == sorted(vectors)
    assert merged.events.outcome.tolist() == [2, 2]


def test_segments_are_told_by_key() -> None:
    segments = [[["region", "eu"]], [], [["region", "us"], ["tier", "größe\0"]]]
    rows = [row(at, time_ms=at, segments=json.dumps(pairs)) for at, pairs in enumerate(segments, 1)]
    events = merge([closed(rows[:1]), closed(rows[1:])]).events
    assert events.segments["region"].tolist() == ["eu", "", "us"]
    assert events.segments["tier"].tolist()[:2] == ["", ""]


def test_of_nothing_comes_nothing() -> None:
    for merged in (merge([]), merge([closed([row(1)])], from_ms=1), merge([closed([])])):
        assert len(merged.events) == 0
        assert merged.population == 0
        assert merged.events.features is None
