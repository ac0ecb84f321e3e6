"""Closings: the settled predictions of one model and partition, summed by series, pane and cell, in one Arrow file."""

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from monitor.arrays import Ints
from monitor.errors import DamagedStore, IncompatibleStore
from monitor.events.model import SeriesKey
from monitor.scores.grid import GRID_VERSION
from monitor.scores.grid_table import COLUMNS
from monitor.scores.sketch import SkceSketch

HEADER_KEY: Final = b"calibration-closing"
"""Key in the schema's metadata. Its value is JSON: format, grid, model, from_ms, to_ms, pane_ms."""

FORMAT: Final = 1

_SMALL: Final = 2_000
"""Rows up to which a closing is compressed by lz4: a quarter larger, and written three times as fast."""

_READ: Final = pa.ipc.IpcReadOptions(use_threads=False)

_NAME: Final = pa.dictionary(pa.int32(), pa.string())
SCHEMA: Final = pa.schema(
    [
        *(pa.field(name, _NAME, nullable=False) for name in SeriesKey._fields),
        pa.field("pane_start_ms", pa.int64(), nullable=False),
        pa.field("cell", pa.int32(), nullable=False),
        *(
            pa.field(name, pa.int64(), nullable=False)
            for name in (
                "positives",
                "negatives",
                "unanswered",
                "positive_sum",
                "negative_sum",
                "unanswered_sum",
            )
        ),
    ]
)
"""A row for each occupied cell of a pane of a series, ascending by series, pane and cell.

The three names of a series have one index, its place among the series of the closing, which ascend. Sums are of the
predictions, in units of 2**-40 above the lower edge of the cell (see :mod:`monitor.scores.grid`).
"""

SKETCH_SCHEMA: Final = pa.schema(
    [
        *(pa.field(name, pa.string(), nullable=False) for name in SeriesKey._fields),
        pa.field("pane_start_ms", pa.int64(), nullable=False),
        pa.field("sketch", pa.binary(), nullable=False),
    ]
)
"""The sketch of each pane of a series, as :meth:`monitor.scores.sketch.SkceSketch.to_bytes` writes it."""


class PaneSketch(NamedTuple):
    """The sketch of one pane of a series."""

    series: SeriesKey
    start_ms: int
    sketch: SkceSketch


class Cells(NamedTuple):
    """Rows of counts and sums, one for a cell of a pane of a series."""

    series: Ints
    """Number of the series (or of the stratum), int64, shape (n,)."""
    start_ms: Ints
    """Start of the pane, int64, shape (n,)."""
    cell: Ints
    """Cell of the grid, int64, shape (n,)."""
    values: Ints
    """int64, shape (n, 6): see :class:`monitor.scores.GridTable`."""

    @classmethod
    def joined(cls, parts: Iterable["Cells"]) -> "Cells":
        """The rows of all parts."""
        return cls(*(np.concatenate(column) for column in zip(NO_CELLS, *parts, strict=True)))

    def take(self, rows: slice | Ints) -> "Cells":
        """These rows."""
        return Cells(*(column[rows] for column in self))

    def of_series(self, first: int, count: int = 1) -> "Cells":
        """The rows of consecutive series. The rows must ascend by series."""
        return self.take(slice(*np.searchsorted(self.series, (first, first + count)).tolist()))

    def summed(self) -> "Cells":
        """Rows of one cell, pane and series added up, ascending by series, pane and cell."""
        if not self.series.size:
            return self
        series, start_ms, cell, values = self.take(np.lexsort((self.cell, self.start_ms, self.series)))
        is_first = np.ones(series.size, np.bool_)
        is_first[1:] = (np.diff(series) != 0) | (np.diff(start_ms) != 0) | (np.diff(cell) != 0)
        first = np.flatnonzero(is_first)
        return Cells(series[first], start_ms[first], cell[first], np.add.reduceat(values, first, axis=0))


NO_CELLS: Final = Cells(
    np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((0, COLUMNS), np.int64)
)


