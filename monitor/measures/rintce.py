"""The random interval calibration error: bins of one width, under all shifts at once."""

from typing import Final

import numpy as np

from monitor.arrays import Floats
from monitor.measures.base import SemiNorm
from monitor.measures.displacement import mean_residual_displacement, rounding
from monitor.measures.shifted_bins_loops import shifted_bins_mean, shifted_bins_means, shifted_bins_signs
from monitor.scores import ScoreTable
from monitor.scores.arguments import require_positive
from monitor.scores.table import require_events

DEFAULT_WIDTH: Final = 1.0 / 16.0
"""Narrow enough to locate errors, and wide enough to average out noise."""


def rintce(table: ScoreTable, width: float = DEFAULT_WIDTH) -> float:
    r"""Random interval calibration error.

    .. math:: \mathrm{RintCE}(e) =
        E_u \sum_j \Big| \frac{1}{n} \sum_{p_i \in [u + j e, u + (j + 1) e)} (y_i - p_i) \Big|

    with u uniform in [0, e). The expectation is exact: no shift is drawn.

    Parameters
    ----------
    table
        m rows.
    width
        e, finite and above 0.

    Returns
    -------
    float
        Ratio in [0, 1]; smaller is better.

    Raises
    ------
    NotEnoughData
        The table is empty.
    InputError
        ``width`` is not a finite number above 0.

    Notes
    -----
    It never falls when the width is halved. With the width added it is an upper bound of intCE.

    Source: Blasiok, Gopalan, Hu, Nakkiran, "A Unifying Theory of Distance from Calibration", 2023, Definition 6.5. The
    paper draws shifts.

    Examples
    --------
    >>> round(rintce(ScoreTable.from_events([0.4, 0.6], [1, 0]), 0.5), 6)
    0.24
    """
    require_positive("width", width)
    require_events(table, "RintCE")
    return float(shifted_bins_mean(table.score, table.residual, width)) / table.total


def rintce_norms(table: ScoreTable, residual: Floats) -> Floats:
    """RintCE as a norm of the residual measure: m rows, residual (draws, m) -> (draws,)."""
    return np.asarray(shifted_bins_means(table.score, residual, DEFAULT_WIDTH)) / table.total


def rintce_functional(table: ScoreTable) -> Floats:
    """The functional that attains RintCE, (m,): the mean sign of the bins that hold a prediction."""
    return np.asarray(shifted_bins_signs(table.score, table.residual, DEFAULT_WIDTH)) / table.total


def error_bound(table: ScoreTable, value: float) -> float:
    r"""How far the RintCE of the raw predictions can lie from that of the table: :math:`2 E[|r| d] / e`.

    A prediction that moves by d enters and leaves the moving bin by d earlier or later.
    """
    del value  # the bound does not depend on it
    moved = 2.0 * (mean_residual_displacement(table) + rounding(table))
    return min(1.0, moved / DEFAULT_WIDTH) + rounding(table)


MEASURE = SemiNorm(
    name="rintce",
    title="RintCE(1/16)",
    help="Mean binned residual of bins of width 1/16, over all shifts of the bins.",
    unit="ratio",
    value=rintce,
    error_bound=error_bound,
    norms=rintce_norms,
    witness=rintce_functional,
    appears_in="reports",
    rank=66,
)
