"""Candidates and closed samples come and go with the state, and are read from any thread, on both databases."""

import threading
from collections import Counter

import numpy as np
import pytest
import sqlalchemy as sa

from monitor.clock import SystemClock
from monitor.errors import DamagedStore, FencedOut
from monitor.events.model import SeriesKey
from monitor.store import samples
from monitor.store.base import Bucket, CandidateBatch, PaneKey, SampledSpan
from monitor.store.closed_samples import ClosedSample
from monitor.store.recalibrations import Sample
from monitor.store.samples import MAX_PARTS
from monitor.store.schema import CLOSED_SAMPLES
from monitor.store.sql import SqlStore
from tests.patience import joined
from tests.store.drawn_samples import closed, random_rows, row
from tests.store.samples import HOUR_MS, checkpoint
from tests.store.test_open import execute

FIRST, SECOND = Bucket("churn", 0), Bucket("churn", HOUR_MS)
ODD = "odd\0name\\0\\"


def span(sample: ClosedSample, start_ms: int = 0, *, model: str = "churn", version: str = "7") -> SampledSpan:
    return SampledSpan(PaneKey(HOUR_MS, start_ms, SeriesKey(model, version, "all")), sample)


def candidates(store: SqlStore, partition: int = 0) -> list[tuple[Bucket, bytes]]:
    return [(batch.bucket, batch.rows) for batch in store.load(partition).candidates]


def test_candidates_are_appended_replaced_and_dropped_with_their_bucket(store: SqlStore) -> None:
    epoch, other = store.claim(0), store.claim(1)
    store.save([checkpoint(epoch, 1, candidates=[CandidateBatch(FIRST, b"1"), CandidateBatch(SECOND, b"2")])])
    store.save([checkpoint(other, 1, partition=1, candidates=[CandidateBatch(FIRST, b"other")])])
    store.save([checkpoint(epoch, 2, candidates=[CandidateBatch(FIRST, b"3"), CandidateBatch(Bucket(ODD, 0), b"\0")])])
    assert sorted(candidates(store)) == [(FIRST, b"1"), (FIRST, b"3"), (SECOND, b"2"), (Bucket(ODD, 0), b"\0")]
    store.save([checkpoint(epoch, 3, candidates=[CandidateBatch(FIRST, b"4", whole=True)])])
    assert sorted(candidates(store)) == [(FIRST, b"4"), (SECOND, b"2"), (Bucket(ODD, 0), b"\0")]
    # What a checkpoint appends to a bucket that it drops is of the time before.
    store.save([checkpoint(epoch, 4, candidates=[CandidateBatch(FIRST, b"5")], dropped=[FIRST, Bucket(ODD, 0)])])
    assert candidates(store) == [(SECOND, b"2")]
    assert candidates(store, 1) == [(FIRST, b"other")]


def test_closed_samples_add_to_those_of_their_span(store: SqlStore) -> None:
    epoch = store.claim(0)
    rows = random_rows(80, 1)
    store.save([checkpoint(epoch, 1, closed_samples=[span(closed(rows[:30], 20)), span(closed(rows[30:50], 20))])])
    store.save([checkpoint(epoch, 2, closed_samples=[span(closed(rows[50:], 20))])])
    found = store.read_sample("churn", "7")
    assert found.population == 80
    whole = closed(rows, 20)
    assert sorted(found.events.prediction.tolist()) == sorted(p for (p,) in whole.table["prediction"].to_pylist())


def test_a_sample_is_of_all_partitions_and_spans_of_its_version_alone(store: SqlStore, store_url: str) -> None:
    rows = random_rows(90, 1)
    for partition in range(3):
        of_partition = [{**event, "time_ms": event["time_ms"] + HOUR_MS} for event in rows[partition::3]]
        saved = [
            span(closed(rows[partition::3])), span(closed(of_partition), HOUR_MS),
            span(closed(random_rows(5, 9)), version="8"), span(closed(random_rows(5, 9)), model=ODD, version=ODD),
        ]  # fmt: skip
        store.save([checkpoint(store.claim(partition), 1, partition=partition, closed_samples=saved)])
    with SqlStore.open(store_url, clock=SystemClock()) as elsewhere:
        reader = elsewhere
        found = reader.read_sample("churn", "7")
        assert len(found.events) == found.population == 180
        assert found.events.is_whole
        assert len(reader.read_sample(ODD, ODD).events) == 15
        assert len(reader.read_sample("churn", "9").events) == 0
        second = reader.read_sample("churn", "7", from_ms=HOUR_MS)
        assert len(second.events) == 90
        assert second.events.time_ms.min() >= HOUR_MS
        assert len(reader.read_sample("churn", "7", to_ms=HOUR_MS).events) == 90
        limited = reader.read_sample("churn", "7", limit=50)
        assert len(limited.events) == 50
        assert limited.population == 180
        again = reader.read_sample("churn", "7", limit=50)
        assert limited.events.content_hash() == again.events.content_hash()


def stored_parts(store: SqlStore) -> dict[int, int]:
    """Start of a span -> how many parts it has, in partition 0."""
    with store.database.reading() as connection:
        return dict(Counter(connection.execute(sa.select(CLOSED_SAMPLES.c.start_ms).filter_by(partition=0)).scalars()))