class Panes(NamedTuple):
    """Panes of some series."""

    names: Sequence[SeriesKey]
    """The series, ascending."""
    cells: Cells
    """Cells, ascending by series, pane and cell; a series is its place in ``names``."""
    sketches: Sequence[PaneSketch] = ()
    """Sketches of the panes that have one, ascending by series and pane."""

    @classmethod
    def of(cls, names: Sequence[SeriesKey], cells: Cells, sketches: Sequence[PaneSketch] = ()) -> "Panes":
        """The panes of cells whose series are places in ``names``, which may be in any order and hold others, too."""
        numbers, place = np.unique(cells.series, return_inverse=True)
        used = [names[number] for number in numbers.tolist()]
        order = sorted(range(len(used)), key=used.__getitem__)
        rank = np.empty(len(used), np.int64)
        rank[order] = np.arange(len(used))
        renamed = cells._replace(series=rank[place.reshape(-1)])
        in_order = np.argsort(renamed.series, kind="stable")
        return cls([used[at] for at in order], renamed.take(in_order), sketches)

    def by_model(self) -> Iterator[tuple[str, "Panes"]]:
        """Yield each model with its panes."""
        sketches = {key: list(parts) for key, parts in itertools.groupby(self.sketches, lambda part: part.series.model)}
        first = 0
        for model, names in itertools.groupby(self.names, lambda key: key.model):
            of_model = list(names)
            cells = self.cells.of_series(first, len(of_model))
            yield model, Panes(of_model, cells._replace(series=cells.series - first), sketches.get(model, ()))
            first += len(of_model)

    def to_bytes(self, header: Mapping[str, Any] | None = None) -> tuple[bytes, bytes | None]:
        """Arrow files of SCHEMA, with ``header``, the format and the grid in its metadata, and of SKETCH_SCHEMA."""
        cells = self.cells
        place = pa.array(cells.series.astype(np.int32))
        columns = [
            *(pa.DictionaryArray.from_arrays(place, part) for part in _texts(self.names)),
            pa.array(cells.start_ms),
            pa.array(cells.cell.astype(np.int32)),
            *(pa.array(np.ascontiguousarray(cells.values[:, column])) for column in range(COLUMNS)),
        ]
        whole = {"format": FORMAT, "grid": GRID_VERSION, **(header or {})}
        schema = SCHEMA.with_metadata({HEADER_KEY: json.dumps(whole, sort_keys=True)})
        data = _to_bytes(pa.Table.from_arrays(columns, schema=schema))
        if not self.sketches:
            return data, None
        series, start_ms, sketches = zip(*self.sketches, strict=True)
        columns = [*_texts(series), pa.array(start_ms), pa.array([sketch.to_bytes() for sketch in sketches])]
        return data, _to_bytes(pa.Table.from_arrays(columns, schema=SKETCH_SCHEMA))

    @classmethod
    def from_bytes(cls, cells: bytes, sketches: bytes | None = None) -> tuple["Panes", Mapping[str, Any]]:
        """What :meth:`to_bytes` wrote, and the header.

        Raises
        ------
        DamagedStore
            The bytes are no such files.
        IncompatibleStore
            They are of another format or grid.
        """
        table = _from_bytes(cells)
        try:
            header = json.loads((table.schema.metadata or {})[HEADER_KEY])
            found = header["format"], header["grid"]
        except (KeyError, ValueError) as error:
            raise _damaged(error) from None
        if found != (FORMAT, GRID_VERSION):
            raise IncompatibleStore(
                f"a closing has format {found[0]} and grid {found[1]}, this version of the service reads {FORMAT} and "
                f"{GRID_VERSION}"
            )
        if table.schema != SCHEMA:
            raise _damaged(ValueError(f"its columns are {', '.join(table.schema.names)}"))
        try:
            series = [table[name].combine_chunks() for name in SeriesKey._fields]
            texts = (column.dictionary.to_pylist() for column in series)
            names = [SeriesKey(*name) for name in zip(*texts, strict=True)]
            parts = [] if sketches is None else _from_bytes(sketches).cast(SKETCH_SCHEMA).to_pylist()
        except (ValueError, pa.ArrowException) as error:
            raise _damaged(error) from None
        values = np.stack([_ints(table[name]) for name in SCHEMA.names[-COLUMNS:]], axis=1)
        read = Cells(_ints(series[0].indices), _ints(table["pane_start_ms"]), _ints(table["cell"]), values)
        pane_sketches = [
            PaneSketch(
                SeriesKey(*(part[name] for name in SeriesKey._fields)),
                part["pane_start_ms"],
                SkceSketch.from_bytes(part["sketch"]),
            )
            for part in parts
        ]
        return cls(names, read, pane_sketches), header


class OldPanes(NamedTuple):
    """Closed panes of a model that windows need no longer."""

    model: str
    width_ms: int
    before_ms: int
    """Time before which the panes start."""
    wider_ms: int | None
    """Width of the panes to which they are summed; None: they are removed."""


