"""Formats of events are found by scanning a folder; messages of several formats may share a batch."""

from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from monitor.clock import ManualClock
from monitor.events.codec import Decoder
from monitor.events.formats import load_formats
from monitor.events.model import Kind, Reason
from tests.events.messages import NOW_MS, OUTCOME, PREDICTION, decode

SEMICOLONS = """
from __future__ import annotations

import msgspec

from monitor.events.formats.base import Format
from monitor.events.model import Reason
from monitor.events.fields import Rejected
from monitor.events.wire import Event

class Row(msgspec.Struct):
    model: str
    identifier: str
    ts: int
    y: int

def parse(value):
    fields = dict(zip(Row.__struct_fields__, value[1:].decode().split(";")))
    row = msgspec.convert(fields, Row, strict=False)
    return Event(row.model, row.identifier, row.ts, "outcome", y=row.y)

def decode(messages):
    return [parse(value) if value.count(b";") == 3 else None for value in messages.values]

def examine(record, rules, default_kind):
    raise Rejected(Reason.MISSING_KEY, f"four fields are required, got {record.value!r}")

def matches(messages):
    return {row for row, value in enumerate(messages.values) if value[:1] == b"\\0"}

FORMAT = Format("semicolons", decode, examine, lambda kind: {"fields": ["model", "id", "ts", "y"]}, matches)
"""


def test_json_is_the_default_and_cloudevents_are_read() -> None:
    assert [declared.name for declared in load_formats()] == ["json", "cloudevents"]


def test_a_file_in_another_folder_adds_a_format(tmp_path: Path) -> None:
    (tmp_path / "semicolons.py").write_text(SEMICOLONS)
    decoder = Decoder(clock=ManualClock(NOW_MS), formats=load_formats(tmp_path))
    good = f"\0churn;7f3a;{NOW_MS};1".encode()
    envelope = b'{"specversion":"1.0","id":"1","source":"s","type":"x.prediction","data":' + PREDICTION + b"}"
    decoded = decode(PREDICTION, good, b"\0churn", b"{}", envelope, decoder=decoder)
    assert decoded.columns.kind.tolist() == [Kind.PREDICTION, Kind.OUTCOME, Kind.PREDICTION]
    assert len({tuple(digest) for digest in decoded.columns.id_hash.tolist()}) == 1
    assert [(letter.offset, letter.reason) for letter in decoded.dead_letters] == [
        (2, Reason.MISSING_KEY),
        (3, Reason.MISSING_KEY),
    ]
    assert decoded.dead_letters[0].detail == r"four fields are required, got b'\x00churn'"


def test_two_formats_of_one_name_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "again.py").write_text(SEMICOLONS.replace('"semicolons"', '"json"'))
    with pytest.raises(ValueError, match="two event formats have the same name: cloudevents, json, json"):
        load_formats(tmp_path)


def test_a_second_default_format_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "greedy.py").write_text(SEMICOLONS.replace(", matches)", ")"))
    with pytest.raises(ValueError, match="exactly one event format must have no matches"):
        load_formats(tmp_path)


@pytest.mark.parametrize("kind", Kind)
def test_the_schema_of_a_cloudevent_allows_what_the_envelope_completes(kind: Kind) -> None:
    (cloudevents,) = [declared for declared in load_formats() if declared.name == "cloudevents"]
    schema = Draft202012Validator(cloudevents.schema(kind))
    data = {"model": "m", "id": "1", **({} if kind == Kind.OUTCOME else {"p": 0.5}), "y": 1}
    event = {"specversion": "1.0", "id": "d", "source": "s", "type": f"x.{kind.name.lower()}", "data": data}
    Draft202012Validator.check_schema(cloudevents.schema(kind))
    assert schema.is_valid(event)
    assert not schema.is_valid({**event, "data": {"model": "m"}})
    assert not schema.is_valid({**event, "specversion": "2.0"})


def test_the_word_specversion_in_a_plain_event_does_not_matter() -> None:
    value = OUTCOME[:-1] + b',"note":"specversion"}'
    assert len(decode(value, value.replace(b'"note"', b'"specversion": null, "note"')).columns) == 2
