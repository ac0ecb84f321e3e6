"""Search the values of columns and of pairs of columns for groups with an error of their own.

Every group is tested for an error of its level and of its slope beyond that of the whole. Then the most significant
group is fitted and the others are tested again given that fit, so that a group is not named for the error of another
one that shares its rows. p-values are corrected for all tests (Holm): of a model that is calibrated, or equally wrong
everywhere, a group is named in at most one search of twenty, however many columns there are.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Final, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy.special import expit

from monitor.arrays import Bools, Floats, Ints
from monitor.errors import InputError
from monitor.events.model import OTHER
from monitor.inference.cox import logits
from monitor.inference.newton import Curved, minimise
from monitor.progress import Progress, no_progress
from monitor.reports.evaluation.segments import FALSE_DISCOVERY_RATE, MAX_SEGMENT_VALUES, crossed, titles_of
from monitor.sources.tables import SegmentColumn

MAX_FOUND: Final = 10
"""Largest number of groups named, the most significant ones."""

MIN_EVENTS: Final = 100
MIN_INFORMATION: Final = 5.0
"""Least information of a tested group: its events, and the sum of p (1 - p), as 5 positives or negatives need."""

_MIN_SHARE: Final = 0.2
"""Share of a group's information that the fit must not explain; a group that is nearly the whole is not tested."""
_RIDGE: Final = 0.01
"""Prior precision of offsets and slopes, which keeps them finite where outcomes are separated perfectly."""
_PRECISION: Final = 1e-9


@dataclass(frozen=True, eq=False, slots=True)
class FoundSegment:
    """A group with an error of its own.

    Attributes
    ----------
    name
        ``region=eu, age 18 to 34``.
    rows
        Its rows, int64, ascending.
    p_value
        Of its test, given the groups found before.
    q_value
        The p-value corrected for all tests of the search.
    """

    name: str
    rows: NDArray[np.intp]
    p_value: float
    q_value: float


@dataclass(frozen=True, slots=True)
class SegmentSearch:
    """The result of a search.

    Attributes
    ----------
    columns
        Columns searched.
    groups
        Number of groups tested.
    segments
        Groups with an error of their own, the most significant one first.
    closest
        The most significant of the other groups.
    """

    columns: tuple[str, ...]
    groups: int
    segments: tuple[FoundSegment, ...]
    closest: FoundSegment | None


class _Partition(NamedTuple):
    """Rows grouped by one column or two: those with a code of at least ``len(titles)`` are in no group."""

    codes: Ints
    titles: list[str]
    covered: Bools
    """Whether a group equals one of fewer columns."""


def find_segments(
    prediction: Floats,
    outcome: Floats,
    columns: Mapping[str, SegmentColumn],
    *,
    weight: Floats | None = None,
    progress: Progress = no_progress,
) -> SegmentSearch:
    """Find the groups of one column and of two that have an error of their own.

    Parameters
    ----------
    prediction
        P(y = 1), shape (n,).
    outcome
        0, 1, or nan where it is unknown, shape (n,).
    columns
        By name; the values of one beyond its 50 most frequent belong to no group.
    weight
        Shape (n,), at least 0; 1 each if left out.
    progress
        Called with the share of the work that is done.

    Raises
    ------
    InputError
        There is no column.
    """
    if not columns:
        raise InputError("there is no column to search: all of them are predictions, outcomes, times or weights")
    rows = np.flatnonzero(~np.isnan(outcome) if weight is None else ~np.isnan(outcome) & (weight > 0.0))
    w = np.ones(rows.size) if weight is None else weight[rows] / weight[rows].mean() if rows.size else weight[rows]
    data = _SearchedEvents(logits(prediction[rows]), outcome[rows], w)
    kept = {name: _frequent(name, column, rows) for name, column in columns.items()}
    kept = {name: column for name, column in kept.items() if np.unique(column.codes).size > 1}
    partitions = list(_partitions(kept))
    chosen: list[FoundSegment] = []
    tests = 0
    groups = 0
    closest = None
    while len(chosen) < MAX_FOUND:
        results = []
        for number, partition in enumerate(partitions):
            progress((len(chosen) + number / len(partitions)) / (MAX_FOUND + 1))
            results.append(data.p_values(partition))
        if not chosen:
            tests = sum(int(np.isfinite(p_values).sum()) for p_values in results)
            groups = sum(int(np.isfinite(p_values).any(axis=0).sum()) for p_values in results)
        best = _smallest(partitions, results, {segment.name for segment in chosen})
        if best is None:
            break
        partition, code, p_value = best
        inside = partition.codes == code
        # Holm: the groups found before are not tested again.
        q_value = max(min(1.0, p_value * max(tests - len(chosen), 1)), chosen[-1].q_value if chosen else 0.0)
        segment = FoundSegment(partition.titles[code], rows[inside], p_value, q_value)
        if q_value > FALSE_DISCOVERY_RATE:
            closest = segment
            break
        chosen.append(segment)
        data.adjust(inside)
    return SegmentSearch(tuple(kept), groups, tuple(chosen), closest)