class Closing(NamedTuple):
    """What one partition publishes of a model at once; never revised."""

    model: str
    from_ms: int
    to_ms: int
    """Beginning of the closed prediction times [from, to): whole panes."""
    pane_ms: int
    """Width of its panes."""
    panes: Panes

    def to_bytes(self) -> tuple[bytes, bytes | None]:
        """The Arrow files of :meth:`Panes.to_bytes`; the header has the other fields."""
        return self.panes.to_bytes(dict(zip(self._fields, self[:-1], strict=False)))

    @classmethod
    def merged(cls, parts: Sequence["Closing"]) -> "Closing":
        """The closing of the times of consecutive ones (at least one), of panes of one width."""
        names = sorted({name for part in parts for name in part.panes.names})
        places = {name: place for place, name in enumerate(names)}
        cells = []
        for part in parts:
            place = np.array([places[name] for name in part.panes.names], np.int64)
            cells.append(part.panes.cells._replace(series=place[part.panes.cells.series]))
        sketches = [sketch for part in parts for sketch in part.panes.sketches]
        panes = Panes(names, Cells.joined(cells).summed(), add_sketches(sketches))
        return cls(parts[0].model, parts[0].from_ms, parts[-1].to_ms, parts[0].pane_ms, panes)

    def split(self, at_ms: int, wider_ms: int) -> list["Closing"]:
        """The panes that start before a time, summed to wider ones, and the others, as they are."""
        is_old = self.panes.cells.start_ms < at_ms
        cells = self.panes.cells.take(np.flatnonzero(is_old))
        wide = cells._replace(start_ms=cells.start_ms - cells.start_ms % wider_ms).summed()
        wide_sketches = add_sketches(
            part._replace(start_ms=part.start_ms - part.start_ms % wider_ms)
            for part in self.panes.sketches
            if part.start_ms < at_ms
        )
        rest = [part for part in self.panes.sketches if part.start_ms >= at_ms]
        names = self.panes.names
        halves = [
            Closing(self.model, self.from_ms, at_ms, wider_ms, Panes.of(names, wide, wide_sketches)),
            Closing(
                self.model,
                at_ms,
                self.to_ms,
                self.pane_ms,
                Panes.of(names, self.panes.cells.take(np.flatnonzero(~is_old)), rest),
            ),
        ]
        return [half for half in halves if half.panes.names and half.from_ms < half.to_ms]

    @classmethod
    def from_bytes(cls, cells: bytes, sketches: bytes | None = None) -> "Closing":
        """What :meth:`to_bytes` wrote; raises as :meth:`Panes.from_bytes`."""
        panes, header = Panes.from_bytes(cells, sketches)
        return cls(header["model"], header["from_ms"], header["to_ms"], header["pane_ms"], panes)


def add_sketches(parts: Iterable[PaneSketch]) -> list[PaneSketch]:
    """One sketch for each series and pane: the sum of those with the newest plan, which come last."""
    sums: dict[tuple[SeriesKey, int], SkceSketch] = {}
    for series, start_ms, sketch in parts:
        earlier = sums.get((series, start_ms))
        same_plan = earlier is not None and earlier.plan == sketch.plan
        sums[series, start_ms] = earlier + sketch if same_plan else sketch  # type: ignore[operator]
    return [PaneSketch(*key, sums[key]) for key in sorted(sums)]


def _texts(names: Sequence[SeriesKey]) -> list[Any]:
    """A pyarrow.StringArray for each field of the series."""
    return [pa.array([name[at] for name in names], pa.string()) for at in range(len(SeriesKey._fields))]


def _damaged(error: Exception) -> DamagedStore:
    return DamagedStore(f"a closing cannot be read ({error}); restore a backup of the store")


def _ints(column: Any) -> Ints:
    return np.asarray(column.to_numpy(zero_copy_only=False) if isinstance(column, pa.Array) else column, np.int64)


def _to_bytes(table: Any) -> bytes:
    # zstd sets up a context for each column, which takes longer than compressing a small one; and threads take longer
    # to wake than either.
    compression = "lz4" if table.num_rows < _SMALL else "zstd"
    options = pa.ipc.IpcWriteOptions(compression=compression, use_threads=False)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _from_bytes(data: bytes) -> Any:
    try:
        with pa.ipc.open_file(pa.BufferReader(data), options=_READ) as reader:
            return reader.read_all()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _damaged(error) from None
