"""Kernel calibration errors under the Laplace kernel, of predictions and of logits, and other estimators of them."""

import math
from typing import Any, Final, Literal

import numpy as np
from scipy.special import logit

from monitor.arrays import Floats
from monitor.errors import NotEnoughData
from monitor.measures.base import SemiNorm, of_events
from monitor.measures.displacement import logit_displacement, residual_displacement, rounding
from monitor.measures.laplace_loops import laplace_potential, laplace_quadratic_form, laplace_quadratic_forms
from monitor.scores import ScoreTable
from monitor.scores.arguments import require_choice, require_positive
from monitor.scores.table import require_events

Scale = Literal["probability", "logit"]

MMCE_WIDTH: Final = 0.4
"""Bandwidth for the top label of many classes, as in the code of MMCE's authors."""


@of_events
def kce(table: ScoreTable, *, bandwidth: float = 1.0, scale: Scale = "probability", unbiased: bool = False) -> float:
    r"""Kernel calibration error under the Laplace kernel.

    .. math:: \mathrm{kCE}^2 = \frac{1}{n^2} \sum_{ij} r_i r_j \exp(-|x_i - x_j| / h), \qquad r_i = y_i - p_i

    Exact, in linear time.

    Parameters
    ----------
    table
        m rows; or in its place ``p, y``: predictions P(y = 1) and outcomes, shape (n,) each.
    bandwidth
        h, finite and above 0, in the units of ``scale``.
    scale
        ``probability``: x = p. ``logit``: x = logit p, with far more power at low prevalence.
    unbiased
        Return the unbiased estimate of the *square* of the error instead (SKCE), the sum over i != j divided by
        n (n - 1), or with weights by the sum of w_i w_j. For a calibrated model it is below 0 about as often as above,
        so no root is taken. In a table of the grid the events of a cell count as lying at the means of its
        positives and of its negatives.

    Returns
    -------
    float
        kCE in [0, 1]; or, if ``unbiased``, an estimate of its square.

    Raises
    ------
    NotEnoughData
        The table is empty, or ``unbiased`` with a single event.
    InputError
        An option is wrong.

    Notes
    -----
    A calibrated model has about .9 sqrt(mean p (1 - p) / n): compare the value with its null level.

    Source: Blasiok, Gopalan, Hu, Nakkiran, "A Unifying Theory of Distance from Calibration", 2023, equations 28 and
    29; Widmann, Lindsten, Zachariah, "Calibration tests in multi-class classification", 2019, for the unbiased one.

    Examples
    --------
    >>> round(kce(ScoreTable.from_events([0.2, 0.8], [1, 0])), 6)
    0.379974
    """
    require_positive("bandwidth", bandwidth)
    require_choice("scale", scale, ("probability", "logit"))
    require_events(table, "kCE", minimum=2 if unbiased else 1)
    square = float(laplace_quadratic_form(kernel_location(table, scale), table.residual, bandwidth))
    n = table.total
    if unbiased:
        pairs = n**2 - float(table.positive_squares.sum() + table.negative_squares.sum())
        if pairs <= 0.0:  # a single weighted event
            raise NotEnoughData("kCE needs at least 2 events, got 1")
        return (square - float(squared_residuals(table).sum())) / pairs
    return math.sqrt(max(0.0, square)) / n


def _norms(table: ScoreTable, residual: Floats, scale: Scale) -> Floats:
    """KCE as a norm of the residual measure: m rows, residual (draws, m) -> (draws,)."""
    square = laplace_quadratic_forms(kernel_location(table, scale), residual, 1.0)
    return np.asarray(np.sqrt(np.maximum(0.0, square)) / table.total)


def _functional(table: ScoreTable, scale: Scale) -> Floats:
    """The functional that attains kCE, (m,): the residuals' potential, in the ball of the kernel's Hilbert space."""
    potential = np.asarray(laplace_potential(kernel_location(table, scale), table.residual, 1.0))
    size = math.sqrt(max(0.0, float(potential @ table.residual)))
    return potential / (size * table.total) if size > 0.0 else np.zeros(table.rows)


def kce_error_bound(table: ScoreTable, value: float) -> float:
    """How far the kCE of the raw predictions can lie from that of the table."""
    return displaced_kce_bound(table, value, residual_displacement(table))


