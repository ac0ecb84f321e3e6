"""Replicas of the pipeline whose every step, pause and failure a test decides.

The group, its log and the clock are made by hand; the pipelines and the store are real. Each replica runs in a thread
of its own, and only from one switch point to the next: before and after every call of the store, and around the
question whether a partition is still assigned. So a test can try any interleaving, and repeat it.
"""

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

import sqlalchemy as sa
from kafka import TopicPartition as KafkaTopicPartition

from monitor.clock import ManualClock
from monitor.errors import StoreUnavailable
from monitor.events.codec import Decoder
from monitor.events.encode import encode_outcome, encode_prediction
from monitor.events.log import Polled
from monitor.events.model import ALL, UNVERSIONED, ModelPolicy, RecordBatch, SeriesKey, TopicPartition
from monitor.scores import GridTable
from monitor.sources.kafka import Membership
from monitor.store.address import connect
from monitor.store.base import Checkpoint, PartitionState
from monitor.store.database import Database
from monitor.store.sql import SqlStore
from monitor.stream.partition import PartitionSettings
from monitor.stream.pipeline import DeadLetterSettings, Pipeline, PipelineSettings
from tests.patience import PATIENCE_SECONDS
from tests.stream.published import Pane, PublishedPanes
from tests.stream.support import START_MS, TOPIC, LogRecord

POLICY: Final = ModelPolicy(horizon_ms=200, lateness_ms=100)
PANE_MS: Final = 100
PARTITIONS: Final = PartitionSettings(policy=lambda _: POLICY, kept_ms={PANE_MS: 3_600_000})
SETTINGS: Final = PipelineSettings(checkpoint_interval=timedelta(seconds=0.3), max_poll_records=4)
MAX_POLL_SECONDS: Final = 5.0


def events(pairs: int) -> list[LogRecord]:
    """So many predictions, a pane of time apart, each followed by its outcome."""
    records: list[LogRecord] = []
    for number in range(pairs):
        time_ms = START_MS + PANE_MS * number
        for value in (encode_prediction("m", number, time_ms, 0.5), encode_outcome("m", number, time_ms + 5, 1)):
            records.append(LogRecord(len(records), time_ms, value))
    return records


def panes(pairs: int) -> PublishedPanes:
    """What these come to: each is in a pane of its own."""
    series = SeriesKey("m", UNVERSIONED, ALL)
    return {(START_MS + PANE_MS * at, series): Pane(GridTable.from_events([0.5], [1])) for at in range(pairs)}


