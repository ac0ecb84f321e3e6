"""The history of windows: for each end of a window its measures and verdict."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from monitor.arrays import Ints
from monitor.events.model import SeriesKey
from monitor.store.schema import HISTORY
from monitor.store.series import DAY_MS, HOUR_MS, MINUTE_MS, Columns, SeriesStore, take

Texts = NDArray[np.str_]
Singles = NDArray[np.float32]

FIELDS: Final = ("value", "lower", "upper", "null_mean", "null_q95", "p_value")
"""What is kept of a measure: attributes of :class:`monitor.reports.evaluation.report.MeasureResult`."""


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
        arrays = (np.array(column, kind) for column, kind in zip(columns, _KINDS.values(), strict=True))
        return cls._make([*arrays, of_measures])

    def take(self, rows: Any) -> "Points":
        """These rows."""
        return Points.of_columns(take(self.columns, rows))

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

    @property
    def columns(self) -> Columns:
        """The columns, as the store takes them; those that all points have come first."""
        return {**dict(zip(_KINDS, self[:-1], strict=True)), **self.measures}

    @classmethod
    def of_columns(cls, columns: Columns) -> "Points":
        """The points of such columns; measures are those that are not of all points."""
        measures = {name: column for name, column in columns.items() if name not in _KINDS}
        return cls._make([*(columns[name] for name in _KINDS), measures])


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


_KINDS: Final[Mapping[str, Any]] = {
    "window": np.str_,
    **dict.fromkeys(("to_ms", "from_ms", "n", "positives", "predictions"), np.int64),
    "mean_prediction": np.float32,
    **dict.fromkeys(("verdict", "severity"), np.str_),
}
"""Types of the columns of Points, but for the measures."""

NO_POINTS: Final = Points.of_rows((), ())


def _thin(columns: Columns, step_ms: int) -> Columns:
    return Points.of_columns(columns).latest().thinned(step_ms).columns


_STORE: Final = SeriesStore(HISTORY, NO_POINTS.columns, _thin, ((DAY_MS, MINUTE_MS), (14 * DAY_MS, HOUR_MS)))
compact: Final = _STORE.compact


def append(connection: sa.Connection, points: Mapping[SeriesKey, Points]) -> None:
    """Save points. Saving them again changes nothing."""
    _STORE.append(connection, {series: of_series.columns for series, of_series in points.items()})


def read(connection: sa.Connection, series: SeriesKey, from_ms: int | None = None, to_ms: int | None = None) -> Points:
    """The points of a series whose windows end in [from, to], ascending by window and end; at most one a minute.

    Raises
    ------
    DamagedStore, IncompatibleStore
        They cannot be read.
    """
    points = _STORE.read(connection, series._asdict(), from_ms, to_ms)
    return Points.of_columns(points[series]) if series in points else NO_POINTS


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
    points = _STORE.read(
        connection,
        {"model": version.model, "version": version.version},
        *span_ms,
        wanted={*_KINDS, measure},
        among=lambda columns: columns["window"] == window,
    )
    return {key[-1]: Points.of_columns(points[key]) for key in sorted(points)}


def series_of(connection: sa.Connection, model: str) -> Sequence[SeriesKey]:
    """The series of a model that have points, the one with the newest points last."""
    columns = [HISTORY.c[name] for name in SeriesKey._fields]
    newest = sa.func.max(HISTORY.c.day_ms)
    rows = connection.execute(
        sa.select(*columns).where(HISTORY.c.model == model).group_by(*columns).order_by(newest, *columns)
    )
    return [SeriesKey(*row) for row in rows]
