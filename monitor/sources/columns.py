"""Columns of a file as they come, piece by piece, and what they become: predictions, outcomes, times, segments.

Each builder takes Arrow arrays of whatever type the file has and goes on after a bad value, so that the message can
say how many there are; :meth:`finish` raises then.
"""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from monitor.errors import InputError
from monitor.scores.arguments import number_text

UNLABELLED: Final = -1
"""In place of an outcome: there is none yet."""

EMPTY: Final = "(empty)"
"""The segment of rows whose field is empty: they may be the very ones that are hurt."""

_MISSING: Final = frozenset({"", "na", "n/a", "nan", "null", "none"})
_OUTCOMES: Final = {
    **dict.fromkeys(("1", "true", "t", "yes", "y"), 1),
    **dict.fromkeys(("0", "false", "f", "no", "n"), 0),
    **dict.fromkeys(_MISSING, UNLABELLED),
}
_DECIMAL_COMMA: Final = re.compile(r"[+-]?\d*,\d+")
_LARGEST: Final = float(np.finfo(np.float64).max)
_OLDEST_MS: Final = 1e11
"""Times before March 1973 are no times of predictions: such a number counts seconds."""


class ColumnBuilder(Protocol):
    """Takes a column piece by piece."""

    def add(self, array: pa.Array) -> None:
        """Take the next piece."""
        ...


class Place(NamedTuple):
    """Where a column's values stand, for messages."""

    column: str
    """The file and the column."""
    of_row: Callable[[int], str]
    """Row, counted from 1 -> where a person finds it: ``line 3``."""


class Faults:
    """The first bad value of a column and the number of them."""

    def __init__(self, place: Place, requirement: str, *, percentages: bool = False) -> None:
        self._place = place
        self._requirement = requirement
        self._percentages = percentages
        self._count = 0
        self._row = 0
        self._value: object = None

    def add(self, bad: NDArray[np.bool_], rows_before: int, array: pa.Array) -> None:
        """Note the bad values of a piece; the piece's first value stands in row ``rows_before + 1``."""
        count = int(np.count_nonzero(bad))
        if count and not self._count:
            at = int(np.argmax(bad))
            self._row = rows_before + at + 1
            self._value = array[at].as_py()
        self._count += count

    def __bool__(self) -> bool:
        return self._count > 0

    def check(self) -> None:
        """Raise if there are any."""
        if not self._count:
            return
        value = self._value
        got = "nothing" if is_missing(value) else number_text(value) if isinstance(value, float) else repr(value)
        number = _float(value) if isinstance(value, str) else value
        percent = self._percentages and isinstance(number, int | float) and 1.0 < number <= 100.0
        hint = "; divide percentages by 100" if percent else ""
        if isinstance(value, str) and _DECIMAL_COMMA.fullmatch(value.strip()):
            hint = "; write numbers with a decimal point, not with a comma"
        column, of_row = self._place
        raise InputError(
            f"{column}, {of_row(self._row)}: {self._requirement}, got {got} ({such_rows(self._count)}); "
            f"correct or remove them{hint}"
        )


class Numbers:
    """Builds a column of numbers: one from ``least`` to ``most`` in every row."""

    def __init__(self, faults: Faults, least: float, most: float) -> None:
        self._faults = faults
        self._least = least
        self._most = most
        self._pieces: list[NDArray[np.float64]] = []
        self._rows = 0

    def add(self, array: pa.Array) -> None:
        """Take the next piece."""
        values = _floats(array)
        bad = ~((values >= self._least) & (values <= self._most))
        if bad.any():
            self._faults.add(bad, self._rows, array)
        self._pieces.append(values)
        self._rows += len(array)

    def finish(self) -> NDArray[np.float64]:
        """All of them, shape (n,).

        Raises
        ------
        InputError
            Some are missing, no numbers or out of range.
        """
        self._faults.check()
        return joined(self._pieces, np.float64)


def predictions(place: Place) -> Numbers:
    """Builds the predictions: a number from 0 to 1 in every row."""
    return Numbers(Faults(place, "prediction must be a number from 0 to 1", percentages=True), 0.0, 1.0)


def weights(place: Place) -> Numbers:
    """Builds the weights: a finite number of at least 0 in every row."""
    return Numbers(Faults(place, "weight must be a finite number of at least 0"), 0.0, _LARGEST)


