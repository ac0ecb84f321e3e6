"""Builds predictions, outcomes, times, ids and segments from the Arrow arrays of a table, piece by piece.

Each builder takes arrays of any type and goes on after a bad value, so that the message can say how many there are;
:meth:`finish` then raises, unless rows with bad values are to be left out.
"""

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from scipy.special import expit

from monitor.arrays import from_arrow
from monitor.errors import InputError
from monitor.options import Option
from monitor.scores.arguments import number_text

UNLABELLED: Final = -1
"""The outcome of a row without one."""

_INVALID: Final = -2
"""The outcome of a row with a value that is not an outcome."""

EMPTY: Final = "(empty)"
"""The segment of rows whose field is empty: they may be the very rows with a problem."""

MISSING_WORDS: Final = frozenset({"", "na", "n/a", "nan", "null", "none"})
"""Spellings of a missing number or outcome, in lower case."""

OUTCOME_SPELLINGS: Final = {
    **dict.fromkeys(("1", "true", "t", "yes", "y"), 1),
    **dict.fromkeys(("0", "false", "f", "no", "n"), 0),
    **dict.fromkeys(MISSING_WORDS, UNLABELLED),
}
"""The outcome that a text spells, in lower case."""

_DECIMAL_COMMA: Final = re.compile(r"[+-]?\d*,\d+")
_PERCENT: Final = re.compile(r"\d+(\.\d+)?\s*%")
_LARGEST: Final = float(np.finfo(np.float64).max)
_MAX_LISTED: Final = 5
"""A message lists at most so many values."""
_OLDEST_MS: Final = 1e11
"""No prediction is from before March 1973: a smaller number counts seconds."""


Hint = Callable[[float, float], str]
"""(least and largest of the bad values that are numbers) -> advice for the message, or ""."""


class ColumnPlace(NamedTuple):
    """Where the values of a column are, for messages."""

    column: str
    """The file and the column."""
    describe_row: Callable[[int], str]
    """Row, counted from 1 -> how a person finds it: ``line 3``."""
    skip: bool = False
    """Whether rows with bad values are left out, instead of refusing the file."""
    alternative: str = ""
    """What else a user can do about bad values than to correct or remove them."""


class Faults:
    """The bad values of a column: where the first one is, and in which rows.

    Parameters
    ----------
    place
        Of the column.
    requirement
        What values must be.
    hint
        Advice for the message.
    """

    def __init__(self, place: ColumnPlace, requirement: str, hint: Hint | None = None) -> None:
        self.place = place
        self._requirement = requirement
        self._hint = hint
        self._rows: list[NDArray[np.intp]] = []
        self._first: int | None = None
        self._forgotten = 0
        self._value: object = None
        self._smallest, self._largest = math.inf, -math.inf

    def add(self, bad: NDArray[np.bool_], rows_before: int, array: pa.Array) -> None:
        """Add the bad values of a piece, whose first value is in row ``rows_before + 1``."""
        at = np.flatnonzero(bad)
        if not at.size:
            return
        if self._first is None:
            self._value = array[int(at[0])].as_py()
            self._first = int(at[0]) + rows_before
        self._rows.append(at + rows_before)
        if self._hint is not None:
            numbers = _floats(array.take(pa.array(at)))
            self._smallest = min(self._smallest, float(np.nanmin(numbers, initial=math.inf)))
            self._largest = max(self._largest, float(np.nanmax(numbers, initial=-math.inf)))

    def __bool__(self) -> bool:
        return self._first is not None

    @property
    def rows(self) -> NDArray[np.intp]:
        """Rows with a bad value, ascending, counted from 0; but for those of pieces that were forgotten."""
        return np.concatenate(self._rows) if self._rows else np.zeros(0, np.intp)

    @property
    def count(self) -> int:
        """How many there are, those of forgotten pieces too."""
        return self._forgotten + self.rows.size

    def forget(self) -> None:
        """Keep no rows of the pieces so far, but their number."""
        self._forgotten += self.rows.size
        self._rows.clear()

    @property
    def refused(self) -> bool:
        """Whether there are any that are not to be left out."""
        return self._first is not None and not self.place.skip

    def check(self) -> None:
        """Raise InputError if there are any, unless their rows are to be left out."""
        if self._first is None or self.place.skip:
            return
        where = f"{self.place.column}, {self.place.describe_row(self._first + 1)}"
        # If all rows have one cause, leaving them out would be the wrong advice.
        advice = self._advice() or self.place.alternative
        raise InputError(
            f"{where}: {self._requirement}, got {self._got()} ({_such_rows(self.count)}); correct or remove them"
            f"{advice}"
        )

    def summary(self) -> str:
        """How many rows are left out because of them, and where the first is."""
        count, first = self.count, self._first or 0
        column = self.place.column.partition(": ")[2]
        return (
            f"{count:,} {'row' if count == 1 else 'rows'} left out: {column}: {self._requirement}; the first is "
            f"{self.place.describe_row(first + 1)}, got {self._got()}"
        )

    def _got(self) -> str:
        value = self._value
        if text_of(value).strip().lower() == "nan":
            return "NaN, which is not a number"
        if is_missing(value):
            return "nothing"
        return number_text(value) if isinstance(value, float) else repr(value)

    def _advice(self) -> str:
        value = self._value.strip() if isinstance(self._value, str) else ""
        if _DECIMAL_COMMA.fullmatch(value):
            return "; write numbers with a decimal point, not with a comma"
        if _PERCENT.fullmatch(value):
            share = f"{float(value.rstrip('% ')) / 100.0:.10g}"
            return f"; write shares without percent signs: {share} in place of {value}"
        return "" if self._hint is None else self._hint(self._smallest, self._largest)


