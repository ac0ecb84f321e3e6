"""What the measures of drawn outcomes have in common."""

import numpy as np
from numpy.typing import NDArray

from monitor.measures.draw_loops import residuals_of_draws
from monitor.scores import ScoreTable


def drawn_residuals(table: ScoreTable, positives: NDArray[np.float64]) -> NDArray[np.float64]:
    """Residuals of drawn outcomes, all events of a row at its score, as the drawn tables themselves would round them.

    Parameters
    ----------
    table
        m rows.
    positives
        float64, shape (draws, m).

    Returns
    -------
    float64, shape (draws, m)
    """
    return np.asarray(residuals_of_draws(table.score, table.counts, positives))
