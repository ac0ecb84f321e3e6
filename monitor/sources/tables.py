"""Reads a table of predictions and outcomes, one row a prediction, from a file or from memory."""

import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from monitor.errors import InputError
from monitor.options import Option
from monitor.scores.arguments import listed
from monitor.scores.class_table import positive_class
from monitor.sources.class_columns import (
    ClassColumns,
    ClassOutcomes,
    VectorColumn,
    class_names,
    hint_of_classes,
    holds_vectors,
)
from monitor.sources.columns import (
    EMPTY,
    FEATURE,
    LOGIT,
    PREDICTION,
    UNLABELLED,
    WEIGHT,
    AnyValues,
    Builder,
    CheckedColumn,
    ColumnPlace,
    Faults,
    Ids,
    Numbers,
    Outcomes,
    Segments,
    Times,
)
from monitor.sources.formats import TableFile, first_repeated, open_table
from monitor.sources.stored_files import naming

PREDICTION_NAMES: Final = (
    *("p", "prediction", "predictions", "score", "proba", "probability", "prob", "y_prob", "y_proba", "y_score"),
    *("p_hat", "predicted_probability", "pred_proba", "y_pred", "pred", "predicted", "y_hat"),
)
OUTCOME_NAMES: Final = ("y", "outcome", "outcomes", "label", "target", "y_true", "true_label", "actual", "observed")
TIME_NAMES: Final = ("ts", "time", "timestamp", "event_time", "prediction_time", "datetime", "date")
"""The usual names of columns, most specific first, in any case: used to guess columns that are not named."""
_TIMED: Final = (
    "snapshot",
    "scored",
    "scoring",
    "score",
    "predicted",
    "inference",
    "observation",
    "request",
    "created",
)
"""First words of the names of times of predictions: of ``snapshot_date`` and ``scored_at``, not of ``birth_date``."""
_TIMES: Final = tuple(f"{what}_{last}" for what in _TIMED for last in ("at", "on", "time", "date", "ts", "timestamp"))
_WORDS: Final = re.compile(r"[\W_]+")

FEW: Final = 50
"""Outcomes below which a report says that it is uncertain."""

_PART_ROWS: Final = 300_000
"""Rows of each table but the first, where there are several."""

_PROCESS_BYTES: Final = 350e6
_ROW_BYTES: Final = 210.0
_COLUMN_BYTES: Final = 16.0
"""What a report takes at its peak, as measured: the process, a row with prediction and outcome, any further column."""


