r"""Evidence against calibration that holds under any dependence inside a horizon: ``dependence: within_horizon``.

Events come in blocks of one horizon, and a block counts as one observation: for a weight w(p) from 0 to 1, and with b
the upper edge of the tolerance band, the bet that rates are too low is

.. math:: e = 1 + \beta \frac{\sum_i w(p_i) (y_i - b(p_i))}{\sum_i w(p_i) b(p_i)}

whose denominator is the most that the block can lose; that they are too high, the same about negatives and the lower
edge. Slopes add both, above and below the centre.

The null hypothesis: the mean of each outcome of a block, given the block's predictions and all that was known when it
began, lies in the band. When a block begins, the outcomes of the last but one are known, so this holds of the even
blocks by themselves, and of the odd ones, whatever the outcomes of a block have in common; and the mean of e is at most
1. The two are detectors of their own, each with half of the budget: both may alarm, at 2 / b. Source: section 4 of the
mathematics, which divides by the number of events instead: then bets on rare events could not win anything.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import numpy as np

from monitor.arrays import Floats
from monitor.errors import SettingsError
from monitor.scores import grid
from monitor.scores.steps import Steps
from monitor.sequential.alternatives import REGIONS, certainty, middle_logits, spans
from monitor.sequential.block_loops import bet_on_blocks
from monitor.sequential.calibration import TOLERANCE
from monitor.sequential.detector import Bets, State
from monitor.sequential.first_predictions import FirstPredictions
from monitor.sequential.serving_map import SHARES

_PATTERNS: Final = 4 + 2 * REGIONS
_BEFORE_ALL: Final = -(2**62)


class BlockBets:
    """Bets on every other block of one horizon of a series.

    Parameters
    ----------
    horizon_ms
        Length of a block: at least the horizon, and a multiple of the length of steps.
    parity
        0 for the even blocks, 1 for the odd ones.
    tolerance
        Half the width, in logits, of the band in which deviations are no evidence.

    Raises
    ------
    SettingsError
        ``horizon_ms`` is not above 0.
    """

    def __init__(self, horizon_ms: int, parity: int, tolerance: float = TOLERANCE) -> None:
        if horizon_ms <= 0:
            raise SettingsError(f"blocks need a horizon above 0 ms, got {horizon_ms}")
        self._horizon_ms, self._parity, self._tolerance = horizon_ms, parity, tolerance
        self._first = FirstPredictions()
        self._block, self._gain, self._loss = _BEFORE_ALL, np.zeros(_PATTERNS), np.zeros(_PATTERNS)

    @property
    def names(self) -> list[str]:
        """A name for each alternative. Those of slopes and bumps refer to the series' first predictions."""
        patterns = ["rates higher", "rates lower", "slope above 1", "slope below 1"]
        for span in spans(self._first.profile.region_starts):
            patterns += [f"rates higher {span}", f"rates lower {span}"]
        return [f"{pattern}, share {share:g}" for pattern in patterns for share in SHARES]

    def bet(self, steps: Steps) -> Bets:
        """Bet on the blocks that are complete after the steps, which follow those of earlier calls; one row a step."""
        parts = []
        for part, profile in self._first.follow(steps):
            self._block, log_bets = bet_on_blocks(
                self._block,
                self._gain,
                self._loss,
                self._horizon_ms,
                self._parity,
                *part,
                _edges(self._tolerance),
                middle_logits(),
                profile.centre,
                np.array(profile.region_starts),
                np.array(SHARES),
            )
            parts.append(log_bets)
        return Bets(steps.end_ms, np.concatenate(parts))

    def state(self) -> State:
        """Return what :meth:`from_state` continues from."""
        return {
            "horizon_ms": self._horizon_ms,
            "parity": self._parity,
            "tolerance": self._tolerance,
            "block": self._block,
            "gain": self._gain.copy(),
            "loss": self._loss.copy(),
            **self._first.state(),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> "BlockBets":
        """Continue from a state."""
        result = cls(int(state["horizon_ms"]), int(state["parity"]), float(state["tolerance"]))
        result._block = int(state["block"])
        result._gain, result._loss = np.array(state["gain"], np.float64), np.array(state["loss"], np.float64)
        result._first = FirstPredictions.from_state(state)
        return result


@lru_cache(maxsize=8)
def _edges(tolerance: float) -> Floats:
    """Tabulate lines through the edges of the band, shape (cells, 2, 2): see :func:`bet_on_blocks`.

    The lower edge is convex in p and the upper one concave: so the tangents in the middle of the cell lie outside the
    band. The bands of 0 and 1 reach to those of what they are taken for.
    """
    lower, upper = grid.edges(), np.maximum(grid.edges(), grid.upper_edges())
    anchor, middle = (np.tile(one, (2, 1)) for one in (grid.anchors() / grid.UNITS, (lower + upper) / 2.0))
    anchor[1, 0], anchor[0, -1] = middle[1, 0], middle[0, -1] = certainty()
    r = np.exp(np.array([-tolerance, tolerance]))[:, None]
    share = 1.0 + (r - 1.0) * middle
    tangent = r / share**2
    at_anchor = r * middle / share + tangent * (anchor - middle)
    return np.ascontiguousarray(np.array([at_anchor, tangent / grid.UNITS]).transpose(2, 1, 0))
