"""How the journal is filed: which bucket a row goes to, and which buckets can go."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from monitor.store.base import Bucket, JournalBatch
from monitor.stream.join import Joined

BUCKETS_PER_RETENTION: Final = 24
"""State is dropped a bucket at a time, so it is kept longer than promised by at most this share."""

_SHORTEST_MS: Final = 1000


def bucket_width_ms(retention_ms: int) -> int:
    """Width of the buckets of a model whose state is kept that long."""
    return max(_SHORTEST_MS, retention_ms // BUCKETS_PER_RETENTION)


@dataclass(slots=True)
class _Filed:
    """What a bucket holds: the span of the times by which its rows are filed, and their number."""

    oldest_ms: int
    newest_ms: int
    rows: int


class Files:
    """Knows the buckets that a partition's journal has, by model.

    The width of a model's buckets follows its policy, and policies change between restarts, so buckets of one model
    may overlap. What can be dropped is therefore decided by what they hold, not by where they start.
    """

    def __init__(self) -> None:
        self._models: defaultdict[str, dict[Bucket, _Filed]] = defaultdict(dict)

    def add(self, bucket: Bucket, filed_ms: NDArray[np.int64]) -> None:
        """Note rows of a bucket, filed by these times (at least one)."""
        oldest, newest = int(filed_ms.min()), int(filed_ms.max())
        buckets = self._models[bucket.model]
        known = buckets.get(bucket)
        if known is None:
            buckets[bucket] = _Filed(oldest, newest, filed_ms.size)
        else:
            known.oldest_ms = min(known.oldest_ms, oldest)
            known.newest_ms = max(known.newest_ms, newest)
            known.rows += filed_ms.size

    def droppable(self, model: str, before_ms: int) -> tuple[list[Bucket], int]:
        """The buckets of a model that hold nothing from ``before_ms`` on, and nothing newer than any that stays.

        Returns
        -------
        The buckets, and the time that parts them from those that stay: every row filed before it is in one of them.
        """
        buckets = self._models[model]
        cut = before_ms
        while True:
            lowest = min((filed.oldest_ms for filed in buckets.values() if filed.newest_ms >= cut), default=cut)
            if lowest >= cut:
                return [bucket for bucket, filed in buckets.items() if filed.newest_ms < cut], cut
            cut = lowest

    def oldest_first(self) -> Iterator[tuple[Bucket, int, int]]:
        """(bucket, newest time, rows) of all buckets, by their newest time."""
        everything = [item for buckets in self._models.values() for item in buckets.items()]
        for bucket, filed in sorted(everything, key=lambda item: item[1].newest_ms):
            yield bucket, filed.newest_ms, filed.rows

    def remove(self, bucket: Bucket) -> None:
        """Forget a bucket."""
        del self._models[bucket.model][bucket]


def sort_into_buckets(
    joined: list[Joined], names: list[str], widths_ms: NDArray[np.int64]
) -> Iterator[tuple[JournalBatch, NDArray[np.int64]]]:
    """Rows to batches, one a bucket, in the order in which they were accepted; with the times they are filed by.

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
    filed_ms = np.concatenate([part.filed_ms for part in joined])
    start_ms = filed_ms - filed_ms % widths_ms[model]
    order = np.lexsort((start_ms, model))  # stable: rows of one bucket keep their order
    model, start_ms = model[order], start_ms[order]
    turns = np.flatnonzero((np.diff(model) != 0) | (np.diff(start_ms) != 0)) + 1
    for part in np.split(np.arange(order.size), turns):
        if part.size:
            bucket = Bucket(names[model[part[0]]], int(start_ms[part[0]]))
            chosen = order[part]
            yield JournalBatch(bucket, rows[chosen].tobytes()), filed_ms[chosen]
