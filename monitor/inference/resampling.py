"""Resampling: its rows, random numbers, chunks and quantiles."""

import reprlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import xxhash

from monitor.arrays import Floats
from monitor.errors import InputError, NotEnoughData
from monitor.inference.draw_loops import add_poisson_deviations, binomial_draws
from monitor.measures.base import MeanLoss, Measure, SemiNorm
from monitor.options import MIN_DRAWS
from monitor.progress import Progress
from monitor.scores import GridTable, ScoreTable, grid
from monitor.scores.arguments import require_whole
from monitor.scores.grid_table import COLUMNS, NEGATIVE_SUM, NEGATIVES, POSITIVE_SUM, POSITIVES
from monitor.scores.table import effective_number, gather_rows, merge_rows

CHUNK: Final = 200
"""Draws in memory at a time: 8 MB for a whole grid of cells."""

_ROWS_IN_BIN: Final = 16

_PSEUDO_EVENTS: Final = 2.0
"""Positives, and negatives, that the bootstrap adds: half the square of the 97.5% point of the normal law, as Agresti
and Coull do for a proportion ("Approximate is Better than Exact", 1998)."""

_ROUNDING: Final = 1e-9
"""A draw that repeats the outcomes may differ from the value in its last bits; it counts as equal."""

NULL, PAIRS, DEVIATIONS, REFITTED, RANKS, SHRUNKEN = range(6)
"""Independent streams of random numbers, so that one kind of draws does not change another."""


def coarsen(table: ScoreTable) -> ScoreTable:
    """The same events on the cells of the shared grid, as a window would hold them.

    Parameters
    ----------
    table
        m rows. A table of cells is returned unchanged.

    Returns
    -------
    ScoreTable
        At most as many rows as the grid has cells.
    """
    if not table.exact or table.rows == 0:
        return table
    cell = grid.locate(table.score)
    if table.weighted:
        # Weights are not integers: their cells are sums of floats, so the result cannot be merged.
        summed = gather_rows(table, cell)
        cell = grid.locate(summed.score)
        return replace(summed, lower=grid.edges()[cell], upper=grid.upper_edges()[cell])
    above = grid.to_units(table.score) - grid.anchors()[cell]
    rows = np.zeros((table.rows, COLUMNS), np.int64)
    for count, column, column_of_sum in (
        (table.positives, POSITIVES, POSITIVE_SUM),
        (table.negatives, NEGATIVES, NEGATIVE_SUM),
    ):
        rows[:, column] = count.astype(np.int64)
        rows[:, column_of_sum] = rows[:, column] * above
    first = np.flatnonzero(np.diff(cell, prepend=-1))
    return GridTable(cell[first], np.add.reduceat(rows, first, axis=0)).to_scores()


def widen(table: ScoreTable) -> ScoreTable:
    """The same events on wide cells; a table of single predictions is returned unchanged.

    Residuals stay exact. The null laws of kCE and smCE move by a thousandth, that of ECE does not.
    """
    return table if table.exact else gather_rows(table, np.searchsorted(grid.wide_edges(), table.lower, side="right"))


def thin(table: ScoreTable) -> ScoreTable:
    """The same events in some 320 rows of about equal weight; a table of single predictions is returned unchanged.

    There are sixteen rows for each of the narrowest bins of TCE, and of intCE's best partition for a calibrated model:
    bins of a twentieth of the events or, beyond 8,000 of them, of n^(2/3). The law of TCE stays the same; those of
    intCE and its surrogate move by a few hundredths of their mean, and keep their spread.
    """
    if table.exact:
        return table
    return merge_rows(table, round(_ROWS_IN_BIN * max(20.0, table.effective_events ** (1.0 / 3.0))))


def listed_measures(measures: Iterable[Measure]) -> list[Measure]:
    """The measures as a list; raises InputError for names, or for one measure alone."""
    chosen = list(measures) if isinstance(measures, Iterable) else None
    if chosen is None or not all(isinstance(measure, Measure) for measure in chosen):
        given = reprlib.repr(measures)
        raise InputError(f'measures must be a list such as [MEASURES["smce"]], of monitor.measures, got {given}')
    return chosen


def resampled(table: ScoreTable, what: str) -> ScoreTable:
    """The table to draw from: the table itself, or its cells if it has more rows than the grid.

    Raises
    ------
    NotEnoughData
        The table is empty.
    """
    if table.rows == 0:
        raise NotEnoughData(f"{what} needs at least 1 event, got 0")
    return coarsen(table) if table.rows > grid.cell_count() else table


def drawn_tables(
    table: ScoreTable, measures: Iterable[Measure], what: str
) -> Iterable[tuple[ScoreTable, Sequence[Measure]]]:
    """The tables to draw from, with the measures of each.

    See :func:`resampled`, :func:`widen`, :func:`thin` and ``Measure.drawn_rows``.
    """
    cells = resampled(table, what)
    tables = {"cells": cells, "wide": widen(cells), "thin": thin(table) if cells is table else cells}
    subsets: dict[int, tuple[ScoreTable, list[Measure]]] = {}
    for measure in measures:
        if measure.drawn_rows is not None and cells is not table:
            key = str(measure.drawn_rows)
            tables.setdefault(key, merge_rows(table, measure.drawn_rows))
        elif isinstance(measure, SemiNorm | MeanLoss):
            key = "wide" if isinstance(measure, SemiNorm) and measure.on_wide_cells else "cells"
        else:
            key = "thin"
        subsets.setdefault(id(tables[key]), (tables[key], []))[1].append(measure)
    return subsets.values()