@dataclass(frozen=True, slots=True)
class SegmentColumn:
    """One column whose values divide the rows into segments.

    Attributes
    ----------
    codes
        int32, shape (n,): index into ``values``.
    values
        The distinct values as text, ``(empty)`` for empty fields.
    titles
        Names of the segments by value; ``column=value`` if empty.
    """

    codes: NDArray[np.int32]
    values: tuple[str, ...]
    titles: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EventTable:
    """The rows of a table.

    Attributes
    ----------
    prediction
        float64, every value in [0, 1]: shape (n,), or (n, K) where there are many classes.
    outcome
        int8, shape (n,): 1, 0, or -1 for a prediction without an outcome. int64 where there are many classes: the class
        that came true, or -1.
    time_ms
        int64, shape (n,), milliseconds since the epoch; None where the file has no times.
    segments
        Segment columns by name.
    notes
        What was assumed, one line each, for people.
    cautions
        Reasons for caution about a report of these rows, one line each.
    weight
        float64, shape (n,), every value finite and >= 0; None where no column was named.
    ids
        n strings, all different; None if no column was named.
    features
        float64, shape (n, d), the columns in the order in which they were named; None where none was.
    classes
        Names of the K classes; empty if predictions are P(y = 1).
    prediction_columns
        The columns that predictions were read from, named or guessed.
    values
        Columns of any kind by name: numbers, float64, shape (n,), nan where one is missing; or text.
    """

    prediction: NDArray[np.float64]
    outcome: NDArray[np.int8] | NDArray[np.int64]
    time_ms: NDArray[np.int64] | None = None
    segments: Mapping[str, SegmentColumn] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    cautions: tuple[str, ...] = ()
    weight: NDArray[np.float64] | None = None
    ids: pa.ChunkedArray | None = None
    features: NDArray[np.float64] | None = None
    classes: tuple[str, ...] = ()
    prediction_columns: tuple[str, ...] = ()
    values: Mapping[str, NDArray[np.float64] | SegmentColumn] = field(default_factory=dict)

    def __len__(self) -> int:
        return int(self.prediction.shape[0])

    def groups(self, name: str) -> NDArray[np.str_]:
        """The group of each row, shape (n,), by one segment column or several, ``a*b``; "" if a field is empty."""
        parts = crossed_columns(name, self.segments)
        complete = np.ones(len(self), np.bool_)
        result = np.full(len(self), "", np.str_)
        for part in parts:
            column = self.segments[part]
            complete &= (np.array([*column.values, EMPTY]) != EMPTY)[column.codes]
            texts = np.array([*column.values, ""], np.str_)[column.codes]
            result = texts if part == parts[0] else np.char.add(np.char.add(result, ", "), texts)
        return np.where(complete, result, "")

    def select(self, keep: NDArray[np.bool_]) -> "EventTable":
        """The rows for which ``keep``, shape (n,), holds."""

        def kept(column: Any) -> Any:
            if column is None:
                return None
            if isinstance(column, Mapping):
                return {name: kept(part) for name, part in column.items()}
            if isinstance(column, SegmentColumn):
                return replace(column, codes=column.codes[keep])
            return column.filter(pa.array(keep)) if isinstance(column, pa.ChunkedArray) else column[keep]

        by_row = ("prediction", "outcome", "time_ms", "segments", "weight", "ids", "features", "values")
        return replace(self, **{name: kept(getattr(self, name)) for name in by_row})


class Columns(NamedTuple):
    """The columns of a table by their roles, and how their values are read.

    Attributes
    ----------
    prediction
        Column with P(y = 1): a number from 0 to 1 in every row. Guessed by its name if left out. For many
        classes, several columns, one a class, or one column of lists: rows must add up to 1. Two of them are
        P(y = 0) and P(y = 1).
    outcome
        Column with the outcome: 0 or 1, also false/true or no/yes; empty where it is not known (yet). For many classes
        the number of the class, counted from 0, or its name. Guessed likewise.
    time
        Column with the prediction's time: a timestamp, RFC 3339, or milliseconds or seconds since the epoch. Guessed
        likewise; a guessed column that holds anything else is left out, and a note says so.
    weight
        Column with the weight of each row: a finite number of at least 0.
    id
        Column that identifies the rows, so that two files can be matched: a different value in every row.
    segments
        Columns whose values divide the rows into segments; ``a*b`` reads a and b, unless a column has that name.
    features
        Columns with finite numbers.
    positive
        The outcome that is 1; any other is 0 then.
    logits
        Whether the predictions are logits: log odds, or of many classes what softmax is applied to.
    skip_bad_rows
        Whether rows with a bad value are left out, with a caution for each kind of them.
    """

    prediction: Sequence[str] = ()
    outcome: str | None = None
    time: str | None = None
    weight: str | None = None
    id: str | None = None
    segments: Sequence[str] = ()
    features: Sequence[str] = ()
    positive: str | None = None
    logits: bool = False
    skip_bad_rows: bool = False

    def names(self) -> list[str]:
        """Every column once."""
        single = [name for name in (self.outcome, self.time, self.weight, self.id) if name is not None]
        return list(dict.fromkeys((*self.prediction, *single, *self.segments, *self.features)))


_GUESSED: Final = Columns()


