"""What a format of events declares, and the limits that every event must keep."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from monitor.clock import Clock, SystemClock
from monitor.events.model import Kind, Record
from monitor.events.times import DAY_MS
from monitor.events.wire import Event


@dataclass(frozen=True)
class Rules:
    """The limits of an event that the settings decide.

    Attributes
    ----------
    max_bytes
        Longest message that is read.
    max_ahead_ms
        How far an event's time may lie ahead of when its message was written, and of now.
    kind_by_keys
        Whether an event without a type, on a topic without one, gets it from its keys: see :func:`kind_by_keys`.
    classes
        Model -> number of its declared classes. Other models have one probability, P(y = 1).
    clock
        The wall clock.
    """

    max_bytes: int = 1_048_576
    max_ahead_ms: int = DAY_MS
    kind_by_keys: bool = False
    classes: Mapping[str, int] = field(default_factory=dict)
    clock: Clock = field(default_factory=SystemClock)

    def latest_ms(self, record_timestamp_ms: int) -> int:
        """Latest event time that a message may hold.

        A replay decides alike by the log's timestamp. Producers may set it, though: one of the future counts as now.
        """
        now_ms = self.clock.now_ms()
        return (min(record_timestamp_ms, now_ms) if record_timestamp_ms >= 0 else now_ms) + self.max_ahead_ms


class Messages(NamedTuple):
    """Messages of a batch that are decoded together."""

    records: Sequence[Record]
    values: Sequence[bytes]
    """The value of each record; b"" for a record that has none or a value that is too long."""
    joined: bytes
    """All values, back to back: one search here costs less than one in each value."""
    have_headers: bool
    """Whether any of the records has headers."""

    @classmethod
    def of(cls, records: Sequence[Record], max_bytes: int) -> "Messages":
        """The messages of these records."""
        values = [record.value or b"" for record in records]
        joined = b"".join(values)
        if len(joined) > max_bytes:
            values = [value if len(value) <= max_bytes else b"" for value in values]
        return cls(records, values, joined, any(record.headers for record in records))

    def at(self, rows: Iterable[int]) -> "Messages":
        """The messages in these rows."""
        values = [self.values[row] for row in rows]
        return Messages([self.records[row] for row in rows], values, b"".join(values), self.have_headers)


class Format(NamedTuple):
    """A format of events. A file in this folder declares one, as ``FORMAT``.

    Columns are built from the decoded :class:`~monitor.events.wire.Event` objects, with the checks that all formats
    share: so a format only has to get from bytes to those objects.
    """

    decode: Callable[[Messages], list[Event | None]]
    """The event of each message, decoded fast; None where ``examine`` has to decide."""
    examine: Callable[[Record, Rules, Kind | None], Event]
    """The event of one message, or :class:`~monitor.events.fields.Rejected` with the reason why it is not valid. The
    last argument is the type of the topic's events. Defines what is valid; only called where the fast path fails."""
    matches: Callable[[Messages], Collection[int]] | None = None
    """The rows of the messages that are in this format, cheaply found. None for the one default format, which gets all
    messages that no other format claims."""
    read_rows: Callable[[Messages], tuple[Sequence[Record], list[Event | None]]] | None = None
    """In place of ``decode``, of messages that hold any number of events: the rows of all messages, each with the
    offset and the bytes of its message, for ``examine``; and their events."""
    document: Callable[[Record], Mapping[str, Any]] | None = None
    """A whole message, decoded, of a format that can be mapped. Raises Rejected if it cannot be decoded."""


def kind_by_keys(*, has_prediction: bool, has_outcome: bool) -> Kind | None:
    """The type of an event without one: ``p`` is a prediction, ``y`` an outcome, both a labelled event."""
    if has_prediction:
        return Kind.LABELLED if has_outcome else Kind.PREDICTION
    return Kind.OUTCOME if has_outcome else None
