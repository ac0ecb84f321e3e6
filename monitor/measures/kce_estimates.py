"""Other estimators of kCE: randomised ones of its square, and the jackknife of the unbiased one."""

import math
from dataclasses import dataclass

import numpy as np

from monitor.arrays import Floats
from monitor.errors import InputError
from monitor.measures.kce import Scale, kernel_location, mean_residuals, squared_residuals
from monitor.measures.laplace_loops import laplace_potential
from monitor.scores import ScoreTable
from monitor.scores.arguments import require_choice, require_positive, require_whole
from monitor.scores.table import require_events


def kce_by_frequencies(table: ScoreTable, *, draws: int, seed: int, bandwidth: float = 1.0) -> float:
    r"""The square of kCE, estimated at random frequencies.

    .. math:: \Big| \frac{1}{n} \sum_i (y_i - p_i) e^{i \omega p_i} \Big|^2, \qquad \omega \sim \mathrm{Cauchy}(0, 1/h)

    averaged over the draws of :math:`\omega`: the Cauchy law is the Fourier transform of the Laplace kernel. In linear
    time, like :func:`kce`; the paper's alternative, for comparison.

    Parameters
    ----------
    table
        m rows.
    draws
        Number of frequencies, at least 1. Each estimate lies in [0, 1]; the error of the mean falls with the root.
    seed
        Of the frequencies.
    bandwidth
        h, finite and above 0.

    Returns
    -------
    float
        An unbiased estimate of ``kce(table) ** 2``, in [0, 1].

    Raises
    ------
    NotEnoughData
        The table is empty.
    InputError
        An option is wrong.

    Notes
    -----
    Source: Blasiok, Gopalan, Hu, Nakkiran, "A Unifying Theory of Distance from Calibration", 2023, Algorithm 1 and
    Theorem 8.13, after Rahimi, Recht, "Random Features for Large-Scale Kernel Machines", 2007.

    Examples
    --------
    >>> table = ScoreTable.from_events([0.2, 0.7], [1, 0])  # kCE^2 is .1127
    >>> round(kce_by_frequencies(table, draws=20_000, seed=1), 2)
    0.11
    """
    rng = _checked(table, draws, seed, bandwidth)
    residual = table.residual
    total = 0.0
    for omega in rng.standard_cauchy(draws) / bandwidth:
        angle = omega * table.score
        total += float(residual @ np.cos(angle)) ** 2 + float(residual @ np.sin(angle)) ** 2
    return total / draws / table.total**2


def kce_by_random_bins(table: ScoreTable, *, draws: int, seed: int, bandwidth: float = 1.0) -> float:
    r"""The square of kCE, estimated with random bins.

    .. math:: \sum_j \Big( \frac{1}{n} \sum_{p_i \in [u + j w, u + (j + 1) w)} (y_i - p_i) \Big)^2,
        \qquad w / h \sim \mathrm{Gamma}(2, 1), \quad u \sim \mathrm{Uniform}[0, w)

    averaged over the draws of w and u: two predictions share a bin with probability exp(-d / h). Close to how RintCE is
    estimated, but with squares. In linear time.

    Parameters
    ----------
    table
        m rows.
    draws
        Number of binnings, at least 1.
    seed
        Of the binnings.
    bandwidth
        h, finite and above 0.

    Returns
    -------
    float
        An unbiased estimate of ``kce(table) ** 2``, in [0, 1].

    Raises
    ------
    NotEnoughData
        The table is empty.
    InputError
        An option is wrong.

    Notes
    -----
    Source: Blasiok, Gopalan, Hu, Nakkiran, "A Unifying Theory of Distance from Calibration", 2023, Algorithm 2 and
    Theorem 8.14.

    Examples
    --------
    >>> table = ScoreTable.from_events([0.2, 0.7], [1, 0])  # kCE^2 is .1127
    >>> round(kce_by_random_bins(table, draws=20_000, seed=1), 2)
    0.11
    """
    rng = _checked(table, draws, seed, bandwidth)
    residual = table.residual
    total = 0.0
    for width in rng.gamma(2.0, bandwidth, draws):
        place = np.floor(table.score / width - rng.random())
        first = np.flatnonzero(np.diff(place, prepend=-np.inf))
        binned = np.add.reduceat(residual, first)
        total += float(binned @ binned)
    return total / draws / table.total**2


@dataclass(frozen=True, eq=False)
class KceJackknife:
    """The unbiased estimate of kCE^2, and the estimates without each event in turn.

    Attributes
    ----------
    value
        The estimate U: ``kce(table, unbiased=True)``.
    standard_error
        Its jackknife standard error. For a calibrated model U is degenerate, and the error too large: for a test see
        ``monitor.inference.kce_p_value``.
    without_positive, without_negative
        float64, shape (m,): U without one of the row's positives, or one of its negatives; nan if there is none.
    """

    value: float
    standard_error: float
    without_positive: Floats
    without_negative: Floats


def kce_jackknife(table: ScoreTable, *, bandwidth: float = 1.0, scale: Scale = "probability") -> KceJackknife:
    r"""The jackknife of the unbiased estimate of kCE^2, exact and in linear time.

    .. math:: U_{-i} = \frac{\sum_j r_j g_j - 2 r_i g_i}{(n - 1)(n - 2)}, \qquad g_i = \sum_{j \ne i} r_j k_{ij}

    with all g from one pass to the right and one to the left.

    Parameters
    ----------
    table
        m rows of whole counts, at least 3 events. In a table of the grid the events of a cell count as lying at the
        means of its positives and of its negatives.
    bandwidth, scale
        As for :func:`kce`.

    Raises
    ------
    NotEnoughData
        The table holds fewer than 3 events.
    InputError
        An option is wrong, or the table is weighted.

    Examples
    --------
    >>> jackknife = kce_jackknife(ScoreTable.from_events([0.1, 0.3, 0.6, 0.9], [1, 0, 1, 0]))
    >>> round(jackknife.value, 6), round(jackknife.standard_error, 6)
    (-0.095679, 0.082998)
    """
    require_positive("bandwidth", bandwidth)
    require_choice("scale", scale, ("probability", "logit"))
    require_events(table, "the jackknife of kCE", minimum=3)
    if table.weighted:
        raise InputError("the jackknife needs whole counts, got a weighted table; leave the weights out")
    n = table.total
    potential = laplace_potential(kernel_location(table, scale), table.residual, bandwidth)
    total = float(table.residual @ potential) - float(squared_residuals(table).sum())
    value = total / (n * (n - 1.0))
    without = []
    square = 0.0
    for count, residual in zip((table.positives, table.negatives), mean_residuals(table), strict=True):
        estimates = (total - 2.0 * residual * (potential - residual)) / ((n - 1.0) * (n - 2.0))
        square += float(count @ (estimates - value) ** 2)  # value is their mean
        without.append(np.where(count > 0.0, estimates, np.nan))
    return KceJackknife(value, math.sqrt((n - 1.0) / n * square), *without)


def _checked(table: ScoreTable, draws: int, seed: int, bandwidth: float) -> np.random.Generator:
    require_positive("bandwidth", bandwidth)
    require_whole("draws", draws, 1)
    require_events(table, "kCE")
    return np.random.default_rng(seed)
