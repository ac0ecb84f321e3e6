"""Where in the plane of two features predictions are too high, and where too low."""

from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from monitor.errors import NotEnoughData
from monitor.local import LocalMap, Standardised, local_error_map

MOST_EVENTS: Final = 40_000
"""Of more, so many are taken by lot: the map shows no difference, and the whole of a million would take a minute."""


def plane_of(
    prediction: NDArray[np.float64], outcome: NDArray[np.float64], plane: NDArray[np.float64], *, seed: int
) -> LocalMap:
    """Local errors over the plane of two features, in the features' own units.

    Parameters
    ----------
    prediction
        P(y = 1), shape (n,); or the probabilities of K classes, shape (n, K).
    outcome
        Shape (n,): 0 or 1, or the class that came true; nan where it is not known.
    plane
        The two features, shape (n, 2).
    seed
        Of the lot.

    Raises
    ------
    NotEnoughData
        No outcome is known, or a feature hardly varies.
    """
    rows = np.flatnonzero(~np.isnan(outcome))
    if rows.size > MOST_EVENTS:
        rows = np.sort(np.random.default_rng(seed).choice(rows, MOST_EVENTS, replace=False))
    fitted = Standardised.fit(plane[rows])
    found = local_error_map(prediction[rows], outcome[rows], fitted.apply(plane[rows]))
    if found.x[0] == found.x[-1] or found.y[0] == found.y[-1]:
        raise NotEnoughData("a map needs two features that vary")
    x, y = (axis * fitted.scale[k] + fitted.mean[k] for k, axis in enumerate((found.x, found.y)))
    return replace(found, x=x, y=y)