def _smallest(
    partitions: list[_Partition], results: list[Floats], names: set[str]
) -> tuple[_Partition, int, float] | None:
    """Find the group with the smallest p-value; of equal ones, that of fewer columns."""
    best = None
    for partition, p_values in zip(partitions, results, strict=True):
        smallest = np.min(p_values, axis=0, initial=np.inf, where=np.isfinite(p_values))
        for code in np.argsort(smallest, kind="stable"):
            if not np.isfinite(smallest[code]) or (best is not None and smallest[code] >= best[2]):
                break
            if partition.titles[code] not in names:
                best = partition, int(code), float(smallest[code])
                break
    return best


def _partitions(kept: Mapping[str, SegmentColumn]) -> Iterator[_Partition]:
    """Group rows by each column, then by each pair; the last value of a column is no group."""
    sizes = {name: np.bincount(column.codes, minlength=len(column.values)) for name, column in kept.items()}
    for name, column in kept.items():
        codes = np.where(column.codes == _rest(column), len(column.values), column.codes)
        yield _Partition(codes.astype(np.int64), titles_of(name, column), np.zeros(len(column.values), np.bool_))
    for first, second in combinations(kept, 2):
        together = crossed({first: kept[first], second: kept[second]})
        first_code, second_code = (np.zeros(len(together.values), np.int64) for _ in range(2))
        first_code[together.codes], second_code[together.codes] = kept[first].codes, kept[second].codes
        size = np.bincount(together.codes, minlength=len(together.values))
        whole = (size == sizes[first][first_code]) | (size == sizes[second][second_code])
        rest = (first_code == _rest(kept[first])) | (second_code == _rest(kept[second]))
        codes = np.where(rest[together.codes], len(together.values), together.codes)
        yield _Partition(codes.astype(np.int64), list(together.titles), whole)


def _frequent(name: str, column: SegmentColumn, rows: NDArray[np.intp]) -> SegmentColumn:
    """Keep the most frequent values that have enough events, and one value for all others."""
    codes = column.codes[rows]
    size = np.bincount(codes, minlength=len(column.values))
    by_size = np.argsort(-size, kind="stable")[:MAX_SEGMENT_VALUES]
    kept = np.sort(by_size[size[by_size] >= MIN_EVENTS])
    place = np.full(len(column.values), kept.size, np.int32)
    place[kept] = np.arange(kept.size)
    titles = titles_of(name, column)
    return SegmentColumn(
        place[codes], (*(column.values[at] for at in kept), OTHER), (*(titles[at] for at in kept), OTHER)
    )


def _rest(column: SegmentColumn) -> int:
    return len(column.values) - 1


