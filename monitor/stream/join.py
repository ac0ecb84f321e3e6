"""The join of one partition: its tables, the watermarks of its models, and the results of its events."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from monitor.events import event_results
from monitor.events.model import EventColumns, Kind
from monitor.events.strata import Strata
from monitor.scores.grid_table import COLUMNS, POSITIVES, UNLABELLED
from monitor.store.base import Counters, ModelState
from monitor.store.closing import Cells
from monitor.stream import join_loops
from monitor.stream.join_loops import Accepted, EarlyOutcomes, Events, Models, Predictions
from monitor.stream.journal_loops import (
    BLOCK,
    CLAIMED,
    JOURNAL_ROW,
    NO_OUTCOME,
    PREDICTED,
    VECTOR,
    VECTOR_ROW,
    WAITING,
    Blocks,
    Vectors,
    count_blocks,
    free_vectors,
    read_blocks,
    write_blocks,
)
from monitor.stream.table_loops import COUNT, FREE_HEAD, META, UNANSWERED, USED, slots_for, transfer

_View = TypeVar("_View")

_GROWTH: Final = 1.25
"""Untouched memory costs nothing, so this bounds what must fit beside the old column while it is copied."""

_TYPES: Final = {
    Kind.PREDICTION: event_results.PREDICTION,
    Kind.OUTCOME: event_results.OUTCOME,
    Kind.LABELLED: event_results.LABELLED,
}
_RESULTS: Final = {
    join_loops.ACCEPTED: event_results.ACCEPTED,
    join_loops.DUPLICATE: event_results.DUPLICATE,
    join_loops.LATE: event_results.LATE,
    join_loops.REFUSED: event_results.REFUSED,
    join_loops.JOINED: event_results.JOINED,
    join_loops.CORRECTION: event_results.CORRECTED,
    join_loops.SUPERSEDED: event_results.SUPERSEDED,
    join_loops.EARLY: event_results.EARLY,
    join_loops.AFTER_HORIZON: event_results.AFTER_HORIZON,
    join_loops.BEFORE_PREDICTION: event_results.BEFORE_PREDICTION,
    join_loops.ORPHAN: event_results.ORPHAN,
}
_NEVER: Final = -1
_NO_PROBABILITIES: Final = np.empty(0)
_EVICTION_ROWS: Final = 1 << 18
_MIN_COUNTS: Final = 1 << 12


class _GrowingTable(Generic[_View]):
    """Columns with an optional hash index, passed to the compiled loops as a named tuple.

    Parameters
    ----------
    view
        The named tuple: ``slots`` first if there is an index, then the columns, ``meta`` last.
    columns
        Name -> dtype, and shape of one row.
    indexed
        Whether the table has a hash index.
    """

    def __init__(
        self, view: Callable[..., _View], columns: dict[str, tuple[DTypeLike, tuple[int, ...]]], *, indexed: bool = True
    ) -> None:
        self._make = view
        self._indexed = indexed
        self._slots = np.zeros(slots_for(0) if indexed else 0, np.uint64)
        self._columns = {name: np.empty((0, *shape), dtype) for name, (dtype, shape) in columns.items()}
        self._capacity = 0
        self._meta = np.zeros(META, np.int64)
        self._meta[FREE_HEAD] = -1
        self._view: _View | None = None

    @property
    def rows(self) -> int:
        """Rows in use."""
        return int(self._meta[COUNT])

    @property
    def meta(self) -> NDArray[np.int64]:
        """Counts that the loops update; see the places in ``table_loops``."""
        return self._meta

    @property
    def nbytes(self) -> int:
        """Bytes of the rows that have been in use, and of the index."""
        width = sum(column.itemsize * int(np.prod(column.shape[1:])) for column in self._columns.values())
        return int(self._meta[USED]) * width + self._slots.nbytes

    def reserve(self, rows: int) -> _View:
        """Make room for that many more rows; returns the named tuple for the loops."""
        wanted = self.rows + rows
        size = slots_for(wanted, self._slots.size) if self._indexed else 0
        if size > self._slots.size:
            self._view = None
            larger = np.zeros(size, np.uint64)
            transfer(self._slots, larger)
            self._slots = larger
        # Released rows are used first.
        wanted = max(wanted, int(self._meta[USED]))
        if wanted > self._capacity:
            self._view = None
            self._capacity = max(wanted, int(self._capacity * _GROWTH))
            used = int(self._meta[USED])
            for name, column in self._columns.items():
                longer = np.empty((self._capacity, *column.shape[1:]), column.dtype)
                longer[:used] = column[:used]
                self._columns[name] = longer  # one at a time, so that only one column is in memory twice
        if self._view is None:
            index = (self._slots,) if self._indexed else ()
            self._view = self._make(*index, *self._columns.values(), self._meta)
        return self._view


@dataclass(frozen=True, slots=True)
class Joined:
    """What a batch changed.

    Attributes
    ----------
    rows
        JOURNAL_ROW, shape (k,): rows for the journal, in order.
    model
        int32, shape (k,): model id of each row.
    bucket_time_ms
        int64, shape (k,): the time that puts each row into a bucket of the journal.
    event
        int32, shape (k,): place in the batch of the event of each row with the entry PREDICTED; undefined for others.
    """

    rows: NDArray[np.void]
    model: NDArray[np.int32]
    bucket_time_ms: NDArray[np.int64]
    event: NDArray[np.int32]


class Join:
    """Joins the events of one partition. Not safe for use from several threads.

    Parameters
    ----------
    strata
        The names that the events' columns refer to. It grows as models appear.
    met_from_ms
        A model that appears -> the time before which its predictions are closed already, in the other partitions; -1
        if none are.
    """

    def __init__(self, strata: Strata, met_from_ms: Callable[[str], int] = lambda _: _NEVER) -> None:
        self._strata = strata
        self._met_from_ms = met_from_ms
        self._predictions: _GrowingTable[Predictions] = _GrowingTable(
            Predictions,
            {
                "id_high": (np.uint64, ()),
                "id_low": (np.uint64, ()),
                "time_ms": (np.int64, ()),
                "prediction": (np.float64, ()),
                "outcome_ms": (np.int64, ()),
                "stratum": (np.int32, ()),
                "vector": (np.int32, ()),
                "outcome": (np.int16, ()),
            },
        )
        self._vectors: _GrowingTable[Vectors] = _GrowingTable(
            Vectors,
            {"values": (np.float64, (BLOCK,)), "next": (np.int32, ()), "classes": (np.int16, ())},
            indexed=False,
        )
        self._early: _GrowingTable[EarlyOutcomes] = _GrowingTable(
            EarlyOutcomes,
            {
                "id_high": (np.uint64, ()),
                "id_low": (np.uint64, ()),
                "time_ms": (np.int64, ()),
                "arrival": (np.int64, ()),
                "model": (np.int32, ()),
                "outcome": (np.int16, ()),
                "next": (np.int32, ()),
                "last": (np.int32, ()),
            },
        )
        empty = np.zeros(0, np.int64)
        self._models = Models(*(empty for _ in Models._fields))
        self._counts = np.zeros((len(_TYPES), join_loops.RESULTS), np.int64)
        self._count_slots = _MIN_COUNTS
        """Slots that the last count took: the next one takes as many."""

    @property
    def predictions(self) -> int:
        """Predictions in the table, with or without an outcome."""
        return self._predictions.rows

    @property
    def rows(self) -> int:
        """Rows of about 70 bytes that they take: one each, and one more for every four classes."""
        return self._predictions.rows + self._vectors.rows

    @property
    def unanswered(self) -> int:
        """Predictions without an outcome."""
        return int(self._predictions.meta[UNANSWERED])

    @property
    def early_outcomes(self) -> int:
        """Outcomes that wait for their prediction."""
        return self._early.rows

    @property
    def nbytes(self) -> int:
        """Bytes of the tables."""
        return self._predictions.nbytes + self._vectors.nbytes + self._early.nbytes

    def counters(self) -> dict[tuple[str, str], int]:
        """(type, result) -> number of events."""
        return {
            (type_, result): int(self._counts[kind, column])
            for kind, type_ in _TYPES.items()
            for column, result in _RESULTS.items()
            if result in event_results.RESULTS[type_]
        }

    @property
    def models(self) -> Models:
        """Policy and watermarks of each model that has appeared. Do not change them."""
        policies = self._strata.policies
        new = policies[self._models.horizon_ms.size :]
        if new:
            never = np.full((2, len(new)), _NEVER, np.int64)
            names = self._strata.models[self._models.horizon_ms.size :]
            closed_to_ms = np.array([self._met_from_ms(name) for name in names], np.int64)
            horizon_ms = np.array([policy.horizon_ms for policy in new], np.int64)
            lateness_ms = np.array([policy.lateness_ms for policy in new], np.int64)
            added = horizon_ms, lateness_ms, *never, closed_to_ms, np.zeros(len(new), np.int64)
            self._models = Models(*(np.concatenate(pair) for pair in zip(self._models, added, strict=True)))
        return self._models

    def model_states(self) -> list[ModelState]:
        """Names and watermarks, by model id."""
        columns = [getattr(self.models, name).tolist() for name in ModelState._fields[1:]]
        return [ModelState(*state) for state in zip(self._strata.models, *columns, strict=True)]

    def apply(self, events: EventColumns) -> Joined:
        """Join a batch of decoded events, in log order."""
        outcomes = int(np.count_nonzero(events.kind == Kind.OUTCOME))
        size = len(events)
        accepted = _empty_rows(size + 2 * (self._early.rows + outcomes) + 1)
        classes, probabilities = events.vectors or (np.zeros(size, np.int32), _NO_PROBABILITIES)
        times = events.kind, events.id_hash, events.time_ms
        labels = events.prediction, events.outcome.astype(np.int16, copy=False)
        written = join_loops.apply_events(
            Events(*times, *labels, events.model, events.stratum, classes, probabilities),
            self._predictions.reserve(size - outcomes),
            self._vectors.reserve(int((-(-classes // BLOCK)).sum())),
            self._early.reserve(outcomes),
            self.models,
            self._counts,
            accepted,
        )
        accepted = _first(accepted, written)
        if not self._vectors.rows:
            # Copies: there was space for several times as many rows.
            accepted = Accepted._make(column.copy() for column in accepted)
            return Joined(accepted.rows, accepted.model, accepted.bucket_time_ms, accepted.event)
        rows, origin = _journal_loops(accepted, self._vectors.reserve(0))
        return Joined(rows, accepted.model[origin], accepted.bucket_time_ms[origin], accepted.event[origin])

    @property
    def closed_to_ms(self) -> NDArray[np.int64]:
        """The time before which predictions are closed, of each model, shape (models,). Do not change it."""
        return self.models.closed_to_ms

    def close(self, before_ms: NDArray[np.int64]) -> list[NDArray[np.void]]:
        """Remove predictions before ``before_ms[model]``, and outcomes that waited for one; these become orphans.

        What comes for that time later is late, or an orphan.

        Parameters
        ----------
        before_ms
            int64, shape (models,).

        Returns
        -------
        Parts of JOURNAL_ROW, shape (k,)
            The removed predictions with their outcomes, those over several classes with their probabilities.
        """
        models = self.models
        np.maximum(models.closed_to_ms, before_ms, out=models.closed_to_ms)
        of_stratum = self._strata.models_of_strata()
        parts: list[NDArray[np.void]] = []
        while True:
            space = _empty_rows(min(_EVICTION_ROWS, self._predictions.rows))
            vectors = self._vectors.reserve(0)
            count = join_loops.evict_predictions(self._predictions.reserve(0), vectors, of_stratum, before_ms, space)
            evicted = _first(space, count)
            if count:
                parts.append(_journal_loops(evicted, vectors)[0] if self._vectors.rows else evicted.rows)
            free_vectors(evicted.vector, vectors)
            if count < space.rows.size or count == 0:
                break
        orphans = join_loops.evict_early_outcomes(self._early.reserve(0), models.lateness_ms, before_ms)
        self._counts[Kind.OUTCOME, join_loops.EARLY] -= orphans
        self._counts[Kind.OUTCOME, join_loops.ORPHAN] += orphans
        return parts

    def copy(self) -> Iterator[NDArray[np.void]]:
        """Yield the predictions that are in the join, in parts, as :meth:`close` returns those that leave it."""
        vectors = self._vectors.reserve(0)
        predictions = self._predictions.reserve(0)
        row = 0
        while row < self._predictions.meta[USED]:
            space = _empty_rows(min(_EVICTION_ROWS, self._predictions.rows))
            count, row = join_loops.copy_predictions(predictions, vectors, row, space)
            copied = _first(space, count)
            yield _journal_loops(copied, vectors)[0] if self._vectors.rows else copied.rows

    def count(self, pane_ms: int) -> Cells:
        """Count the predictions that are in the join by version and pane, all of them in the first cell."""
        start, series = self._strata.fan_out()
        # The first series of a stratum is that of its whole model.
        whole = series[start[:-1]].astype(np.int64)
        predictions = self._predictions.reserve(0)
        while True:
            size = self._count_slots
            columns = np.zeros(size, np.int64), np.zeros(size, np.int64), np.zeros((size, 2), np.int64)
            if join_loops.count_predictions(predictions, whole, pane_ms, *columns):
                break
            self._count_slots *= 2
        counted, pane, counts = columns
        used = np.flatnonzero(counts[:, 0] + counts[:, 1])
        used = used[np.lexsort((pane[used], counted[used]))]
        values = np.zeros((used.size, COLUMNS), np.int64)
        values[:, POSITIVES], values[:, UNLABELLED] = counts[used, 0], counts[used, 1]
        return Cells(counted[used], pane[used] * pane_ms, np.zeros(used.size, np.int64), values)

    def restore_counts(self, counters: Counters) -> None:
        """Restore the counts, after the journal."""
        for kind, type_ in _TYPES.items():
            for column, result in _RESULTS.items():
                self._counts[kind, column] = counters.get((type_, result), 0)

    def restore_models(self, states: Sequence[ModelState]) -> None:
        """Restore watermarks, before the journal."""
        current = self.models
        for at, state in enumerate(states):
            for name, value in zip(ModelState._fields[1:], state[1:], strict=True):
                getattr(current, name)[at] = value

    def restore_rows(self, rows: NDArray[np.void]) -> NDArray[np.void]:
        """Restore rows of the journal, in order within each bucket.

        Returns
        -------
        JOURNAL_ROW, shape (k,)
            Outcomes whose prediction is not there yet, with their VECTOR rows: restore these again at the end. Buckets
            of one model overlap if their width was changed; then a prediction can follow its outcomes.
        """
        predicted = int(np.count_nonzero(rows["entry"] == PREDICTED))
        blocks = read_blocks(rows)
        vectors = self._vectors.reserve(blocks.label.size)
        unmatched = np.empty(rows.size, np.bool_)
        join_loops.restore_rows(rows, blocks, self._predictions.reserve(predicted), vectors, unmatched)
        return rows[unmatched]

    def restore_early_outcomes(self, rows: NDArray[np.void], model: NDArray[np.int32]) -> None:
        """Restore the outcomes that still wait, from all WAITING and CLAIMED rows of the journal."""
        arrival = rows["prediction"]
        claimed = arrival[rows["entry"] == CLAIMED]
        waits = (rows["entry"] == WAITING) & ~np.isin(arrival, claimed)
        order = np.argsort(arrival[waits], kind="stable")
        kept = rows[waits][order]
        join_loops.restore_early_outcomes(kept, model[waits][order], self._early.reserve(kept.size))


def _empty_rows(rows: int) -> Accepted:
    types = JOURNAL_ROW, np.int32, np.int64, np.int32, np.int32, np.int16
    return Accepted._make(np.empty(rows, dtype) for dtype in types)


def _first(accepted: Accepted, rows: int) -> Accepted:
    return Accepted._make(column[:rows] for column in accepted)


def _journal_loops(accepted: Accepted, vectors: Vectors) -> tuple[NDArray[np.void], NDArray[np.int64]]:
    """Insert the VECTOR rows of predictions over several classes behind their rows.

    Returns
    -------
    rows
        JOURNAL_ROW, shape (k,), some of which are VECTOR_ROW.
    origin
        int64, shape (k,): the accepted row that each is, or belongs to.
    """
    blocks_behind = count_blocks(accepted.vector, vectors)
    origin = np.repeat(np.arange(blocks_behind.size), 1 + blocks_behind)
    is_block = np.ones(origin.size, np.bool_)
    is_block[np.cumsum(1 + blocks_behind) - 1 - blocks_behind] = False
    count = int(blocks_behind.sum())
    blocks = Blocks(np.empty((count, BLOCK)), np.empty(count, np.int16), np.empty(count, np.int16))
    write_blocks(accepted.vector, accepted.label, vectors, blocks)
    written = np.zeros(count, VECTOR_ROW)
    for name in Blocks._fields:
        written[name] = getattr(blocks, name)
    written["stratum"] = NO_OUTCOME
    written["outcome"] = NO_OUTCOME
    written["entry"] = VECTOR
    rows = np.empty(origin.size, JOURNAL_ROW)
    rows[~is_block] = accepted.rows
    rows[is_block] = written.view(JOURNAL_ROW)
    return rows, origin
