"""Local errors over a plane: of two features of a report, or of the first two directions of a refit's features."""

import math
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from monitor.arrays import Floats
from monitor.errors import NotEnoughData
from monitor.local import LocalMap, Standardised
from monitor.local.calibration import MIN_NEIGHBOURS
from monitor.local.landscape import DEFAULT_GAMMA
from monitor.local.neighbourhood import averages, laplace_kernels
from monitor.reports.formatting import count, points

_EVIDENT: Final = 0.05
"""A p-value up to this is called more than chance, as in the report's sentence."""
_CLEAR: Final = 4.0
"""Standard errors by which one of so many places must be off to be spoken of."""
_SIZE: Final = 40
_MARGIN: Final = 0.005
"""Share of the events beyond each side of the picture: a few outliers would shrink all others to a spot."""


def map_document(
    local: LocalMap, x_name: str, y_name: str, *, p_value: float | None = None, variance: float = 0.25
) -> dict[str, Any]:
    """The figure of local errors over two features, and what it shows.

    Parameters
    ----------
    local
        What :func:`monitor.local.local_error_map` finds.
    x_name, y_name
        What the two coordinates are called.
    p_value
        Of the local calibration error, as the report on the same events has it; None where it was not measured.
        Above .05 no place is accused.
    variance
        Mean of p (1 - p) of the events: how much chance there is in a place. That of predictions of .5, the most there
        is, if left out.

    Raises
    ------
    NotEnoughData
        Nowhere are there enough events to say anything.
    """
    enough = (local.n_eff >= MIN_NEIGHBOURS) & np.isfinite(local.error)
    if not enough.any():
        raise NotEnoughData(
            f"a map needs places with {MIN_NEIGHBOURS:g} events near, the most are {np.nanmax(local.n_eff):.0f}: "
            "use a larger gamma"
        )
    with np.errstate(divide="ignore", invalid="ignore"):
        clear = enough & (np.abs(local.error) > _CLEAR * np.sqrt(variance / local.n_eff))
    accused = bool(clear.any()) and (p_value is None or p_value <= _EVIDENT)
    size = np.where(clear if accused else enough, np.abs(local.error), -1.0)
    i, j = np.unravel_index(int(np.argmax(size)), size.shape)
    worst = float(local.error[i, j])
    if accused:
        shown = (
            f"Worst near {x_name} = {local.x[j]:.2g}, {y_name} = {local.y[i]:.2g}: "
            f"predictions are {points(worst)} too {'high' if worst > 0.0 else 'low'} there."
        )
    elif p_value is not None and p_value > _EVIDENT:
        shown = f"No place is worse than chance (local calibration error: p = {p_value:.2g})."
    else:
        shown = (
            "No place of this plane stands out from chance: "
            f"the worst is {points(worst)} off, with {count(round(local.n_eff[i, j]))} events near."
        )
    reach = float(np.abs(local.error[enough]).max())
    ends = ((name, axis[0], axis[-1]) for name, axis in ((x_name, local.x), (y_name, local.y)))
    return _document([*ends], local.n_eff, {"": local.error}, reach) | {"shown": shown, "quiet": not accused}


def _document(
    axes: list[tuple[str, float, float]], n_eff: Floats, errors: Mapping[str, Floats], reach: float
) -> dict[str, Any]:
    x, y = ({"name": name, "from": float(first), "to": float(last)} for name, first, last in axes)
    return {
        "kind": "plane",
        "x": x,
        "y": y,
        "near": np.rint(np.nan_to_num(n_eff)).astype(np.int64).ravel().tolist(),
        "enough": MIN_NEIGHBOURS,
        "reach": round(100.0 * max(reach, 0.01), 1),
        "maps": [
            {
                "name": name,
                "points": [round(100.0 * v, 1) if math.isfinite(v) else None for v in error.ravel().tolist()],
            }
            for name, error in errors.items()
        ],
    }


def plane_document(
    predictions: Mapping[str, Floats],
    outcome: Mapping[str, Floats],
    plane: Floats,
    weight: Floats | None = None,
    *,
    gamma: float = DEFAULT_GAMMA,
) -> dict[str, Any]:
    """The figure of the local errors of several maps over a plane of the features, on one scale of colours.

    Parameters
    ----------
    predictions
        What each map is called -> P(Y = 1) or confidence, shape (n,). The first is what was before.
    outcome
        The same -> shape (n,): 0 or 1; of many classes whether the class of the largest probability came true.
    plane
        Shape (n, 2): coordinates.
    weight
        Shape (n,): how many events of the stream each stands for; 1 if left out.
    gamma
        Bandwidth, in standard deviations of the coordinates.

    Raises
    ------
    NotEnoughData
        Nowhere are there enough events to say anything.
    """
    residual = np.stack([prediction - outcome[name] for name, prediction in predictions.items()], axis=1)
    where = Standardised.fit(plane).apply(plane)
    weights = np.ones(plane.shape[0]) if weight is None else weight
    ends = np.quantile(where, [_MARGIN, 1.0 - _MARGIN], axis=0)
    # A coordinate that is the same for all is drawn as a strip of one standard deviation.
    ends += np.where(ends[1] - ends[0] > 1e-9, 0.0, 0.5) * np.array([[-1.0], [1.0]])
    x, y = np.linspace(ends[0], ends[1], _SIZE, axis=1)
    corners = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    # An event of weight 2 counts as two.
    columns = np.column_stack([residual * weights[:, None], weights])
    (means,), (n_eff,) = averages(laplace_kernels([gamma]), corners, where, lambda rows: columns[rows])
    errors = means[:, :-1] / means[:, -1:]
    enough = n_eff >= MIN_NEIGHBOURS
    if not enough.any():
        raise NotEnoughData(f"a map needs places with {MIN_NEIGHBOURS:g} events near, the most are {n_eff.max():.0f}")
    reach = float(np.abs(errors[enough]).max())
    axes = [("first direction of the features", *x[[0, -1]]), ("second", *y[[0, -1]])]
    return _document(axes, n_eff, dict(zip(predictions, errors.T, strict=True)), reach)
