"""Candidates: predictions that are in a sample if their outcome comes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from monitor.store import closed_samples as arrow
from monitor.store.bottom_sample_loops import Hashes, Ints, keep_fewest

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
    """Predictions with their features. The rest of their data is in the join.

    Attributes
    ----------
    id_high, id_low
        Hash of the id, uint64, shape (n,) each.
    confidence
        Stratum of confidence, int32, shape (n,).
    stratum
        Stratum of names of the partition, with version and segments; int32, shape (n,).
    lengths
        Number of features, int32, shape (n,); NO_FEATURES for none.
    features
        float32, shape (k,): the features of all, concatenated.
    """

    id_high: Hashes
    id_low: Hashes
    confidence: NDArray[np.int32]
    stratum: NDArray[np.int32]
    lengths: NDArray[np.int32]
    features: NDArray[np.float32]

    @classmethod
    def joined(cls, parts: Sequence["Candidates"]) -> "Candidates":
        """Concatenate."""
        if len(parts) == 1:
            return parts[0]
        none = np.empty(0, np.uint64), *(np.empty(0, dtype) for dtype in (np.uint64, *(np.int32,) * 3, np.float32))
        columns = [none, *(part.columns() for part in parts)]
        return cls(*(np.concatenate(column) for column in zip(*columns, strict=True)))

    def columns(self) -> tuple[NDArray[Any], ...]:
        """The columns, in the order of the fields."""
        return self.id_high, self.id_low, self.confidence, self.stratum, self.lengths, self.features

    def __len__(self) -> int:
        return self.id_high.size

    @property
    def nbytes(self) -> int:
        """Bytes of the columns."""
        return sum(column.nbytes for column in self.columns())

    def take(self, rows: Ints) -> "Candidates":
        """The candidates at these places."""
        lengths, features = self.lengths[rows], self.features
        width = features.size // len(self) if len(self) else 0
        if width and (self.lengths == width).all():
            features = features.reshape(-1, width)[rows].reshape(-1)
        elif features.size:
            sizes = np.maximum(self.lengths, 0).astype(np.int64)
            taken = sizes[rows]
            # The place of each number: where the features of its row begin, plus its distance from there.
            shift = (np.cumsum(sizes) - sizes)[rows] - (np.cumsum(taken) - taken)
            features = features[np.repeat(shift, taken) + np.arange(int(taken.sum()))]
        return Candidates(*[*(column[rows] for column in self.columns()[:4]), lengths, features])

    def slices(self, cuts: Sequence[int]) -> Iterator["Candidates"]:
        """Yield the slices between these places, which begin with 0 and end with the length. They share the columns."""
        ends = np.concatenate([[0], np.cumsum(np.maximum(self.lengths, 0))])[cuts].tolist()
        for start, end, first, last in zip(cuts, cuts[1:], ends, ends[1:], strict=False):
            yield Candidates(*[*(column[start:end] for column in self.columns()[:5]), self.features[first:last]])

    def fewest(self, capacity: int) -> Ints:
        """Places of the candidates that a sample of that capacity keeps, in the order of their hashes."""
        return keep_fewest(self.confidence, capacity, self.id_high, self.id_low)

    def feature_lists(self) -> Any:
        """The features as a pyarrow.ListArray, null for none."""
        if not self.features.size and (self.lengths == NO_FEATURES).all():
            return pa.nulls(len(self), SCHEMA.field("features").type)
        ends = np.concatenate([[0], np.cumsum(np.maximum(self.lengths, 0))])
        missing = self.lengths == NO_FEATURES
        # A null offset makes the list that begins there null.
        mask = np.concatenate([missing, [False]]) if missing.any() else None
        return pa.ListArray.from_arrays(pa.array(ends, pa.int32(), mask=mask), pa.array(self.features, pa.float32()))

    @property
    def table(self) -> Any:
        """A pyarrow.Table of SCHEMA."""
        columns = [pa.array(column) for column in self.columns()[:4]]
        return pa.Table.from_arrays([*columns, self.feature_lists()], schema=SCHEMA)

    def to_bytes(self) -> bytes:
        """One Arrow file."""
        return arrow.encode(self.table, KIND, {})

    @classmethod
    def from_bytes(cls, data: bytes) -> "Candidates":
        """What :meth:`to_bytes` wrote. Raises DamagedStore."""
        table, _ = arrow.decode(data, KIND, SCHEMA)
        lists = table["features"]
        lengths = pc.fill_null(pc.list_value_length(lists), NO_FEATURES)
        flat = pc.list_flatten(lists)
        columns = [arrow.numbers(table, name) for name in SCHEMA.names[:4]]
        return cls(*columns, *[np.asarray(lengths.to_numpy(), np.int32), np.asarray(flat.to_numpy(), np.float32)])
