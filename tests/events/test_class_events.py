"""Events over several classes: lists of probabilities, and the class that came true."""

import json
from typing import Any

import numpy as np
import pytest

from monitor.clock import ManualClock
from monitor.events.codec import Decoded, Decoder
from monitor.events.encode import encode_labelled, encode_outcome, encode_prediction
from monitor.events.formats.base import Rules
from monitor.events.model import Kind, Reason, SeriesKey, Stratum
from tests.events.messages import NOW_MS, OF_CLASSES, Message, decode, new_strata
from tests.reference.naive_join import normalised


def prediction(p: Any, model: str = "digits", **more: Any) -> bytes:
    return json.dumps({"type": "prediction", "model": model, "id": "1", "ts": NOW_MS, "p": p, **more}).encode()


def outcome(y: Any, model: str = "digits") -> bytes:
    return json.dumps({"type": "outcome", "model": model, "id": "1", "ts": NOW_MS, "y": y}).encode()


def vectors_of(decoded: Decoded) -> list[list[float]]:
    vectors = decoded.columns.vectors
    if vectors is None:
        return [[]] * len(decoded.columns)
    return [part.tolist() for part in np.split(vectors.probabilities, np.cumsum(vectors.classes)[:-1])]


def test_a_batch_of_lists_alone() -> None:
    """Lists of one length, which numpy takes for a matrix."""
    decoded = decode(prediction([0.25, 0.5, 0.25]), prediction([0, 0, 1]))
    assert decoded.columns.prediction.tolist() == [0.5, 1.0]
    assert decoded.columns.outcome.tolist() == [-1, -1]
    assert vectors_of(decoded) == [[0.25, 0.5, 0.25], [0.0, 0.0, 1.0]]


def test_events_of_all_kinds_and_models_side_by_side() -> None:
    labelled = {"type": "labelled", "model": "digits", "id": "2", "ts": NOW_MS, "p": [0.5, 0.25, 0.25], "y": 2}
    decoded = decode(
        outcome(2),
        prediction([0.25, 0.5, 0.25], segments={"region": "eu"}),
        prediction(0.125, "churn"),
        json.dumps(labelled).encode(),
        outcome(0, "churn"),
        outcome(1),
    )
    assert not decoded.dead_letters
    assert decoded.columns.kind.tolist() == [
        Kind.OUTCOME,
        Kind.PREDICTION,
        Kind.PREDICTION,
        Kind.LABELLED,
        Kind.OUTCOME,
        Kind.OUTCOME,
    ]
    np.testing.assert_array_equal(decoded.columns.prediction, [np.nan, 0.5, 0.125, 0.5, np.nan, np.nan])
    assert decoded.columns.outcome.tolist() == [2, -1, -1, 2, 0, 1]
    assert vectors_of(decoded) == [[], [0.25, 0.5, 0.25], [], [0.5, 0.25, 0.25], [], []]


def test_probabilities_are_divided_by_their_sum() -> None:
    rng = np.random.default_rng(3)
    written = [[round(float(p), 4) for p in rng.dirichlet(np.ones(3))] for _ in range(200)]
    decoded = decode(*map(prediction, written))
    assert len({sum(vector) for vector in written}) > 2
    assert vectors_of(decoded) == [normalised(vector) for vector in written]
    assert decoded.columns.prediction.tolist() == [max(normalised(vector)) for vector in written]
    assert all(abs(sum(vector) - 1.0) < 1e-11 for vector in vectors_of(decoded))


def test_probabilities_that_add_up_to_1_but_for_rounding_stay_as_they_were_sent() -> None:
    rng = np.random.default_rng(4)
    written = rng.dirichlet(np.ones(3), 500).tolist()
    written += rng.dirichlet(np.ones(3), 500).astype(np.float32).astype(np.float64).tolist()
    assert len({sum(vector) for vector in written}) > 2
    assert vectors_of(decode(*map(prediction, written))) == written


