"""The measures straight from their definitions, over single events: the oracle for the kernels."""

from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import coo_array, diags_array, vstack

Floats = NDArray[np.float64]


def kce_by_double_sum(p: Floats, y: Floats, bandwidth: float = 1.0) -> float:
    r = y - p
    kernel = np.exp(-np.abs(p[:, None] - p[None, :]) / bandwidth)
    return float(np.sqrt(max(0.0, float(r @ kernel @ r))) / p.size)


def squared_kce_unbiased_by_double_sum(p: Floats, y: Floats, bandwidth: float = 1.0) -> float:
    total = 0.0
    for i in range(p.size):
        for j in range(p.size):
            if i != j:
                total += (y[i] - p[i]) * (y[j] - p[j]) * np.exp(-abs(p[i] - p[j]) / bandwidth)
    return float(total / (p.size * (p.size - 1)))


def smce_by_linear_programme(p: Floats, y: Floats) -> float:
    """One variable a distinct prediction, one pair of constraints a gap."""
    score, row = np.unique(p, return_inverse=True)
    residual = np.bincount(row, weights=y - p)
    gaps = np.diff(score)
    if gaps.size == 0:
        return float(abs(residual[0]) / p.size)
    ones = np.ones(gaps.size)
    step = diags_array([-ones, ones], offsets=[0, 1], shape=(gaps.size, score.size))
    solved = linprog(
        -residual, A_ub=vstack([step, -step]).tocsr(), b_ub=np.r_[gaps, gaps], bounds=(-1.0, 1.0), method="highs"
    )
    assert solved.success, solved.message
    return float(-solved.fun / p.size)


def rintce_by_shifts(p: Floats, y: Floats, width: float) -> float:
    """The mean over all shifts: between two at which some prediction changes its bin, every shift has the same bins."""
    changes = np.unique(np.r_[0.0, p % width, width])
    total = 0.0
    for first, last in pairwise(changes):
        index = np.floor((p - (first + last) / 2.0) / width).astype(np.int64)
        total += (last - first) * np.abs(np.bincount(index - index.min(), weights=y - p)).sum()
    return float(total / width / p.size)


def interval_partitions(rows: int) -> Iterator[Sequence[int]]:
    """Every way to cut a row of scores into intervals, as bounds from 0 to ``rows``."""
    for cuts in range(rows):
        for inner in combinations(range(1, rows), cuts):
            yield (0, *inner, rows)


def partition_cost(p: Floats, y: Floats, bounds: Sequence[int]) -> float:
    """Binned residuals plus mean width; the bounds count distinct predictions."""
    score = np.unique(p)
    cost = 0.0
    for first, end in pairwise(bounds):
        inside = (p >= score[first]) & (p <= score[end - 1])
        cost += abs((y - p)[inside].sum()) + inside.sum() * (score[end - 1] - score[first])
    return float(cost / p.size)


def intce_by_enumeration(p: Floats, y: Floats) -> float:
    return min(partition_cost(p, y, bounds) for bounds in interval_partitions(np.unique(p).size))


def intce_by_quadratic_programme(p: Floats, y: Floats) -> float:
    """Dynamic programming over every pair of bounds."""
    score, row = np.unique(p, return_inverse=True)
    residual = np.r_[0.0, np.cumsum(np.bincount(row, weights=y - p))] / p.size
    mass = np.r_[0.0, np.cumsum(np.bincount(row))] / p.size
    best = np.zeros(score.size + 1)
    for b in range(1, score.size + 1):
        width = score[b - 1] - score[:b]
        best[b] = (best[:b] + np.abs(residual[b] - residual[:b]) + (mass[b] - mass[:b]) * width).min()
    return float(best[-1])


def ece_by_loops(p: Floats, y: Floats, n_bins: int, norm: int | str) -> float:
    gaps, shares = [], []
    for b in range(n_bins):
        low, high = b / n_bins, (b + 1) / n_bins
        inside = [i for i in range(p.size) if low <= p[i] < high or (b == n_bins - 1 and p[i] == 1.0)]
        if inside:
            gaps.append(abs(sum(y[i] for i in inside) - sum(p[i] for i in inside)) / len(inside))
            shares.append(len(inside) / p.size)
    if norm == "max":
        return float(max(gaps))
    assert isinstance(norm, int)
    return float(sum(share * gap**norm for share, gap in zip(shares, gaps, strict=True)) ** (1 / norm))


