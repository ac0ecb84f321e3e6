r"""Bets of D1 whose alternatives are learnt: by how many logits outcomes lay off the predictions before this step.

Each alternative shifts every region of predictions, a third of a logit wide, by a number of its own. It is estimated
from the labelled events of earlier steps, which weigh the less the older they are, and rounded to a tenth of a logit:

.. math:: \log \frac{n_1 + c / (1 - p)}{n_0 + c / p} - \log \frac{p}{1 - p}

with n_1 positives, n_0 negatives, p the mean of their predictions, and c the information (the sum of p (1 - p)) of
calibrated events that are thought to be there besides. A step is bet on before it is learnt from. So, given the past,
an alternative is fixed, and its bet is one of those that :func:`monitor.sequential.calibration.lines` tabulates: inside
the tolerance band it bets nothing, outside against the nearer edge, and its mean is at most 1 wherever in the band the
truth lies. Half-lives are counted in information, so that they are as long for rare events as for balanced ones.
Source: section 10 of the mathematics; Waudby-Smith and Ramdas 2024 (predictable plug-in).
"""

from functools import cache, lru_cache
from typing import Final

import numpy as np

from monitor.arrays import Floats, Ints
from monitor.scores import grid
from monitor.scores.steps import Steps
from monitor.sequential.alternatives import middle_logits
from monitor.sequential.calibration_lines import lines
from monitor.sequential.learnt_loops import bet_and_learn

HALF_LIVES: Final = (75.0, 300.0, 1200.0, 4800.0)
"""Half-lives of the alternatives, in information: .18 for an event of a balanced model with logits of deviation 1.5."""

REGIONS: Final = 48
"""Regions of predictions, a third of a logit wide; all beyond 8 logits are in the outermost ones."""

LARGEST: Final = 1.5
"""Logits of the largest shift that is learnt."""

_PER_LOGIT: Final = 3
_STEP: Final = 0.1
_WEIGHT: Final = 5.0
"""c of the formula."""


def nothing_learnt() -> Floats:
    """Return the sums before the first step: see :func:`bet_on_learnt`."""
    return np.zeros((len(HALF_LIVES), REGIONS, 3))


def bet_on_learnt(steps: Steps, tolerance: float, sums: Floats, *, held: bool) -> tuple[Floats, Floats]:
    """Compute the logarithm of each learnt alternative's bet on each step, and learn.

    Parameters
    ----------
    steps
        Settled predictions in order of prediction time.
    tolerance
        Half the width, in logits, of the band in which deviations are no evidence; 0 for none.
    sums
        float64, shape (4, 48, 3): positives, negatives and the sum of their predictions, of each alternative and
        region; it stays as it is.
    held
        Whether nothing is learnt.

    Returns
    -------
    tuple
        float64, shape (steps, 4), and the sums after the steps.
    """
    sums = sums.copy()
    log_bets = bet_and_learn(
        steps.first,
        steps.cell,
        steps.values,
        _anchors(),
        1.0 / grid.UNITS,
        regions(),
        _lines(tolerance),
        np.array(HALF_LIVES),
        np.exp(shifts()[1:] - _STEP / 2.0),
        _WEIGHT,
        not held,
        sums,
    )
    return log_bets, sums


@cache
def regions() -> Ints:
    """Return the region of each cell of the grid, int64, shape (cells,)."""
    place = np.floor(middle_logits() * _PER_LOGIT).astype(np.int64) + REGIONS // 2
    result = np.clip(place, 0, REGIONS - 1)
    result.flags.writeable = False
    return result


def shifts() -> Floats:
    """Return the shifts to choose from, in logits, ascending, float64, shape (31,)."""
    most = round(LARGEST / _STEP)
    return np.asarray(np.arange(-most, most + 1) * _STEP, np.float64)


@lru_cache(maxsize=8)
def _lines(tolerance: float) -> Floats:
    """Lines of each shift, shape (cells, 2, 31, 2): see :func:`bet_and_learn`."""
    tables = lines(np.repeat(shifts()[:, None], grid.cell_count(), axis=1), tolerance)
    return np.ascontiguousarray(tables.reshape(grid.cell_count(), 2, 2, -1).transpose(0, 1, 3, 2))


@cache
def _anchors() -> Floats:
    return np.asarray(grid.anchors() / grid.UNITS)
