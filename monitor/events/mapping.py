"""Where the keys of an event are found in messages that have others.

A source is written as

- ``scores.positive``, ``outputs[0].data[1]``, ``[a name.with dots]``: a path into nested maps, records and lists,
- ``instances[].score``: the same in each item of a list; the message is then a batch, of one event for each item,
- ``$key``, ``$timestamp``, ``$header.NAME``: the message's key, the time it was written at, and a header,
- ``=churn``: this text, in all messages.

A path that goes on into a text reads the text: as JSON, or else as CSV, a list with a value for each line, and a list
of values for a line of several. Data capture writes answers so.

All messages of a batch are mapped together, one step of one path after the other, whichever format they came in.
"""

import csv
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain, repeat
from typing import Annotated, Any, Final, Literal, NamedTuple, Protocol

import msgspec
from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, model_validator

from monitor.events.fields import MAX_ID_CHARACTERS, Rejected
from monitor.events.model import Reason, Record
from monitor.events.presets import load_presets
from monitor.section import Names, Section, Text, split_names

Document = Mapping[str, Any]
"""A decoded message, or an event in it: keys to plain values, lists and mappings, dates and decimals."""

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
_TEXTS: Final = frozenset({str, type(None)})
_SINGLE: Final = ("model", "version", "id", "type", "ts", "y")
"""Keys of an event that have one source."""

Path = tuple[str | int, ...]
"""Steps from a message to a value in it: keys, and places in lists."""


class Column(Protocol):
    """A value of each message of a batch; the outermost are the messages themselves."""

    def inside(self, step: str | int) -> "Column":
        """The part of each value under this key, or at this place; None where a value has none."""
        ...

    def values(self) -> list[Any]:
        """The values as a document has them."""
        ...


class Values:
    """A column of plain values.

    Parameters
    ----------
    values
        Those of a document.
    """

    def __init__(self, values: list[Any]) -> None:
        self._values = values

    def inside(self, step: str | int) -> Column:
        """The part of each value; of a text, that of what is written in it."""
        # Nearly all are exactly a dict or a list, as all decoders make them.
        if isinstance(step, int):
            return Values(
                [
                    value[step] if type(value) is list and step < len(value) else _inside_other(value, step)
                    for value in self._values
                ]
            )
        return Values(
            [value.get(step) if type(value) is dict else _inside_other(value, step) for value in self._values]
        )

    def values(self) -> list[Any]:
        """The values."""
        return self._values


def _inside_other(value: Any, step: str | int) -> Any:
    if isinstance(value, str):
        value = read_text(value)
    if isinstance(value, dict):
        return value.get(str(step))
    return value[step] if isinstance(value, list) and isinstance(step, int) and step < len(value) else None


class _Table:
    """Columns by their path from the messages; a path that several sources share is followed once."""

    def __init__(self, messages: Column) -> None:
        self._columns: dict[Path, Column] = {(): messages}

    def column(self, path: Path) -> Column:
        column = self._columns.get(path)
        if column is None:
            column = self._columns[path] = self.column(path[:-1]).inside(path[-1])
        return column


class FieldSource(NamedTuple):
    """Where a value is found."""

    path: Path = ()
    """Path from the message to the value; of a source with ``[]``, to its list."""
    in_row: Path | None = None
    """The path from an item of that list to the row's value; None for a source without ``[]``."""
    of_record: Callable[[Record], Any] | None = None
    """The value of a source that is no path."""


def compile_source(text: str) -> FieldSource:
    """Compile a source.

    Raises
    ------
    ValueError
        The text is no source. Says what it must be.
    """
    if text.startswith("="):
        return FieldSource(of_record=lambda _: text[1:])
    if text == "$key":
        return FieldSource(of_record=lambda record: _text(record.key))
    if text == "$timestamp":
        return FieldSource(of_record=lambda record: record.timestamp if record.timestamp >= 0 else None)
    if text.startswith(_HEADER) and text != _HEADER:
        return FieldSource(of_record=partial(_header, text.removeprefix(_HEADER)))
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
        return FieldSource(tuple(steps))
    batch = steps.index("")
    return FieldSource(tuple(steps[:batch]), tuple(steps[batch + 1 :]))


