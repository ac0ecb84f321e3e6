"""Labelled events: the data that maps are fitted on."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import xxhash
from numpy.typing import ArrayLike, NDArray

from monitor.arrays import Floats, Ints
from monitor.errors import InputError, NotEnoughData
from monitor.scores.arguments import number_text, numbers, require_same_index
from monitor.scores.class_table import ClassTable
from monitor.scores.table import ScoreTable, check

NO_SEGMENT: Final = ""
"""The value of a segment key for an event that has none."""

MAX_FEATURE: Final = 1e150
"""Sums of squares of larger numbers overflow float64. Such values usually encode missing ones."""

_MAX_WEIGHT: Final = 1e100


@dataclass(frozen=True, eq=False)
class LabelledEvents:
    """Predictions and their outcomes in the order of time, with weights, features and segments.

    Create them with :meth:`of`, which checks the values.

    Attributes
    ----------
    prediction
        float64, shape (n,): P(y = 1); or (n, K): probabilities of K classes.
    outcome
        int64, shape (n,): 0 or 1; or the class that came true.
    weight
        float64, shape (n,): how many events of the stream each represents, above 0; their mean is 1. All are 1
        unless the events are a sample.
    time_ms
        int64, shape (n,), ascending: time of the prediction, milliseconds since the epoch.
    features
        float64, shape (n, D), finite; None where there are none.
    segments
        Key -> text, shape (n,): its value for each event, empty where it has none.
    counts
        int64, shape (n,): how many events each row stands for, of events that were counted by :meth:`counted`; their
        weights are these counts. None: each row is one event.
    """

    prediction: Floats
    outcome: Ints
    weight: Floats
    time_ms: Ints
    features: Floats | None = None
    segments: Mapping[str, NDArray[np.str_]] = field(default_factory=dict)
    counts: Ints | None = None

    @classmethod
    def counted(cls, table: ScoreTable) -> "LabelledEvents":
        """The events of a table of whole numbers: a row for each score and outcome, all of one time.

        Maps that need predictions and outcomes alone are fitted on them as on the events at the table's scores.
        """
        rows = [(table.score, 0, table.negatives), (table.score, 1, table.positives)]
        score, counts = (np.concatenate([row[column] for row in rows]) for column in (0, 2))
        outcome = np.repeat([0, 1], table.rows)
        held = np.flatnonzero(counts)
        held = held[np.lexsort((outcome[held], score[held]))]
        counts = counts[held]
        return cls(
            prediction=score[held],
            outcome=outcome[held],
            weight=counts.astype(np.float64),
            time_ms=np.zeros(held.size, np.int64),
            counts=counts.astype(np.int64),
        )

    @classmethod
    def of(
        cls,
        prediction: ArrayLike,
        outcome: ArrayLike,
        *,
        weight: ArrayLike | None = None,
        time_ms: ArrayLike | None = None,
        features: ArrayLike | None = None,
        segments: Mapping[str, ArrayLike] | None = None,
    ) -> "LabelledEvents":
        """Check the values and sort them by time (stable). Without times, events are in the order given.

        Raises
        ------
        InputError
            A value is out of its range, or lengths differ. Names key and value.
        """
        require_same_index(
            prediction=prediction, outcome=outcome, weight=weight, time_ms=time_ms, features=features, segments=segments
        )
        p, label = check_outcomes(prediction, outcome)
        n = p.shape[0]
        w = np.ones(n) if weight is None else numbers("weight", weight)
        times = np.arange(n) if time_ms is None else _whole_numbers("time_ms", time_ms)
        named = {f"segment {key!r}": np.asarray(value, np.str_) for key, value in (segments or {}).items()}
        for name, column in {"weight": w, "time_ms": times, **named}.items():
            if column.shape != (n,):
                raise InputError(f"{name} must be one value for each of {n} predictions, got shape {column.shape}")
        # Sums of larger weights, or of their squares, would be infinite.
        check(w, (w > 0.0) & (w <= _MAX_WEIGHT), f"weight must be above 0 and at most {_MAX_WEIGHT:g}")
        x = None if features is None else feature_table(features)
        if x is not None and x.shape[0] != n:
            raise InputError(f"features must be as long as prediction, got {x.shape[0]} and {n}")
        order = np.argsort(times, kind="stable")
        return cls(
            prediction=p[order],
            outcome=label[order],
            weight=w[order] / w.mean() if n else w,
            time_ms=times[order],
            features=None if x is None else x[order],
            segments={key: value[order] for key, value in zip(segments or {}, named.values(), strict=True)},
        )

    def __len__(self) -> int:
        return int(self.prediction.shape[0])

    @property
    def n(self) -> int:
        """Number of events."""
        return len(self) if self.counts is None else int(self.counts.sum())

    @property
    def squares(self) -> Floats:
        """Sum of the squared weights of each row's events, shape (n,)."""
        return self.weight**2 if self.counts is None else self.weight**2 / self.counts

    @property
    def classes(self) -> int:
        """Number K of classes; 2 for predictions P(y = 1) alone."""
        return 2 if self.is_binary else int(self.prediction.shape[1])

    @property
    def is_binary(self) -> bool:
        """Whether predictions are P(y = 1) alone."""
        return self.prediction.ndim == 1

    @property
    def is_whole(self) -> bool:
        """Whether all weights are 1, because the events are not a sample."""
        return bool((self.weight == 1.0).all())

    def select(self, rows: Any) -> "LabelledEvents":
        """Return the events of these rows: a slice, a mask or ascending indices. Weights are scaled to the mean 1."""
        weight = self.weight[rows]
        return LabelledEvents(
            prediction=self.prediction[rows],
            outcome=self.outcome[rows],
            weight=weight / weight.mean() if weight.size else weight,
            time_ms=self.time_ms[rows],
            features=None if self.features is None else self.features[rows],
            segments={key: value[rows] for key, value in self.segments.items()},
        )

    def content_hash(self) -> str:
        """Return a 128-bit hash of all values as 32 hexadecimal digits."""
        digest = xxhash.xxh3_128()
        for array in (self.prediction, self.outcome, self.weight, self.time_ms, self.features):
            if array is None:
                digest.update(b"none")
            else:
                digest.update(f"{array.dtype.str}{array.shape}".encode())
                digest.update(np.ascontiguousarray(array).tobytes())
        for key in sorted(self.segments):
            # JSON delimits the texts: different lists could be equal when concatenated.
            digest.update(json.dumps([key, *self.segments[key].tolist()]).encode())
        return digest.hexdigest()

    def require_events(self, least: int) -> None:
        """Raise NotEnoughData if there are fewer events."""
        if self.n < least:
            raise NotEnoughData(f"{self.n} labelled events, at least {least} are needed")

    def require_outcomes(self, least: int) -> None:
        """Raise NotEnoughData if there are fewer events, or all have the same outcome."""
        self.require_events(least)
        counts = np.bincount(self.outcome, self.counts, minlength=self.classes)
        rarest, common = int(np.argmin(counts)), int(np.argmax(counts))
        if self.is_binary and counts[rarest] < 1:
            raise NotEnoughData(f"only 0 of {self.n} labelled events have the outcome {rarest}, at least 1 are needed")
        if counts[common] == self.n:
            raise NotEnoughData(
                f"{self.n} of {self.n} labelled events have the outcome {common}; at least 1 of a second one are needed"
            )

    def choose_segment(self, method: str, key: object) -> str:
        """Return the segment key that the option ``segment`` of a method names, or the only one if it is None.

        Raises
        ------
        InputError
            There is no such key, or there are several and none is named. Lists the keys.
        """
        keys = ", ".join(sorted(self.segments))
        if key is None:
            if len(self.segments) == 1:
                return next(iter(self.segments))
            raise InputError(f"option segment of {method} must name one of {keys}: these events have several")
        if key not in self.segments:
            raise InputError(f"option segment of {method} must be one of {keys}, got {key!r}")
        return str(key)


