"""Messages whose keys are elsewhere: a mapped message is what the event that it stands for is as JSON."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.app.parts import make_formats, make_json_topics
from monitor.app.settings.load import load_settings
from monitor.clock import SystemClock
from monitor.errors import SettingsError
from monitor.events.formats import avro, messagepack
from monitor.events.formats.json_schema import make_mapped_json
from monitor.events.mapping import FieldMapping, Values, compile_source
from monitor.events.model import Kind, Reason
from monitor.events.schemas import Framed
from tests.events.messages import NOW_MS, Message, decode, mapping_of
from tests.events.test_avro import Schemas, assert_same, encode, framed
from tests.events.test_schema_formats import decoder_of

MESSAGE: dict[str, Any] = {
    "request": {"id": 9003, "customer": {"region": "eu", "plan": None}},
    "scores": [0.25, 0.75],
    "created_at": 1_795_168_800.25,
    "inputs": {"amount": 12.5, "age": 40},
    "label": "fraud",
    "model.name": "ignored",
}
MAPPING = mapping_of(
    keys={"model": "=churn", "version": "$header.version", "id": "request.id", "ts": "created_at", "y": "label"},
    p=["scores[1]"],
    features=["inputs.amount", "inputs.age"],
    segments={"region": "request.customer.region", "plan": "request.customer.plan"},
    ts_unit="seconds",
    positive=["fraud", "true"],
    negative=["genuine", "false"],
)
EVENT = {
    "model": "churn",
    "version": "7",
    "id": 9003,
    "ts": NOW_MS + 250,
    "p": 0.75,
    "y": 1,
    "features": [12.5, 40],
    "segments": {"region": "eu"},
}


def mapped(message: dict[str, Any], mapping: FieldMapping = MAPPING, **of_message: Any) -> Any:
    value = Message(json.dumps(message).encode(), [("version", b"7")], **of_message)
    return decode(value, default_kind=Kind.LABELLED, decoder=decoder_of(make_mapped_json(mapping)))


def expected(event: dict[str, Any]) -> Any:
    return decode(json.dumps(event).encode(), default_kind=Kind.LABELLED)


def test_nested_paths_headers_constants_words_and_units() -> None:
    assert_same(mapped(MESSAGE), expected(EVENT))


def test_of_duplicate_keys_the_last_counts_as_without_a_mapping() -> None:
    twice = json.dumps(MESSAGE)[:-1] + ', "label": "fraud", "label": "genuine"}'
    value = Message(twice.encode(), [("version", b"7")])
    decoded = decode(value, default_kind=Kind.LABELLED, decoder=decoder_of(make_mapped_json(MAPPING)))
    assert_same(decoded, expected({**EVENT, "y": 0}))


@pytest.mark.parametrize(
    ("changed", "event"),
    [
        ({"label": "genuine"}, {"y": 0}),
        ({"label": True}, {"y": 1}),
        ({"label": "unknown"}, {"y": "unknown"}),
        ({"label": 1}, {"y": 1}),
        ({"created_at": 1_795_168_800}, {"ts": NOW_MS}),
        ({"created_at": "2026-11-20T10:00:00Z"}, {"ts": NOW_MS}),
        ({"created_at": float(10**300)}, {"ts": 10**300}),
        ({"scores": [0.25, 1.75]}, {"p": 1.75}),
        ({"request": {"id": "a", "customer": None}}, {"id": "a", "segments": None}),
        ({"inputs": {"amount": None, "age": 40}}, {"features": [None, 40]}),
    ],
)
def test_values_are_checked_as_those_of_json(changed: dict[str, Any], event: dict[str, Any]) -> None:
    assert_same(mapped(MESSAGE | changed), expected(EVENT | event))


@pytest.mark.parametrize(
    ("unit", "written"),
    [
        ("seconds", 1_795_168_800),
        ("milliseconds", NOW_MS),
        ("microseconds", 1_795_168_800_000_999),
        ("nanoseconds", 1_795_168_800_000_999_999),
    ],
)
def test_units_of_time(unit: Any, written: int) -> None:
    mapping = mapping_of(ts_unit=unit)
    assert mapped(EVENT | {"ts": written}, mapping).columns.time_ms.tolist() == [NOW_MS]


def test_what_is_not_mapped_is_where_json_has_it() -> None:
    assert_same(mapped(EVENT, mapping_of()), expected(EVENT))


def test_the_key_and_the_time_of_a_message() -> None:
    mapping = mapping_of(keys={"id": "$key", "ts": "$timestamp"}, ts_unit="seconds")
    event = {key: value for key, value in EVENT.items() if key not in {"id", "ts"}}
    decoded = mapped(event, mapping, key=b"abc", timestamp=NOW_MS)
    assert_same(decoded, expected(EVENT | {"id": "abc", "ts": NOW_MS}))


def test_a_source_for_each_class() -> None:
    mapping = mapping_of(keys={"model": "=digits", "y": "class"}, p=["a", "b", "c"])
    message = {"id": "1", "ts": NOW_MS, "a": 0.5, "b": 0.25, "c": 0.25, "class": 2}
    assert_same(mapped(message, mapping), expected({**message, "model": "digits", "p": [0.5, 0.25, 0.25], "y": 2}))


def test_a_missing_field_names_its_source() -> None:
    (letter,) = mapped({key: value for key, value in MESSAGE.items() if key != "scores"}).dead_letters
    assert letter.reason is Reason.MISSING_KEY
    assert "it has no p; the mapping takes model from =churn; version from $header.version" in letter.detail
    assert "p from scores[1]" in letter.detail


def test_the_other_formats_are_mapped_likewise() -> None:
    event = {key: value for key, value in EVENT.items() if key != "version"}
    schema = {
        "type": "record",
        "name": "Scored",
        "fields": [
            {
                "name": "request",
                "type": {
                    "type": "record",
                    "name": "Request",
                    "fields": [
                        {"name": "id", "type": "long"},
                        {"name": "customer", "type": {"type": "map", "values": ["null", "string"]}},
                    ],
                },
            },
            {"name": "scores", "type": {"type": "array", "items": "double"}},
            {"name": "created_at", "type": "double"},
            {"name": "inputs", "type": {"type": "map", "values": "double"}},
            {"name": "label", "type": "string"},
        ],
    }
    for format_, value in (
        (avro.make_format(Framed(Schemas(schema)), MAPPING), framed(encode(schema, MESSAGE))),
        (messagepack.make_format(None, MAPPING), msgspec.msgpack.encode(MESSAGE)),
    ):
        assert_same(decode(value, default_kind=Kind.LABELLED, decoder=decoder_of(format_)), expected(event))


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("a.b[1].c", 7),
        ("[odd.name]", 8),
        ("a[b][1][c]", 7),
        ("numbers.0", 9),
        ("a.b[9]", None),
        ("a.b.c", None),
        ("a.b[1].c.d", None),
        ("=a.b", "a.b"),
        ("$header.h", "x"),
        ("$header.none", None),
        ("$key", None),
    ],
)
def test_sources(source: str, value: Any) -> None:
    document = {"a": {"b": [0, {"c": 7}]}, "odd.name": 8, "numbers": {"0": 9}}
    mapping = mapping_of(keys={"version": source})
    rows = mapping.read(Values([document]), [Message(b"", [("h", b"x")])])
    assert rows.event(0).get("version") == value


@pytest.mark.parametrize("source", ["", "a..b", "a[", "[]", "a[].b[]", "$", "$nothing", "$header.", ".a", "a.", "a]b"])
def test_what_is_no_source(source: str) -> None:
    with pytest.raises(ValueError, match="must be a path such as"):
        compile_source(source)


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)),
    max_leaves=6,
)


@given(st.lists(st.dictionaries(st.sampled_from(list(MESSAGE)), JSON), max_size=4))
def test_messages_of_all_sorts_become_events_or_dead_letters(changes: list[dict[str, Any]]) -> None:
    values = [json.dumps(MESSAGE | changed).encode() for changed in changes]
    good = json.dumps(MESSAGE).encode()
    decoder = decoder_of(make_mapped_json(MAPPING))
    decoded = decode(good, *values, good, default_kind=Kind.LABELLED, decoder=decoder)
    assert len(decoded.columns) + len(decoded.dead_letters) == len(values) + 2
    assert {0, len(values) + 1}.isdisjoint(letter.offset for letter in decoded.dead_letters)


SETTINGS = """
source:
  topics:
    labelled:
      name: events
      mapping:
        model: =churn
        version: $header.version
        id: request.id
        ts: created_at
        ts_unit: seconds
        p: scores[1]
        y: label
        positive: [fraud]
        segments: {region: request.customer.region}
        features: [inputs.amount, inputs.age]
"""


def test_settings(tmp_path: Path) -> None:
    (tmp_path / "monitor.yaml").write_text(SETTINGS)
    settings = load_settings(tmp_path / "monitor.yaml", {})
    format_ = make_formats(settings, SystemClock())["events"]
    message = Message(json.dumps(MESSAGE).encode(), [("version", b"7")])
    assert_same(decode(message, default_kind=Kind.LABELLED, decoder=decoder_of(format_)), expected(EVENT))
    with pytest.raises(SettingsError, match="none of the topics"):
        make_json_topics(settings)
    (tmp_path / "monitor.yaml").write_text(SETTINGS.replace("scores[1]", "'scores[1'"))
    with pytest.raises(SettingsError, match=r"mapping\.p\[0\] must be a path such as .*got 'scores\[1'"):
        load_settings(tmp_path / "monitor.yaml", {})
