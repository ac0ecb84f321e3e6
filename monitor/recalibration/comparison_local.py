"""Local errors of a map's predictions, against chance."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from monitor.errors import NotEnoughData
from monitor.inference import NullLevel
from monitor.local import local_calibration_error
from monitor.local.calibration import DEFAULT_GAMMA
from monitor.recalibration.guard import LocalError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

DRAWS: Final = 199
"""Of a calibrated model with the same predictions."""

POINTS: Final = 2000
"""At how many events the error is looked at; their neighbours are all held-out events."""


@dataclass(frozen=True, slots=True)
class LocalFinding:
    """Local errors of one map.

    Attributes
    ----------
    document
        As the comparison shows them; None where they are not known.
    error
        What the guard looks at; None where they are not known.
    missing
        Why they are not known, in words.
    """

    document: Mapping[str, Any] | None = None
    error: LocalError | None = None
    missing: str | None = None


def local_finding(
    prediction: Floats, outcome: Ints, weight: Floats | None, phi: Floats | None, *, seed: int
) -> LocalFinding:
    """Local errors of predictions, (n,) or (n, K), at coordinates (n, d); weights (n,), None where no event has one."""
    if phi is None:
        return LocalFinding(missing="these events have no features")
    try:
        found = local_calibration_error(
            prediction, outcome, phi, weight=weight, max_points=POINTS, draws=DRAWS, seed=seed
        )
    except NotEnoughData as error:
        return LocalFinding(missing=str(error))
    level = found.level
    if level is None:
        raise AssertionError("a level was asked for")
    document = {
        "mlce": _measure(found.mlce, level.mlce),
        "mean_lce": _measure(found.mean_lce, level.mean_lce),
        "gamma": DEFAULT_GAMMA,
        "dimensions": int(phi.shape[1]),
        "n": int(phi.shape[0]),
        "points": int(found.points.size),
        "valid_share": found.valid_share,
    }
    return LocalFinding(document, LocalError(found.mlce - level.mlce.mean, float(level.mlce.law.std())))


def _measure(value: float, level: NullLevel) -> dict[str, float]:
    return {
        "value": value,
        "null_mean": level.mean,
        "null_q95": level.q95,
        "p_value": level.p_value,
        "excess": value - level.mean,
    }