class Group:
    """A consumer group as Kafka keeps it: members that do not poll are removed, and everybody joins anew."""

    def __init__(self, clock: ManualClock, log: Mapping[int, Sequence[LogRecord]]) -> None:
        self.clock = clock
        self.log = log
        self.generation = 0
        self.assignment: dict[str, frozenset[int]] = {}
        self._polled: dict[str, float] = {}
        self._rejoined: set[str] | None = None
        """Members that have joined the generation to come; None while there is none."""

    def current(self, name: str) -> int | None:
        """The generation, where this is a member of it and no other is about to come."""
        self._remove_silent()
        return self.generation if name in self._polled and self._rejoined is None else None

    def is_member(self, name: str) -> bool:
        """Whether the group counts on it."""
        self._remove_silent()
        return name in self._polled

    def poll(self, name: str) -> None:
        """Hear of a member, or let it join."""
        self._remove_silent()
        if name not in self._polled and self._rejoined is None:
            self._rejoined = set()
        self._polled[name] = self.clock.monotonic()
        if self._rejoined is not None:
            self._rejoined.add(name)
            self._begin_generation()

    def leave(self, name: str) -> None:
        """Let a member go."""
        if self._polled.pop(name, None) is not None:
            self._rejoined = (self._rejoined or set()) - {name}
            self._begin_generation()

    def _remove_silent(self) -> None:
        now = self.clock.monotonic()
        for name, polled in tuple(self._polled.items()):
            if now - polled > MAX_POLL_SECONDS:
                self.leave(name)

    def _begin_generation(self) -> None:
        members = sorted(self._polled)
        if self._rejoined is None or not members or self._rejoined < set(members):
            return
        self._rejoined = None
        self.generation += 1
        numbers = sorted(self.log)
        self.assignment = {
            name: frozenset(numbers[at * len(numbers) // len(members) : (at + 1) * len(numbers) // len(members)])
            for at, name in enumerate(members)
        }


class Ended(BaseException):
    """Ends a replica's thread, wherever it is: as a crash."""


class Steps:
    """Runs work in a thread, from one switch point to the next."""

    def __init__(self) -> None:
        self._go, self._paused = threading.Semaphore(0), threading.Semaphore(0)
        self._killed = False
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.alive = True

    def work(self) -> None:
        """What is done; calls :meth:`switch` where others may come in between."""
        raise NotImplementedError

    def switch(self) -> None:
        """Let others come in between."""
        self._paused.release()
        self._go.acquire()
        if self._killed:
            raise Ended

    def go(self) -> None:
        """Run to the next switch point, or to the end. Raises what the work raised."""
        if not self.alive:
            return
        if self._thread.ident is None:
            self._thread.start()
        self._go.release()
        assert self._paused.acquire(timeout=PATIENCE_SECONDS)
        if self._error is not None:
            raise self._error

    def kill(self) -> None:
        """End where it stands."""
        self._killed = True
        self.go()

    def _run(self) -> None:
        self._go.acquire()
        try:
            if not self._killed:
                self.work()
        except Ended:
            pass
        except BaseException as error:  # noqa: BLE001 - raised again in the test's own thread
            self._error = error
        self.alive = False
        self._paused.release()


@dataclass
class Weather:
    """What becomes of calls to the database."""

    away: bool = False
    """They fail, after some seconds."""
    calls_to_fail: int = 0
    """So many of the next calls fail at once."""
    hangs: bool = False
    """They wait, and go through once it is over."""
    answers_to_lose: int = 0
    """So many of the next transactions are committed, and look as if they had failed."""
    claims: list[tuple[int, int]] = field(default_factory=list)
    """(partition, generation of the claimant) of each claim, in the order of the database."""
    saves: int = 0
    """Saves that took place, as far as the replicas know."""


class _LossyDatabase(Database):
    weather: Weather

    @contextmanager
    def writing(self, *, idle_seconds: float | None = None) -> Iterator[sa.Connection]:
        with super().writing(idle_seconds=idle_seconds) as connection:
            yield connection
        if self.weather.answers_to_lose:
            self.weather.answers_to_lose -= 1
            raise StoreUnavailable("the answer to COMMIT was lost")


class ReplicaStore(SqlStore):
    """The store of a replica, before and after each of whose calls others may come in between."""

    def __init__(self, replica: "Replica", url: str, clock: ManualClock, weather: Weather) -> None:
        super().__init__(connect(url, PATIENCE_SECONDS, clock), 100)
        self.database.__class__ = _LossyDatabase
        self.database.weather = weather  # type: ignore[attr-defined]
        self._replica, self._clock, self._weather = replica, clock, weather

    def claim(self, partition: int, still_assigned: Callable[[], bool] = lambda: True) -> int:
        """Claim for real; who claims is noted."""
        before = self._weather.answers_to_lose
        self._reach()
        try:
            epoch = super().claim(partition, still_assigned)
        except StoreUnavailable:
            if self._weather.answers_to_lose < before:
                self._replica.note_claim(partition)
            raise
        self._replica.note_claim(partition)
        self._replica.switch()
        return epoch

    def load(self, partition: int) -> PartitionState:
        """Load for real."""
        self._reach()
        return super().load(partition)

    def save(self, checkpoints: Sequence[Checkpoint]) -> None:
        """Save for real."""
        if checkpoints:
            self._reach()
            super().save(checkpoints)
            self._weather.saves += 1
            self._replica.switch()

    def _reach(self) -> None:
        self._replica.switch()
        while self._weather.hangs:
            self._replica.switch()
        if self._weather.calls_to_fail:
            self._weather.calls_to_fail -= 1
            raise StoreUnavailable("a call failed")
        if self._weather.away:
            self._clock.advance(2)
            raise StoreUnavailable("the database is away")


class Replica(Steps):
    """One replica: a pipeline, its membership of the group, and its connection to the database."""

    def __init__(self, name: str, group: Group, url: str, weather: Weather) -> None:
        super().__init__()
        self.name = name
        self._group, self._weather = group, weather
        self._store = ReplicaStore(self, url, group.clock, weather)
        self._membership = Membership(lambda _: None, lambda: group.generation)
        self._generation: int | None = None
        self._at: dict[int, int] = {}
        self._held: set[int] = set()
        self._leaving = False
        self.purged_offsets_skipped = 0
        self.pipeline = Pipeline(
            self,
            self._store,
            Decoder(),
            partitions=PARTITIONS,
            settings=SETTINGS,
            dead_letters=DeadLetterSettings(),
            kinds={TOPIC: None},
            clock=group.clock,
        )

    def work(self) -> None:
        """Turn after turn."""
        while not self._leaving:
            self.pipeline.step()
            self.switch()
        self.pipeline.stop()
        self.pipeline.run()

    def leave(self) -> None:
        """Stop in order after the turn under way."""
        self._leaving = True

    def kill(self) -> None:
        """End where it stands, as by SIGKILL."""
        super().kill()
        self._store.close()

    # ------------------------------------------------------------------ the source

    def poll(self, timeout_seconds: float, max_records: int) -> Polled:
        """What the group and the log bring, without waiting: the test turns the clock."""
        del timeout_seconds
        if self._generation is not None and not self._group.is_member(self.name):
            self._membership.lose_all()
            self._generation = None
        self._group.poll(self.name)
        generation = self._group.current(self.name)
        if generation is not None and generation != self._generation:
            self._generation = generation
            numbers = self._group.assignment[self.name]
            self._membership.on_partitions_assigned([KafkaTopicPartition(TOPIC, number) for number in numbers])
        revoked, assigned = self._membership.pop_changes()
        for number in revoked:
            self._at.pop(number, None)
            self._held.discard(number)
        batches = [] if revoked or assigned else list(self._read(max_records))
        return Polled(batches, revoked, assigned)

    def _read(self, max_records: int) -> Iterator[RecordBatch]:
        for number, at in self._at.items():
            records = self._group.log[number][at : at + max_records]
            if records and number not in self._held:
                self._at[number] = at + len(records)
                yield RecordBatch(TOPIC, number, records, at + len(records))

    def start(self, partition: int, offsets: Mapping[str, int]) -> None:
        """Read from here on."""
        if partition in self._membership.ours:
            self._at[partition] = offsets.get(TOPIC, 0)
            self._held.discard(partition)

    def still_assigned(self) -> bool:
        """Ask the group."""
        self.switch()
        generation = self._group.current(self.name)
        self.switch()
        return generation is not None and generation == self._generation

    @property
    def partitions(self) -> Collection[int]:
        """All of the log."""
        return self._group.log.keys()

    def topic_ids(self, known: Mapping[str, str]) -> Mapping[str, str]:
        """None."""
        return {}

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Bring nothing from these."""
        self._held.update(part.partition for part in partitions)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Bring records from these again."""
        self._held.difference_update(part.partition for part in partitions)

    def end_offsets(self) -> Mapping[TopicPartition, int]:
        """Where the partitions that are read end."""
        return {TopicPartition(TOPIC, number): len(self._group.log[number]) for number in self._at}

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Nobody looks at it."""

    def close(self) -> None:
        """Leave the group."""
        self._group.leave(self.name)

    def note_claim(self, partition: int) -> None:
        """Note that this replica has claimed a partition."""
        self._weather.claims.append((partition, self._generation or 0))