def read_table(
    source: str | Path | TableFile,
    columns: Columns = _GUESSED,
    *,
    progress: Callable[[int], None] | None = None,
    **reading: Any,
) -> EventTable:
    """Read all rows of a table: see :class:`TableReading`.

    Parameters
    ----------
    source, columns, reading
        As of :func:`open_reading`.
    progress
        Called with the number of rows read so far, after every piece.

    Raises
    ------
    InputError
        As of :func:`open_reading`; or values are bad: names the file, the column, the first such line (of Parquet,
        row) and its value, and how many there are.
    """
    (table,) = open_reading(source, columns, **reading).tables(progress)
    return table


def open_reading(
    source: str | Path | TableFile,
    columns: Columns = _GUESSED,
    *,
    values: Sequence[str] = (),
    other_values: bool = False,
    labelled: bool = True,
    of_classes: bool = False,
) -> "TableReading":
    """Find the columns of a table: a file (.csv, .tsv, .parquet, .pq, .orc, .avro, .jsonl, ...), etc.

    Parameters
    ----------
    source
        The file, or a table that is open.
    columns
        The columns; those of predictions, outcomes and times are guessed where they are left out.
    values
        Columns of any kind, read into the table's ``values``.
    other_values
        Whether every column without a role is also read into the table's ``values``.
    labelled
        Whether columns of outcomes and times are guessed if not named.
    of_classes
        Whether two columns, or lists of two, are of many classes, too.

    Raises
    ------
    InputError
        The file cannot be read, or a column is not there.
    """
    file = source if isinstance(source, TableFile) else Path(source)
    title = file.name if isinstance(file, TableFile) else str(file)
    with naming(title):
        table = file if isinstance(file, TableFile) else open_table(file, skip_bad_rows=columns.skip_bad_rows)
        names = table.names()
        segments = tuple(dict.fromkeys(part for name in columns.segments for part in crossed_columns(name, names)))
        header = _ColumnNames(title, names, {*columns._replace(segments=segments).names(), *values})
        for role, columns_of_role in (("segment", segments), ("feature", (*columns.features, *values))):
            for name in columns_of_role:
                header.require(role, name)
        prediction = header.choose_predictions(columns.prediction)
        chosen = columns._replace(
            prediction=prediction,
            outcome=(
                header.choose(Option.OUTCOME, columns.outcome, (*OUTCOME_NAMES, *_outcomes_of(prediction[0])))
                if labelled or columns.outcome is not None
                else None
            ),
            time=header.optional("time", columns.time, (*TIME_NAMES, *_TIMES) if labelled else ()),
            segments=segments,
            weight=header.optional("weight", columns.weight),
            id=header.optional("id", columns.id),
        )
        if other_values:
            with_role = {*chosen.prediction, chosen.outcome, chosen.time, chosen.weight, chosen.id}
            values = (*values, *(name for name in names if name not in with_role))
        alternative = f", or add {Option.SKIP_BAD_ROWS}" if labelled else ""
        return TableReading(
            table,
            chosen,
            header.notes,
            lambda column: ColumnPlace(f"{title}: column {column!r}", table.place, columns.skip_bad_rows, alternative),
            values=tuple(dict.fromkeys(values)),
            time_guessed=columns.time is None,
            of_classes=of_classes,
        )


def _outcomes_of(prediction: str) -> list[str]:
    """Usual names of the outcome beside a column such as ``churn_probability``: churn, churned, is_churn, ..."""
    *stem, last = _WORDS.split(prediction.strip().lower())
    if not stem or last not in PREDICTION_NAMES:
        return []
    what = "_".join(stem)
    forms = [what, f"{what}d" if what.endswith("e") else f"{what}ed"]
    return [*forms, *(f"{be}_{form}" for be in ("is", "has", "was") for form in forms), f"{what}_flag"]


def crossed_columns(name: str, columns: Container[str]) -> tuple[str, ...]:
    """The columns of a segment: ``a*b`` names a and b, unless a column has that name."""
    return (name,) if name in columns else tuple(part.strip() for part in name.split("*"))


