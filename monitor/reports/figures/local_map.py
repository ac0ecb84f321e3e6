"""Where among the features predictions are too high, and where too low."""

from typing import Final

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter
from numpy.typing import NDArray

from monitor.errors import NotEnoughData
from monitor.local import LocalMap
from monitor.local.calibration import LEAST_NEIGHBOURS
from monitor.reports.figures.style import GREY, HAPPENED, PREDICTED, SMALL_SIZE, TEXT_SIZE, dress, frame, new_figure
from monitor.reports.figures.words import count, points

Floats = NDArray[np.float64]

HEIGHT: Final = 7.2
CAPTION: Final = (
    "How to read it: predictions that are alike lie close together. Where it is blue they say too much, where it is "
    "orange too little; the paler a place, the fewer events are near, and white places have too few to say anything."
)
CROSS: Final = " The cross marks the worst of the places that are off by more than chance."
DRAWN: Final = (
    " Drawn is the mean of prediction less outcome of all events near, whatever was predicted for them. The local "
    "calibration error of the report compares only predictions of about the same size, in a wider surrounding, so its "
    "worst place may be another one, and of the other sign."
)
COLORS: Final = LinearSegmentedColormap.from_list("direction", [HAPPENED, "#F4F4F4", PREDICTED])
"""From too low to too high."""
QUIET_COLORS: Final = LinearSegmentedColormap.from_list("quiet", ["#D2C4BA", "#F4F4F4", "#BAC5CE"])
"""The same where it is no more than chance."""

_EVIDENT: Final = 0.05
"""A p-value up to this is called more than chance, as in the report's sentence."""
_CLEAR: Final = 4.0
"""Standard errors by which one of so many places must be off to be spoken of."""


def local_map_figure(
    local: LocalMap, x_name: str, y_name: str, *, p_value: float | None = None, variance: float = 0.25
) -> Figure:
    """Local errors over a plane of two features.

    Parameters
    ----------
    local
        What :func:`monitor.local.local_error_map` finds.
    x_name, y_name
        What the two coordinates are called.
    p_value
        Of the local calibration error, as the report on the same events has it; None where it was not asked for.
        Above .05 no place is accused.
    variance
        Mean of p (1 - p) of the events: how much chance there is in a place. That of predictions of .5, the most there
        is, if left out.

    Raises
    ------
    NotEnoughData
        Nowhere are there enough events to say anything.
    """
    enough = (local.n_eff >= LEAST_NEIGHBOURS) & np.isfinite(local.error)
    if not enough.any():
        raise NotEnoughData(
            f"a map needs places with {LEAST_NEIGHBOURS:g} events near, the most are {np.nanmax(local.n_eff):.0f}: "
            "use a larger gamma"
        )
    with np.errstate(divide="ignore", invalid="ignore"):
        clear = enough & (np.abs(local.error) > _CLEAR * np.sqrt(variance / local.n_eff))
    accused = bool(clear.any()) and (p_value is None or p_value <= _EVIDENT)
    size = np.where(clear if accused else enough, np.abs(local.error), -1.0)
    i, j = (int(each) for each in np.unravel_index(int(np.argmax(size)), size.shape))
    worst = float(local.error[i, j])
    if accused:
        title = (
            f"Worst near {x_name} = {local.x[j]:.2g}, {y_name} = {local.y[i]:.2g}:\n"
            f"predictions are {points(worst)} too {'high' if worst > 0.0 else 'low'} there"
        )
    elif p_value is not None and p_value > _EVIDENT:
        title = f"No place is worse than chance\n(local calibration error: p = {p_value:.2g})"
    else:
        title = (
            "No place of this plane stands out from chance:\n"
            f"the worst is {points(worst)} off, with {count(round(local.n_eff[i, j]))} events near"
        )
    figure = new_figure(HEIGHT)
    caption = CAPTION + (CROSS if accused else "") + DRAWN
    grid = frame(figure, HEIGHT, title, caption, columns=(1.0, 0.035), gap=0.18, right=0.85)
    axes = figure.add_subplot(grid[0, 0])
    dress(axes, grid="")
    reach = max(float(np.abs(local.error[enough]).max()), 0.01)
    shades = ScalarMappable(Normalize(-reach, reach), COLORS if accused else QUIET_COLORS)
    picture = shaded(shades, local.error, local.n_eff)
    half_x, half_y = 0.5 * (local.x[1] - local.x[0]), 0.5 * (local.y[1] - local.y[0])
    axes.imshow(
        picture,
        origin="lower",
        aspect="auto",
        interpolation="nearest",
        extent=(local.x[0] - half_x, local.x[-1] + half_x, local.y[0] - half_y, local.y[-1] + half_y),
    )
    if accused:
        axes.plot(local.x[j], local.y[i], marker="x", ms=11.0, mew=2.2, color="black")
    axes.set_xlabel(x_name)
    axes.set_ylabel(y_name)
    bar = figure.colorbar(shades, cax=figure.add_subplot(grid[0, 1]))
    bar.set_label("too low          points          too high", size=TEXT_SIZE)
    bar.ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100.0 * abs(value):.3g}"))
    bar.ax.tick_params(labelsize=SMALL_SIZE, color=GREY)
    bar.outline.set_visible(False)
    return figure


def shaded(shades: ScalarMappable, error: Floats, n_eff: Floats) -> Floats:
    """Errors as colours, the paler the fewer events are near; (rows, columns) -> (rows, columns, 4)."""
    picture = np.asarray(shades.to_rgba(np.nan_to_num(error)), np.float64)
    picture[..., 3] = np.clip(np.nan_to_num(n_eff) / LEAST_NEIGHBOURS, 0.0, 1.0) ** 2
    return picture
