"""Names end when nothing holds them any more, and give their places back; what lives goes on as if nothing had."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from monitor.clock import ManualClock, SystemClock
from monitor.events.codec import Decoder
from monitor.events.encode import encode_labelled, encode_prediction
from monitor.events.log import Topics
from monitor.events.model import ALL, OTHER, Kind, Message, ModelPolicy
from monitor.events.strata import Cap, Caps
from monitor.sources.embedded import EmbeddedSource
from monitor.sources.embedded_log import EmbeddedLog
from monitor.store.base import CapUse, SavedStratum
from monitor.store.sql import SqlStore
from monitor.stream.partition import Partition, PartitionSettings
from monitor.stream.pipeline import DeadLetterSettings, Pipeline, PipelineSettings
from monitor.stream.sampling import SampleSettings
from monitor.windows.panes import ClosedPanes, read_closings
from monitor.windows.windows import Window
from tests.evaluations import Sharing
from tests.long import short_of
from tests.reference.naive_join import NaiveEvent
from tests.stream.support import START_MS, LogRecord, Published, batch_of, closings_in, records_of

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
POLICY = ModelPolicy(horizon_ms=HOUR_MS, lateness_ms=HOUR_MS, segments=("region",))
CAPS = Caps(models=3, versions=4, segment_values=6, strata=30)
SETTINGS = PartitionSettings(
    policy=lambda _: POLICY,
    kept_ms={60_000: 2 * DAY_MS},
    caps=CAPS,
    samples=SampleSettings(lambda _: 100, span_ms=HOUR_MS, kept_ms=DAY_MS),
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqlStore]:
    with SqlStore.open(f"sqlite:///{tmp_path}/state.db", clock=SystemClock()) as made:
        yield made


def written(events: Sequence[NaiveEvent]) -> list[LogRecord]:
    """The events as messages that were written when they happened."""
    records = records_of(events, garbage_every=0)
    return [record._replace(timestamp=event.time_ms) for record, event in zip(records, events, strict=True)]


def records_of_a_quarter() -> list[LogRecord]:
    """A new version each week, beside the last one for a day, and each day a new region, for 90 days."""
    rng = np.random.default_rng(1)
    events = []
    for number in range(90 * 24 * 4):
        day, quarter = divmod(number, 96)
        week, is_canary = day // 7, day % 7 == 6 and quarter % 4 == 0
        region = ("region", str(day - int(rng.integers(0, 2))))
        time_ms, version = START_MS + number * HOUR_MS // 4, str(week + is_canary)
        event = NaiveEvent(Kind.PREDICTION, "a", str(number), time_ms, 0.25, version=version, segments=(region,))
        outcome = NaiveEvent(Kind.OUTCOME, "a", str(number), time_ms + HOUR_MS // 2, y=number % 2)
        events += [event, outcome] if number % 3 else [event]
    return written(events)


@pytest.mark.parametrize("crashes", short_of([True, False], 1))
def test_versions_and_segment_values_of_a_quarter_all_have_a_place(store: SqlStore, *, crashes: bool) -> None:
    rng, records = np.random.default_rng(2), records_of_a_quarter()
    published, largest, loads = Published(), 0, 0
    partition = Partition(0, store.claim(0), SETTINGS, store.load(0))
    for at in range(0, len(records), 200):
        if crashes and rng.random() < 0.2:
            partition.apply(batch_of(records[at : at + 77]), Decoder(), None)
            partition = Partition(0, store.claim(0), SETTINGS, store.load(0))
        partition.apply(batch_of(records[at : at + 200]), Decoder(), None)
        checkpoint = published.add(partition.checkpoint(stopped=()))
        store.save([checkpoint])
        if checkpoint.ended_strata:
            loads += 1
            partition = Partition(0, store.claim(0), SETTINGS, store.load(0))
        largest = max(largest, len(partition.strata.strata))
    tables = published.tables(partition)
    versions = {series.version for _, series in tables}
    assert OTHER not in versions
    assert len(versions) == 13
    regions = {series.segment for _, series in tables} - {ALL}
    assert regions == {f"region={day}" for day in range(-1, 90)}
    assert largest <= CAPS.strata
    assert 10 < loads < 90
    accepted = partition.join.counters()["prediction", "accepted"]
    assert accepted == 90 * 24 * 4
    assert sum(table.predictions for (_, series), table in tables.items() if series.segment == ALL) == accepted
    # Samples of every version that is within their reach are where they were.
    assert store.read_sample("a", "12").events.outcome.size > 0


def test_ids_that_are_given_to_others_change_no_sample_and_no_journal(store: SqlStore) -> None:
    """Byte for byte what a partition publishes whose names never end, as its caps are large."""
    records = records_of_a_quarter()[:6_000]
    without = replace(SETTINGS, caps=Caps(segment_values=1_000))
    ending, steady = Partition(0, store.claim(0), SETTINGS, store.load(0)), Partition(1, 0, without)
    ended = 0
    for at in range(0, len(records), 100):
        for partition in (ending, steady):
            partition.apply(batch_of(records[at : at + 100]), Decoder(), None)
        mine, other = ending.checkpoint(stopped=()), steady.checkpoint(stopped=())
        assert [part.to_bytes() for part in mine.closings] == [part.to_bytes() for part in other.closings]
        samples = [{key: sample.to_bytes() for key, sample in part.closed_samples} for part in (mine, other)]
        assert samples[0] == samples[1]
        assert not other.ended_strata
        store.save([mine])
        if mine.ended_strata:
            ended += len(mine.ended_strata)
            ending = Partition(0, store.claim(0), SETTINGS, store.load(0))
    assert ended > 20
    assert ending.sampler.candidates == steady.sampler.candidates


@pytest.mark.parametrize("crashes", [False, True])
def test_predictions_that_a_cap_folds_are_counted_once_while_windows_reach_them(
    store: SqlStore, *, crashes: bool
) -> None:
    """One event a minute of one of eight versions; every tenth comes twice, and a sixth has a region of its own."""
    rng = np.random.default_rng(3)
    events = []
    for at in range(1_000):
        regions = (("region", OTHER),) if at % 6 else (("region", str(at)),)
        time_ms, version = START_MS + at * 60_000, str(at % 8)
        event = NaiveEvent(Kind.LABELLED, "a", str(at), time_ms, 0.5, 1, version=version, segments=regions)
        events += [event] * (1 + (at % 10 == 0))
    records = written(events)
    partition = Partition(0, store.claim(0), SETTINGS, store.load(0))
    for at in range(0, len(records), 100):
        if crashes and rng.random() < 0.5:
            partition.apply(batch_of(records[at : at + 77]), Decoder(), None)
            partition = Partition(0, store.claim(0), SETTINGS, store.load(0))
        partition.apply(batch_of(records[at : at + 100]), Decoder(), None)
        store.save([partition.checkpoint(stopped=())])
    newest_ms = START_MS + 996 * 60_000
    assert store.caps() == {
        Cap("versions", "a"): CapUse(4, 4, 500, START_MS + 999 * 60_000),
        Cap("segment_values", "a", "region"): CapUse(6, 6, 167 - 6, newest_ms),
    }
    # Three days later no window reaches them, and the caps have places again.
    later = replace(events[-1], id="later", version="1", time_ms=newest_ms + 3 * DAY_MS)
    partition.apply(batch_of(written([*events, later])[-1:]), Decoder(), None)
    store.save([partition.checkpoint(stopped=())])
    partition = Partition(0, store.claim(0), SETTINGS, store.load(0))
    assert partition.changed()
    store.save([partition.checkpoint(stopped=())])
    assert store.caps() == {}


def test_a_stratum_lives_as_long_as_windows_reach_and_ids_stay(store: SqlStore) -> None:
    def labelled(hour: int, version: str) -> NaiveEvent:
        time_ms = START_MS + hour * HOUR_MS
        return NaiveEvent(Kind.LABELLED, "a", f"{hour} {version}", time_ms, 0.5, 1, version=version)

    events = [labelled(0, "1"), labelled(0, "2"), labelled(30, "2"), labelled(49, "3"), labelled(53, "3")]
    records = written(events)
    partition = Partition(0, store.claim(0), SETTINGS, store.load(0))
    partition.apply(batch_of(records[:4]), Decoder(), None)
    store.save([partition.checkpoint(stopped=())])
    assert [saved.stratum.version for saved in store.load(0).strata.values()] == ["1", "2", "3"]
    partition.apply(batch_of(records), Decoder(), None)
    store.save([partition.checkpoint(stopped=())])
    assert {at: saved.stratum.version for at, saved in store.load(0).strata.items()} == {1: "2", 2: "3"}


def test_a_model_that_has_stopped_goes_with_all_that_is_held_of_it(store: SqlStore) -> None:
    events = [
        NaiveEvent(kind, model, str(at), START_MS + at * HOUR_MS, 0.5, 1)
        for at in range(100)
        for model in "ab"
        for kind in (Kind.PREDICTION, Kind.OUTCOME)[: 1 + at % 2]
    ]
    events.append(NaiveEvent(Kind.OUTCOME, "a", "never predicted", START_MS + 100 * HOUR_MS, y=1))
    records = written(events)
    partition = Partition(0, store.claim(0), SETTINGS, store.load(0))
    partition.apply(batch_of(records), Decoder(), None)
    store.save([partition.checkpoint()])
    kept = [closing.to_bytes() for closing in closings_in(store, "b")]
    before = partition.join.predictions
    store.save([partition.checkpoint(stopped={"a", "elsewhere"})])
    assert closings_in(store, "a") == []
    assert [closing.to_bytes() for closing in closings_in(store, "b")] == kept
    assert store.read_sample("a", "1").events.outcome.size == 0
    assert list(store.clocks()) == ["b"]

    again = Partition(0, store.claim(0), SETTINGS, store.load(0))
    assert {saved.stratum.model for saved in store.load(0).strata.values()} == {"b"}
    assert 0 < again.join.predictions < before
    assert again.join.early_outcomes == 0
    accepted = sum(count for (_, result), count in again.join.counters().items() if result == "accepted")
    assert again.join.predictions + again.departed.total() == accepted
    # Of the last horizon and lateness, in which the others have outcomes.
    assert again.departed["evicted"] == 1
    assert sum(again.event_counters().values()) == len(records)
    # It comes back as a new one.
    again.apply(batch_of(written([*events, events[0]])[-1:]), Decoder(), None)
    store.save([again.checkpoint()])
    assert sorted(store.clocks()) == ["a", "b"]


class Embedded:
    """A pipeline on an embedded log, stepped by hand on a clock that is turned by hand."""

    def __init__(self, folder: Path) -> None:
        self.clock = ManualClock(START_MS)
        self.log = EmbeddedLog(folder / "log", partitions=1, clock=self.clock)
        self.store = SqlStore.open(f"sqlite:///{folder}/state.db", clock=self.clock)
        self.pipeline = Pipeline(
            EmbeddedSource(self.log, Topics({"events": None})),
            self.store,
            Decoder(),
            partitions=SETTINGS,
            settings=PipelineSettings(checkpoint_interval=timedelta(seconds=1)),
            dead_letters=DeadLetterSettings(),
            kinds={"events": None},
            poll_seconds=0.0,
            clock=self.clock,
        )
        self.written = 0

    def write(self, model: str, count: int = 10) -> None:
        """Write labelled events of now, and read them to the checkpoint."""
        now_ms = self.clock.now_ms()
        ids = range(self.written, self.written + count)
        self.log.write([Message("events", encode_labelled(model, str(at), now_ms, 0.5, at % 2), b"k") for at in ids])
        self.written += count
        self.step()

    def step(self) -> None:
        """Read what is written, claim what is not, and save."""
        for _ in range(6):
            self.pipeline.step()
            self.clock.advance(2.0)

    def refused(self) -> int:
        return self.pipeline.status.counters.get(("labelled", "refused"), 0)


@pytest.fixture
def embedded(tmp_path: Path) -> Iterator[Embedded]:
    made = Embedded(tmp_path)
    yield made
    made.pipeline.stop()
    made.pipeline.run()
    made.log.close()
    made.store.close()


def test_models_that_stop_give_their_places_to_others_and_nothing_is_read_twice(embedded: Embedded) -> None:
    for model in ("a", "b", "c", "d"):
        embedded.write(model)
    assert embedded.refused() == 10, "the fourth model is beyond the cap"
    assert sorted(embedded.store.clocks()) == ["a", "b", "c"]
    panes = ClosedPanes(SETTINGS.kept_ms, SETTINGS.policy)
    replica = Sharing(embedded.store, panes, [Window("1h", HOUR_MS)], clock=embedded.clock, of_closings=True)
    assert sorted(replica.evaluate().models) == ["a", "b", "c"]
    for _ in range(4 * 24):
        embedded.clock.advance(3_600)
        embedded.write("c")
    assert sorted(embedded.store.clocks()) == ["c"]
    # Nothing was evaluated meanwhile.
    replica.evaluate()
    replica.snapshots.read()
    assert [*replica.latest.models] == ["c"]
    for model in ("d", "e"):
        embedded.write(model)
    assert embedded.refused() == 10
    assert sorted(embedded.store.clocks()) == ["c", "d", "e"]
    assert embedded.pipeline.status.ready
    assert sum(embedded.pipeline.status.counters.values()) == embedded.written
    panes = ClosedPanes(SETTINGS.kept_ms, SETTINGS.policy)
    read_closings(embedded.store, panes)
    assert sorted({series.model for series in panes.series()}) == ["c", "d", "e"]


def test_newest_predictions_are_saved_by_steps(store: SqlStore) -> None:
    partition = Partition(0, store.claim(0), SETTINGS, store.load(0))
    saved = []
    for minute in range(0, 600, 10):
        time_ms = START_MS + minute * 60_000
        record = LogRecord(minute, time_ms, encode_prediction("a", str(minute), time_ms, 0.5))
        partition.apply(batch_of([record]), Decoder(), None)
        checkpoint = partition.checkpoint()
        saved += list(checkpoint.strata.values())
    # One part in 24 of two days.
    assert [(part.newest_ms - START_MS) // HOUR_MS for part in saved] == [0, 2, 4, 6, 8]
    assert isinstance(saved[0], SavedStratum)


def test_a_name_does_not_live_longer_by_being_loaded_again(store: SqlStore) -> None:
    partition = Partition(0, store.claim(0), SETTINGS, store.load(0))
    record = LogRecord(0, START_MS, encode_prediction("a", "0", START_MS, 0.5))
    partition.apply(batch_of([record]), Decoder(), None)
    store.save([partition.checkpoint()])
    for _ in range(5):
        partition = Partition(0, store.claim(0), SETTINGS, store.load(0))
        store.save([partition.checkpoint()])
    assert [saved.newest_ms for saved in store.load(0).strata.values()] == [START_MS]
