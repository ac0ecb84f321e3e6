"""The test of calibration by kCE that draws nothing: the law of its square, matched in three cumulants."""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy.special import logit

from monitor.errors import InputError, NotEnoughData
from monitor.measures.laplace_loops import laplace_cubic_form, laplace_potential, laplace_quadratic_form
from monitor.scores import ScoreTable

# As in monitor.measures.kce, which stands on the same floor, so that neither may import from the other.
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
    third_cumulant
        Of kCE^2: its third moment about the mean.
    unbiased_variance
        Of U; nan for a single event, of which there is no U.
    """

    mean: float
    variance: float
    third_cumulant: float
    unbiased_variance: float


def kce_null_moments(table: ScoreTable, *, bandwidth: float = 1.0, scale: Scale = "probability") -> KceMoments:
    r"""Moments of kCE^2 and of its unbiased estimate under calibration, exact and in linear time.

    With :math:`v_i = p_i (1 - p_i)`, the residuals are independent and of mean 0 and variance v, so

    .. math:: E[\mathrm{kCE}^2] = \frac{1}{n^2} \sum_i v_i, \qquad
        \mathrm{Var}(U) = \frac{2}{n^2 (n - 1)^2} \sum_{i \ne j} v_i v_j k_{ij}^2,

    and kCE^2 has the diagonal's variance, :math:`n^{-4} \sum_i v_i s_i^2` with :math:`s_i = 1 - 2 p_i`, besides that of
    its pairs. The diagonal is linear in the residuals, :math:`r_i^2 = v_i + s_i r_i`, from which the third cumulant
    follows:

    .. math:: n^6 \kappa_3 = \sum_i s_i^4 v_i + \sum_{i \ne j} v_i v_j
        \big( 6 s_i s_j k_{ij} + 12 s_i^2 k_{ij}^2 + 4 s_i s_j k_{ij}^3 \big)
        + 8 \sum_{i \ne j \ne l \ne i} v_i v_j v_l k_{ij} k_{jl} k_{il}

    A power of the Laplace kernel is the Laplace kernel of that part of the bandwidth.

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
    v, skew = p * (1.0 - p), 1.0 - 2.0 * p
    of_row, skewed = counts * v, counts * v * skew
    # Sums over pairs of events: those over pairs of rows, less each event with itself.
    potential = laplace_potential(location, of_row, bandwidth / 2.0)
    pairs = max(0.0, float(of_row @ (potential - v)))
    own = float(skewed @ (v * skew))
    first_power = float(laplace_quadratic_form(location, skewed, bandwidth)) - own
    second_power = float((skewed * skew) @ (potential - v))
    third_power = float(laplace_quadratic_form(location, skewed, bandwidth / 3.0)) - own
    # Of triples, those with two alike are left out, three times as often as there are such pairs.
    triples = float(laplace_cubic_form(location, of_row, bandwidth)) - float((of_row * v) @ (3.0 * potential - 2.0 * v))
    return KceMoments(
        mean=float(of_row.sum()) / n**2,
        variance=(2.0 * pairs + float(skewed @ skew)) / n**4,
        third_cumulant=(
            float(skewed @ skew**3) + 6.0 * first_power + 12.0 * second_power + 4.0 * third_power + 8.0 * triples
        )
        / n**6,
        unbiased_variance=2.0 * pairs / (n * (n - 1.0)) ** 2 if n > 1.0 else float("nan"),
    )


def kce_p_value(table: ScoreTable, *, bandwidth: float = 1.0, scale: Scale = "probability") -> float:
    """How often a calibrated model's kCE is as large, by the law of :func:`pearson_p_value` with the moments of kCE^2.

    It draws nothing, so it costs what kCE costs, and does not end at 1 / (1 + draws).

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
    return pearson_p_value(square, moments.mean, moments.variance, moments.third_cumulant)


def pearson_p_value(value: float, mean: float, variance: float, third_cumulant: float) -> float:
    """The tail, from a value on, of the Pearson III law (a Gamma law that is moved) of these three cumulants.

    A Gamma law of the mean and variance alone, which section 3 of the mathematics speaks of, has too thin a tail for a
    quadratic form: it is right at .05, but refuses .001 two to three times as often as it should.
    """
    if variance <= 0.0:
        # Nothing can vary, as where every prediction is 0 or 1: what differs all the same is impossible.
        return 1.0 if value <= mean else 0.0
    spread = math.sqrt(variance)
    return float(scipy.stats.pearson3.sf((value - mean) / spread, third_cumulant / spread**3))


def _location(table: ScoreTable, bandwidth: float, scale: Scale) -> NDArray[np.float64]:
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