def displaced_kce_bound(table: ScoreTable, value: float, moved: Floats) -> float:
    r"""How far a kCE can lie from ``value`` if events lie elsewhere than their rows.

    The smaller of two bounds. With d = |p - x| on the kernel's scale, A_c the absolute residual of
    row c and :math:`D_c = \sum |r| d` over its events, of which ``moved``, shape (m,), is an upper bound:

    - kCE is a norm, so it moves by at most the norm of the change: residuals moved from x to p in each row.
      Two such dipoles in one row interact by at most 2 min(d_i, d_j), in different rows, where the kernel is smooth, by
      at most d_i d_j: :math:`n^{-1} (\sum_c 2 A_c D_c + (\sum_c D_c)^2)^{1/2}`.
    - The kernel itself moves by at most d_i + d_j, so kCE^2 moves by at most :math:`B = 2 E|r| \, E[|r| d]`, and kCE
      stays within the roots of value^2 -+ B.

    Both hold with min(d, 1) for d, too, because d is only used as an upper bound of 1 - exp(-d).
    """
    if table.exact:
        return 0.0
    n = table.total
    size = np.maximum(table.absolute_residual, 0.0)
    of_dipoles = math.sqrt(2.0 * float(size @ moved) + float(moved.sum()) ** 2) / n
    change = 2.0 * float(size.sum()) * float(moved.sum()) / n**2
    below = value - math.sqrt(max(0.0, value**2 - change))
    above = math.sqrt(value**2 + change) - value
    return min(of_dipoles, max(below, above)) + rounding(table)


def kernel_location(table: ScoreTable, scale: Scale) -> Floats:
    """Where the rows lie for the kernel, shape (m,); on the logit scale p = 0 and 1 are infinitely far from others."""
    return table.score if scale == "probability" else np.asarray(logit(table.score))


def mean_residuals(table: ScoreTable) -> tuple[Floats, Floats]:
    """Mean residual of the positives and of the negatives of each row, both (m,); 0 if there are none."""
    return (
        np.divide(
            table.positives - table.positive_sum, table.positives, out=np.zeros(table.rows), where=table.positives > 0.0
        ),
        np.divide(-table.negative_sum, table.negatives, out=np.zeros(table.rows), where=table.negatives > 0.0),
    )


def squared_residuals(table: ScoreTable) -> Floats:
    """Sum of (w (y - p))^2 over the events of each row, shape (m,)."""
    of_positive, of_negative = mean_residuals(table)
    return table.positive_squares * of_positive**2 + table.negative_squares * of_negative**2


@of_events
def kce_logit(table: ScoreTable, *, bandwidth: float = 1.0) -> float:
    r"""Kernel calibration error under the Laplace kernel of the logits.

    .. math:: \mathrm{kCE}^2 = \frac{1}{n^2} \sum_{ij} r_i r_j \exp(-|z_i - z_j| / h), \qquad z = \log \frac{p}{1 - p}

    The same as ``kce(table, scale="logit")``. If outcomes are rare, predictions are close to one another, but not as
    logits: so it detects errors of a part of them that :func:`kce` averages out.

    Parameters
    ----------
    table
        m rows; or ``p, y`` in its place. p = 0 and p = 1 lie at infinity, and are only compared with equal predictions.
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


def kce_logit_error_bound(table: ScoreTable, value: float) -> float:
    """How far the value of the raw predictions can lie from that of the table: as for kCE, but in logits.

    Two values of the kernel never differ by more than 1, nor by more than the logits move. So a displacement counts
    as at most 1, and the bound is finite also for a cell that ends at p = 0 or 1.
    """
    return displaced_kce_bound(table, value, logit_displacement(table))


def _measure(scale: Scale, **declaration: Any) -> SemiNorm:
    """Declare kCE on this scale with the default bandwidth."""
    return SemiNorm(
        unit="ratio",
        norms=lambda table, residual: _norms(table, residual, scale),
        witness=lambda table: _functional(table, scale),
        **declaration,
    )


KCE: Final = _measure(
    "probability",
    name="kce",
    title="kCE",
    help="Kernel calibration error: the largest correlation of the residual with a smooth function of the prediction.",
    value=kce,
    error_bound=kce_error_bound,
    on_wide_cells=True,
    rank=20,
)

MEASURES: Final = (
    KCE,
    _measure(
        "logit",
        name="kce_logit",
        title="kCE of logits",
        help="Kernel calibration error with nearness in logits: it sees more than kCE where outcomes are rare.",
        value=kce_logit,
        error_bound=kce_logit_error_bound,
        appears_in="reports",
        rank=65,
    ),
)
