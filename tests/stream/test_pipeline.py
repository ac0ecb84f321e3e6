"""The pipeline when something around it fails: it says so, waits, and loses nothing."""

import itertools
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import structlog

from monitor.clock import Clock, ManualClock, SystemClock
from monitor.errors import (
    InstanceReplaced,
    SourceMisconfigured,
    SourceUnavailable,
    StoreUnavailable,
    TooManyDeadLetters,
)
from monitor.events.codec import Decoder
from monitor.events.encode import encode_outcome, encode_prediction
from monitor.events.log import Polled, Topics
from monitor.events.model import DeadLetter, Message, ModelPolicy, Reason
from monitor.events.strata import Caps
from monitor.sources.embedded import EmbeddedSource
from monitor.sources.embedded_log import EmbeddedLog
from monitor.store.base import Checkpoint
from monitor.store.sql import SqlStore
from monitor.stream.partition import Partition, PartitionSettings
from monitor.stream.pipeline import DeadLetterSettings, Pipeline, PipelineSettings
from monitor.stream.status import Phase
from tests import patience
from tests.patience import eventually

POLICY = ModelPolicy(horizon_ms=60_000, lateness_ms=60_000)
START_MS = 1_760_000_000_000


def every(seconds: float) -> PipelineSettings:
    return PipelineSettings(checkpoint_interval=timedelta(seconds=seconds))


SETTINGS = every(0.05)
LETTERS = DeadLetterSettings()


class Bench:
    """An embedded log, a store, and pipelines between them."""

    def __init__(self, folder: Path) -> None:
        self.log = EmbeddedLog(folder / "log", partitions=2, clock=SystemClock())

        self.database = folder / "state.db"
        self.store = SqlStore.open(f"sqlite:///{self.database}", patience_seconds=0.2, clock=SystemClock())

    def pipeline(
        self,
        settings: PipelineSettings = SETTINGS,
        send: Callable[[Sequence[DeadLetter]], None] | None = None,
        reads: type[EmbeddedSource] = EmbeddedSource,
        store: SqlStore | None = None,
        clock: Clock | None = None,
        *,
        caps: Caps | None = None,
        letters: DeadLetterSettings = LETTERS,
    ) -> Pipeline:
        return Pipeline(
            reads(self.log, Topics({"events": None})),
            store or self.store,
            Decoder(),
            partitions=PartitionSettings(policy=lambda _: POLICY, kept_ms={1_000: 3_600_000}, caps=caps or Caps()),
            settings=settings,
            dead_letters=letters,
            kinds={"events": None},
            poll_seconds=0.02,
            clock=clock or SystemClock(),
            send_dead_letters=send,
        )

    def write(self, first: int, count: int) -> None:
        messages = []
        for number in range(first, first + count):
            key = str(number).encode()
            time_ms = START_MS + number
            messages.append(Message("events", encode_prediction("m", number, time_ms, 0.5), key))
            messages.append(Message("events", encode_outcome("m", number, time_ms + 5, number % 2), key))
        self.log.write(messages)

    def write_garbage(self, count: int) -> None:
        self.log.write([Message("events", b"garbage", str(number).encode()) for number in range(count)])


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.log.close()
    made.store.close()


@contextmanager
def running(pipeline: Pipeline) -> Iterator[Pipeline]:
    thread = threading.Thread(target=pipeline.run)
    thread.start()
    try:
        yield pipeline
    finally:
        pipeline.stop()
        patience.joined(thread)


def joined(pipeline: Pipeline) -> int:
    return pipeline.status.counters.get(("outcome", "joined"), 0)


def test_it_reads_joins_saves_and_says_so(bench: Bench) -> None:
    bench.write(0, 500)
    with running(bench.pipeline()) as pipeline:
        eventually(lambda: joined(pipeline) == 500)
        eventually(lambda: pipeline.status.checkpoint_ms > 0)
        assert pipeline.status.ready
        assert pipeline.status.partitions == {0, 1}
        assert pipeline.status.records_read == 1_000
        assert pipeline.status.pending == 500
        eventually(lambda: set(pipeline.status.lag.values()) == {0})
    assert pipeline.status.phase is Phase.STOPPED
    again = bench.pipeline()
    with running(again):
        eventually(lambda: again.status.ready)
        assert joined(again) == 500
        assert again.status.records_read == 0