class Builder(ABC):
    """Builds one column from its pieces.

    Attributes
    ----------
    all_faults
        The bad values, by the requirement that they do not meet.
    """

    all_faults: Sequence[Faults] = ()

    @abstractmethod
    def add(self, array: pa.Array) -> None:
        """Add the next piece."""


class CheckedColumn(Builder):
    """Builds one column whose values must meet a requirement; ``faults`` collects those that do not."""

    dtype: type[np.generic] = np.float64

    def __init__(self, place: ColumnPlace, requirement: str, hint: Hint | None = None) -> None:
        self.faults = Faults(place, requirement, hint)
        self.all_faults = (self.faults,)
        self._pieces: list[Any] = []
        self._rows = 0

    def add(self, array: pa.Array) -> None:
        """Add the next piece."""
        values, bad = self._convert(array)
        if bad.any():
            self.faults.add(bad, self._rows, array)
        self._pieces.append(values)
        self._rows += len(array)

    @abstractmethod
    def _convert(self, array: pa.Array) -> tuple[Any, NDArray[np.bool_]]:
        """The values of a piece, and which of them are bad."""

    def finish(self) -> Any:
        """All of them, shape (n,).

        Raises
        ------
        InputError
            Some are missing, or do not meet the requirement.
        """
        self.check()
        return self.take()

    def check(self) -> None:
        """Raise InputError if values are missing or do not meet the requirement."""
        self.faults.check()

    def take(self) -> Any:
        """The values of the pieces so far, whatever they are, shape (n,), which are forgotten."""
        pieces, self._pieces = self._pieces, []
        return joined(pieces, self.dtype)

    def drop(self) -> None:
        """Forget the values of the pieces so far."""
        self._pieces = []


class NumberKind(NamedTuple):
    """What the numbers of a column must be: from ``minimum`` to ``maximum`` in every row."""

    requirement: str
    minimum: float
    maximum: float
    hint: Hint | None = None
    transform: Callable[[NDArray[np.float64]], NDArray[np.float64]] | None = None


def _hint_of_predictions(least: float, largest: float) -> str:
    if least < -1.0 or (least < 0.0 and largest > 1.0):
        return f"; if they are logits, add {Option.LOGITS}"
    # A number just above 1 is not a percentage.
    return "; divide percentages by 100" if 2.0 < largest <= 100.0 else ""


PREDICTION: Final = NumberKind("prediction must be a number from 0 to 1", 0.0, 1.0, _hint_of_predictions)
LOGIT: Final = NumberKind("logit must be a number", -math.inf, math.inf, transform=expit)
CLASS_LOGIT: Final = NumberKind("logit must be a finite number", -_LARGEST / 4.0, _LARGEST / 4.0)
"""The difference of two is finite."""
WEIGHT: Final = NumberKind("weight must be a finite number of at least 0", 0.0, _LARGEST)
FEATURE: Final = NumberKind("feature must be a finite number", -_LARGEST, _LARGEST)


