"""Samples of labelled events with a known truth, for tests of refits."""

import numpy as np
from scipy.special import expit

from monitor.scores.labelled import LabelledEvents

START_MS = 1_700_000_000_000


def sample(
    n: int,
    *,
    seed: int = 1,
    slope: float = 1.5,
    dimensions: int | None = 3,
    weighted: bool = False,
    classes: int = 2,
    local: float = 0.0,
) -> LabelledEvents:
    """Predictions whose logits are ``slope`` times the true ones, off by +-``local`` by the second feature's sign."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, dimensions or 1))
    sign = np.where(x[:, -1] > 0.0, 1.0, -1.0)
    if classes == 2:
        true = 1.2 * x[:, 0]
        p = expit(slope * true + local * sign)
        y = (rng.random(n) < expit(true)).astype(np.int64)
    else:
        true = rng.normal(size=(n, classes))
        q = np.exp(true) / np.exp(true).sum(axis=1, keepdims=True)
        p = np.exp(slope * true) / np.exp(slope * true).sum(axis=1, keepdims=True)
        y = (q.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    return LabelledEvents.of(
        p,
        y,
        weight=rng.exponential(1.0, n) + 0.1 if weighted else None,
        time_ms=START_MS + np.arange(n) * 1000,
        features=None if dimensions is None else x,
        segments={"half": np.where(sign > 0.0, "upper", "lower"), "rare": np.where(np.arange(n) % 100, "", "yes")},
    )
