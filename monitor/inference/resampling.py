"""What resampling works on: which rows, which random numbers, how many at a time, which quantile."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import xxhash
from numpy.typing import NDArray

from monitor.errors import InputError, NotEnoughData
from monitor.inference.named import NamedMeasure
from monitor.measures.draw_loops import add_poisson_deviations, binomial_draws
from monitor.progress import Progress
from monitor.scores import GridTable, ScoreTable, grid
from monitor.scores.grid_table import COLUMNS, NEGATIVE_SUM, NEGATIVES, POSITIVE_SUM, POSITIVES
from monitor.scores.merging import merge_rows

LEAST_DRAWS: Final = 19
"""With fewer, no p-value can be .05 or below."""

CHUNK: Final = 200
"""Draws that are held at a time: of a whole grid of cells they take 8 MB, whatever the number asked for."""

_PSEUDO_EVENTS: Final = 2.0
"""Positives, and negatives, that the bootstrap adds: half the square of the 97.5% point of the normal law, as Agresti
and Coull do for a proportion ("Approximate is Better than Exact", 1998)."""

NULL, PAIRS, DEVIATIONS, REFITTED, RANKS, CAUTIOUS = range(6)
"""Streams of random numbers: what one thing draws must not depend on what else is drawn."""


def coarsen(table: ScoreTable) -> ScoreTable:
    """The same events on the cells of the shared grid: what a window that had received them would hold.

    Parameters
    ----------
    table
        m rows. One that is of cells already is returned as it is.

    Returns
    -------
    ScoreTable
        At most as many rows as the grid has cells, whatever the number of events.
    """
    if not table.exact or table.rows == 0:
        return table
    cell = grid.locate(table.score)
    first = np.flatnonzero(np.diff(cell, prepend=-1))
    if table.squares is not None:
        return _coarsen_weighted(table, table.squares, cell[first], first)
    above = grid.to_units(table.score) - grid.anchors()[cell]
    rows = np.zeros((table.rows, COLUMNS), np.int64)
    for count, column, column_of_sum in (
        (table.positives, POSITIVES, POSITIVE_SUM),
        (table.negatives, NEGATIVES, NEGATIVE_SUM),
    ):
        rows[:, column] = count.astype(np.int64)
        rows[:, column_of_sum] = rows[:, column] * above
    return GridTable(cell[first], np.add.reduceat(rows, first, axis=0)).to_scores()


def _coarsen_weighted(
    table: ScoreTable, squares: NDArray[np.float64], cell: NDArray[np.int64], first: NDArray[np.int64]
) -> ScoreTable:
    """Weights are no whole numbers, so cells of theirs are sums of floats: a table, but none that merges."""
    positives, negatives, positive_sum, negative_sum = (
        np.add.reduceat(column, first)
        for column in (table.positives, table.negatives, table.positive_sum, table.negative_sum)
    )
    lower, upper = grid.edges()[cell], grid.upper_edges()[cell]
    mean = (positive_sum + negative_sum) / (positives + negatives)
    return ScoreTable(
        score=np.clip(mean, lower, np.nextafter(upper, lower)),
        positives=positives,
        negatives=negatives,
        positive_sum=positive_sum,
        negative_sum=negative_sum,
        lower=lower,
        upper=upper,
        squares=np.add.reduceat(squares, first, axis=1),
    )


def resampled(table: ScoreTable, what: str) -> ScoreTable:
    """The table that ``what`` draws from: the table itself, or its cells where it has more rows than the grid.

    Raises
    ------
    NotEnoughData
        The table is empty.
    """
    if table.rows == 0:
        raise NotEnoughData(f"{what} needs at least 1 event, got 0")
    return coarsen(table) if table.rows > grid.cell_count() else table


def drawn_tables(
    table: ScoreTable, measures: Iterable[NamedMeasure], what: str
) -> Iterator[tuple[ScoreTable, list[NamedMeasure]]]:
    """The tables that ``what`` draws from, each with the measures that are drawn there: see :func:`resampled`.

    A measure that needs rows finer than cells has them where there are more.
    """
    by_rows: dict[int | None, list[NamedMeasure]] = {}
    for measure in measures:
        finer = table.rows > grid.cell_count() and measure.drawn_rows is not None
        by_rows.setdefault(measure.drawn_rows if finer else None, []).append(measure)
    for rows, those in by_rows.items():
        yield resampled(table, what) if rows is None else merge_rows(table, rows), those


def require_draws(draws: int) -> None:
    """Raise InputError if the draws are too few for a 95% point, or no whole number."""
    if not _whole(draws):
        raise InputError(f"draws must be a whole number of at least {LEAST_DRAWS}, got {draws!r}")
    if draws < LEAST_DRAWS:
        raise InputError(f"draws must be at least {LEAST_DRAWS}, got {draws}")


def require_seed(seed: int | None) -> None:
    """Raise InputError unless there is no seed, or it is a whole number of at least 0."""
    if seed is not None and (not _whole(seed) or seed < 0):
        raise InputError(f"seed must be a whole number of at least 0, got {seed!r}")


def _whole(value: object) -> bool:
    return isinstance(value, int | np.integer)


def generator(table: ScoreTable, seed: int | None, stream: int) -> np.random.Generator:
    """The random numbers for a table: its content is the default seed, so that a report can be recomputed."""
    require_seed(seed)
    if seed is None:
        digest = xxhash.xxh3_64()
        for column in (table.score, table.positives, table.negatives, table.positive_sum, table.negative_sum):
            digest.update(column.astype("<f8").tobytes())
        seed = digest.intdigest()
    return np.random.default_rng([seed, stream])


def outcomes(
    rng: np.random.Generator, table: ScoreTable, rate: NDArray[np.float64], draws: int
) -> Iterator[NDArray[np.float64]]:
    """Drawn outcomes of a table's events: positives (chunk, m), y* ~ Binomial(events, rate) a row, chunk by chunk.

    Of a row of weights with the sum W and the sum of squares Q, as many equal events are drawn as vary alike: W^2 / Q
    of them, rounded down, and what they miss their mean by is scaled so that the variance is rate (1 - rate) Q.
    """
    counts = table.counts
    squares = table.positive_squares + table.negative_squares
    alike = np.divide(counts**2, squares, out=np.zeros(table.rows), where=squares > 0.0)
    # Rounding must not take one of a number of equal weights.
    trials = np.floor(alike * (1.0 + 1e-9)).astype(np.int64)
    for size in _chunks(draws):
        positives = np.asarray(binomial_draws(rng, trials, rate, size))
        if table.weighted:
            scale = np.divide(counts, np.sqrt(trials * alike), out=np.zeros(table.rows), where=trials > 0)
            positives = np.clip((positives - trials * rate) * scale + counts * rate, 0.0, counts)
        yield positives


def deviations(rng: np.random.Generator, table: ScoreTable, draws: int) -> Iterator[NDArray[np.float64]]:
    """Poisson bootstrap of the residuals: what v* - v_n is drawn as, times n; (chunk, m), chunk by chunk.

    Positives ~ Poisson(positives) and negatives ~ Poisson(negatives) a row, each with the mean residual of its kind. To
    both, two events are added that are spread over the rows as the model expects them: of five positives, say, the
    number itself tells too little of how much it varies, and none at all would say that it does not. (Without them,
    intervals of 500 events with 1% of positives cover .90 instead of .94.) Weights vary as as many equal ones would.
    """
    weighed = _weighed(table)
    for size in _chunks(draws):
        moved = np.zeros((size, table.rows))
        for mean, scale in weighed:
            add_poisson_deviations(rng, mean, scale, moved)
        yield moved


def deviation_variance(table: ScoreTable) -> NDArray[np.float64]:
    """The variance of :func:`deviations`, exactly: (m,). Rows vary independently."""
    return np.asarray(sum(mean * scale**2 for mean, scale in _weighed(table)), np.float64)


def _weighed(table: ScoreTable) -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Of the positives and of the negatives of each row: the mean of a Poisson law, and what one of its events adds."""
    counts = table.counts
    weighed = []
    for held, squares, residual, usual, certain in (
        (table.positives, table.positive_squares, table.positives - table.positive_sum, 1.0 - table.score, table.score),
        (table.negatives, table.negative_squares, -table.negative_sum, -table.score, 1.0 - table.score),
    ):
        each = np.divide(residual, held, out=usual.copy(), where=held > 0.0)
        expected = counts * certain
        typical = (table.positive_squares + table.negative_squares).sum() / counts.sum()
        added = _PSEUDO_EVENTS * np.divide(expected, expected.sum(), out=np.zeros(table.rows), where=expected > 0.0)
        # Events of one weight, as many as have these sums of weights and of squares, the added one with them.
        weight = np.divide(
            squares + added * typical**2, held + added * typical, out=np.zeros(table.rows), where=held + added > 0.0
        )
        mean = np.divide(held + added * typical, weight, out=np.zeros(table.rows), where=weight > 0.0)
        weighed.append((mean, weight * each))
    return weighed


def percent_point_95(draws: NDArray[np.float64]) -> float:
    """The 95% point of the draws, such that a value lies beyond it just where its p-value is at most .05.

    With B draws that is the one of rank ceil(.95 (B + 1)), and the largest where there is no such rank.
    """
    rank = -(-19 * (draws.size + 1) // 20)
    return float(np.sort(draws)[min(rank, draws.size) - 1])


def _chunks(draws: int) -> Iterator[int]:
    for start in range(0, draws, CHUNK):
        yield min(CHUNK, draws - start)


@dataclass(slots=True)
class Work:
    """How much there is to do, and how much is done: tells ``progress``."""

    progress: Progress | None
    steps: int
    done: int = 0

    def advance(self, steps: int) -> None:
        """So many steps are done."""
        self.done += steps
        if self.progress is not None:
            self.progress(min(1.0, self.done / self.steps))