def check_outcomes(prediction: ArrayLike, outcome: ArrayLike) -> tuple[Floats, Ints]:
    """Check predictions P(y = 1), shape (n,), or class probabilities (n, K), and their outcomes.

    Raises
    ------
    InputError
        A value is out of its range, or shapes do not fit. Names key and value.
    """
    p, y = numbers("prediction", prediction), numbers("outcome", outcome)
    if p.ndim == 2:
        table = ClassTable.from_events(p, y)
        return table.prediction, table.outcome.astype(np.int64)
    if p.ndim != 1 or p.shape != y.shape:
        raise InputError(f"prediction and outcome must be equally long, got shapes {p.shape} and {y.shape}")
    check(p, (p >= 0.0) & (p <= 1.0), "prediction must be in [0, 1]")
    check(y, (y == 0.0) | (y == 1.0), "outcome must be 0 or 1")
    return p, y.astype(np.int64)


def feature_table(features: ArrayLike) -> Floats:
    """Check features and convert them to float64, shape (n, D).

    Raises
    ------
    InputError
        They are not a table of numbers up to 1e150 in size. Names the first wrong value.
    """
    x = np.ascontiguousarray(numbers("features", features))
    if x.ndim != 2 or x.shape[1] == 0:
        raise InputError(f"features must have the shape (events, features), got {x.shape}")
    usable = np.abs(x) <= MAX_FEATURE
    if not usable.all():
        row, column = np.argwhere(~usable)[0]
        got = number_text(x[row, column])
        raise InputError(
            f"features must be finite and up to {MAX_FEATURE:g} in size, got {got} in row {row}, column {column}"
        )
    return x


def group_indices(groups: Sequence[str], values: NDArray[np.str_]) -> Ints:
    """Return the index of each value among the ascending groups, shape (n,); -1 if it is not one of them."""
    if not groups:
        return np.full(values.shape, -1, np.int64)
    ordered = np.array(groups)
    index = np.minimum(np.searchsorted(ordered, values), ordered.size - 1)
    return np.where(ordered[index] == values, index, -1)


def rows_by_group(index: Ints, groups: int) -> list[Ints]:
    """Return the ascending rows of each group, given each event's group index; -1 belongs to none."""
    order = np.argsort(index, kind="stable")
    bounds = np.searchsorted(index[order], np.arange(groups + 1))
    return [order[start:stop] for start, stop in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)]


def _whole_numbers(name: str, values: ArrayLike) -> Ints:
    try:
        raw = np.asarray(values)
        with np.errstate(invalid="ignore"):
            whole = raw.astype(np.int64)
        differs = np.asarray(whole != raw, np.bool_)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{name} must be whole numbers: {error}") from error
    if differs.any():
        raise InputError(f"{name} must be whole numbers, got {raw[differs].flat[0]}")
    return whole
