"""The smooth calibration error, and the function that attains it."""

import numpy as np

from monitor.arrays import Floats
from monitor.measures.base import SemiNorm, of_events
from monitor.measures.displacement import mean_residual_displacement, rounding
from monitor.measures.lipschitz_loops import lipschitz_maximiser, lipschitz_suprema, lipschitz_supremum
from monitor.scores import ScoreTable
from monitor.scores.table import require_events


@of_events
def smce(table: ScoreTable) -> float:
    r"""Smooth calibration error.

    .. math:: \mathrm{smCE} = \sup_f \frac{1}{n} \sum_i (y_i - p_i) f(p_i)

    over all 1-Lipschitz f: [0, 1] -> [-1, 1]. Exact, in O(m log m), with no linear programme.

    Parameters
    ----------
    table
        m rows; or in its place ``p, y``: predictions P(y = 1) and outcomes, shape (n,) each.

    Returns
    -------
    float
        Ratio in [0, 1]; smaller is better. Half of it bounds the distance to the nearest calibrated predictor from
        below. The lower distance to calibration lies between half of it and twice it; the distance itself can be
        larger than that.

    Raises
    ------
    NotEnoughData
        The table is empty.

    Notes
    -----
    A calibrated model has about .8 to 1.0 times sqrt(mean p (1 - p) / n): compare the value with its null
    level. relplot's ``smECE`` is another measure and has other values.

    Source: Blasiok, Gopalan, Hu, Nakkiran, "A Unifying Theory of Distance from Calibration", 2023, Definition 7.2. The
    paper's Theorem 7.14 solves a linear programme instead.

    Examples
    --------
    >>> round(smce(ScoreTable.from_events([0.2, 0.8], [1, 0])), 6)
    0.24
    """
    require_events(table, "smCE")
    return float(lipschitz_supremum(table.score, table.residual)) / table.total


@of_events
def smce_witness(table: ScoreTable) -> Floats:
    """The function that attains smCE: shows where the model is miscalibrated, and in which direction.

    Parameters
    ----------
    table
        m rows; or in its place ``p, y``: predictions P(y = 1) and outcomes, shape (n,) each.

    Returns
    -------
    float64, shape (m,)
        f at each row's score, in [-1, 1], 1-Lipschitz: high where outcomes are more frequent than predicted, low where
        they are less frequent. ``(f * table.residual).sum() / table.total`` is smCE.

    Raises
    ------
    NotEnoughData
        The table is empty.
    """
    require_events(table, "smCE")
    return np.asarray(lipschitz_maximiser(table.score, table.residual))


def smce_norms(table: ScoreTable, residual: Floats) -> Floats:
    """SmCE as a norm of the residual measure: m rows, residual (draws, m) -> (draws,)."""
    return np.asarray(lipschitz_suprema(table.score, residual)) / table.total


def smce_functional(table: ScoreTable) -> Floats:
    """The witness as the functional that attains smCE, (m,)."""
    return smce_witness(table) / table.total


def error_bound(table: ScoreTable, value: float) -> float:
    """How far the smCE of the raw predictions can lie from that of the table: E[|r| d], because f is 1-Lipschitz."""
    del value  # the bound does not depend on it
    return mean_residual_displacement(table) + rounding(table)


MEASURE = SemiNorm(
    name="smce",
    title="smCE",
    help="Smooth calibration error: within a factor of two of the lower distance to calibration.",
    unit="ratio",
    value=smce,
    error_bound=error_bound,
    norms=smce_norms,
    witness=smce_functional,
    on_wide_cells=True,
    rank=30,
)
