"""D1: evidence against calibration, that is against E[y | p, past] = p.

For each alternative q_k(p) and each event, the bet is e = 1 + lam (y - p), with lam = (q_k - p) / (p (1 - p)) tabulated
for each cell, and p exact: its mean is 1 if the model is calibrated. Source: sections 4 and 10 of the mathematics.
"""

from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any, Final

import numpy as np

from monitor.arrays import Floats
from monitor.scores import grid
from monitor.scores.steps import Steps
from monitor.sequential.alternatives import Profile, centred_shifts, certainty, common_shifts, names
from monitor.sequential.calibration_loops import sum_bets
from monitor.sequential.detector import Bets, State
from monitor.sequential.first_predictions import FirstPredictions

TOLERANCE: Final = 0.05
"""Logits by which true probabilities may differ from predictions without being evidence."""

_MAX_LOSS: Final = 0.999
"""Largest share of its stake that a bet may lose on one event."""


class CalibrationBets:
    """Bets against the calibration of one series.

    Parameters
    ----------
    tolerance
        Half the width, in logits, of the band in which deviations are no evidence; 0 for none.
    """

    def __init__(self, tolerance: float = TOLERANCE) -> None:
        self._tolerance = tolerance
        self._first = FirstPredictions()

    @property
    def names(self) -> list[str]:
        """A name for each alternative. Those of slopes and bumps refer to the series' first predictions."""
        return names(self._first.profile)

    def bet(self, steps: Steps) -> Bets:
        """Bet on the steps that follow those of earlier calls; one row a step."""
        parts = [log_bets(part, profile, self._tolerance) for part, profile in self._first.follow(steps)]
        return Bets(steps.end_ms, np.concatenate(parts))

    def state(self) -> State:
        """Return what :meth:`from_state` continues from."""
        return {"tolerance": self._tolerance, **self._first.state()}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> "CalibrationBets":
        """Continue from a state."""
        result = cls(float(state["tolerance"]))
        result._first = FirstPredictions.from_state(state)
        return result


def log_bets(steps: Steps, profile: Profile, tolerance: float = TOLERANCE) -> Floats:
    """Compute the logarithm of each alternative's bet on each step.

    The logarithm of an event's bet is bounded from below by a line over its cell, and so the sum over a cell by its
    counts and sums of predictions. So no bet is larger than that on the events, and every mean stays at most 1.

    Parameters
    ----------
    steps
        Settled predictions in order of prediction time.
    profile
        Of the series, from earlier predictions.
    tolerance
        Half the width, in logits, of the band in which deviations are no evidence; 0 for none.

    Returns
    -------
    float64, shape (steps, 36): see :func:`monitor.sequential.alternatives.names`.
    """
    return sum_bets(
        steps.first,
        steps.cell,
        steps.values,
        common_lines(tolerance),
        _centred_lines(profile.centre, tolerance),
        np.array(profile.region_starts),
    )


@cache
def common_lines(tolerance: float) -> Floats:
    """Tabulate the lines of the alternatives that all models share, shape (cells, 4, 16): see :func:`lines`."""
    return lines(common_shifts(), tolerance)


@lru_cache(maxsize=64)
def _centred_lines(centre: float, tolerance: float) -> Floats:
    return lines(centred_shifts(centre), tolerance)


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