def lower_distance_by_linear_programme(p: Floats, y: Floats, points: int = 65) -> tuple[float, float]:
    """Lower distance to calibration, between two bounds.

    The primal: mass moves from (score, outcome) to the points of a grid, the scores among them, so that each point is
    calibrated. The least mean movement is an upper bound. What moves to v between two points can be split between them
    so that v stays its mean, and both are calibrated again: at most half the grid's step more.
    """
    score = np.unique(p)
    grid = np.union1d(np.linspace(0.0, 1.0, points), score)
    s, g = score.size, grid.size
    mass = np.array([[((p == x) & (y == outcome)).sum() / p.size for outcome in (0, 1)] for x in score])
    cost = np.abs(score[:, None] - grid[None, :])
    # Variables: flow[outcome, score, point].
    at = np.arange(2 * s * g).reshape(2, s, g)
    rows: list[NDArray[np.int64]] = []
    columns: list[NDArray[np.int64]] = []
    values: list[Floats] = []
    right: list[float] = []
    for outcome in (0, 1):
        for i in range(s):
            rows.append(np.full(g, len(right)))
            columns.append(at[outcome, i])
            values.append(np.ones(g))
            right.append(mass[i, outcome])
    for j in range(g):
        # Calibrated at the point x: (1 - x) positives = x negatives.
        rows.append(np.full(2 * s, len(right)))
        columns.append(np.r_[at[0, :, j], at[1, :, j]])
        values.append(np.r_[np.full(s, -grid[j]), np.full(s, 1.0 - grid[j])])
        right.append(0.0)
    equal = coo_array(
        (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))), shape=(len(right), 2 * s * g)
    ).tocsr()
    solved = linprog(np.r_[cost.ravel(), cost.ravel()], A_eq=equal, b_eq=np.array(right), method="highs")
    assert solved.success, solved.message
    upper = float(solved.fun)
    return max(0.0, upper - 0.5 * float(np.diff(grid).max())), upper


def quantile_bins_by_loops(p: Floats, n_bins: int) -> list[list[int]]:
    """Events by the bin in which, of all events in ascending order, the middle of their equals stands."""
    bins: list[list[int]] = [[] for _ in range(n_bins)]
    for x in sorted(set(p.tolist())):
        below = sum(1 for other in p if other < x)
        equal = [i for i in range(p.size) if p[i] == x]
        # In whole numbers: floor(n_bins (below + equal / 2) / n).
        bins[n_bins * (2 * below + len(equal)) // (2 * p.size)] += equal
    return bins


def norm_over_bins(p: Floats, y: Floats, bins: list[list[int]], norm: int | str) -> float:
    held = [inside for inside in bins if inside]
    gaps = [abs(sum(y[i] for i in inside) - sum(p[i] for i in inside)) / len(inside) for inside in held]
    if norm == "max":
        return float(max(gaps))
    assert isinstance(norm, int)
    return float(sum(len(inside) / p.size * gap**norm for inside, gap in zip(held, gaps, strict=True)) ** (1 / norm))


def ecce_by_loops(p: Floats, y: Floats, kind: str) -> float:
    """Mean residual of the predictions in (a, b], over all pairs a < b, or over all b from below all predictions."""
    ends = [-1.0, *sorted(set(p.tolist()))]
    largest = 0.0
    for j, b in enumerate(ends):
        for a in ends[: j + 1] if kind == "range" else ends[:1]:
            total = sum(y[i] - p[i] for i in range(p.size) if a < p[i] <= b)
            largest = max(largest, abs(total) / p.size)
    return float(largest)


def set_partitions(items: Sequence[int]) -> Iterator[list[list[int]]]:
    """Every way to put items into groups."""
    if not items:
        yield []
        return
    for smaller in set_partitions(items[1:]):
        yield [[items[0]], *smaller]
        for at, group in enumerate(smaller):
            yield [*smaller[:at], [items[0], *group], *smaller[at + 1 :]]


def distance_to_calibration_by_enumeration(p: Floats, y: Floats, groups: Sequence[Sequence[int]]) -> float:
    """Least mean |p - g| over the calibrated g that tell no events of a group apart.

    A calibrated predictor is a partition: what it says of a part is the part's frequency.
    """
    least = np.inf
    for partition in set_partitions(range(len(groups))):
        cost = 0.0
        for part in partition:
            events = [i for group in part for i in groups[group]]
            cost += np.abs(p[events] - y[events].mean()).sum()
        least = min(least, cost / p.size)
    return float(least)
