"""Isotonic regression, block by block as ``scipy.optimize.isotonic_regression`` does it, to the last digit.

``scipy.optimize`` itself takes as long to import as the report of a small file.
"""

import numpy as np

from monitor.arrays import Floats
from monitor.loops import njit


@njit()
def isotonic_regression(value: Floats, weight: Floats) -> Floats:
    """Values that never fall, with the least weighted sum of squared distances to the given ones.

    Parameters
    ----------
    value, weight
        float64, shape (m,), m >= 1; every weight above 0.

    Returns
    -------
    float64, shape (m,)

    Notes
    -----
    Source: Busing, "Monotone regression: a simple and fast O(n) PAVA implementation", 2022, algorithm 1.
    """
    rows = value.size
    level, mass = value.copy(), weight.copy()
    ends = np.empty(rows + 1, np.int64)
    ends[0], ends[1] = 0, 1
    block = 0
    before, mass_before = level[0], mass[0]
    row = 1
    while row < rows:
        block += 1
        here, mass_here = level[row], mass[row]
        if before >= here:
            block -= 1
            total = mass_before * before + mass_here * here
            mass_here += mass_before
            here = total / mass_here
            while row < rows - 1 and here >= level[row + 1]:
                row += 1
                total += mass[row] * level[row]
                mass_here += mass[row]
                here = total / mass_here
            while block > 0 and level[block - 1] >= here:
                block -= 1
                total += mass[block] * level[block]
                mass_here += mass[block]
                here = total / mass_here
        level[block] = before = here
        mass[block] = mass_before = mass_here
        ends[block + 1] = row + 1
        row += 1
    result = np.empty(rows)
    for at in range(block + 1):
        result[ends[at] : ends[at + 1]] = level[at]
    return result
