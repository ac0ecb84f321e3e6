"""The published JSON Schemas and the decoder say the same of good and of bad events."""

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from monitor.events.formats.plain_json import event_schema
from monitor.events.model import Kind
from tests.events.messages import LABELLED, NOW_MS, OUTCOME, PREDICTION, decode

BASES = {Kind.PREDICTION: PREDICTION, Kind.OUTCOME: OUTCOME, Kind.LABELLED: LABELLED}
GONE: Any = object()
"""In place of the value of a key that is to be left out."""

OF_ALL: list[tuple[dict[str, Any], bool]] = [
    ({}, True),
    ({"type": GONE}, True),
    ({"type": None}, True),
    ({"extra": {"a": [1]}}, True),
    ({"id": 7}, True),
    ({"id": "x" * 512}, True),
    ({"id": "é" * 512}, True),
    ({"model": "m" * 128}, True),
    ({"ts": NOW_MS}, True),
    ({"ts": float(NOW_MS)}, True),
    ({"ts": "2026-11-20t10:00:00.123456789z"}, True),
    ({"ts": "2026-11-20 10:00:00-07:30"}, True),
    ({"type": "Prediction"}, False),
    ({"type": 1}, False),
    ({"id": GONE}, False),
    ({"id": ""}, False),
    ({"id": None}, False),
    ({"id": 7.5}, False),
    ({"id": True}, False),
    ({"id": "x" * 513}, False),
    ({"model": GONE}, False),
    ({"model": ""}, False),
    ({"model": 1}, False),
    ({"model": "m" * 129}, False),
    ({"model": "a\tb"}, False),
    ({"ts": GONE}, False),
    ({"ts": None}, False),
    ({"ts": NOW_MS + 0.5}, False),
    ({"ts": NOW_MS // 1000}, False),
    ({"ts": str(NOW_MS)}, False),
    ({"ts": "2026-11-20T10:00:00"}, False),
    ({"ts": "2026-11-20"}, False),
    ({"ts": "2026-13-20T10:00:00Z"}, False),
    ({"ts": "2026-11-20T24:00:00Z"}, False),
    ({"ts": "2026-11-20T10:00:00.Z"}, False),
    ({"ts": "2026-11-20T10:00:00+0100"}, False),
]
OF_PREDICTIONS: list[tuple[dict[str, Any], bool]] = [
    ({"p": 0}, True),
    ({"p": 1}, True),
    ({"p": 1.0}, True),
    ({"version": GONE}, True),
    ({"version": None}, True),
    ({"version": ""}, True),
    ({"version": 7}, True),
    ({"segments": None}, True),
    ({"segments": {}}, True),
    ({"segments": {"region": "eu", "plan": 1, "vip": True, "none": None}}, True),
    ({"segments": {"k" * 64: "v" * 128}}, True),
    ({"features": None}, True),
    ({"features": []}, True),
    ({"features": [0.1, -2]}, True),
    ({"features": "AACAPwAAAEA="}, True),
    ({"features": ""}, True),
    ({"features": [3.4028234e38]}, True),
    ({"p": GONE}, False),
    ({"p": None}, False),
    ({"p": 1.01}, False),
    ({"p": -0.01}, False),
    ({"p": "0.5"}, False),
    ({"p": True}, False),
    ({"p": [0.5, 0.5]}, True),
    ({"p": [1]}, False),
    ({"p": [0.5, "0.5"]}, False),
    ({"p": [1.5, 0]}, False),
    ({"p": [0.001] * 1001}, False),
    ({"version": 1.5}, False),
    ({"version": True}, False),
    ({"version": "v" * 129}, False),
    ({"version": "a\u0085b"}, False),
    ({"segments": "eu"}, False),
    ({"segments": {"region": ["eu"]}}, False),
    ({"segments": {"region": {}}}, False),
    ({"segments": {"": "eu"}}, False),
    ({"segments": {"a=b": "eu"}}, False),
    ({"segments": {"k" * 65: "v"}}, False),
    ({"segments": {"k": "v" * 129}}, False),
    ({"segments": {"k": "\x00"}}, False),
    ({"segments": {str(n): "v" for n in range(33)}}, False),
    ({"features": 7}, False),
    ({"features": ["1"]}, False),
    ({"features": [None]}, False),
    ({"features": [True]}, False),
    ({"features": [3.5e38]}, False),
    ({"features": [0] * 4097}, False),
    ({"features": "AAA"}, False),
    ({"features": "AA%="}, False),
]
OF_OUTCOMES: list[tuple[dict[str, Any], bool]] = [
    ({"y": 0}, True),
    ({"y": 1.0}, True),
    ({"y": True}, True),
    ({"y": False}, True),
    ({"y": GONE}, False),
    ({"y": None}, False),
    ({"y": -1}, False),
    ({"y": 1000}, False),
    ({"y": 0.5}, False),
    ({"y": "1"}, False),
    ({"y": [1]}, False),
]
BEYOND_A_SCHEMA: list[dict[str, Any]] = [
    {"ts": "2026-02-30T10:00:00Z"},
    {"ts": "2026-11-20T10:00:60Z"},
    {"ts": "1970-01-01T00:00:00Z"},
    {"ts": NOW_MS * 1000},
    {"id": 7.0},
    {"version": 7.0},
    {"p": [0.5, 0.25]},
    {"p": [0.2, 0.3, 0.5]},  # of a model that is not declared to have classes
    {"features": "AAAA"},
    {"features": "AADAfw=="},  # a float32 nan
]
"""What the decoder refuses and no schema sees, as the schemas' own description says."""

CASES = [
    *((kind, change, good) for kind in Kind for change, good in OF_ALL),
    *((kind, change, good) for kind in (Kind.PREDICTION, Kind.LABELLED) for change, good in OF_PREDICTIONS),
    *((kind, change, good) for kind in (Kind.OUTCOME, Kind.LABELLED) for change, good in OF_OUTCOMES),
]


def event_of(kind: Kind, change: dict[str, Any]) -> dict[str, Any]:
    event = json.loads(BASES[kind]) | change
    return {key: value for key, value in event.items() if value is not GONE}


@pytest.mark.parametrize("kind", list(Kind))
def test_the_schemas_are_schemas_and_their_examples_are_events(kind: Kind) -> None:
    schema = event_schema(kind)
    Draft202012Validator.check_schema(schema)
    assert schema["$id"] == f"urn:calibration-monitor:schema:{kind.name.lower()}:v1"
    for example in schema["examples"]:
        assert Draft202012Validator(schema).is_valid(example)
        assert len(decode(json.dumps(example).encode()).columns) == 1
    for key, definition in schema["properties"].items():
        for example in definition.get("examples", ()):
            assert Draft202012Validator(schema).is_valid(event_of(kind, {key: example})), key


@pytest.mark.parametrize(("kind", "change", "good"), CASES)
def test_schema_and_decoder_agree(kind: Kind, change: dict[str, Any], good: bool) -> None:
    event = event_of(kind, change)
    decoded = decode(json.dumps(event).encode(), default_kind=kind)
    assert (len(decoded.columns) == 1) is good, [letter.detail for letter in decoded.dead_letters]
    assert Draft202012Validator(event_schema(kind)).is_valid(event) is good


@pytest.mark.parametrize("change", BEYOND_A_SCHEMA)
def test_what_no_schema_sees_the_decoder_sees(change: dict[str, Any]) -> None:
    event = event_of(Kind.PREDICTION, change)
    assert Draft202012Validator(event_schema(Kind.PREDICTION)).is_valid(event)
    assert len(decode(json.dumps(event).encode()).dead_letters) == 1
