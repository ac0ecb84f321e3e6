"""A file of predictions and outcomes: one row a prediction, one column each."""

import contextlib
import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from monitor.errors import InputError
from monitor.sources.class_columns import ClassOutcomes, Columns, Vectors, class_names, hint_of_classes, holds_vectors
from monitor.sources.columns import (
    EMPTY,
    UNLABELLED,
    ColumnBuilder,
    Faults,
    Ids,
    Numbers,
    Outcomes,
    Place,
    Segments,
    Times,
    Values,
    features,
    predictions,
    weights,
)
from monitor.sources.formats import TableFile, open_table
from monitor.sources.memory import MemoryTable

PREDICTION_NAMES: Final = (
    *("p", "prediction", "predictions", "score", "proba", "probability", "prob", "y_prob", "y_proba", "y_score"),
    *("p_hat", "predicted_probability", "pred_proba", "y_pred", "pred", "predicted", "y_hat"),
)
OUTCOME_NAMES: Final = ("y", "outcome", "outcomes", "label", "target", "y_true", "true_label", "actual", "observed")
TIME_NAMES: Final = ("ts", "time", "timestamp", "event_time", "prediction_time", "datetime", "date")
"""What columns are called where nobody says, most telling name first. Upper and lower case are the same."""

FEW: Final = 50
"""With fewer outcomes a note asks for caution."""


