"""Data as callers in Python give them: tables with named columns, or arrays."""

from __future__ import annotations  # so that signatures are shown as they are written

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from monitor.arrays import Floats
from monitor.errors import InputError, OptionError
from monitor.options import Option, in_python
from monitor.progress import no_progress
from monitor.reports.evaluation.files import model_of
from monitor.reports.evaluation.inputs import check_events, check_vectors, column, holds_vectors, predictions_of
from monitor.reports.findings import MEMORY_GB, ReportOptions, read_columns
from monitor.reports.progress import patient_progress
from monitor.scores.arguments import require_same_index
from monitor.scores.labelled import feature_table
from monitor.scores.table import check
from monitor.sources.columns import UNLABELLED, Segments
from monitor.sources.data_sets import FilteredTable, open_tables
from monitor.sources.formats import MemoryTable, TableFile, is_table
from monitor.sources.row_filter import RowFilter
from monitor.sources.tables import Columns, EventTable, SegmentColumn

Names = str | Sequence[str]
Shown = bool | Callable[[float], None]
"""Whether to show progress, or what to call with the share of the present stage that is done."""

_progress: Final[ContextVar[Shown]] = ContextVar("_progress", default=True)


@dataclass(frozen=True, repr=False)
class Table:
    """A table that every function takes, as :func:`read` makes it. Its rows are read when a function needs them.

    Attributes
    ----------
    source
        Where the rows are.
    columns
        The roles of its columns; those that are not named are guessed when it is read.
    memory
        Gigabytes up to which a report measures raw rows.
    model
        What the predictions are of; None if the file or the column says it.
    is_stored
        Whether the rows are in files or a database.
    """

    source: TableFile
    columns: Columns
    memory: float
    model: str | None
    is_stored: bool

    def names(self) -> list[str]:
        """The names of all columns."""
        return self.source.names()

    def __repr__(self) -> str:
        named = ", ".join(f"{role}={value!r}" for role, value in self.columns._asdict().items() if value)
        return f"<{self.source.name}: columns {', '.join(self.names())}{named and f'; {named}'}>"


def read(
    source: Any,
    columns: Columns = Columns(),  # noqa: B008 - a value that nothing changes
    *,
    where: str | None = None,
    query: str | None = None,
    memory: float = MEMORY_GB,
    model: str | None = None,
) -> Table:
    """Open a table and name its columns, for all functions: ``evaluate(read("scores.csv", Columns(outcome="paid")))``.

    Parameters
    ----------
    source
        Paths as ``monitor report`` takes them: a file, a folder, a pattern, a URL, or a list of these; a Delta or
        Iceberg table; the URL of a database. Or a table in memory: a pandas or polars DataFrame, a pyarrow Table, a
        structured array, or arrays by name.
    columns
        Which columns are the predictions, the outcomes, ...: guessed by the usual names where they are not named.
    where
        The condition that rows must meet, as SQL has it: ``"region = 'eu' AND amount > 100"``.
    query
        Of a database: the SELECT whose rows are meant.
    memory
        Of files: gigabytes up to which raw rows are measured; more rows are counted on the grid, with error bounds.
        Functions that need all rows at once do not look at it.
    model
        What the predictions are of; the name of the file, or of the column, if left out.

    Returns
    -------
    Table
        Its rows are read when a function needs them.

    Raises
    ------
    InputError
        Nothing is there, the format is unknown, a condition cannot be read, or no columns are named where they must be.

    Examples
    --------
    >>> table = read({"score": [0.9, 0.4, 0.2], "paid": [1, 0, 1], "land": ["at", "at", "ch"]}, where="land = 'at'")
    >>> table
    <the table: columns score, paid, land>
    >>> read({"score": [0.9], "paid": [1]}, Columns("score", "paid")).columns.outcome
    'paid'
    """
    if not isinstance(columns, Columns):
        raise InputError(f"columns must be Columns(prediction=..., outcome=..., ...), got {type(columns).__name__}")
    single = ("outcome", "time", "weight", "id", "positive")
    for name, value in columns._asdict().items():
        if name in single and not (value is None or isinstance(value, str)):
            raise InputError(f"{name} must be a text, got {type(value).__name__}")
        if name in {"prediction", "segments", "features"} and value and not _are_names(value):
            raise InputError(f"{name} must name columns of the table, got {type(value).__name__}")
    columns = columns._replace(
        prediction=listed(columns.prediction), segments=listed(columns.segments), features=listed(columns.features)
    )
    with in_python():
        paths = _paths(source)
        if paths:
            opened = open_tables(paths, where=where, query=query, skip_bad_rows=columns.skip_bad_rows)
        elif query is not None:
            raise OptionError(Option.QUERY, " is for databases, and the data are in memory")
        else:
            rows = MemoryTable(source)
            opened = rows if where is None else FilteredTable(rows, RowFilter(where))
    return Table(opened, columns, memory, model, is_stored=bool(paths))


