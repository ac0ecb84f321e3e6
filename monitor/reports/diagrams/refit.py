"""What pictures of a refit show, as numbers: segments before and after, and local errors by how alike events are."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from monitor.arrays import Floats
from monitor.local import mlce_curve
from monitor.maps.labelled import LabelledEvents
from monitor.reports.diagrams.rows import on_cells
from monitor.reports.figures.cells import smce_result
from monitor.scores import ScoreTable

MAPS: Final = MappingProxyType({"none": "no map", "champion": "champion", "challenger": "new"})
"""What may be compared, in the order of pictures, and what it is called there."""


MAX_SEGMENTS: Final = 12
_WORST: Final = 8
_MAX_NAME: Final = 26


class SegmentRow(NamedTuple):
    """smCE of one segment under several maps.

    ``n`` counts its held-out events. ``before`` is with no map, ``after`` with the new one, ``champion`` with the one
    that serves. 95% of calibrated models that make the new map's predictions stay below ``chance``.
    """

    name: str
    n: int
    before: float
    after: float
    champion: float | None = None
    chance: float | None = None

    @property
    def rose(self) -> bool:
        """Whether the error is larger after, and more than chance."""
        return self.after > max(self.before, self.chance or 0.0)

    @property
    def short_name(self) -> str:
        """The name, cut where it is long."""
        return self.name if len(self.name) <= _MAX_NAME else f"{self.name[: _MAX_NAME - 1]}\N{HORIZONTAL ELLIPSIS}"


def segment_rows(
    held_out: LabelledEvents, observed: Mapping[str, tuple[Floats, Floats]], segments: Sequence[Mapping[str, Any]]
) -> list[SegmentRow]:
    """List the segments of a comparison, with the level of each under calibration."""
    rows = []
    p, y = observed["challenger"]
    for entry in segments:
        name = str(entry["segment"])
        key, _, value = name.partition("=")
        chance = None
        if key in held_out.segments:
            inside = held_out.segments[key] == value
            if inside.any():
                weight = None if held_out.is_whole else held_out.weight[inside]
                chance = smce_result(on_cells(ScoreTable.from_events(p[inside], y[inside], weight))).null_q95
        before, after = float(entry["none"]["smce"]), float(entry["challenger"]["smce"])
        champion = None if entry.get("champion") is None else float(entry["champion"]["smce"])
        rows.append(SegmentRow(name, int(entry["n"]), before, after, champion, chance))
    return rows


def worst_rows(rows: Sequence[SegmentRow]) -> list[SegmentRow]:
    """At most 12: the 8 that were worst before, then those that are worst after."""
    ordered = sorted(rows, key=lambda row: -row.before)
    kept = ordered[:_WORST]
    kept += sorted(ordered[_WORST:], key=lambda row: -row.after)[: MAX_SEGMENTS - len(kept)]
    return sorted(kept, key=lambda row: -row.before)


def map_labels(predictions: Mapping[str, Floats], methods: Mapping[str, str]) -> dict[str, str]:
    """Name each map as in the pictures, in their order."""
    return {
        name: f"{label}: {methods[name]}" if name in methods else label
        for name, label in MAPS.items()
        if name in predictions
    }


GAMMAS: Final[Sequence[float]] = tuple(0.05 * 2.0**k for k in range(9))
"""From neighbourhoods of a few events to whole bins, the paper's .2 and .4 among them."""

_MIN_SHARE: Final = 0.05
"""Of the points that have enough neighbours. The maximum over fewer says little of the rest."""


class GammaCurve(NamedTuple):
    """The maximum local calibration error of one map, gamma by gamma.

    Attributes
    ----------
    gamma
        float64, shape (g,), ascending.
    mlce
        float64, shape (g,); nan where too few points have enough neighbours.
    null_mean, null_q95
        float64, shape (g,): mean and 95% point of a calibrated model that makes the same predictions.
    """

    gamma: Floats
    mlce: Floats
    null_mean: Floats
    null_q95: Floats

    @property
    def excess(self) -> Floats:
        """How far the maximum lies above that of a calibrated model, on average, shape (g,)."""
        return self.mlce - self.null_mean


def gamma_curves(
    predictions: Mapping[str, ArrayLike],
    outcome: ArrayLike,
    phi: ArrayLike,
    weight: ArrayLike | None = None,
    *,
    gammas: Sequence[float] = GAMMAS,
    max_points: int = 2000,
    draws: int = 199,
    seed: int = 0,
) -> dict[str, GammaCurve]:
    """MLCE of each map at each gamma, with its level under calibration.

    Points, draws and seed are those of a refit's comparison, so that at its gamma both are the same numbers.

    Parameters
    ----------
    predictions, outcome, phi, weight, max_points, draws, seed
        See :func:`monitor.local.mlce_curve`.
    gammas
        Bandwidths, ascending.
    """
    calibrations = mlce_curve(
        predictions, outcome, phi, gammas, weight=weight, max_points=max_points, draws=draws, seed=seed
    )
    curves = {}
    for name, of_gammas in calibrations.items():
        values = np.full((3, len(gammas)), np.nan)
        for place, local in enumerate(of_gammas):
            if local is not None and local.level is not None and local.valid_share >= _MIN_SHARE:
                values[:, place] = local.mlce, local.level.mlce.mean, local.level.mlce.q95
        curves[name] = GammaCurve(np.asarray(gammas, np.float64), *values)
    return curves
