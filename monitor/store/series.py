"""Series of points over time: in columns, one blob per series and day; read, thinned out and removed as they age.

A point is keyed by the time up to which it is settled, not by when it was saved. So the same log gives the same
history, and a point that is saved twice is one point. Points are appended in small parts, which
:meth:`SeriesStore.compact` merges, and thins out as they grow old. Age is counted behind the newest day of the model,
in the time of its predictions.
"""

import zlib
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

import msgspec
import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from monitor.arrays import Ints
from monitor.errors import DamagedStore, IncompatibleStore
from monitor.store.database import Database
from monitor.store.journal import MAX_BATCHES, merge_from
from monitor.store.schema import MODELS

Columns = Mapping[str, NDArray[Any]]
"""Name -> values of points, shape (n,) or (n, k): text, int64, float32 or bool. ``to_ms`` is the time of a point."""
Key = tuple[str, ...]

MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS

_OLDEST_STEP_MS: Final = 6 * HOUR_MS
_DAYS_A_TRANSACTION: Final = 64
"""Which are merged within a tenth of a second: a checkpoint on SQLite waits that long."""
_FORMAT: Final = 1
_LEVEL: Final = 1
"""Level of the compression: most bytes are the last digits of measures, on which a higher one gains nothing."""


class _Block(msgspec.Struct, frozen=True, array_like=True):
    """How points are stored."""

    rows: int
    columns: list[tuple[str, str, int, list[str]]]
    """Name, type of the stored numbers, how many there are in a row, and the texts that they stand for."""
    data: bytes


_read_block: Final = msgspec.msgpack.Decoder(_Block).decode


def encode(columns: Columns) -> bytes:
    """The format, and compressed MessagePack: names, then the columns, their bytes sorted by place in a number."""
    described: list[tuple[str, str, int, list[str]]] = []
    data: list[bytes] = []
    for name, column in columns.items():
        texts: list[str] = []
        numbers = column
        if column.dtype.kind == "U":
            unique, codes = np.unique(column, return_inverse=True)
            texts, numbers = unique.tolist(), codes.astype("<i2")
        elif column.dtype.kind == "i":
            numbers = np.diff(column, prepend=0).astype("<i8")
        width = numbers.shape[1] if numbers.ndim > 1 else 1
        described.append((name, numbers.dtype.str, width, texts))
        # The first bytes of all numbers, then the second ones, ...: neighbours are alike, so they compress.
        octets = np.ascontiguousarray(numbers).view(np.uint8).reshape(len(numbers), width, numbers.itemsize)
        data.append(octets.transpose(1, 2, 0).tobytes())
    block = _Block(columns["to_ms"].size, described, b"".join(data))
    return bytes([_FORMAT]) + zlib.compress(msgspec.msgpack.encode(block), _LEVEL)


def decode(data: bytes, wanted: Collection[str] | None = None) -> dict[str, NDArray[Any]]:
    """What :func:`encode` wrote; these columns alone, if some are named, which takes less time.

    Raises
    ------
    DamagedStore
        The bytes are nothing of the kind.
    IncompatibleStore
        They are of another format.
    """
    try:
        if data[0] != _FORMAT:
            raise IncompatibleStore(
                f"the history has format {data[0]}, this version of the service reads {_FORMAT}: run the version that "
                "wrote it"
            )
        block = _read_block(zlib.decompress(data[1:]))
        columns, at = {}, 0
        for name, kind, width, texts in block.columns:
            item = np.dtype(kind).itemsize
            if wanted is None or name in wanted:
                stored = np.frombuffer(block.data, np.uint8, width * block.rows * item, at)
                rows = np.ascontiguousarray(stored.reshape(width, item, block.rows).transpose(2, 0, 1))
                numbers = rows.view(kind).reshape(block.rows, width)
                columns[name] = _restored(numbers[:, 0] if width == 1 else numbers, texts)
            at += width * block.rows * item
    except (zlib.error, msgspec.MsgspecError, ValueError, IndexError) as error:
        raise DamagedStore(f"a part of the history cannot be read ({error}); restore a backup") from None
    return columns


def decode_peaks(stored: Sequence[bytes], size: int) -> NDArray[np.float32]:
    """The peaks of parts of days, shape (parts, size). Raises DamagedStore."""
    if any(len(peaks) != size * np.dtype(np.float32).itemsize for peaks in stored):
        raise DamagedStore("peaks of the history cannot be read (wrong length); restore a backup")
    return np.frombuffer(b"".join(stored), np.float32).reshape(-1, size)


def _restored(numbers: NDArray[Any], texts: list[str]) -> NDArray[Any]:
    if numbers.dtype == "<i2":
        numbers = np.array(texts or [""])[numbers]
    return np.cumsum(numbers, dtype=np.int64) if numbers.dtype == "<i8" else numbers


