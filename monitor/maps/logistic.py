"""Logistic regression of the outcomes, over few columns, in a box: the fit of Platt's map, of beta maps and others."""

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit

from monitor.maps.newton import Curved, minimise

Floats = NDArray[np.float64]


def fit_logistic(
    columns: Floats, target: Floats, weight: Floats, *, start: Floats, lower: Floats, upper: Floats
) -> Floats:
    r"""Coefficients of the least mean log loss.

    .. math:: -\frac{1}{\sum w} \sum_i w_i \big[ t_i \log \sigma(\eta_i) + (1 - t_i) \log \sigma(-\eta_i) \big],
              \qquad \eta = X \theta

    Parameters
    ----------
    columns
        X, float64, shape (n, d).
    target
        t, float64, shape (n,), in [0, 1]: the outcomes, or smoothed ones.
    weight
        float64, shape (n,), above 0.
    start, lower, upper
        float64, shape (d,): where the search starts, and its bounds.

    Returns
    -------
    float64, shape (d,)
    """
    share = weight / weight.sum()

    def about(theta: Floats) -> Curved:
        eta = columns @ theta
        q, rest = expit(eta), expit(-eta)
        return Curved(
            value=-float(share @ (target * log_expit(eta) + (1.0 - target) * log_expit(-eta))),
            # q - t, without the loss of digits near 1: where predictions part the outcomes it goes to 0.
            gradient=columns.T @ (share * ((1.0 - target) * q - target * rest)),
            hessian=(columns.T * (share * q * rest)) @ columns,
        )

    return minimise(about, start, lower, upper)
