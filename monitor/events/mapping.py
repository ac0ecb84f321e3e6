"""Where the keys of an event are found in messages that have others.

A source is written as

- ``scores.positive``, ``outputs[0].data[1]``, ``[a name.with dots]``: a path into nested maps, records and lists,
- ``$key``, ``$timestamp``, ``$header.NAME``: the message's key, the time it was written at, and a header,
- ``=churn``: this text, in all messages.
"""

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal

from monitor.events.model import Record

Document = Mapping[str, Any]
"""A decoded message: keys to plain values, lists and mappings, dates and decimals."""

Unit = Literal["seconds", "milliseconds", "microseconds", "nanoseconds"]

_Read = Callable[[Document, Record], Any]
_UNITS: Final[dict[Unit, tuple[int, int]]] = {
    "seconds": (1000, 1),
    "milliseconds": (1, 1),
    "microseconds": (1, 1_000),
    "nanoseconds": (1, 1_000_000),
}
"""Milliseconds are ticks times the first, divided by the second."""
_STEP: Final = re.compile(r"(?:^|(?<=[^.])\.)([^.\[\]$=][^.\[\]]*)|\[([^\[\]]+)\]")
_HEADER: Final = "$header."


def compile_source(text: str) -> _Read:
    """A function that reads a source; its value is None where a message does not have it.

    Raises
    ------
    ValueError
        The text is no source. Says what it must be.
    """
    if text.startswith("="):
        return lambda *_: text[1:]
    if text == "$key":
        return lambda _, record: _text(record.key)
    if text == "$timestamp":
        return lambda _, record: record.timestamp if record.timestamp >= 0 else None
    if text.startswith(_HEADER) and text != _HEADER:
        name = text.removeprefix(_HEADER)
        return lambda _, record: next((_text(value) for key, value in record.headers or () if key == name), None)
    steps: list[str | int] = []
    at = 0
    while match := _STEP.match(text, at):
        name, inside = match.groups()
        steps.append(name if name is not None else int(inside) if inside.isdecimal() else inside)
        at = match.end()
    if at < len(text) or not steps:
        raise ValueError(
            "must be a path such as scores.positive or outputs[0].data, $key, $timestamp, $header.NAME, or =text, "
            f"got {text!r}"
        )
    return lambda document, _: _follow(document, steps)


def _follow(value: Any, steps: Sequence[str | int]) -> Any:
    for step in steps:
        if isinstance(value, dict):  # as all decoders make them; Mapping would take ten times as long
            value = value.get(str(step) if isinstance(step, int) else step)
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            value = value[step]
        else:
            return None
    return value


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

    def __post_init__(self) -> None:
        lists = {name: [compile_source(text) for text in getattr(self, name)] for name in ("p", "features")}
        compiled = {
            "keys": {key: compile_source(text) for key, text in self.keys.items()},
            "segments": {name: compile_source(text) for name, text in self.segments.items()},
            **lists,
        }
        object.__setattr__(self, "_compiled", compiled)

    def __str__(self) -> str:
        """The sources in one line, for a message."""
        listed = {key: ", ".join(sources) for key, sources in (("p", self.p), ("features", self.features)) if sources}
        return "; ".join(f"{key} from {source}" for key, source in {**self.keys, **listed, **self.segments}.items())

    def apply(self, document: Document, record: Record) -> Document:
        """The event in a message."""
        compiled: dict[str, Any] = self._compiled  # type: ignore[attr-defined] # set above: the class is frozen
        event = dict(document)
        event.update((key, read(document, record)) for key, read in compiled["keys"].items())
        for name in ("p", "features"):
            values = [read(document, record) for read in compiled[name]]
            if values:
                event[name] = values if len(values) > 1 else values[0]
        if compiled["segments"]:
            values_by_name = {name: read(document, record) for name, read in compiled["segments"].items()}
            event["segments"] = {name: value for name, value in values_by_name.items() if value is not None}
        event["ts"] = self._time(event.get("ts"), self.keys.get("ts"))
        if self.positive or self.negative:
            event["y"] = self._outcome(event.get("y"))
        return {key: value for key, value in event.items() if value is not None}

    def _time(self, value: Any, source: str | None) -> Any:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or source == "$timestamp" or self.ts_unit == "milliseconds":
            return value
        times, divisor = _UNITS[self.ts_unit]
        ticks = value * times
        if isinstance(ticks, int):
            return ticks // divisor
        # Rounded: 1700000000.123 seconds is a little less than that. What no calendar has is refused later.
        return round(ticks / divisor) if math.isfinite(ticks) else value

    def _outcome(self, value: Any) -> Any:
        if value is None or isinstance(value, datetime):
            return value
        # As JSON writes it.
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if text in self.positive:
            return 1
        return 0 if text in self.negative or not self.negative else value
