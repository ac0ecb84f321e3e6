"""Local calibration errors against the width of the neighbourhood (the paper's Figures 3 and 5)."""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import xxhash
from numpy.typing import ArrayLike, NDArray

from monitor.errors import InputError
from monitor.local.calibration import LEAST_NEIGHBOURS, MAX_POINTS, LocalCalibration, MeasureOptions, measure_local
from monitor.local.features import feature_table
from monitor.local.neighbourhood import laplace_kernels

Floats = NDArray[np.float64]

GAMMAS: Final = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
"""From neighbourhoods of few events to nearly whole bins; the paper's .2 and .4 among them."""


def mlce_curve(
    predictions: Mapping[str, ArrayLike],
    outcome: ArrayLike,
    phi: ArrayLike,
    gammas: Sequence[float] = GAMMAS,
    *,
    weight: ArrayLike | None = None,
    bins: int | None = None,
    least_neighbours: float = LEAST_NEIGHBOURS,
    max_points: int | None = MAX_POINTS,
    draws: int = 0,
    seed: int | None = None,
) -> dict[str, list[LocalCalibration | None]]:
    """Local calibration of several predictions of the same events, each at several bandwidths.

    All are evaluated at the same points. The bandwidths of one prediction share distances and draws. Two predictions
    share no distances, because each has bins of its own: to compute those of all pairs of events would take longer.

    Parameters
    ----------
    predictions
        By name, as before and after recalibration: each as in
        :func:`~monitor.local.calibration.local_calibration_error`.
    outcome, phi, weight, bins, least_neighbours, max_points, draws, seed
        As there. The seed, if left out, is made of outcomes and coordinates.
    gammas
        Bandwidths, above 0; may be infinite.

    Returns
    -------
    By name one :class:`~monitor.local.calibration.LocalCalibration` a gamma, in their order; None where no point has
    enough neighbours.

    Raises
    ------
    NotEnoughData
        There are no events.
    InputError
        Values are out of range, shapes do not fit, or an option is wrong.
    """
    for gamma in gammas:
        if not gamma > 0.0:
            raise InputError(f"gammas must be above 0, got {gamma}")
    points = feature_table(phi)
    if seed is None:
        seed = xxhash.xxh3_64_intdigest(np.asarray(outcome, "<f8").tobytes() + points.astype("<f8").tobytes())
    options = MeasureOptions(weight, bins, least_neighbours, max_points, draws, seed)
    kernels = laplace_kernels(list(gammas))
    return {
        name: [
            found if found.valid.any() else None
            for found in measure_local(prediction, outcome, points, kernels, options)
        ]
        for name, prediction in predictions.items()
    }
