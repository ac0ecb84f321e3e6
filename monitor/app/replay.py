"""Choose the topic and key of an event from a file."""

from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec

from monitor.app.parts import make_formats, make_json_topics
from monitor.app.settings import Settings
from monitor.clock import SystemClock
from monitor.errors import SettingsError
from monitor.events.cloudevents import event_fields
from monitor.events.encode import partition_key
from monitor.events.fields import Rejected, read_type
from monitor.events.formats.base import Format, Messages, kind_by_keys
from monitor.events.log import Topics
from monitor.events.model import Kind, Message, Record

_DEAD: Final = "have no readable id and will be dead letters"
_SEVERAL: Final = "hold no prediction, or several, and have no key: outcomes find them if all topics have one partition"


class Route(NamedTuple):
    """Where the lines of a file go."""

    message: Callable[[Record], Message]
    without_key: str
    """What is to be said of messages that have no key."""


def make_route(settings: Settings, topic: str | None) -> Route:
    """Where the lines of a file go: to the topic of their type, or all to ``topic``.

    Raises
    ------
    SettingsError
        No topic that is read takes JSON, or ``topic`` is read and takes none.
    """
    read = next((read for read in settings.source.topics.read.values() if read.name == topic), None)
    if read is None or read.is_ours:
        topics = make_json_topics(settings) if topic is None else Topics({topic: None})
        return Route(lambda record: route(record.value or b"", topics), _DEAD)
    if read.format != "json":
        raise SettingsError(
            f"messages of {read.name} are {read.format}, and lines of a file are JSON: write them with the producer's "
            "own serialiser, or name a topic of JSON"
        )
    mapped = make_formats(settings, SystemClock())[read.name]
    return Route(lambda record: _route_mapped(record, read.name, mapped), _SEVERAL)


def _route_mapped(record: Record, topic: str, mapped: Format) -> Message:
    """The message of a line in its producer's own words: keyed by the id of its event, if it holds one alone."""
    value = record.value or b""
    messages = Messages.of([record], len(value))
    events = mapped.decode(messages) if mapped.read_rows is None else mapped.read_rows(messages)[1]
    only = events[0] if len(events) == 1 else None
    return Message(topic, value, key=None if only is None else str(only.id).encode())


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