class Numbers(CheckedColumn):
    """Builds a column of numbers."""

    def __init__(self, place: ColumnPlace, kind: NumberKind) -> None:
        super().__init__(place, kind.requirement, kind.hint)
        self._kind = kind

    def _convert(self, array: pa.Array) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        values, kind = _floats(array), self._kind
        bad = ~((values >= kind.minimum) & (values <= kind.maximum))
        return (values if kind.transform is None else kind.transform(values)), bad


class Outcomes(CheckedColumn):
    """Builds the outcomes: 0 or 1, also spelled false or true, no or yes; empty where not known yet.

    Parameters
    ----------
    place
        Of the column.
    positive
        The value that counts as 1, for other spellings; any other value is then 0.
    """

    dtype = np.int8

    def __init__(self, place: ColumnPlace, positive: str | None = None) -> None:
        super().__init__(place, "outcome must be 0 or 1 (or false/true, no/yes, or empty if unknown)", self._hint)
        self._positive = positive
        self._has_positives = False
        self._spellings: dict[str, int] = {}

    def _convert(self, array: pa.Array) -> tuple[NDArray[np.int8], NDArray[np.bool_]]:
        codes, values = encoded(array)
        # The last entry is for an empty field, whose code is -1.
        outcome = np.array([self._outcome(value) for value in values] + [UNLABELLED], np.int8)[codes]
        self._has_positives = self._has_positives or bool((outcome == 1).any())
        return outcome, outcome < UNLABELLED

    def _outcome(self, value: object) -> int:
        if is_missing(value):
            return UNLABELLED
        outcome = _outcome(value) if self._positive is None else _is_positive(value, self._positive)
        if len(self._spellings) <= _MAX_LISTED:
            self._spellings[text_of(value).strip()] = outcome
        return outcome

    def _hint(self, least: float, largest: float) -> str:
        if least == largest == -1.0:
            return f"; where labels are -1 and 1, add {Option.POSITIVE} 1"
        if len(self._spellings) > _MAX_LISTED or {0, 1} <= set(self._spellings.values()):
            return ""
        return f"; {Option.POSITIVE} says which value is 1, of {self._listed()}"

    def _listed(self, outcomes: Sequence[int] = (1, 0, UNLABELLED, _INVALID)) -> str:
        named = [repr(text) for text, outcome in self._spellings.items() if outcome in outcomes]
        return ", ".join(named[:_MAX_LISTED]) + (", ..." if len(named) > _MAX_LISTED else "")

    @property
    def note(self) -> str | None:
        """Which values count as 1 and 0, if ``positive`` is given."""
        if self._positive is None:
            return None
        return f"outcome {self._listed((1,))} is 1, and {self._listed((0,)) or 'any other'} is 0"

    def check(self) -> None:
        """Raise InputError if some are neither 1 nor 0, or none is the positive value."""
        super().check()
        if self._positive is not None and self._rows and not self._has_positives:
            column = self.faults.place.column
            raise InputError(
                f"{column}: no outcome is {self._positive!r}, as {Option.POSITIVE} has it; there are {self._listed()}"
            )


class Times(CheckedColumn):
    """Builds the times: timestamps, RFC 3339 (UTC if without a zone), or milliseconds or seconds since 1970."""

    def __init__(self, place: ColumnPlace) -> None:
        super().__init__(place, "time must be RFC 3339 or milliseconds since the epoch")
        self._numbers_only = True
        self._taken = False
        self.seconds = False
        """Whether the numbers count seconds: decided by the pieces that were taken first."""

    def _convert(self, array: pa.Array) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        numbers, values = _times(array)
        self._numbers_only &= numbers
        return values, np.isnan(values)

    def take(self) -> NDArray[np.int64]:
        """Return the times of the pieces so far, shape (n,), milliseconds since the epoch; 0 for a bad one.

        Raises
        ------
        InputError
            Numbers taken for seconds are followed by others.
        """
        values: NDArray[np.float64] = np.nan_to_num(super().take())
        if values.size:
            seconds = self._numbers_only and bool(values.max() < _OLDEST_MS)
            if self._taken and self.seconds and not seconds:
                raise InputError(
                    f"{self.faults.place.column}: times begin as seconds since the epoch, and later ones are no such "
                    "seconds; write all of them in one unit"
                )
            self.seconds = self.seconds if self._taken else seconds
            self._taken = True
        if self.seconds:
            values *= 1000.0
        return np.floor(values).astype(np.int64)