def test_a_store_that_is_locked_is_waited_for(bench: Bench) -> None:
    with running(bench.pipeline()) as pipeline:
        eventually(lambda: pipeline.status.ready)
        other = sqlite3.connect(bench.database, isolation_level=None, timeout=patience.PATIENCE_SECONDS)
        other.execute("BEGIN EXCLUSIVE")
        bench.write(0, 100)
        eventually(lambda: pipeline.status.phase is Phase.STORE_UNAVAILABLE)
        assert not pipeline.status.ready
        read = pipeline.status.records_read
        bench.write(100, 100)
        time.sleep(0.3)
        assert pipeline.status.records_read == read, "nothing is read while what was read cannot be saved"
        other.execute("ROLLBACK")
        other.close()
        eventually(lambda: joined(pipeline) == 200)
        eventually(lambda: pipeline.status.ready)
    again = bench.pipeline()
    with running(again):
        eventually(lambda: joined(again) == 200)


def test_a_partition_claimed_by_another_is_given_up_and_claimed_again(bench: Bench) -> None:
    with running(bench.pipeline()) as pipeline:
        eventually(lambda: pipeline.status.ready)
        bench.store.claim(0)
        bench.store.claim(1)
        bench.write(0, 100)
        # What it had read and could not save it reads again: nobody else was assigned the partitions.
        eventually(lambda: joined(pipeline) == 100 and pipeline.status.ready)
        assert pipeline.status.partitions == {0, 1}
        eventually(lambda: sum(bench.store.saved_offsets().values()) == 200)
    again = bench.pipeline()
    with running(again):
        eventually(lambda: again.status.ready)
        assert joined(again) == 100


class Refused(EmbeddedSource):
    """A source that is refused until somebody puts the password right."""

    right = threading.Event()

    def poll(self, timeout_seconds: float, max_records: int) -> Polled:
        if not self.right.is_set():
            raise SourceMisconfigured("Kafka refuses the log-in: check sasl_plain_password")
        return super().poll(timeout_seconds, max_records)


def test_a_refusal_is_retried_until_somebody_has_put_it_right(bench: Bench) -> None:
    Refused.right.set()
    with running(bench.pipeline(reads=Refused)) as pipeline:
        bench.write(0, 50)
        eventually(lambda: joined(pipeline) == 50 and set(pipeline.status.lag.values()) == {0})
        Refused.right.clear()
        eventually(lambda: pipeline.status.phase is Phase.SOURCE_UNAVAILABLE)
        assert pipeline.status.detail == "Kafka refuses the log-in: check sasl_plain_password"
        bench.write(50, 50)
        assert pipeline.status.lag == {}, "what waits is not known"
        Refused.right.set()
        eventually(lambda: joined(pipeline) == 100 and pipeline.status.ready)
        eventually(lambda: set(pipeline.status.lag.values()) == {0})


def test_another_process_of_the_same_name_ends_the_run(bench: Bench) -> None:
    class Replaced(EmbeddedSource):
        def poll(self, timeout_seconds: float, max_records: int) -> Polled:
            raise InstanceReplaced("another process has joined the consumer group as replica-0")

    pipeline = bench.pipeline(reads=Replaced)
    pipeline.run()
    assert (pipeline.status.phase, type(pipeline.failure)) == (Phase.FAILED, InstanceReplaced)