@dataclass(frozen=True, slots=True)
class SegmentColumn:
    """One column by whose values the rows are told apart.

    Attributes
    ----------
    codes
        int32, shape (n,): index into ``values``.
    values
        The distinct values as text, ``(empty)`` for empty fields.
    titles
        What the segment of each value is called; ``column=value`` where there are none.
    """

    codes: NDArray[np.int32]
    values: tuple[str, ...]
    titles: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EventTable:
    """The rows of a file.

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
        What was assumed, a line each, for people.
    cautions
        What to mind when reading a report of these rows, a line each.
    weight
        float64, shape (n,), every value finite and >= 0; None where no column was named.
    ids
        n strings, all different; None where no column was named.
    features
        float64, shape (n, d), the columns in the order in which they were named; None where none was.
    classes
        Names of the K classes; none where predictions are P(y = 1).
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
        """The group of each row, shape (n,): by a segment column, or by several, ``a*b``; empty where a field is."""
        parts = crossed_columns(name, self.segments)
        known = np.ones(len(self), np.bool_)
        result = np.full(len(self), "", np.str_)
        for part in parts:
            column = self.segments[part]
            known &= (np.array([*column.values, EMPTY]) != EMPTY)[column.codes]
            texts = np.array([*column.values, ""], np.str_)[column.codes]
            result = texts if part == parts[0] else np.char.add(np.char.add(result, ", "), texts)
        return np.where(known, result, "")

    def select(self, keep: NDArray[np.bool_]) -> "EventTable":
        """The rows for which ``keep``, shape (n,), holds."""

        def kept(column: NDArray[np.float64] | SegmentColumn) -> NDArray[np.float64] | SegmentColumn:
            return replace(column, codes=column.codes[keep]) if isinstance(column, SegmentColumn) else column[keep]

        return replace(
            self,
            prediction=self.prediction[keep],
            outcome=self.outcome[keep],
            time_ms=None if self.time_ms is None else self.time_ms[keep],
            segments={name: replace(column, codes=column.codes[keep]) for name, column in self.segments.items()},
            weight=None if self.weight is None else self.weight[keep],
            ids=None if self.ids is None else self.ids.filter(pa.array(keep)),
            features=None if self.features is None else self.features[keep],
            values={name: kept(column) for name, column in self.values.items()},
        )


def read_table(
    path: str | Path | MemoryTable,
    *,
    prediction: str | Sequence[str] | None = None,
    outcome: str | None = None,
    time: str | None = None,
    segments: Sequence[str] = (),
    weight: str | None = None,
    ids: str | None = None,
    features: Sequence[str] = (),
    values: Sequence[str] = (),
    other_values: bool = False,
    positive: str | None = None,
    logits: bool = False,
    skip_bad_rows: bool = False,
    labelled: bool = True,
    progress: Callable[[int], None] | None = None,
) -> EventTable:
    """Read a CSV, Parquet or JSON lines file: .csv, .tsv, .parquet, .pq, .jsonl, .ndjson, .json; text also with .gz.

    The file is read piece by piece: memory holds 9 bytes a row, 8 more with times and for each further number, and 4
    more a segment column, and for a moment twice the largest of these; ids and values are held as they are.

    Parameters
    ----------
    path
        The file, or a table in memory.
    prediction
        Column with P(y = 1): a number from 0 to 1 in every row. Guessed from the usual names if left out. For many
        classes, several columns, one a class, or one column of lists: rows must add up to 1.
    outcome
        Column with the outcome: 0 or 1, also false/true or no/yes; empty where it is not known (yet). For many classes
        the number of the class, counted from 0, or its name. Guessed likewise.
    time
        Column with the prediction's time: a timestamp, RFC 3339, or milliseconds or seconds since the epoch. Guessed
        likewise; a guessed column that holds anything else is left out, and a note says so.
    segments
        Columns by whose values the rows are told apart; ``a*b`` reads a and b, unless a column is called so.
    weight
        Column with the weight of each row: a finite number of at least 0.
    ids
        Column by which rows of two files are told to be the same: a different value in every row.
    features
        Columns with finite numbers.
    values
        Columns of any kind.
    other_values
        Whether every column without a role is read into ``values``, too.
    positive
        The outcome that is 1; any other is 0 then.
    logits
        Whether the predictions are logits: log odds, or of many classes what softmax is applied to.
    skip_bad_rows
        Whether rows with a bad value are left out, with a caution for each kind of them.
    labelled
        Whether outcomes and times are looked for where nobody names them; otherwise such a column is not read.
    progress
        Called with the number of rows read so far, after every piece.

    Raises
    ------
    InputError
        The file cannot be read, a column is not there, or values are bad: names the file, the column, the first such
        line (of Parquet, row) and its value, and how many there are.
    """
    file = path if isinstance(path, MemoryTable) else Path(path)
    several = () if prediction is None else (prediction,) if isinstance(prediction, str) else tuple(prediction)
    with _naming(file):
        source = file if isinstance(file, MemoryTable) else open_table(file, skip_bad_rows=skip_bad_rows)
        names = source.names()
        apart = tuple(dict.fromkeys(part for name in segments for part in crossed_columns(name, names)))
        named = (*several, *apart, *features, *values, *(name for name in (outcome, time, weight, ids) if name))
        header = _Header(file, names, set(named))
        for role, columns_of_role in (("segment", apart), ("feature", features), ("feature", values)):
            for name in columns_of_role:
                header.require(role, name)
        columns = _Columns(
            predictions=header.choose_several("prediction", several, PREDICTION_NAMES),
            outcome=header.choose("outcome", outcome, OUTCOME_NAMES) if labelled or outcome is not None else None,
            time=header.optional("time", time, TIME_NAMES if labelled else ()),
            time_guessed=time is None,
            segments=apart,
            weight=None if weight is None else header.require("weight", weight),
            ids=None if ids is None else header.require("id", ids),
            features=tuple(features),
            values=tuple(values),
        )
        if other_values:
            roles = {*columns.predictions, columns.outcome, columns.time, columns.weight, columns.ids}
            others = (name for name in names if name not in roles)
            columns = replace(columns, values=tuple(dict.fromkeys((*values, *others))))
        form = _Form(positive=positive, logits=logits, skip_bad_rows=skip_bad_rows, labelled=labelled)
        return _Reading(file, source, columns, form, header.notes).read(progress)


def crossed_columns(name: str, known: Container[str]) -> tuple[str, ...]:
    """The columns that a segment is of: ``a*b`` names a and b, unless a column itself is called so."""
    return (name,) if name in known else tuple(part.strip() for part in name.split("*"))


@dataclass(frozen=True, slots=True)
class _Form:
    """How values are spelled, and what happens to bad ones: see :func:`read_table`."""

    positive: str | None
    logits: bool
    skip_bad_rows: bool
    labelled: bool


@dataclass(frozen=True, slots=True)
class _Columns:
    """The name of each column that is read."""

    predictions: tuple[str, ...]
    outcome: str | None
    time: str | None
    time_guessed: bool
    segments: tuple[str, ...]
    weight: str | None
    ids: str | None
    features: tuple[str, ...]
    values: tuple[str, ...]

    def names(self) -> list[str]:
        """Each of them once."""
        alone = (self.outcome, self.time, self.weight, self.ids)
        named = (*self.predictions, *(name for name in alone if name), *self.segments, *self.features, *self.values)
        return list(dict.fromkeys(named))


class _Header:
    """Finds the columns: those that were named, or those with the most telling names."""

    def __init__(self, path: Path | MemoryTable, names: Sequence[str], taken: set[str]) -> None:
        self._path = path
        self._names = names
        self._taken = taken
        self.notes: list[str] = []

    def choose(self, role: str, given: str | None, usual: Sequence[str]) -> str:
        """The column of a role that must have one."""
        if given is not None:
            return self.require(role, given)
        found = self._usual(usual)
        if not found:
            raise InputError(
                f"{self._path}: no column looks like the {role} ({', '.join(usual[:5])}, ...); "
                f"name it with --{role}; columns are {_listed(self._names)}{_headless(self._names)}"
                f"{hint_of_classes(self._names, usual) if role == 'prediction' else ''}"
            )
        also = f" (not from {_listed(found[1:])}; --{role} chooses another)" if len(found) > 1 else ""
        self.notes.append(f"{role} read from column {found[0]!r}{also}")
        self._taken.add(found[0])
        return found[0]

    def choose_several(self, role: str, given: Sequence[str], usual: Sequence[str]) -> tuple[str, ...]:
        """The column, or the columns, of a role that must have one."""
        twice = next((name for name in given if given.count(name) > 1), None)
        if twice is not None:
            raise InputError(f"{self._path}: --{role} names column {twice!r} twice; name the column of each class once")
        return tuple(self.require(role, name) for name in given) or (self.choose(role, None, usual),)

    def optional(self, role: str, given: str | None, usual: Sequence[str]) -> str | None:
        """The column of a role that may have none."""
        if given is not None:
            return self.require(role, given)
        return next(iter(self._usual(usual)), None)

    def require(self, role: str, name: str) -> str:
        """The column of that name."""
        if name not in self._names:
            raise InputError(f"{self._path}: no {role} column {name!r}; columns are {_listed(self._names)}")
        return name

    def _usual(self, usual: Sequence[str]) -> list[str]:
        by_lower = {name.strip().lower(): name for name in reversed(self._names) if name not in self._taken}
        return [by_lower[name] for name in usual if name in by_lower]


class _Reading:
    """Reads the columns of one file."""

    def __init__(
        self, path: Path | MemoryTable, source: TableFile, columns: _Columns, form: _Form, notes: list[str]
    ) -> None:
        self._path = path
        self._source = source
        self._columns = columns
        self._form = form
        self._notes = notes
        self._outcomes = Outcomes(self._place(columns.outcome), form.positive)
        self._class_outcomes = ClassOutcomes(self._place(columns.outcome))
        self._times = Times(self._place(columns.time))
        self._segments = {name: Segments() for name in columns.segments}
        self._weights = weights(self._place(columns.weight))
        self._ids = Ids(self._place(columns.ids))
        self._features = {name: features(self._place(name)) for name in columns.features}
        self._values = {name: Values() for name in columns.values}

    def read(self, progress: Callable[[int], None] | None) -> EventTable:
        """All rows."""
        columns = self._columns
        names = columns.names()
        pieces = self._source.pieces(names)
        first = next(pieces, None)
        scores = self._scores(None if first is None else first[names.index(columns.predictions[0])])
        many = not isinstance(scores, Numbers)
        # One column may play several roles.
        builders: list[tuple[str | None, ColumnBuilder]] = [
            *zip(columns.predictions, scores.builders if isinstance(scores, Columns) else [scores], strict=True),
            (columns.outcome, self._class_outcomes if many else self._outcomes),
            (columns.time, self._times),
            (columns.weight, self._weights),
            (columns.ids, self._ids),
            *self._segments.items(),
            *self._features.items(),
            *self._values.items(),
        ]
        rows = 0
        for arrays in chain([] if first is None else [first], pieces):
            piece = dict(zip(names, arrays, strict=True))
            for name, builder in builders:
                if name is not None:
                    builder.add(piece[name])
            rows += len(arrays[0])
            if progress is not None:
                progress(rows)
        return self._finished(scores)

    def _scores(self, first: pa.Array | None) -> Numbers | Vectors | Columns:
        """What becomes of the predictions: many classes have several columns, or one of lists."""
        names = self._columns.predictions
        logits = self._form.logits
        if len(names) > 1:
            together = self._place(None)._replace(column=f"{self._path}: columns {_listed(names)}")
            return Columns(together, [self._place(name) for name in names], logits=logits)
        lists = first is not None and holds_vectors(first)
        return (Vectors if lists else predictions)(self._place(names[0]), logits=logits)

    def _finished(self, scores: Numbers | Vectors | Columns) -> EventTable:
        columns = self._columns
        prediction = scores.finish()
        outcome: NDArray[np.int8] | NDArray[np.int64]
        classes: tuple[str, ...] = ()
        if isinstance(scores, Numbers):
            outcome = self._outcomes.finish()
            self._notes += [] if self._outcomes.note is None else [self._outcomes.note]
        elif self._form.positive is not None:
            raise InputError(f"{self._path}: --positive is for predictions P(y = 1), and these are of many classes")
        else:
            many = columns.predictions if isinstance(scores, Columns) else ()
            outcome = self._class_outcomes.finish(many, prediction.shape[1])
            classes = class_names(many) if many else tuple(str(number) for number in range(prediction.shape[1]))
        if columns.outcome is None:
            outcome = np.full(prediction.shape[0], UNLABELLED, outcome.dtype)
        time_ms = self._time_ms()
        named = self._features.values()
        values = {name: builder.finish() for name, builder in self._values.items()}
        table = EventTable(
            prediction=prediction,
            outcome=outcome,
            time_ms=time_ms,
            segments={name: SegmentColumn(*builder.finish()) for name, builder in self._segments.items()},
            notes=tuple(self._notes),
            weight=None if columns.weight is None else self._weights.finish(),
            ids=None if columns.ids is None else self._ids.finish(),
            features=np.column_stack([builder.finish() for builder in named]) if named else None,
            classes=classes,
            prediction_columns=columns.predictions,
            values={
                name: SegmentColumn(*column) if isinstance(column, tuple) else column for name, column in values.items()
            },
        )
        table, skipped = self._without_bad_rows(table, scores)
        return replace(table, cautions=(*skipped, *_cautions(table.prediction, table.outcome)))

    def _without_bad_rows(self, table: EventTable, scores: Numbers | Vectors | Columns) -> tuple[EventTable, list[str]]:
        """The table without rows that hold a bad value, and a line for each kind of bad row."""
        unread, why = self._source.unread
        faults = [fault for fault in self._faults(scores) if fault]
        if not (faults or unread):
            return table, []
        bad = np.unique(np.concatenate([np.zeros(0, np.intp), *(fault.rows for fault in faults)]))
        keep = np.ones(len(table), np.bool_)
        keep[bad] = False
        if not keep.any():
            raise InputError(f"{self._path}: no row is left without a bad value: {faults[0].summary()}")
        left_out, rows = bad.size + unread, len(table) + unread
        lines = [f"{left_out:,} of {rows:,} rows are left out, which --skip-bad-rows asks for"]
        if unread:
            lines.append(f"{unread:,} {'row' if unread == 1 else 'rows'} left out: {why}")
        return table.select(keep), [*lines, *(fault.summary() for fault in faults)]

    def _faults(self, scores: Numbers | Vectors | Columns) -> list[Faults]:
        """Those of all columns that were read."""
        outcomes = self._outcomes if isinstance(scores, Numbers) else self._class_outcomes
        of_scores = (
            [*(builder.faults for builder in scores.builders), scores.sums]
            if isinstance(scores, Columns)
            else [scores.faults]
            if isinstance(scores, Numbers)
            else [scores.faults, scores.sums]
        )
        # A time that was guessed and is none has been left out with its column.
        times = [] if self._columns.time_guessed else [self._times.faults]
        of_features = (builder.faults for builder in self._features.values())
        others = (*times, self._weights.faults, self._ids.faults, self._ids.repeated, *of_features)
        return [*of_scores, outcomes.faults, *others]

    def _time_ms(self) -> NDArray[np.int64] | None:
        columns = self._columns
        if columns.time is None:
            return None
        if columns.time_guessed and self._times.faults:
            self._notes.append(f"column {columns.time!r} holds values that are no times, so it is left out")
            return None
        time_ms = self._times.finish()
        unit = ", taken as seconds since the epoch" if self._times.seconds else ""
        if columns.time_guessed or unit:
            self._notes.append(f"time read from column {columns.time!r}{unit}")
        return time_ms

    def _place(self, column: str | None) -> Place:
        place = Place(f"{self._path}: column {column!r}", self._source.place, self._form.skip_bad_rows)
        return place._replace(or_else=", or add --skip-bad-rows") if self._form.labelled else place


def _cautions(prediction: NDArray[np.float64], outcome: NDArray[np.int8] | NDArray[np.int64]) -> Iterator[str]:
    """What to mind when reading the report of these rows."""
    if not len(prediction):
        yield "the file has columns and no rows"
        return
    known = outcome[outcome >= 0]
    if 0 < known.size < FEW:
        have = "prediction has" if known.size == 1 else "predictions have"
        yield f"only {known.size} {have} an outcome: with so few, only gross errors can be told from chance"
    if bool((prediction == prediction[0]).all()) and len(prediction) > 1:
        whole = f"{prediction[0]:g}" if prediction.ndim == 1 else "the same"
        yield f"every prediction is {whole}: all that can be told is whether they are right on average"
    elif bool(((prediction == 0.0) | (prediction == 1.0)).all()):
        yield "every prediction is 0 or 1: are these classes, not probabilities?"
    if known.size and bool((known == known[0]).all()):
        yield f"every outcome is {known[0]}: are those of the other kind missing?"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in names) or "none"


def _headless(names: Sequence[str]) -> str:
    """A hint where the first line looks like data: a column is hardly ever called by a number with a point in it."""
    first_is_data = any(re.fullmatch(r"\d*\.\d+(e-?\d+)?", name, re.IGNORECASE) for name in names)
    return "; the first line must name the columns" if first_is_data else ""


@contextlib.contextmanager
def _naming(path: Path | MemoryTable) -> Iterator[None]:
    """Say which file it was that could not be read."""
    try:
        yield
    except (pa.ArrowException, EOFError, OSError, UnicodeDecodeError) as error:
        reason = str(error).splitlines()[0].replace("Row #", "line ") if str(error) else type(error).__name__
        if "Empty CSV file" in reason:
            raise InputError(f"{path}: holds no table; its first line must name the columns") from error
        advice = "; correct or remove that line" if re.search(r": line \d+: ", reason) else ""
        raise InputError(f"{path}: cannot be read: {reason}{advice}") from error