class Ids(CheckedColumn):
    """Builds the ids: any value, taken as text, different in every row."""

    def __init__(self, place: ColumnPlace) -> None:
        super().__init__(place, "id must be there")
        self._repeated = Faults(place, "id must occur in one row only")
        self.all_faults = (self.faults, self._repeated)

    def _convert(self, array: pa.Array) -> tuple[pa.Array, NDArray[np.bool_]]:
        ids = id_texts(decoded(array), self.faults.place.column).cast(pa.string())
        return ids, pc.fill_null(pc.equal(ids, ""), fill_value=True).to_numpy(zero_copy_only=False)

    def finish(self) -> pa.ChunkedArray:
        """All of them, as strings, n values.

        Raises
        ------
        InputError
            Some are missing, or one occurs twice.
        """
        self.faults.check()
        ids = pa.chunked_array(self._pieces, pa.string())
        if pc.count_distinct(ids).as_py() < len(ids):
            code = ids.combine_chunks().dictionary_encode().indices.to_numpy(zero_copy_only=False)
            repeated = np.ones(code.size, np.bool_)
            repeated[np.unique(code, return_index=True)[1]] = False
            self._repeated.add(repeated, 0, ids)
            self._repeated.check()
        return ids


class Codes(Builder):
    """Builds a column of few distinct texts: the code of each row's text, by first appearance.

    Parameters
    ----------
    spell
        The text of a value (None for a missing one), or None for the code -1.
    """

    def __init__(self, spell: Callable[[object], str | None]) -> None:
        self._spell = spell
        self._pieces: list[NDArray[np.int32]] = []
        self.texts: dict[str, int] = {}

    def add(self, array: pa.Array) -> None:
        """Add the next piece."""
        codes, values = encoded(array)
        if codes.size and codes.min() < 0:
            values.append(None)
        self._pieces.append(np.array([self._code(value) for value in values], np.int32)[codes])

    def _code(self, value: object) -> int:
        text = self._spell(value)
        return -1 if text is None else self.texts.setdefault(text, len(self.texts))

    def finish(self) -> tuple[NDArray[np.int32], tuple[str, ...]]:
        """Code of each row of the pieces so far, shape (n,), which are forgotten; and the texts by code."""
        pieces, self._pieces = self._pieces, []
        return joined(pieces, np.int32), tuple(self.texts)


class Segments(Codes):
    """Builds one segment column: any values, taken as text; a missing one has a text of its own."""

    def __init__(self) -> None:
        super().__init__(lambda value: EMPTY if is_missing(value) else text_of(value))


class AnyValues(Builder):
    """Builds a column of any kind: numbers if all values are numbers, otherwise text; either may be missing."""

    def __init__(self) -> None:
        self._pieces: list[pa.Array] = []

    def add(self, array: pa.Array) -> None:
        """Add the next piece."""
        self._pieces.append(decoded(array))

    def finish(self) -> NDArray[np.float64] | tuple[NDArray[np.int32], tuple[str, ...]]:
        """Numbers, float64, shape (n,), nan where one is missing; or the code of each row's text, and texts by code."""
        if all(_is_numeric(piece.type) for piece in self._pieces):
            return joined([_floats(piece) for piece in self._pieces], np.float64)
        numbers = [_numbers_or_missing(piece) for piece in self._pieces]
        if all(piece is not None for piece in numbers):
            return joined([piece for piece in numbers if piece is not None], np.float64)
        texts = Segments()
        for piece in self._pieces:
            texts.add(piece)
        return texts.finish()


def joined(pieces: list[NDArray[Any]], dtype: type[np.generic]) -> NDArray[Any]:
    """The pieces of a column as one."""
    return np.concatenate(pieces) if pieces else np.zeros(0, dtype)


def _such_rows(count: int) -> str:
    """How many there are, for a message."""
    return "1 such row" if count == 1 else f"{count:,} such rows"


def is_missing(value: object) -> bool:
    """Whether a field is empty."""
    return value is None or value == "" or (isinstance(value, float) and np.isnan(value))


