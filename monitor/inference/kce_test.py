"""The test of calibration by kCE that draws nothing: the law of its square, matched by a Gamma law."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import logit
from scipy.stats import gamma

from monitor.errors import InputError, NotEnoughData
from monitor.kernels.laplace import laplace_quadratic_form
from monitor.scores import ScoreTable

Scale = Literal["probability", "logit"]


@dataclass(frozen=True, slots=True)
class KceMoments:
    """The law of kCE^2 if the model is calibrated, given its predictions.

    Attributes
    ----------
    mean
        Of kCE^2; the unbiased estimate U has mean 0.
    variance
        Of kCE^2.
    unbiased_variance
        Of U; nan for a single event, of which there is no U.
    """

    mean: float
    variance: float
    unbiased_variance: float


def kce_null_moments(table: ScoreTable, *, bandwidth: float = 1.0, scale: Scale = "probability") -> KceMoments:
    r"""Mean and variance of kCE^2 and of its unbiased estimate under calibration, exact and in linear time.

    With :math:`v_i = p_i (1 - p_i)`, the residuals are independent and of mean 0 and variance v, so

    .. math:: E[\mathrm{kCE}^2] = \frac{1}{n^2} \sum_i v_i, \qquad
        \mathrm{Var}(U) = \frac{2}{n^2 (n - 1)^2} \sum_{i \ne j} v_i v_j k_{ij}^2,

    and kCE^2 has the diagonal's variance, :math:`n^{-4} \sum_i v_i (1 - 2 p_i)^2`, besides that of its pairs. The
    square of the Laplace kernel is the Laplace kernel of half the bandwidth.

    Parameters
    ----------
    table
        m rows of whole counts; the outcomes are not looked at. The events of a cell count as lying at its mean.
    bandwidth
        Of the kernel, finite and above 0.
    scale
        ``probability`` or ``logit``, as of ``monitor.measures.kce``.

    Raises
    ------
    NotEnoughData
        The table is empty.
    InputError
        An option is wrong, or the table is weighted.
    """
    location = _location(table, bandwidth, scale)
    p, counts, n = table.score, table.counts, table.total
    variance = p * (1.0 - p)
    of_row = counts * variance
    all_pairs = float(laplace_quadratic_form(location, of_row, bandwidth / 2.0))
    pairs = 2.0 * max(0.0, all_pairs - float(of_row @ variance))
    diagonal = float(of_row @ (1.0 - 2.0 * p) ** 2)
    return KceMoments(
        mean=float(of_row.sum()) / n**2,
        variance=(pairs + diagonal) / n**4,
        unbiased_variance=pairs / (n * (n - 1.0)) ** 2 if n > 1.0 else float("nan"),
    )


def kce_gamma_p_value(table: ScoreTable, *, bandwidth: float = 1.0, scale: Scale = "probability") -> float:
    """How often a calibrated model's kCE is as large: by a Gamma law of the mean and the variance of kCE^2.

    It draws nothing, so it costs what kCE costs, and does not end at 1 / (1 + draws). At level .05 it refuses .048 to
    .060 of calibrated models.

    Parameters
    ----------
    table
        m rows of whole counts.
    bandwidth, scale
        As of :func:`kce_null_moments`.

    Returns
    -------
    float
        In [0, 1].

    Raises
    ------
    NotEnoughData
        The table is empty.
    InputError
        An option is wrong, or the table is weighted.
    """
    moments = kce_null_moments(table, bandwidth=bandwidth, scale=scale)
    location = _location(table, bandwidth, scale)
    square = max(0.0, float(laplace_quadratic_form(location, table.residual, bandwidth))) / table.total**2
    if moments.variance == 0.0:
        # Every prediction is 0 or 1, and then every outcome is known, or every one is 1/2 and alone.
        return 1.0 if square <= moments.mean else 0.0
    spread = moments.variance / moments.mean
    return float(gamma.sf(square, moments.mean / spread, scale=spread))


def _location(table: ScoreTable, bandwidth: float, scale: Scale) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Where the rows lie for the kernel, once all that is asked for is known to be right."""
    if not (np.isfinite(bandwidth) and bandwidth > 0.0):
        raise InputError(f"bandwidth must be a finite number above 0, got {bandwidth!r}")
    if scale not in ("probability", "logit"):
        raise InputError(f"scale must be one of 'probability', 'logit', got {scale!r}")
    if table.weighted:
        raise InputError("the law of kCE needs whole counts, got a weighted table; leave the weights out")
    if table.rows == 0:
        raise NotEnoughData("the law of kCE needs at least 1 event, got 0")
    return table.score if scale == "probability" else np.asarray(logit(table.score))
