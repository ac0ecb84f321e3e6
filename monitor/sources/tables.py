"""A file of predictions and outcomes: one row a prediction, one column each."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from monitor.errors import InputError
from monitor.sources.columns import ColumnBuilder, Outcomes, Predictions, Segments, Times
from monitor.sources.formats import TableFile, open_table

PREDICTION_NAMES: Final = (
    *("p", "prediction", "predictions", "score", "proba", "probability", "prob", "y_prob", "y_proba", "y_score"),
    *("p_hat", "predicted_probability", "pred_proba", "y_pred", "pred", "predicted", "y_hat"),
)
OUTCOME_NAMES: Final = ("y", "outcome", "outcomes", "label", "target", "y_true", "true_label", "actual", "observed")
TIME_NAMES: Final = ("ts", "time", "timestamp", "event_time", "prediction_time", "datetime", "date")
"""What columns are called where nobody says, most telling name first. Upper and lower case are the same."""


@dataclass(frozen=True, slots=True)
class SegmentColumn:
    """One column by whose values the rows are told apart.

    Attributes
    ----------
    codes
        int32, shape (n,): index into ``values``, or -1 where the field is empty.
    values
        The distinct values as text, in the order in which they appear.
    """

    codes: NDArray[np.int32]
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EventTable:
    """The rows of a file.

    Attributes
    ----------
    prediction
        float64, shape (n,), every value in [0, 1].
    outcome
        int8, shape (n,): 1, 0, or -1 for a prediction without an outcome.
    time_ms
        int64, shape (n,), milliseconds since the epoch; None where the file has no times.
    segments
        Segment columns by name.
    notes
        What was assumed, a line each, for people.
    """

    prediction: NDArray[np.float64]
    outcome: NDArray[np.int8]
    time_ms: NDArray[np.int64] | None = None
    segments: Mapping[str, SegmentColumn] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return int(self.prediction.shape[0])


def read_table(
    path: str | Path,
    *,
    prediction: str | None = None,
    outcome: str | None = None,
    time: str | None = None,
    segments: Sequence[str] = (),
    progress: Callable[[int], None] | None = None,
) -> EventTable:
    """Read a CSV, Parquet or JSON lines file: .csv, .tsv, .parquet, .pq, .jsonl, .ndjson, .json; text also with .gz.

    The file is read piece by piece: memory holds 9 bytes a row, 8 more with times and 4 more a segment column, and
    for a moment twice the largest of these.

    Parameters
    ----------
    path
        The file.
    prediction
        Column with P(y = 1): a number from 0 to 1 in every row. Guessed from the usual names if left out.
    outcome
        Column with the outcome: 0 or 1, also false/true or no/yes; empty where it is not known (yet). Guessed likewise.
    time
        Column with the prediction's time: a timestamp, RFC 3339, or milliseconds or seconds since the epoch. Guessed
        likewise; a guessed column that holds anything else is left out, and a note says so.
    segments
        Columns by whose values the rows are told apart.
    progress
        Called with the number of rows read so far, after every piece.

    Raises
    ------
    InputError
        The file cannot be read, a column is not there, or values are bad: names the file, the column, the first such
        row (counted from 1, without the header) and its value, and how many there are.
    """
    file = Path(path)
    with _naming(file):
        source = open_table(file)
        header = _Header(file, source.names(), {name for name in (prediction, outcome, time, *segments) if name})
        for segment in segments:
            header.require("segment", segment)
        columns = _Columns(
            prediction=header.choose("prediction", prediction, PREDICTION_NAMES),
            outcome=header.choose("outcome", outcome, OUTCOME_NAMES),
            time=header.optional("time", time, TIME_NAMES),
            time_guessed=time is None,
            segments=tuple(segments),
        )
        return _read(file, source, columns, header.notes, progress)


@dataclass(frozen=True, slots=True)
class _Columns:
    """The name of each column that is read."""

    prediction: str
    outcome: str
    time: str | None
    time_guessed: bool
    segments: tuple[str, ...]


class _Header:
    """Finds the columns: those that were named, or those with the most telling names."""

    def __init__(self, path: Path, names: Sequence[str], taken: set[str]) -> None:
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
                f"name it with --{role}; columns are {_listed(self._names)}"
            )
        also = f" (not from {_listed(found[1:])}; --{role} chooses another)" if len(found) > 1 else ""
        self.notes.append(f"{role} read from column {found[0]!r}{also}")
        self._taken.add(found[0])
        return found[0]

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


def _read(
    path: Path, source: TableFile, columns: _Columns, notes: list[str], progress: Callable[[int], None] | None
) -> EventTable:
    predictions = Predictions(f"{path}: column {columns.prediction!r}")
    outcomes = Outcomes(f"{path}: column {columns.outcome!r}")
    times = Times(f"{path}: column {columns.time!r}")
    segments = {name: Segments() for name in columns.segments}
    # One column may play several roles.
    builders: list[tuple[str, ColumnBuilder]] = [
        (columns.prediction, predictions),
        (columns.outcome, outcomes),
        *segments.items(),
    ]
    if columns.time is not None:
        builders.append((columns.time, times))
    names = list(dict.fromkeys(name for name, _ in builders))
    rows = 0
    for arrays in source.pieces(names):
        piece = dict(zip(names, arrays, strict=True))
        for name, builder in builders:
            builder.add(piece[name])
        rows += len(arrays[0])
        if progress is not None:
            progress(rows)

    time_ms = None
    if columns.time_guessed and times.bad:
        notes.append(f"column {columns.time!r} holds values that are no times, so it is left out")
    elif columns.time is not None:
        time_ms = times.finish()
        unit = ", taken as seconds since the epoch" if times.seconds else ""
        if columns.time_guessed or unit:
            notes.append(f"time read from column {columns.time!r}{unit}")
    prediction = predictions.finish()
    if prediction.size and bool(((prediction == 0.0) | (prediction == 1.0)).all()):
        notes.append(f"every value of column {columns.prediction!r} is 0 or 1: are these classes, not probabilities?")
    return EventTable(
        prediction=prediction,
        outcome=outcomes.finish(),
        time_ms=time_ms,
        segments={name: SegmentColumn(*builder.finish()) for name, builder in segments.items()},
        notes=tuple(notes),
    )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in names) or "none"


@contextlib.contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Say which file it was that could not be read."""
    try:
        yield
    except (pa.ArrowException, EOFError, OSError, UnicodeDecodeError) as error:
        reason = str(error).splitlines()[0].replace("Row #", "line ") if str(error) else type(error).__name__
        raise InputError(f"{path}: cannot be read: {reason}") from error
