"""Choose the topic and key of an event from a file."""

import msgspec

from monitor.events.cloudevents import event_fields
from monitor.events.encode import partition_key
from monitor.events.fields import Rejected, read_type
from monitor.events.formats.base import kind_by_keys
from monitor.events.model import Kind
from monitor.sources.base import Message, Topics


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
        envelope, fields = event_fields(value)
        if fields.has("type"):
            return read_type(fields.type)
    except (msgspec.MsgspecError, ValueError, RecursionError, Rejected):
        return None
    if envelope.kind is not None:
        return envelope.kind
    # Events of a topic of one type need not name it; their fields determine it.
    return kind_by_keys(has_prediction=fields.has("p"), has_outcome=fields.has("y"))
