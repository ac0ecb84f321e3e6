"""A partition, the unit of state: its names, join, panes, offsets and unsaved changes."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from monitor.errors import DamagedStore
from monitor.events.codec import Decoder
from monitor.events.model import DeadLetter, Kind, ModelPolicy, RecordBatch
from monitor.events.strata import Caps, Strata
from monitor.store.base import (
    CLAIMED,
    JOURNAL_ROW,
    PREDICTED,
    VECTOR,
    WAITING,
    Bucket,
    Checkpoint,
    ClosedPane,
    ClosedSketch,
    JournalBatch,
    PartitionState,
    SampledSpan,
)
from monitor.stream import event_results
from monitor.stream.join import Join, Joined
from monitor.stream.journal import JournalBuckets, bucket_width_ms, sort_into_buckets
from monitor.stream.panes import PaneTable
from monitor.stream.sampling import Sampler, SampleSettings
from monitor.stream.vector_loops import NO_OUTCOME

_DEPARTED: Final = "departed"
_REASON: Final = "reason"
_CANDIDATE: Final = "candidate"
_EVICT_TO_SHARE: Final = 0.9
"""A full join is emptied down to this share, so that this is not done at every checkpoint."""


@dataclass(frozen=True, slots=True)
class PartitionSettings:
    """Settings of all partitions.

    Attributes
    ----------
    policy
        Name of a model -> its policy, or None if it has to be declared and is not.
    caps
        How many names may appear without a declaration.
    pane_retention_ms
        Width of panes -> how long they are kept beyond horizon and lateness of their model.
    max_predictions
        How many predictions the join of one partition may keep; one over K classes counts as 1 + K / 4. Beyond it the
        oldest are evicted.
    samples
        How many labelled events are kept for refits. None by default.
    """

    policy: Callable[[str], ModelPolicy | None]
    pane_retention_ms: Mapping[int, int]
    caps: Caps = field(default_factory=Caps)
    max_predictions: int = 20_000_000
    samples: SampleSettings = field(default_factory=SampleSettings)


class Partition:
    """The state of one partition. Written by the pipeline's thread; any thread may read panes and watermarks.

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
        self.join = Join(self._strata)
        self.panes = PaneTable(self._strata, list(settings.pane_retention_ms))
        self.sampler = Sampler(self._strata, settings.samples)
        self._buckets = JournalBuckets()
        self._unsaved: list[Joined] = []
        self._dead_letters: list[DeadLetter] = []
        self.dead_letter_reasons: Counter[str] = Counter()
        self.departed: Counter[str] = Counter()
        """Result -> predictions that have left the join."""
        self._saved_strata = 0
        self.saved_offsets: dict[str, int] = {}
        self._kept_from_ms: dict[tuple[str, int], int] = {}
        self.clocks: Mapping[str, tuple[int, ModelPolicy]] = {}
        """Model -> newest event time and policy. Replaced, never changed."""
        if state is not None:
            self._restore(state)

    @property
    def unsaved_rows(self) -> int:
        """Rows of the journal since the last checkpoint."""
        return sum(part.rows.size for part in self._unsaved)

    @property
    def changed(self) -> bool:
        """Whether there is anything to save."""
        return self.offsets != self.saved_offsets

    def event_counters(self) -> dict[tuple[str, str], int]:
        """(type, result) -> events; each event read is counted once."""
        dead_letters = self.dead_letter_reasons.total()
        return {**self.join.counters(), (event_results.UNKNOWN, event_results.DEAD_LETTER): dead_letters}

    def counters(self) -> dict[tuple[str, str], int]:
        """Every count that is saved with the partition."""
        counted = self.event_counters()
        for type_, counter in self._saved_counters().items():
            counted.update({(type_, result): count for result, count in counter.items()})
        return counted

    def _saved_counters(self) -> dict[str, Counter[str]]:
        return {_REASON: self.dead_letter_reasons, _DEPARTED: self.departed, _CANDIDATE: self.sampler.results}

    def kept_from_ms(self, model: str, slide_ms: int) -> int:
        """Start of the oldest panes that are kept; 0 while all are."""
        return self._kept_from_ms.get((model, slide_ms), 0)

    def apply(self, batch: RecordBatch, decoder: Decoder, default_kind: Kind | None) -> int:
        """Decode and join a batch of records; returns how many were not valid events."""
        decoded = decoder.decode(batch, self._strata, default_kind)
        joined = self.join.apply(decoded.columns)
        # Before its series have panes: readers of panes ask for the model's clock next.
        self._note_clocks()
        if joined.rows.size:
            self.panes.accumulate(joined.rows)
            self.sampler.add(joined, decoded.features)
            self._unsaved.append(joined)
        self.dead_letter_reasons.update(letter.reason.value for letter in decoded.dead_letters)
        self._dead_letters += decoded.dead_letters
        self.offsets[batch.topic] = batch.next_offset
        return len(decoded.dead_letters)

    def checkpoint(self, outcomes_read_ms: NDArray[np.int64] | None = None) -> Checkpoint:
        """Changes since the last checkpoint. Predictions that can no longer change leave the join.

        ``outcomes_read_ms`` is as for :meth:`Join.final_before_ms`.
        """
        names = self._strata.models
        batches: list[JournalBatch] = []
        for batch, bucket_times_ms in sort_into_buckets(self._unsaved, names, self._bucket_widths_ms()):
            batches.append(batch)
            self._buckets.add(batch.bucket, bucket_times_ms)
        self.sampler.assign_pending()
        dropped, left, sampled = self._evict(names, outcomes_read_ms)
        closed, closed_sketches = self._close(left)
        expired = self._expire() if dropped else {}
        removed = set(dropped)
        strata = self._strata.strata
        result = Checkpoint(
            partition=self.number,
            epoch=self.epoch,
            offsets=dict(self.offsets),
            models=self.join.model_states(),
            first_stratum=self._saved_strata,
            new_strata=strata[self._saved_strata :],
            journal=[batch for batch in batches if batch.bucket not in removed],
            dropped=dropped,
            closed=closed,
            closed_sketches=closed_sketches,
            expired_before_ms=expired,
            candidates=self.sampler.unsaved(),
            closed_samples=sampled,
            expired_samples_before_ms=self.sampler.expired_before_ms(self.clocks) if dropped else {},
            counters=self.counters(),
            dead_letters=self._dead_letters,
        )
        self._unsaved, self._dead_letters = [], []
        self._saved_strata, self.saved_offsets = len(strata), dict(self.offsets)
        return result

    def _bucket_widths_ms(self) -> NDArray[np.int64]:
        return np.array([bucket_width_ms(policy.retention_ms) for policy in self._strata.policies], np.int64)

    def _evict(
        self, names: list[str], outcomes_read_ms: NDArray[np.int64] | None
    ) -> tuple[list[Bucket], list[NDArray[np.void]], list[SampledSpan]]:
        """Remove what can no longer change, and the oldest beyond the limit.

        Returns
        -------
        Dropped buckets, rows of their predictions, and the samples of those that can no longer change.
        """
        before_ms = np.full(len(names), -1, np.int64)
        dropped: list[Bucket] = []
        for model, before in enumerate(self.join.final_before_ms(outcomes_read_ms).tolist()):
            buckets, cut = self._buckets.droppable(names[model], before)
            if buckets:
                dropped += buckets
                before_ms[model] = cut
        left: list[NDArray[np.void]] = []
        sampled: list[SampledSpan] = []
        if dropped:
            left.append(self.join.evict(before_ms))
            self._count_departed(left[-1], event_results.EXPIRED)
            sampled = self.sampler.close(dropped, left[-1])
        for bucket in dropped:
            self._buckets.remove(bucket)
        if self.join.rows > self._settings.max_predictions:
            more, rows = self._evict_early(names)
            self._count_departed(rows, event_results.EVICTED)
            self.sampler.discard(more)
            dropped += more
            left.append(rows)
        return dropped, left, sampled

    def _evict_early(self, names: list[str]) -> tuple[list[Bucket], NDArray[np.void]]:
        excess = self.join.rows - int(self._settings.max_predictions * _EVICT_TO_SHARE)
        cuts: dict[str, int] = {}
        for bucket, newest_ms, rows in self._buckets.oldest_first():
            if excess <= 0:
                break
            cuts[bucket.model] = newest_ms + 1
            excess -= rows
        before_ms = np.full(len(names), -1, np.int64)
        dropped: list[Bucket] = []
        for model, cut in cuts.items():
            buckets, before_ms[names.index(model)] = self._buckets.droppable(model, cut)
            dropped += buckets
        left = self.join.evict(before_ms, early=True)
        for bucket in dropped:
            self._buckets.remove(bucket)
        return dropped, left

    def _close(self, left: list[NDArray[np.void]]) -> tuple[list[ClosedPane], list[ClosedSketch]]:
        """The panes and sketches of predictions that left the join."""
        if not left:
            return [], []
        closed = PaneTable(self._strata, list(self._settings.pane_retention_ms))
        for rows in left:
            closed.accumulate(rows)
        return closed.dump(), closed.dump_sketches()

    def _count_departed(self, rows: NDArray[np.void], unanswered_result: str) -> None:
        policies = self._strata.policies
        models = self._strata.models_of_strata()
        of_predictions = rows["entry"] == PREDICTED
        unanswered = rows["stratum"][of_predictions & (rows["outcome"] == NO_OUTCOME)]
        self.departed[event_results.ANSWERED] += int(np.count_nonzero(of_predictions)) - unanswered.size
        for model, count in enumerate(np.bincount(models[unanswered], minlength=len(policies)).tolist()):
            implied = unanswered_result == event_results.EXPIRED and policies[model].implied_negative
            self.departed[event_results.IMPLIED_NEGATIVE if implied else unanswered_result] += count

    def _expire(self) -> dict[tuple[str, int], int]:
        """Remove panes that no window needs any more; returns what the store can remove too."""
        slides = sorted(self._settings.pane_retention_ms)
        before: dict[tuple[str, int], int] = {}
        for model, (clock_ms, policy) in self.clocks.items():
            for slide in slides:
                kept = clock_ms - policy.retention_ms - self._settings.pane_retention_ms[slide]
                before[model, slide] = kept - kept % slide
        series = self.panes.series
        before_ms = np.full((len(slides), max(len(series), 1)), -1, np.int64)
        for key, at in series.items():
            for level, slide in enumerate(slides):
                before_ms[level, at] = before.get((key.model, slide), -1)
        self.panes.expire(before_ms)
        self._kept_from_ms = before
        return before

    def _note_clocks(self) -> None:
        watermarks = self.join.watermarks_ms().tolist()
        self.clocks = dict(zip(self._strata.models, zip(watermarks, self._strata.policies, strict=True), strict=True))

    def _restore(self, state: PartitionState) -> None:
        self.offsets.update(state.offsets)
        self.saved_offsets = dict(self.offsets)
        self._strata.restore([model.name for model in state.models], state.strata)
        self._saved_strata = len(state.strata)
        self.join.restore(state.models, state.counters)
        counters = self._saved_counters()
        for (type_, result), count in state.counters.items():
            if type_ in counters:
                counters[type_][result] = count
        model_ids = {name: at for at, name in enumerate(self._strata.models)}
        policies = self._strata.policies
        waiting: list[tuple[NDArray[np.void], NDArray[np.int32]]] = []
        unmatched: list[NDArray[np.void]] = []
        for batch in state.journal:
            rows = np.frombuffer(bytearray(batch.rows), JOURNAL_ROW)
            # The loops use these as indices, unchecked.
            of_predictions = rows["entry"] < WAITING
            if (
                batch.bucket.model not in model_ids
                or int(rows["stratum"].max(initial=-1, where=of_predictions)) >= self._strata.stratum_count
            ):
                raise self._damaged(f"it refers to names of {batch.bucket.model} that were not saved")
            model = model_ids[batch.bucket.model]
            unmatched.append(self.join.restore_rows(rows))
            self.panes.accumulate(rows)
            of_waiting = (rows["entry"] == WAITING) | (rows["entry"] == CLAIMED)
            bucket_times_ms = rows["time_ms"] + of_waiting * policies[model].lateness_ms
            # Rows of probabilities have the time of the row that they belong to.
            origin = np.maximum.accumulate(np.where(rows["entry"] == VECTOR, 0, np.arange(rows.size)))
            self._buckets.add(batch.bucket, bucket_times_ms[origin])
            if of_waiting.any():
                waiting.append((rows[of_waiting], np.full(int(of_waiting.sum()), model, np.int32)))
        lost = sum(np.count_nonzero(self.join.restore_rows(rows)["entry"] != VECTOR) for rows in unmatched if rows.size)
        if lost:
            raise self._damaged(f"{lost} of its outcomes belong to predictions that it does not hold")
        if waiting:
            self.join.restore_early_outcomes(
                np.concatenate([rows for rows, _ in waiting]), np.concatenate([model for _, model in waiting])
            )
        self.sampler.restore(state.candidates)
        self.panes.add(state.panes)
        self.panes.add_sketches(state.sketches)
        self._note_clocks()

    def _damaged(self, what: str) -> DamagedStore:
        return DamagedStore(
            f"the journal of partition {self.number} is damaged: {what}; restore a backup of the store, "
            "or remove it to read the log again from its beginning"
        )
