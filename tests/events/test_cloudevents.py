"""CloudEvents in both modes: what they complete, and what of them is broken."""

import base64
import json
from typing import Any

import pytest

from monitor.events.model import Kind, Reason
from tests.events.messages import LABELLED, NOW_MS, OUTCOME, PREDICTION, Message, decode

BARE = {"model": "churn", "id": "7f3a", "p": 0.83}
"""A prediction that leaves type and ts to its envelope."""
ATTRIBUTES = {
    "specversion": "1.0",
    "id": "delivery-1",
    "source": "/scoring",
    "type": "com.example.prediction",
    "time": "2026-11-20T09:00:00Z",
}
HOUR_MS = 3_600_000


def structured(data: Any = None, **attributes: Any) -> bytes:
    envelope: dict[str, Any] = {**ATTRIBUTES, "datacontenttype": "application/json", "data": data or BARE, **attributes}
    return json.dumps({key: value for key, value in envelope.items() if value is not ...}).encode()


def binary(data: Any = None, **attributes: Any) -> Message:
    headers = {**ATTRIBUTES, **attributes}
    return Message(
        json.dumps(data or BARE).encode(),
        [
            ("traceparent", b"00-1"),
            *((f"ce_{key}", str(value).encode()) for key, value in headers.items() if value is not ...),
        ],
    )


MODES = pytest.mark.parametrize("wrap", [structured, binary], ids=["structured", "binary"])


@MODES
def test_the_envelope_completes_type_and_time(wrap: Any) -> None:
    columns = decode(wrap()).columns
    assert columns.kind.tolist() == [Kind.PREDICTION]
    assert columns.time_ms.tolist() == [NOW_MS - HOUR_MS]
    assert columns.prediction.tolist() == [0.83]


@MODES
def test_the_events_own_fields_win(wrap: Any) -> None:
    columns = decode(wrap(json.loads(LABELLED)), wrap(json.loads(OUTCOME))).columns
    assert columns.kind.tolist() == [Kind.LABELLED, Kind.OUTCOME]
    assert columns.time_ms.tolist() == [NOW_MS, NOW_MS]


@MODES
@pytest.mark.parametrize(
    ("sort", "kind"),
    [
        ("prediction", Kind.PREDICTION),
        ("com.example.Prediction", Kind.PREDICTION),
        ("com.example.outcome.v2", Kind.OUTCOME),
        ("labelled", Kind.LABELLED),
        ("com.example.scored", Kind.LABELLED),  # the topic's
        ("v1", Kind.LABELLED),
        ("com.example.prediction.eu", Kind.LABELLED),
    ],
)
def test_the_last_word_of_the_type_counts(wrap: Any, sort: str, kind: Kind) -> None:
    decoded = decode(wrap({**BARE, "y": 1}, type=sort), default_kind=Kind.LABELLED)
    assert decoded.columns.kind.tolist() == [kind]


@MODES
def test_a_type_of_other_words_names_no_type(wrap: Any) -> None:
    (letter,) = decode(wrap(type="com.example.scored")).dead_letters
    assert letter.reason is Reason.MISSING_KEY


@MODES
def test_the_id_of_the_envelope_is_not_that_of_the_event(wrap: Any) -> None:
    (letter,) = decode(wrap({"model": "churn", "p": 0.5})).dead_letters
    assert letter.reason is Reason.MISSING_KEY
    assert "no id" in letter.detail


@MODES
def test_a_missing_time_is_missing(wrap: Any) -> None:
    (letter,) = decode(wrap(time=...)).dead_letters
    assert letter.reason is Reason.MISSING_KEY


@MODES
@pytest.mark.parametrize(
    ("time", "reason"), [("soon", Reason.INVALID_TIME), ("1970-01-01T00:00:00Z", Reason.TIME_OUT_OF_RANGE)]
)
def test_a_wrong_time_is_said_to_be_the_envelopes(wrap: Any, time: str, reason: Reason) -> None:
    (letter,) = decode(wrap(time=time)).dead_letters
    assert letter.reason is reason
    assert letter.detail.startswith("time ")


@MODES
def test_what_is_wrong_with_the_event_keeps_its_own_reason(wrap: Any) -> None:
    decoded = decode(wrap({**BARE, "p": 7}), wrap({**BARE, "features": "no"}), wrap({**BARE, "segments": 1}))
    assert [letter.reason for letter in decoded.dead_letters] == [
        Reason.INVALID_PREDICTION,
        Reason.INVALID_FEATURES,
        Reason.INVALID_SEGMENTS,
    ]