class _ColumnNames:
    """Finds the columns: the named ones, or those with the most specific usual names."""

    def __init__(self, path: str, names: Sequence[str], used: set[str]) -> None:
        self._path = path
        self._names = names
        self._used = used
        self.notes: list[str] = []

    def choose(self, option: Option, given: str | None, usual: Sequence[str]) -> str:
        """The column of a role that must have one."""
        role = option.value
        if given is not None:
            return self.require(role, given)
        matches = self._usual(usual) or self._ending(usual)
        if not matches:
            raise InputError(
                f"{self._path}: no column looks like the {role} ({', '.join(usual[:5])}, ...); "
                f"name it with {option}; columns are {listed(self._names)}{_hint_of_missing_header(self._names)}"
                f"{hint_of_classes(self._names, usual) if option is Option.PREDICTION else ''}"
            )
        also = f" (not from {listed(matches[1:])}; {option} chooses another)" if len(matches) > 1 else ""
        self.notes.append(f"{role} read from column {matches[0]!r}{also}")
        self._used.add(matches[0])
        return matches[0]

    def choose_predictions(self, given: Sequence[str]) -> tuple[str, ...]:
        """The column of predictions, or those of the classes."""
        repeated = first_repeated(given)
        if repeated is not None:
            raise InputError(
                f"{self._path}: {Option.PREDICTION} names column {repeated!r} twice; name the column of each class once"
            )
        named = tuple(self.require("prediction", name) for name in given)
        return named or (self.choose(Option.PREDICTION, None, PREDICTION_NAMES),)

    def optional(self, role: str, given: str | None, usual: Sequence[str] = ()) -> str | None:
        """The column of a role that may have none."""
        if given is not None:
            return self.require(role, given)
        return next(iter(self._usual(usual)), None)

    def require(self, role: str, name: str) -> str:
        """The column of that name."""
        if name not in self._names:
            raise InputError(f"{self._path}: no {role} column {name!r}; columns are {listed(self._names)}")
        return name

    def _usual(self, usual: Sequence[str]) -> list[str]:
        by_lower = self._by_lower()
        return [by_lower[name] for name in usual if name in by_lower]

    def _ending(self, usual: Sequence[str]) -> list[str]:
        """The columns whose last word is such a name: ``churn_probability``; not a letter alone, as in ``coord_y``."""
        words = [(_WORDS.split(lower)[-1], name) for lower, name in self._by_lower().items()]
        return [name for one in usual if len(one) > 1 for word, name in words if word == one]

    def _by_lower(self) -> dict[str, str]:
        return {name.strip().lower(): name for name in reversed(self._names) if name not in self._used}


_B = TypeVar("_B", bound=Builder)


