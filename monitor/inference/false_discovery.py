"""P-values that are corrected for how many there are."""

import numpy as np
from numpy.typing import ArrayLike

from monitor.arrays import Floats


def false_discovery_control(p_values: ArrayLike) -> Floats:
    """Least shares of false discoveries at which each hypothesis is rejected, as scipy has them.

    ``scipy.stats``, where that is, takes longer to import than a small report takes.

    Parameters
    ----------
    p_values
        float64, shape (m,), in [0, 1], in any order.

    Returns
    -------
    float64, shape (m,)

    Notes
    -----
    Source: Benjamini, Hochberg, "Controlling the false discovery rate", 1995.
    """
    values = np.asarray(p_values, np.float64)
    order = np.argsort(values)
    # The k-th smallest, for each k, and never more than that of a larger one.
    ranked = values[order] * (values.size / np.arange(1, values.size + 1))
    corrected = np.empty(values.size)
    corrected[order] = np.minimum.accumulate(ranked[::-1])[::-1]
    return np.asarray(np.clip(corrected, 0.0, 1.0))
