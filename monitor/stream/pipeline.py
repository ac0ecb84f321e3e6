"""The pipeline: polls, joins, checkpoints, and follows the partitions as they come and go."""

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import structlog

from monitor.clock import Clock
from monitor.errors import (
    FencedOut,
    MonitorError,
    SourceMisconfigured,
    SourceUnavailable,
    StoreUnavailable,
    TooManyDeadLetters,
)
from monitor.events.model import DeadLetter, Kind, Reason, RecordBatch
from monitor.outage_log import Outage
from monitor.sources.base import Source, TopicPartition
from monitor.store.base import Checkpoint, StateStore
from monitor.stream.alignment import Alignment
from monitor.stream.caught_up import CaughtUp
from monitor.stream.dead_letter_log import DeadLetterLog
from monitor.stream.partition import EventDecoder, Partition, PartitionSettings
from monitor.stream.reader import PaneView
from monitor.stream.retry import Retry
from monitor.stream.status import Phase, PipelineStatus

_log = structlog.get_logger(__name__)

_SOURCE_FAILURES: Final = (SourceUnavailable, SourceMisconfigured)
"""What is tried again: time fixes the one, and a person the other (a password, an ACL, a topic), without a restart."""

_ROWS_BETWEEN_CHECKPOINTS: Final = 1_000_000
"""However short the interval seems, no more than this many rows wait to be saved."""


@dataclass(frozen=True, slots=True)
class DeadLetterCeiling:
    """When bad events are too many to go on: a bad deploy must not drain the topic into the dead letters.

    Attributes
    ----------
    ratio
        Share of bad messages above which consumption stops.
    messages
        The share is taken over blocks of at least this many messages.
    """

    ratio: float = 0.5
    messages: int = 1000


@dataclass(frozen=True, slots=True)
class PipelineSettings:
    """How the pipeline runs.

    Attributes
    ----------
    kinds
        Topic -> type of its events when they name none, or None.
    poll_seconds, max_poll_records
        How long a poll waits for the first record, and how many it brings at the most.
    checkpoint_seconds
        How often the state is saved while events come.
    alignment_seconds
        By how much one topic of a partition may run ahead of another, in the time at which records were written.
    """

    kinds: Mapping[str, Kind | None]
    poll_seconds: float = 0.2
    max_poll_records: int = 20_000
    checkpoint_seconds: float = 2.0
    alignment_seconds: float = 60.0
    dead_letter_ceiling: DeadLetterCeiling = DeadLetterCeiling()


