"""The settled edge of a model: up to where its predictions are final, and what holds it back.

Every rule of the edge is here: a partition closes up to :func:`partition_edges_ms`, takes a model that it meets from
:meth:`Elsewhere.met_from_ms` on, and :func:`settled_edge` is where the windows of a model end.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

import numpy as np

from monitor.arrays import Ints
from monitor.events.model import ModelPolicy
from monitor.events.times import format_time
from monitor.store.base import BACKFILL, ModelClock, PartitionClock

_NEVER: Final = -1
_SAVED_WITHIN_MS: Final = 60_000
"""A partition that is read saves a checkpoint more often than this."""
_TOLERANCE_MS: Final = 60_000
"""Ends of logs and checkpoints are some seconds old."""


class HoldReason(StrEnum):
    """Why a partition holds a model back."""

    NOT_READ = "not_read"
    """No replica saves checkpoints of the partition."""
    BEHIND = "behind"
    """The partition is read only up to an earlier time."""
    OUTCOMES_SILENT = "outcomes_silent"
    """Predictions came, and no outcomes."""
    IDLE = "idle"
    """The model is idle in the partition, and its logs have not been read to their ends since."""


class Hold(NamedTuple):
    """The partition that holds a model back."""

    partition: int
    reason: HoldReason
    since_ms: int
    """Event time, of ``not_read`` wall-clock time; -1 if there is none."""

    def __str__(self) -> str:
        return f"partition {self.partition}: {self.detail}"

    @property
    def detail(self) -> str:
        """The reason in words."""
        since = format_time(self.since_ms) if self.since_ms >= 0 else None
        if self.reason is HoldReason.NOT_READ:
            return f"not read since {since}: no replica holds it, or the log has it no longer"
        if self.reason is HoldReason.BEHIND:
            return f"read up to {since}, and records are left" if since else "nothing was read from it yet"
        if self.reason is HoldReason.OUTCOMES_SILENT:
            return f"outcome log silent since {since}" if since else "no outcome came yet"
        return f"no event of the model since {since}, and its logs have not been read to their ends"


class SettledEdge(NamedTuple):
    """Up to where a model is settled."""

    to_ms: int
    """Predictions before this time are settled in all partitions; -1 if none are."""
    held_back_by: Hold | None = None
    """None where it is as near to the newest event as horizon and lateness let it be."""


def running(
    models: Mapping[str, Mapping[int, ModelClock]], policy: Callable[[str], ModelPolicy | None], kept_ms: int
) -> dict[str, Mapping[int, ModelClock]]:
    """Leave out the models that have stopped, given how far each is by partition.

    A model has stopped when other models have been read for as long as panes are kept, and horizon and lateness, since
    something of it was read. So nothing stops while the service is down, or while a log of another time is read.

    Parameters
    ----------
    policy
        The policy of a model by name, or None for one that has to be declared and is not.
    kept_ms
        How long panes are kept behind the settled edge.
    """
    # A backfill that goes on moves the time up to which it is closed, and no other.
    read_ms = {
        model: max(max(clock.saved_ms, clock.closed_to_ms * (at == BACKFILL)) for at, clock in clocks.items())
        for model, clocks in models.items()
    }
    newest_ms = max(read_ms.values(), default=_NEVER)
    waits_ms = {model: 0 if (found := policy(model)) is None else found.retention_ms for model in models}
    return {
        model: clocks for model, clocks in models.items() if newest_ms - read_ms[model] <= kept_ms + waits_ms[model]
    }


def settled_edge(
    clocks: Mapping[int, ModelClock],
    partitions: Mapping[int, PartitionClock],
    policy: ModelPolicy,
    pane_ms: int,
    now_ms: int,
) -> SettledEdge:
    """The settled edge of a model.

    It is the smallest time up to which a partition has closed the model. A partition that has not met the model holds
    it back by how far it is read, less the wait: its events may be among what is left to read. What was backfilled is
    settled, whatever the partitions have read: they take earlier predictions for late.

    Parameters
    ----------
    clocks
        Partition -> how far it is with the model, of those that have met it.
    partitions
        All partitions.
    policy
        Of the model.
    pane_ms
        Width of the narrowest panes.
    now_ms
        Wall-clock time, for the reason only.
    """
    wait_ms = policy.wait_ms(max((clock.awaits_outcomes for clock in clocks.values()), default=1))
    backfilled_ms = clocks[BACKFILL].closed_to_ms if BACKFILL in clocks else _NEVER
    closed = [(clock.closed_to_ms, number) for number, clock in clocks.items() if number != BACKFILL]
    unmet = partitions.keys() - clocks.keys()
    closed += [(_pane_start(partitions[number].read_to_ms - wait_ms, pane_ms), number) for number in unmet]
    if not closed:
        return SettledEdge(backfilled_ms)
    edge_ms, first = max(min(closed), (backfilled_ms, BACKFILL))
    newest_ms = max((clock.prediction_watermark_ms for clock in clocks.values()), default=_NEVER)
    # Where it is idle or was not met, a partition may be behind by the lateness.
    if edge_ms + pane_ms + policy.lateness_ms + _TOLERANCE_MS >= newest_ms - wait_ms:
        return SettledEdge(edge_ms)
    due_ms = newest_ms - policy.lateness_ms - _TOLERANCE_MS
    return SettledEdge(edge_ms, _hold(first, clocks.get(first), partitions.get(first), due_ms, now_ms))


def partition_edges_ms(
    own_ms: Ints, elsewhere_ms: Ints, answered_ms: Ints, *, lateness_ms: Ints, wait_ms: Ints, pane_ms: int
) -> Ints:
    """The settled edges of a partition: for each model, the start of the first pane that can still change.

    A prediction of time t can change until both logs, predictions and outcomes, have passed t by horizon and lateness:
    an event that comes later for it is late in its own log. A silent log of outcomes delays this by at most the same
    span once more. Where all events were labelled, the lateness alone has to pass.

    Parameters
    ----------
    own_ms
        Newest prediction and newest outcome of each model in this partition, int64, shape (2, models).
    elsewhere_ms
        The newest in any partition, likewise, of those that are silent in this one; -1 for the others.
    answered_ms
        Newest prediction up to which all written outcomes have been read, int64, shape (models,).
    lateness_ms, wait_ms
        Of each model: its lateness, and how long after a prediction it is settled.
    pane_ms
        Width of the narrowest panes.
    """
    # Where it is silent, the partition may be behind by the lateness.
    predictions_ms, outcomes_ms = np.maximum(own_ms, elsewhere_ms - lateness_ms)
    read_ms = np.maximum(answered_ms, elsewhere_ms[0] - lateness_ms)
    settled_ms = np.minimum(predictions_ms, np.maximum(outcomes_ms, read_ms - wait_ms)) - wait_ms
    return np.asarray(settled_ms - settled_ms % pane_ms)


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """How far all partitions are, as the store has it.

    Attributes
    ----------
    clocks
        Model -> how far it is over all partitions.
    read_to_ms
        How far the partition is read that is furthest behind.
    backfilled_ms
        Model -> time up to which its past predictions are in the store: earlier ones are late.
    evidence_ms
        Model -> time up to which its evidence has read panes. None: nothing reads them but windows.
    """

    clocks: Mapping[str, ModelClock] = field(default_factory=dict)
    read_to_ms: int = _NEVER
    backfilled_ms: Mapping[str, int] = field(default_factory=dict)
    evidence_ms: Mapping[str, int] | None = None

    def met_from_ms(self, model: str, policy: ModelPolicy, read_to_ms: int, pane_ms: int) -> int:
        """The time before which the predictions of a model are late in a partition that meets it; -1 if none are.

        They are settled elsewhere, as far as the partition was read (``read_to_ms``) at its last checkpoint.
        """
        clock = self.clocks.get(model)
        settled_ms = _NEVER if clock is None else _edge_with_unmet_ms(clock, read_to_ms, policy)
        return _pane_start(max(settled_ms, self.backfilled_ms.get(model, _NEVER)), pane_ms)

    def edges_ms(self, policy: Callable[[str], ModelPolicy | None]) -> dict[str, int]:
        """Model -> a lower bound of its settled edge: the partition that is furthest behind may not have met it."""
        return {
            model: _edge_with_unmet_ms(clock, self.read_to_ms, of_model)
            for model, clock in self.clocks.items()
            if (of_model := policy(model)) is not None
        }


def _edge_with_unmet_ms(clock: ModelClock, read_to_ms: int, policy: ModelPolicy) -> int:
    """The edge of a model over the partitions that have met it and one that has not and is read up to a time."""
    return min(clock.closed_to_ms, read_to_ms - policy.wait_ms(clock.awaits_outcomes))


def _pane_start(at_ms: int, pane_ms: int) -> int:
    return max(at_ms - at_ms % pane_ms, _NEVER)


def _hold(
    number: int,
    clock: ModelClock | None,
    partition: PartitionClock | None,
    due_ms: int,
    now_ms: int,
) -> Hold:
    """Find why; ``due_ms`` is the event time that a partition has passed if nothing is wrong."""
    if partition is not None and now_ms - partition.saved_ms > _SAVED_WITHIN_MS:
        return Hold(number, HoldReason.NOT_READ, partition.saved_ms)
    read_to_ms = _NEVER if partition is None else partition.read_to_ms
    if clock is None or read_to_ms < due_ms:
        return Hold(number, HoldReason.BEHIND, read_to_ms)
    if clock.awaits_outcomes and clock.outcome_watermark_ms < min(due_ms, clock.prediction_watermark_ms):
        return Hold(number, HoldReason.OUTCOMES_SILENT, clock.outcome_watermark_ms)
    return Hold(number, HoldReason.IDLE, clock.prediction_watermark_ms)
