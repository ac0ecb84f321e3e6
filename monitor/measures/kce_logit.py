"""The kernel calibration error under the Laplace kernel of the logits."""

import numpy as np
from scipy.special import logit

from monitor.arrays import Floats
from monitor.measures.base import SemiNorm
from monitor.measures.displacement import logit_displacement
from monitor.measures.kce import displaced_kce_bound, kce, kernel_location, potential_functional
from monitor.measures.laplace_loops import laplace_quadratic_forms
from monitor.scores import ScoreTable


def kce_logit(table: ScoreTable, *, bandwidth: float = 1.0) -> float:
    r"""Kernel calibration error under the Laplace kernel of the logits.

    .. math:: \mathrm{kCE}^2 = \frac{1}{n^2} \sum_{ij} r_i r_j \exp(-|z_i - z_j| / h), \qquad z = \log \frac{p}{1 - p}

    The same as ``kce(table, scale="logit")``. If outcomes are rare, predictions are close to one another, but not as
    logits: so it detects errors of a part of them that :func:`kce` averages out.

    Parameters
    ----------
    table
        m rows. p = 0 and p = 1 lie at infinity, and are only compared with equal predictions.
    bandwidth
        h, finite and above 0, in logits.

    Returns
    -------
    float
        Ratio in [0, 1]; smaller is better.

    Raises
    ------
    NotEnoughData
        The table is empty.
    InputError
        ``bandwidth`` is wrong.

    Notes
    -----
    Source: as for :func:`kce`, whose kernel is on p. On logits nothing is proved about the distance to calibration: it
    is a test of calibration and no estimate of that distance.

    Examples
    --------
    >>> round(kce_logit(ScoreTable.from_events([0.01, 0.001, 0.0], [1, 0, 0])), 6)
    0.329967
    """
    return kce(table, bandwidth=bandwidth, scale="logit")


def kce_logit_norms(table: ScoreTable, residual: Floats) -> Floats:
    """KCE of logits as a norm of the residual measure: m rows, residual (draws, m) -> (draws,)."""
    square = laplace_quadratic_forms(np.asarray(logit(table.score)), residual, 1.0)
    return np.asarray(np.sqrt(np.maximum(0.0, square)) / table.total)


def kce_logit_functional(table: ScoreTable) -> Floats:
    """The functional that attains kCE of logits, (m,)."""
    return potential_functional(table, kernel_location(table, "logit"))


def error_bound(table: ScoreTable, value: float) -> float:
    """How far the value of the raw predictions can lie from that of the table: as for kCE, but in logits.

    Two values of the kernel never differ by more than 1, nor by more than the logits move. So a displacement counts
    as at most 1, and the bound is finite also for a cell that ends at p = 0 or 1.
    """
    return displaced_kce_bound(table, value, logit_displacement(table))


MEASURE = SemiNorm(
    name="kce_logit",
    title="kCE of logits",
    help="Kernel calibration error with nearness in logits: it sees more than kCE where outcomes are rare.",
    unit="ratio",
    value=kce_logit,
    error_bound=error_bound,
    norms=kce_logit_norms,
    witness=kce_logit_functional,
    appears_in="reports",
    rank=65,
)
