"""Samples of labelled events are those of obvious loops, whatever happens to the process in between."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa

from monitor.clock import SystemClock
from monitor.errors import DamagedStore
from monitor.events.codec import Decoder
from monitor.events.formats.base import Rules
from monitor.events.model import Kind, ModelPolicy, SeriesKey
from monitor.store.base import Bucket, CandidateBatch, Checkpoint, PaneKey, PartitionState, SampledSpan
from monitor.store.candidates import Candidates
from monitor.store.closed_samples import ClosedSample
from monitor.store.schema import CLOSED_SAMPLES
from monitor.store.sql import SqlStore
from monitor.stream import sampling
from monitor.stream.journal import bucket_width_ms
from monitor.stream.partition import Partition, PartitionSettings
from monitor.stream.sampling import SampleSettings
from tests.long import short_of
from tests.reference.naive_join import NaiveEvent, NaiveJoin
from tests.reference.naive_sample import NaiveClosed, NaiveSamples, naive_closed
from tests.stream.support import START_MS, Traffic, batch_of, records_of, unruly_events

POLICY = ModelPolicy(horizon_ms=24_000, lateness_ms=4_000, segments=("region",))
CLASSES = tuple("abcd")
MODELS = ("implied", "of-classes")
TRAFFIC = Traffic(ids=2_000, span_ms=90_000, models=MODELS, classes=len(CLASSES), features=3)
SPAN_MS = 20_000
CAPACITY = 7
SAMPLES = SampleSettings(size=lambda _: 30 * CAPACITY, span_ms=SPAN_MS, kept_ms=30 * SPAN_MS)
WAITING = SAMPLES.candidates("churn", POLICY)


def policy_of(model: str) -> ModelPolicy:
    if model == "of-classes":
        return replace(POLICY, classes=CLASSES)
    return replace(POLICY, implied_negative=model == "implied")


SETTINGS = PartitionSettings(policy=policy_of, kept_ms={1_000: 120_000}, samples=SAMPLES)


def naive_samples(events: list[NaiveEvent]) -> NaiveSamples:
    naive = NaiveJoin(POLICY)
    for event in events:
        naive.read(event)
    return NaiveSamples(
        naive.predictions.values(), policy_of, lambda policy: bucket_width_ms(policy.retention_ms), SPAN_MS, CAPACITY
    )


def stored_samples(store: SqlStore) -> dict[tuple[str, str, int], NaiveClosed]:
    with store._database.reading() as connection:
        rows = connection.execute(sa.select(CLOSED_SAMPLES)).all()
    parts: dict[tuple[str, str, int], list[ClosedSample]] = {}
    for row in rows:
        parts.setdefault((row.model, row.version, row.start_ms), []).append(ClosedSample.from_bytes(row.sample))
    return {span: naive_closed(ClosedSample.sum(of_span)) for span, of_span in parts.items()}


def stored_candidates(state: PartitionState) -> dict[tuple[Bucket, str], list[tuple[int, int, tuple[float, ...]]]]:
    """Of each bucket and version: hash, stratum of confidence and features of all that was ever appended."""
    found: dict[tuple[Bucket, str], list[tuple[int, int, tuple[float, ...]]]] = {}
    for batch in state.candidates:
        for row in Candidates.from_bytes(batch.rows).table.to_pylist():
            cell = found.setdefault((batch.bucket, state.strata[int(row["stratum"])].stratum.version), [])
            cell.append((row["id_high"] << 64 | row["id_low"], row["confidence"], tuple(row["features"] or ())))
    return found


@pytest.mark.parametrize("seed", short_of(range(4), 1))
def test_samples_are_those_of_obvious_loops_through_crashes(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    events = unruly_events(rng, 8_000, POLICY, TRAFFIC)
    records = records_of(events, garbage_every=0)
    decoder = Decoder(Rules(classes={"of-classes": len(CLASSES)}))
    with SqlStore.open(f"sqlite:///{tmp_path}/state.db", clock=SystemClock()) as store:
        partition = Partition(0, store.claim(0), SETTINGS, store.load(0))
        for at in range(0, len(records), 250):
            if rng.random() < 0.3:  # a crash: what was read since the last checkpoint is read again
                partition.apply(batch_of(records[at : at + 100]), decoder, None)
                partition = Partition(0, store.claim(0), SETTINGS, store.load(0))
            for cut in np.array_split(np.arange(at, at + 250), int(rng.integers(1, 4))):
                partition.apply(batch_of([records[row] for row in cut]), decoder, None)
            store.save([partition.checkpoint()])
        state = store.load(0)
        open_buckets = {batch.bucket for batch in state.journal}
        naive = naive_samples(events)
        expected = naive.closed(lambda bucket: bucket in open_buckets)
        assert stored_samples(store) == expected
        candidates = stored_candidates(state)
    full = {span: closed for span, closed in expected.items() if len(closed.events) == CAPACITY}
    assert len(full) >= 6
    assert all(sum(closed.labelled.values()) > CAPACITY for closed in full.values())
    assert {len(event.prediction) for closed in full.values() for event in closed.events} == {1, len(CLASSES)}
    assert {len(event.features) for closed in full.values() for event in closed.events} == {0, 3, 4}
    waiting = {cell: items for cell, items in naive.candidates.items() if cell[0] in open_buckets}
    assert set(candidates) == set(waiting)
    assert any(len(items) == WAITING for items in waiting.values())
    for cell, items in waiting.items():
        # Some that were saved were displaced later; those that are left are all there.
        assert {(item.id_hash, item.confidence, item.features) for item in items} <= set(candidates[cell])
    fates = {result: n for (type_, result), n in partition.counters().items() if type_ == "candidate"}
    closed_cells = [items for (bucket, _), items in naive.candidates.items() if bucket not in open_buckets]
    assert sum(fates.values()) == sum(map(len, closed_cells))
    assert fates["labelled"] == sum(
        item.outcome >= 0 or len(item.prediction) == 1 for items in closed_cells for item in items
    )


def test_without_a_size_nothing_is_kept() -> None:
    settings = PartitionSettings(policy=policy_of, kept_ms={1_000: 120_000})
    partition = Partition(0, 0, settings)
    events = unruly_events(np.random.default_rng(0), 3_000, POLICY, TRAFFIC)
    partition.apply(batch_of(records_of(events)), Decoder(Rules(classes={"of-classes": len(CLASSES)})), None)
    checkpoint = partition.checkpoint()
    assert checkpoint.dropped
    assert checkpoint.candidates == []
    assert checkpoint.closed_samples == []
    assert partition.sampler.candidates == 0


def predictions(count: int, *, every_ms: int = 1, features: int = 2) -> list[NaiveEvent]:
    rng = np.random.default_rng(3)
    return [
        NaiveEvent(
            Kind.PREDICTION,
            "churn",
            str(at),
            START_MS + at * every_ms,
            float(p),
            features=tuple((at % 7 + np.arange(features) / 4).tolist()),
        )
        for at, p in enumerate(rng.random(count))
    ]


def test_candidates_are_bounded_however_many_predictions_there_are() -> None:
    settings = PartitionSettings(
        policy=lambda _: POLICY,
        kept_ms={1_000: 120_000},
        samples=SampleSettings(size=lambda _: 50, span_ms=SPAN_MS, kept_ms=SPAN_MS),
    )
    partition, most = Partition(0, 0, settings), []
    records = records_of(predictions(60_000, features=16), garbage_every=0)
    for at in range(0, len(records), 5_000):
        partition.apply(batch_of(records[at : at + 5_000]), Decoder(), None)
        partition.checkpoint()
        most.append((partition.sampler.candidates, partition.sampler.nbytes))
    buckets = 2 + (POLICY.retention_ms + POLICY.retention_ms) // bucket_width_ms(POLICY.retention_ms)
    assert max(candidates for candidates, _ in most) <= buckets * settings.samples.candidates("churn", POLICY)
    # Two halves of a hash, time, two strata and outcome; a prediction, sixteen numbers, and how many they are.
    assert all(taken <= candidates * (3 * 8 + 2 * 4 + 2 + 8 + 4 + 16 * 4 + 4) for candidates, taken in most)
    assert max(candidates for candidates, _ in most) > 20 * settings.samples.candidates("churn", POLICY)


@pytest.mark.parametrize(
    ("hours", "waiting"),
    [
        # Buckets of 3 minutes, and spans of 10.5 hours: few buckets of a young version may fill a span.
        (1.2, 250),
        # An hour: more than its even share, for busy ones.
        (24.0, 384),
        # As wide as a span.
        (252.0, 2_000),
    ],
)
def test_narrow_buckets_keep_more_than_their_even_share(hours: float, waiting: int) -> None:
    hour_ms = 3_600_000
    settings = SampleSettings(size=lambda _: 16_000, span_ms=21 * hour_ms // 2, kept_ms=168 * hour_ms)
    policy = ModelPolicy(horizon_ms=int(hours * hour_ms), lateness_ms=0)
    assert settings.capacity("churn", policy) == 1_000
    assert settings.candidates("churn", policy) == waiting


def test_what_is_evicted_before_its_time_is_in_no_sample_and_is_counted() -> None:
    settings = replace(SETTINGS, max_predictions=1_000)
    partition = Partition(0, 0, settings)
    told_both = [
        event
        for prediction in predictions(2_000, every_ms=10)
        for event in (prediction, NaiveEvent(Kind.OUTCOME, "churn", prediction.id, prediction.time_ms, y=1))
    ]
    partition.apply(batch_of(records_of(told_both, garbage_every=0)), Decoder(), None)
    checkpoint = partition.checkpoint()
    assert checkpoint.dropped
    assert checkpoint.closed_samples == []
    # The last pane that goes may end within a bucket.
    assert partition.counters()["candidate", "evicted"] == WAITING * (len(checkpoint.dropped) + 1)
    assert {batch.bucket for batch in checkpoint.candidates}.isdisjoint(checkpoint.dropped)


def test_what_is_settled_is_sampled_whole_though_the_join_is_full() -> None:
    every_ms = 3 * POLICY.retention_ms // 3_000
    told_both = [
        event
        for prediction in predictions(3_000, every_ms=every_ms)
        for event in (prediction, NaiveEvent(Kind.OUTCOME, "churn", prediction.id, prediction.time_ms, y=1))
    ]
    samples, waiting = [], []
    for most in (10_000, 500):
        partition = Partition(0, 0, replace(SETTINGS, max_predictions=most))
        partition.apply(batch_of(records_of(told_both, garbage_every=0)), Decoder(), None)
        samples.append(partition.checkpoint().closed_samples)
        waiting.append(partition.join.predictions)
    assert samples[0]
    assert samples[1] == samples[0]
    assert waiting[0] > 500 >= waiting[1]


def test_many_small_batches_of_a_bucket_become_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "MAX_BATCHES", 5)
    records = records_of(predictions(400), garbage_every=0)
    with SqlStore.open(f"sqlite:///{tmp_path}/state.db", clock=SystemClock()) as store:
        partition = Partition(0, store.claim(0), SETTINGS, store.load(0))
        held = []
        for at in range(0, len(records), 10):
            partition.apply(batch_of(records[at : at + 10]), Decoder(), None)
            store.save([partition.checkpoint()])
            of_bucket = Counter(batch.bucket for batch in store.load(0).candidates)
            held.append(max(of_bucket.values()))
            # Whoever takes over goes on counting.
            partition = Partition(0, store.claim(0), SETTINGS, store.load(0))
        assert max(held) == 5
        assert held[-1] < 5 or held.count(1) > 1
        assert partition.sampler.candidates == WAITING * len(of_bucket)


def test_where_the_width_of_buckets_changes_no_candidate_is_lost_or_held_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampling, "MAX_BATCHES", 2)
    records = records_of(predictions(120, every_ms=50), garbage_every=0)
    with SqlStore.open(f"sqlite:///{tmp_path}/state.db", clock=SystemClock()) as store:
        held = []
        for horizon_ms in (44_000, 68_000, 44_000):
            policies = {"churn": replace(POLICY, horizon_ms=horizon_ms)}
            settings = replace(SETTINGS, policy=policies.get, samples=replace(SAMPLES, size=lambda _: 30_000))
            partition = Partition(0, store.claim(0), settings, store.load(0))
            held.append(partition.sampler.candidates)
            for _ in range(4):
                batch, records = records[:10], records[10:]
                partition.apply(batch_of(batch), Decoder(), None)
                store.save([partition.checkpoint()])
    assert held == [0, 40, 80]


def test_spans_beyond_what_is_kept_expire() -> None:
    settings = replace(SETTINGS, samples=SampleSettings(size=lambda _: 50, span_ms=SPAN_MS, kept_ms=2 * SPAN_MS))
    partition = Partition(0, 0, settings)
    partition.apply(batch_of(records_of(predictions(1_000, every_ms=200), garbage_every=0)), Decoder(), None)
    before = partition.checkpoint().expired_samples_before_ms
    newest = START_MS + 999 * 200
    assert set(before) == {("churn", SPAN_MS)}
    kept = before["churn", SPAN_MS]
    assert kept % SPAN_MS == 0
    assert kept <= newest - POLICY.retention_ms - 2 * SPAN_MS < kept + SPAN_MS


@pytest.mark.parametrize(
    ("horizon_ms", "span_ms", "capacity"), [(60_000, 1_000, 10), (24_000_000, 1_000, 100), (25_000, 7_000, 70)]
)
def test_spans_are_no_narrower_than_buckets(horizon_ms: int, span_ms: int, capacity: int) -> None:
    policy = ModelPolicy(horizon_ms=horizon_ms, lateness_ms=0)
    chosen = SampleSettings(size=lambda _: 100, span_ms=span_ms, kept_ms=10_000)
    width = chosen.span_width_ms(policy)
    assert width % span_ms == 0
    assert width >= max(bucket_width_ms(horizon_ms), span_ms)
    assert width - span_ms < max(bucket_width_ms(horizon_ms), span_ms)
    assert chosen.capacity("any", policy) == min(100, max(capacity, -(-100 * width // 10_000)))


def test_candidates_of_names_that_were_not_saved_are_damage() -> None:
    partition = Partition(0, 0, SETTINGS)
    partition.apply(batch_of(records_of(predictions(100), garbage_every=0)), Decoder(), None)
    saved = partition.checkpoint()
    with pytest.raises(DamagedStore, match="candidates of churn refer to names that were not saved"):
        Partition(0, 0, SETTINGS, _state(replace(saved, strata={}, journal=())))
    broken = [batch._replace(rows=batch.rows[:-20]) for batch in saved.candidates]
    with pytest.raises(DamagedStore, match="stored candidates of a sample cannot be read"):
        Partition(0, 0, SETTINGS, _state(replace(saved, candidates=broken)))


def test_a_model_that_is_sampled_no_more_lets_its_candidates_go() -> None:
    partition = Partition(0, 0, SETTINGS)
    partition.apply(batch_of(records_of(predictions(100), garbage_every=0)), Decoder(), None)
    saved = partition.checkpoint()
    assert saved.candidates
    restored = Partition(0, 0, replace(SETTINGS, samples=SampleSettings()), _state(saved))
    assert restored.sampler.candidates == 0
    restored = Partition(0, 0, SETTINGS, _state(saved))
    assert restored.sampler.candidates == partition.sampler.candidates


def _state(saved: Checkpoint) -> PartitionState:
    candidates: list[CandidateBatch] = list(saved.candidates)
    return PartitionState(
        saved.offsets, saved.models, saved.strata, saved.counters, iter(saved.journal), iter(candidates),
    )  # fmt: skip


def test_a_sample_is_filed_under_its_version_and_span() -> None:
    partition = Partition(0, 0, SETTINGS)
    labelled = [
        NaiveEvent(Kind.LABELLED, "churn", str(at), START_MS + at * 100, 0.5, 1, version="3") for at in range(900)
    ]
    partition.apply(batch_of(records_of(labelled, garbage_every=0)), Decoder(), None)
    parts: dict[PaneKey, list[ClosedSample]] = {}
    for key, part in partition.checkpoint().closed_samples:
        parts.setdefault(key, []).append(part)
    first = START_MS - START_MS % SPAN_MS
    assert set(parts) == {
        PaneKey(SPAN_MS, start, SeriesKey("churn", "3", "all")) for start in range(first, START_MS + 86_000, SPAN_MS)
    }
    sizes = [len(ClosedSample.sum(parts[key])) for key in sorted(parts)]
    # The last holds no more than a bucket and a bit, whose candidates cannot fill it.
    assert sizes[:-1] == [CAPACITY] * (len(sizes) - 1)
    assert WAITING <= sizes[-1] <= CAPACITY


def test_an_id_that_comes_again_in_its_bucket_is_another_event_with_features_of_its_own() -> None:
    policy = replace(POLICY, horizon_ms=44_000)
    assert bucket_width_ms(policy.retention_ms) == 2_000
    partition = Partition(0, 0, replace(SETTINGS, policy=lambda _: policy))

    def read(identifier: str, at_ms: int, *features: float) -> Checkpoint:
        event = NaiveEvent(
            Kind.LABELLED, "churn", identifier, START_MS - START_MS % 2_000 + at_ms, 0.5, 1, features=features
        )
        partition.apply(batch_of(records_of([event], garbage_every=0)), Decoder(), None)
        return partition.checkpoint()

    read("again", 500, 1.0)
    read("other", 5_200)  # the first leaves the join, and its bucket is open
    read("again", 1_500, 2.0)
    ((_, sample),) = read("last", 19_000).closed_samples
    features = {(event.time_ms - START_MS) % 2_000: event.features for event in naive_closed(sample).events}
    assert sorted(features.values()) == [(), (1.0,), (2.0,)]


def test_what_came_before_sampling_was_turned_on_is_counted_and_in_no_sample() -> None:
    partition = Partition(0, 0, replace(SETTINGS, samples=SampleSettings()))
    partition.apply(batch_of(records_of(predictions(300, every_ms=20), garbage_every=0)), Decoder(), None)
    partition = Partition(0, 0, SETTINGS, _state(partition.checkpoint()))
    answers = [NaiveEvent(Kind.OUTCOME, "churn", str(at), START_MS + at * 20, y=1) for at in range(300)]
    later = NaiveEvent(Kind.LABELLED, "churn", "later", START_MS + 200_000, 0.5, 1)
    partition.apply(batch_of(records_of([*answers, later], garbage_every=0)), Decoder(), None)
    closed = partition.checkpoint().closed_samples
    assert sum(sum(sample.labelled.values()) for _, sample in closed) == 300
    assert [len(sample) for _, sample in closed] == [0] * len(closed)


def test_outcomes_of_a_model_may_come_before_its_first_prediction() -> None:
    partition = Partition(0, 1, SETTINGS)
    events = [
        NaiveEvent(Kind.OUTCOME, "implied", "1", START_MS + 1, y=1),
        NaiveEvent(Kind.OUTCOME, "of-classes", "1", START_MS + 1, y=1),
        NaiveEvent(Kind.PREDICTION, "implied", "1", START_MS, 0.5),
        NaiveEvent(Kind.PREDICTION, "implied", "2", START_MS + 600_000, 0.5),
        NaiveEvent(Kind.OUTCOME, "implied", "2", START_MS + 600_000, y=1),
    ]
    sampled: list[SampledSpan] = []
    for event in events:
        partition.apply(batch_of(records_of([event], garbage_every=0)), Decoder(), None)
        sampled += partition.checkpoint().closed_samples
    assert [len(part.sample) for part in sampled] == [1]
