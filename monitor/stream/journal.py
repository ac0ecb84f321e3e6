"""Buckets of the journal: assign rows to them, and find the ones that can be dropped."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from monitor.arrays import grouped
from monitor.store.base import MAX_BATCH_BYTES, Bucket, CandidateBatch, JournalBatch
from monitor.stream.join import Joined
from monitor.stream.journal_loops import JOURNAL_ROW, VECTOR

_Batch = TypeVar("_Batch", JournalBatch, CandidateBatch)

BUCKETS_PER_RETENTION: Final = 24
"""State is dropped by whole buckets, so it is kept longer than the retention by at most one part in so many."""

_MIN_WIDTH_MS: Final = 1000

_GATHERED_BYTES: Final = 1 << 22


def gather(batches: Iterable[_Batch]) -> Iterator[list[_Batch]]:
    """Group consecutive batches by size, some MiB each: with many models, most of them hold a few rows."""
    group: list[_Batch] = []
    size = 0
    for batch in batches:
        group.append(batch)
        size += len(batch.rows)
        if size >= _GATHERED_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group


def bucket_width_ms(retention_ms: int) -> int:
    """Width of the buckets of a model whose state is kept that long."""
    return max(_MIN_WIDTH_MS, retention_ms // BUCKETS_PER_RETENTION)


@dataclass(slots=True)
class _Contents:
    """The time from which on nothing in a bucket is needed, and the number of its rows."""

    end_ms: int
    rows: int


class JournalBuckets:
    """The buckets of a partition's journal, by model.

    The width of a model's buckets follows its policy, and policies change between restarts, so buckets of one model
    may overlap, and rows may be later than the end of their bucket.
    """

    def __init__(self) -> None:
        self._models: defaultdict[str, dict[Bucket, _Contents]] = defaultdict(dict)

    def add(self, bucket: Bucket, newest_ms: int, rows: int, width_ms: int) -> None:
        """Note rows of a bucket, and the time of the newest of them."""
        contents = self._models[bucket.model].setdefault(bucket, _Contents(bucket.start_ms + width_ms, 0))
        contents.end_ms = max(contents.end_ms, newest_ms + 1)
        contents.rows += rows

    def drop(self, model: str, before_ms: int) -> list[Bucket]:
        """Forget the buckets of a model that end by a time, and return them."""
        buckets = self._models[model]
        dropped = [bucket for bucket, contents in buckets.items() if contents.end_ms <= before_ms]
        for bucket in dropped:
            del buckets[bucket]
        return dropped

    def held_from_ms(self, model: str, closed_to_ms: int) -> int:
        """The time from which on a model has predictions in the join, or in a bucket that is not dropped yet."""
        return min([closed_to_ms, *(bucket.start_ms for bucket in self._models[model])])

    def oldest_first(self) -> Iterator[tuple[Bucket, int, int]]:
        """(bucket, end, rows) of all buckets, by their ends."""
        everything = [item for buckets in self._models.values() for item in buckets.items()]
        for bucket, contents in sorted(everything, key=lambda item: item[1].end_ms):
            yield bucket, contents.end_ms, contents.rows


def pieces(rows: NDArray[np.void]) -> Iterator[bytes]:
    """Yield the bytes of rows in parts of at most MAX_BATCH_BYTES; never cut between a row and its VECTOR rows."""
    start, most = 0, MAX_BATCH_BYTES // JOURNAL_ROW.itemsize
    while start < rows.size:
        end = start + most
        while end < rows.size and rows["entry"][end] == VECTOR:
            end -= 1
        yield rows[start:end].tobytes()
        start = end


def sort_into_buckets(
    joined: list[Joined], names: list[str], widths_ms: NDArray[np.int64]
) -> Iterator[tuple[Bucket, NDArray[np.void], int]]:
    """Group rows by bucket, in the order in which they were accepted, with the newest of their bucket times.

    Parameters
    ----------
    joined
        What was accepted since the last checkpoint.
    names, widths_ms
        Name, and width of its buckets, of each model by model id.
    """
    if not joined:
        return
    rows = np.concatenate([part.rows for part in joined])
    model = np.concatenate([part.model for part in joined])
    times_ms = np.concatenate([part.bucket_time_ms for part in joined])
    start_ms = times_ms - times_ms % widths_ms[model]
    order, cuts = grouped(model, start_ms)
    for first, end in pairwise(cuts):
        chosen = order[first:end]
        bucket = Bucket(names[model[chosen[0]]], int(start_ms[chosen[0]]))
        yield bucket, rows[chosen], int(times_ms[chosen].max())
