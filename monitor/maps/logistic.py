"""Logistic regression of the outcomes, over few columns, in a box: the fit of Platt's map, of beta maps and others."""

import numpy as np
from numpy.typing import NDArray

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
    rows = np.ascontiguousarray(columns.T)
    share = weight / weight.sum()
    other = 1.0 - target

    def about(theta: Floats) -> Curved:
        eta = theta @ rows
        odds = np.exp(-np.abs(eta))
        likely = 1.0 / (1.0 + odds)
        unlikely = odds * likely
        q, rest = np.where(eta > 0.0, likely, unlikely), np.where(eta > 0.0, unlikely, likely)
        # Loss and q - t without the loss of digits near 0 and 1: where predictions part the outcomes both go to 0.
        loss = np.log1p(odds) - target * np.minimum(eta, 0.0) - other * np.minimum(-eta, 0.0)
        return Curved(
            value=float(share @ loss),
            gradient=rows @ (share * (other * q - target * rest)),
            hessian=(rows * (share * q * rest)) @ rows.T,
        )

    return minimise(about, start, lower, upper)
