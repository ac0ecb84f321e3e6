"""The join of a partition: its tables, the watermarks of its models, and the count of every event's fate."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from monitor.events.model import EventColumns, Kind
from monitor.events.strata import Strata
from monitor.store import base
from monitor.store.base import JOURNAL_ROW, Counters, ModelState
from monitor.stream import fates
from monitor.stream import join_table_loops as kernel
from monitor.stream.columns import GrowingTable
from monitor.stream.join_loops import apply_events
from monitor.stream.join_table_loops import Accepted, Events, Known, Models, Waiting
from monitor.stream.join_upkeep_loops import evict_known, evict_waiting, restore_rows, restore_waiting
from monitor.stream.vector_loops import BLOCK, Vectors, free_vectors
from monitor.stream.vectors import blocks_in, journal_rows

_TYPES: Final = {Kind.PREDICTION: fates.PREDICTION, Kind.OUTCOME: fates.OUTCOME, Kind.LABELLED: fates.LABELLED}
_RESULTS: Final = {
    kernel.ACCEPTED: fates.ACCEPTED,
    kernel.DUPLICATE: fates.DUPLICATE,
    kernel.LATE: fates.LATE,
    kernel.REFUSED: fates.REFUSED,
    kernel.JOINED: fates.JOINED,
    kernel.CORRECTION: fates.CORRECTED,
    kernel.SUPERSEDED: fates.SUPERSEDED,
    kernel.EARLY: fates.EARLY,
    kernel.AFTER_HORIZON: fates.AFTER_HORIZON,
    kernel.BEFORE_PREDICTION: fates.BEFORE_PREDICTION,
    kernel.ORPHAN: fates.ORPHAN,
}
_NEVER: Final = -1
_NO_PROBABILITIES: Final = np.empty(0)
_EVICTED_AT_ONCE: Final = 1 << 18


@dataclass(frozen=True, slots=True)
class Joined:
    """What a batch changed.

    Attributes
    ----------
    rows
        JOURNAL_ROW, shape (k,): what is to be written to the journal and added to the panes, in order.
    model
        int32, shape (k,): model id of each row.
    filed_ms
        int64, shape (k,): the time by which each row is filed into a bucket of the journal.
    event
        int32, shape (k,): which event of the batch each row with the entry PREDICTED comes from; of no meaning for
        others.
    """

    rows: NDArray[np.void]
    model: NDArray[np.int32]
    filed_ms: NDArray[np.int64]
    event: NDArray[np.int32]


class Join:
    """Joins the events of one partition. Not safe for use from several threads.

    Parameters
    ----------
    strata
        The names that the events' columns refer to. New models are taken up as they appear there.
    """

    def __init__(self, strata: Strata) -> None:
        self._strata = strata
        self._known: GrowingTable[Known] = GrowingTable(
            Known,
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
        self._vectors: GrowingTable[Vectors] = GrowingTable(
            Vectors,
            {"values": (np.float64, (BLOCK,)), "next": (np.int32, ()), "classes": (np.int16, ())},
            indexed=False,
        )
        self._waiting: GrowingTable[Waiting] = GrowingTable(
            Waiting,
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
        self._models = Models(empty, empty, empty, empty, empty)
        self._counts = np.zeros((len(_TYPES), kernel.FATES), np.int64)

    @property
    def predictions(self) -> int:
        """Predictions that are kept, answered or not."""
        return self._known.rows

    @property
    def room(self) -> int:
        """What they take in the table, in rows of about 70 bytes: one each, and one more for every four classes."""
        return self._known.rows + self._vectors.rows

    @property
    def unanswered(self) -> int:
        """Those of them without an outcome."""
        return int(self._known.meta[kernel.UNANSWERED])

    @property
    def early_outcomes(self) -> int:
        """Outcomes that wait for their prediction."""
        return self._waiting.rows

    @property
    def nbytes(self) -> int:
        """Bytes of the tables."""
        return self._known.nbytes + self._vectors.nbytes + self._waiting.nbytes

    def counters(self) -> dict[tuple[str, str], int]:
        """(type, result) -> number of events that met this fate."""
        return {
            (type_, result): int(self._counts[kind, fate])
            for kind, type_ in _TYPES.items()
            for fate, result in _RESULTS.items()
            if result in fates.RESULTS[type_]
        }

    def model_states(self) -> list[ModelState]:
        """Names and watermarks, by model id."""
        models = self._current_models()
        return [
            ModelState(
                name,
                int(models.prediction_watermark_ms[at]),
                int(models.outcome_watermark_ms[at]),
                int(models.evicted_before_ms[at]),
            )
            for at, name in enumerate(self._strata.models)
        ]

    def watermarks_ms(self) -> NDArray[np.int64]:
        """Newest event time of each model, shape (models,); -1 where none was read."""
        models = self._current_models()
        return np.maximum(models.prediction_watermark_ms, models.outcome_watermark_ms)

    def apply(self, events: EventColumns) -> Joined:
        """Join a batch of decoded events, in log order."""
        outcomes = int(np.count_nonzero(events.kind == Kind.OUTCOME))
        size = len(events)
        accepted = _room_for(size + 2 * (self._waiting.rows + outcomes) + 1)
        classes, probabilities = events.vectors or (np.zeros(size, np.int32), _NO_PROBABILITIES)
        written = apply_events(
            Events(
                events.kind,
                events.id_hash,
                events.time_ms,
                events.prediction,
                events.outcome.astype(np.int16, copy=False),
                events.model,
                events.stratum,
                classes,
                probabilities,
            ),
            self._known.reserve(size - outcomes),
            self._vectors.reserve(int((-(-classes // BLOCK)).sum())),
            self._waiting.reserve(outcomes),
            self._current_models(),
            self._counts,
            accepted,
        )
        accepted = _part(accepted, written)
        if not self._vectors.rows:
            return Joined(accepted.rows, accepted.model, accepted.filed_ms, accepted.event)
        rows, origin = journal_rows(accepted, self._vectors.reserve(0))
        return Joined(rows, accepted.model[origin], accepted.filed_ms[origin], accepted.event[origin])

    def predictions_ms(self) -> NDArray[np.int64]:
        """Time of the newest prediction of each model, shape (models,); -1 where none was read. Not to be changed."""
        return self._current_models().prediction_watermark_ms

    def due_before_ms(self, heard_ms: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
        """For each model, the time before which nothing can change any more, shape (models,).

        A prediction of time t can change until both of its logs, predictions and outcomes, have passed t by horizon
        and lateness: what comes later for it is late in its own log. A log of outcomes that has fallen silent holds
        this up, but by no more than once that span.

        Parameters
        ----------
        heard_ms
            int64, at most as long as there are models: time of the newest prediction up to which all outcomes that
            were written have been read. By default all have, as in a log that holds both.
        """
        models = self._current_models()
        retention = models.horizon_ms + models.lateness_ms
        newest = models.prediction_watermark_ms
        heard = newest
        if heard_ms is not None:
            heard = np.full(newest.size, _NEVER, np.int64)
            heard[: heard_ms.size] = heard_ms
        clock = np.minimum(newest, np.maximum(models.outcome_watermark_ms, heard - retention))
        return np.asarray(clock - retention)

    def evict(self, before_ms: NDArray[np.int64], *, early: bool = False) -> NDArray[np.void]:
        """Take out what is filed before ``before_ms[model]``.

        Parameters
        ----------
        before_ms
            int64, shape (models,).
        early
            Whether it leaves before its time: then a prediction that old which still comes is late.

        Returns
        -------
        JOURNAL_ROW, shape (k,)
            The predictions that left, each with what is known of its outcome, those over several classes with their
            probabilities. Outcomes that waited are orphans now.
        """
        models = self._current_models()
        if early:
            np.maximum(models.evicted_before_ms, before_ms, out=models.evicted_before_ms)
        of_stratum = self._strata.models_of_strata()
        parts: list[NDArray[np.void]] = []
        while True:
            room = _room_for(min(_EVICTED_AT_ONCE, self._known.rows))
            vectors = self._vectors.reserve(0)
            count = evict_known(self._known.reserve(0), vectors, of_stratum, before_ms, room)
            taken = _part(room, count)
            parts.append(journal_rows(taken, vectors)[0] if self._vectors.rows else taken.rows)
            free_vectors(taken.vector, vectors)
            if count < room.rows.size or count == 0:
                break
        orphans = evict_waiting(self._waiting.reserve(0), models.lateness_ms, before_ms)
        self._counts[Kind.OUTCOME, kernel.EARLY] -= orphans
        self._counts[Kind.OUTCOME, kernel.ORPHAN] += orphans
        return np.concatenate(parts)

    def restore(self, models: Sequence[ModelState], counters: Counters) -> None:
        """Take up watermarks and counts, before the journal."""
        current = self._current_models()
        for at, state in enumerate(models):
            current.prediction_watermark_ms[at] = state.prediction_watermark_ms
            current.outcome_watermark_ms[at] = state.outcome_watermark_ms
            current.evicted_before_ms[at] = state.evicted_before_ms
        for kind, type_ in _TYPES.items():
            for fate, result in _RESULTS.items():
                self._counts[kind, fate] = counters.get((type_, result), 0)

    def restore_rows(self, rows: NDArray[np.void]) -> NDArray[np.void]:
        """Take up rows of the journal, each bucket's in their order.

        Returns
        -------
        JOURNAL_ROW, shape (k,)
            Rows that answer predictions which are not there yet, with their VECTOR rows. The buckets of one model
            overlap where the width of its buckets was changed; then a prediction can come after its answers, which are
            to be given in again.
        """
        predicted = int(np.count_nonzero(rows["entry"] == base.PREDICTED))
        blocks = blocks_in(rows)
        astray = np.empty(rows.size, np.bool_)
        restore_rows(rows, blocks, self._known.reserve(predicted), self._vectors.reserve(blocks.label.size), astray)
        return rows[astray]

    def restore_waiting(self, rows: NDArray[np.void], model: NDArray[np.int32]) -> None:
        """Take up the outcomes that still wait, from all rows of the journal that tell of waiting ones."""
        arrival = rows["prediction"]
        claimed = arrival[rows["entry"] == base.CLAIMED]
        waits = (rows["entry"] == base.WAITING) & ~np.isin(arrival, claimed)
        order = np.argsort(arrival[waits], kind="stable")
        kept = rows[waits][order]
        restore_waiting(kept, model[waits][order], self._waiting.reserve(kept.size))

    def _current_models(self) -> Models:
        known = self._models.horizon_ms.size
        policies = self._strata.policies
        if known < len(policies):
            new = policies[known:]
            never = np.full(len(new), _NEVER, np.int64)
            added = Models(
                np.array([policy.horizon_ms for policy in new], np.int64),
                np.array([policy.lateness_ms for policy in new], np.int64),
                never,
                never,
                never,
            )
            self._models = Models(*(np.concatenate(pair) for pair in zip(self._models, added, strict=True)))
        return self._models


def _room_for(rows: int) -> Accepted:
    return Accepted(
        np.empty(rows, JOURNAL_ROW),
        np.empty(rows, np.int32),
        np.empty(rows, np.int64),
        np.empty(rows, np.int32),
        np.empty(rows, np.int32),
        np.empty(rows, np.int16),
        np.empty(rows, np.int16),
    )


def _part(accepted: Accepted, rows: int) -> Accepted:
    """The first so many of the rows."""
    return Accepted(
        accepted.rows[:rows],
        accepted.model[:rows],
        accepted.filed_ms[:rows],
        accepted.event[:rows],
        accepted.vector[:rows],
        accepted.label[:rows],
        accepted.before[:rows],
    )
