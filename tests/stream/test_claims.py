"""Two replicas, whose partitions move while the database is away: each record is counted once, and all of them are.

Whatever comes in between, in whatever order: a claim that is out of date does not pass, an owner that was put out
claims again, and once all is well again the whole log is read.
"""

import itertools
import random
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from monitor.clock import ManualClock, SystemClock
from monitor.errors import FencedOut
from monitor.events.codec import Decoder
from monitor.events.log import Topics
from monitor.events.model import TopicPartition
from monitor.sources.kafka import KafkaSource
from monitor.sources.kafka_connection import KafkaConnection
from monitor.store import postgresql
from monitor.store.sql import SqlStore
from monitor.stream.partition import Partition
from monitor.stream.pipeline import DeadLetterSettings, Pipeline, PipelineSettings
from monitor.stream.status import Phase
from tests import patience
from tests.long import longer, short_of
from tests.patience import eventually
from tests.real.kafka import KafkaBroker
from tests.real.postgres import PostgresProcess, suspended
from tests.stream.published import Unrevised, assert_closed
from tests.stream.replicas import (
    MAX_POLL_SECONDS,
    PANE_MS,
    PARTITIONS,
    POLICY,
    Group,
    Replica,
    Weather,
    events,
    panes,
)
from tests.stream.support import START_MS, TOPIC, closings_in, tables_of

PAIRS = 12
MAX_PARTITIONS = 150


class Bench:
    """One store, and a new group with new partitions for every attempt."""

    def __init__(self, folder: Path) -> None:
        self.url = f"sqlite:///{folder}/state.db"
        self.store = SqlStore.open(self.url, clock=SystemClock())
        # Those of later attempts have not been added to a log that was read before.
        self.store.register(range(MAX_PARTITIONS))
        self._numbers = iter(range(MAX_PARTITIONS))

    def attempt(self, partitions: int) -> "Attempt":
        return Attempt(self, [next(self._numbers) for _ in range(partitions)])


class Attempt:
    """Replicas on partitions that no other attempt has."""

    def __init__(self, bench: Bench, numbers: list[int]) -> None:
        self.numbers = numbers
        self.clock = ManualClock(1_800_000_000_000)
        self.log = {number: events(PAIRS) for number in numbers}
        self.group = Group(self.clock, self.log)
        self.weather = Weather()
        self.replicas: list[Replica] = []
        self._bench = bench
        self._unrevised = Unrevised(bench.store, ["m"], numbers)
        self._compared_at = 0

    def replica(self, name: str) -> Replica:
        """One more."""
        made = Replica(name, self.group, self._bench.url, self.weather)
        self.replicas.append(made)
        return made

    def go(self, replica: Replica) -> None:
        """Let a replica go on; what is published then holds what was published before."""
        replica.go()
        if self.weather.saves > self._compared_at + 2:
            self._compared_at = self.weather.saves
            self._unrevised.look()

    def kill(self) -> None:
        """End all."""
        for replica in self.replicas:
            replica.kill()

    def settle(self) -> None:
        """Let all go on in turn, with nothing in their way, until the log is read; and see that it was counted once."""
        self.weather.away = self.weather.hangs = False
        self.weather.answers_to_lose = 0
        ends = {TopicPartition(TOPIC, number): 2 * PAIRS for number in self.numbers}
        for turn in itertools.count():
            for replica in self.replicas:
                self.go(replica)
            self.clock.advance(0.2)
            if turn % 5 == 0 and ends.items() <= self._bench.store.saved_offsets().items():
                break
            assert turn < 1_000, [
                (
                    replica.name,
                    replica.pipeline.status.phase,
                    replica.pipeline.status.detail,
                    replica.pipeline.status.partitions,
                    replica.alive,
                )
                for replica in self.replicas
            ]
        self._unrevised.look()
        for number in self.numbers:
            assert_counted_once(self._bench.store, number, PAIRS)
            generations = [generation for partition, generation in self.weather.claims if partition == number]
            assert generations == sorted(generations), "a replica claimed after one of a later generation"


