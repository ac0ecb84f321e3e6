"""A closed sample: labelled events of one version and one span of time, whose outcomes can change no more."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from monitor.errors import DamagedStore
from monitor.store import sample_columns as arrow
from monitor.store.bottom_samples import keep_fewest

KIND: Final = "events"

SCHEMA: Final = pa.schema(
    [
        pa.field("id_high", pa.uint64(), nullable=False),
        pa.field("id_low", pa.uint64(), nullable=False),
        pa.field("time_ms", pa.int64(), nullable=False),
        pa.field("confidence", pa.int32(), nullable=False),
        pa.field("prediction", pa.list_(pa.float64()), nullable=False),
        pa.field("outcome", pa.int16(), nullable=False),
        pa.field("segments", pa.string(), nullable=False),
        pa.field("features", pa.list_(pa.float32())),
    ]
)
"""``prediction`` is [P(y = 1)], or the probabilities of all classes; ``segments`` is JSON: [[key, value], ...]."""


@dataclass(frozen=True, eq=False, slots=True)
class ClosedSample:
    """A value: samples add, in any order, to the same.

    Attributes
    ----------
    capacity
        How many events it keeps; at least 1.
    labelled
        Stratum of confidence -> how many labelled events of it there were, sampled or not.
    table
        A pyarrow.Table of SCHEMA, in the order of the ids' hashes: the sampled ones.
    """

    capacity: int
    labelled: Mapping[int, int]
    table: Any

    @classmethod
    def of(cls, capacity: int, labelled: Mapping[int, int], table: Any) -> "ClosedSample":
        """Keep of the events of a table (SCHEMA, in any order) as many as there is room for."""
        keys = [arrow.numbers(table, name) for name in ("id_high", "id_low", "time_ms")]
        kept = keep_fewest(arrow.numbers(table, "confidence"), capacity, *keys)
        return cls(capacity, dict(sorted(labelled.items())), table.take(pa.array(kept, pa.int64())).combine_chunks())

    @classmethod
    def sum(cls, parts: Sequence["ClosedSample"]) -> "ClosedSample":
        """The sample of all their events (at least one part). Of different capacities it has the smallest.

        A sample of a larger one would need events that the smaller has turned away.
        """
        labelled: Counter[int] = Counter()
        for part in parts:
            labelled.update(part.labelled)
        return cls.of(min(part.capacity for part in parts), labelled, pa.concat_tables([part.table for part in parts]))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ClosedSample) and self.to_bytes() == other.to_bytes()

    def __hash__(self) -> int:
        return hash(self.to_bytes())

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def raw_weights(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        """How many labelled events of its stratum each sampled one stands for, shape (n,)."""
        strata = arrow.numbers(self.table, "confidence")
        held = Counter(strata.tolist())
        share = {stratum: self.labelled.get(stratum, 0) / count for stratum, count in held.items()}
        return np.array([share[stratum] for stratum in strata.tolist()], np.float64)

    def to_bytes(self) -> bytes:
        """One Arrow file."""
        header = {"capacity": self.capacity, "labelled": sorted(self.labelled.items())}
        return arrow.encode(self.table, KIND, header)

    @classmethod
    def from_bytes(cls, data: bytes) -> "ClosedSample":
        """What :meth:`to_bytes` wrote.

        Raises
        ------
        DamagedStore
            It is damaged, or of a newer format.
        """
        table, header = arrow.decode(data, KIND, SCHEMA)
        try:
            labelled = {int(stratum): int(count) for stratum, count in header["labelled"]}
            return cls(int(header["capacity"]), labelled, table)
        except (KeyError, TypeError, ValueError) as error:
            raise DamagedStore(f"the header of a stored sample is damaged: {error!r}; restore a backup") from error
