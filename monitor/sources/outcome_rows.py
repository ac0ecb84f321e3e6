"""Outcomes in the rows of a table: checked row by row, and made events."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from monitor.errors import InputError
from monitor.events.encode import encode_outcome
from monitor.sources.columns import (
    UNLABELLED,
    AnyValues,
    ColumnPlace,
    Outcomes,
    Times,
    decoded,
    id_texts,
    is_missing,
    text_of,
)
from monitor.sources.formats import TableFile
from monitor.sources.sql_query import SqlTable
from monitor.sources.tables import OUTCOME_NAMES, TIME_NAMES

ID_NAMES: Final = ("id", "prediction_id", "event_id", "request_id", "uuid", "key")
"""The usual names of columns, most specific first, in any case: used to guess columns that are not named."""

KNOWN_NAMES: Final = (
    *("ts", "outcome_time", "labelled_at", "labeled_at", "label_time", "updated_at"),
    *TIME_NAMES,
)


class OutcomeColumns(NamedTuple):
    """The columns that are read."""

    id: str
    y: str
    ts: str | None
    """When the outcome became known; None: now."""
    cursor: str | None


class BadRow(NamedTuple):
    """A row that is no outcome."""

    row: int
    """Counted from 1."""
    why: str


@dataclass(slots=True)
class OutcomePiece:
    """Consecutive rows.

    Attributes
    ----------
    events
        Row -> the outcome, as JSON.
    bad
        The rows that are none.
    unknown
        Rows whose outcome is not known yet.
    old
        Rows before the cursor.
    late
        Outcomes that are older than earlier rows by more than the model's allowed lateness.
    largest
        The largest value of the cursor's column.
    """

    events: dict[int, bytes] = field(default_factory=dict)
    bad: list[BadRow] = field(default_factory=list)
    unknown: int = 0
    old: int = 0
    late: int = 0
    largest: Any = None


def choose_columns(
    table: TableFile | SqlTable,
    id: str | None,  # noqa: A002 - the option's name
    y: str | None,
    ts: str | None,
    cursor: str | None,
) -> OutcomeColumns:
    """Choose the columns: the named ones, or those with the most specific usual names.

    Raises
    ------
    InputError
        There is no such column, or none that looks like it.
    """
    names = table.names()
    by_lower = {name.strip().lower(): name for name in reversed(names)}

    def choose(option: str, given: str | None, usual: Sequence[str]) -> str | None:
        if given is not None and given not in names:
            raise InputError(f"{table.name}: {option} names column {given!r}, but columns are {', '.join(names)}")
        return given or next((by_lower[name] for name in usual if name in by_lower), None)

    chosen = {
        "--id": choose("--id", id, ID_NAMES),
        "--y": choose("--y", y, OUTCOME_NAMES),
    }
    for option, column in chosen.items():
        if column is None:
            usual, what = (ID_NAMES, "id") if option == "--id" else (OUTCOME_NAMES, "outcome")
            raise InputError(
                f"{table.name}: no column looks like the {what} ({', '.join(usual[:4])}, ...); name it with {option}; "
                f"columns are {', '.join(names)}"
            )
    return OutcomeColumns(
        str(chosen["--id"]),
        str(chosen["--y"]),
        choose("--ts", ts, KNOWN_NAMES),
        choose("--cursor", cursor, ()),
    )


def read_outcomes(
    table: TableFile | SqlTable,
    columns: OutcomeColumns,
    model: str,
    *,
    classes: Sequence[str],
    lateness_ms: int,
    since: Any,
    now_ms: int,
) -> Iterator[OutcomePiece]:
    """Read the outcomes.

    Parameters
    ----------
    table
        The rows.
    columns
        Where id, outcome, time and cursor are.
    model
        Whose outcomes.
    classes
        Names of the classes of a model of several; empty for outcomes 0 and 1.
    lateness_ms
        How far out of order outcomes of the model may be.
    since
        Rows with a smaller value of the cursor are left out; None for none.
    now_ms
        The time of outcomes without one.
    """
    names = list(dict.fromkeys(name for name in columns if name is not None))
    rows = newest_ms = 0
    for arrays in table.pieces(names):
        by_name = dict(zip(names, map(decoded, arrays), strict=True))
        length = len(arrays[0])
        piece = OutcomePiece()
        by_name[columns.id] = id_texts(by_name[columns.id], f"{table.name}: column {columns.id!r}")
        identifiers = _ids(by_name[columns.id])
        outcomes, wrong = _classes(by_name[columns.y], classes) if classes else _outcomes(by_name[columns.y])
        times, untimed = _times(None if columns.ts is None else by_name[columns.ts], length, now_ms)
        is_old = np.zeros(length, np.bool_)
        if columns.cursor is not None:
            values = _cursor_values(by_name[columns.cursor])
            known = [value for value in values if value is not None]
            piece.largest = max(known, default=None)
            if since is not None:
                is_old = np.array([value is not None and value < since for value in values], np.bool_)
        for at in range(length):
            row = rows + at + 1
            if is_old[at]:
                piece.old += 1
            elif at in wrong:
                piece.bad.append(BadRow(row, wrong[at]))
            elif outcomes[at] == UNLABELLED:
                piece.unknown += 1
            elif identifiers[at] is None:
                got = by_name[columns.id][at].as_py()
                piece.bad.append(BadRow(row, f"id must be text or an integer, got {_shown(got)}"))
            elif at in untimed:
                piece.bad.append(BadRow(row, untimed[at]))
            else:
                piece.late += times[at] < newest_ms - lateness_ms
                newest_ms = max(newest_ms, times[at])
                piece.events[row] = encode_outcome(model, identifiers[at] or "", times[at], outcomes[at])
        rows += length
        yield piece


def _ids(array: pa.Array) -> list[str | None]:
    return [_id(value) for value in array.to_pylist()]


def _id(value: Any) -> str | None:
    if isinstance(value, float) and value.is_integer():
        return str(int(value))  # integers, in a column where some are missing
    return None if is_missing(value) or isinstance(value, bool | float) else str(value)


def _outcomes(array: pa.Array) -> tuple[list[int], Mapping[int, str]]:
    builder = Outcomes(ColumnPlace("", str, skip=True))
    builder.add(array)
    rule = "y must be 0 or 1 (or false/true, no/yes, or empty if unknown)"
    return builder.finish().tolist(), _faults(builder.faults.rows.tolist(), array, rule)


def _classes(array: pa.Array, classes: Sequence[str]) -> tuple[list[int], Mapping[int, str]]:
    by_text = {str(number): number for number in range(len(classes))} | {name: at for at, name in enumerate(classes)}

    def class_of(value: Any) -> int | None:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        return UNLABELLED if is_missing(value) else by_text.get(text_of(value).strip())

    chosen = [class_of(value) for value in array.to_pylist()]
    rule = f"y must be one of {', '.join(classes[:10])}, or its number from 0 to {len(classes) - 1}"
    wrong = _faults([at for at, number in enumerate(chosen) if number is None], array, rule)
    return [UNLABELLED if number is None else number for number in chosen], wrong


def _times(array: pa.Array | None, length: int, now_ms: int) -> tuple[list[int], Mapping[int, str]]:
    if array is None:
        return [now_ms] * length, {}
    builder = Times(ColumnPlace("", str, skip=True))
    builder.add(array)
    times = builder.finish().tolist()
    return times, _faults(builder.faults.rows.tolist(), array, "ts must be RFC 3339 or milliseconds since the epoch")


def _cursor_values(array: pa.Array) -> list[Any]:
    """Values that can be compared: numbers, or times in milliseconds; None where there is neither."""
    column = AnyValues()
    column.add(array)
    numbers = column.finish()
    if isinstance(numbers, np.ndarray):
        return [None if np.isnan(number) else number for number in numbers.tolist()]
    builder = Times(ColumnPlace("", str, skip=True))
    builder.add(array)
    times = builder.finish().tolist()
    for at in builder.faults.rows.tolist():
        times[at] = None
    return times  # type: ignore[no-any-return]


def _faults(places: Sequence[int], array: pa.Array, rule: str) -> dict[int, str]:
    return {at: f"{rule}, got {_shown(array[at].as_py())}" for at in places}


def _shown(value: Any) -> str:
    return "nothing" if is_missing(value) else repr(value)[:80]
