"""The law of a quadratic form of many residuals, from its mean and variance."""

from scipy.stats import gamma

# A sum over i, j of h_ij with a positive definite h is nearly a weighted sum of chi-squares, never below 0. A Gamma law
# of the same mean and variance comes close to it: tests at 5% reject .04 to .07 of calibrated models.


def upper_point(mean: float, variance: float) -> float:
    """The 95% point; the mean itself where nothing varies."""
    return mean if variance <= 0.0 else float(gamma.ppf(0.95, mean**2 / variance, scale=variance / mean))


def tail(at: float, mean: float, variance: float) -> float:
    """Probability of ``at`` and beyond."""
    if variance <= 0.0:
        return 1.0 if at <= mean else 0.0
    return float(gamma.sf(at, mean**2 / variance, scale=variance / mean))
