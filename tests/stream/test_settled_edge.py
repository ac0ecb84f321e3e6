"""The settled edge over all partitions: what holds it back, for how long, and what is final once it has passed."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest

from monitor.clock import ManualClock
from monitor.events.codec import Decoder
from monitor.events.encode import encode_labelled, encode_outcome, encode_prediction
from monitor.events.formats.base import Rules
from monitor.events.log import Polled, Topics
from monitor.events.model import Kind, Message, ModelPolicy, RecordBatch, TopicPartition
from monitor.events.strata import Caps
from monitor.sources.embedded import EmbeddedSource
from monitor.sources.embedded_log import EmbeddedLog
from monitor.store.settled import Elsewhere, Hold, HoldReason
from monitor.store.sql import SqlStore
from monitor.stream.partition import Partition, PartitionSettings
from monitor.stream.pipeline import DeadLetterSettings, Pipeline, PipelineSettings
from monitor.windows.panes import ClosedPanes, read_closings
from tests.long import short_of
from tests.stream.support import START_MS, LogRecord

SECOND_MS = 1_000
MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
POLICY = ModelPolicy(horizon_ms=HOUR_MS, lateness_ms=10 * MINUTE_MS)
WAIT_MS = POLICY.retention_ms
KEPT_MS = {SECOND_MS: 400 * DAY_MS}
PARTITIONS = PartitionSettings(policy=lambda _: POLICY, kept_ms=KEPT_MS)
ONE_TOPIC: dict[str, Kind | None] = {"events": None}
TWO_TOPICS: dict[str, Kind | None] = {"predictions": Kind.PREDICTION, "outcomes": Kind.OUTCOME}


class Stalled(EmbeddedSource):
    """Reads nothing from some partitions, as a slow fetch; others are another replica's."""

    held: frozenset[int] = frozenset()
    of_others: frozenset[int] = frozenset()
    outdated_ends: Mapping[TopicPartition, int] = MappingProxyType({})

    def end_offsets(self) -> Mapping[TopicPartition, int]:
        """The ends of the logs, as known from the last answers."""
        return {**super().end_offsets(), **self.outdated_ends}

    def poll(self, timeout_seconds: float, max_records: int) -> Polled:
        parts = [TopicPartition(topic, number) for topic in self._topics for number in self.held]
        free = [part for part in parts if part not in self._paused]
        self.pause(free)
        polled = super().poll(timeout_seconds, max_records)
        self.resume(free)
        return replace(polled, assigned=polled.assigned - self.of_others)


class Bench:
    """A log of three partitions, its pipeline, and what a reader of the store makes of it; the clock is by hand."""

    def __init__(self, folder: Path, kinds: dict[str, Kind | None], policy: ModelPolicy = POLICY) -> None:
        self.clock = ManualClock(START_MS)
        self.kinds = kinds
        self.log = EmbeddedLog(folder / "log", partitions=3, clock=self.clock)
        self.store = SqlStore.open(f"sqlite:///{folder}/state.db", clock=self.clock)
        self.source = Stalled(self.log, Topics(kinds))
        self.pipeline = Pipeline(
            self.source,
            self.store,
            Decoder(Rules(max_ahead_ms=400 * DAY_MS, clock=self.clock)),
            partitions=PartitionSettings(policy=lambda _: policy, kept_ms=KEPT_MS, caps=Caps(models=10_000)),
            settings=PipelineSettings(),
            dead_letters=DeadLetterSettings(),
            kinds=kinds,
            poll_seconds=0,
            clock=self.clock,
        )
        self.panes = ClosedPanes(KEPT_MS, lambda _: policy)

    def write(self, partition: int, *values: bytes, topic: str = "events") -> None:
        self.log.write([Message(topic, value, partition=partition) for value in values])

    def read(self, *, seconds: float = 30.0) -> None:
        """Let that time pass, in steps of a second: enough for ends of logs to count, and for checkpoints."""
        for _ in range(round(seconds)):
            self.pipeline.step()
            self.clock.advance(1.0)
        read_closings(self.store, self.panes)

    def settled(self, model: str = "m") -> int:
        """The settled edge, in milliseconds after START_MS."""
        return self.panes.edge_ms(model) - START_MS

    def close(self) -> None:
        self.pipeline.stop()
        self.pipeline.run()
        self.log.close()
        self.store.close()


@pytest.fixture
def bench(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Bench]:
    made = Bench(tmp_path, getattr(request, "param", ONE_TOPIC))
    yield made
    made.close()


def predictions(times_ms: Sequence[int], model: str = "m", name: str = "") -> list[bytes]:
    return [encode_prediction(model, f"{name}{at}", START_MS + at, 0.5) for at in times_ms]