def _paths(source: Any) -> list[str]:
    """The paths that the source names; none if it is something else."""
    paths = [source] if isinstance(source, str | Path) else source if isinstance(source, list | tuple) else []
    return [str(path) for path in paths] if all(isinstance(path, str | Path) for path in paths) else []


@contextmanager
def show_progress(shown: Shown = True) -> Iterator[None]:
    """Show the progress of long work in this block, or do not; by default it is shown in terminals and notebooks.

    Parameters
    ----------
    shown
        Whether to show it. Or a function, which is called with the share of the present stage that is done.

    Examples
    --------
    >>> from monitor import evaluate
    >>> with show_progress(False):
    ...     evaluate([0.2, 0.8] * 50, [0, 1] * 50, draws=19).n
    100
    """
    before = _progress.set(shown)
    try:
        yield
    finally:
        _progress.reset(before)


@contextmanager
def shown_progress() -> Iterator[Callable[[str, float], None]]:
    """Show progress as the caller wants; yields a function of the stage and the share of it that is done."""
    progress = _progress.get()
    if progress is True:
        with patient_progress() as report:
            yield report
    elif progress is False:
        yield no_progress
    else:
        yield lambda _, share: progress(share)


def open_data(data: Any) -> Any:
    """Return the table that ``data`` is, or that its paths name; arrays as they are."""
    return read(data) if not isinstance(data, Table) and (_paths(data) or is_table(data)) else data


class Given(NamedTuple):
    """Arguments that say what the data are: a table, or arrays; and columns of it, or further arrays."""

    p: Any
    y: Any = None
    weight: Any = None
    segments: Any = None
    features: Any = None

    @property
    def is_table(self) -> bool:
        """Whether the columns have names."""
        return isinstance(self.p, Table)

    def columns(self) -> Columns:
        """The columns of a table.

        Raises
        ------
        InputError
            Columns are named where there is no table, or what should name one is something else.
        """
        if not self.is_table:
            if isinstance(self.weight, str):
                raise InputError("weight names a column, and p is no table with named columns")
            return Columns()
        if self.y is not None:
            raise InputError(
                "y must be left out where p is a table; name its column with read(table, Columns(outcome=...)), or "
                "pass the predictions alone as an array"
            )
        for name in ("weight", "segments", "features"):
            value = getattr(self, name)
            if not (value is None or isinstance(value, str) or (name != "weight" and _are_names(value))):
                what = "a column" if name == "weight" else "columns"
                raise InputError(f"{name} must name {what} of the table, got {type(value).__name__}")
        named: Columns = self.p.columns
        return named._replace(
            weight=self.weight or named.weight,
            segments=listed(self.segments) or named.segments,
            features=listed(self.features) or named.features,
        )

    @property
    def model(self) -> str | None:
        """Name of the model: as the table says, or of its file, or of a Series."""
        if not self.is_table:
            name = getattr(self.p, "name", None)
            return name if isinstance(name, str) and name else None
        return self.p.model or (model_of(self.p.source.name) if self.p.is_stored else None)


def read_either(options: ReportOptions, data: Any) -> EventTable:
    """Read a table, or a pair of predictions and outcomes."""
    if isinstance(data, Table):
        return read_columns(options, data.source, data.columns)
    if isinstance(data, tuple) and len(data) == 2:
        return read_arrays(Given(*data), options)[0]
    raise InputError(
        "what is compared must be a table, the path of one, or a pair (p, y) of predictions and outcomes, "
        f"got {type(data).__name__}"
    )