class TableReading:
    """Reads the columns of one table. One column may have several roles.

    The table is read piece by piece: memory holds 9 bytes a row, 8 more with times and for each further number, and 4
    more a segment column, and for a moment twice the largest of these; ids and values are held as they are.
    """

    def __init__(
        self,
        source: TableFile,
        columns: Columns,
        notes: list[str],
        place: Callable[[str | None], ColumnPlace],
        *,
        values: Sequence[str],
        time_guessed: bool,
        of_classes: bool,
    ) -> None:
        self._source = source
        self._columns = columns
        self._notes = notes
        self._time_guessed = time_guessed
        self._of_classes = of_classes
        self._builders: list[tuple[str, Builder]] = []
        self._taken = self._bad = 0
        """Rows of the tables so far, and those of them with a bad value."""
        self.is_large = False
        """Whether there are more rows than one table may have."""
        names = list(dict.fromkeys((*columns.names(), *values)))
        pieces = (dict(zip(names, arrays, strict=True)) for arrays in source.pieces(names))
        first = next(pieces, None)
        self._pieces = chain([] if first is None else [first], pieces)
        self._scores: Numbers | VectorColumn | ClassColumns
        if len(columns.prediction) > 1:  # of many classes, one column each
            whole = place(None)._replace(column=f"{source.name}: columns {listed(columns.prediction)}")
            self._scores = ClassColumns(whole, [place(name) for name in columns.prediction], logits=columns.logits)
            self._builders += zip(columns.prediction, self._scores.builders, strict=True)
        else:
            (name,) = columns.prediction
            lists = first is not None and holds_vectors(first[name])
            scores = (
                VectorColumn(place(name), logits=columns.logits)
                if lists
                else Numbers(place(name), LOGIT if columns.logits else PREDICTION)
            )
            self._scores = self._add(name, scores)
        self._outcomes: Outcomes | ClassOutcomes
        if isinstance(self._scores, Numbers) or columns.positive is not None:
            self._outcomes = self._add(columns.outcome, Outcomes(place(columns.outcome), columns.positive))
        else:
            self._outcomes = self._add(columns.outcome, ClassOutcomes(place(columns.outcome)))
        self._times = self._add(columns.time, Times(place(columns.time)))
        self._weights = self._add(columns.weight, Numbers(place(columns.weight), WEIGHT))
        self._ids = self._add(columns.id, Ids(place(columns.id)))
        self._segments = {name: self._add(name, Segments()) for name in columns.segments}
        self._features = [self._add(name, Numbers(place(name), FEATURE)) for name in columns.features]
        self._values = {name: self._add(name, AnyValues()) for name in values}

    def _add(self, name: str | None, builder: _B) -> _B:
        """Let the builder read the column of this name, if there is one."""
        if name is not None:
            self._builders.append((name, builder))
        return builder

    @property
    def share(self) -> float | None:
        """Share of the table that has been read; None where that is unknown."""
        return self._source.share

    def tables(
        self, progress: Callable[[int], None] | None = None, *, max_rows: int | None = None
    ) -> Iterator[EventTable]:
        """Read all rows: as one table, or as several of some 300,000 rows if there are more than ``max_rows``.

        Of several tables, the first has up to ``max_rows`` rows, codes of segments are of the same values throughout
        (a later table may have more values), and notes and cautions are left out: :meth:`lines` has those of all.

        Parameters
        ----------
        progress
            Called with the number of rows read so far, after every piece.
        max_rows
            Rows of one table; any number if left out.

        Raises
        ------
        InputError
            The table cannot be read, or values are bad: names the file, the column, the first such line (of Parquet,
            row) and its value, and how many there are. Or there are more rows, and columns of which no part can be
            measured alone.
        """
        with naming(self._source.name):
            rows = held = 0
            for piece in self._pieces:
                size = len(next(iter(piece.values())))
                if not self.is_large and max_rows is not None and rows + size > max_rows:
                    self._require_countable(max_rows)
                    self.is_large = True
                    yield from self._part()
                    held = 0
                for name, builder in self._builders:
                    builder.add(piece[name])
                rows, held = rows + size, held + size
                if progress is not None:
                    progress(rows)
                if self.is_large and held >= _PART_ROWS:
                    yield from self._part()
                    held = 0
            if not self.is_large:
                yield self._whole()
                return
            yield from self._part()
            for builder in self._checked():
                if isinstance(builder, CheckedColumn):
                    builder.check()

    def max_rows(self, memory: float) -> int:
        """Number of rows whose report takes so many bytes."""
        others = len(self._columns.names()) + len(self._values) - 2
        return max(0, int((memory - _PROCESS_BYTES) / (_ROW_BYTES + _COLUMN_BYTES * max(others, 0))))

    def lines(self) -> tuple[list[str], list[str]]:
        """What was assumed, and how many rows were left out and why, once all tables were read.

        Raises
        ------
        InputError
            Every row is left out.
        """
        notes = [*self._notes]
        if isinstance(self._outcomes, Outcomes) and self._outcomes.note is not None:
            notes.append(self._outcomes.note)
        name = self._columns.time
        unit = ", taken as seconds since the epoch" if self._times.seconds else ""
        if name is not None and self._leaves_times_out:
            notes.append(f"column {name!r} holds values that are not times, so it is left out")
        elif name is not None and (self._time_guessed or unit):
            notes.append(f"time read from column {name!r}{unit}")
        return notes, self._left_out()

    def _whole(self) -> EventTable:
        """The table of all pieces."""
        rows = self._rows(whole=True)
        table = self._without_bad_rows(rows)
        self._taken = len(rows)
        notes, left_out = self.lines()
        cautions = cautions_of(TableSummary.of(table)) if len(rows) or left_out else [self._source.empty]
        return replace(table, notes=tuple(notes), cautions=(*left_out, *cautions))

    def _rows(self, *, whole: bool) -> EventTable:
        """The rows of the pieces since the last table, with bad values in those that are to be left out.

        If they are the ``whole``, bad values that are not to be left out are refused.
        """
        columns = self._columns

        def values(builder: Any) -> Any:
            return builder.finish() if whole else builder.take()

        prediction = values(self._scores)
        outcome: NDArray[np.int8] | NDArray[np.int64]
        classes: tuple[str, ...] = ()
        count = prediction.shape[1] if prediction.ndim == 2 else 2
        is_binary = prediction.ndim == 1 or (count == 2 and not self._of_classes)
        if isinstance(self._outcomes, Outcomes):
            if not is_binary:
                raise InputError(
                    f"{self._source.name}: {Option.POSITIVE} is for predictions P(y = 1), and these are of many classes"
                )
            outcome = values(self._outcomes)
        else:
            several = columns.prediction if isinstance(self._scores, ClassColumns) else ()
            outcome = self._outcomes.classes_of(several, count)
            classes = class_names(several) if several else tuple(str(number) for number in range(count))
        if is_binary and prediction.ndim == 2:
            prediction, outcome, classes = positive_class(prediction), outcome.astype(np.int8), ()
        if columns.outcome is None:
            outcome = np.full(prediction.shape[0], UNLABELLED, outcome.dtype)
        times = None
        if not self._leaves_times_out:
            times = values(self._times)
        elif columns.time is not None:
            self._times.drop()
        return EventTable(
            prediction=prediction,
            outcome=outcome,
            time_ms=times,
            segments={name: SegmentColumn(*builder.finish()) for name, builder in self._segments.items()},
            weight=None if columns.weight is None else values(self._weights),
            ids=None if columns.id is None else values(self._ids),
            features=np.column_stack([values(builder) for builder in self._features]) if self._features else None,
            classes=classes,
            prediction_columns=tuple(columns.prediction),
            values={name: _value_column(builder) for name, builder in self._values.items()},
        )

    def _part(self) -> Iterator[EventTable]:
        """The table of the pieces since the last one; none once there is a value that is refused in the end."""
        table = self._rows(whole=False)
        if not any(fault.refused for fault in self._faults()):
            yield self._without_bad_rows(table)
        for fault in self._faults():
            fault.forget()
        self._taken += len(table)

    def _without_bad_rows(self, table: EventTable) -> EventTable:
        """The table without rows that have a bad value."""
        faults = self._faults()
        bad = np.unique(np.concatenate([np.zeros(0, np.intp), *(fault.rows for fault in faults)])) - self._taken
        self._bad += bad.size
        if not bad.size:
            return table
        keep = np.ones(len(table), np.bool_)
        keep[bad] = False
        return table.select(keep)

    def _left_out(self) -> list[str]:
        """A line for each kind of row that was left out."""
        unread, why = self._source.unread
        faults = self._faults()
        if not (faults or unread):
            return []
        if self._bad == self._taken and faults:
            raise InputError(f"{self._source.name}: no row is left without a bad value: {faults[0].summary()}")
        left_out, rows = self._bad + unread, self._taken + unread
        lines = [f"{left_out:,} of {rows:,} rows are left out, which {Option.SKIP_BAD_ROWS} asks for"]
        if unread:
            lines.append(f"{unread:,} {'row' if unread == 1 else 'rows'} left out: {why}")
        return [*lines, *(fault.summary() for fault in faults)]

    def _checked(self) -> Iterator[Any]:
        """The columns whose values must meet a requirement."""
        # A guessed time column with bad values is left out.
        times = [] if self._time_guessed else [self._times]
        yield from (self._scores, self._outcomes, *times, self._weights, self._ids, *self._features)

    def _faults(self) -> list[Faults]:
        return [fault for builder in self._checked() for fault in builder.all_faults if fault]

    @property
    def _leaves_times_out(self) -> bool:
        return self._columns.time is None or (self._time_guessed and bool(self._times.faults))

    def _require_countable(self, rows: int) -> None:
        """Raise InputError if the columns include some of which parts of the rows cannot be measured alone."""
        columns = self._columns
        roles = {
            "predictions in several columns or lists": not isinstance(self._scores, Numbers),
            str(Option.WEIGHT): columns.weight is not None,
            str(Option.ID): columns.id is not None,
            f"{Option.FEATURE}, and the search for segments,": bool(columns.features or self._values),
        }
        for role in (role for role, used in roles.items() if used):
            raise InputError(
                f"{self._source.name}: has more than {rows:,} rows, the most that {Option.MEMORY} has room for, and "
                f"{role} need all rows at once: choose fewer rows with {Option.WHERE}, or give more {Option.MEMORY}"
            )


