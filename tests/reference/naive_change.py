"""The statistic of a change of calibration, one place after the other."""

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit, log_expit

Floats = NDArray[np.float64]


def naive_statistics(p: Floats, y: Floats, weight: Floats, bends: Floats) -> Floats:
    """S_k' V_k^-1 S_k of the scores of all events before each event, shape (n,); 0 for the first.

    The fit is linear in the logit but for its bends.
    """
    z = np.log(p / (1.0 - p))
    z = np.clip(z, *np.quantile(z, [0.01, 0.99]))
    x = np.stack([np.ones(z.size), z], axis=1)

    columns = np.column_stack([x, *(np.maximum(z - bend, 0.0) for bend in bends)])

    def loss(b: Floats) -> float:
        eta = columns @ b
        return -float(weight @ (y * log_expit(eta) + (1.0 - y) * log_expit(-eta)))

    start = [0.0, 1.0, *(0.0 for _ in bends)]
    q = expit(columns @ minimize(loss, start, method="BFGS", options={"gtol": 1e-9}).x)
    score = (weight * (y - q))[:, None] * x
    found = np.zeros(z.size)
    total = sum(weight[i] * q[i] * (1.0 - q[i]) * np.outer(x[i], x[i]) for i in range(z.size))
    for k in range(10, z.size - 10):
        before = (weight[:k] * q[:k] * (1.0 - q[:k])) * x[:k].T @ x[:k]
        part = before @ np.linalg.inv(total)
        variance = np.zeros((2, 2))
        for i in range(z.size):
            # What event i adds to the sum up to k, once the fit took its part off.
            effect = (float(i < k) * np.eye(2) - part) @ (weight[i] * x[i])
            variance += q[i] * (1.0 - q[i]) * np.outer(effect, effect)
        walk = score[:k].sum(axis=0)
        found[k] = walk @ np.linalg.solve(variance, walk)
    return found