def joined(parts: Sequence[Columns]) -> dict[str, NDArray[Any]]:
    """The rows of all parts, one after the other; nan where a part lacks a column, which then holds numbers."""
    columns = {}
    for name, like in {name: column for part in parts for name, column in part.items()}.items():
        shapes = [(part["to_ms"].size, *like.shape[1:]) for part in parts]
        of_parts = [
            part[name] if name in part else np.full(shape, np.nan, like.dtype)
            for part, shape in zip(parts, shapes, strict=True)
        ]
        columns[name] = np.concatenate(of_parts)
    return columns


def take(columns: Columns, rows: Any) -> dict[str, NDArray[Any]]:
    """These rows."""
    return {name: column[rows] for name, column in columns.items()}


def _day_of(to_ms: Ints) -> Ints:
    """Start of the day that holds a time: midnight is of the day before."""
    return (to_ms - 1) // DAY_MS * DAY_MS


class SeriesStore:
    """The points of many series in one table, made by :func:`monitor.store.schema.series_table`.

    Parameters
    ----------
    table
        The table.
    empty
        The columns that all points have, without a row.
    thin
        Points in the order in which they were saved, and a step, to those that are kept: of equal times one, and one
        in each step (k * step, (k + 1) * step]; ascending.
    levels
        Ages, ascending, and the step between points of days up to that age. Points are read in the first step.
    max_parts
        Small parts of the newest day that are left before they are merged.
    peaks
        Of the points of a day, what a row has beside them, shape (k,): the largest value of each part of the day, of
        merged rows the largest of all.
    """

    def __init__(
        self,
        table: sa.Table,
        empty: Columns,
        thin: Callable[[Columns, int], Columns],
        levels: Sequence[tuple[int, int]],
        *,
        max_parts: int = MAX_BATCHES,
        peaks: Callable[[Columns], NDArray[np.float32]] | None = None,
    ) -> None:
        self._table = table
        self._empty = empty
        self._thin = thin
        self._levels = levels
        self._max_parts = max_parts
        self._peaks = peaks
        self._keys = [table.c[name] for name in ("model", "version", "segment") if name in table.c]

    def append(self, connection: sa.Connection, points: Mapping[Key, Columns]) -> None:
        """Save points of series. Saving them again changes nothing."""
        rows = []
        for key, of_series in points.items():
            series = {column.name: name for column, name in zip(self._keys, key, strict=True)}
            day_ms = _day_of(of_series["to_ms"])
            for day in np.unique(day_ms).tolist():
                of_day = take(of_series, day_ms == day)
                peaks = {} if self._peaks is None else {"peaks": self._peaks(of_day).tobytes()}
                data = encode(of_day)
                rows.append({**series, "day_ms": day, "step_ms": 0, "size": len(data), "points": data, **peaks})
        if rows:
            # With RETURNING all rows are one statement: a pipeline of many would outlast the lease if it were paused.
            connection.execute(sa.insert(self._table).returning(self._table.c.number), rows)

    def read(
        self,
        connection: sa.Connection,
        key: Mapping[str, str],
        from_ms: int | None = None,
        to_ms: int | None = None,
        *,
        wanted: Collection[str] | None = None,
        among: Callable[[Columns], NDArray[np.bool_]] | None = None,
    ) -> dict[Key, Columns]:
        """Series -> its points in [from, to], ascending; at most one in each step of the youngest.

        Parameters
        ----------
        key
            Names of the series by column, some of them or all.
        wanted
            Columns that are read; all, if none are named.
        among
            Which rows of points are read.

        Raises
        ------
        DamagedStore, IncompatibleStore
            They cannot be read.
        """
        of = self._table.c
        query = sa.select(*self._keys, of.points).where(*(of[name] == value for name, value in key.items()))
        parts: defaultdict[Key, list[Columns]] = defaultdict(list)
        for *series, data in connection.execute(self.between(query, from_ms, to_ms).order_by(of.number)):
            points = decode(data, wanted)
            parts[tuple(series)].append(points if among is None else take(points, among(points)))
        first_ms = np.iinfo(np.int64).min if from_ms is None else from_ms
        last_ms = np.iinfo(np.int64).max if to_ms is None else to_ms
        result: dict[Key, Columns] = {}
        for key_of_series, of_series in parts.items():
            # Thinned first: which point a step keeps does not depend on the span that is read.
            thin = self._thin(joined([self._empty, *of_series]), self._levels[0][1])
            result[key_of_series] = take(thin, (thin["to_ms"] >= first_ms) & (thin["to_ms"] <= last_ms))
        return result

    def between(self, query: sa.Select[Any], from_ms: int | None, to_ms: int | None) -> sa.Select[Any]:
        """The days that may hold points in [from, to]."""
        if from_ms is not None:
            query = query.where(self._table.c.day_ms > from_ms - 1 - DAY_MS)
        return query if to_ms is None else query.where(self._table.c.day_ms < to_ms)

    def compact(self, database: Database, retention_ms: int) -> int:
        """Merge the parts of each day, thin old days out, and remove those older than the retention.

        Several processes may do so at once.

        Returns
        -------
        How many days of series were removed.

        Raises
        ------
        StoreUnavailable
            The database does not answer.
        DamagedStore, IncompatibleStore
            Points cannot be read.
        """
        of = self._table.c
        work = database.rows(self._work(retention_ms))
        # Older than the retention of its model.
        old = [row for row in work if row.age_ms > retention_ms]
        for model, newest_ms in {row.model: row.day_ms + row.age_ms for row in old}.items():
            with database.writing() as connection:
                is_old = of.day_ms < newest_ms - retention_ms
                connection.execute(sa.delete(self._table).where(of.model == model, is_old))
        kept = [row for row in work if row.age_ms <= retention_ms]
        for start in range(0, len(kept), _DAYS_A_TRANSACTION):
            with database.writing() as connection:
                self._merge(connection, kept[start : start + _DAYS_A_TRANSACTION])
        return len(old)

    def _work(self, retention_ms: int) -> sa.Select[Any]:
        """The days of series that are to be removed, thinned out or merged, with their age and step."""
        of = self._table.c
        newest = self._newest_days()
        age_ms = newest.c.newest_ms - of.day_ms
        levels = ((age_ms <= longest_ms, step_ms) for longest_ms, step_ms in self._levels)
        wanted_ms = sa.case(*levels, else_=_OLDEST_STEP_MS)
        parts = sa.func.count()
        is_over = (age_ms > 0) & ((parts > 1) | (sa.func.min(of.step_ms) < wanted_ms))
        days = (*self._keys, of.day_ms)
        return (
            sa.select(*days, age_ms.label("age_ms"), wanted_ms.label("wanted_ms"))
            .join_from(self._table, newest, of.model == newest.c.model)
            .group_by(*days, newest.c.newest_ms)
            .having((age_ms > retention_ms) | is_over | (parts > self._max_parts))
            .order_by(*days)
        )

    def _newest_days(self) -> sa.Subquery:
        """The newest day of each model that has points: behind it, its age is counted.

        Of a model that no partition holds any more, it is the newest day of all models.
        """
        of = self._table.c
        is_held = sa.exists().where(MODELS.c.name == of.model)
        of_all = sa.select(sa.func.max(self._table.alias().c.day_ms)).scalar_subquery()
        newest_ms = sa.case((is_held, sa.func.max(of.day_ms)), else_=of_all)
        return sa.select(of.model, newest_ms.label("newest_ms")).group_by(of.model).subquery()

    def _merge(self, connection: sa.Connection, work: Sequence[sa.Row[Any]]) -> None:
        """Merge the parts of these days: all of a day that is over, of the newest those that together are worth it."""
        of = self._table.c
        day = [*self._keys, of.day_ms]
        of_days = sa.tuple_(*day).in_([tuple(row[: len(day)]) for row in work])
        of_parts = sa.select(*day, of.number, of.size, of.step_ms).where(of_days).order_by(of.number)
        parts: defaultdict[tuple[Any, ...], list[Any]] = defaultdict(list)
        # What another process is merging is left to it.
        for part in connection.execute(of_parts.with_for_update(skip_locked=True)):
            parts[tuple(part[: len(day)])].append(part)
        merged: dict[int, tuple[list[int], int]] = {}
        for row in work:
            of_day = parts[tuple(row[: len(day)])]
            if row.age_ms <= 0:
                of_day = of_day[merge_from([part.size for part in of_day], self._max_parts) :]
            if len(of_day) > 1 or (of_day and of_day[0].step_ms < row.wanted_ms):
                # It has the number of the last one: what is saved from now on is newer.
                merged[of_day[-1].number] = [part.number for part in of_day], row.wanted_ms
        if not merged:
            return
        numbers = [number for of_day, _ in merged.values() for number in of_day]
        rows = {row.number: row for row in connection.execute(sa.select(self._table).where(of.number.in_(numbers)))}
        values = [
            {"last": last, **self._merged([rows[number] for number in of_day], step_ms)}
            for last, (of_day, step_ms) in merged.items()
        ]
        connection.execute(sa.delete(self._table).where(of.number.in_(set(numbers) - merged.keys())))
        connection.execute(sa.update(self._table).where(of.number == sa.bindparam("last")), values)

    def _merged(self, rows: Sequence[sa.Row[Any]], step_ms: int) -> dict[str, Any]:
        """The values of the row that stands for these parts of a day."""
        data = encode(self._thin(joined([self._empty, *(decode(row.points) for row in rows)]), step_ms))
        values: dict[str, Any] = {"points": data, "size": len(data), "step_ms": step_ms}
        if self._peaks is not None:
            peaks = decode_peaks([row.peaks for row in rows], len(rows[0].peaks) // 4)
            values["peaks"] = np.fmax.reduce(peaks).tobytes()
        return values