class Pipeline:
    """Runs the way of an event, from the source to the store. :meth:`run` is the thread that owns the source.

    Parameters
    ----------
    source, store
        Where events come from and where state is kept.
    decoder
        Turns bytes into columns.
    partitions
        What all partitions have in common.
    settings
        How the pipeline runs.
    clock
        For intervals and backoff alone: what is computed depends on the events' own time.
    send_dead_letters
        Called with the dead letters of a checkpoint before it is saved; may raise SourceUnavailable or
        SourceMisconfigured, and is then called again. So a letter can be sent twice after a crash, and is never lost.
    """

    def __init__(
        self,
        source: Source,
        store: StateStore,
        decoder: EventDecoder,
        *,
        partitions: PartitionSettings,
        settings: PipelineSettings,
        clock: Clock,
        send_dead_letters: Callable[[Sequence[DeadLetter]], None] | None = None,
    ) -> None:
        self._source = source
        self._store = store
        self._decoder = decoder
        self._partition_settings = partitions
        self._settings = settings
        self._clock = clock
        self._send_dead_letters = send_dead_letters
        self._partitions: dict[int, Partition] = {}
        self._unclaimed: set[int] = set()
        """Partitions that are assigned to this replica and not claimed and restored yet."""
        self._unsaved: list[Checkpoint] = []
        self._alignment = Alignment(sorted(settings.kinds), round(settings.alignment_seconds * 1000))
        # In one log, the outcomes stand where they came.
        self._outcome_topics = [
            topic for topic, kind in settings.kinds.items() if len(settings.kinds) > 1 and kind is not Kind.PREDICTION
        ]
        self._caught_up: dict[int, CaughtUp] = {}
        self._paused: frozenset[TopicPartition] = frozenset()
        self._source_retry, self._save_retry = Retry(clock), Retry(clock)
        self._claim_retry, self._fenced_retry = Retry(clock), Retry(clock)
        self._source_outage = Outage(_log, "the source does not answer", "the source answers again", clock)
        self._claim_outage = Outage(_log, "the store does not answer", "the store answers again", clock)
        self._checkpoint_outage = Outage(
            _log, "the checkpoint could not be saved and is tried again", "checkpoints are saved again", clock
        )
        self._dead_letters_told = DeadLetterLog(_log, clock)
        self._last_checkpoint = clock.monotonic()
        self._block = Counter[str]()
        self._fenced = ""
        self._stopping = threading.Event()
        self.panes = PaneView()
        self.status = PipelineStatus()
        self.failure: Exception | None = None
        """Why :meth:`run` returned by itself: a MonitorError where an operator has to mend something."""

    def stop(self) -> None:
        """Ask :meth:`run` to finish its batch, save, leave and return. Any thread."""
        self._stopping.set()

    def run(self) -> None:
        """Run until :meth:`stop`, or until something happens that waiting does not mend.

        Returns in both cases; ``status`` says which: Phase.STOPPED, or Phase.FAILED with the reason.
        """
        phase, detail = Phase.STOPPED, ""
        try:
            while not self._stopping.is_set():
                self.step()
            self._save_all()
        except MonitorError as error:
            phase, detail, self.failure = Phase.FAILED, str(error), error
            _log.error("the pipeline stopped", error=type(error).__name__, detail=detail)
        except Exception as error:  # noqa: BLE001 - the thread ends here; the status must say why
            phase, detail, self.failure = Phase.FAILED, f"unexpected {type(error).__name__}: {error}", error
            _log.exception("the pipeline failed")
        finally:
            self._source.close()
            self._publish(phase, detail)

    def step(self) -> None:
        """One turn: poll, apply what came, restore a partition that is assigned, save when it is time.

        No more than one partition is restored between two polls, and a store that does not answer is not waited for:
        the group takes a member that does not poll for dead.
        """
        poll_seconds = 0.0 if self._may_claim else self._settings.poll_seconds
        try:
            polled = self._source.poll(poll_seconds, self._settings.max_poll_records)
        except _SOURCE_FAILURES as error:
            self._publish(Phase.SOURCE_UNAVAILABLE, str(error))
            self._checkpoint_when_due()
            pause_seconds = self._source_retry.failed()
            self._source_outage.failed(error, retry_seconds=pause_seconds)
            self._stopping.wait(pause_seconds)
            return
        self._source_outage.over()
        self._source_retry.over()
        if polled.revoked:
            self._hand_over(polled.revoked)
        if polled.assigned:
            self._unclaimed |= polled.assigned
            self._fenced_retry.over()
        for batch in polled.batches:
            self._apply(batch)
        if self._may_claim:
            self._claim(min(self._unclaimed))
        self._note_caught_up()
        self._checkpoint_when_due()
        self._publish(*self._phase())
        self._pause_and_resume()

    def _apply(self, batch: RecordBatch) -> None:
        partition = self._partitions.get(batch.partition)
        if partition is None:
            return  # it was lost to another process; its records are that one's
        dead = partition.apply(batch, self._decoder, self._settings.kinds.get(batch.topic))
        if batch.records:
            where = TopicPartition(batch.topic, batch.partition)
            self._alignment.note(where, batch.records[-1].timestamp, self._clock.monotonic())
        self.status = replace(self.status, records_read=self.status.records_read + len(batch.records))
        self._block.update(messages=len(batch.records), dead=dead)
        ceiling = self._settings.dead_letter_ceiling
        if self._block["messages"] >= ceiling.messages:
            ratio = self._block["dead"] / self._block["messages"]
            if ratio > ceiling.ratio:
                reasons = ", ".join(
                    f"{reason} {count}" for reason, count in Counter(partition.dead_letter_reasons).most_common(3)
                )
                self._save_all()
                raise TooManyDeadLetters(
                    f"{ratio:.0%} of the last {self._block['messages']} messages were no valid events, more than the "
                    f"ceiling of {ceiling.ratio:.0%} (most in partition {batch.partition}: {reasons}); look at them "
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
            epoch = self._store.claim(number, self._source.still_assigned)
            partition = Partition(number, epoch, self._partition_settings, self._store.load(number))
        except StoreUnavailable as error:
            pause_seconds = self._claim_retry.failed()
            self._claim_outage.failed(error, partition=number, retry_seconds=pause_seconds)
            return
        except FencedOut as error:
            # Either the next poll says that the partition is another's, or it is claimed again.
            pause_seconds = self._claim_retry.failed()
            _log.info("partition not claimed", partition=number, detail=str(error), retry_seconds=pause_seconds)
            return
        self._claim_outage.over()
        self._claim_retry.over()
        self._unclaimed.remove(number)
        self._partitions[number] = partition
        self._caught_up[number] = CaughtUp()
        self._fenced = ""
        self._source.start(number, partition.offsets)
        self._paused = frozenset(paused for paused in self._paused if paused.partition != number)
        _log.info("partition restored", partition=number, epoch=epoch, predictions=partition.join.predictions)
        if not self._unclaimed:
            self.panes.show(self._partitions)  # together: some of what was restored would be some of each window

    def _hand_over(self, numbers: frozenset[int]) -> None:
        """Save what is not saved yet, if the new owner has not come first, and forget the partitions."""
        leaving = [self._checkpoint(number) for number in sorted(numbers) if number in self._partitions]
        waiting = [checkpoint for checkpoint in self._unsaved if checkpoint.partition in numbers]
        self._unsaved = [checkpoint for checkpoint in self._unsaved if checkpoint.partition not in numbers]
        for checkpoint in (*waiting, *leaving):
            # The new owner reads what is not saved again, from the last checkpoint: nothing is lost or counted twice.
            try:
                self._send(checkpoint)
                self._store.save([checkpoint])
            except FencedOut as error:
                _log.info("partition handed over unsaved", partition=checkpoint.partition, reason=str(error))
            except (StoreUnavailable, *_SOURCE_FAILURES) as error:
                # A later checkpoint of a partition must never be saved without the one before it.
                _log.info("partitions handed over unsaved", partitions=sorted(numbers), reason=str(error))
                break
        self._unclaimed -= numbers
        self._forget(numbers)

    def _forget(self, numbers: frozenset[int]) -> None:
        for number in numbers:
            self._partitions.pop(number, None)
            self._caught_up.pop(number, None)
            self._alignment.forget(number)
        self._paused = frozenset(paused for paused in self._paused if paused.partition not in numbers)
        self.panes.show(self._partitions)

    def _checkpoint_when_due(self) -> None:
        if self._unsaved:
            if self._save_retry.due:
                self._save()
            return
        waited = self._clock.monotonic() - self._last_checkpoint
        rows = sum(partition.unsaved_rows for partition in self._partitions.values())
        if waited >= self._settings.checkpoint_seconds or rows >= _ROWS_BETWEEN_CHECKPOINTS:
            self._begin_checkpoint()
            self._save()

    def _begin_checkpoint(self) -> None:
        self._unsaved = [self._checkpoint(number) for number, part in self._partitions.items() if part.changed]
        self._last_checkpoint = self._clock.monotonic()

    def _checkpoint(self, number: int) -> Checkpoint:
        heard_ms = self._caught_up[number].heard_ms if self._outcome_topics else None
        return self._partitions[number].checkpoint(heard_ms)

    def _note_caught_up(self) -> None:
        """Note the partitions whose outcomes are all read."""
        if not self._outcome_topics:
            return
        lag, now = self._lag(), self._clock.monotonic()
        for number, partition in self._partitions.items():
            outcomes = [TopicPartition(topic, number) for topic in self._outcome_topics]
            # Of one that is paused, the end is not heard.
            if all(lag.get(where) == 0 and where not in self._paused for where in outcomes):
                self._caught_up[number].note(now, partition.join.predictions_ms())

    def _save(self) -> None:
        """Save what waits; on failure it goes on waiting, and nothing is read meanwhile."""
        if not self._unsaved:
            return
        began = self._clock.monotonic()
        try:
            for checkpoint in self._unsaved:
                self._send(checkpoint)
            self._save_what_is_ours()
        except (StoreUnavailable, *_SOURCE_FAILURES) as error:
            self._save_retry.failed()
            waiting = [checkpoint.partition for checkpoint in self._unsaved]
            self._checkpoint_outage.failed(error, partitions=waiting)
            return
        self._checkpoint_outage.over()
        self._save_retry.over()
        self._dead_letters_told.note(letter for checkpoint in self._unsaved for letter in checkpoint.dead_letters)
        self._unsaved = []
        self._source.commit(
            {
                TopicPartition(topic, number): offset
                for number, partition in self._partitions.items()
                for topic, offset in partition.saved_offsets.items()
            }
        )
        self.status = replace(
            self.status,
            checkpoint_ms=self._clock.now_ms(),
            checkpoint_seconds=self._clock.monotonic() - began,
        )

    def _save_what_is_ours(self) -> None:
        """Save in one transaction; a partition that another process has claimed since is given up.

        It is claimed again unless the group says, at the next poll, that it is another's.
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
        """Save everything that there is to save, now."""
        if self._unsaved:
            self._save()
        if not self._unsaved:
            self._begin_checkpoint()
            self._save()
        if self._unsaved:
            _log.warning("stopping without a last checkpoint; its records are read again at the next start")

    def _send(self, checkpoint: Checkpoint) -> None:
        if self._send_dead_letters is not None and checkpoint.dead_letters:
            self._send_dead_letters(checkpoint.dead_letters)

    def _pause_and_resume(self) -> None:
        """Bring nothing while a checkpoint cannot be saved, nor from a topic that runs ahead of its sibling.

        Nor from a partition that is to be claimed again: it is read anew from what is saved.
        """
        if self._unsaved:
            wanted = self._topic_partitions(self._partitions.keys() | self._unclaimed)
        else:
            ahead = self._alignment.ahead(self._lag(), self._clock.monotonic())
            wanted = ahead | self._topic_partitions(self._unclaimed)
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
        return frozenset(TopicPartition(topic, number) for topic in self._settings.kinds for number in numbers)

    def _phase(self) -> tuple[Phase, str]:
        """Where the pipeline stands after a poll that succeeded, and why."""
        if self._unsaved:
            return Phase.STORE_UNAVAILABLE, self._checkpoint_outage.detail
        if self._unclaimed and self._claim_outage.detail:
            return Phase.STORE_UNAVAILABLE, self._claim_outage.detail
        # At a start, some of the partitions would be some of each window; once ready, it stays so while more come.
        if self._partitions and (self.status.ready or not self._unclaimed):
            return Phase.RUNNING, ""
        return Phase.STARTING, self._fenced or ("" if self._unclaimed else "no partition is assigned yet")

    def _publish(self, phase: Phase, detail: str) -> None:
        partitions = self._partitions.values()
        counters: Counter[tuple[str, str]] = Counter()
        reasons: Counter[Reason] = Counter()
        departed: Counter[str] = Counter()
        for partition in partitions:
            counters.update(partition.event_counters())
            reasons.update({Reason(reason): count for reason, count in partition.dead_letter_reasons.items()})
            departed.update(partition.departed)
        self.status = replace(
            self.status,
            phase=phase,
            detail=detail,
            partitions=frozenset(self._partitions),
            counters=counters,
            departed=departed,
            dead_letters=reasons,
            pending=sum(partition.join.predictions for partition in partitions),
            unanswered=sum(partition.join.unanswered for partition in partitions),
            early_outcomes=sum(partition.join.early_outcomes for partition in partitions),
            lag=self._lag() if phase is Phase.RUNNING else {},
            purged_offsets=self._source.purged_offsets_skipped,
            series=len({key for partition in partitions for key in partition.panes.series}),
            state_bytes={
                "join": sum(partition.join.nbytes for partition in partitions),
                "panes": sum(partition.panes.nbytes for partition in partitions),
            },
        )