def both(times_ms: Sequence[int], model: str = "m", name: str = "") -> list[bytes]:
    """Predictions, each followed by its outcome."""
    values = []
    for at, prediction in zip(times_ms, predictions(times_ms, model, name), strict=True):
        values += [prediction, encode_outcome(model, f"{name}{at}", START_MS + at + 1, 1)]
    return values


def test_a_partition_in_which_the_model_became_idle_holds_it_back_by_the_lateness_alone(bench: Bench) -> None:
    for number in range(3):
        bench.write(number, *both([number]))
    bench.write(0, *both([at * MINUTE_MS for at in range(1, 300)]))
    bench.read()
    assert bench.settled() == 299 * MINUTE_MS - POLICY.lateness_ms - WAIT_MS
    assert bench.panes.held_back_by("m") is None


def test_partitions_that_hold_no_event_of_the_model_hold_it_back_by_nothing(bench: Bench) -> None:
    bench.write(0, *both([at * MINUTE_MS for at in range(300)]))
    bench.write(1, *both([5], "other"))  # partition 2 is empty
    bench.read()
    assert bench.settled() == 299 * MINUTE_MS - WAIT_MS
    assert bench.panes.held_back_by("m") is None


def test_a_partition_that_was_never_read_to_its_end_holds_back_models_that_it_has_not_met(bench: Bench) -> None:
    """What is left to read may be theirs: their windows would not be final."""
    early = both(range(0, 290 * MINUTE_MS, MINUTE_MS), name="early")
    bench.write(0, *both([at * MINUTE_MS for at in range(300)]))
    bench.write(1, *early)
    bench.source.held = frozenset({1})
    bench.read(seconds=90)
    assert bench.panes.edge_ms("m") == -1
    assert bench.panes.held_back_by("m") == Hold(1, HoldReason.BEHIND, -1)
    bench.source.held = frozenset()
    bench.read()
    assert bench.settled() > 280 * MINUTE_MS - WAIT_MS
    assert bench.pipeline.status.counters["prediction", "accepted"] == 300 + 290
    assert bench.pipeline.status.counters["prediction", "late"] == 0
    first = next(series for series in bench.panes.series() if series.model == "m")
    to_ms = bench.panes.edge_ms("m")
    closed = bench.panes.sum(first, SECOND_MS, START_MS, to_ms)
    assert closed.predictions == 2 * (bench.settled() // MINUTE_MS)


def test_it_holds_them_back_by_the_newest_event_that_was_read_from_it(bench: Bench) -> None:
    bench.write(1, *both([at * MINUTE_MS for at in range(200)], "other"))
    bench.read(seconds=3)  # not long enough for its end to count
    bench.write(0, *both([at * MINUTE_MS for at in range(300)]))
    bench.write(1, *both([250 * MINUTE_MS], "other"))
    bench.source.held = frozenset({1})
    bench.read(seconds=90)
    assert bench.settled() == 199 * MINUTE_MS - WAIT_MS
    assert bench.panes.held_back_by("m") == Hold(1, HoldReason.BEHIND, START_MS + 199 * MINUTE_MS)


def test_all_assigned_partitions_count_before_the_first_of_them_is_read(bench: Bench) -> None:
    bench.pipeline.step()  # one partition is claimed between two polls
    assert bench.store.partition_clocks().keys() == {0, 1, 2}
    assert bench.pipeline.status.partitions == {0}


def test_what_a_partition_meets_behind_the_edge_is_late_and_windows_stay_final(bench: Bench) -> None:
    bench.write(0, *both([at * MINUTE_MS for at in range(300)]))
    bench.read()
    edge_ms = bench.settled()
    assert edge_ms == 299 * MINUTE_MS - WAIT_MS
    bench.write(1, *predictions([edge_ms - 1, edge_ms, edge_ms + MINUTE_MS]))
    bench.write(0, *both([500 * MINUTE_MS]))
    bench.read()
    assert bench.pipeline.status.counters["prediction", "late"] == 1
    assert bench.settled() > edge_ms
    closed = sum(
        bench.panes.sum(series, SECOND_MS, START_MS, START_MS + edge_ms).predictions for series in bench.panes.series()
    )
    assert closed == -(-edge_ms // MINUTE_MS)
    at_edge = START_MS + edge_ms
    (series,) = bench.panes.series()
    assert bench.panes.sum(series, SECOND_MS, at_edge, at_edge + SECOND_MS).predictions == 2


def test_what_a_partition_meets_within_a_checkpoint_of_another_replica_revises_a_window(bench: Bench) -> None:
    """The one exception: it knows how far the model was elsewhere at its last checkpoint, and readers know it later."""
    bench.source.of_others = frozenset({1})
    bench.store.register(range(3))
    other = Partition(1, bench.store.claim(1), PARTITIONS)
    records = [LogRecord(at, -1, value) for at, value in enumerate(both([600 * MINUTE_MS], "other"))]
    other.apply(RecordBatch("events", 1, records, len(records)), Decoder(), None)
    bench.write(0, *both([at * MINUTE_MS for at in range(300)]))
    bench.read()
    other.note_elsewhere(Elsewhere(bench.store.model_clocks()))
    bench.store.save([other.checkpoint()])
    bench.write(0, *both([310 * MINUTE_MS]))
    bench.read()
    settled = bench.settled()
    assert settled == 310 * MINUTE_MS - WAIT_MS
    (series,) = (series for series in bench.panes.series() if series.model == "m")
    revision = bench.panes.revision(series, START_MS + settled)
    assert bench.panes.sum(series, SECOND_MS, START_MS, START_MS + settled).predictions == 240
    late = both([299 * MINUTE_MS - WAIT_MS - 1, 299 * MINUTE_MS - WAIT_MS + 1, 320 * MINUTE_MS], name="met")
    met = [LogRecord(2 + at, -1, value) for at, value in enumerate(late)]
    other.apply(RecordBatch("events", 1, met, 2 + len(met)), Decoder(), None)
    bench.store.save([other.checkpoint()])
    bench.read()
    assert other.counters()["prediction", "late"] == 1
    # What it met behind the edge is counted, and the reports of that time are measured anew.
    assert bench.settled() == settled
    assert bench.panes.sum(series, SECOND_MS, START_MS, START_MS + settled).predictions == 241
    assert bench.panes.revision(series, START_MS + settled) != revision
    again = ClosedPanes(KEPT_MS, lambda _: POLICY)
    read_closings(bench.store, again)
    assert again.sum(series, SECOND_MS, START_MS, START_MS + settled).predictions == 241


def test_a_partition_that_is_added_counts_as_read_as_far_as_the_one_that_is_furthest_behind(bench: Bench) -> None:
    bench.write(0, *both([at * MINUTE_MS for at in range(300)]))
    bench.write(1, *both([200 * MINUTE_MS], "other"))
    bench.read(seconds=3)  # not long enough for ends to count
    read_to = {number: clock.read_to_ms for number, clock in bench.store.partition_clocks().items()}
    assert read_to == {0: START_MS + 299 * MINUTE_MS, 1: START_MS + 200 * MINUTE_MS, 2: -1}
    bench.write(2, *both([100 * MINUTE_MS], "other"))
    bench.read(seconds=3)
    bench.store.register(range(4))
    assert bench.store.partition_clocks()[3].read_to_ms == START_MS + 100 * MINUTE_MS


@pytest.mark.parametrize("bench", [TWO_TOPICS], indirect=True)
def test_an_outcome_log_that_never_held_anything_delays_by_one_more_wait(bench: Bench) -> None:
    for number in range(3):
        bench.write(number, *predictions([at * MINUTE_MS for at in range(300)], name=str(number)), topic="predictions")
    bench.read()
    assert bench.settled() == 299 * MINUTE_MS - 2 * WAIT_MS
    assert bench.panes.held_back_by("m") == Hold(0, HoldReason.OUTCOMES_SILENT, -1)


@pytest.mark.parametrize("bench", [TWO_TOPICS], indirect=True)
def test_an_outcome_log_that_is_silent_in_one_partition_is_named(bench: Bench) -> None:
    times = [at * MINUTE_MS for at in range(300)]
    for number in range(3):
        bench.write(number, *predictions(times, name=str(number)), topic="predictions")
        answered = times if number != 1 else times[:20]
        outcomes = [encode_outcome("m", f"{number}{at}", START_MS + at + 1, 0) for at in answered]
        bench.write(number, *outcomes, topic="outcomes")
    bench.read(seconds=7)  # ends do not count yet
    assert bench.panes.held_back_by("m") == Hold(1, HoldReason.OUTCOMES_SILENT, START_MS + 19 * MINUTE_MS + 1)
    bench.read()
    # Outcomes came in the other partitions: none will come here, but for the lateness.
    assert bench.settled() == 299 * MINUTE_MS - POLICY.lateness_ms - WAIT_MS
    assert bench.panes.held_back_by("m") is None


def test_a_partition_that_nobody_reads_holds_its_models_back_and_is_named(bench: Bench) -> None:
    """Another replica had it, and is gone: until the group gives the partition to somebody else."""
    bench.source.of_others = frozenset({1})
    bench.write(0, *both([at * MINUTE_MS for at in range(400)]))
    other = Partition(1, bench.store.claim(1), PARTITIONS)
    records = [LogRecord(at, -1, value) for at, value in enumerate(both([100 * MINUTE_MS, 200 * MINUTE_MS]))]
    other.apply(RecordBatch("events", 1, records, len(records)), Decoder(), None)
    bench.store.save([other.checkpoint()])
    saved_ms = bench.clock.now_ms()
    bench.read()
    assert bench.settled() == 200 * MINUTE_MS - WAIT_MS
    assert bench.panes.held_back_by("m") == Hold(1, HoldReason.BEHIND, START_MS + 200 * MINUTE_MS)
    bench.read(seconds=60)
    assert bench.settled() == 200 * MINUTE_MS - WAIT_MS
    assert bench.panes.held_back_by("m") == Hold(1, HoldReason.NOT_READ, saved_ms)
    assert str(bench.panes.held_back_by("m")).startswith("partition 1: not read since 2025-10-09T08:53:20")


def test_a_model_whose_events_stop_keeps_its_last_predictions_until_there_is_a_newer_one(bench: Bench) -> None:
    """Event time alone counts: a day later by the wall clock nothing has changed, nor is anything lost."""
    times = [at * MINUTE_MS for at in range(300)]
    for number in range(3):
        bench.write(number, *both(times, name=str(number)))
    bench.write(0, *both([at * MINUTE_MS for at in range(2_000)], "other"))
    bench.read()
    pending = bench.pipeline.status.pending
    bench.clock.advance(86_400)
    bench.read()
    assert bench.settled() == 299 * MINUTE_MS - WAIT_MS
    assert bench.pipeline.status.pending == pending
    bench.write(2, *both([1_000 * MINUTE_MS]))
    bench.read()
    assert bench.settled() == 1_000 * MINUTE_MS - POLICY.lateness_ms - WAIT_MS


def test_a_model_that_has_stopped_is_forgotten_and_comes_back_with_what_is_kept(bench: Bench) -> None:
    times = [at * MINUTE_MS for at in range(300)]
    bench.write(0, *both(times), *both(times, "other"))
    bench.read()
    # As long as panes are kept, and horizon and lateness: nothing is read meanwhile, so nothing stops.
    bench.clock.advance((KEPT_MS[SECOND_MS] + WAIT_MS) / 1000)
    bench.read()
    assert {series.model for series in bench.panes.series()} == {"m", "other"}
    bench.write(0, *both([400 * MINUTE_MS], "other"))
    bench.read()
    assert {series.model for series in bench.panes.series()} == {"other"}
    assert bench.settled() == -1 - START_MS
    assert bench.panes.watermark_ms("m") == -1
    assert read_closings(bench.store, bench.panes) == {"other"}
    again = ClosedPanes(KEPT_MS, lambda _: POLICY)
    read_closings(bench.store, again)
    assert {series.model for series in again.series()} == {"other"}
    bench.write(0, *both([500 * MINUTE_MS]))
    bench.read()
    for panes in (bench.panes, again):
        assert read_closings(bench.store, panes) == {"m", "other"}
        (series,) = (series for series in panes.series() if series.model == "m")
        assert panes.edge_ms("m") == START_MS + 500 * MINUTE_MS - WAIT_MS
        assert panes.sum(series, SECOND_MS, START_MS, panes.edge_ms("m")).predictions == 300


def test_a_clock_a_day_ahead_makes_events_late_in_its_partition_and_where_the_model_is_idle(bench: Bench) -> None:
    """Where events keep coming, the partition's own clock counts."""
    for number in range(3):
        bench.write(number, *both([at * MINUTE_MS for at in range(300)], name=str(number)))
    bench.read()
    bench.write(0, *both([300 * MINUTE_MS + DAY_MS], name="ahead"))
    for minute in range(300, 330):
        bench.write(1, *both([minute * MINUTE_MS], name="busy"))
        bench.read(seconds=2)
    busy = bench.pipeline.status.counters
    assert busy["prediction", "late"] == 0
    assert busy["prediction", "accepted"] == 900 + 1 + 30
    bench.write(0, *predictions([330 * MINUTE_MS], name="behind"))
    bench.write(2, *predictions([330 * MINUTE_MS], name="idle"))
    bench.read(seconds=2)
    counters = bench.pipeline.status.counters
    assert counters["prediction", "late"] == 2
    # All is well once the others have caught up with that clock.
    bench.write(0, *both([330 * MINUTE_MS + DAY_MS], name="later"))
    bench.read(seconds=2)
    assert bench.pipeline.status.counters["prediction", "late"] == 2


def test_a_model_with_one_event_a_day_settles_with_the_next_one(bench: Bench) -> None:
    for day in range(10):
        at = day * DAY_MS
        bench.write(day % 3, encode_labelled("m", str(day), START_MS + at, 0.5, 1))
        bench.read(seconds=20)
        bench.clock.advance(86_400 - 20)
        # Once it was in all partitions, those in which it is idle hold it back by the lateness once more.
        lateness = POLICY.lateness_ms
        assert bench.settled() == at - (lateness if day < 1 else 2 * lateness)
        assert bench.panes.held_back_by("m") is None
    (series,) = bench.panes.series()
    counts = bench.panes.counts(series, SECOND_MS, START_MS, bench.panes.edge_ms("m"))
    assert [count.predictions for count in counts] == [1] * 9
    assert bench.pipeline.status.pending == 1


@pytest.mark.parametrize("models", short_of([1_000, 10_000], 1))
def test_models_with_one_event_each_are_settled_by_their_next_ones(bench: Bench, models: int) -> None:
    def one_of_each(at: int) -> None:
        for number in range(3):
            names = [f"m{one}" for one in range(number, models, 3)]
            bench.write(number, *[encode_labelled(name, str(at), START_MS + at, 0.5, 1) for name in names])

    one_of_each(0)
    bench.read(seconds=4)
    one_of_each(HOUR_MS)
    bench.read(seconds=14)
    assert len(bench.store.clocks()) == models
    for series in bench.panes.series():
        assert bench.settled(series.model) == HOUR_MS - POLICY.lateness_ms
        assert bench.panes.held_back_by(series.model) is None
        assert bench.panes.sum(series, SECOND_MS, 0, bench.panes.edge_ms(series.model)).predictions == 1
    assert bench.pipeline.status.pending == models


def test_with_lateness_0_events_in_order_are_all_kept_and_others_are_late(tmp_path: Path) -> None:
    bench = Bench(tmp_path, ONE_TOPIC, ModelPolicy(horizon_ms=0, lateness_ms=0))
    bench.write(0, *[encode_labelled("m", str(at), START_MS + at * SECOND_MS, 0.5, 1) for at in (0, 1, 1, 3, 2, 4)])
    bench.read()
    counters = bench.pipeline.status.counters
    assert counters["labelled", "late"] == 1
    assert counters["labelled", "duplicate"] == 1
    assert counters["labelled", "accepted"] == 4
    assert bench.settled() == 4 * SECOND_MS
    bench.close()


def test_a_horizon_of_90_days_settles_after_90_days(tmp_path: Path) -> None:
    policy = ModelPolicy(horizon_ms=90 * DAY_MS, lateness_ms=HOUR_MS)
    bench = Bench(tmp_path, ONE_TOPIC, policy)
    days = range(0, 100 * DAY_MS, 6 * HOUR_MS)
    for at in days:
        bench.write(0, *predictions([at]))
        if at >= 89 * DAY_MS:
            bench.write(0, encode_outcome("m", str(at - 89 * DAY_MS), START_MS + at, 1))
    bench.read()
    newest = days[-1]
    assert bench.settled() == newest - policy.retention_ms
    (series,) = bench.panes.series()
    closed = bench.panes.sum(series, SECOND_MS, START_MS, bench.panes.edge_ms("m"))
    assert closed.predictions == closed.labelled == -(-bench.settled() // (6 * HOUR_MS))
    assert bench.pipeline.status.pending == len(days) - closed.predictions
    bench.close()


def test_ends_of_logs_that_are_as_old_as_a_pause_of_this_process_say_nothing(bench: Bench) -> None:
    minutes = [at * MINUTE_MS for at in range(181)]
    bench.write(0, *both(minutes[:1]))
    bench.read(seconds=2)
    # What is written now has not been fetched yet, and this process does not know of it, when it is paused.
    bench.source.outdated_ends = {part: end for part, end in bench.source.end_offsets().items() if part.partition == 0}
    bench.source.held = frozenset({0})
    for number in range(3):
        bench.write(number, *both(minutes[1:], name=f"{number}-"))
    bench.read(seconds=6)
    bench.clock.advance(60)
    bench.read(seconds=2)
    bench.source.outdated_ends, bench.source.held = {}, frozenset()
    bench.read()
    counters = bench.pipeline.status.counters
    assert counters["prediction", "accepted"] == counters["outcome", "joined"] == 1 + 3 * 180
