"""Fitted maps of each kind: of predictions alone, of classes, of groups."""

import numpy as np

from monitor.maps import METHODS, RecalibrationMap, fit_map
from monitor.scores.labelled import LabelledEvents


def overconfident(n: int = 4000, seed: int = 5) -> LabelledEvents:
    """Predictions that are too sure of themselves, in two regions, with two features."""
    draw = np.random.default_rng(seed)
    logit = draw.normal(0.0, 1.0, n)
    region = draw.choice(["eu", "us"], n)
    y = draw.random(n) < 1.0 / (1.0 + np.exp(-logit - np.where(region == "eu", 0.5, -0.5)))
    return LabelledEvents.of(
        1.0 / (1.0 + np.exp(-1.8 * logit)),
        y.astype(int),
        features=draw.normal(0.0, 1.0, (n, 2)).astype(np.float32),
        segments={"region": region},
    )


def fitted(method: str, **options: object) -> RecalibrationMap:
    """A map of this method, fitted on :func:`overconfident` predictions."""
    return fit_map(METHODS[method], overconfident(), options)


def of_classes() -> RecalibrationMap:
    """Temperature scaling of three classes."""
    draw = np.random.default_rng(6)
    p = draw.dirichlet([0.4, 0.4, 0.4], 2000)
    y = (p.cumsum(axis=1) < draw.random((2000, 1))).sum(axis=1)
    return fit_map(METHODS["temperature"], LabelledEvents.of(p, np.minimum(y, 2)))
