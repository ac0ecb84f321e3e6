"""Local errors over a plane of two features."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from monitor.arrays import Floats
from monitor.errors import InputError, NotEnoughData
from monitor.local.calibration import confidence_and_hit
from monitor.local.neighbourhood import averages, laplace_kernels
from monitor.scores.arguments import require_whole
from monitor.scores.labelled import feature_table

DEFAULT_GAMMA: Final = 0.2
"""Width of the kernel in two dimensions (paper, section 3.2)."""

_MARGIN: Final = 0.005
"""Share of the events outside each edge of the grid, because a few outliers would squeeze all other events together."""


@dataclass(frozen=True, eq=False)
class LocalMap:
    """Local errors on a grid of points.

    Attributes
    ----------
    x, y
        float64, shape (size,): the grid's first and second coordinate.
    error
        float64, shape (size, size), ``error[i, j]`` at (x[j], y[i]): mean of prediction - outcome in the neighbourhood;
        above 0 where predictions are too high; nan where no event is near.
    n_eff
        float64, shape (size, size): effective number of events in the neighbourhood; where it is small, the error is
        mostly chance.
    """

    x: Floats
    y: Floats
    error: Floats
    n_eff: Floats


def local_error_map(
    prediction: ArrayLike,
    outcome: ArrayLike,
    plane: ArrayLike,
    *,
    gamma: float = DEFAULT_GAMMA,
    size: int = 60,
) -> LocalMap:
    """Compute local errors on a grid over a plane, for a figure.

    Parameters
    ----------
    prediction, outcome
        See :func:`~monitor.local.calibration.local_calibration_error`.
    plane
        Shape (n, 2): the events' coordinates. The grid spans the .5% to the 99.5% point of each.
    gamma
        Bandwidth, above 0, in the coordinates' unit: standardise them.
    size
        Points along each side, at least 2.

    Raises
    ------
    NotEnoughData
        There is no prediction.
    InputError
        Values are out of range, shapes do not fit, or an option is wrong.

    Notes
    -----
    Source: "Local Calibration: Metrics and Recalibration", Figure 2, which shows absolute errors.
    """
    p, y = confidence_and_hit(prediction, outcome)
    points = feature_table(plane)
    if points.shape != (p.size, 2):
        raise InputError(f"plane must have the shape ({p.size}, 2), got {points.shape}")
    if not gamma > 0.0:
        raise InputError(f"gamma must be above 0, got {gamma}")
    require_whole("size", size, 2)
    if p.size == 0:
        raise NotEnoughData("a map needs at least 1 event, got 0")
    residual = (p - y)[:, None]
    low, high = np.quantile(points, [_MARGIN, 1.0 - _MARGIN], axis=0)
    x_axis, y_axis = np.linspace(low, high, size, axis=1)
    grid = np.stack(np.meshgrid(x_axis, y_axis), axis=-1).reshape(-1, 2)
    error, n_eff = averages(laplace_kernels([gamma]), grid, points, lambda rows: residual[rows])
    return LocalMap(x_axis, y_axis, error.reshape(size, size), n_eff.reshape(size, size))
