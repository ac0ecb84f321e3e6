"""Choose the topic and key of an event from a file."""

from typing import Any, Final

import msgspec

from monitor.events.encode import partition_key
from monitor.events.model import Kind
from monitor.sources.base import Message, Topics

_KINDS: Final = {"prediction": Kind.PREDICTION, "outcome": Kind.OUTCOME, "labelled": Kind.LABELLED}


class _Head(msgspec.Struct):
    """The fields that determine the type of an event."""

    type: str | None = None
    p: Any = None
    y: Any = None


_decode: Final = msgspec.json.Decoder(_Head).decode


def route(value: bytes, topics: Topics) -> Message:
    """Return the message of an event: keyed by its prediction's id (None if it has none), in the topic of its type.

    An event without a type, or whose type has no topic, goes to the topic of all types. Without such a topic it goes to
    the first one, and becomes a dead letter there.
    """
    by_kind = {kind: topic for topic, kind in topics.kinds.items()}
    kind = _kind(value) if len(by_kind) > 1 else None
    topic = by_kind.get(kind) or by_kind.get(None) or next(iter(topics.kinds))
    return Message(topic, value, key=partition_key(value))


def _kind(value: bytes) -> Kind | None:
    try:
        head = _decode(value)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    if head.type is not None:
        # A CloudEvent's type is a longer name that ends in ours.
        return _KINDS.get(head.type.rpartition(".")[2])
    # Events of a topic of one type need not name it; their fields determine it.
    if head.p is not None:
        return Kind.PREDICTION if head.y is None else Kind.LABELLED
    return None if head.y is None else Kind.OUTCOME