def test_parts_of_a_span_are_merged_once_there_are_too_many(store: SqlStore) -> None:
    epoch = store.claim(0)
    rows = random_rows(300, 1)
    other = span(closed(random_rows(9, 2)), version="8"), span(closed(random_rows(9, 3)), model=ODD)
    store.save([checkpoint(epoch, 1, closed_samples=[*other, span(closed(rows), HOUR_MS)])])
    most = []
    for at in range(30):
        some = closed(rows[10 * at : 10 * at + 10], 20)
        store.save([checkpoint(epoch, 2 + at, closed_samples=[span(some)])])
        held = stored_parts(store)
        most.append(held[0] - len(other))
        found = store.read_sample("churn", "7", to_ms=HOUR_MS)
        assert found.population == 10 * (at + 1)
        expected = closed(rows[: 10 * at + 10], 20).table["prediction"].to_pylist()
        assert sorted(found.events.prediction.tolist()) == sorted(p for (p,) in expected)
        assert held[HOUR_MS] == 1
    assert max(most) == MAX_PARTS
    assert most.count(1) >= 3
    assert len(store.read_sample("churn", "8").events) == len(store.read_sample(ODD, "7").events) == 9


def test_a_save_merges_no_more_than_it_may_and_the_next_goes_on(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(samples, "MERGED_BYTES", 1)
    epoch, starts = store.claim(0), [at * HOUR_MS for at in range(6)]
    whole, held = random_rows(400, 1), []
    for at in range(40):
        parts = [span(closed(whole[10 * at : 10 * at + 10]), start_ms) for start_ms in starts]
        store.save([checkpoint(epoch, 1 + at, closed_samples=parts)])
        held.append(max(stored_parts(store).values()))
    # All have too many at once, and are merged one after the other.
    assert MAX_PARTS < max(held) <= MAX_PARTS + len(starts)
    assert held[-1] <= MAX_PARTS
    for start_ms in starts:
        found = store.read_sample("churn", "7", to_ms=start_ms + HOUR_MS)
        assert found.population == 400 * (1 + start_ms // HOUR_MS)


def test_a_merge_by_a_stale_owner_removes_nothing(store: SqlStore) -> None:
    first = store.claim(0)
    for at in range(MAX_PARTS):
        store.save([checkpoint(first, 1 + at, closed_samples=[span(closed([row(1 + at)]))])])
    second = store.claim(0)
    with pytest.raises(FencedOut):
        store.save([checkpoint(first, 9, closed_samples=[span(closed([row(100)]))])])
    assert stored_parts(store) == {0: MAX_PARTS}
    store.save([checkpoint(second, 9, closed_samples=[span(closed([row(100)]))])])
    assert stored_parts(store) == {0: 1}
    assert store.read_sample("churn", "7").population == MAX_PARTS + 1


def test_what_does_not_fit_is_told(store: SqlStore) -> None:
    rows = [*random_rows(10, 1), *random_rows(3, 2, features=None)]
    store.save([checkpoint(store.claim(0), 1, closed_samples=[span(closed(rows))])])
    assert store.read_sample("churn", "7").left_out == {"features missing": 3}


def test_expired_spans_go_by_model_and_width(store: SqlStore) -> None:
    epoch = store.claim(0)
    spans = [span(closed([row(1 + at, time_ms=at * HOUR_MS)]), at * HOUR_MS) for at in range(4)]
    other = span(closed([row(9)]), model="fraud")
    store.save([checkpoint(epoch, 1, closed_samples=[*spans, other])])
    expired = {("churn", HOUR_MS): 2 * HOUR_MS, ("fraud", 1): HOUR_MS}
    store.save([checkpoint(epoch, 2, expired_samples_before_ms=expired)])
    assert store.read_sample("churn", "7").events.time_ms.tolist() == [2 * HOUR_MS, 3 * HOUR_MS]
    assert len(store.read_sample("fraud", "7").events) == 1


def test_a_stale_owner_leaves_no_sample(store: SqlStore) -> None:
    first = store.claim(0)
    store.claim(0)
    with pytest.raises(FencedOut):
        store.save(
            [checkpoint(first, 1, candidates=[CandidateBatch(FIRST, b"1")], closed_samples=[span(closed([row(1)]))])]
        )
    assert candidates(store) == []
    assert len(store.read_sample("churn", "7").events) == 0


def test_many_threads_read_while_it_is_written(store: SqlStore) -> None:
    epoch = store.claim(0)
    store.save([checkpoint(epoch, 1, closed_samples=[span(closed(random_rows(20, 0)))])])
    found: list[Sample] = []
    threads = [threading.Thread(target=lambda: found.append(store.read_sample("churn", "7"))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for seed in range(1, 5):
        store.save([checkpoint(epoch, 1 + seed, closed_samples=[span(closed(random_rows(20, seed)))])])
    joined(*threads)
    assert len(found) == 4
    # Each saw a state of the store between two saves.
    assert {len(sample.events) % 20 for sample in found} == {0}
    assert np.isin([len(sample.events) for sample in found], [20, 40, 60, 80, 100]).all()


def test_a_damaged_sample_is_refused(store: SqlStore, store_url: str) -> None:
    store.save([checkpoint(store.claim(0), 1, closed_samples=[span(closed([row(1)]))])])
    execute(store_url, "UPDATE closed_samples SET sample = substr(sample, 1, 100)")
    with pytest.raises(DamagedStore, match="stored events of a sample cannot be read"):
        store.read_sample("churn", "7")