def text_of(value: object) -> str:
    """A value as text, as JSON spells it; bytes that are no text in hexadecimal."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return value.hex()
    return str(value).lower() if isinstance(value, bool) else str(value)


def _is_numeric(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _numbers_or_missing(array: pa.Array) -> NDArray[np.float64] | None:
    """The numbers that texts spell, nan where there is none; None if a text is neither a number nor missing."""
    if pa.types.is_null(array.type):
        return np.full(len(array), np.nan)
    if not _is_text(array.type):
        return None
    if pc.any(pc.match_substring_regex(array, r"^0\d")).as_py():
        return None  # a postcode is not a quantity
    numbers = _floats(array)
    unread = array.filter(pa.array(np.isnan(numbers)))
    spelled = {value.strip().lower() for value in unread.drop_null().unique().to_pylist()}
    return numbers if spelled <= MISSING_WORDS else None


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def decoded(array: pa.Array) -> pa.Array:
    """The values of a dictionary array; other arrays unchanged."""
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def id_texts(array: pa.Array, column: str) -> pa.Array:
    """Ids without bytes: UUIDs as they are written, and bytes that are UTF-8 as their text; others unchanged.

    Raises
    ------
    InputError
        They are other bytes, for which no text is certain: events hold the one that their writer chose.
    """
    kind = array.type
    if isinstance(kind, pa.UuidType):
        return pa.array([None if value is None else str(value) for value in array.to_pylist()], pa.string())
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        with suppress(pa.ArrowInvalid):
            return array.cast(pa.string())
    elif not pa.types.is_fixed_size_binary(kind):
        return array
    raise InputError(
        f"{column}: ids are bytes that are no text ({kind}); write them as the texts that the events have, or give the "
        "column Parquet's type UUID"
    )


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
    codes = from_arrow(array.indices.cast(pa.int64()), -1)
    return codes, array.dictionary.to_pylist()


def _floats(array: pa.Array) -> NDArray[np.float64]:
    """The numbers of an array, shape (n,); nan where there is none."""
    array = decoded(array)
    if _is_numeric(array.type):
        return from_arrow(array.cast(pa.float64(), safe=False), np.nan)
    if _is_text(array.type):
        try:
            return from_arrow(pc.cast(array, pa.float64()), np.nan)
        except pa.ArrowInvalid:  # some value is not a number: find out which
            return np.array([_float(text) for text in array.to_pylist()], np.float64)
    return np.full(len(array), np.nan)


def _float(text: str | None) -> float:
    try:
        return float(text) if text is not None else float("nan")
    except ValueError:
        return float("nan")


def _is_positive(value: object, positive: str) -> int:
    """1 for the positive value, UNLABELLED for a missing one, 0 for anything else."""
    text, wanted = text_of(value).strip().lower(), positive.strip().lower()
    if text == wanted or _float(text) == _float(wanted):
        return 1
    return UNLABELLED if text in MISSING_WORDS else 0


def _outcome(value: object) -> int:
    """1, 0, UNLABELLED, or _INVALID."""
    if isinstance(value, str):
        word = value.strip().lower()
        if word in OUTCOME_SPELLINGS:
            return OUTCOME_SPELLINGS[word]
        value = _float(word)
    return 1 if value == 1 else 0 if value == 0 else _INVALID


def _times(array: pa.Array) -> tuple[bool, NDArray[np.float64]]:
    """Whether these are plain numbers; and milliseconds (or what the numbers count), nan where there is no time."""
    array = decoded(array)
    kind = array.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return True, _floats(array)
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return False, _milliseconds(array)
    if not _is_text(kind):
        return False, np.full(len(array), np.nan)
    for target in _TEXT_TIMES:
        with suppress(pa.ArrowInvalid):
            return _times(pc.cast(array, target))
    # Several spellings in one column, or a bad value: one by one.
    return False, np.array([_time(text) for text in array.to_pylist()], np.float64)


def _milliseconds(array: pa.Array) -> NDArray[np.float64]:
    moments = array.cast(pa.timestamp("us"), safe=False)
    return np.asarray(moments.cast(pa.int64()).cast(pa.float64(), safe=False), np.float64) / 1000.0


_TEXT_TIMES: Final = (pa.float64(), pa.timestamp("us", "UTC"), pa.timestamp("us"))
"""Types to read times in a text column as, in this order."""


def _time(text: str | None) -> float:
    try:
        moment = datetime.fromisoformat((text or "").strip())
    except ValueError:
        return float("nan")
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return moment.timestamp() * 1000.0
