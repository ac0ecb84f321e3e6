"""The history of windows: for each end of a window its measures and verdict, in columns, one blob per series and day.

A point is keyed by the end of its window, not by the time of its evaluation. So the same log gives the same history,
and a point that is saved twice is one point. Points are appended in small parts, which :func:`compact` merges, and
thins out as they grow old. Age is counted behind the newest day of the model, in the time of its predictions.
"""

import zlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from monitor.arrays import Ints
from monitor.errors import DamagedStore, IncompatibleStore
from monitor.events.model import SeriesKey
from monitor.store.database import Database
from monitor.store.journal import MAX_BATCHES, merge_from
from monitor.store.schema import HISTORY, MODELS

Texts = NDArray[np.str_]
Singles = NDArray[np.float32]

FIELDS: Final = ("value", "lower", "upper", "null_mean", "null_q95", "p_value")
"""What is kept of a measure: attributes of :class:`monitor.reports.evaluation.report.MeasureResult`."""

MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS

_LEVELS: Final = ((DAY_MS, MINUTE_MS), (14 * DAY_MS, HOUR_MS))
"""Age up to which days keep a point per step."""
_OLDEST_STEP_MS: Final = 6 * HOUR_MS

_FORMAT: Final = 1
_LEVEL: Final = 1
"""Level of the compression: most bytes are the last digits of measures, on which a higher one gains nothing."""


