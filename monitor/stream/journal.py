"""Buckets of the journal: assign rows to them, and find the ones that can be dropped."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from monitor.store.base import Bucket, JournalBatch
from monitor.stream.join import Joined

BUCKETS_PER_RETENTION: Final = 24
"""State is dropped by whole buckets, so it is kept longer than the retention by at most one part in so many."""

_MIN_WIDTH_MS: Final = 1000


def bucket_width_ms(retention_ms: int) -> int:
    """Width of the buckets of a model whose state is kept that long."""
    return max(_MIN_WIDTH_MS, retention_ms // BUCKETS_PER_RETENTION)


@dataclass(slots=True)
class _Contents:
    """Oldest and newest bucket time of the rows in a bucket, and their number."""

    oldest_ms: int
    newest_ms: int
    rows: int


class JournalBuckets:
    """The buckets of a partition's journal, by model.

    The width of a model's buckets follows its policy, and policies change between restarts, so buckets of one model
    may overlap. Whether one can be dropped therefore depends on its rows, not on its start.
    """

    def __init__(self) -> None:
        self._models: defaultdict[str, dict[Bucket, _Contents]] = defaultdict(dict)

    def add(self, bucket: Bucket, times_ms: NDArray[np.int64]) -> None:
        """Note rows of a bucket with these times (at least one)."""
        oldest, newest = int(times_ms.min()), int(times_ms.max())
        contents = self._models[bucket.model].setdefault(bucket, _Contents(oldest, newest, 0))
        contents.oldest_ms = min(contents.oldest_ms, oldest)
        contents.newest_ms = max(contents.newest_ms, newest)
        contents.rows += times_ms.size

    def droppable(self, model: str, before_ms: int) -> tuple[list[Bucket], int]:
        """Buckets of a model that hold only rows before a cut, at most ``before_ms``, and all of those.

        Returns
        -------
        The buckets, and the cut.
        """
        buckets = self._models[model]
        cut = before_ms
        while True:
            lowest = min(
                (contents.oldest_ms for contents in buckets.values() if contents.newest_ms >= cut), default=cut
            )
            if lowest >= cut:
                return [bucket for bucket, contents in buckets.items() if contents.newest_ms < cut], cut
            cut = lowest

    def oldest_first(self) -> Iterator[tuple[Bucket, int, int]]:
        """(bucket, newest time, rows) of all buckets, by their newest time."""
        everything = [item for buckets in self._models.values() for item in buckets.items()]
        for bucket, contents in sorted(everything, key=lambda item: item[1].newest_ms):
            yield bucket, contents.newest_ms, contents.rows

    def remove(self, bucket: Bucket) -> None:
        """Forget a bucket."""
        del self._models[bucket.model][bucket]


def sort_into_buckets(
    joined: list[Joined], names: list[str], widths_ms: NDArray[np.int64]
) -> Iterator[tuple[JournalBatch, NDArray[np.int64]]]:
    """Group rows into one batch per bucket, in the order in which they were accepted, with their bucket times.

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
    order = np.lexsort((start_ms, model))  # stable: rows of one bucket keep their order
    model, start_ms = model[order], start_ms[order]
    changes = np.flatnonzero((np.diff(model) != 0) | (np.diff(start_ms) != 0)) + 1
    for part in np.split(np.arange(order.size), changes):
        if part.size:
            bucket = Bucket(names[model[part[0]]], int(start_ms[part[0]]))
            chosen = order[part]
            yield JournalBatch(bucket, rows[chosen].tobytes()), times_ms[chosen]
