"""JSON and CloudEvents: messages of both may share a batch."""

from monitor.events.formats import cloudevents, load_formats, plain_json
from monitor.events.model import Kind, Reason
from tests.events.messages import OUTCOME, PREDICTION, decode


def test_json_is_the_default_and_cloudevents_are_read() -> None:
    assert load_formats() == (plain_json.FORMAT, cloudevents.FORMAT)


def test_messages_of_both_formats_share_a_batch() -> None:
    envelope = b'{"specversion":"1.0","id":"1","source":"s","type":"x.prediction","data":' + PREDICTION + b"}"
    decoded = decode(PREDICTION, b"{}", envelope)
    assert decoded.columns.kind.tolist() == [Kind.PREDICTION, Kind.PREDICTION]
    assert [(letter.offset, letter.reason) for letter in decoded.dead_letters] == [(1, Reason.MISSING_KEY)]


def test_the_word_specversion_in_a_plain_event_does_not_matter() -> None:
    value = OUTCOME[:-1] + b',"note":"specversion"}'
    assert len(decode(value, value.replace(b'"note"', b'"specversion": null, "note"')).columns) == 2
