"""Laws of the decoder, over whatever bytes: one fate each, the same alone as in company, the same fast as slow."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from monitor.clock import ManualClock
from monitor.events.codec import Decoded
from monitor.events.examine import examine
from monitor.events.features import read_features
from monitor.events.fields import Rejected
from monitor.events.formats.base import Rules
from monitor.events.model import DeadLetter, EventColumns, Kind, Reason
from monitor.events.wire import ABSENT, Event
from tests.events.messages import CLASSES, NOW_MS, Message, decode, new_strata
from tests.long import examples

json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
VALUES: dict[str, list[Any]] = {
    "type": ["prediction", "outcome", "labelled", "other", None],
    "model": ["a", "digits", "b", "undeclared", "", "\n", 5],
    "id": ["x", "y", 1, 1.0, "", None, 2**64, "é"],
    "ts": [NOW_MS, NOW_MS - 1, float(NOW_MS), "2026-11-20T10:00:00Z", "2026-11-20T10:00:00", "", 0, None, True, 1e300],
    "p": [
        0.5,
        [0.25, 0.5, 0.2505],
        [0.5, 0.4999],
        0,
        1,
        1.5,
        -0.0,
        True,
        None,
        "0.5",
        [0.5, 0.6],
        [],
        [0.5, 0.5, True],
    ],
    "y": [0, 1, 2, True, False, 1.0, 2.0, 0.5, None, "1", 3],
    "version": ["1", 1, 1.5, "", None, "\x00"],
    "segments": [{}, {"region": "eu"}, {"region": "us", "plan": 1}, {"region": []}, None, 5, {"a=": "x"}],
    "features": [[1, 2.5], [], "AACAPw==", "AAA", None, [1e39], 5],
    "specversion": ["1.0", "1.1", "0.3", 1, None],
    "source": ["s", "t", "", 1],
    "time": ["2026-11-20T09:00:00Z", "2026-11-20T09:00:00.5+01:00", "", None, 5],
    "data_base64": ["e30=", "", "%", 5],
}
REQUIRED = {"type", "model", "id", "ts", "p", "y"}


def keys(names: set[str], more: set[str]) -> st.SearchStrategy[dict[str, Any]]:
    """Good values of keys, the first of which are always there."""
    good = {name: st.sampled_from(VALUES[name][: 3 if name == "type" else 2]) for name in names | more}
    # In a fixed order, so that every run draws the same events.
    return st.fixed_dictionaries(
        {name: good[name] for name in sorted(names)}, optional={name: good[name] for name in sorted(more)}
    )


odd = st.sampled_from([(name, value) for name, values in VALUES.items() for value in values]).map(
    lambda pair: dict([pair])
)
ragged = (
    odd
    | st.builds(lambda first, second: {**first, **second}, odd, odd)
    | st.dictionaries(st.sampled_from(sorted(VALUES)), json_values, max_size=2)
)
good_events = keys(REQUIRED, {"version", "segments", "features"})
plain = good_events | st.builds(lambda event, change: {**event, **change}, good_events, ragged)
enveloped = st.builds(
    lambda data, envelope, sort: {"id": "1", "type": sort, **envelope, "data": data},
    plain | keys({"model", "id", "p"}, {"type", "ts", "y"}) | json_values,
    st.builds(lambda event, change: {**event, **change}, keys({"specversion", "source"}, {"time"}), ragged),
    st.sampled_from(["com.example.prediction", "outcome", "x", ""]),
)
objects = plain | ragged | enveloped
written = st.one_of(
    objects.map(lambda event: json.dumps(event).encode()),
    objects.map(lambda event: json.dumps(event, ensure_ascii=False, indent=1).encode("utf-8", "replace")),
    # Two events of which the second overwrites what it names again.
    st.builds(lambda first, second: (json.dumps(first)[:-1] + ", " + json.dumps(second)[1:]).encode(), plain, ragged),
)
torn = st.builds(
    lambda value, at, by: value[: at % (len(value) + 1)] + by + value[at % (len(value) + 1) :],
    written,
    st.integers(0, 400),
    st.binary(max_size=3) | st.sampled_from([b"{", b"}", b"[", b"]", b",", b'"', b"},{", b"NaN"]),
)
fragments = st.sampled_from(
    [b"{", b"}", b"{},{}", b"[{", b"}]", b'{"x":[{}', b"{}]}", b'"', b'{"x":"', b"\\", b",", b"[" * 3000]
)
headers = st.lists(
    st.tuples(
        st.sampled_from(["ce_specversion", "ce_id", "CE_type", "ce_type", "ce_source", "ce_time", "content-type", "x"]),
        st.sampled_from(
            [b"1.0", b"a", b"prediction", b"", b"2026-11-20T09:00:00Z", b"application/cloudevents+json", b"\xff"]
        ),
    ),
    max_size=6,
) | st.just(
    [
        ("ce_specversion", b"1.0"),
        ("ce_id", b"1"),
        ("ce_source", b"s"),
        ("ce_type", b"x.outcome"),
        ("ce_time", b"2026-11-20T09:00:00Z"),
    ]
)
messages = st.builds(
    Message,
    value=written | written | torn | fragments | st.binary(max_size=20) | st.none(),
    headers=st.just(()) | headers,
    timestamp=st.sampled_from([NOW_MS, NOW_MS, -1, 0, 2**63 - 1]),
    key=st.none() | st.binary(max_size=3),
)
kinds = st.none() | st.sampled_from(Kind)


def vectors_of(columns: EventColumns) -> list[NDArray[np.float64]]:
    """The probabilities of each event, none for one of no several classes."""
    if columns.vectors is None:
        return [np.empty(0)] * len(columns)
    return np.split(columns.vectors.probabilities, np.cumsum(columns.vectors.classes)[:-1])


def rows_of(decoded: Decoded, strata: Any) -> list[tuple[Any, ...]]:
    """Each row as values, with names in place of ids."""
    columns = decoded.columns
    vectors = vectors_of(columns)
    return [
        (
            int(columns.kind[at]),
            columns.id_hash[at].tolist(),
            int(columns.time_ms[at]),
            repr(float(columns.prediction[at])),
            int(columns.outcome[at]),
            vectors[at].tolist(),
            strata.models[columns.model[at]] if columns.model[at] >= 0 else None,
            strata.strata[columns.stratum[at]] if columns.stratum[at] >= 0 else None,
            None if (features := decoded.features[at]) is None else features.tolist(),
        )
        for at in range(len(columns))
    ]


def without_offset(letter: DeadLetter) -> DeadLetter:
    return letter._replace(offset=0)


@given(batch=st.lists(messages, max_size=8), kind=kinds)
@examples(100, 300)
def test_every_message_has_one_fate_the_same_alone_as_in_company(batch: list[Message], kind: Kind | None) -> None:
    strata = new_strata()
    together = decode(*batch, default_kind=kind, strata=strata)
    assert len(together.columns) + len(together.dead_letters) == len(batch)
    assert len(together.features) == len(together.columns)

    alone_strata = new_strata()
    alone = [decode(message, default_kind=kind, strata=alone_strata) for message in batch]
    assert rows_of(together, strata) == [row for one in alone for row in rows_of(one, alone_strata)]
    assert [without_offset(letter) for letter in together.dead_letters] == [
        letter for one in alone for letter in one.dead_letters
    ]
    assert [letter.offset for letter in together.dead_letters] == [
        offset for offset, one in enumerate(alone) if one.dead_letters
    ]
    # Names are interned in log order, whatever the way that each message took.
    assert (strata.models, strata.strata) == (alone_strata.models, alone_strata.strata)


@given(message=messages, kind=kinds)
@examples(150, 500)
def test_the_fast_path_takes_nothing_that_the_examiner_refuses(message: Message, kind: Kind | None) -> None:
    why: Rejected | None
    try:
        event = examine(message, Rules(clock=ManualClock(NOW_MS), classes=CLASSES), kind)
        features = None if event.features is ABSENT else read_features(event.features)
    except Rejected as rejected:
        why = rejected
    else:
        why = None
    if why is not None:
        (letter,) = decode(message, default_kind=kind).dead_letters
        assert (letter.reason, letter.value, letter.key) == (why.reason, message.value, message.key)
        return
    plain_message = Message(_plainest(event, features), timestamp=message.timestamp)
    strata, plain_strata = new_strata(), new_strata()
    assert rows_of(decode(message, default_kind=kind, strata=strata), strata) == rows_of(
        decode(plain_message, strata=plain_strata), plain_strata
    )


def _plainest(event: Event, features: NDArray[np.float32] | None) -> bytes:
    fields: dict[str, Any] = {"type": event.type, "model": event.model, "id": event.id, "ts": event.ts}
    if event.p is not None:
        fields["p"] = event.p
    if event.y is not None:
        fields["y"] = event.y
    if event.version is not None:
        fields["version"] = event.version
    if bytes(event.segments):
        fields["segments"] = json.loads(bytes(event.segments))
    if features is not None:
        fields["features"] = features.tolist()
    return json.dumps(fields).encode()


@given(value=st.binary())
def test_any_bytes_are_an_event_or_a_dead_letter(value: bytes) -> None:
    decoded = decode(value)
    assert len(decoded.columns) + len(decoded.dead_letters) == 1


@pytest.mark.parametrize(
    "garbage", [b"{},{}", b'{"x":[{}', b"{}]}", b"", None, b"{", b"\xff", b"[" * 5000, b'{"type":"prediction"}']
)
def test_garbage_anywhere_changes_nothing_for_its_neighbours(garbage: bytes | None) -> None:
    rng = np.random.default_rng(4)
    good = [
        json.dumps(
            {"type": "prediction", "model": "a", "id": n, "ts": NOW_MS - n, "p": round(rng.random(), 3)}
        ).encode()
        for n in range(50)
    ]
    expected = decode(*good).columns
    for _ in range(10):
        dirty: list[bytes | None] = list(good)
        places = sorted(rng.choice(51, size=int(rng.integers(1, 20))).tolist(), reverse=True)
        for at in places:
            dirty.insert(at, garbage)
        decoded = decode(*dirty)
        assert len(decoded.dead_letters) == len(places)
        for name in expected.__slots__:
            np.testing.assert_array_equal(getattr(decoded.columns, name), getattr(expected, name))
        assert [dirty[letter.offset] for letter in decoded.dead_letters] == [garbage] * len(places)


@pytest.mark.long
def test_most_messages_of_the_laws_come_through_somewhere() -> None:
    """The strategies above reach both fates and all three types: else the laws would say little."""
    fates: set[Any] = set()

    @given(message=messages, kind=kinds)
    # How many are needed depends on the constants that Hypothesis finds in the modules that happen to be imported.
    @settings(max_examples=4000)
    def gather(message: Message, kind: Kind | None) -> None:
        decoded = decode(message, default_kind=kind)
        fates.update(decoded.columns.kind.tolist())
        fates.update(letter.reason for letter in decoded.dead_letters)

    gather()
    assert fates.issuperset(Kind)
    assert len(fates) >= 18
    assert Reason.UNSUPPORTED_MULTICLASS in fates
