"""Where an event of a file goes."""

import pytest

from monitor.app.replay import route
from monitor.events.log import Topics
from monitor.events.model import Kind

APART = Topics({"p": Kind.PREDICTION, "o": Kind.OUTCOME, "l": Kind.LABELLED})
MIXED = Topics({"p": Kind.PREDICTION, "all": None})


@pytest.mark.parametrize(
    ("value", "topics", "topic", "key"),
    [
        (b'{"type":"prediction","id":"a","p":0.5}', APART, "p", b"a"),
        (b'{"type":"outcome","id":"a","y":1}', APART, "o", b"a"),
        (b'{"type":"labelled","id":7,"p":0.5,"y":1}', APART, "l", b"7"),
        (b'{"id":"a","p":0.5}', APART, "p", b"a"),
        (b'{"id":"a","y":1}', APART, "o", b"a"),
        (b'{"id":"a","y":1,"p":0.5}', APART, "l", b"a"),
        (b'{"type":"outcome","id":"a","y":1}', MIXED, "all", b"a"),
        (b'{"type":"prediction","id":"a","p":1}', MIXED, "p", b"a"),
        (b'{"type":"click","id":"a"}', MIXED, "all", b"a"),
        (b"not json", MIXED, "all", None),
        (b"\xff\xfe", APART, "p", None),
        (b'{"type":5,"id":"a"}', APART, "p", b"a"),
        (
            (
                b'{"specversion":"1.0","type":"com.example.outcome","source":"s","id":"e1",'
                b'"data":{"model":"m","id":"a","ts":1,"y":1}}'
            ),
            APART,
            "o",
            b"a",
        ),
    ],
)
def test_an_event_goes_to_the_topic_of_its_type_keyed_by_its_id(
    value: bytes, topics: Topics, topic: str, key: bytes | None
) -> None:
    message = route(value, topics)
    assert (message.topic, message.key, message.value) == (topic, key, value)
