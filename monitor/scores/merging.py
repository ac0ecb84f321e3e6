"""A table of fewer rows: what resampling draws from where the cells of the grid are too coarse."""

import numpy as np

from monitor.errors import InputError
from monitor.scores.table import ScoreTable


def merge_rows(table: ScoreTable, rows: int) -> ScoreTable:
    """Neighbouring rows together, in groups of about equal weight.

    The bins of TCE follow the data, and the cells of the grid are the coarser beside them the more events there are:
    TCE of a million calibrated predictions is about 1 point lower on cells, two standard deviations of its own.

    Parameters
    ----------
    table
        m rows.
    rows
        How many to leave at most, at least 1.

    Returns
    -------
    ScoreTable
        The table itself if it has no more rows. Residuals stay exact, as those of cells are.

    Raises
    ------
    InputError
        ``rows`` is below 1.
    """
    if rows < 1:
        raise InputError(f"rows must be at least 1, got {rows}")
    if table.rows <= rows:
        return table
    held = table.counts > 0.0
    counts = table.counts[held]
    # A row goes where, of all events, the middle of its own stands.
    group = np.floor((np.cumsum(counts) - counts / 2.0) * (rows / table.total))
    first = np.flatnonzero(np.diff(group, prepend=-1.0))
    positives, negatives, positive_sum, negative_sum = (
        np.add.reduceat(column[held], first)
        for column in (table.positives, table.negatives, table.positive_sum, table.negative_sum)
    )
    lower, upper = table.lower[held][first], table.upper[held][np.append(first[1:], counts.size) - 1]
    return ScoreTable(
        # Rounding must not carry a mean beyond its rows.
        score=np.clip((positive_sum + negative_sum) / (positives + negatives), lower, upper),
        positives=positives,
        negatives=negatives,
        positive_sum=positive_sum,
        negative_sum=negative_sum,
        lower=lower,
        upper=upper,
        squares=None if table.squares is None else np.add.reduceat(table.squares[:, held], first, axis=1),
    )