def assert_counted_once(store: SqlStore, number: int, pairs: int) -> None:
    """What is saved of a partition, to the last count, and what it has published."""
    held = Partition(number, 0, PARTITIONS, store.load(number))
    counts = {fate: count for fate, count in held.event_counters().items() if count}
    assert counts == {("prediction", "accepted"): pairs, ("outcome", "joined"): pairs}
    closings = closings_in(store, "m", partition=number)
    expected = panes(pairs)
    assert_closed(closings, expected)
    # All but those of which an event may still come: the newest, and those of horizon and lateness before it.
    wait_ms = POLICY.horizon_ms + POLICY.lateness_ms
    assert closings[-1].to_ms == START_MS + (pairs - 1) * PANE_MS - wait_ms
    tables = tables_of(*(closing.panes for closing in closings), held.unsettled(cells=True))
    assert tables == {key: pane.table for key, pane in expected.items()}


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.store.close()


@pytest.mark.longer
@pytest.mark.parametrize("after", short_of([4, 2, 0], 1))
@pytest.mark.parametrize("silent", [False, True])
def test_a_partition_moves_while_its_owner_claims_it_in_every_order(bench: Bench, silent: bool, after: int) -> None:
    # One is assigned the partition and has got some way in claiming it, when another joins, to which the group moves
    # it: at once, or because the first has not polled for too long. That one gets some way too, and then the first goes
    # on. Each way from nothing done to all done.
    for before, between in [*itertools.product(range(6), range(8))][:: longer(6, 1)]:
        attempt = bench.attempt(1)
        first, second = attempt.replica("b"), attempt.replica("a")  # by its name, the second is dealt the partition
        for _ in range(before):
            first.go()
        if silent:
            attempt.clock.advance(MAX_POLL_SECONDS + 1)
        for _ in range(between):
            second.go()
        for _ in range(after):
            first.go()
        attempt.settle()
        attempt.kill()


@pytest.mark.parametrize("seed", short_of(range(60), 8))
def test_replicas_come_and_go_while_the_database_fails(bench: Bench, seed: int) -> None:
    chance = random.Random(seed)
    attempt = bench.attempt(chance.choice([1, 2, 3]))
    names = itertools.count()
    for _ in range(2):
        attempt.replica(f"{next(names)}")
    stopped: dict[Replica, int] = {}
    for at in range(chance.randrange(100, 400)):
        awake = [replica for replica in attempt.replicas if stopped.get(replica, 0) <= at]
        if awake:
            attempt.go(chance.choice(awake))
        draw = chance.random()
        if draw < 0.03:
            attempt.weather.away = not attempt.weather.away
        elif draw < 0.06:
            attempt.weather.hangs = not attempt.weather.hangs
        elif draw < 0.08:
            attempt.weather.answers_to_lose = 1
        elif draw < 0.11:
            stopped[chance.choice(attempt.replicas)] = at + chance.randrange(60)  # as by SIGSTOP
        elif draw < 0.13:
            attempt.clock.advance(chance.uniform(0, 2 * MAX_POLL_SECONDS))
        elif draw < 0.14:
            gone = attempt.replicas.pop(chance.randrange(len(attempt.replicas)))
            gone.kill()
            attempt.replica(f"{next(names)}")
        elif draw < 0.15:
            chance.choice(attempt.replicas).leave()
            attempt.replica(f"{next(names)}")
        else:
            attempt.clock.advance(chance.uniform(0, 0.3))
    attempt.settle()
    attempt.kill()


def test_an_owner_that_was_put_out_claims_again(bench: Bench) -> None:
    attempt = bench.attempt(1)
    replica = attempt.replica("a")
    for _ in range(20):
        replica.go()
    (number,) = attempt.numbers
    assert replica.pipeline.status.partitions == {number}
    SqlStore.open(bench.url, clock=SystemClock()).claim(number)  # whoever that was
    attempt.settle()
    assert replica.pipeline.status.partitions == {number}
    assert len(attempt.weather.claims) == 2
    attempt.kill()


def test_a_later_checkpoint_is_not_saved_without_the_one_before_it(bench: Bench) -> None:
    # A partition moves away while a checkpoint of it waits; of the two that are saved then, the first fails.
    attempt = bench.attempt(2)
    first = attempt.replica("b")
    while len(first.pipeline.status.partitions) < 2:
        first.go()
    attempt.weather.away = True
    while first.pipeline.status.detail != "the database is away":
        attempt.clock.advance(0.1)
        first.go()
    attempt.weather.away = False
    attempt.weather.calls_to_fail = 1
    second = attempt.replica("a")
    while attempt.weather.calls_to_fail:
        second.go()
        first.go()
    attempt.settle()
    attempt.kill()


