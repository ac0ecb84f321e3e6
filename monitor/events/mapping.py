"""Where the keys of an event are found in messages that have others.

A source is written as

- ``scores.positive``, ``outputs[0].data[1]``, ``[a name.with dots]``: a path into nested maps, records and lists,
- ``instances[].score``: the same in each item of a list; the message is then a batch, of one event for each item,
- ``$key``, ``$timestamp``, ``$header.NAME``: the message's key, the time it was written at, and a header,
- ``=churn``: this text, in all messages.

A path that goes on into a text reads the text: as JSON, or else as CSV, a list with a value for each line, and a list
of values for a line of several. Data capture writes answers so.
"""

import csv
import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple

import msgspec

from monitor.events.arrow_events import KEYS
from monitor.events.fields import MAX_ID_CHARACTERS, Rejected
from monitor.events.model import Reason, Record

Document = Mapping[str, Any]
"""A decoded message: keys to plain values, lists and mappings, dates and decimals."""

Unit = Literal["seconds", "milliseconds", "microseconds", "nanoseconds"]

UNITS: Final[dict[Unit, tuple[int, int]]] = {
    "seconds": (1000, 1),
    "milliseconds": (1, 1),
    "microseconds": (1, 1_000),
    "nanoseconds": (1, 1_000_000),
}
"""Milliseconds are ticks times the first, divided by the second."""
_STEP: Final = re.compile(r"(?:^|(?<=[^.])\.)([^.\[\]$=][^.\[\]]*)|\[([^\[\]]*)\]")
_HEADER: Final = "$header."


class Source(NamedTuple):
    """Where a value is found."""

    read: Callable[[Document, Record], Any]
    """The value in a message, None where it has none; of a source with ``[]`` the list of the rows' items."""
    steps_in_row: Sequence[str | int] | None = None
    """The path from an item of that list to the row's value; None for a source without ``[]``."""
    steps: Sequence[str | int] | None = None
    """The path from the message to the value; None for a source that is none, or has ``[]``."""


def compile_source(text: str) -> Source:
    """Compile a source.

    Raises
    ------
    ValueError
        The text is no source. Says what it must be.
    """
    if text.startswith("="):
        return Source(lambda *_: text[1:])
    if text == "$key":
        return Source(lambda _, record: _text(record.key))
    if text == "$timestamp":
        return Source(lambda _, record: record.timestamp if record.timestamp >= 0 else None)
    if text.startswith(_HEADER) and text != _HEADER:
        return _header_source(text.removeprefix(_HEADER))
    steps: list[str | int] = []
    at = 0
    while match := _STEP.match(text, at):
        name, inside = match.groups()
        steps.append(name if name is not None else int(inside) if inside.isdecimal() else inside)
        at = match.end()
    if at < len(text) or not steps or steps[0] == "" or steps.count("") > 1:
        raise ValueError(
            "must be a path such as scores.positive, outputs[0].data or, once in it, instances[].score; $key, "
            f"$timestamp, $header.NAME, or =text; got {text!r}"
        )
    if "" not in steps:
        return Source(lambda document, _: _follow(document, steps), steps=steps)
    batch = steps.index("")
    return Source(lambda document, _: _items(document, steps[:batch]), steps[batch + 1 :])


def _header_source(name: str) -> Source:
    def read(_: Document, record: Record) -> str | None:
        for key, value in record.headers:  # a generator would take three times as long
            if key == name:
                return _text(value)
        return None

    return Source(read)


def _items(document: Document, steps: Sequence[str | int]) -> list[Any] | None:
    """The items of a list. A flat list of a tensor (open inference protocol, ``shape``) is cut into its rows."""
    items = _follow(document, steps)
    if isinstance(items, str):
        read = _read_text(items)
        return read if isinstance(read, list) else [read]
    if not isinstance(items, list):
        return None
    tensor = _follow(document, steps[:-1])
    shape = tensor.get("shape") if isinstance(tensor, dict) else None
    if not isinstance(shape, list) or not shape or not isinstance(shape[0], int) or not 0 < shape[0] < len(items):
        return items
    width, rest = divmod(len(items), shape[0])
    return items if rest else [items[at : at + width] for at in range(0, len(items), width)]


def _follow(value: Any, steps: Sequence[str | int]) -> Any:
    for step in steps:
        if isinstance(value, str):
            value = _read_text(value)
        if isinstance(value, dict):  # as all decoders make them; Mapping would take ten times as long
            value = value.get(str(step) if isinstance(step, int) else step)
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            value = value[step]
        else:
            return None
    return value


