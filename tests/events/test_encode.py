"""What is written is what is read."""

from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.events.encode import encode_labelled, encode_outcome, encode_prediction, partition_key
from monitor.events.fields import wrong_model
from monitor.events.model import Kind
from tests.events.messages import LABELLED, NOW_MS, OUTCOME, PREDICTION, decode, new_strata
from tests.events.test_cloudevents import structured
from tests.reference.naive_join import id_digest

names = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20)
models = names.filter(lambda name: wrong_model(name) is None)
ids = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40) | st.integers(-(10**30), 10**30)
moments = st.integers(946_684_800_000, NOW_MS)
probabilities = st.floats(0, 1)
declared = st.fixed_dictionaries(
    {},
    optional={
        "version": names | st.integers(),
        "segments": st.dictionaries(st.sampled_from(["region", "plan"]), names),
        "features": st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=5),
    },
)


@given(model=models, identifier=ids, ts=moments, p=probabilities, y=st.booleans(), more=declared)
def test_good_events_round_trip(
    *, model: str, identifier: str | int, ts: int, p: float, y: bool, more: dict[str, Any]
) -> None:
    strata = new_strata()
    decoded = decode(
        encode_prediction(model, identifier, ts, p, **more),
        encode_outcome(model, identifier, ts, y),
        encode_labelled(model, identifier, ts, p, int(y), **more),
        strata=strata,
    )
    columns = decoded.columns
    assert decoded.dead_letters == []
    assert columns.kind.tolist() == [Kind.PREDICTION, Kind.OUTCOME, Kind.LABELLED]
    assert columns.time_ms.tolist() == [ts] * 3
    np.testing.assert_array_equal(columns.prediction, [p, np.nan, p])
    assert columns.outcome.tolist() == [-1, y, y]
    assert {row.astype(">u8").tobytes() for row in columns.id_hash} == {id_digest(model, str(identifier))}
    if model != "undeclared":
        assert columns.stratum.tolist() == [0, -1, 0]
        (stratum,) = strata.strata
        assert stratum.version == str(more.get("version", "unversioned"))
        assert dict(stratum.segments) == more.get("segments", {})
    got = [None if features is None else features.tolist() for features in decoded.features]
    assert got == [more.get("features"), None, more.get("features")]


@pytest.mark.parametrize("ts", [NOW_MS, "2026-11-20T10:00:00Z"])
def test_every_form_of_a_time(ts: Any) -> None:
    assert decode(encode_outcome("churn", "a", ts, 1)).columns.time_ms.tolist() == [NOW_MS]


def test_numpy_scalars_are_written() -> None:
    more: Any = {"version": np.int64(7), "features": np.array([1, 2])}
    event = encode_labelled(
        "churn", *cast("Any", (np.int64(5), np.int64(NOW_MS), np.float32(0.5), np.bool_(True))), **more
    )
    columns = decode(event).columns
    assert (columns.time_ms.tolist(), columns.prediction.tolist(), columns.outcome.tolist()) == ([NOW_MS], [0.5], [1])


def test_prediction_and_outcome_have_one_key() -> None:
    assert partition_key(PREDICTION) == partition_key(OUTCOME) == partition_key(LABELLED) == b"7f3a"
    assert partition_key(structured()) == b"7f3a"
    assert partition_key(encode_outcome("churn", 7, NOW_MS, 1)) == partition_key(
        encode_outcome("churn", "7", NOW_MS, 1)
    )


@pytest.mark.parametrize(
    "value", [b"", b"{", b"[]", b'{"id":""}', b'{"id":1.5}', b'{"id":"\xff"}', b'{"a":' * 5000, b'{"specversion":"9"}']
)
def test_where_no_id_can_be_read_there_is_no_key(value: bytes) -> None:
    assert partition_key(value) is None


@given(value=st.binary())
def test_any_bytes_have_a_key_or_none(value: bytes) -> None:
    key = partition_key(value)
    assert key is None or isinstance(key, bytes)
