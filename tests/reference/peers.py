"""What other packages compute, called as their users call them."""

import calibration
import numpy as np
import relplot.metrics
from model_diagnostics.scoring import LogLoss, SquaredError, decompose
from numpy.typing import NDArray
from sklearn.calibration import calibration_curve

Floats = NDArray[np.float64]


def ece_of_scikit_learn(p: Floats, y: Floats, n_bins: int = 10) -> float:
    """Bins of equal width."""
    positive, mean = calibration_curve(y, p, n_bins=n_bins, strategy="uniform")
    count = np.histogram(p, bins=n_bins, range=(0.0, 1.0))[0]
    return float((np.abs(positive - mean) * count[count > 0]).sum() / p.size)


def ece_of_relplot(p: Floats, y: Floats, n_bins: int = 10) -> float:
    """Bins of equal width; p = 1 would get a bin of its own."""
    return float(relplot.metrics.binnedECE(p, y, nbins=n_bins))


def ece_of_uncertainty_calibration(p: Floats, y: Floats, n_bins: int = 10) -> float:
    """Bins of equal width, closed on the right."""
    return float(calibration.get_ece(p, y.astype(np.int64), num_bins=n_bins, mode="marginal"))


def quantile_ece_of_uncertainty_calibration(p: Floats, y: Floats, n_bins: int = 10) -> float:
    """Bins of equal size."""
    return float(calibration.get_ece_em(p, y.astype(np.int64), num_bins=n_bins, mode="marginal"))


def kce_of_relplot(p: Floats, y: Floats, seed: int) -> float:
    """Ten drawn pairs for each event."""
    np.random.seed(seed)  # noqa: NPY002 - the generator that relplot draws from
    return float(relplot.metrics.laplace_calibration_approx(p, y))


def surrogate_intce_of_relplot(p: Floats, y: Floats, seed: int) -> float:
    """A hundred drawn shifts for each width."""
    np.random.seed(seed)  # noqa: NPY002 - the generator that relplot draws from
    return float(relplot.metrics.intCE_rand(p, y))


def smoothed_ece_of_relplot(p: Floats, y: Floats) -> float:
    """SmECE: a kernel-smoothed ECE, and another measure than smCE."""
    return float(relplot.smECE(p, y))


def decomposition_of_model_diagnostics(p: Floats, y: Floats, score: str) -> dict[str, float]:
    """Miscalibration, discrimination and uncertainty of the ``brier`` or ``log_loss`` score."""
    scoring = {"brier": SquaredError, "log_loss": LogLoss}[score]
    row = decompose(y, p, scoring_function=scoring()).to_dicts()[0]
    return {part: float(row[part]) for part in ("miscalibration", "discrimination", "uncertainty")}