def read_arrays(data: Given, options: ReportOptions) -> tuple[EventTable, Columns]:
    """Read predictions and outcomes that are arrays, and name segments and features."""
    if options.find_segments:
        raise OptionError(
            Option.FIND_SEGMENTS, " is for tables, and p is an array: put the columns into a DataFrame, or a dict"
        )
    p, y, weight, segments, features = data
    if y is None:
        raise InputError("y must hold the outcomes, or p be a table with a column of them")
    require_same_index(p=p, y=y, weight=weight, segments=segments, features=features)
    prediction = predictions_of(p, of_classes=options.is_of_classes)
    classes: tuple[str, ...] = ()
    weights = None
    if holds_vectors(prediction):
        if weight is not None:
            raise InputError("weight must be left out for probability vectors, whose measures count whole events")
        vectors, labelled = check_vectors(prediction, y)
        outcome = np.where(labelled, vectors.outcome, UNLABELLED)
        classes = tuple(str(label) for label in range(vectors.classes))
    else:
        prediction, y, weights, _ = check_events(prediction, y, weight=weight)
        outcome = np.where(np.isnan(y), UNLABELLED, y).astype(np.int8)
    names, x = _features(features, outcome.size)
    table = EventTable(
        prediction,
        outcome,
        None,
        _segments(segments, outcome.size),
        weight=weights,
        features=x,
        classes=classes,
        values={} if x is None else dict(zip(names, x.T, strict=True)),
    )
    return table, Columns(segments=tuple(table.segments), features=names)


def read_unlabelled(p: Any, features: Any, segments: Any, segment: str | None) -> EventTable:
    """Read predictions without outcomes; segments that are one column are of the name ``segment``."""
    require_same_index(p=p, features=features, segments=segments)
    prediction = predictions_of(p, of_classes=True)
    check(prediction.ravel(), (prediction >= 0.0).ravel() & (prediction <= 1.0).ravel(), "p must be in [0, 1]")
    n = prediction.shape[0]
    unlabelled = np.full(n, UNLABELLED, np.int8)
    return EventTable(
        prediction, unlabelled, segments=_segments(segments, n, segment), features=_features(features, n)[1]
    )


def _segments(segments: Any, n: int, name: str | None = None) -> Mapping[str, SegmentColumn]:
    """Read segments that are values by name, or one column, which is called ``name`` or as it is itself."""
    if segments is None:
        return {}
    if isinstance(segments, str) or (_are_names(segments) and len(segments) != n):
        raise InputError("segments must hold values where p is no table; several by name, such as {'region': values}")
    if not is_table(segments):
        segments = {name or getattr(segments, "name", None) or "segment": segments}
    columns = {}
    table = MemoryTable(segments)
    for key in table.names():
        builder = Segments()
        for (array,) in table.pieces([key]):
            builder.add(array)
        codes, values = builder.finish()
        if codes.size != n:
            raise InputError(f"segment {key!r} must be as long as p, got {codes.size} and {n}")
        columns[key] = SegmentColumn(codes, values)
    return columns


def _features(features: Any, n: int) -> tuple[tuple[str, ...], Floats | None]:
    """Read features that are numbers by name, or an array of shape (n, D)."""
    if features is None:
        return (), None
    if _are_names(features):
        raise InputError("features names columns, and p is no table: pass numbers by name, such as {'age': values}")
    names: tuple[str, ...]
    if is_table(features):
        table = MemoryTable(features)
        names = tuple(table.names())
        x = np.column_stack([_feature(table, name) for name in names])
    else:
        x = feature_table(features)
        names = tuple(f"feature {number}" for number in range(x.shape[1]))
    if x.shape[0] != n:
        raise InputError(f"features must be as long as p, got {x.shape[0]} and {n}")
    return names, x


def _feature(table: MemoryTable, name: str) -> Floats:
    pieces = [column(f"feature {name!r}", array.to_numpy(zero_copy_only=False)) for (array,) in table.pieces([name])]
    return np.concatenate(pieces) if pieces else np.zeros(0)


def _are_names(value: Any) -> bool:
    return isinstance(value, str) or (
        isinstance(value, Sequence) and bool(value) and all(isinstance(name, str) for name in value)
    )


def listed(names: Names | None) -> tuple[str, ...]:
    """One name, or several, as a tuple."""
    return () if names is None else (names,) if isinstance(names, str) else tuple(names)
