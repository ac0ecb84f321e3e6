"""The smallest faults that the tests of calibration would have detected in a table."""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.special import expit

from monitor.arrays import Floats
from monitor.errors import NotEnoughData
from monitor.inference.cox import logits
from monitor.inference.newton import log_sigmoid
from monitor.roots import brentq
from monitor.scores import ScoreTable

POWER: Final = 0.8
"""Probability of detecting a fault of the reported size."""

_OFFSET_NONCENTRALITY: Final = 14.2
_SLOPE_NONCENTRALITY: Final = 16.9
"""Noncentralities at which a chi-squared statistic of 2 degrees of freedom passes its 0.9% and its 0.3% point with
probability .8. A verdict needs p = .01 in all tests together, nine tenths of which are for the mean evidence of three.
All three detect an offset; mainly the Cox fit detects a slope, and its own p-value must then be a third of that."""

_NORMAL_POINT: Final = 0.84
"""80% point of the normal distribution."""

_LARGEST: Final = 20.0
"""Largest offset and slope of the search."""


@dataclass(frozen=True, slots=True)
class DetectableFaults:
    """The smallest faults that would have led to a verdict with probability .8.

    Attributes
    ----------
    offset
        Size of an offset of all logits, the larger one of both signs. None if no offset is large enough.
    slope_below, slope_above
        Slope below 1, and above 1, about the middle of the logits. None if no slope is far enough, for example if all
        predictions are equal.
    """

    offset: float | None
    slope_below: float | None
    slope_above: float | None


def detectable_faults(table: ScoreTable, *, tolerance: float) -> DetectableFaults:
    r"""The smallest offset and slopes detectable with these predictions; the outcomes do not matter.

    Were the true logits z + b, or z + (a - 1)(z - m) with m their mean weighted by information, the likelihood ratio of
    the Cox fit would have the noncentrality

    .. math:: \lambda = 2 \sum_i n_i \, \mathrm{KL}(q_i \,\|\, p_i)

    with q the true and p the predicted probabilities. The result is the offset at which it is 14.2, and the slopes at
    which it is 16.9. A verdict also needs an estimate beyond the tolerance: the result is at least the tolerance and
    .84 standard errors.

    Parameters
    ----------
    table
        m rows. Weights count as the number of equal events with the same variance.
    tolerance
        Error of the logits up to which an error is not a fault.

    Raises
    ------
    NotEnoughData
        The table is empty.

    Notes
    -----
    Source: Self, Mauritsen, Ohara, "Power calculations for likelihood ratio tests in generalized linear models",
    Biometrics 48, 1992. In simulations of 200 to 200,000 events with 2 to 50% of positives, such faults were detected
    in .76 to .91 of the samples, an offset of the easier sign in up to .97; a test repeats some of it.
    """
    if table.rows == 0:
        raise NotEnoughData("the power of a verdict needs at least 1 event, got 0")
    z = logits(table.score)
    # For weights, the number of equal events with the same variance.
    counts = table.counts * table.events_per_weight
    information = counts * expit(z) * expit(-z)
    total = float(information.sum())
    u = z - float(information @ z) / total
    spread = math.sqrt(float(information @ u**2) / total)
    error = 1.0 / math.sqrt(total)
    least = tolerance + _NORMAL_POINT * error

    at_null = log_sigmoid(-z)

    def smallest(direction: Floats, needed: float, least: float) -> float:
        """The smallest t from ``least`` on at which t times the direction has the noncentrality; else inf."""

        def beyond(t: float) -> float:
            change = t * direction
            divergence = expit(z + change) * change + log_sigmoid(-z - change) - at_null
            return 2.0 * float(counts @ divergence) - needed

        # Exact for a quadratic likelihood.
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
        return high if low == high else brentq(beyond, low, high, rtol=1e-3)

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