def _header(name: str, record: Record) -> str | None:
    for key, value in record.headers:  # a generator would take three times as long
        if key == name:
            return _text(value)
    return None


def _items(items: Any, shape: Any) -> list[Any] | None:
    """The items of a list. A flat list of a tensor (open inference protocol, ``shape``) is cut into its rows."""
    if isinstance(items, str):
        read = read_text(items)
        return read if isinstance(read, list) else [read]
    if not isinstance(items, list):
        return None
    if not isinstance(shape, list) or not shape or not isinstance(shape[0], int) or not 0 < shape[0] < len(items):
        return items
    width, rest = divmod(len(items), shape[0])
    return items if rest else [items[at : at + width] for at in range(0, len(items), width)]


def read_text(text: str) -> Any:
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


@dataclass(frozen=True, slots=True)
class Rows:
    """The events in messages, by columns.

    Attributes
    ----------
    messages
        Which message each is in, shape (n,), ascending.
    numbers
        Which row of its message each is, shape (n,); None where a message is one event.
    columns
        Each key of an event -> value in each row, shape (n,); None where there is none.
    refused
        Messages without rows, and why.
    """

    messages: Sequence[int]
    numbers: Sequence[int] | None
    columns: Mapping[str, Sequence[Any]]
    refused: Mapping[int, Rejected]

    def event(self, row: int) -> Document:
        """The event in a row."""
        return {key: column[row] for key, column in self.columns.items() if column[row] is not None}


def _check_source(text: str) -> str:
    compile_source(text)
    return text


_Source = Annotated[Text, AfterValidator(_check_source)]
_Sources = Annotated[tuple[_Source, ...], BeforeValidator(split_names)]