class _SearchedEvents:
    """Events, and their predictions after correction of the errors found so far.

    Parameters
    ----------
    z
        Logits, shape (n,).
    outcome
        0 or 1, shape (n,).
    weight
        Above 0, shape (n,).
    """

    def __init__(self, z: Floats, outcome: Floats, weight: Floats) -> None:
        self._z = z
        self._outcome = outcome
        self._weight = weight
        self._fitted = np.column_stack([np.ones_like(z), z])
        self._fit()

    def adjust(self, inside: Bools) -> None:
        """Add an offset and a slope of the logits of some rows to the fit."""
        self._fitted = np.column_stack([self._fitted, inside, inside * self._z])
        self._fit()

    def p_values(self, partition: _Partition) -> Floats:
        """p-values of each group's level and slope, shape (2, groups); nan where it is not tested.

        Score tests: sums of residuals, less the part that the fit explains, by a distribution of the same mean,
        variance and skewness (Pearson's third type), since outcomes may be rare.
        """
        groups = len(partition.titles)
        n = partition.codes.size
        member = scipy.sparse.csr_array((np.ones(n), partition.codes, np.arange(n + 1)), shape=(n, groups + 1))
        sums = (member.T @ self._columns)[:groups]
        events, information, level, product = sums[:, :4].T
        power, third = sums[:, 4:7].T, sums[:, 7:11].T
        k = self._fitted.shape[1]
        overlap, overlap_squares = (sums[:, 11 + at * k : 11 + (at + 1) * k] for at in range(2))
        with_p, with_p_squares = (sums[:, 11 + at * k : 11 + (at + 1) * k] for at in (2, 3))
        tested = (events >= MIN_EVENTS) & (information >= MIN_INFORMATION) & ~partition.covered
        with np.errstate(divide="ignore", invalid="ignore"):
            center = power[1] / power[0]
            # Continuity correction: events are whole.
            counted = np.sign(level) * np.maximum(np.abs(level) - 0.5, 0.0)
            outside = self._columns[:, 7].sum() - third[0]
            level_p_value = self._p_value(counted, power[0], (third[0], outside), overlap, overlap_squares)
            third_about = third[3] - 3.0 * center * third[2] + 3.0 * center**2 * third[1] - center**3 * third[0]
            slope_p_value = self._p_value(
                product - center * level,
                power[2] - center * power[1],
                (third_about, np.zeros(groups)),
                with_p - center[:, None] * overlap,
                with_p_squares - center[:, None] * overlap_squares,
            )
        return np.where(tested, np.stack([level_p_value, slope_p_value]), np.nan)

    def _p_value(
        self,
        total: Floats,
        variance: Floats,
        third: tuple[Floats, Floats],
        overlap: Floats,
        overlap_squares: Floats,
    ) -> Floats:
        """Two-sided p-value of a sum with these moments within the group; third moments also of the rest."""
        part = np.linalg.solve(self._curvature, np.nan_to_num(overlap).T).T
        own = (
            variance
            - 2.0 * np.einsum("gk,gk->g", part, overlap_squares)
            + np.einsum("gk,kl,gl->g", part, self._noise, part)
        )
        own = np.where(own >= _MIN_SHARE * variance, own, np.nan)
        # Where the group is a large part of the whole, the rest counts against it.
        share = own / variance
        skew = (share**3 * third[0] - (1.0 - share) ** 3 * third[1]) / own**1.5
        size = total / np.sqrt(own)
        tested = np.isfinite(size) & np.isfinite(skew) & (variance > 0.0)
        p_value = np.full(size.shape, np.nan)
        tails = (scipy.stats.pearson3.sf(side * size[tested], side * skew[tested]) for side in (1.0, -1.0))
        p_value[tested] = 2.0 * np.minimum(*tails)
        return np.asarray(np.minimum(p_value, 1.0))

    def _fit(self) -> None:
        """Fit offsets and slopes, and keep the terms of each event that the tests need."""
        x, w, y = self._fitted, self._weight, self._outcome
        start = np.zeros(x.shape[1])
        start[1] = 1.0

        def loss(beta: Floats) -> Curved:
            eta, away = x @ beta, beta - start
            fitted = expit(eta)
            return Curved(
                value=float(w @ np.logaddexp(0.0, np.where(y == 1.0, -eta, eta))) + 0.5 * _RIDGE * float(away @ away),
                gradient=_RIDGE * away - x.T @ (w * (y - fitted)),
                hessian=(x * (w * fitted * (1.0 - fitted))[:, None]).T @ x + _RIDGE * np.eye(beta.size),
            )

        free = np.full(x.shape[1], np.inf)
        fitted = expit(x @ minimise(loss, start, -free, free, enough=_PRECISION))
        spread = fitted * (1.0 - fitted)
        residual = w * (y - fitted)
        squares, cubes = w**2 * spread, w**3 * spread * (1.0 - 2.0 * fitted)
        # A slope in the predictions: one in the logits depends on a few events with p near 0 or 1.
        p = expit(self._z)[:, None]
        self._curvature = (x * (w * spread)[:, None]).T @ x + _RIDGE * np.eye(start.size)
        self._noise = (x * squares[:, None]).T @ x
        weighted, squared = x * (w * spread)[:, None], x * squares[:, None]
        self._columns = np.column_stack(
            [
                np.ones_like(spread),
                spread,
                residual,
                residual * p[:, 0],
                squares[:, None] * p ** np.arange(3),
                cubes[:, None] * p ** np.arange(4),
                weighted,
                squared,
                weighted * p,
                squared * p,
            ]
        )