def require_draws(draws: int) -> None:
    """Raise InputError unless ``draws`` is a whole number, and enough for a 95% point."""
    require_whole("draws", draws, MIN_DRAWS)


def require_seed(seed: int | None) -> None:
    """Raise InputError unless the seed is None or a whole number of at least 0."""
    if seed is not None:
        require_whole("seed", seed, 0)


def generator(table: ScoreTable, seed: int | None, stream: int) -> np.random.Generator:
    """Random numbers for a table; the default seed is a hash of its content, so that a report can be recomputed."""
    require_seed(seed)
    if seed is None:
        digest = xxhash.xxh3_64()
        for column in (table.score, table.positives, table.negatives, table.positive_sum, table.negative_sum):
            digest.update(np.ascontiguousarray(column, "<f8").data)
        seed = digest.intdigest()
    return np.random.default_rng([seed, stream])


def outcomes(rng: np.random.Generator, table: ScoreTable, rate: Floats, draws: int) -> Iterator[Floats]:
    """Drawn outcomes of a table's events: positives (chunk, m), y* ~ Binomial(events, rate) per row, chunk by chunk.

    For a row of weights with the sum W and the sum of squares Q, W^2 / Q equal events are drawn, rounded down, and
    their deviation from the mean is scaled so that the variance is rate (1 - rate) Q.
    """
    counts = table.counts
    effective = effective_number(counts, table.event_squares)
    # Rounding must not remove one of a number of equal weights.
    trials = np.floor(effective * (1.0 + 1e-9)).astype(np.int64)
    for size in _chunks(draws):
        positives = np.asarray(binomial_draws(rng, trials, rate, size))
        if table.weighted:
            scale = np.divide(counts, np.sqrt(trials * effective), out=np.zeros(table.rows), where=trials > 0)
            positives = np.clip((positives - trials * rate) * scale + counts * rate, 0.0, counts)
        yield positives


def deviations(rng: np.random.Generator, table: ScoreTable, draws: int) -> Iterator[Floats]:
    """Poisson bootstrap of the residuals: draws of v* - v_n, times n; (chunk, m), chunk by chunk.

    Positives ~ Poisson(positives) and negatives ~ Poisson(negatives) per row, with the mean residual of their kind. Two
    events, spread over the rows as the model expects them, are added to both: five positives, for example, say too
    little about their own variance, and none would say that there is none. (Without them, intervals of 500 events with
    1% of positives cover .90 instead of .94.) Weights count as equal ones with the same variance.
    """
    weighed = _weighed(table)
    for size in _chunks(draws):
        moved = np.zeros((size, table.rows))
        for mean, scale in weighed:
            add_poisson_deviations(rng, mean, scale, moved)
        yield moved


def deviation_variance(table: ScoreTable) -> Floats:
    """The exact variance of :func:`deviations`, (m,). Rows vary independently."""
    return np.asarray(sum(mean * scale**2 for mean, scale in _weighed(table)), np.float64)


def _weighed(table: ScoreTable) -> list[tuple[Floats, Floats]]:
    """Mean of a Poisson law and residual of one of its events, for positives and for negatives, shape (m,) each."""
    counts = table.counts
    weighed = []
    for held, squares, residual, usual, certain in (
        (table.positives, table.positive_squares, table.positives - table.positive_sum, 1.0 - table.score, table.score),
        (table.negatives, table.negative_squares, -table.negative_sum, -table.score, 1.0 - table.score),
    ):
        per_event = np.divide(residual, held, out=usual.copy(), where=held > 0.0)
        expected = counts * certain
        typical = table.event_squares.sum() / counts.sum()
        added = _PSEUDO_EVENTS * np.divide(expected, expected.sum(), out=np.zeros(table.rows), where=expected > 0.0)
        # Equal events with these sums of weights and of squares, the added ones included.
        weight = np.divide(
            squares + added * typical**2, held + added * typical, out=np.zeros(table.rows), where=held + added > 0.0
        )
        mean = np.divide(held + added * typical, weight, out=np.zeros(table.rows), where=weight > 0.0)
        weighed.append((mean, weight * per_event))
    return weighed


def percent_point_95(draws: Floats) -> float:
    """The 95% point of the draws: a value lies beyond it if and only if its p-value is at most .05.

    With B draws it has the rank ceil(.95 (B + 1)), or is the largest if there is no such rank.
    """
    rank = -(-19 * (draws.size + 1) // 20)
    return float(np.sort(draws)[min(rank, draws.size) - 1])


def resampled_p_value(draws: Floats, value: float) -> float:
    """The p-value of a value: (1 + number of draws that reach it) / (1 + number of draws)."""
    return (1 + int((draws >= value - _ROUNDING * abs(value)).sum())) / (1 + draws.size)


def _chunks(draws: int) -> Iterator[int]:
    for start in range(0, draws, CHUNK):
        yield min(CHUNK, draws - start)


@dataclass(slots=True)
class Work:
    """Counts steps of work and reports the share to ``progress``."""

    progress: Progress | None
    steps: int
    done: int = 0

    def advance(self, steps: int) -> None:
        """Add finished steps."""
        self.done += steps
        if self.progress is not None:
            self.progress(min(1.0, self.done / self.steps))
