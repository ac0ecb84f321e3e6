"""D1: evidence against calibration, that is against E[y | p, past] = p.

For each alternative q_k(p) and each event, the bet is e = 1 + lam (y - p), with lam = (q_k - p) / (p (1 - p)) tabulated
for each cell, and p exact: its mean is 1 if the model is calibrated. 36 alternatives are fixed, and four are learnt
from earlier steps (:mod:`monitor.sequential.learnt`). Source: sections 4 and 10 of the mathematics.
"""

from collections.abc import Mapping
from copy import copy
from functools import cache, lru_cache
from typing import Any, Final

import numpy as np

from monitor.arrays import Floats
from monitor.scores.steps import Steps
from monitor.sequential import learnt
from monitor.sequential.alternatives import Profile, centred_shifts, common_shifts, names
from monitor.sequential.calibration_lines import lines
from monitor.sequential.calibration_loops import sum_bets
from monitor.sequential.detector import Bets, State
from monitor.sequential.first_predictions import FirstPredictions

TOLERANCE: Final = 0.05
"""Logits by which true probabilities may differ from predictions without being evidence."""


class CalibrationBets:
    """Bets against the calibration of one series.

    Copies (``copy.copy``) share nothing that changes.

    Parameters
    ----------
    tolerance
        Half the width, in logits, of the band in which deviations are no evidence; 0 for none.
    """

    def __init__(self, tolerance: float = TOLERANCE) -> None:
        self._tolerance = tolerance
        self._first = FirstPredictions()
        self._learnt = learnt.nothing_learnt()

    @property
    def names(self) -> list[str]:
        """A name for each alternative. Those of slopes and bumps refer to the series' first predictions."""
        return [*names(self._first.profile), *(f"learnt, half-life {half_life:g}" for half_life in learnt.HALF_LIVES)]

    def bet(self, steps: Steps, *, held: bool = False) -> Bets:
        """Bet on the steps that follow those of earlier calls; one row a step.

        Parameters
        ----------
        held
            Whether what was learnt stays as it is: while an alarm fires, so that the alternatives it was raised for are
            those that tell when it is over.
        """
        parts = [log_bets(part, profile, self._tolerance) for part, profile in self._first.follow(steps)]
        of_learnt, self._learnt = learnt.bet_on_learnt(steps, self._tolerance, self._learnt, held=held)
        return Bets(steps.end_ms, np.column_stack([np.concatenate(parts), of_learnt]))

    def __copy__(self) -> "CalibrationBets":
        result = CalibrationBets(self._tolerance)
        result._first, result._learnt = copy(self._first), self._learnt
        return result

    def state(self) -> State:
        """Return what :meth:`from_state` continues from."""
        return {"tolerance": self._tolerance, "learnt": self._learnt, **self._first.state()}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> "CalibrationBets":
        """Continue from a state."""
        result = cls(float(state["tolerance"]))
        result._first = FirstPredictions.from_state(state)
        result._learnt = np.array(state["learnt"], np.float64)
        return result


def log_bets(steps: Steps, profile: Profile, tolerance: float = TOLERANCE) -> Floats:
    """Compute the logarithm of each fixed alternative's bet on each step.

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
    """Tabulate the lines of the alternatives that all models share: see :mod:`monitor.sequential.calibration_lines`.

    Returns
    -------
    float64, shape (cells, 4, 16)
    """
    return lines(common_shifts(), tolerance)


@lru_cache(maxsize=64)
def _centred_lines(centre: float, tolerance: float) -> Floats:
    return lines(centred_shifts(centre), tolerance)
