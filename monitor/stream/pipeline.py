"""The pipeline: poll, join, save checkpoints, and follow the assignment of partitions."""

import math
import threading
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Annotated, Final

import structlog
from pydantic import Field

from monitor.clock import Clock
from monitor.durations import to_ms
from monitor.errors import (
    FencedOut,
    MonitorError,
    SchemaUnavailable,
    SourceMisconfigured,
    SourceUnavailable,
    StoreUnavailable,
    TooManyDeadLetters,
)
from monitor.events.codec import Decoder
from monitor.events.log import Source
from monitor.events.model import DeadLetter, Kind, Reason, RecordBatch, TopicPartition
from monitor.free_memory import return_free_memory
from monitor.outage_log import Outage, Retry
from monitor.section import Duration, NonNegative, Positive, Section, Span, Topic
from monitor.store.base import Checkpoint
from monitor.store.caps import join_cap_uses
from monitor.store.settled import Elsewhere, running
from monitor.store.sql import SqlStore
from monitor.stream.dead_letter_log import DeadLetterLog
from monitor.stream.log_progress import GRACE_SECONDS, Alignment
from monitor.stream.partition import Partition, PartitionSettings
from monitor.stream.status import Phase, PipelineStatus
from monitor.tracing import span

_log = structlog.get_logger(__name__)

_SOURCE_FAILURES: Final = (SourceUnavailable, SourceMisconfigured)
"""Failures that are retried: an outage ends, and a person fixes a password, an ACL or a topic without a restart."""

_ROWS_BETWEEN_CHECKPOINTS: Final = 500_000
"""A checkpoint is saved early once this many rows of the journal are unsaved: some 30 MB."""

_ROWS_IN_A_SAVE: Final = 100_000
"""Partitions with more rows than this together are saved one after the other: sorted and encoded, each row takes
several times as much memory as it did before."""

_READING_SHARE: Final = 4.0
"""Between two checkpoints is at least this many times as long as the last one took, so that of a long backlog over many
models, most of the time is spent reading it."""

_LONGEST_SECONDS: Final = 30.0
"""Longest of these pauses."""

_SLICE_SECONDS: Final = 0.5
"""After so long in a checkpoint of many partitions, the source is polled before the next of them is saved."""

_SUMMARY_SECONDS: Final = 10.0
"""How often what is not settled is summed up, at a checkpoint."""

_NOTICE_MS: Final = 86_400_000
"""A model that has stopped is removed so much later: by then its evaluation and its alerts have ended."""


class DeadLetterSettings(Section):
    """What happens to messages that are no valid events, beyond being counted."""

    max_ratio: Annotated[float, Field(gt=0.0, le=1.0)] = 0.5
    """Share of dead letters in a block of messages above which consumption stops, before a bad deploy drains the topic;
    1 never stops."""
    block: Positive = 1000
    """Messages in such a block, at least."""
    keep: NonNegative = 100_000
    """Dead letters that are kept in the store, newest first."""
    retention: Span | None = timedelta(days=30)
    """Age beyond which they go; null keeps them until there are too many."""
    topic: Topic | None = None
    """Topic to which they are written as well, with reason, topic, partition and offset as headers; null: none."""


class PipelineSettings(Section):
    """How the log is read, joined and made durable."""

    checkpoint_interval: Annotated[Duration, Field(ge=timedelta(milliseconds=10))] = timedelta(seconds=2)
    """Time between two checkpoints: what a crash makes the service read again. It is longer, up to 30s, while saving
    would take more than a fifth of the time."""
    max_poll_records: Positive = 20_000
    """Messages taken from the log at once."""
    max_pending: Positive = 5_000_000
    """Predictions that the join of one partition holds, at some 70 bytes each, and outcomes that wait for theirs;
    beyond it the oldest are evicted and counted. A prediction over K classes counts as 1 + K / 4."""
    max_message_bytes: Positive = 1024 * 1024
    """Size of the largest message that is decoded; larger ones are dead letters."""
    max_ahead: Span = timedelta(days=1)
    """How far an event's time may lie ahead of when its message was written, and of now; later ones are dead
    letters."""
    topic_alignment: Span = timedelta(minutes=1)
    """Time that one topic may be read ahead of another, by when messages were written: while a backlog is read,
    outcomes so do not run ahead of their predictions."""