class FieldMapping(Section):
    """Where the keys of an event are in messages that have others. A key that is left out is where JSON has it.

    Each is a path such as `scores.positive` or `outputs[0].data`, or `$key`, `$timestamp` or `$header.NAME` of the
    message, or `=text`, which is the same in all. With `[]` in a path, such as `predictions[]`, a message is a batch.
    A name alone is a ready-made mapping, such as `kserve_v1`.
    """

    model_config = ConfigDict(json_schema_extra={"type": ["object", "string"]})

    preset: Text | None = None
    """Name of a ready-made mapping. Keys beside it replace those of the same name in it."""

    model: _Source | None = None
    """Name of the model."""
    version: _Source | None = None
    """Version of the model."""
    id: _Source | None = None
    """Id that joins prediction and outcome."""
    type: _Source | None = None
    """The type of event, of a topic of several."""
    ts: _Source | None = None
    """The time of the event."""
    ts_unit: Unit = "milliseconds"
    """Unit of a number under ts."""
    p: _Sources = ()
    """P(y = 1), or a list of all classes' probabilities; or a source of each class."""
    y: _Source | None = None
    """The outcome."""
    positive: Names = ()
    """Values under y that mean 1. All others mean 0, where negative is not set."""
    negative: Names = ()
    """Values under y that mean 0."""
    segments: dict[Text, _Source] = Field(default_factory=dict)
    """Segments by name, such as {region: customer.region}."""
    features: _Sources = ()
    """A list of numbers; or a source of each."""
    where: dict[_Source, Text] = Field(default_factory=dict)
    """Which messages hold events, such as {$header.ce_type: org.kubeflow.serving.inference.response}. Others are
    skipped."""

    @model_validator(mode="before")
    @classmethod
    def _from_preset(cls, value: Any) -> Any:
        keys = {"preset": value} if isinstance(value, str) else value
        if not isinstance(keys, dict) or not isinstance(keys.get("preset"), str):
            return keys
        presets = load_presets()
        if keys["preset"] not in presets:
            raise ValueError(f"preset must be one of {', '.join(presets)}, got {keys['preset']!r}")
        return presets[keys["preset"]] | keys

    @property
    def keys(self) -> dict[str, str]:
        """Keys that have one source -> source, of those that are named."""
        return {key: source for key in _SINGLE if (source := getattr(self, key)) is not None}

    @cached_property
    def _keys(self) -> Mapping[str, str]:
        return {key: key for key in _SINGLE} | self.keys

    @cached_property
    def sources(self) -> Mapping[str, FieldSource]:
        """Text of each source -> source. A key of an event that is not mapped is a source, too: a path of one step."""
        texts = [*self._keys.values(), *(self.p or ("p",)), *(self.features or ("features",)), *self.where]
        texts += self.segments.values() or ("segments",)
        return {text: compile_source(text) for text in texts}

    def __str__(self) -> str:
        """The sources in one line, for a message."""
        listed = {key: ", ".join(sources) for key, sources in (("p", self.p), ("features", self.features)) if sources}
        return "; ".join(f"{key} from {source}" for key, source in {**self.keys, **listed, **self.segments}.items())

    @property
    def is_batch(self) -> bool:
        """Whether a message holds several events."""
        return any(source.in_row is not None for source in self.sources.values())

    @property
    def is_single(self) -> bool:
        """Whether each message is one event."""
        return not self.is_batch and not self.where

    @property
    def paths(self) -> list[Path]:
        """The paths into messages that are followed."""
        paths = [source.path for source in self.sources.values() if source.of_record is None]
        in_row = [source.path for source in self.sources.values() if source.in_row is not None]
        return [*paths, *map(_shape, in_row)]

    def read(self, messages: Column, records: Sequence[Record]) -> Rows:
        """The events in messages, in the order of the messages and of the rows in each.

        An id that is the same in all rows is completed by the number of the row, from 0 on: ``7f3a-0``, ``7f3a-1``.

        Parameters
        ----------
        messages
            Decoded.
        records
            The same, as they were in the log.
        """
        table = _Table(messages)
        values = {
            text: table.column(source.path).values() if source.of_record is None else [*map(source.of_record, records)]
            for text, source in self.sources.items()
        }
        kept: Sequence[int] = range(len(records))
        for text, wanted in self.where.items():
            kept = [at for at in kept if _as_text(values[text][at]) == wanted]
        numbers: Sequence[int] | None = None
        refused: Mapping[int, Rejected] = {}
        if self.is_batch:
            in_row = {text: source for text, source in self.sources.items() if source.in_row is not None}
            for text, source in in_row.items():
                shapes = table.column(_shape(source.path)).values()
                values[text] = [*map(_items, values[text], shapes)]
            kept, numbers, refused = _number_rows({text: values[text] for text in in_row}, kept)
            places = list(zip(kept, numbers, strict=True))
            for text, source in in_row.items():
                items = [None if (of := values[text][at]) is None else of[number] for at, number in places]
                values[text] = _Table(Values(items)).column(source.in_row or ()).values()
            values |= {text: [values[text][at] for at in kept] for text in values.keys() - in_row.keys()}
        elif len(kept) < len(records):
            values = {text: [column[at] for at in kept] for text, column in values.items()}
        columns = self._columns(values)
        if numbers is not None and self.sources[self._keys["id"]].in_row is None:
            columns["id"] = [*map(_numbered, columns["id"], numbers)]
        return Rows(kept, numbers, columns, refused)

    def _columns(self, values: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
        """The keys of events, from the values of the sources."""
        columns = {key: values[text] for key, text in self._keys.items()}
        for name, texts in (("p", self.p), ("features", self.features)):
            if len(texts) > 1:
                columns[name] = [*map(list, zip(*(values[text] for text in texts), strict=True))]
            else:
                columns[name] = values[texts[0] if texts else name]
        if list in map(type, columns["p"]):  # rows of a tensor of one column
            columns["p"] = [p[0] if isinstance(p, list) and len(p) == 1 else p for p in columns["p"]]
        if self.segments:
            columns["segments"] = _named(tuple(self.segments), [values[text] for text in self.segments.values()])
        else:
            columns["segments"] = values["segments"]
        if self.ts_unit != "milliseconds" and self._keys["ts"] != "$timestamp":
            columns["ts"] = _times(columns["ts"], *UNITS[self.ts_unit])
        if self.positive or self.negative:
            columns["y"] = [*map(self._read_outcome, columns["y"])]
        return columns

    def _read_outcome(self, value: Any) -> Any:
        """What a value of ``y`` means: 1, 0, or itself where it is neither."""
        if not isinstance(value, str | int | float):
            return value  # no label, or none that has a text, such as bytes: refused later
        text = _as_text(value)
        if text in self.positive:
            return 1
        return 0 if text in self.negative or not self.negative else value


def _shape(path: Path) -> Path:
    """The path to the shape of the tensor whose data are under a path."""
    return (*path[:-1], "shape")


def _number_rows(
    lists: Mapping[str, Sequence[list[Any] | None]], messages: Iterable[int]
) -> tuple[list[int], list[int], dict[int, Rejected]]:
    """The message of each row, and its number there; and the messages whose lists make no rows."""
    of_row: list[int] = []
    numbers: list[int] = []
    refused: dict[int, Rejected] = {}
    for at in messages:
        lengths = {text: len(items) for text, column in lists.items() if (items := column[at]) is not None}
        if len({*lengths.values()}) == 1:
            length = next(iter(lengths.values()))
            of_row += repeat(at, length)
            numbers += range(length)
        elif lengths:
            listed = ", ".join(f"{text} has {length}" for text, length in lengths.items())
            refused[at] = Rejected(Reason.WRONG_TYPE, f"the lists of a batch must be of one length, got: {listed}")
        else:
            refused[at] = Rejected(Reason.MISSING_KEY, f"the message has none of the lists {', '.join(lists)}")
    return of_row, numbers, refused


def _named(names: Sequence[str], columns: Sequence[list[Any]]) -> list[dict[str, Any]]:
    """The values in each row by name, without those that are None."""

    def named(row: Sequence[Any]) -> dict[str, Any]:
        return {name: value for name, value in zip(names, row, strict=True) if value is not None}

    rows = list(zip(*columns, strict=True))
    if _TEXTS.issuperset(map(type, chain.from_iterable(columns))):
        by_row = {row: named(row) for row in set(rows)}  # few combinations, and a text equals no other value
        return [by_row[row] for row in rows]
    return [*map(named, rows)]


def _times(values: list[Any], times: int, divisor: int) -> list[Any]:
    """Milliseconds of ticks; what is no number is returned."""

    def read(value: Any) -> Any:
        if not isinstance(value, int | float) or isinstance(value, bool):
            return value
        ticks = value * times
        if isinstance(ticks, int):
            return ticks // divisor
        # Rounded: 1700000000.123 seconds is a little less than that. What no calendar has is refused later.
        return round(ticks / divisor) if math.isfinite(ticks) else value

    if float in map(type, values):
        with suppress(TypeError, ValueError, OverflowError):  # not all are numbers, or finite
            return [round(value * times / divisor) if type(value) is float else read(value) for value in values]
    return [*map(read, values)]


def _as_text(value: Any) -> str:
    """A value as JSON writes it, a text without its quotes."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _numbered(identifier: Any, row: int) -> Any:
    if isinstance(identifier, bool) or not isinstance(identifier, str | int):
        return identifier  # no id: refused later
    text = str(identifier)
    # A text that is too long is refused later, and not copied for each row until then.
    return f"{text}-{row}" if len(text) <= MAX_ID_CHARACTERS else text
