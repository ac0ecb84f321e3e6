"""Small batches become few, and no row moves within its bucket."""

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from monitor.store.base import MAX_BATCH_BYTES, Bucket
from monitor.store.journal import FULL_BYTES, MAX_BATCHES, merge_from
from monitor.store.sql import SqlStore
from monitor.stream.journal_loops import JOURNAL_ROW
from tests.long import examples, sqlite_first
from tests.store.samples import HOUR_MS, batch, checkpoint, load, rows

ROW = JOURNAL_ROW.itemsize


@examples(30, 200)
@given(sizes=st.lists(st.sampled_from([ROW, 10 * ROW, 500 * ROW, FULL_BYTES, 2 * FULL_BYTES]), max_size=200))
def test_a_merge_takes_the_newest_batches_and_none_that_is_full(sizes: list[int]) -> None:
    start = merge_from(sizes)
    small = next((i for i, size in enumerate(reversed(sizes)) if size >= FULL_BYTES), len(sizes))
    if small <= MAX_BATCHES:
        assert start == len(sizes)
        return
    assert len(sizes) - small <= start < len(sizes) - 1
    # What was merged with it is at least as large as each that is merged: its place in a batch at least doubles.
    assert sizes[start] <= sum(sizes[start + 1 :])
    # What stays unmerged falls off by half: only few such batches can stand there.
    assert all(sizes[i] > sum(sizes[i + 1 :]) for i in range(len(sizes) - small, start))


def test_a_row_is_rewritten_a_few_times_at_most_and_few_batches_remain() -> None:
    rng = np.random.default_rng(3)
    for most_rows in (2, 20, 200, 2_000, 20_000):
        batches: list[int] = []
        written = rewritten = 0
        for size in rng.integers(1, most_rows, 20_000, endpoint=True) * ROW:
            batches.append(int(size))
            written += int(size)
            start = merge_from(batches)
            if start < len(batches):
                rewritten += sum(batches[start:])
                batches[start:] = [sum(batches[start:])]
        full = sum(size >= FULL_BYTES for size in batches)
        assert len(batches) - full <= (full + 1) * (MAX_BATCHES + 18)
        assert len(batches) <= MAX_BATCHES + 18 + 2 * written / FULL_BYTES
        assert rewritten <= 6 * written


def test_many_small_batches_become_few_in_their_order(store: SqlStore) -> None:
    buckets = [Bucket(model, start) for model in ("a", "b") for start in (0, HOUR_MS)]
    epoch = store.claim(0)
    expected = dict.fromkeys(buckets, b"")
    rng = np.random.default_rng(1)
    for i in range(2 * MAX_BATCHES + 20):
        journal = [batch(bucket, int(rng.integers(1, 9)), seed=i) for bucket in buckets for _ in range(2)]
        for bucket, added in journal:
            expected[bucket] += added
        store.save([checkpoint(epoch, i, journal=journal)])
    loaded = load(store)
    assert loaded.rows() == expected
    for bucket in buckets:
        assert sum(item.bucket == bucket for item in loaded.journal) <= MAX_BATCHES + 8
    # A bucket that was merged is dropped whole.
    store.save([checkpoint(epoch, 999, dropped=buckets[:2])])
    assert load(store).rows() == {bucket: expected[bucket] for bucket in buckets[2:]}


@sqlite_first
def test_a_save_merges_only_so_much_and_the_next_ones_go_on(store: SqlStore) -> None:
    buckets = [Bucket("churn", i * HOUR_MS) for i in range(16)]
    epoch = store.claim(0)
    size = FULL_BYTES // ROW  # just not full
    # Far more at once than one save merges.
    piled = [batch(bucket, size, seed=i) for i in range(MAX_BATCHES + 1) for bucket in buckets]
    store.save([checkpoint(epoch, 0, journal=piled)])
    counts = [len(load(store).journal)]
    for i in range(3):
        store.save([checkpoint(epoch, i, journal=[batch(bucket, 1, seed=1) for bucket in buckets])])
        counts.append(len(load(store).journal))
    # A few buckets a save.
    assert all(before > after for before, after in itertools.pairwise(counts))
    loaded = load(store)
    for bucket in buckets:
        expected = b"".join(rows(size, i) for i in range(MAX_BATCHES + 1)) + rows(1, 1) * 3
        assert loaded.rows()[bucket] == expected
    assert max(len(item.rows) for item in loaded.journal) <= MAX_BATCH_BYTES
