"""Candidates: predictions that may come to be in a sample, should their outcome come."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from monitor.store import sample_columns as arrow
from monitor.store.bottom_samples import Hashes, Ints, keep_fewest

KIND: Final = "candidates"

NO_FEATURES: Final = -1

SCHEMA: Final = pa.schema(
    [
        pa.field("id_high", pa.uint64(), nullable=False),
        pa.field("id_low", pa.uint64(), nullable=False),
        pa.field("confidence", pa.int32(), nullable=False),
        pa.field("stratum", pa.int32(), nullable=False),
        pa.field("features", pa.list_(pa.float32())),
    ]
)


@dataclass(frozen=True, eq=False, slots=True)
class Candidates:
    """Predictions, and the features that came with them. What else is known of them, the join knows.

    Attributes
    ----------
    id_high, id_low
        Hash of the id, uint64, shape (n,) each.
    confidence
        Stratum of confidence, int32, shape (n,).
    stratum
        The partition's stratum of names, which tells version and segments; int32, shape (n,).
    lengths
        How many features each has, int32, shape (n,); NO_FEATURES where there were none.
    features
        float32, shape (k,): those of all, one behind the other.
    """

    id_high: Hashes
    id_low: Hashes
    confidence: NDArray[np.int32]
    stratum: NDArray[np.int32]
    lengths: NDArray[np.int32]
    features: NDArray[np.float32]

    @classmethod
    def joined(cls, parts: Sequence["Candidates"]) -> "Candidates":
        """All of these, one behind the other."""
        if len(parts) == 1:
            return parts[0]
        return cls(
            np.concatenate([np.empty(0, np.uint64), *(part.id_high for part in parts)]),
            np.concatenate([np.empty(0, np.uint64), *(part.id_low for part in parts)]),
            np.concatenate([np.empty(0, np.int32), *(part.confidence for part in parts)]),
            np.concatenate([np.empty(0, np.int32), *(part.stratum for part in parts)]),
            np.concatenate([np.empty(0, np.int32), *(part.lengths for part in parts)]),
            np.concatenate([np.empty(0, np.float32), *(part.features for part in parts)]),
        )

    def __len__(self) -> int:
        return self.id_high.size

    @property
    def nbytes(self) -> int:
        """Bytes of the columns."""
        numbers = (self.id_high, self.id_low, self.confidence, self.stratum, self.lengths, self.features)
        return sum(column.nbytes for column in numbers)

    def take(self, rows: Ints) -> "Candidates":
        """The rows of these places."""
        lengths, features = self.lengths[rows], self.features
        width = features.size // len(self) if len(self) else 0
        if width and (self.lengths == width).all():
            features = features.reshape(-1, width)[rows].reshape(-1)
        elif features.size:
            held = np.maximum(self.lengths, 0).astype(np.int64)
            taken = held[rows]
            # Each number's place: where its row's features begin, and how far it is from them.
            shift = (np.cumsum(held) - held)[rows] - (np.cumsum(taken) - taken)
            features = features[np.repeat(shift, taken) + np.arange(int(taken.sum()))]
        return Candidates(
            self.id_high[rows], self.id_low[rows], self.confidence[rows], self.stratum[rows], lengths, features
        )

    def slices(self, cuts: Sequence[int]) -> Iterator["Candidates"]:
        """The stretches between these places, the first of which is 0 and the last the end. They share the columns."""
        ends = np.concatenate([[0], np.cumsum(np.maximum(self.lengths, 0))])[cuts].tolist()
        for start, end, first, last in zip(cuts, cuts[1:], ends, ends[1:], strict=False):
            yield Candidates(
                self.id_high[start:end],
                self.id_low[start:end],
                self.confidence[start:end],
                self.stratum[start:end],
                self.lengths[start:end],
                self.features[first:last],
            )

    def fewest(self, capacity: int) -> Ints:
        """Places of those that a sample of that capacity keeps, in the order of their hashes."""
        return keep_fewest(self.confidence, capacity, self.id_high, self.id_low)

    def feature_lists(self) -> Any:
        """The features as a pyarrow.ListArray, null where there were none."""
        ends = np.concatenate([[0], np.cumsum(np.maximum(self.lengths, 0))])
        missing = self.lengths == NO_FEATURES
        # An offset that is null makes the list that begins there null.
        mask = np.concatenate([missing, [False]]) if missing.any() else None
        return pa.ListArray.from_arrays(pa.array(ends, pa.int32(), mask=mask), pa.array(self.features, pa.float32()))

    @property
    def table(self) -> Any:
        """A pyarrow.Table of SCHEMA."""
        columns = [pa.array(column) for column in (self.id_high, self.id_low, self.confidence, self.stratum)]
        return pa.Table.from_arrays([*columns, self.feature_lists()], schema=SCHEMA)

    def to_bytes(self) -> bytes:
        """One Arrow file."""
        return arrow.encode(self.table, KIND, {})

    @classmethod
    def from_bytes(cls, data: bytes) -> "Candidates":
        """What :meth:`to_bytes` wrote. Raises DamagedStore."""
        table, _ = arrow.decode(data, KIND, SCHEMA)
        lists = table["features"]
        lengths = pa.compute.fill_null(pa.compute.list_value_length(lists), NO_FEATURES)
        flat = pa.compute.list_flatten(lists)
        return cls(
            arrow.numbers(table, "id_high"),
            arrow.numbers(table, "id_low"),
            arrow.numbers(table, "confidence"),
            arrow.numbers(table, "stratum"),
            np.asarray(lengths.to_numpy(), np.int32),
            np.asarray(flat.to_numpy(), np.float32),
        )