@MODES
@pytest.mark.parametrize(
    "broken",
    [
        {"specversion": "0.3"},
        {"specversion": "2.0"},
        {"specversion": ""},
        {"id": ""},
        {"source": ""},
        {"type": ""},
        {"id": ...},
        {"source": ...},
        {"type": ...},
    ],
)
def test_a_broken_envelope_is_refused(wrap: Any, broken: dict[str, Any]) -> None:
    # Even around an event that would need nothing of it.
    decoded = decode(PREDICTION, wrap(json.loads(PREDICTION), **broken), OUTCOME)
    (letter,) = decoded.dead_letters
    assert (letter.reason, letter.offset) == (Reason.INVALID_CLOUDEVENT, 1)
    assert next(iter(broken)) in letter.detail
    assert len(decoded.columns) == 2


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        ({"data": ...}, "got nothing"),
        ({"data": "text"}, "object"),
        ({"data": [1]}, "object"),
        ({"data_base64": "e30="}, "both"),
        ({"data": ..., "data_base64": "%%%"}, "base64"),
        ({"data": ..., "data_base64": "é"}, "base64"),
        ({"data": ..., "data_base64": 5}, "string"),
        ({"specversion": 1.0}, "specversion"),
        ({"source": 5}, "source"),
    ],
)
def test_a_broken_structured_envelope_is_refused(broken: dict[str, Any], says: str) -> None:
    (letter,) = decode(structured(**broken)).dead_letters
    assert letter.reason is Reason.INVALID_CLOUDEVENT
    assert says in letter.detail


def test_data_may_be_base64() -> None:
    packed = base64.b64encode(json.dumps(BARE).encode()).decode()
    assert len(decode(structured(data=..., data_base64=packed), structured(data_base64=None)).columns) == 2
    (letter,) = decode(structured(data=..., data_base64=base64.b64encode(b"{").decode())).dead_letters
    assert letter.reason is Reason.NOT_JSON


def test_later_minor_versions_are_read() -> None:
    assert len(decode(structured(specversion="1.1"), binary(specversion="1.0.2"[:3])).columns) == 2


def test_the_content_type_declares_the_structured_mode() -> None:
    header = [("Content-Type", b"application/cloudevents+json; charset=UTF-8")]
    decoded = decode(
        Message(structured(), header), Message(PREDICTION, header), Message(structured(specversion=...), header)
    )
    assert len(decoded.columns) == 1
    assert [(letter.offset, letter.reason) for letter in decoded.dead_letters] == [
        (1, Reason.INVALID_CLOUDEVENT),
        (2, Reason.INVALID_CLOUDEVENT),
    ]


def test_in_binary_mode_the_message_itself_is_the_event() -> None:
    own = {**json.loads(PREDICTION), "specversion": "what", "data": 5}
    assert len(decode(binary(own)).columns) == 1
    headers = binary().headers
    (letter,) = decode(Message(structured(), headers)).dead_letters
    assert letter.reason is Reason.UNKNOWN_TYPE  # the envelope's type, read as an event's


def test_a_batch_of_cloudevents_is_no_event() -> None:
    (letter,) = decode(b"[" + structured() + b"]").dead_letters
    assert letter.reason is Reason.NOT_AN_OBJECT


def test_headers_of_other_purposes_change_nothing() -> None:
    headers = [("ce_id", b"1"), ("content-type", b"application/json"), ("x", b"\xff")]
    assert len(decode(Message(PREDICTION, headers)).columns) == 1


def test_headers_without_values_are_survived() -> None:
    # Clients hand a null header over as None.
    nothing: Any = None
    decoded = decode(
        Message(PREDICTION, [("content-type", nothing), ("ce_x", nothing)]),
        Message(PREDICTION, [("ce_specversion", nothing)]),
    )
    assert [letter.reason for letter in decoded.dead_letters] == [Reason.INVALID_CLOUDEVENT]


def test_plain_and_enveloped_events_may_alternate() -> None:
    messages: list[Message | bytes] = [
        PREDICTION,
        structured(),
        b"{",
        structured(),
        binary(),
        OUTCOME,
        b"{",
        PREDICTION,
        structured(),
        OUTCOME,
    ]
    decoded = decode(*messages)
    assert [letter.offset for letter in decoded.dead_letters] == [2, 6]
    assert decoded.columns.kind.tolist() == [0, 0, 0, 0, 1, 0, 0, 1]
    assert ((decoded.columns.time_ms - NOW_MS) // HOUR_MS).tolist() == [0, -1, -1, -1, 0, 0, -1, 0]