def features(place: Place) -> Numbers:
    """Builds a feature: a finite number in every row."""
    return Numbers(Faults(place, "feature must be a finite number"), -_LARGEST, _LARGEST)


class Outcomes:
    """Builds the outcomes: 0 or 1, also spelled false or true, no or yes; empty where it is not known yet."""

    def __init__(self, place: Place) -> None:
        self._faults = Faults(place, "outcome must be 0 or 1 (or false/true, no/yes, or empty if unknown)")
        self._pieces: list[NDArray[np.int8]] = []
        self._rows = 0

    def add(self, array: pa.Array) -> None:
        """Take the next piece."""
        codes, values = encoded(array)
        # The last entry stands for an empty field, whose code is -1.
        table = np.array([_outcome(value) for value in values] + [UNLABELLED], np.int8)
        outcome = table[codes]
        bad = outcome < UNLABELLED
        if bad.any():
            self._faults.add(bad, self._rows, array)
        self._pieces.append(outcome)
        self._rows += len(array)

    def finish(self) -> NDArray[np.int8]:
        """All of them, shape (n,): 1, 0, or -1 where there is none.

        Raises
        ------
        InputError
            Some are neither.
        """
        self._faults.check()
        return joined(self._pieces, np.int8)


class Times:
    """Builds the times: timestamps, RFC 3339 (taken as UTC without a zone), or milliseconds or seconds since 1970."""

    def __init__(self, place: Place) -> None:
        self._faults = Faults(place, "time must be RFC 3339 or milliseconds since the epoch")
        self._pieces: list[NDArray[np.float64]] = []
        self._rows = 0
        self._counted = True
        self.seconds = False
        """Whether the numbers turned out to count seconds. Known once finished."""

    def add(self, array: pa.Array) -> None:
        """Take the next piece."""
        counted, values = _times(array)
        self._counted &= counted
        bad = np.isnan(values)
        if bad.any():
            self._faults.add(bad, self._rows, array)
        self._pieces.append(values)
        self._rows += len(array)

    @property
    def bad(self) -> bool:
        """Whether a value so far is no time."""
        return bool(self._faults)

    def finish(self) -> NDArray[np.int64]:
        """All of them, shape (n,), milliseconds since the epoch.

        Raises
        ------
        InputError
            Some are missing or no times.
        """
        self._faults.check()
        values: NDArray[np.float64] = joined(self._pieces, np.float64)
        self.seconds = self._counted and values.size > 0 and bool(values.max() < _OLDEST_MS)
        if self.seconds:
            values *= 1000.0
        return np.floor(values).astype(np.int64)


class Ids:
    """Builds the ids: any value, taken as text, in every row another one."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._faults = Faults(place, "id must be there")
        self._pieces: list[pa.Array] = []
        self._rows = 0

    def add(self, array: pa.Array) -> None:
        """Take the next piece."""
        ids = decoded(array).cast(pa.string())
        missing = pc.fill_null(pc.equal(ids, ""), fill_value=True).to_numpy(zero_copy_only=False)
        if missing.any():
            self._faults.add(missing, self._rows, array)
        self._pieces.append(ids)
        self._rows += len(array)

    def finish(self) -> pa.ChunkedArray:
        """All of them, as strings, n values.

        Raises
        ------
        InputError
            Some are missing, or one stands twice.
        """
        self._faults.check()
        ids = pa.chunked_array(self._pieces, pa.string())
        if pc.count_distinct(ids).as_py() < len(ids):
            code = ids.combine_chunks().dictionary_encode().indices.to_numpy()
            # The first row whose id stood in a row before: codes count up from 0 as values appear.
            row = int(np.argmax(code < np.arange(code.size)))
            column, of_row = self._place
            raise InputError(f"{column}, {of_row(row + 1)}: id {ids[row].as_py()!r} stands there a second time")
        return ids


class Segments:
    """Builds one segment column: any values, taken as text; what is empty is a value of its own."""

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}
        self._pieces: list[NDArray[np.int32]] = []

    def add(self, array: pa.Array) -> None:
        """Take the next piece."""
        codes, values = encoded(array)
        table = [self._code(EMPTY if is_missing(value) else text_of(value)) for value in values]
        if codes.size and codes.min() < 0:  # a null, which has no place among the distinct values
            table.append(self._code(EMPTY))
        self._pieces.append(np.array(table, np.int32)[codes])

    def _code(self, value: str) -> int:
        return self._codes.setdefault(value, len(self._codes))

    def finish(self) -> tuple[NDArray[np.int32], tuple[str, ...]]:
        """Code of each row, shape (n,); and the values by code."""
        return joined(self._pieces, np.int32), tuple(self._codes)


def joined(pieces: list[NDArray[Any]], dtype: type[np.generic]) -> NDArray[Any]:
    """The pieces of a column as one."""
    return np.concatenate(pieces) if pieces else np.zeros(0, dtype)


def such_rows(count: int) -> str:
    """How many there are, for a message."""
    return "1 such row" if count == 1 else f"{count:,} such rows"


def is_missing(value: object) -> bool:
    """Whether a field is empty."""
    return value is None or value == "" or (isinstance(value, float) and np.isnan(value))


def text_of(value: object) -> str:
    """A value as text, as JSON spells it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def decoded(array: pa.Array) -> pa.Array:
    """The values themselves, where they stand in a dictionary."""
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def encoded(array: pa.Array) -> tuple[NDArray[np.int64], list[Any]]:
    """Code of each value, -1 where it is null, and the distinct values."""
    codes: NDArray[np.int64]
    if pa.types.is_null(array.type):
        return np.full(len(array), -1, np.int64), []
    if not pa.types.is_dictionary(array.type):
        try:
            array = array.dictionary_encode()
        except pa.ArrowNotImplementedError:  # lists and the like have no dictionary
            array = pa.array([None if value is None else str(value) for value in array.to_pylist()]).dictionary_encode()
    codes = pc.fill_null(array.indices.cast(pa.int64()), -1).to_numpy(zero_copy_only=False)
    return codes, array.dictionary.to_pylist()


