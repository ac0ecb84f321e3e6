"""The worst local error against the width of the neighbourhood, for several maps (the paper's Figures 3 and 5)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import LogLocator, NullLocator
from numpy.typing import ArrayLike, NDArray

from monitor.errors import NotEnoughData
from monitor.local import LocalCalibration, mlce_curve
from monitor.local.calibration import DEFAULT_GAMMA
from monitor.reports.figures.style import (
    BLUE,
    CHANCE,
    GREEN,
    GREY,
    INK,
    ORANGE,
    PINK,
    SKY,
    YELLOW,
    dress,
    frame,
    legend,
    new_figure,
    points_tick,
)
from monitor.reports.formatting import points

Floats = NDArray[np.float64]

GAMMAS: Final[Sequence[float]] = tuple(0.05 * 2.0**k for k in range(9))
"""From neighbourhoods of a few events to whole bins, the paper's .2 and .4 among them."""

HEIGHT: Final = 7.6
CAPTION: Final = (
    "How to read it: gamma says how alike predictions must be to count as neighbours; on the left only the most alike "
    "count, on the right all of about the same prediction do. The upper lines are the largest local errors (MLCE) less "
    "what a calibrated model shows on average; the lower lines are as measured. The grey fields are where chance puts "
    "95% of calibrated models (the widest of these maps'). A line begins where neighbourhoods are worth 50 events."
)
_STYLES: Final = ((YELLOW, "-"), (GREEN, "-"), (PINK, "-"), (SKY, "-"), (ORANGE, "-"), (GREEN, ":"), (PINK, ":"))
_MIN_SHARE: Final = 0.05
"""Of the points that have enough neighbours. The maximum over fewer says little of the rest."""


@dataclass(frozen=True, eq=False)
class GammaCurve:
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
    return {name: _curve(gammas, of_all) for name, of_all in calibrations.items()}


def _curve(gammas: Sequence[float], calibrations: Sequence[LocalCalibration | None]) -> GammaCurve:
    values = np.full((3, len(gammas)), np.nan)
    for place, local in enumerate(calibrations):
        if local is not None and local.level is not None and local.valid_share >= _MIN_SHARE:
            values[:, place] = local.mlce, local.level.mlce.mean, local.level.mlce.q95
    return GammaCurve(np.asarray(gammas, np.float64), *values)


def gamma_figure(curves: Mapping[str, GammaCurve]) -> Figure:
    """The largest local error of several maps against gamma: above chance, and as measured.

    Parameters
    ----------
    curves
        What each map is called -> its curve, all at the same gammas. The first is before, the last after.

    Raises
    ------
    NotEnoughData
        Nowhere are there enough neighbours.
    """
    known = np.asarray(np.isfinite([curve.mlce for curve in curves.values()]).all(axis=0))
    if not known.any():
        raise NotEnoughData("no width of the neighbourhood gives enough events of 50 neighbours: take more events")
    figure = new_figure(HEIGHT)
    grid = frame(
        figure,
        HEIGHT,
        _title(list(curves.values()), known),
        CAPTION,
        rows=(1.0, 1.0),
        gap=0.3,
        above=0.22 * -(-(len(curves) + 1) // _columns(curves)) + 0.05,
    )
    upper, lower = figure.add_subplot(grid[0, 0]), figure.add_subplot(grid[1, 0])
    x = next(iter(curves.values())).gamma
    handles: list[Artist] = []
    for axes, raw in ((upper, False), (lower, True)):
        dress(axes)
        axes.set_xscale("log")
        axes.set_xlim(x[known][0] / 1.08, x[-1] * 1.08)
        _draw_chance(axes, list(curves.values()), raw=raw)
        for place, (label, curve) in enumerate(curves.items()):
            color, style, width = _style(place, len(curves))
            axes.plot(x, curve.mlce if raw else curve.excess, color=color, ls=style, lw=width, marker="o", ms=3.0)
            if raw:
                handles.append(Line2D([], [], color=color, ls=style, lw=width, marker="o", ms=3.0, label=label))
        axes.yaxis.set_major_formatter(points_tick)
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.xaxis.set_minor_locator(NullLocator())
    upper.tick_params(axis="x", labelbottom=False)
    upper.axhline(0.0, color=GREY, lw=1.0)
    upper.set_ylabel("points above chance")
    lower.set_ylabel("points, as measured")
    lower.set_ylim(bottom=0.0)
    lower.set_xlabel(
        "most alike only    \N{LEFTWARDS ARROW}    gamma    \N{RIGHTWARDS ARROW}    all of about the same prediction"
    )
    handles.append(Patch(color=CHANCE, label="chance"))
    legend(upper, handles, columns=_columns(curves))
    return figure


def _columns(curves: Mapping[str, GammaCurve]) -> int:
    longest = max(map(len, curves))
    return 4 if longest <= 22 else 3 if longest <= 26 else 2


def _style(place: int, number: int) -> tuple[str, str | tuple[int, tuple[int, int]], float]:
    if place == 0:
        return INK, (0, (4, 2)), 1.8
    if place == number - 1:
        return BLUE, "-", 2.6
    color, style = _STYLES[(place - 1) % len(_STYLES)]
    return color, style, 1.5


def _draw_chance(axes: Axes, curves: Sequence[GammaCurve], *, raw: bool) -> None:
    high = np.max([curve.null_q95 - (0.0 if raw else curve.null_mean) for curve in curves], axis=0)
    axes.fill_between(curves[0].gamma, 0.0, high, color=CHANCE, lw=0.0)


def _title(curves: Sequence[GammaCurve], known: NDArray[np.bool_]) -> str:
    distance = np.where(known, np.abs(np.log(curves[0].gamma / DEFAULT_GAMMA)), np.inf)
    at = int(np.argmin(distance))
    before, after = (
        f"{points(float(curve.mlce[at]))} ({'beyond' if curve.mlce[at] > curve.null_q95[at] else 'within'} chance)"
        for curve in (curves[0], curves[-1])
    )
    return (
        f"Worst error among predictions that are alike (gamma {curves[0].gamma[at]:.2g}):\n"
        f"before {before}, after {after}"
    )
