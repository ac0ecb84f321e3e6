"""Events packed into single integers, so that one sort orders predictions and outcomes together.

The bit pattern of a float in [0, 1] grows with the float and leaves the top two bits empty: shifted by one it has room
for the outcome. Such integers are sorted in place, without an index array and gathering, which cost several times as
much as the sort.
"""

import numpy as np
from numpy.typing import NDArray

from monitor.arrays import Floats
from monitor.loops import njit


@njit()
def pack_events(prediction: Floats, outcome: Floats) -> NDArray[np.uint64]:
    """Events as integers that sort by prediction, then by outcome.

    Parameters
    ----------
    prediction
        float64, shape (n,), every value in [0, 1].
    outcome
        float64, shape (n,), every value 0 or 1.

    Returns
    -------
    uint64, shape (n,)
    """
    # Adding 0.0 makes 0.0 of -0.0, whose bits would sort last.
    packed = (prediction + 0.0).view(np.uint64)
    for i in range(packed.shape[0]):
        packed[i] = (packed[i] << np.uint64(1)) | np.uint64(outcome[i] == 1.0)
    return packed


@njit()
def count_packed(packed: NDArray[np.uint64]) -> tuple[Floats, Floats, Floats]:
    """Distinct predictions of sorted packed events, with their outcomes counted.

    Returns
    -------
    score, positives, negatives
        float64, shape (m,) each.
    """
    n = packed.shape[0]
    one = np.uint64(1)
    rows = min(n, 1)
    for i in range(1, n):
        rows += (packed[i] >> one) != (packed[i - 1] >> one)
    score = np.empty(rows, np.uint64)
    positives = np.zeros(rows)
    negatives = np.zeros(rows)
    row = -1
    for i in range(n):
        prediction = packed[i] >> one
        if i == 0 or prediction != (packed[i - 1] >> one):
            row += 1
            score[row] = prediction
        positive = float(packed[i] & one)
        positives[row] += positive
        negatives[row] += 1.0 - positive
    return score.view(np.float64), positives, negatives