def _floats(array: pa.Array) -> NDArray[np.float64]:
    """The numbers of an array, shape (n,); nan where there is none."""
    array = decoded(array)
    kind = array.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return _to_numpy(array.cast(pa.float64(), safe=False))
    if _is_text(kind):
        try:
            return _to_numpy(pc.cast(array, pa.float64()))
        except pa.ArrowInvalid:  # some value is no number: find out which
            return np.array([_float(text) for text in array.to_pylist()], np.float64)
    return np.full(len(array), np.nan)


def _to_numpy(array: pa.Array) -> NDArray[np.float64]:
    values: NDArray[np.float64] = array.to_numpy(zero_copy_only=False)
    return values


def _float(text: str | None) -> float:
    try:
        return float(text) if text is not None else float("nan")
    except ValueError:
        return float("nan")


def _outcome(value: object) -> int:
    """1, 0, UNLABELLED, or -2 for what is none of them."""
    if is_missing(value):
        return UNLABELLED
    if isinstance(value, str):
        word = value.strip().lower()
        if word in _OUTCOMES:
            return _OUTCOMES[word]
        value = _float(word)
    return 1 if value == 1 else 0 if value == 0 else UNLABELLED - 1


def _times(array: pa.Array) -> tuple[bool, NDArray[np.float64]]:
    """Whether these are plain numbers, and milliseconds (or what the numbers count), nan where there is no time."""
    array = decoded(array)
    kind = array.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return True, _floats(array)
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return False, _milliseconds(array)
    if not _is_text(kind):
        return False, np.full(len(array), np.nan)
    for target, convert in _TEXT_TIMES:
        try:
            return pa.types.is_floating(target), convert(pc.cast(array, target))
        except pa.ArrowInvalid:
            continue
    # Several spellings in one column, or a bad value: one by one.
    return False, np.array([_time(text) for text in array.to_pylist()], np.float64)


def _milliseconds(array: pa.Array) -> NDArray[np.float64]:
    moments = array.cast(pa.timestamp("us"), safe=False)
    return _to_numpy(moments.cast(pa.int64()).cast(pa.float64(), safe=False)) / 1000.0


_TEXT_TIMES: Final[tuple[tuple[pa.DataType, Callable[[pa.Array], NDArray[np.float64]]], ...]] = (
    (pa.float64(), _to_numpy),
    (pa.timestamp("us", "UTC"), _milliseconds),
    (pa.timestamp("us"), _milliseconds),
)


def _time(text: str | None) -> float:
    try:
        moment = datetime.fromisoformat((text or "").strip())
    except ValueError:
        return float("nan")
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return moment.timestamp() * 1000.0