def test_after_a_long_checkpoint_a_backlog_is_read_first(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, save = ManualClock(), bench.store.save
    saved: list[float] = []

    def slow(checkpoints: Sequence[Checkpoint]) -> None:
        clock.advance(5)
        save(checkpoints)
        saved.append(clock.monotonic())

    monkeypatch.setattr(bench.store, "save", slow)
    bench.write(0, 60)
    settings = PipelineSettings(checkpoint_interval=SETTINGS.checkpoint_interval, max_poll_records=10)
    pipeline = bench.pipeline(settings, clock=clock)

    def saves_after(steps: int) -> int:
        for _ in range(steps):
            pipeline.step()
            clock.advance(1)
        return len(saved)

    assert [saves_after(5) for _ in range(3)] == [1, 1, 2]
    assert pipeline.status.records_read == 120
    pipeline.stop()
    pipeline.run()


def test_too_many_dead_letters_stop_consumption_before_the_topic_is_drained(bench: Bench) -> None:
    settings = PipelineSettings(checkpoint_interval=SETTINGS.checkpoint_interval, max_poll_records=100)
    bench.write(0, 500)
    bench.write_garbage(10_000)
    pipeline = bench.pipeline(settings, letters=DeadLetterSettings(max_ratio=0.5, block=200))
    pipeline.run()
    assert pipeline.status.phase is Phase.FAILED
    assert isinstance(pipeline.failure, TooManyDeadLetters)
    assert "not_json" in pipeline.status.detail
    assert "monitor dead-letters list" in pipeline.status.detail
    read = sum(pipeline.status.counters.values())
    assert read < 3_000
    assert bench.store.count_dead_letters() == {"not_json": read - 1_000}


def test_a_few_dead_letters_do_not(bench: Bench) -> None:
    letters = DeadLetterSettings(max_ratio=0.5, block=50)
    for number in range(0, 500, 10):
        bench.write(number, 10)
        bench.write_garbage(5)
    with running(bench.pipeline(letters=letters)) as pipeline:
        eventually(lambda: joined(pipeline) == 500)
        assert pipeline.status.dead_letters == {Reason.NOT_JSON: 250}


def test_events_of_refused_models_are_logged_and_the_first_of_each_model_is_kept(bench: Bench) -> None:
    bench.write(0, 100)
    for model in ("b", "c"):
        events = [encode_prediction(model, number, START_MS, 0.5) for number in range(200)]
        bench.log.write([Message("events", event, b"k") for event in events])
    with structlog.testing.capture_logs() as logs, running(bench.pipeline(caps=Caps(models=1))) as pipeline:
        eventually(lambda: pipeline.status.counters.get(("prediction", "refused")) == 400)
        eventually(lambda: bench.store.count_dead_letters() == {"refused_model": 2})
        # They count neither as invalid nor to the ceiling of these.
        assert pipeline.status.phase is Phase.RUNNING
        assert pipeline.status.counters["unknown", "dead_letter"] == 0
        assert not pipeline.status.dead_letters
        eventually(lambda: pipeline.status.full == {0: {"m"}, 1: {"m"}})
        assert pipeline.status.partition_count == 2
    letters = [stored.letter for stored in bench.store.dead_letters()]
    assert [letter.value for letter in letters] == [encode_prediction(model, 0, START_MS, 0.5) for model in ("b", "c")]
    for letter, model in zip(letters, "bc", strict=True):
        assert f"model '{model}' is one more than may live in a partition undeclared (caps.models)" in letter.detail
    (line,) = [line for line in logs if line["event"].startswith("events of models that are refused")]
    assert line["detail"] == letters[0].detail
    assert not any("no valid events" in line["event"] for line in logs)


def test_dead_letters_that_cannot_be_sent_hold_the_checkpoint_and_are_sent_at_last(bench: Bench) -> None:
    sent: list[DeadLetter] = []
    refused: list[object] = []
    answers = threading.Event()

    def send(letters: Sequence[DeadLetter]) -> None:
        if not answers.is_set():
            refused.append(letters)
            raise SourceUnavailable("the dead-letter topic does not answer")
        sent.extend(letters)

    bench.write_garbage(20)
    with running(bench.pipeline(send=send)) as pipeline:
        eventually(lambda: pipeline.status.phase is Phase.STORE_UNAVAILABLE and len(refused) >= 2)
        assert bench.store.count_dead_letters() == {}
        answers.set()
        eventually(lambda: bench.store.count_dead_letters() == {"not_json": 20})
    assert sorted(letter.offset for letter in sent) == sorted(
        letter.letter.offset for letter in bench.store.dead_letters(limit=100)
    )
    assert {letter.value for letter in sent} == {b"garbage"}


def test_a_programming_error_ends_the_run_and_says_so(bench: Bench) -> None:
    def broken(_: object) -> None:
        raise RuntimeError("a bug")

    bench.write_garbage(1)
    pipeline = bench.pipeline(send=broken)
    pipeline.run()
    assert pipeline.status.phase is Phase.FAILED
    assert pipeline.status.detail == "unexpected RuntimeError: a bug"


class Watched(SqlStore):
    """A store that notes its saves, takes its time for each, and fails where it is told to."""

    clock: ManualClock
    seconds = 0.0
    fails = range(0)
    """Numbers of the saves that fail."""
    saves: list[tuple[float, list[int]]]
    """When each began, and the partitions that it saved."""

    def save(self, checkpoints: Sequence[Checkpoint]) -> None:
        self.saves.append((self.clock.monotonic(), [checkpoint.partition for checkpoint in checkpoints]))
        self.clock.advance(self.seconds)
        if len(self.saves) - 1 in self.fails:
            raise StoreUnavailable("the database does not answer")
        super().save(checkpoints)


@pytest.fixture
def watched(bench: Bench) -> Iterator[Watched]:
    with Watched.open(f"sqlite:///{bench.database}", clock=SystemClock()) as store:
        store.clock, store.saves = ManualClock(), []
        yield store


def test_dead_letters_are_sent_once_however_long_the_store_is_away(bench: Bench, watched: Watched) -> None:
    sent: list[tuple[int, int]] = []

    def send(letters: Sequence[DeadLetter]) -> None:
        sent.extend((letter.partition, letter.offset) for letter in letters)

    bench.write_garbage(20)
    pipeline = bench.pipeline(store=watched, clock=watched.clock, send=send)
    while pipeline.status.records_read < 20:
        pipeline.step()
    watched.fails = range(120)
    while len(watched.saves) <= 120:
        assert bench.store.count_dead_letters() == {}
        watched.clock.advance(60.0)
        pipeline.step()
    pipeline.stop()
    pipeline.run()
    stored = [(one.letter.partition, one.letter.offset) for one in bench.store.dead_letters(limit=1_000)]
    assert sorted(sent) == sorted(stored)
    assert len(sent) == 20


@pytest.mark.parametrize(("seconds", "apart"), [(0.0, 0.5), (1.0, 5.0), (60.0, 90.0)])
def test_where_saving_takes_long_at_least_four_fifths_of_the_time_are_for_reading(
    bench: Bench, watched: Watched, seconds: float, apart: float
) -> None:
    watched.seconds = seconds
    pipeline = bench.pipeline(every(0.5), store=watched, clock=watched.clock)
    for number in range(1_000):
        bench.write(number, 1)
        pipeline.step()
        watched.clock.advance(0.125)
        if len(watched.saves) == 4:
            break
    pipeline.stop()
    pipeline.run()
    began = [at for at, _ in watched.saves[:4]]
    # The first checkpoint is made before anything is known of how long one takes.
    gaps = [later - earlier for earlier, later in itertools.pairwise(began[1:])]
    assert gaps == pytest.approx([apart, apart], abs=0.25)


def test_the_log_is_read_between_the_checkpoints_of_two_partitions(
    bench: Bench, watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = Partition.checkpoint

    def slow(partition: Partition, **options: Any) -> Checkpoint:
        watched.clock.advance(1.0)
        return checkpoint(partition, **options)

    monkeypatch.setattr(Partition, "checkpoint", slow)
    bench.write(0, 100)
    pipeline = bench.pipeline(every(3_600.0), store=watched, clock=watched.clock)
    while pipeline.status.records_read < 200:
        pipeline.step()
    watched.clock.advance(3_600.0)
    pipeline.step()
    assert [saved for _, saved in watched.saves] == [[0]]
    bench.write(100, 50)
    pipeline.step()
    assert [saved for _, saved in watched.saves] == [[0], [1]]
    # What was read between them is in the second one, and the next begins an hour later.
    assert pipeline.status.records_read == 300
    pipeline.step()
    assert len(watched.saves) == 2
    pipeline.stop()
    pipeline.run()
    with running(bench.pipeline()) as again:
        eventually(lambda: again.status.ready)
        eventually(lambda: joined(again) == 150)


@pytest.mark.parametrize(("fails_at", "expected"), [(-1, [[0], [1]]), (0, [[0], [0], [1]])])
def test_partitions_of_many_rows_are_saved_one_after_the_other_and_a_failure_loses_none(
    bench: Bench, watched: Watched, fails_at: int, expected: list[list[int]]
) -> None:
    pairs = 120_000
    bench.write(0, pairs)
    pipeline = bench.pipeline(every(3_600.0), store=watched, clock=watched.clock)
    while pipeline.status.records_read < 2 * pairs:
        pipeline.step()
    assert watched.saves == []
    watched.fails = range(fails_at, fails_at + 1)
    for _ in range(4):
        watched.clock.advance(3_600.0)
        pipeline.step()
    pipeline.stop()
    pipeline.run()
    # One that failed is tried again before the other.
    assert [saved for _, saved in watched.saves][: len(expected)] == expected
    again = bench.pipeline()
    with running(again):
        eventually(lambda: again.status.ready)
        assert joined(again) == pairs
        assert again.status.records_read == 0