@pytest.mark.parametrize("total", [0.9900001, 1.0099999])
def test_a_sum_may_lie_a_hundredth_off(total: float) -> None:
    assert len(decode(prediction([0.25, 0.25, total - 0.5])).columns) == 1


@pytest.mark.parametrize("total", [0.9899, 1.0101])
def test_a_sum_may_not_lie_further_off(total: float) -> None:
    (letter,) = decode(prediction([0.25, 0.25, total - 0.5])).dead_letters
    assert letter.reason is Reason.INVALID_PREDICTION
    assert f"must add up to 1 over the classes, got {total:g}" in letter.detail


def test_two_probabilities_of_a_binary_model_are_those_of_0_and_of_1() -> None:
    decoded = decode(prediction([0.75, 0.25], "churn"), prediction(0.5, "churn"), prediction([0.5, 0.5005], "churn"))
    assert decoded.columns.prediction.tolist() == [0.25, 0.5, 0.5005 / 1.0005]
    assert decoded.columns.vectors is None


def test_an_integer_with_a_fraction_of_zero_is_a_class() -> None:
    assert decode(outcome(2.0)).columns.outcome.tolist() == [2]


def test_in_a_cloudevent() -> None:
    event = {"model": "digits", "id": "1", "p": [0.25, 0.5, 0.25]}
    envelope = {"specversion": "1.0", "id": "d", "source": "/s", "type": "x.prediction", "time": "2026-11-20T10:00:00Z"}
    structured = json.dumps({**envelope, "data": event}).encode()
    binary = Message(json.dumps(event).encode(), [(f"ce_{key}", value.encode()) for key, value in envelope.items()])
    decoded = decode(structured, binary)
    assert vectors_of(decoded) == [[0.25, 0.5, 0.25]] * 2


def test_where_nothing_is_declared_a_list_names_what_to_declare() -> None:
    plain = Decoder(Rules(clock=ManualClock(NOW_MS)))
    (letter,) = decode(prediction([0.25, 0.5, 0.25]), decoder=plain).dead_letters
    assert letter.reason is Reason.UNSUPPORTED_MULTICLASS
    assert "name them in the settings under models.declared, as classes" in letter.detail


def test_a_refused_event_leaves_no_name_behind() -> None:
    strata = new_strata()
    decode(prediction(0.5, version="9"), prediction([0.5, 0.5], version="9"), outcome(3), strata=strata)
    assert strata.models == []
    assert strata.strata == []


def test_what_encode_writes_is_read() -> None:
    vector = np.array([0.25, 0.5, 0.25])
    decoded = decode(
        encode_prediction("digits", 1, NOW_MS, vector),
        encode_outcome("digits", 1, NOW_MS, 2),
        encode_labelled("digits", 2, NOW_MS, vector.tolist(), 1),
        encode_labelled("churn", 2, NOW_MS, (0.5, 0.5), True),
    )
    assert vectors_of(decoded) == [[0.25, 0.5, 0.25], [], [0.25, 0.5, 0.25], []]
    assert decoded.columns.outcome.tolist() == [-1, 2, 1, 1]


def test_each_class_is_a_series_of_its_model_and_version() -> None:
    strata = new_strata()
    decode(prediction([0.25, 0.5, 0.25], version="7", segments={"region": "eu"}), strata=strata)
    decode(prediction([0.25, 0.5, 0.25], version="7"), strata=strata)
    decode(prediction([0.25, 0.5, 0.25], version="8"), prediction(0.5, "churn"), strata=strata)
    first, classes, series = strata.class_fan_out()
    assert classes.tolist() == [3, 3, 3, 0]
    names = strata.series
    for stratum, (start, count) in enumerate(zip(first.tolist(), classes.tolist(), strict=True)):
        of = strata.strata[stratum]
        wanted = [SeriesKey(of.model, of.version, f"class={name}") for name in OF_CLASSES.classes[:count]]
        assert [names[at] for at in series[start : start + count]] == wanted
    assert len(series) == 6  # those of one version are shared by its segments
    assert Stratum("churn", "unversioned", ()).class_series(()) == ()
