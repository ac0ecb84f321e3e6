"""A partition: the unit of state. Its names, its join, its panes, its offsets and what is not saved yet."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from monitor.errors import DamagedStore
from monitor.events.model import DeadLetter, EventColumns, Kind, ModelPolicy, RecordBatch
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
from monitor.stream import fates
from monitor.stream.join import Join, Joined
from monitor.stream.join_table_loops import NO_OUTCOME
from monitor.stream.journal import Files, bucket_width_ms, sort_into_buckets
from monitor.stream.panes import PaneTable
from monitor.stream.sample_settings import SampleSettings
from monitor.stream.sampling import Sampler

_DEPARTED: Final = "departed"
_REASON: Final = "reason"
_CANDIDATE: Final = "candidate"
_FILLED_AGAIN: Final = 0.9
"""A join that is full is emptied down to this share, so that it is not done at every checkpoint."""


class DecodedBatch(Protocol):
    """A batch as the decoder hands it over."""

    @property
    def columns(self) -> EventColumns:
        """The valid events."""
        ...

    @property
    def dead_letters(self) -> list[DeadLetter]:
        """The others."""
        ...

    @property
    def features(self) -> Sequence[NDArray[np.float32] | None]:
        """What came with each valid event as features, in the order of the columns; None where nothing did."""
        ...


class EventDecoder(Protocol):
    """Turns bytes into columns."""

    def decode(self, batch: RecordBatch, strata: Strata, default_kind: Kind | None) -> DecodedBatch:
        """Decode a batch; every record becomes an event or a dead letter."""
        ...


@dataclass(frozen=True, slots=True)
class PartitionSettings:
    """What all partitions have in common.

    Attributes
    ----------
    policy
        The policy of a model by name, or None where the model is not declared and has to be.
    caps
        How many names may appear by themselves.
    pane_retention_ms
        Width of panes -> how long they are kept beyond their model's horizon and lateness.
    max_predictions
        How many predictions the join of one partition may keep, where one over K classes counts as 1 + K / 4. Beyond it
        the oldest leave before their time.
    samples
        How many labelled events are kept with their features, for refits. By default none are.
    """

    policy: Callable[[str], ModelPolicy | None]
    pane_retention_ms: Mapping[int, int]
    caps: Caps = field(default_factory=Caps)
    max_predictions: int = 20_000_000
    samples: SampleSettings = field(default_factory=SampleSettings)


class Partition:
    """The state of one partition. Written by the pipeline's thread; its panes and watermarks are read by any.

    Parameters
    ----------
    number, epoch
        Which partition, and the epoch under which it was claimed.
    settings
        What all partitions have in common.
    state
        What was saved of it.
    """

    def __init__(
        self, number: int, epoch: int, settings: PartitionSettings, state: PartitionState | None = None
    ) -> None:
        self.number = number
        self.epoch = epoch
        self.offsets: dict[str, int] = {}
        self._settings = settings
        self._strata = Strata(settings.policy, settings.caps)
        self._join = Join(self._strata)
        self.panes = PaneTable(self._strata, list(settings.pane_retention_ms))
        self._sampler = Sampler(self._strata, settings.samples)
        self._files = Files()
        self._unsaved: list[Joined] = []
        self._dead_letters: list[DeadLetter] = []
        self._reasons: Counter[str] = Counter()
        self._departed: Counter[str] = Counter()
        self._saved_strata = 0
        self.saved_offsets: dict[str, int] = {}
        self._kept_from_ms: dict[tuple[str, int], int] = {}
        self._clocks: dict[str, tuple[int, ModelPolicy]] = {}
        if state is not None:
            self._restore(state)

    @property
    def unsaved_rows(self) -> int:
        """Rows of the journal that wait for the next checkpoint."""
        return sum(part.rows.size for part in self._unsaved)

    @property
    def join(self) -> Join:
        """The join, to be looked at."""
        return self._join

    @property
    def sampler(self) -> Sampler:
        """The candidates for its samples, to be looked at."""
        return self._sampler

    @property
    def clocks(self) -> Mapping[str, tuple[int, ModelPolicy]]:
        """Model -> newest event time and policy. Replaced, never changed."""
        return self._clocks

    @property
    def changed(self) -> bool:
        """Whether there is anything to save."""
        return self.offsets != self.saved_offsets

    def event_counters(self) -> dict[tuple[str, str], int]:
        """(type, result) -> events; each event read is counted once."""
        counted = self._join.counters()
        counted[fates.UNKNOWN, fates.DEAD_LETTER] = self._reasons.total()
        return counted

    def counters(self) -> dict[tuple[str, str], int]:
        """Every count that is saved with the partition."""
        counted = self.event_counters()
        counted.update({(_REASON, reason): count for reason, count in self._reasons.items()})
        counted.update({(_DEPARTED, fate): count for fate, count in self._departed.items()})
        counted.update({(_CANDIDATE, fate): count for fate, count in self._sampler.fates.items()})
        return counted

    @property
    def dead_letter_reasons(self) -> Mapping[str, int]:
        """Reason -> messages."""
        return self._reasons

    @property
    def departed(self) -> Mapping[str, int]:
        """Fate -> predictions that have left the join."""
        return self._departed

    def kept_from_ms(self, model: str, slide_ms: int) -> int:
        """Panes that start earlier are gone; 0 where none went."""
        return self._kept_from_ms.get((model, slide_ms), 0)

    def apply(self, batch: RecordBatch, decoder: EventDecoder, default_kind: Kind | None) -> int:
        """Take up a batch of records; returns how many of them were no valid events."""
        decoded = decoder.decode(batch, self._strata, default_kind)
        joined = self._join.apply(decoded.columns)
        # Before its series has panes: whoever reads those asks for the model's clock next.
        self._note_clocks()
        if joined.rows.size:
            self.panes.accumulate(joined.rows)
            self._sampler.take(joined, decoded.features)
            self._unsaved.append(joined)
        self._reasons.update(letter.reason.value for letter in decoded.dead_letters)
        self._dead_letters += decoded.dead_letters
        self.offsets[batch.topic] = batch.next_offset
        return len(decoded.dead_letters)

    def checkpoint(self, heard_ms: NDArray[np.int64] | None = None) -> Checkpoint:
        """What changed since the last one. What can change no more leaves the join on the way.

        Parameters
        ----------
        heard_ms
            Up to which prediction all outcomes that were written have been read, by model: see
            :meth:`Join.due_before_ms`.
        """
        names = self._strata.models
        batches: list[JournalBatch] = []
        for batch, filed_ms in sort_into_buckets(self._unsaved, names, self._bucket_widths_ms()):
            batches.append(batch)
            self._files.add(batch.bucket, filed_ms)
        self._sampler.sort_in()
        dropped, left, sampled = self._evict(names, heard_ms)
        closed, closed_sketches = self._close(left)
        expired = self._expire() if dropped else {}
        gone = set(dropped)
        strata = self._strata.strata
        result = Checkpoint(
            partition=self.number,
            epoch=self.epoch,
            offsets=dict(self.offsets),
            models=self._join.model_states(),
            first_stratum=self._saved_strata,
            new_strata=strata[self._saved_strata :],
            journal=[batch for batch in batches if batch.bucket not in gone],
            dropped=dropped,
            closed=closed,
            closed_sketches=closed_sketches,
            expired_before_ms=expired,
            candidates=self._sampler.unsaved(),
            closed_samples=sampled,
            expired_samples_before_ms=self._sampler.expired_before_ms(self._clocks) if dropped else {},
            counters=self.counters(),
            dead_letters=self._dead_letters,
        )
        self._unsaved, self._dead_letters = [], []
        self._saved_strata, self.saved_offsets = len(strata), dict(self.offsets)
        return result

    def _bucket_widths_ms(self) -> NDArray[np.int64]:
        return np.array([bucket_width_ms(policy.retention_ms) for policy in self._strata.policies], np.int64)

    def _evict(
        self, names: list[str], heard_ms: NDArray[np.int64] | None
    ) -> tuple[list[Bucket], list[NDArray[np.void]], list[SampledSpan]]:
        """Let go of what can change no more, and of more where there is too much.

        Returns
        -------
        Buckets, rows of predictions, and what those of them that had all their time add to the samples.
        """
        before_ms = np.full(len(names), -1, np.int64)
        dropped: list[Bucket] = []
        for model, due_ms in enumerate(self._join.due_before_ms(heard_ms).tolist()):
            buckets, cut = self._files.droppable(names[model], due_ms)
            if buckets:
                dropped += buckets
                before_ms[model] = cut
        left: list[NDArray[np.void]] = []
        sampled: list[SampledSpan] = []
        if dropped:
            left.append(self._join.evict(before_ms))
            self._count_departed(left[-1], fates.EXPIRED)
            sampled = self._sampler.close(dropped, left[-1])
        for bucket in dropped:
            self._files.remove(bucket)
        if self._join.room > self._settings.max_predictions:
            more, rows = self._evict_before_time(names)
            self._count_departed(rows, fates.EVICTED)
            self._sampler.discard(more)
            dropped += more
            left.append(rows)
        return dropped, left, sampled

    def _evict_before_time(self, names: list[str]) -> tuple[list[Bucket], NDArray[np.void]]:
        excess = self._join.room - int(self._settings.max_predictions * _FILLED_AGAIN)
        cuts: dict[str, int] = {}
        for bucket, newest_ms, rows in self._files.oldest_first():
            if excess <= 0:
                break
            cuts[bucket.model] = newest_ms + 1
            excess -= rows
        before_ms = np.full(len(names), -1, np.int64)
        dropped: list[Bucket] = []
        for model, cut in cuts.items():
            buckets, before_ms[names.index(model)] = self._files.droppable(model, cut)
            dropped += buckets
        left = self._join.evict(before_ms, early=True)
        for bucket in dropped:
            self._files.remove(bucket)
        return dropped, left

    def _close(self, left: list[NDArray[np.void]]) -> tuple[list[ClosedPane], list[ClosedSketch]]:
        """The panes of predictions that left the join: what their dropped buckets leave behind."""
        if not left:
            return [], []
        scratch = PaneTable(self._strata, list(self._settings.pane_retention_ms))
        for rows in left:
            scratch.accumulate(rows)
        return scratch.dump(), scratch.dump_sketches()

    def _count_departed(self, rows: NDArray[np.void], unanswered_fate: str) -> None:
        policies = self._strata.policies
        models = self._strata.models_of_strata()
        of_predictions = rows["entry"] == PREDICTED
        unanswered = rows["stratum"][of_predictions & (rows["outcome"] == NO_OUTCOME)]
        self._departed[fates.ANSWERED] += int(np.count_nonzero(of_predictions)) - unanswered.size
        for model, count in enumerate(np.bincount(models[unanswered], minlength=len(policies)).tolist()):
            implied = unanswered_fate == fates.EXPIRED and policies[model].implied_negative
            self._departed[fates.IMPLIED_NEGATIVE if implied else unanswered_fate] += count

    def _expire(self) -> dict[tuple[str, int], int]:
        """Forget panes that no window will ask for again; returns what the store may forget too."""
        slides = sorted(self._settings.pane_retention_ms)
        before: dict[tuple[str, int], int] = {}
        for model, (clock_ms, policy) in self._clocks.items():
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
        watermarks = self._join.watermarks_ms().tolist()
        self._clocks = dict(zip(self._strata.models, zip(watermarks, self._strata.policies, strict=True), strict=True))

    def _restore(self, state: PartitionState) -> None:
        self.offsets.update(state.offsets)
        self.saved_offsets = dict(self.offsets)
        self._strata.restore([model.name for model in state.models], state.strata)
        self._saved_strata = len(state.strata)
        self._join.restore(state.models, state.counters)
        for (type_, result), count in state.counters.items():
            if type_ == _REASON:
                self._reasons[result] = count
            elif type_ == _DEPARTED:
                self._departed[result] = count
            elif type_ == _CANDIDATE:
                self._sampler.fates[result] = count
        model_ids = {name: at for at, name in enumerate(self._strata.models)}
        policies = self._strata.policies
        waiting: list[tuple[NDArray[np.void], NDArray[np.int32]]] = []
        astray: list[NDArray[np.void]] = []
        for batch in state.journal:
            rows = np.frombuffer(bytearray(batch.rows), JOURNAL_ROW)
            # The kernels index by these, and check nothing.
            of_predictions = rows["entry"] < WAITING
            if (
                batch.bucket.model not in model_ids
                or int(rows["stratum"].max(initial=-1, where=of_predictions)) >= self._strata.stratum_count
            ):
                raise self._damaged(f"it tells of names of {batch.bucket.model} that were not saved")
            model = model_ids[batch.bucket.model]
            astray.append(self._join.restore_rows(rows))
            self.panes.accumulate(rows)
            of_waiting = (rows["entry"] == WAITING) | (rows["entry"] == CLAIMED)
            filed_ms = rows["time_ms"] + of_waiting * policies[model].lateness_ms
            # Rows of probabilities are filed with the row that they belong to.
            origin = np.maximum.accumulate(np.where(rows["entry"] == VECTOR, 0, np.arange(rows.size)))
            self._files.add(batch.bucket, filed_ms[origin])
            if of_waiting.any():
                told = rows[of_waiting]
                waiting.append((told, np.full(told.size, model, np.int32)))
        lost = sum(np.count_nonzero(self._join.restore_rows(rows)["entry"] != VECTOR) for rows in astray if rows.size)
        if lost:
            raise self._damaged(f"{lost} of its outcomes answer predictions that it does not hold")
        if waiting:
            self._join.restore_waiting(
                np.concatenate([rows for rows, _ in waiting]), np.concatenate([model for _, model in waiting])
            )
        self._sampler.restore(state.candidates)
        self.panes.add(state.panes)
        self.panes.add_sketches(state.sketches)
        self._note_clocks()

    def _damaged(self, what: str) -> DamagedStore:
        return DamagedStore(
            f"the journal of partition {self.number} is damaged: {what}; restore a backup of the store, "
            "or remove it to read the log again from its beginning"
        )
