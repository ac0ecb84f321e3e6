"""How large a fault the tests of calibration would have found in a table: what a missing verdict is worth."""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy.special import expit

from monitor.errors import NotEnoughData
from monitor.inference.cox import logits
from monitor.inference.logistic import log_sigmoid
from monitor.scores import ScoreTable

POWER: Final = 0.8
"""Probability with which a fault of the size that is named would have been found."""

_OFFSET_NONCENTRALITY: Final = 14.2
_SLOPE_NONCENTRALITY: Final = 16.9
"""Noncentralities at which a chi-squared statistic of 2 degrees of freedom passes its 0.9% and its 0.3% point with
probability .8. A verdict takes p = .01 of all tests together, of which nine tenths are for the mean evidence of three.
An offset is seen by all three alike; a slope mainly by the Cox fit, whose own p-value must then be a third of that."""

_NORMAL_POINT: Final = 0.84
"""80% point of the normal distribution."""

_LARGEST: Final = 20.0
"""Offsets and slopes beyond this are not looked for."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class DetectableFaults:
    """The smallest faults that a verdict would have been given on with probability .8.

    Attributes
    ----------
    offset
        Size of an offset of all logits, of either sign: the larger one where they differ. None where none is large
        enough.
    slope_below, slope_above
        Slope below 1, and above 1, about the middle of the logits. None where none is far enough, as where all
        predictions are equal.
    """

    offset: float | None
    slope_below: float | None
    slope_above: float | None


def detectable_faults(table: ScoreTable, *, tolerance: float) -> DetectableFaults:
    r"""Size of the offset and of the slopes that these predictions would show, whatever their outcomes.

    Were the true logits z + b, or z + (a - 1)(z - m) with m their mean weighted by information, the likelihood ratio of
    the Cox fit would have the noncentrality

    .. math:: \lambda = 2 \sum_i n_i \, \mathrm{KL}(q_i \,\|\, p_i)

    with q the true and p the predicted probabilities. The fault is the one at which it is 14.2, of slopes 16.9. A
    verdict also takes an estimate beyond the tolerance: the fault is at least the tolerance and .84 standard errors.

    Parameters
    ----------
    table
        m rows. A weight counts as the number of equal events that vary alike.
    tolerance
        Error of the logits up to which nothing is a fault.

    Raises
    ------
    NotEnoughData
        The table is empty.

    Notes
    -----
    Source: Self, Mauritsen, Ohara, "Power calculations for likelihood ratio tests in generalized linear models",
    Biometrics 48, 1992. In simulations of 200 to 200,000 events with 2 to 50% of positives, such faults were found in
    .76 to .91 of the samples, an offset of the sign that is easier to see in up to .97; a test repeats some of it.
    """
    if table.rows == 0:
        raise NotEnoughData("the power of a verdict needs at least 1 event, got 0")
    z = logits(table.score)
    # Of weights, as many events as vary alike.
    counts = table.counts * table.total / float((table.positive_squares + table.negative_squares).sum())
    information = counts * expit(z) * expit(-z)
    total = float(information.sum())
    u = z - float(information @ z) / total
    spread = math.sqrt(float(information @ u**2) / total)
    error = 1.0 / math.sqrt(total)
    least = tolerance + _NORMAL_POINT * error

    at_null = log_sigmoid(-z)

    def smallest(direction: Floats, needed: float, least: float) -> float:
        """The smallest t, from ``least`` on, at which t times the direction has the noncentrality; inf if none has."""

        def beyond(t: float) -> float:
            change = t * direction
            divergence = expit(z + change) * change + log_sigmoid(-z - change) - at_null
            return 2.0 * float(counts @ divergence) - needed

        # Where the likelihood is as good as quadratic, this is the answer.
        guess = math.sqrt(needed / float(information @ direction**2))
        low = high = max(least, guess)
        while beyond(low) > 0.0:
            if low <= least:
                return low
            low = max(least, low / 1.5)
        while beyond(high) < 0.0:
            if high > _LARGEST:
                return math.inf
            high *= 1.5
        return high if low == high else float(scipy.optimize.brentq(beyond, low, high, rtol=1e-3))

    one = np.ones(z.size)
    offset = max(smallest(sign * one, _OFFSET_NONCENTRALITY, least) for sign in (-1.0, 1.0))
    below, above = (
        smallest(sign * u, _SLOPE_NONCENTRALITY, least / spread) if spread > 0.0 else math.inf for sign in (-1.0, 1.0)
    )
    return DetectableFaults(
        offset=offset if math.isfinite(offset) else None,
        slope_below=1.0 - below if math.isfinite(below) else None,
        slope_above=1.0 + above if math.isfinite(above) else None,
    )