def _value_column(builder: AnyValues) -> NDArray[np.float64] | SegmentColumn:
    column = builder.finish()
    return SegmentColumn(*column) if isinstance(column, tuple) else column


class TableSummary(NamedTuple):
    """What cautions depend on."""

    rows: int
    one_prediction: str | None
    """The prediction of all rows, in words, where there are several and all have the same."""
    ends_only: bool
    """Whether every prediction is 0 or 1."""
    labelled: int
    one_outcome: int | None
    """The outcome that all rows with an outcome have."""

    @classmethod
    def of(cls, table: EventTable) -> "TableSummary":
        """Summarise the rows of a table."""
        prediction, labels = table.prediction, table.outcome[table.outcome >= 0]
        constant = len(table) > 1 and bool((prediction == prediction[0]).all())
        return cls(
            len(table),
            (f"{prediction[0]:g}" if prediction.ndim == 1 else "the same") if constant else None,
            len(table) > 0 and bool(((prediction == 0.0) | (prediction == 1.0)).all()),
            labels.size,
            int(labels[0]) if labels.size and bool((labels == labels[0]).all()) else None,
        )


def cautions_of(rows: TableSummary) -> Iterator[str]:
    """Yield reasons for caution about a report of these rows."""
    if not rows.rows:
        yield "the file has columns and no rows"
        return
    if 0 < rows.labelled < FEW:
        have = "prediction has" if rows.labelled == 1 else "predictions have"
        yield f"only {rows.labelled} {have} an outcome: with so few, only large errors are significant"
    if rows.one_prediction is not None:
        yield f"every prediction is {rows.one_prediction}: a report can only show whether they are right on average"
    elif rows.ends_only:
        yield "every prediction is 0 or 1: are these classes, not probabilities?"
    if rows.one_outcome is not None:
        yield f"every outcome is {rows.one_outcome}: are outcomes of the other kind missing?"


def _hint_of_missing_header(names: Sequence[str]) -> str:
    """A hint if the first line looks like data: hardly any column has a decimal number as its name."""
    first_is_data = any(re.fullmatch(r"\d*\.\d+(e-?\d+)?", name, re.IGNORECASE) for name in names)
    return "; the first line must name the columns" if first_is_data else ""
