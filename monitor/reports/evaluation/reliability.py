"""A window's reliability diagram: counts and sums over ten bins of equal width, which add over partitions and replicas.

The bins' edges are edges of the grid, so that the bins of a window are those of its raw predictions. Of a model of
several classes they hold what the window's other measures are of: the top label's probability, and whether its class
came true; in the segment of a class that class's probability, and whether it came true.
"""

from itertools import pairwise
from typing import Final, NamedTuple

from monitor.measures.bins import first_rows
from monitor.scores import ScoreTable

BINS: Final = 10
"""As many as ECE has by default."""


class ReliabilityBin(NamedTuple):
    """The labelled predictions in [lower, lower + 1/10); in the last bin, up to and with 1.

    ``prediction_sum / labelled`` over ``positives / labelled`` is a point of the reliability diagram.
    """

    lower: str
    """Lower edge, as text: ``0.3``."""
    labelled: int
    positives: int
    prediction_sum: float


def reliability_bins(table: ScoreTable) -> tuple[ReliabilityBin, ...]:
    """The bins that hold anything, ascending.

    Parameters
    ----------
    table
        m rows, without weights. Of a table from the grid the bins are exact.
    """
    first = first_rows(table, "equal_width", BINS).tolist()
    predictions = table.positive_sum + table.negative_sum
    return tuple(
        ReliabilityBin(
            f"{at / BINS:.1f}",
            int(table.counts[start:end].sum()),
            int(table.positives[start:end].sum()),
            float(predictions[start:end].sum()),
        )
        for at, (start, end) in enumerate(pairwise(first))
        if start < end
    )
