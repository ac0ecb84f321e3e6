"""Tables of the bets against calibration: lines over each cell that lie below the logarithms of bets."""

from typing import Final

import numpy as np

from monitor.arrays import Floats
from monitor.scores import grid
from monitor.sequential.alternatives import certainty

_MAX_LOSS: Final = 0.999
"""Largest share of its stake that a bet may lose on one event."""


def lines(shift: Floats, tolerance: float) -> Floats:
    r"""Tabulate lines that bound the logarithms of bets from below.

    An alternative above the tolerance band bets against its upper edge b(p) = sigmoid(logit p + tolerance), one below
    it against the lower edge, and one inside it not at all. With r the odds of b relative to those of p, b = r p /
    (1 + (r - 1) p), so that

    .. math:: \log(1 + \lambda (1 - b)) = \log(1 + \lambda + (r - 1 - \lambda) p) - \log(1 + (r - 1) p)

    and the same with 1 and r - 1 - lambda r for y = 0. The first term is concave in p and bounded by its chord over the
    cell; the second is convex and bounded by its tangent in the middle.

    Parameters
    ----------
    shift
        float64, shape (alternatives, cells): of the alternatives, in logits.
    tolerance
        In logits, at least 0.

    Returns
    -------
    float64, shape (cells, 4, alternatives)
        What an event adds if it is positive: a constant and, per unit of its prediction above the cell's anchor, a
        slope; then the same if it is negative.
    """
    lower, upper = _ends()
    middle, width = (lower + upper) / 2.0, np.where(upper > lower, upper - lower, 1.0)
    above_anchor = np.where(upper > lower, grid.anchors() / grid.UNITS, middle)
    stake = stakes(shift, tolerance)
    r = np.where(stake != 0.0, np.exp(np.sign(stake) * tolerance), 1.0)
    tangent = (r - 1.0) / (1.0 + (r - 1.0) * middle)
    parts: list[Floats] = []
    for constant, slope in ((1.0 + stake, r - 1.0 - stake), (np.ones_like(stake), r - 1.0 - stake * r)):
        at_lower, at_upper = np.log(constant + slope * lower), np.log(constant + slope * upper)
        chord = (at_upper - at_lower) / width
        at_anchor = at_lower + chord * (above_anchor - lower)
        convex = np.log(1.0 + (r - 1.0) * middle) + tangent * (above_anchor - middle)
        parts += [at_anchor - convex, (chord - tangent) / grid.UNITS]
    return np.ascontiguousarray(np.array(parts).transpose(2, 0, 1))


def stakes(shift: Floats, tolerance: float) -> Floats:
    """Compute what each alternative bets on y - b(p) in each cell: (q - b) / (b (1 - b)) in its middle.

    That grows fastest if the alternative is true. There are no bets inside the band. On predictions of 0 and 1 there
    are those that win where one is contradicted: the truth may lie closer to them than what they are taken for.

    Parameters
    ----------
    shift, tolerance
        As for :func:`lines`.

    Returns
    -------
    float64, shape (alternatives, cells)
    """
    lower, upper = _ends()
    middle = (lower + upper) / 2.0
    side = np.where(np.abs(shift) > tolerance, np.sign(shift), 0.0)
    edge, at_lower, at_upper = (_moved(p, side * tolerance) for p in (middle, lower, upper))
    best = (_moved(middle, shift) - edge) / (edge * (1.0 - edge))
    # Whichever prediction of the cell it is, a bet loses less than its stake.
    stake = np.clip(best, -_MAX_LOSS / (1.0 - at_lower), _MAX_LOSS / at_upper)
    stake[:, 0], stake[:, -1] = np.maximum(stake[:, 0], 0.0), np.minimum(stake[:, -1], 0.0)
    return np.where(side != 0.0, stake, 0.0)


def _moved(p: Floats, logits: Floats) -> Floats:
    """Probabilities whose log odds are larger by so many logits."""
    r = np.exp(logits)
    return r * p / (1.0 + (r - 1.0) * p)


def _ends() -> tuple[Floats, Floats]:
    """Ends of the cells; of those of 0 and 1, both are what these are taken for."""
    lower, upper = grid.edges().copy(), grid.upper_edges()
    lower[[0, -1]] = upper[[0, -1]] = certainty()
    return lower, upper