class Points(NamedTuple):
    """Points of one series: one row for each window and end. Each array has shape (n,)."""

    window: Texts
    to_ms: Ints
    """End of the window."""
    from_ms: Ints
    n: Ints
    positives: Ints
    predictions: Ints
    mean_prediction: Singles
    verdict: Texts
    """Empty where intervals, levels and verdict were not computed for this end."""
    severity: Texts
    """Empty where the verdict has none."""
    measures: Mapping[str, Singles]
    """Measure -> float32, shape (n, 6): FIELDS; nan where there is none."""

    @classmethod
    def of_rows(cls, rows: Sequence[tuple[Any, ...]], measures: Sequence[Mapping[str, Sequence[float]]]) -> "Points":
        """Points of rows in the order of the columns, and the measures of each row."""
        columns = list(zip(*rows, strict=True)) or [()] * len(_KINDS)
        names = list(dict.fromkeys(name for of_row in measures for name in of_row))
        missing = (np.nan,) * len(FIELDS)
        of_measures = {
            name: np.array([of_row.get(name, missing) for of_row in measures], np.float32).reshape(-1, len(FIELDS))
            for name in names
        }
        return cls._make([*(np.array(column, kind) for column, kind in zip(columns, _KINDS, strict=True)), of_measures])

    @classmethod
    def joined(cls, parts: Sequence["Points"]) -> "Points":
        """The rows of all parts, one after the other."""
        parts = [NO_POINTS, *parts]
        columns = [np.concatenate(column) for column in zip(*(part[:-1] for part in parts), strict=True)]
        measures = {}
        for name in dict.fromkeys(name for part in parts for name in part.measures):
            of_parts = [part.measures.get(name) for part in parts]
            measures[name] = np.concatenate(
                [
                    np.full((part.to_ms.size, len(FIELDS)), np.nan, np.float32) if of is None else of
                    for part, of in zip(parts, of_parts, strict=True)
                ]
            )
        return cls._make([*columns, measures])

    def take(self, rows: Any) -> "Points":
        """These rows."""
        columns = [column[rows] for column in self[:-1]]
        return Points._make([*columns, {name: of[rows] for name, of in self.measures.items()}])

    def latest(self) -> "Points":
        """One row for each window and end, ascending by both: the last.

        Where the last has no verdict yet, an earlier one of the same predictions that has one is as good: the same
        window was evaluated again, after a restart, and its intervals have not been renewed.
        """
        rows = self.take(np.lexsort((self.to_ms, self.window)))
        is_last = _ends(rows.window, rows.to_ms)
        last = np.flatnonzero(is_last)
        # Place of the last row of each row's window and end.
        of_row = last[np.cumsum(is_last) - is_last]
        is_same = (rows.verdict != "") & (rows.mean_prediction == rows.mean_prediction[of_row])
        for counts in (rows.n, rows.positives, rows.predictions):
            is_same &= counts == counts[of_row]
        return rows.take(_last_of(is_last, is_same))

    def thinned(self, step_ms: int) -> "Points":
        """The last row of each window in each step (k * step, (k + 1) * step]; rows ascend as from :meth:`latest`.

        It is the last with a verdict, where the step has one: intervals are not renewed for each end of a window.
        """
        return self.take(_last_of(_ends(self.window, (self.to_ms - 1) // step_ms), self.verdict != ""))

    def to_bytes(self) -> bytes:
        """The format, and compressed MessagePack: names, then the columns, their bytes sorted by place in a number."""
        names, columns = [], []
        for column in (self.window, self.verdict, self.severity):
            texts, codes = np.unique(column, return_inverse=True)
            names.append(texts.tolist())
            columns.append(_shuffled(codes.astype("<i2")))
        columns += [_shuffled(np.diff(column, prepend=0).astype("<i8")) for column in self._whole_numbers()]
        columns += [_shuffled(column.astype("<f4")) for column in self._single_columns()]
        windows, verdicts, severities = names
        block = _Block(self.to_ms.size, windows, verdicts, severities, list(self.measures), b"".join(columns))
        return bytes([_FORMAT]) + zlib.compress(msgspec.msgpack.encode(block), _LEVEL)

    @classmethod
    def from_bytes(cls, data: bytes, measures: Collection[str] | None = None) -> "Points":
        """What :meth:`to_bytes` wrote; of these measures alone, if some are named, which takes less time.

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
                    f"the history has format {data[0]}, this version of the service reads {_FORMAT}: run the version "
                    "that wrote it"
                )
            block = _read_block(zlib.decompress(data[1:]))
            return cls._of_block(block, block.measures if measures is None else measures)
        except (zlib.error, msgspec.MsgspecError, ValueError, IndexError) as error:
            raise DamagedStore(f"a part of the history cannot be read ({error}); restore a backup") from None

    @classmethod
    def _of_block(cls, block: "_Block", wanted: Collection[str]) -> "Points":
        at = 0

        def skip(bytes_of_row: int) -> int:
            nonlocal at
            first, at = at, at + block.rows * bytes_of_row
            return first

        def column(kind: str) -> NDArray[Any]:
            width = np.dtype(kind).itemsize
            part = np.frombuffer(block.columns, np.uint8, block.rows * width, skip(width))
            return np.ascontiguousarray(part.reshape(width, block.rows).T).view(kind).reshape(-1)

        names = (block.windows, block.verdicts, block.severities)
        window, verdict, severity = (np.array(texts or [""])[column("<i2")] for texts in names)
        to_ms, length_ms, n, positives, predictions = (np.cumsum(column("<i8"), dtype=np.int64) for _ in range(5))
        mean = column("<f4")
        measures = {}
        for name in block.measures:
            if name in wanted:
                measures[name] = np.stack([column("<f4") for _ in FIELDS], axis=1)
            else:
                skip(len(FIELDS) * np.dtype("<f4").itemsize)
        return cls(window, to_ms, to_ms - length_ms, n, positives, predictions, mean, verdict, severity, measures)

    def _whole_numbers(self) -> tuple[Ints, ...]:
        return self.to_ms, self.to_ms - self.from_ms, self.n, self.positives, self.predictions

    def _single_columns(self) -> Iterable[Singles]:
        yield self.mean_prediction
        for of_measure in self.measures.values():
            yield from of_measure.T


def _ends(window: Texts, key: Ints) -> NDArray[np.bool_]:
    """Whether each row is the last of its window and key, shape (n,)."""
    is_last = np.ones(key.size, np.bool_)
    is_last[:-1] = (window[1:] != window[:-1]) | (key[1:] != key[:-1])
    return is_last


def _last_of(is_last: NDArray[np.bool_], preferred: NDArray[np.bool_]) -> Ints:
    """The place of the last preferred row of each group; of the last row, where it has none."""
    last = np.flatnonzero(is_last)
    if not last.size:
        return last
    first = np.concatenate(([0], last[:-1] + 1))
    best = np.maximum.reduceat(np.where(preferred, np.arange(is_last.size), -1), first)
    return np.asarray(np.where(best < 0, last, best))


_KINDS: Final = (np.str_, *[np.int64] * 5, np.float32, np.str_, np.str_)
"""Types of the columns of Points, but for the measures."""


NO_POINTS: Final = Points.of_rows((), ())


class _Block(msgspec.Struct, frozen=True, array_like=True):
    """How points are stored."""

    rows: int
    windows: list[str]
    verdicts: list[str]
    severities: list[str]
    measures: list[str]
    columns: bytes


_read_block: Final = msgspec.msgpack.Decoder(_Block).decode


def _shuffled(column: NDArray[Any]) -> bytes:
    """The first bytes of all numbers, then the second ones, ...: neighbours are alike, so they compress."""
    return np.ascontiguousarray(column).view(np.uint8).reshape(column.size, column.itemsize).T.tobytes()


def day_of(to_ms: Ints) -> Ints:
    """Start of the day that holds the end of a window: a window that ends at midnight is of the day before."""
    return (to_ms - 1) // DAY_MS * DAY_MS


def append(connection: sa.Connection, points: Mapping[SeriesKey, Points]) -> None:
    """Save points. Saving them again changes nothing."""
    rows = []
    for series, of_series in points.items():
        day_ms = day_of(of_series.to_ms)
        for day in np.unique(day_ms).tolist():
            data = of_series.take(day_ms == day).to_bytes()
            rows.append({**series._asdict(), "day_ms": day, "step_ms": 0, "size": len(data), "points": data})
    if rows:
        # With RETURNING all rows are one statement: a pipeline of many would outlast the lease if it were paused.
        connection.execute(sa.insert(HISTORY).returning(HISTORY.c.number), rows)


def read(connection: sa.Connection, series: SeriesKey, from_ms: int | None = None, to_ms: int | None = None) -> Points:
    """The points of a series whose windows end in [from, to], ascending by window and end; at most one a minute.

    Raises
    ------
    DamagedStore, IncompatibleStore
        They cannot be read.
    """
    rows = _between(sa.select(HISTORY.c.points).where(*_of_series(series)), from_ms, to_ms)
    parts = [Points.from_bytes(data) for data in connection.execute(rows).scalars()]
    return _minutes(parts, from_ms, to_ms)


def read_segments(
    connection: sa.Connection, version: SeriesKey, window: str, measure: str, span_ms: tuple[int | None, int | None]
) -> dict[str, Points]:
    """Segment -> its points in a window with one measure, of all segments of a version, ascending by name.

    Parameters
    ----------
    version
        Any series of the version.
    span_ms
        [from, to], as for :func:`read`, whose points these are.

    Raises
    ------
    DamagedStore, IncompatibleStore
        They cannot be read.
    """
    rows = sa.select(HISTORY.c.segment, HISTORY.c.points).where(
        HISTORY.c.model == version.model, HISTORY.c.version == version.version
    )
    parts: defaultdict[str, list[Points]] = defaultdict(list)
    for segment, data in connection.execute(_between(rows, *span_ms)):
        points = Points.from_bytes(data, [measure])
        parts[segment].append(points.take(points.window == window))
    return {segment: _minutes(parts[segment], *span_ms) for segment in sorted(parts)}


def _between(rows: sa.Select[Any], from_ms: int | None, to_ms: int | None) -> sa.Select[Any]:
    """The days that may hold windows which end in [from, to], in the order in which they were saved."""
    if from_ms is not None:
        rows = rows.where(HISTORY.c.day_ms > from_ms - 1 - DAY_MS)
    if to_ms is not None:
        rows = rows.where(HISTORY.c.day_ms < to_ms)
    return rows.order_by(HISTORY.c.number)


def _minutes(parts: Sequence[Points], from_ms: int | None, to_ms: int | None) -> Points:
    """One point a minute of those whose windows end in [from, to]."""
    points = Points.joined(parts)
    first_ms = np.iinfo(np.int64).min if from_ms is None else from_ms
    last_ms = np.iinfo(np.int64).max if to_ms is None else to_ms
    # Thinned first: which point a minute keeps does not depend on the span that is read.
    thin = points.latest().thinned(MINUTE_MS)
    return thin.take((thin.to_ms >= first_ms) & (thin.to_ms <= last_ms))


def series_of(connection: sa.Connection, model: str) -> Sequence[SeriesKey]:
    """The series of a model that have points, the one with the newest points last."""
    columns = [HISTORY.c[name] for name in SeriesKey._fields]
    newest = sa.func.max(HISTORY.c.day_ms)
    rows = connection.execute(
        sa.select(*columns).where(HISTORY.c.model == model).group_by(*columns).order_by(newest, *columns)
    )
    return [SeriesKey(*row) for row in rows]


def compact(database: Database, retention_ms: int) -> int:
    """Merge the parts of each day, thin old days out, and remove those older than the retention; returns how many went.

    Several processes may do so at once.

    Raises
    ------
    StoreUnavailable
        The database does not answer.
    DamagedStore, IncompatibleStore
        Points cannot be read.
    """
    with database.reading() as connection:
        work = connection.execute(_work(retention_ms)).all()
    # Older than the retention of its model.
    old = [row for row in work if row.age_ms > retention_ms]
    for model, newest_ms in {row.model: row.day_ms + row.age_ms for row in old}.items():
        with database.writing() as connection:
            is_old = HISTORY.c.day_ms < newest_ms - retention_ms
            connection.execute(sa.delete(HISTORY).where(HISTORY.c.model == model, is_old))
    for row in work:
        if row.age_ms <= retention_ms:
            series = SeriesKey(row.model, row.version, row.segment)
            _merge(database, series, row.day_ms, row.wanted_ms, whole=row.age_ms > 0)
    return len(old)


def _work(retention_ms: int) -> sa.Select[Any]:
    """The days of series that are to be removed, thinned out or merged, with their age and step."""
    of = HISTORY.c
    newest = newest_days(HISTORY)
    age_ms = newest.c.newest_ms - of.day_ms
    wanted_ms = sa.case(*((age_ms <= longest_ms, step_ms) for longest_ms, step_ms in _LEVELS), else_=_OLDEST_STEP_MS)
    parts = sa.func.count()
    is_over = (age_ms > 0) & ((parts > 1) | (sa.func.min(of.step_ms) < wanted_ms))
    days = (of.model, of.version, of.segment, of.day_ms)
    return (
        sa.select(*days, age_ms.label("age_ms"), wanted_ms.label("wanted_ms"))
        .join_from(HISTORY, newest, of.model == newest.c.model)
        .group_by(*days, newest.c.newest_ms)
        .having((age_ms > retention_ms) | is_over | (parts > MAX_BATCHES))
        .order_by(*days)
    )


def newest_days(of_history: sa.Table) -> sa.Subquery:
    """The newest day of each model that has a history: behind it, its age is counted.

    Of a model that no partition holds any more, it is the newest day of all models.
    """
    of = of_history.c
    is_held = sa.exists().where(MODELS.c.name == of.model)
    of_all = sa.select(sa.func.max(of_history.alias().c.day_ms)).scalar_subquery()
    newest_ms = sa.case((is_held, sa.func.max(of.day_ms)), else_=of_all)
    return sa.select(of.model, newest_ms.label("newest_ms")).group_by(of.model).subquery()


def _merge(database: Database, series: SeriesKey, day_ms: int, step_ms: int, *, whole: bool) -> None:
    """Merge the parts of a day: all of them, or the newest ones that together are worth it."""
    of_day = (*_of_series(series), HISTORY.c.day_ms == day_ms)
    with database.writing() as connection:
        # Locked, as another process may be merging them: then they are read as that one leaves them.
        columns = (HISTORY.c.number, HISTORY.c.size, HISTORY.c.step_ms)
        of_parts = sa.select(*columns).where(*of_day).order_by(HISTORY.c.number).with_for_update()
        parts = connection.execute(of_parts).all()
        merged = parts[0 if whole else merge_from([part.size for part in parts]) :]
        if not merged or (len(merged) == 1 and merged[0].step_ms >= step_ms):
            return
        last = merged[-1].number
        are_merged = (*of_day, HISTORY.c.number >= merged[0].number, HISTORY.c.number <= last)
        rows = connection.execute(sa.select(HISTORY.c.points).where(*are_merged).order_by(HISTORY.c.number)).scalars()
        points = Points.joined([Points.from_bytes(data) for data in rows])
        data = points.latest().thinned(step_ms).to_bytes()
        connection.execute(sa.delete(HISTORY).where(*are_merged, HISTORY.c.number < last))
        # It has the number of the last one: what is saved from now on is newer.
        update = sa.update(HISTORY).where(HISTORY.c.number == last)
        connection.execute(update.values(points=data, size=len(data), step_ms=step_ms))


def _of_series(series: SeriesKey) -> tuple[sa.ColumnElement[bool], ...]:
    return tuple(HISTORY.c[name] == value for name, value in series._asdict().items())