@dataclass(slots=True)
class _Round:
    """A checkpoint of all partitions, which are saved one after the other, with polls between them.

    Attributes
    ----------
    left
        Partitions whose checkpoints are not made yet.
    summarise
        Whether to sum what is not settled.
    end_names
        Whether names of models that have stopped are removed.
    seconds
        How long it has taken, without the polls.
    """

    left: deque[int]
    summarise: bool
    end_names: bool
    seconds: float = 0.0


class Pipeline:
    """Takes events from the source to the store. The thread of :meth:`run` owns the source.

    Parameters
    ----------
    source, store
        Source of events and store of the state.
    decoder
        Decodes messages to columns.
    partitions
        Settings of all partitions.
    settings, dead_letters
        Settings of the pipeline and of dead letters.
    kinds
        Topic -> type of its events that name none, or None.
    poll_seconds
        How long a poll waits for the first record.
    clock
        For intervals and backoff only: results depend on the times of events.
    send_dead_letters
        Called with the dead letters of a checkpoint before it is saved, again only if it raises SourceUnavailable or
        SourceMisconfigured. A letter is sent at least once: once more if the process ends, or loses the partition,
        before the checkpoint is saved.
    """

    def __init__(
        self,
        source: Source,
        store: SqlStore,
        decoder: Decoder,
        *,
        partitions: PartitionSettings,
        settings: PipelineSettings,
        dead_letters: DeadLetterSettings,
        kinds: Mapping[str, Kind | None],
        poll_seconds: float = 0.2,
        clock: Clock,
        send_dead_letters: Callable[[Sequence[DeadLetter]], None] | None = None,
    ) -> None:
        self._source = source
        self._store = store
        self._decoder = decoder
        self._settings = settings
        self._checkpoint_seconds = settings.checkpoint_interval.total_seconds()
        self._dead_letters = dead_letters
        self._kinds = kinds
        self._poll_seconds = poll_seconds
        self._clock = clock
        self._send_dead_letters = send_dead_letters
        self._partitions: dict[int, Partition] = {}
        self._unclaimed: set[int] = set()
        """Partitions assigned to this replica that are not claimed and restored yet."""
        self._unregistered: set[int] = set()
        """Partitions, those of other replicas too, that the store may not know yet."""
        self._unsaved: list[Checkpoint] = []
        self._unsent: dict[int, list[DeadLetter]] = {}
        """Partition -> dead letters of its unsaved checkpoints that are not sent yet."""
        self._alignment = Alignment(sorted(kinds), to_ms(settings.topic_alignment))
        self._outcome_topics = {topic for topic, kind in kinds.items() if kind is not Kind.PREDICTION}
        # A single topic holds outcomes and predictions in the order in which they came.
        self._partition_settings = replace(partitions, outcomes_apart=len(kinds) > 1)
        self._paused: frozenset[TopicPartition] = frozenset()
        self._held: dict[TopicPartition, RecordBatch] = {}
        """Batches that cannot be decoded before a schema can be had. Nothing is read behind them."""
        self._held_detail = ""
        self._source_retry = Retry(clock, Outage(_log, "the source does not answer", "the source answers again", clock))
        self._claim_retry = Retry(clock, Outage(_log, "the store does not answer", "the store answers again", clock))
        self._save_retry = Retry(
            clock,
            Outage(_log, "the checkpoint could not be saved and is tried again", "checkpoints are saved again", clock),
        )
        self._fenced_retry = Retry(clock)
        self._dead_letter_log = DeadLetterLog(_log, clock)
        self._last_checkpoint = clock.monotonic()
        self._pause_seconds = 0.0
        """How long to read before the next checkpoint, by what the last one took."""
        self._last_summary = -math.inf
        self._round: _Round | None = None
        """The checkpoint under way; None between two."""
        self._ends_noted = clock.monotonic()
        self._block = Counter[str]()
        self._fenced = ""
        self._stopping = threading.Event()
        self.status = PipelineStatus()
        self.failure: Exception | None = None
        """Why :meth:`run` returned by itself: a MonitorError if an operator has to fix something."""

    def stop(self) -> None:
        """Make :meth:`run` finish its batch, save and return. Any thread."""
        self._stopping.set()

    def run(self) -> None:
        """Run until :meth:`stop`, or until an error that retrying does not fix.

        Returns in both cases, with the status Phase.STOPPED, or Phase.FAILED and the reason.
        """
        phase, detail = Phase.STOPPED, ""
        try:
            while not self._stopping.is_set():
                self.step()
            self._save_all()
        except MonitorError as error:
            phase, detail, self.failure = Phase.FAILED, str(error), error
            _log.error("the pipeline stopped", error=type(error).__name__, detail=detail)
        except Exception as error:  # noqa: BLE001 - the thread ends here, and the status has to say why
            phase, detail, self.failure = Phase.FAILED, f"unexpected {type(error).__name__}: {error}", error
            _log.exception("the pipeline failed")
        finally:
            self._source.close()
            self._publish(phase, detail)

    def step(self) -> None:
        """Poll once, join the records, restore an assigned partition, and save when it is time.

        At most one partition is restored between two polls, and it does not wait for an unavailable store: the group
        expels members that do not poll.
        """
        poll_seconds = 0.0 if self._may_claim or self._round else self._poll_seconds
        try:
            polled = self._source.poll(poll_seconds, self._settings.max_poll_records)
        except _SOURCE_FAILURES as error:
            self._publish(Phase.SOURCE_UNAVAILABLE, str(error))
            self._checkpoint_when_due()
            self._stopping.wait(self._source_retry.failed(error))
            return
        self._source_retry.over()
        if polled.revoked:
            self._release(polled.revoked)
        if polled.assigned:
            self._unclaimed |= polled.assigned
            # The client may not know yet of all that were assigned to it.
            every = {*self._source.partitions, *polled.assigned}
            self._unregistered |= every
            self.status = replace(self.status, partition_count=len(every))
            self._fenced_retry.over()
        for batch in (*self._held.values(), *polled.batches):
            self._apply(batch)
        if self._may_claim:
            self._claim(min(self._unclaimed))
        self._note_ends()
        if not polled.batches:
            self._pause_seconds = 0.0  # no backlog waits to be read
        self._checkpoint_when_due()
        self._publish(*self._phase())
        self._pause_and_resume()

    def _apply(self, batch: RecordBatch) -> None:
        partition = self._partitions.get(batch.partition)
        if partition is None:
            return  # another process claimed it and reads these records
        where = TopicPartition(batch.topic, batch.partition)
        try:
            applied = partition.apply(batch, self._decoder, self._kinds.get(batch.topic))
        except SchemaUnavailable as error:
            self._held[where], self._held_detail = batch, f"{batch.topic} partition {batch.partition} waits: {error}"
            return
        self._held.pop(where, None)
        self._dead_letter_log.note_refused(applied.refused, applied.first_refused)
        if batch.records:
            self._alignment.note(where, batch.records[-1].timestamp, self._clock.monotonic())
        self.status = replace(self.status, records_read=self.status.records_read + len(batch.records))
        self._block.update(messages=len(batch.records), dead=applied.dead)
        ceiling = self._dead_letters.max_ratio
        if self._block["messages"] >= self._dead_letters.block:
            ratio = self._block["dead"] / self._block["messages"]
            if ratio > ceiling:
                reasons = ", ".join(
                    f"{reason} {count}" for reason, count in Counter(partition.dead_letter_reasons).most_common(3)
                )
                self._save_all()
                raise TooManyDeadLetters(
                    f"{ratio:.0%} of the last {self._block['messages']} messages were no valid events, more than the "
                    f"ceiling of {ceiling:.0%} (most in partition {batch.partition}: {reasons}); look at them "
                    "with `monitor dead-letters list`, correct the producer, and start the service again; with "
                    "dead_letters.max_ratio: 1 it steps over them"
                )
            self._block.clear()

    @property
    def _may_claim(self) -> bool:
        return bool(self._unclaimed) and self._claim_retry.due and self._fenced_retry.due

    def _claim(self, number: int) -> None:
        """Claim an assigned partition, restore its state and start reading it; on failure it stays unclaimed."""
        try:
            if self._unregistered:
                self._store.note_topics(self._source.topic_ids(self._store.topic_ids()))
                self._store.register(self._unregistered)
                self._unregistered.clear()
            epoch = self._store.claim(number, self._source.still_assigned)
            partition = Partition(number, epoch, self._partition_settings, self._store.load(number))
            partition.note_elsewhere(self._read_elsewhere())
        except StoreUnavailable as error:
            self._claim_retry.failed(error, partition=number)
            return
        except FencedOut as error:
            # Either the next poll revokes the partition, or it is claimed again.
            pause_seconds = self._claim_retry.failed()
            _log.info("partition not claimed", partition=number, detail=str(error), retry_seconds=pause_seconds)
            return
        self._claim_retry.over()
        self._unclaimed.remove(number)
        self._partitions[number] = partition
        self._fenced = ""
        self._source.start(number, partition.offsets)
        self._paused = frozenset(paused for paused in self._paused if paused.partition != number)
        return_free_memory()
        _log.info("partition restored", partition=number, epoch=epoch, predictions=partition.join.predictions)

    def _release(self, numbers: frozenset[int]) -> None:
        """Save revoked partitions unless the new owner has claimed them already, and forget them."""
        leaving = [self._checkpoint(number) for number in sorted(numbers) if number in self._partitions]
        waiting = [checkpoint for checkpoint in self._unsaved if checkpoint.partition in numbers]
        self._unsaved = [checkpoint for checkpoint in self._unsaved if checkpoint.partition not in numbers]
        for checkpoint in (*waiting, *leaving):
            # The new owner reads unsaved records again from the last checkpoint: nothing is lost or counted twice.
            try:
                self._send(checkpoint.partition)
                self._store.save([checkpoint])
            except FencedOut as error:
                _log.info("partition revoked unsaved", partition=checkpoint.partition, reason=str(error))
            except (StoreUnavailable, *_SOURCE_FAILURES) as error:
                # A later checkpoint of a partition must never be saved without the one before it.
                _log.info("partitions revoked unsaved", partitions=sorted(numbers), reason=str(error))
                break
        self._unclaimed -= numbers
        self._forget(numbers)

    def _forget(self, numbers: frozenset[int]) -> None:
        for number in numbers:
            self._partitions.pop(number, None)
            self._unsent.pop(number, None)
            self._alignment.forget(number)
        self._held = {where: batch for where, batch in self._held.items() if where.partition not in numbers}
        self._paused = frozenset(paused for paused in self._paused if paused.partition not in numbers)

    def _checkpoint_when_due(self) -> None:
        if self._unsaved:
            if self._save_retry.due:
                self._save()
            return
        waited = self._clock.monotonic() - self._last_checkpoint
        rows = sum(partition.unsaved_rows for partition in self._partitions.values())
        if self._round is None and (
            waited >= max(self._checkpoint_seconds, self._pause_seconds) or rows >= _ROWS_BETWEEN_CHECKPOINTS
        ):
            self._round = self._new_round()
        if self._round is None:
            return
        began = self._clock.monotonic()
        with span("checkpoint", rows=rows):
            self._checkpoint_partitions(self._round, until=began + _SLICE_SECONDS)
            self._save()
        self._last_checkpoint = self._clock.monotonic()
        self._round.seconds += self._last_checkpoint - began
        if not self._round.left:
            self._pause_seconds = min(_READING_SHARE * self._round.seconds, _LONGEST_SECONDS)
            self._round = None

    def _new_round(self, *, summarise: bool = False) -> "_Round":
        """Begin a checkpoint of all partitions."""
        now = self._clock.monotonic()
        end_names = now - self._last_summary >= _SUMMARY_SECONDS
        summarise |= end_names
        if summarise:
            self._last_summary = now
        return _Round(deque(self._partitions), summarise=summarise, end_names=end_names)

    def _checkpoint_partitions(self, round_: "_Round", *, until: float = math.inf) -> None:
        """Make the checkpoints of the partitions that are left, one at least, until the clock shows this time.

        What waits for the store ends it, too: a partition's checkpoint has to be saved before its next one.
        """
        stopped: Collection[str] | None = None
        with suppress(StoreUnavailable):  # the save says so
            elsewhere = self._read_elsewhere()
            for partition in self._partitions.values():
                partition.note_elsewhere(elsewhere)
            if round_.end_names:
                clocks, kept_ms = self._store.clocks(), max(self._partition_settings.kept_ms.values())
                stopped = clocks.keys() - running(clocks, self._partition_settings.policy, kept_ms + _NOTICE_MS).keys()
        rows = 0
        while round_.left:
            number = round_.left.popleft()
            if number not in self._partitions:
                continue  # a save has found that another process claimed it, or it was revoked
            partition = self._partitions[number]
            if not (round_.summarise or partition.changed()):
                continue
            rows += partition.unsaved_rows
            self._unsaved.append(self._checkpoint(number, stopped=stopped, summarise=round_.summarise))
            if rows >= _ROWS_IN_A_SAVE:
                self._save()
                if self._unsaved:
                    break  # the others are saved once these are
                rows = 0
                return_free_memory()
            if self._clock.monotonic() >= until:
                break

    def _checkpoint(self, number: int, *, stopped: Collection[str] | None = None, summarise: bool = True) -> Checkpoint:
        checkpoint = self._partitions[number].checkpoint(stopped=stopped, summarise=summarise)
        if self._send_dead_letters is not None:
            self._unsent.setdefault(number, []).extend(checkpoint.dead_letters)
        return checkpoint

    def _read_elsewhere(self) -> Elsewhere:
        """How far all partitions are. Raises StoreUnavailable."""
        read_to_ms = min((clock.read_to_ms for clock in self._store.partition_clocks().values()), default=-1)
        store = self._store
        return Elsewhere(store.model_clocks(), read_to_ms, store.backfilled_ms(), store.evidence_ms())

    def _note_ends(self) -> None:
        """Note the partitions whose logs are read to their ends."""
        lag, now = self._lag(), self._clock.monotonic()
        paused, self._ends_noted = now - self._ends_noted >= GRACE_SECONDS, now
        for number, partition in self._partitions.items():
            if paused:
                partition.note_pause()
            # The end of a paused log is not updated.
            places = {topic: TopicPartition(topic, number) for topic in self._kinds}
            at_end = {topic for topic, at in places.items() if lag.get(at) == 0 and at not in self._paused}
            partition.note_ends(now, outcomes=at_end >= self._outcome_topics, everything=at_end >= places.keys())

    def _save(self) -> None:
        """Save the waiting checkpoints. On failure they keep waiting, and nothing is read meanwhile."""
        if not self._unsaved:
            return
        began = self._clock.monotonic()
        ended = {part.partition for part in self._unsaved if part.ended_models or part.ended_strata}
        try:
            for checkpoint in self._unsaved:
                self._send(checkpoint.partition)
            self._save_or_give_up()
        except (StoreUnavailable, *_SOURCE_FAILURES) as error:
            self._save_retry.failed(error, partitions=[checkpoint.partition for checkpoint in self._unsaved])
            return
        self._save_retry.over()
        self._dead_letter_log.note(letter for checkpoint in self._unsaved for letter in checkpoint.dead_letters)
        self._unsaved = []
        self._source.commit(
            {
                TopicPartition(topic, number): offset
                for number, partition in self._partitions.items()
                for topic, offset in partition.saved_offsets.items()
            }
        )
        if ended:
            # Claimed and loaded again, without the names that have ended.
            self._unclaimed |= ended & self._partitions.keys()
            self._forget(frozenset(ended))
        self.status = replace(
            self.status,
            checkpoint_ms=self._clock.now_ms(),
            checkpoint_seconds=self._clock.monotonic() - began,
        )

    def _save_or_give_up(self) -> None:
        """Save in one transaction, and give up partitions that another process has claimed.

        These are claimed again unless the next poll revokes them.
        """
        try:
            self._store.save(self._unsaved)
        except FencedOut:
            for checkpoint in tuple(self._unsaved):
                try:
                    self._store.save([checkpoint])
                except FencedOut as error:
                    _log.warning(
                        "partition claimed by another process", partition=checkpoint.partition, detail=str(error)
                    )
                    self._fenced = str(error)
                    self._fenced_retry.failed()
                    self._forget(frozenset({checkpoint.partition}))
                    self._unclaimed.add(checkpoint.partition)
                self._unsaved.remove(checkpoint)

    def _save_all(self) -> None:
        """Save everything now."""
        if self._unsaved:
            self._save()
        if not self._unsaved:
            self._checkpoint_partitions(self._new_round(summarise=True))
            self._save()
        if self._unsaved:
            _log.warning("stopping without a last checkpoint; its records are read again at the next start")

    def _send(self, number: int) -> None:
        if self._send_dead_letters is not None and (letters := self._unsent.get(number)):
            self._send_dead_letters(letters)
            del self._unsent[number]

    def _pause_and_resume(self) -> None:
        """Pause everything while a checkpoint cannot be saved; else what is ahead, unclaimed, or waits for a schema.

        A partition that is claimed again is read from its saved offsets.
        """
        if self._unsaved:
            wanted = self._topic_partitions(self._partitions.keys() | self._unclaimed)
        else:
            ahead = self._alignment.ahead(self._lag(), self._clock.monotonic())
            wanted = ahead | self._held.keys() | self._topic_partitions(self._unclaimed)
        if wanted - self._paused:
            self._source.pause(wanted - self._paused)
        if self._paused - wanted:
            self._source.resume(self._paused - wanted)
        self._paused = wanted

    def _lag(self) -> dict[TopicPartition, int]:
        ends = self._source.end_offsets()
        return {
            where: max(end - self._partitions[where.partition].offsets[where.topic], 0)
            for where, end in ends.items()
            if where.partition in self._partitions and where.topic in self._partitions[where.partition].offsets
        }

    def _topic_partitions(self, numbers: Iterable[int]) -> frozenset[TopicPartition]:
        return frozenset(TopicPartition(topic, number) for topic in self._kinds for number in numbers)

    def _phase(self) -> tuple[Phase, str]:
        """The phase after a poll that succeeded, and its detail."""
        if self._unsaved:
            return Phase.STORE_UNAVAILABLE, self._save_retry.detail
        if self._unclaimed and self._claim_retry.detail:
            return Phase.STORE_UNAVAILABLE, self._claim_retry.detail
        if self._held:
            return Phase.SCHEMA_UNAVAILABLE, self._held_detail
        # At a start, windows are incomplete until all partitions are restored; later it stays ready while more come.
        if self._partitions and (self.status.ready or not self._unclaimed):
            return Phase.RUNNING, ""
        return Phase.STARTING, self._fenced or ("" if self._unclaimed else "no partition is assigned yet")

    def _publish(self, phase: Phase, detail: str) -> None:
        partitions = self._partitions.values()
        counters, reasons, departed = Counter[tuple[str, str]](), Counter[Reason](), Counter[str]()
        for partition in partitions:
            counters.update(partition.event_counters())
            reasons.update({Reason(reason): count for reason, count in partition.dead_letter_reasons.items()})
            departed.update(partition.departed)
        self.status = replace(
            self.status,
            phase=phase,
            detail=detail,
            partitions=frozenset(self._partitions),
            full={
                partition.number: frozenset(partition.strata.models)
                for partition in partitions
                if partition.strata.is_full
            },
            caps=join_cap_uses(use for partition in partitions for use in partition.caps.items()),
            counters=counters,
            departed=departed,
            dead_letters=reasons,
            pending=sum(partition.join.predictions for partition in partitions),
            unanswered=sum(partition.join.unanswered for partition in partitions),
            early_outcomes=sum(partition.join.early_outcomes for partition in partitions),
            lag=self._lag() if phase in {Phase.RUNNING, Phase.SCHEMA_UNAVAILABLE} else {},
            purged_offsets=self._source.purged_offsets_skipped,
            state_bytes={
                "join": sum(partition.join.nbytes for partition in partitions),
                "candidates": sum(partition.sampler.nbytes for partition in partitions),
            },
        )