def _read_text(text: str) -> Any:
    """The value that a text holds as JSON, or its lines as CSV."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        rows = [[_cell(cell) for cell in row] for row in csv.reader(text.splitlines()) if row]
        return [row[0] if len(row) == 1 else row for row in rows]


def _cell(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "replace")


@dataclass(frozen=True)
class FieldMapping:
    """Where the keys of an event are. A key that is not named is where it is in an event of JSON.

    Attributes
    ----------
    keys
        ``model``, ``id``, ``ts``, ``type``, ``y``, ``version`` -> source.
    p, features
        One source, of a number or a list; or one of each class, or of each feature.
    segments
        Name of a segment -> source.
    ts_unit
        What a number under ``ts`` counts.
    positive, negative
        Values of ``y`` that mean 1 and 0, by their text. With ``positive`` alone all others mean 0.
    where
        Source -> text that it must have; messages that have others hold no events.

    Raises
    ------
    ValueError
        A source is none.
    """

    keys: Mapping[str, str] = field(default_factory=dict)
    p: Sequence[str] = ()
    features: Sequence[str] = ()
    segments: Mapping[str, str] = field(default_factory=dict)
    ts_unit: Unit = "milliseconds"
    positive: Collection[str] = ()
    negative: Collection[str] = ()
    where: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        texts = [*self.keys.values(), *self.p, *self.features, *self.segments.values()]
        object.__setattr__(self, "_sources", {text: compile_source(text) for text in texts})
        object.__setattr__(self, "_conditions", [(compile_source(text), of) for text, of in self.where.items()])

    def __str__(self) -> str:
        """The sources in one line, for a message."""
        listed = {key: ", ".join(sources) for key, sources in (("p", self.p), ("features", self.features)) if sources}
        return "; ".join(f"{key} from {source}" for key, source in {**self.keys, **listed, **self.segments}.items())

    @property
    def is_batch(self) -> bool:
        """Whether a message holds several events."""
        return any(source.steps_in_row is not None for source in self.sources.values())

    @property
    def is_single(self) -> bool:
        """Whether each message is one event."""
        return not self.is_batch and not self.where

    @property
    def names(self) -> Collection[str]:
        """The fields of messages that are read."""
        return {*KEYS, *(str(source.steps[0]) for source in self.sources.values() if source.steps)}

    @property
    def sources(self) -> Mapping[str, Source]:
        """Text of a source -> source."""
        return self._sources  # type: ignore[attr-defined, no-any-return] # set above: the class is frozen

    def read_events(self, document: Document, record: Record) -> list[Document]:
        """The events in a message, in the order of its rows.

        An id that is the same in all rows is completed by the number of the row, from 0 on: ``7f3a-0``, ``7f3a-1``.

        Raises
        ------
        Rejected
            The message has none of the lists of a batch, or they differ in length.
        """
        conditions: list[tuple[Source, str]] = self._conditions  # type: ignore[attr-defined]
        if any(_as_text(source.read(document, record)) != text for source, text in conditions):
            return []
        values = {text: source.read(document, record) for text, source in self.sources.items()}
        in_row = {text: steps for text, source in self.sources.items() if (steps := source.steps_in_row) is not None}
        if not in_row:
            return [self._event(document, values)]
        lengths = {text: len(values[text]) for text in in_row if values[text] is not None}
        if not lengths:
            raise Rejected(Reason.MISSING_KEY, f"the message has none of the lists {', '.join(in_row)}")
        if len({*lengths.values()}) > 1:
            listed = ", ".join(f"{text} has {length}" for text, length in lengths.items())
            raise Rejected(Reason.WRONG_TYPE, f"the lists of a batch must be of one length, got: {listed}")
        events: list[Document] = []
        for row in range(next(iter(lengths.values()))):
            of_row = {text: _follow(values[text][row], in_row[text]) for text in lengths}
            event = self._event(document, values | of_row)
            if self.keys.get("id") not in in_row and "id" in event:
                event["id"] = _numbered(event["id"], row)
            events.append(event)
        return events

    def _event(self, document: Document, values: Mapping[str, Any]) -> dict[str, Any]:
        event = {key: document[key] for key in KEYS if key in document}
        event.update((key, values[source]) for key, source in self.keys.items())
        for name, sources in (("p", self.p), ("features", self.features)):
            if sources:
                listed = [values[source] for source in sources]
                event[name] = listed if len(listed) > 1 else listed[0]
        if isinstance(event.get("p"), list) and len(event["p"]) == 1:
            (event["p"],) = event["p"]  # a row of a tensor of one column
        if self.segments:
            by_name = {name: values[source] for name, source in self.segments.items()}
            event["segments"] = {name: value for name, value in by_name.items() if value is not None}
        event["ts"] = self._time(event.get("ts"), self.keys.get("ts"))
        if self.positive or self.negative:
            event["y"] = self.read_outcome(event.get("y"))
        return {key: value for key, value in event.items() if value is not None}

    def _time(self, value: Any, source: str | None) -> Any:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or source == "$timestamp" or self.ts_unit == "milliseconds":
            return value
        times, divisor = UNITS[self.ts_unit]
        ticks = value * times
        if isinstance(ticks, int):
            return ticks // divisor
        # Rounded: 1700000000.123 seconds is a little less than that. What no calendar has is refused later.
        return round(ticks / divisor) if math.isfinite(ticks) else value

    def read_outcome(self, value: Any) -> Any:
        """What a value of ``y`` means: 1, 0, or itself where it is neither."""
        if value is None or isinstance(value, datetime):
            return value
        text = _as_text(value)
        if text in self.positive:
            return 1
        return 0 if text in self.negative or not self.negative else value


def _as_text(value: Any) -> str:
    """A value as JSON writes it, a text without its quotes."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _numbered(identifier: Any, row: int) -> Any:
    if isinstance(identifier, bool | list | dict):
        return identifier  # no id: refused later
    text = str(identifier)
    # A text that is too long is refused later, and not copied for each row until then.
    return f"{text}-{row}" if len(text) <= MAX_ID_CHARACTERS else text