def test_a_claim_is_void_once_the_partition_is_assigned_to_another(bench: Bench) -> None:
    assert bench.store.claim(7) == 1
    with pytest.raises(FencedOut, match="partition 7 is not claimed: it is assigned to another process"):
        bench.store.claim(7, lambda: False)
    with SqlStore.open(bench.url, clock=SystemClock()) as other:

        def another_claims() -> bool:
            return other.claim(7) > 0

        with pytest.raises(FencedOut, match="partition 7 is not claimed: another process has claimed it after epoch 1"):
            bench.store.claim(7, another_claims)
        with pytest.raises(FencedOut, match="after epoch 0"):
            bench.store.claim(8, lambda: other.claim(8) > 0)
    assert bench.store.claim(7) == 3


# ---------------------------------------------------------------------- with real parts

MANY = 500
LONGEST_POLL_INTERVALS = 7.0, 4.0
"""Of the two replicas, in seconds: the group expels a member that does not poll for so long."""


@contextmanager
def away(server: PostgresProcess, how: str) -> Iterator[None]:
    """The database is stopped, or hangs, and comes back at the end of the block."""
    if how == "hangs":
        with suspended(server):
            yield
        return
    server.stop()
    try:
        yield
    finally:
        server.start()


@pytest.mark.kafka
@pytest.mark.postgres
@pytest.mark.parametrize("how", short_of(["stopped", "hangs"], 1))
def test_a_second_replica_joins_while_the_database_is_away(
    kafka_broker: KafkaBroker, own_postgres: PostgresProcess, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    # That it hangs is noticed sooner; how long it takes otherwise is tested with the store.
    monkeypatch.setattr(postgresql, "_SILENT_SECONDS", 1.0)
    monkeypatch.setattr(postgresql, "_CHECK_SECONDS", 2)
    topic = f"moving-{how}"
    kafka_broker.create_topic(topic, 4)
    values = [record.value or b"" for record in events(MANY)]
    with ExitStack() as stack:
        url = f"{own_postgres.url(own_postgres.new_database())}?connect_timeout=2"

        def replica(name: str, max_poll_seconds: float) -> Pipeline:
            source = KafkaSource(
                # Partitions are assigned in the order of names.
                KafkaConnection((kafka_broker.bootstrap,), client_id=name),
                Topics({topic: None}),
                group_id=topic,
                session_timeout_seconds=6,
                max_poll_interval_seconds=max_poll_seconds,
                clock=SystemClock(),
            )
            store = stack.enter_context(SqlStore.open(url, patience_seconds=2, clock=SystemClock()))
            settings = PipelineSettings(checkpoint_interval=timedelta(seconds=0.2), max_poll_records=500)
            return Pipeline(
                source,
                store,
                Decoder(),
                partitions=PARTITIONS,
                settings=settings,
                dead_letters=DeadLetterSettings(),
                kinds={topic: None},
                clock=SystemClock(),
            )

        def run(pipeline: Pipeline) -> None:
            thread = threading.Thread(target=pipeline.run)
            thread.start()
            stack.callback(patience.joined, thread)
            stack.callback(pipeline.stop)

        first, second = map(replica, ("a", "b"), LONGEST_POLL_INTERVALS)
        watching = stack.enter_context(SqlStore.open(url, clock=SystemClock()))

        def read_to(end: int) -> bool:
            return set(watching.saved_offsets().values()) == {end} and len(watching.saved_offsets()) == 4

        without_database: set[str] = set()

        def both_without_database() -> bool:
            for name, pipeline in (("first", first), ("second", second)):
                if pipeline.status.phase is Phase.STORE_UNAVAILABLE:
                    without_database.add(name)
            return len(without_database) == 2

        for number in range(4):
            kafka_broker.produce(topic, values[:MANY], partition=number)
        run(first)
        eventually(lambda: read_to(MANY), shown=lambda: first.status)
        with away(own_postgres, how):
            run(second)
            for number in range(4):
                kafka_broker.produce(topic, values[MANY:], partition=number)
            # Also where it hangs: nothing comes back then, not even an error.
            eventually(both_without_database, shown=lambda: (first.status, second.status))
            # So long that the group expels a replica that waits for the database.
            time.sleep(max(LONGEST_POLL_INTERVALS) + 2)
        eventually(lambda: read_to(2 * MANY), shown=lambda: (first.status, second.status))
        for number in range(4):
            assert_counted_once(watching, number, MANY)
        eventually(lambda: len(first.status.partitions) == len(second.status.partitions) == 2)
