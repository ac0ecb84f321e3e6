"""Candidates: predictions that may come to be in a sample, should their outcome come."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from monitor.samples import arrow
from monitor.samples.bottom import Hashes, Ints, keep_fewest

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
    table
        A pyarrow.Table of SCHEMA: hash of the id; stratum of confidence; the partition's stratum of names, which tells
        version and segments; features, null where there were none.
    """

    table: Any

    @classmethod
    def of(
        cls,
        id_high: Hashes,
        id_low: Hashes,
        confidence: NDArray[np.int32],
        stratum: NDArray[np.int32],
        *,
        lengths: NDArray[np.int32],
        features: NDArray[np.float32],
    ) -> "Candidates":
        """From columns of shape (n,).

        Parameters
        ----------
        lengths
            How many features each has; NO_FEATURES where there were none.
        features
            float32, shape (k,): those of all, one behind the other.
        """
        ends = np.concatenate([[0], np.cumsum(np.maximum(lengths, 0))])
        # An offset that is null makes the list that begins there null.
        offsets = pa.array(ends, pa.int32(), mask=np.concatenate([lengths == NO_FEATURES, [False]]))
        columns = [
            pa.array(id_high, pa.uint64()),
            pa.array(id_low, pa.uint64()),
            pa.array(confidence, pa.int32()),
            pa.array(stratum, pa.int32()),
            pa.ListArray.from_arrays(offsets, pa.array(features, pa.float32())),
        ]
        return cls(pa.Table.from_arrays(columns, schema=SCHEMA))

    @classmethod
    def joined(cls, parts: Sequence["Candidates"]) -> "Candidates":
        """All of these, one behind the other."""
        return cls(pa.concat_tables([SCHEMA.empty_table(), *(part.table for part in parts)]).combine_chunks())

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @property
    def id_high(self) -> Hashes:
        """uint64, shape (n,)."""
        return arrow.numbers(self.table, "id_high")

    @property
    def id_low(self) -> Hashes:
        """uint64, shape (n,)."""
        return arrow.numbers(self.table, "id_low")

    @property
    def confidence(self) -> NDArray[np.int32]:
        """int32, shape (n,)."""
        return arrow.numbers(self.table, "confidence")

    @property
    def stratum(self) -> NDArray[np.int32]:
        """int32, shape (n,)."""
        return arrow.numbers(self.table, "stratum")

    @property
    def nbytes(self) -> int:
        """Bytes of the columns."""
        return int(self.table.nbytes)

    def take(self, rows: Ints) -> "Candidates":
        """The rows of these places."""
        return Candidates(self.table.take(pa.array(rows, pa.int64())))

    def fewest(self, capacity: int) -> Ints:
        """Places of those that a sample of that capacity keeps, in the order of their hashes."""
        return keep_fewest(self.confidence, capacity, self.id_high, self.id_low)

    def to_bytes(self) -> bytes:
        """One Arrow file."""
        return arrow.encode(self.table, KIND, {})

    @classmethod
    def from_bytes(cls, data: bytes) -> "Candidates":
        """What :meth:`to_bytes` wrote. Raises DamagedStore."""
        table, _ = arrow.decode(data, KIND, SCHEMA)
        return cls(table)
