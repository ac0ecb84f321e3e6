"""Candidates: predictions that are in a sample if their outcome comes. All of a labelled event but its outcome."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from monitor.arrays import Ints
from monitor.store import closed_samples as arrow
from monitor.store.bottom_sample_loops import keep_fewest

KIND: Final = "candidates"

SCHEMA: Final = pa.schema(
    [
        pa.field("id_high", pa.uint64(), nullable=False),
        pa.field("id_low", pa.uint64(), nullable=False),
        pa.field("time_ms", pa.int64(), nullable=False),
        pa.field("confidence", pa.int32(), nullable=False),
        pa.field("stratum", pa.int32(), nullable=False),
        pa.field("prediction", pa.list_(pa.float64()), nullable=False),
        pa.field("features", pa.list_(pa.float32())),
    ]
)
"""``prediction`` and ``features`` are as in a closed sample; ``stratum`` is an id of the partition's."""

_COLUMNS: Final = ("id_high", "id_low", "time_ms", "confidence", "stratum")

CANDIDATE_ROW: Final = np.dtype(
    [*((name, SCHEMA.field(name).type.to_pandas_dtype()) for name in _COLUMNS), ("outcome", np.int16)]
)
"""One candidate without its lists. The outcome is 0 or 1, the class that came true, or -1 until it is settled."""

_NO_OUTCOME: Final = -1
_MISSING: Final = -1


@dataclass(frozen=True, eq=False, slots=True)
class Lists:
    """A list of numbers for each candidate.

    Attributes
    ----------
    lengths
        int32, shape (n,); -1 for none.
    values
        The numbers of all lists, concatenated.
    """

    lengths: NDArray[np.int32]
    values: NDArray[Any]

    @classmethod
    def of(cls, lists: Sequence[NDArray[np.float32] | None]) -> "Lists":
        """Copy lists, which may be slices of a whole batch."""
        lengths = np.array([_MISSING if values is None else len(values) for values in lists], np.int32)
        return cls(lengths, np.concatenate([np.empty(0, np.float32), *(part for part in lists if part is not None)]))

    @classmethod
    def joined(cls, parts: Sequence["Lists"]) -> "Lists":
        """Concatenate."""
        return cls(np.concatenate([part.lengths for part in parts]), np.concatenate([part.values for part in parts]))

    @property
    def ends(self) -> Ints:
        """Where each list begins, and where the last one ends; int64, shape (n + 1,)."""
        return np.concatenate([[0], np.cumsum(np.maximum(self.lengths, 0), dtype=np.int64)])

    def take(self, rows: Ints) -> "Lists":
        """The lists at these places."""
        lengths = self.lengths[rows]
        width = self.values.size // self.lengths.size if self.lengths.size else 0
        if width and (self.lengths == width).all():
            return Lists(lengths, self.values.reshape(-1, width)[rows].reshape(-1))
        return Lists(lengths, gather(self.values, self.ends[rows], np.maximum(lengths, 0)))

    def to_arrow(self) -> Any:
        """A pyarrow.ListArray, null for none."""
        missing = self.lengths == _MISSING
        # A null offset makes the list that begins there null.
        mask = np.append(missing, False) if missing.any() else None
        return pa.ListArray.from_arrays(pa.array(self.ends, pa.int32(), mask=mask), pa.array(self.values))

    @classmethod
    def from_arrow(cls, column: Any) -> "Lists":
        """The lists of a pyarrow.ChunkedArray."""
        lengths = pc.fill_null(pc.list_value_length(column), _MISSING)
        return cls(np.asarray(lengths.to_numpy(), np.int32), np.asarray(pc.list_flatten(column).to_numpy()))


def gather(values: NDArray[Any], start: Ints, length: Ints | NDArray[np.int32]) -> NDArray[Any]:
    """Concatenate the slices ``values[start : start + length]``; int, shape (n,) each."""
    ends = np.cumsum(length, dtype=np.int64)
    return values[np.repeat(start - (ends - length), length) + np.arange(int(length.sum()))]


@dataclass(frozen=True, eq=False, slots=True)
class Candidates:
    """Candidates, column by column.

    Attributes
    ----------
    rows
        CANDIDATE_ROW, shape (n,).
    predictions
        [P(y = 1)], or the probabilities of all classes; float64.
    features
        float32.
    """

    rows: NDArray[np.void]
    predictions: Lists
    features: Lists

    @classmethod
    def joined(cls, parts: Sequence["Candidates"]) -> "Candidates":
        """Concatenate; at least one part."""
        if len(parts) == 1:
            return parts[0]
        return cls(
            np.concatenate([part.rows for part in parts]),
            Lists.joined([part.predictions for part in parts]),
            Lists.joined([part.features for part in parts]),
        )

    def __len__(self) -> int:
        return self.rows.size

    @property
    def nbytes(self) -> int:
        """Bytes of the columns."""
        lists = self.predictions, self.features
        return self.rows.nbytes + sum(part.lengths.nbytes + part.values.nbytes for part in lists)

    def take(self, places: Ints) -> "Candidates":
        """The candidates at these places."""
        return Candidates(self.rows[places], self.predictions.take(places), self.features.take(places))

    def slices(self, cuts: Sequence[int]) -> Iterator["Candidates"]:
        """Yield the slices between these places. They share the columns."""
        predictions, features = self.predictions, self.features
        ends = zip(pairwise(predictions.ends[cuts].tolist()), pairwise(features.ends[cuts].tolist()), strict=True)
        for (start, end), (predicted, of_features) in zip(pairwise(cuts), ends, strict=True):
            yield Candidates(
                self.rows[start:end],
                Lists(predictions.lengths[start:end], predictions.values[slice(*predicted)]),
                Lists(features.lengths[start:end], features.values[slice(*of_features)]),
            )

    def fewest(self, capacity: int) -> Ints:
        """Places of the candidates that a sample of that capacity keeps, in the order of their hashes."""
        keys = (self.rows[name] for name in ("id_high", "id_low", "time_ms"))
        return keep_fewest(self.rows["confidence"], capacity, *keys)

    def columns(self) -> dict[str, Any]:
        """Name -> pyarrow.Array of SCHEMA."""
        columns = {name: pa.array(np.ascontiguousarray(self.rows[name])) for name in _COLUMNS}
        return columns | {"prediction": self.predictions.to_arrow(), "features": self.features.to_arrow()}

    @property
    def table(self) -> Any:
        """A pyarrow.Table of SCHEMA."""
        return pa.table(self.columns(), schema=SCHEMA)

    def closed(self, segments: Any) -> Any:
        """A pyarrow.Table of a closed sample: with the outcomes, and the segments of each candidate as JSON."""
        outcome = pa.array(np.ascontiguousarray(self.rows["outcome"]))
        columns = self.columns() | {"outcome": outcome, "segments": segments}
        return pa.table([columns[name] for name in arrow.SCHEMA.names], schema=arrow.SCHEMA)

    def to_bytes(self) -> bytes:
        """One Arrow file, without the outcomes."""
        return arrow.encode(self.table, KIND, {})

    @classmethod
    def from_bytes(cls, data: bytes) -> "Candidates":
        """What :meth:`to_bytes` wrote. Raises DamagedStore."""
        table, _ = arrow.decode(data, KIND, SCHEMA)
        rows = np.empty(table.num_rows, CANDIDATE_ROW)
        for name in _COLUMNS:
            rows[name] = arrow.numbers(table, name)
        rows["outcome"] = _NO_OUTCOME
        return cls(rows, Lists.from_arrow(table["prediction"]), Lists.from_arrow(table["features"]))
