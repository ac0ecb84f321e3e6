"""A partition, the unit of state: its names, join, offsets and unsaved changes."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from monitor.errors import DamagedStore
from monitor.events import event_results
from monitor.events.codec import Decoder
from monitor.events.model import DeadLetter, Kind, ModelPolicy, RecordBatch
from monitor.events.strata import Caps, Strata
from monitor.store.base import Bucket, CapUses, Checkpoint, JournalBatch, ModelState, PartitionState
from monitor.store.closing import Closing, OldPanes, Panes
from monitor.store.settled import Elsewhere
from monitor.stream.closing import close
from monitor.stream.join import Join, Joined
from monitor.stream.journal import JournalBuckets, bucket_width_ms, gather, pieces, sort_into_buckets
from monitor.stream.journal_loops import CLAIMED, JOURNAL_ROW, NO_OUTCOME, PREDICTED, VECTOR, WAITING
from monitor.stream.lifetimes import CapCounts, Lifetimes, OldPanesFinder
from monitor.stream.log_progress import LogEnds
from monitor.stream.sampling import Sampler, SampleSettings

_NEVER: Final = -1
_DEPARTED: Final = "departed"
_REASON: Final = "reason"
_CANDIDATE: Final = "candidate"
_TOMBSTONES: Final = (event_results.UNKNOWN, event_results.TOMBSTONE)
_MAX_REFUSED_MODELS: Final = 100
"""Number of refused models that are reported with an event."""
_EVICT_TO_SHARE: Final = 0.9
"""A full join is emptied down to this share, so that this is not done at every checkpoint."""
_ALL_MS: Final = 1 << 62
"""Later than every time."""


@dataclass(frozen=True, slots=True)
class PartitionSettings:
    """Settings of all partitions.

    Attributes
    ----------
    policy
        Name of a model -> its policy, or None if it has to be declared and is not.
    caps
        How many names may appear without a declaration.
    kept_ms
        Width of panes -> how long they are kept behind the settled edge. Closings are of the narrowest, and are widened
        when those are no longer needed.
    unsettled_cells
        Whether windows need to know the predictions that are not settled, and not only their number.
    max_predictions
        How many predictions the join of one partition may keep; one over K classes counts as 1 + K / 4, and an outcome
        that waits for its prediction as 1. Beyond it the oldest are evicted.
    samples
        How many labelled events are kept for refits. None by default.
    outcomes_apart
        As of :class:`~monitor.stream.log_progress.LogEnds`.
    """

    policy: Callable[[str], ModelPolicy | None]
    kept_ms: Mapping[int, int]
    unsettled_cells: bool = False
    caps: Caps = field(default_factory=Caps)
    max_predictions: int = 20_000_000
    samples: SampleSettings = field(default_factory=SampleSettings)
    outcomes_apart: bool = False

    @property
    def pane_ms(self) -> int:
        """Width of the panes in new closings."""
        return min(self.kept_ms)


class Applied(NamedTuple):
    """Counts of a batch beside the events that were joined."""

    dead: int
    """Messages that are no valid events, or hold one that is not."""
    refused: int
    """Events of refused models."""
    first_refused: DeadLetter | None
    """The first of these."""


class Partition:
    """The state of one partition. Used from the pipeline's thread.

    Parameters
    ----------
    number, epoch
        Number of the partition, and the epoch under which it was claimed.
    settings
        Settings of all partitions.
    state
        The saved state.
    """

    def __init__(
        self, number: int, epoch: int, settings: PartitionSettings, state: PartitionState | None = None
    ) -> None:
        self.number = number
        self.epoch = epoch
        self.offsets: dict[str, int] = {}
        self._settings = settings
        self._strata = Strata(settings.policy, settings.caps)
        self.join = Join(self._strata, self._met_from_ms)
        self._log_ends = LogEnds(outcomes_apart=settings.outcomes_apart)
        self._elsewhere = Elsewhere()
        self._read_to_ms = -1
        self.sampler = Sampler(self._strata, settings.samples)
        self._lifetimes = Lifetimes(self._strata, max(settings.kept_ms.values()))
        self._cap_counts = CapCounts(self._strata, max(settings.kept_ms.values()))
        self.caps: CapUses = {}
        """As of the last checkpoint."""
        self._buckets = JournalBuckets()
        self._unsaved: list[Joined] = []
        self._dead_letters: list[DeadLetter] = []
        self.dead_letter_reasons: Counter[str] = Counter()
        self._refused_models: set[str] = set()
        """Details of those of which an event is kept."""
        self._tombstones = 0
        self.departed: Counter[str] = Counter()
        """Result -> predictions that have left the join."""
        self._old_panes = OldPanesFinder(settings.kept_ms, {} if state is None else state.oldest_ms)
        self._saved_models: Sequence[ModelState] = ()
        self.saved_offsets: dict[str, int] = {}
        if state is not None:
            self._restore(state)

    @property
    def strata(self) -> Strata:
        """The names that its events have had."""
        return self._strata

    @property
    def unsaved_rows(self) -> int:
        """Rows of the journal since the last checkpoint."""
        return sum(part.rows.size for part in self._unsaved)

    def note_elsewhere(self, elsewhere: Elsewhere) -> None:
        """Note how far all partitions are."""
        self._elsewhere = elsewhere

    def note_ends(self, now: float, *, outcomes: bool, everything: bool) -> None:
        """Note which logs are read to their ends: see :meth:`LogEnds.note`."""
        models, names, everywhere = self.join.models, self._strata.models, self._elsewhere.clocks
        self._log_ends.note(now, models, names, everywhere, outcomes=outcomes, everything=everything)

    def note_pause(self) -> None:
        """Note that this process was paused, so that what it knows of the logs' ends may be old."""
        self._log_ends.interrupt()

    def changed(self) -> bool:
        """Whether there is anything to save."""
        pane_ms = self._settings.pane_ms
        return (
            self.offsets != self.saved_offsets
            or bool((self._settled_ms() > self.join.closed_to_ms).any())
            or self._newest_ms() // pane_ms > self._read_to_ms // pane_ms
            or self._cap_counts.uses(self.join.closed_to_ms) != self.caps
        )

    def event_counters(self) -> dict[tuple[str, str], int]:
        """(type, result) -> events; each event read is counted once."""
        return {
            **self.join.counters(),
            (event_results.UNKNOWN, event_results.DEAD_LETTER): self.dead_letter_reasons.total(),
            _TOMBSTONES: self._tombstones,
        }

    def counters(self) -> dict[tuple[str, str], int]:
        """Every count that is saved with the partition."""
        counted = self.event_counters()
        for type_, counter in self._saved_counters().items():
            counted.update({(type_, result): count for result, count in counter.items()})
        return counted

    def _saved_counters(self) -> dict[str, Counter[str]]:
        return {_REASON: self.dead_letter_reasons, _DEPARTED: self.departed, _CANDIDATE: self.sampler.results}

    def apply(self, batch: RecordBatch, decoder: Decoder, default_kind: Kind | None) -> Applied:
        """Decode and join a batch of records.

        Events are counted; a message that is no valid event is stored once, with the first of its reasons. Of refused
        models, the first event of each is stored, for the first models: there may be any number, and it may be meant.
        """
        decoded = decoder.decode(batch, self._strata, default_kind)
        joined = self.join.apply(decoded.columns)
        if joined.rows.size:
            self.sampler.add(joined, decoded.features)
            self._lifetimes.note(joined.rows)
            if decoded.folds is not None:
                predicted = joined.rows["entry"] == PREDICTED
                folds = decoded.folds[joined.event[predicted]]
                self._cap_counts.note(folds, joined.rows["time_ms"][predicted])
            self._unsaved.append(joined)
        self.dead_letter_reasons.update(letter.reason.value for letter in decoded.dead_letters)
        of_message: dict[int, list[DeadLetter]] = {}
        for letter in decoded.dead_letters:
            of_message.setdefault(letter.offset, []).append(letter)
        for first, *others in of_message.values():
            more = f" (and {len(others)} more rows of this message)" if others else ""
            self._dead_letters.append(first._replace(detail=first.detail + more))
        for letter in decoded.refused_models:
            if letter.detail not in self._refused_models and len(self._refused_models) < _MAX_REFUSED_MODELS:
                self._refused_models.add(letter.detail)
                self._dead_letters.append(letter)
        self._tombstones += decoded.tombstones
        self.offsets[batch.topic] = batch.next_offset
        return Applied(len(of_message), decoded.refused, next(iter(decoded.refused_models), None))

    def checkpoint(
        self, *, stopped: Collection[str] | None = None, summarise: bool = True, outcomes_read: bool = False
    ) -> Checkpoint:
        """Make the next checkpoint: the changes since the last one. What is settled leaves the join for a closing.

        The store writes all of a checkpoint in one transaction, with the offsets. A crash before that loses nothing but
        memory: the next owner begins with the checkpoint before, and reads the same records again. What the steps
        change in memory counts as saved from then on, so each checkpoint has to be saved before the next one, and is
        saved again, as it is, where the store did not answer. Load the partition again before it reads on if the
        checkpoint ends names.

        Parameters
        ----------
        stopped
            Models that have stopped: they are removed with all that is held of them, and so are strata that nothing
            holds any more, if caps need their places. None: no names end.
        summarise
            Whether to sum what is not settled.
        outcomes_read
            As of :meth:`LogEnds.settled_ms`.
        """
        closed_ms = self.join.closed_to_ms.copy()
        # 1. The journal of what was accepted, before any of it leaves the join.
        journal = self._journal()
        # 2. Leave the join: what is settled, with the samples of buckets that are complete by that; what is beyond the
        # limit; and models that have stopped.
        left = self._close(outcomes_read=outcomes_read)
        closed_samples = self.sampler.complete(self.join.closed_to_ms)
        left += self._evict()
        ended_models = self._end_models(stopped or ())
        # 3. Publish what left as closings.
        closings = self._closings(left, closed_ms)
        # 4. Drop the buckets of which all has left; the store does not write what of their journal is new.
        dropped = self._drop_buckets(closed_ms)
        # 5. What the store has and nothing needs any more.
        old, expired_ms = self._expired(ended_models) if dropped or ended_models else ([], {})
        ended_strata = [] if stopped is None else self._ended_strata(ended_models)
        # 6. The checkpoint: with offsets, names and clocks as they are now.
        self._read_to_ms = self._newest_ms()
        models, caps = self.join.model_states(), self._cap_counts.uses(self.join.closed_to_ms)
        result = Checkpoint(
            partition=self.number,
            epoch=self.epoch,
            offsets=dict(self.offsets),
            models=models,
            strata=self._lifetimes.unsaved(),
            ended_strata=ended_strata,
            ended_models=ended_models,
            journal=journal,
            dropped=dropped,
            closings=closings,
            old=old,
            unsettled=self.unsettled(cells=self._settings.unsettled_cells) if summarise else None,
            candidates=self.sampler.unsaved(),
            closed_samples=closed_samples,
            expired_samples_before_ms=expired_ms,
            counters=self.counters(),
            caps=None if caps == self.caps else caps,
            dead_letters=self._dead_letters,
            read_to_ms=self._read_to_ms,
            changed_models=self._changed_models(models),
        )
        # 7. From here on it counts as saved.
        self._unsaved, self._dead_letters = [], []
        self._saved_models, self.caps, self.saved_offsets = models, caps, dict(self.offsets)
        return result

    def _journal(self) -> list[JournalBatch]:
        """Sort what was accepted into buckets of the journal."""
        names, widths_ms = self._strata.models, self._bucket_widths_ms()
        model_ids = {name: at for at, name in enumerate(names)}
        batches = []
        for bucket, rows, newest_ms in sort_into_buckets(self._unsaved, names, widths_ms):
            self._buckets.add(bucket, newest_ms, rows.size, int(widths_ms[model_ids[bucket.model]]))
            batches += [JournalBatch(bucket, piece) for piece in pieces(rows)]
        self.sampler.assign_pending()
        return batches

    def _closings(self, left: Iterable[NDArray[np.void]], closed_ms: NDArray[np.int64]) -> list[Closing]:
        """Sum what has left the join to one closing of each model; ``closed_ms`` is how far the last ones go."""
        pane_ms = self._settings.pane_ms
        span_ms = np.stack([closed_ms, self.join.closed_to_ms], axis=1).tolist()
        return [
            Closing(model, from_ms, to_ms, pane_ms, panes)
            for model, panes in close(left, self._strata, pane_ms).by_model()
            for from_ms, to_ms in [span_ms[self._strata.model(model)]]
        ]

    def _drop_buckets(self, closed_ms: NDArray[np.int64]) -> list[Bucket]:
        """Drop the buckets of which all is closed, of the models that have moved on from ``closed_ms``."""
        closed_to_ms = self.join.closed_to_ms
        return [
            bucket
            for model in np.flatnonzero(closed_to_ms > closed_ms).tolist()
            for bucket in self._buckets.drop(self._strata.models[model], int(closed_to_ms[model]))
        ]

    def _expired(self, ended_models: Collection[str]) -> tuple[list[OldPanes], dict[tuple[str, int], int]]:
        """Panes that nothing reads as narrow as they are, and from when on samples are kept, by model and width."""
        closed_ms = dict(zip(self._strata.models, self.join.closed_to_ms.tolist(), strict=True))
        edges_ms = self._elsewhere.edges_ms(self._settings.policy)
        old = self._old_panes.find(closed_ms, edges_ms, self._elsewhere.evidence_ms)
        for model in ended_models:
            old += [OldPanes(model, width_ms, _ALL_MS, None) for width_ms in self._settings.kept_ms]
        watermarks_ms = np.maximum(self.join.models.prediction_watermark_ms, self.join.models.outcome_watermark_ms)
        kept_ms = self.sampler.expired_before_ms(watermarks_ms)
        return old, {key: _ALL_MS if key[0] in ended_models else at_ms for key, at_ms in kept_ms.items()}

    def _changed_models(self, models: Sequence[ModelState]) -> list[int]:
        saved = self._saved_models
        return [at for at, state in enumerate(models) if at >= len(saved) or state != saved[at]]

    def _end_models(self, stopped: Collection[str]) -> list[str]:
        """Remove the predictions of models that have stopped from the join: nothing will settle them."""
        names = self._strata.models
        ended = [model for model in names if model in stopped]
        if ended:
            before_ms = np.where(np.isin(names, ended), _ALL_MS, _NEVER)
            self.sampler.discard(before_ms)
            for rows in self.join.close(before_ms):
                self._count_departed(rows, event_results.EVICTED)
        return ended

    def _ended_strata(self, ended_models: Sequence[str]) -> list[int]:
        """Ids of the strata that nothing holds any more, if their models end or caps need their places."""
        closed_ms = zip(self._strata.models, self.join.closed_to_ms.tolist(), strict=True)
        held_ms = np.array([self._buckets.held_from_ms(model, at_ms) for model, at_ms in closed_ms], np.int64)
        ended = self._lifetimes.ended(held_ms)
        return ended if ended_models or (ended and self._strata.gives_places_back(set(ended))) else []

    def _bucket_widths_ms(self) -> NDArray[np.int64]:
        return np.array([bucket_width_ms(policy.retention_ms) for policy in self._strata.policies], np.int64)

    def _newest_ms(self) -> int:
        """How far it is read, as in :class:`~monitor.store.base.PartitionClock`."""
        own_ms = int(self.join.models.prediction_watermark_ms.max(initial=_NEVER))
        return max(self._read_to_ms, own_ms, self._log_ends.newest_ms)

    def _met_from_ms(self, model: str) -> int:
        policy = self._settings.policy(model)
        if policy is None:
            return _NEVER
        return self._elsewhere.met_from_ms(model, policy, self._read_to_ms, self._settings.pane_ms)

    def _settled_ms(self, *, outcomes_read: bool = False) -> NDArray[np.int64]:
        return self._log_ends.settled_ms(self.join.models, self._settings.pane_ms, outcomes_read=outcomes_read)

    def _close(self, *, outcomes_read: bool) -> list[NDArray[np.void]]:
        """Remove from the join what is settled; returns its rows."""
        settled_ms = self._settled_ms(outcomes_read=outcomes_read)
        left = self.join.close(settled_ms) if (settled_ms > self.join.closed_to_ms).any() else []
        for rows in left:
            self._count_departed(rows, event_results.EXPIRED)
            self.sampler.settle(rows)
        return left

    @property
    def _rows(self) -> int:
        """Rows of the join's tables: an outcome may wait for a prediction that never comes."""
        return self.join.rows + self.join.early_outcomes

    def _evict(self) -> list[NDArray[np.void]]:
        """Remove the oldest buckets that have not left, until the join is no longer full; returns their rows."""
        left: list[NDArray[np.void]] = []
        # Not once: a bucket of which a part is settled holds fewer rows than it is counted for.
        while self._rows > self._settings.max_predictions:
            before_ms = self._oldest_end_ms()
            evicted = self.join.close(before_ms)
            if not evicted:
                break
            self.sampler.discard(before_ms)
            left += evicted
        for rows in left:
            self._count_departed(rows, event_results.EVICTED)
        return left

    def _oldest_end_ms(self) -> NDArray[np.int64]:
        """The time before which each model would leave with the oldest buckets; -1 where it would not."""
        excess = self._rows - int(self._settings.max_predictions * _EVICT_TO_SHARE)
        before_ms = np.full(len(self._strata.models), -1, np.int64)
        model_ids = {name: at for at, name in enumerate(self._strata.models)}
        pane_ms, closed_to_ms = self._settings.pane_ms, self.join.closed_to_ms
        for bucket, end_ms, rows in self._buckets.oldest_first():
            model = model_ids[bucket.model]
            if excess > 0 and end_ms > closed_to_ms[model]:
                before_ms[model] = -(-end_ms // pane_ms) * pane_ms
                excess -= rows
        return before_ms

    def unsettled(self, *, cells: bool) -> Panes:
        """Sum what is in the join by series, pane and cell; or count it by version and pane, which is cheaper."""
        pane_ms = self._settings.pane_ms
        if cells:
            return close(self.join.copy(), self._strata, pane_ms)
        return Panes.of(self._strata.series, self.join.count(pane_ms))

    def _count_departed(self, rows: NDArray[np.void], unanswered_result: str) -> None:
        policies = self._strata.policies
        models = self._strata.models_of_strata()
        of_predictions = rows["entry"] == PREDICTED
        unanswered = rows["stratum"][of_predictions & (rows["outcome"] == NO_OUTCOME)]
        self.departed[event_results.ANSWERED] += int(np.count_nonzero(of_predictions)) - unanswered.size
        for model, count in enumerate(np.bincount(models[unanswered], minlength=len(policies)).tolist()):
            implied = unanswered_result == event_results.EXPIRED and policies[model].implied_negative
            self.departed[event_results.IMPLIED_NEGATIVE if implied else unanswered_result] += count

    def _restore(self, state: PartitionState) -> None:
        self.offsets.update(state.offsets)
        self.saved_offsets = dict(self.offsets)
        self._read_to_ms = state.read_to_ms
        strata = {at: saved.stratum for at, saved in state.strata.items()}
        self._strata.restore([model.name for model in state.models], strata)
        self._lifetimes.restore(state.strata)
        self.caps = state.caps
        self._cap_counts.restore(state.caps)
        self._saved_models = state.models
        self.join.restore_models(state.models)
        counters = self._saved_counters()
        for (type_, result), count in state.counters.items():
            if type_ in counters:
                counters[type_][result] = count
        self._tombstones = state.counters.get(_TOMBSTONES, 0)
        model_ids = {name: at for at, name in enumerate(self._strata.models)}
        policies = self._strata.policies
        lateness_ms = np.array([policy.lateness_ms for policy in policies], np.int64)
        widths_ms = [bucket_width_ms(policy.retention_ms) for policy in policies]
        waiting: list[tuple[NDArray[np.void], NDArray[np.int32]]] = []
        unmatched: list[NDArray[np.void]] = []
        is_stratum = np.append(self._strata.models_of_strata() >= 0, False)
        for batches in gather(state.journal):
            rows = np.frombuffer(bytearray(b"".join(batch.rows for batch in batches)), JOURNAL_ROW)
            sizes = np.array([len(batch.rows) // JOURNAL_ROW.itemsize for batch in batches])
            model_of_batch = np.array([model_ids.get(batch.bucket.model, -1) for batch in batches], np.int32)
            model = np.repeat(model_of_batch, sizes)
            # The loops use these as indices, unchecked.
            in_names = is_stratum[np.minimum(rows["stratum"], is_stratum.size - 1)]
            is_unknown = (model < 0) | ((rows["entry"] < WAITING) & ~in_names)
            if is_unknown.any():
                batch = batches[np.searchsorted(np.cumsum(sizes), is_unknown.argmax(), side="right")]
                raise self._damaged(f"it refers to names of {batch.bucket.model} that were not saved")
            unmatched.append(self.join.restore_rows(rows))
            of_waiting = (rows["entry"] == WAITING) | (rows["entry"] == CLAIMED)
            bucket_times_ms = rows["time_ms"] + of_waiting * lateness_ms[model]
            # Rows of probabilities have the time of the row that they belong to.
            origin = np.maximum.accumulate(np.where(rows["entry"] == VECTOR, 0, np.arange(rows.size)))
            newest_ms = np.maximum.reduceat(bucket_times_ms[origin], np.cumsum(sizes) - sizes).tolist()
            for batch, at_ms, size, of_model in zip(
                batches, newest_ms, sizes.tolist(), model_of_batch.tolist(), strict=True
            ):
                self._buckets.add(batch.bucket, at_ms, size, widths_ms[of_model])
            waiting.append((rows[of_waiting], model[of_waiting]))
        closed_to_ms = self.join.closed_to_ms
        models = self._strata.models_of_strata()
        for rows in unmatched:
            left = self.join.restore_rows(rows)
            left = left[left["entry"] != VECTOR]
            # The predictions of those that are closed may be in a bucket that was dropped.
            lost = int(np.count_nonzero(left["time_ms"] >= closed_to_ms[models[left["stratum"]]]))
            if lost:
                raise self._damaged(f"{lost} of its outcomes belong to predictions that it does not hold")
        if waiting:
            self.join.restore_early_outcomes(
                np.concatenate([rows for rows, _ in waiting]), np.concatenate([model for _, model in waiting])
            )
        self.sampler.restore(state.candidates)
        # What is closed, but in a bucket with what is not.
        for rows in self.join.close(closed_to_ms.copy()):
            self.sampler.settle(rows)
        self.sampler.forget(closed_to_ms)
        self.join.restore_counts(state.counters)

    def _damaged(self, what: str) -> DamagedStore:
        return DamagedStore(
            f"the journal of partition {self.number} is damaged: {what}; restore a backup of the store, "
            "or remove it to read the log again from its beginning"
        )
