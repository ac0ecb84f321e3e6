"""Past predictions become closings, and the history of their windows, as if the service had read them."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from monitor.app.parts import make_evaluator, make_kept_ms, make_panes, make_policy
from monitor.app.settings import Settings
from monitor.arrays import Ints
from monitor.clock import Clock, ManualClock
from monitor.errors import InputError, NotEnoughData
from monitor.events.fields import wrong_model
from monitor.events.model import ALL, OTHER, ModelPolicy, SeriesKey
from monitor.events.strata import Caps
from monitor.events.times import format_time
from monitor.progress import Progress, no_progress
from monitor.scores import grid
from monitor.scores.grid_table import COLUMNS, POSITIVE_SUM
from monitor.sources.columns import EMPTY
from monitor.sources.tables import EventTable
from monitor.store import backfill, history
from monitor.store.base import BACKFILL, ModelClock
from monitor.store.closing import SCHEMA, Cells, Closing, OldPanes, Panes
from monitor.store.database import Database
from monitor.store.series import DAY_MS
from monitor.windows.history import points_of

_ROWS_IN_CLOSING: Final = 200_000


class PastPredictions(NamedTuple):
    """Settled predictions of a model, summed by series, pane and cell."""

    model: str
    from_ms: int
    to_ms: int
    """Their times are in [from, to): whole panes of every width."""
    pane_ms: int
    panes: Panes
    not_settled: int
    """Predictions left out, because outcomes may still come, or as the caller asked."""

    @property
    def predictions(self) -> int:
        """Number of predictions."""
        whole = [number for number, name in enumerate(self.panes.names) if name.segment == ALL]
        values = self.panes.cells.values[np.isin(self.panes.cells.series, whole)]
        return int(values[:, :POSITIVE_SUM].sum())

    def closing(self) -> Closing:
        """All of them as one closing, of the narrowest panes."""
        return Closing(self.model, self.from_ms, self.to_ms, self.pane_ms, self.panes)


class LandedTopics(NamedTuple):
    """Two topics that have landed in a lake: tables, and the columns that both have."""

    predictions: str
    outcomes: str
    id: str
    time: str
    partition: str | None
    order: str


def settled_to_ms(settings: Settings, model: str, newest_ms: int) -> int:
    """The time up to which predictions are settled, given the newest, as in a log that ends there."""
    policy, pane_ms = declared_policy(settings, model), min(make_kept_ms(settings))
    to_ms = newest_ms - policy.retention_ms
    return to_ms - to_ms % pane_ms


def declared_policy(settings: Settings, model: str) -> ModelPolicy:
    """The policy of a model.

    Raises
    ------
    InputError
        No model can have this name; it must be declared, and is not; or it is of several classes.
    """
    wrong = wrong_model(model)
    if wrong:
        raise InputError(f"--model {wrong}, got {model!r}")
    policy = make_policy(settings.models)(model)
    if policy is None:
        raise InputError(f"--model: {model!r} is not declared in the settings,")
    if policy.classes:
        raise InputError(f"--model: {model!r} has several classes; a backfill is for predictions P(y = 1)")
    return policy


def past_predictions(
    settings: Settings, model: str, table: EventTable, *, version: str, to_ms: int | None = None
) -> PastPredictions:
    """Sum the rows of a table by series, pane and cell.

    Parameters
    ----------
    table
        Predictions with times, and a segment column for each segment that the settings declare for the model.
    version
        Of all rows.
    to_ms
        Where the backfill ends; if left out, up to where predictions are settled.

    Raises
    ------
    InputError
        Rows have no times, or the model cannot be backfilled.
    NotEnoughData
        No row is from before the end.
    """
    policy = declared_policy(settings, model)
    if table.time_ms is None:
        raise InputError("a backfill needs the times of the predictions: name their column with --time")
    if not len(table):
        raise NotEnoughData("there are no predictions")
    end_ms = settled_to_ms(settings, model, int(table.time_ms.max())) if to_ms is None else to_ms
    pane_ms = min(make_kept_ms(settings))
    end_ms -= end_ms % pane_ms
    rows = np.flatnonzero(table.time_ms < end_ms)
    if not rows.size:
        raise NotEnoughData(
            f"no prediction is from before {format_time(end_ms)}, up to where they are settled: horizon and allowed "
            "lateness have to pass; --to TIME says that all outcomes before it are there"
        )
    prediction, outcome, time_ms = table.prediction[rows], table.outcome[rows], table.time_ms[rows]
    cell = grid.locate(prediction)
    values = np.zeros((cell.size, COLUMNS), np.int64)
    at, column = np.arange(cell.size), np.where(outcome < 0, 2, 1 - outcome)
    values[at, column] = 1
    values[at, column + 3] = grid.to_units(prediction) - grid.anchors()[cell]
    start_ms = time_ms - time_ms % pane_ms
    names = [SeriesKey(model, version, ALL)]
    parts = [Cells(np.zeros(cell.size, np.int64), start_ms, cell, values).summed()]
    for key in policy.segments:
        code = table.segments[key].codes[rows]
        codes, kept = _series_of(table.segments[key].values, code, settings.caps.segment_values)
        number = codes[code]
        has = np.flatnonzero(number >= 0)
        part = Cells(number[has] + len(names), start_ms[has], cell[has], values[has])
        names += [SeriesKey(model, version, f"{key}={value}") for value in kept]
        parts.append(part.summed())
    return _past(settings, model, end_ms, Panes.of(names, Cells.joined(parts).summed()), len(table) - rows.size)


def _series_of(values: Sequence[str], code: NDArray[np.int32], limit: int) -> tuple[Ints, list[str]]:
    """Number of the series of each value, -1 for an empty one; and the values that have a series."""
    counts = dict(zip(values, np.bincount(code, minlength=len(values)).tolist(), strict=True))
    names = _kept({value: count for value, count in counts.items() if value != EMPTY and count}, limit)
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names.values()))}
    return np.array([numbers[names[value]] if value in names else -1 for value in values], np.int64), list(numbers)


def of_tables(settings: Settings, model: str, rows: pa.Table, *, to_ms: int, not_settled: int) -> PastPredictions:
    """Sum score tables that are grouped by version, segment and start of pane.

    Where there are more versions, or values of a segment, than ``caps`` allow, the most frequent keep their names. That
    depends on these rows alone, so a run that was killed writes the same when it is repeated.

    Parameters
    ----------
    rows
        Columns ``version``, ``segment`` and ``pane_start_ms``, and those of :data:`monitor.store.closing.SCHEMA` from
        ``cell`` on.
    to_ms
        As found by :func:`settled_to_ms`.
    """
    if not rows.num_rows:
        raise NotEnoughData(f"no prediction is from before {format_time(to_ms)}, up to where they are settled")
    pairs = list(zip(rows["version"].to_pylist(), rows["segment"].to_pylist(), strict=True))
    places = {pair: place for place, pair in enumerate(dict.fromkeys(pairs))}
    series = np.array([places[pair] for pair in pairs], np.int64)
    columns = [np.asarray(rows[name].to_numpy(), np.int64) for name in ("pane_start_ms", *SCHEMA.names[-COLUMNS - 1 :])]
    values = np.stack(columns[2:], axis=1)
    events = np.bincount(series, values[:, :POSITIVE_SUM].sum(axis=1), len(places))
    capped = _capped(dict(zip(places, events.tolist(), strict=True)), settings.caps)
    numbers = {pair: number for number, pair in enumerate(dict.fromkeys(capped.values()))}
    series = np.array([numbers[capped[pair]] for pair in places], np.int64)[series]
    cells = Cells(series, columns[0], columns[1], values).summed()
    names = [SeriesKey(model, *pair) for pair in numbers]
    return _past(settings, model, to_ms, Panes.of(names, cells), not_settled)


def _capped(events: Mapping[tuple[str, str], float], caps: Caps) -> dict[tuple[str, str], tuple[str, str]]:
    """The (version, segment) that each is counted as, given the number of its events: beyond the caps as ``other``."""
    versions, values = Counter[str](), defaultdict[str, Counter[str]](Counter)
    for (version, segment), count in events.items():
        if segment == ALL:
            versions[version] += int(count)
        else:
            key, _, value = segment.partition("=")
            values[key][value] += int(count)
    of_version = _kept(versions, caps.versions)
    of_segment = {ALL: ALL}
    for key, counts in values.items():
        names = _kept(counts, caps.segment_values)
        of_segment |= {f"{key}={value}": f"{key}={name}" for value, name in names.items()}
    return {(version, segment): (of_version[version], of_segment[segment]) for version, segment in events}


def _kept(counts: Mapping[str, int], cap: int) -> dict[str, str]:
    """The names of the most frequent, and ``other``, which takes no place, for the others."""
    by_count = sorted(counts.keys() - {OTHER}, key=lambda name: (-counts[name], name))
    kept = {*by_count[:cap]}
    return {name: name if name in kept else OTHER for name in counts}


def _past(settings: Settings, model: str, to_ms: int, panes: Panes, not_settled: int) -> PastPredictions:
    widest_ms, pane_ms = max(make_kept_ms(settings)), min(make_kept_ms(settings))
    first_ms = int(panes.cells.start_ms.min())
    return PastPredictions(model, first_ms - first_ms % widest_ms, to_ms, pane_ms, panes, not_settled)


def widened(closing: Closing, kept_ms: Mapping[int, int]) -> list[Closing]:
    """Widen the panes that windows at the end need no longer, and divide the closing into small ones, in order."""
    widths = sorted(kept_ms)
    parts: list[Closing] = []
    rest: Closing | None = closing
    for width_ms, wider_ms in pairwise(widths):
        before_ms = closing.to_ms - kept_ms[width_ms]
        before_ms -= before_ms % wider_ms
        if rest is None or before_ms <= rest.from_ms:
            break
        halves = {half.pane_ms: half for half in rest.split(before_ms, wider_ms)}
        parts += [halves[width_ms]] if width_ms in halves else []
        rest = halves.get(wider_ms)
    parts += [] if rest is None else [rest]
    return [piece for part in reversed(parts) for piece in _pieces(part)]


def _pieces(closing: Closing) -> Iterator[Closing]:
    """Divide a closing at starts of panes."""
    start_ms = np.sort(closing.panes.cells.start_ms)
    cuts = np.unique(start_ms[_ROWS_IN_CLOSING::_ROWS_IN_CLOSING])
    yield from divided(closing, cuts[cuts > closing.from_ms].tolist())


def divided(closing: Closing, at_ms: Sequence[int]) -> Iterator[Closing]:
    """Divide a closing at these times, ascending, which are starts of panes."""
    bounds = [closing.from_ms, *at_ms, closing.to_ms]
    cells = closing.panes.cells
    for first_ms, last_ms in pairwise(bounds):
        inside = np.flatnonzero((cells.start_ms >= first_ms) & (cells.start_ms < last_ms))
        panes = Panes.of(closing.panes.names, cells.take(inside))
        yield Closing(closing.model, first_ms, last_ms, closing.pane_ms, panes)


def write(
    database: Database,
    settings: Settings,
    past: PastPredictions,
    *,
    batch: str,
    clock: Clock,
    replace: bool = False,
    progress: Progress = no_progress,
) -> int:
    """Save past predictions as closings, and the points of the history that they give; returns the number of points.

    Saving a batch again replaces what it saved before.

    Parameters
    ----------
    batch
        Name of the batch.
    replace
        Whether what other batches hold of these times is replaced.
    progress
        Called with the share of the history that is done.

    Raises
    ------
    Conflict
        The service has read predictions from this time on, or another batch holds some: see
        :func:`monitor.store.backfill.save`.
    StoreError
        The store cannot be written.
    """
    parts = widened(past.closing(), make_kept_ms(settings))
    backfill.save(database, batch, parts, to_ms=past.to_ms, replace=replace)
    return _write_history(database, settings, past, clock, progress)


def _write_history(
    database: Database, settings: Settings, past: PastPredictions, clock: Clock, progress: Progress
) -> int:
    """Evaluate all windows at the end of each day, as the service would have."""
    days = _days(past)
    windows = _Windows(database, settings, past, clock)
    saved = 0
    for number, part in enumerate(days):
        points = windows.points(part)
        with database.writing() as connection:
            history.append(connection, points)
        saved += _count(points)
        progress((number + 1) / len(days))
    return saved


def append(
    database: Database, settings: Settings, spans: Iterable[PastPredictions], *, batch: str, clock: Clock
) -> Iterator[tuple[PastPredictions, int]]:
    """Save spans of past predictions, in order, which begin where the backfills of their model end; with their history.

    Each span is saved in one transaction, so what was interrupted goes on behind the last span that was saved.

    Yields
    ------
    past
        The span that was saved.
    points
        Number of points of its history.

    Raises
    ------
    Conflict, StoreError
        As of :func:`monitor.store.backfill.append`.
    """
    kept_ms = make_kept_ms(settings)
    windows: _Windows | None = None
    for past in spans:
        windows = windows or _Windows(database, settings, past, clock)
        points = [windows.points(part) for part in _days(past)]
        old = [
            OldPanes(
                past.model,
                width_ms,
                past.to_ms - kept_ms[width_ms] - (past.to_ms - kept_ms[width_ms]) % wider_ms,
                wider_ms,
            )
            for width_ms, wider_ms in pairwise(sorted(kept_ms))
        ]
        parts = list(_pieces(past.closing()))
        backfill.append(database, batch, parts, to_ms=past.to_ms, points=points, old=old)
        yield past, sum(map(_count, points))


def _days(past: PastPredictions) -> list[Closing]:
    """Divide past predictions at midnight (UTC)."""
    first_ms = past.from_ms - past.from_ms % DAY_MS + DAY_MS
    return list(divided(past.closing(), range(first_ms, past.to_ms, DAY_MS)))


def _count(points: Mapping[SeriesKey, history.Points]) -> int:
    return sum(of_series.to_ms.size for of_series in points.values())


class _Windows:
    """The windows of a model as past predictions are added, which begin with ``past``."""

    def __init__(self, database: Database, settings: Settings, past: PastPredictions, clock: Clock) -> None:
        self._panes = make_panes(settings)
        # On a clock that does not advance there is time for every interval and level.
        self._evaluator = make_evaluator(settings, self._panes, ManualClock(clock.now_ms()))
        # Windows of its first days reach into what was backfilled before.
        self._panes.advance(
            BACKFILL,
            past.model,
            ModelClock(past.from_ms - 1, past.from_ms - 1, past.from_ms),
            backfill.read(database, past.model, past.from_ms - max(make_kept_ms(settings).values()), past.from_ms),
        )

    def points(self, part: Closing) -> Mapping[SeriesKey, history.Points]:
        """Add a closing, and evaluate the windows that end with it."""
        clocks = ModelClock(part.to_ms - 1, part.to_ms - 1, part.to_ms)
        self._panes.advance(BACKFILL, part.model, clocks, [part])
        self._panes.settle(part.model)
        return points_of(self._evaluator.evaluate().reports.values())
