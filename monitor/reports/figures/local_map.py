"""Where among the features predictions are too high or too low, of one model or before and after recalibration."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec
from matplotlib.lines import Line2D

from monitor.arrays import Floats
from monitor.local.calibration import MIN_NEIGHBOURS, default_bins
from monitor.local.landscape import DEFAULT_GAMMA
from monitor.reports.diagrams.plane import Errors, Events, local_errors, plane_errors
from monitor.reports.figures.style import (
    BLUE,
    GREY,
    HAPPENED,
    INK,
    PREDICTED,
    SMALL_SIZE,
    YELLOW,
    framed,
    legend,
    name_panel,
    panel,
    points_tick,
    size_tick,
)
from monitor.reports.formatting import percent, points

COLORS: Final = LinearSegmentedColormap.from_list("direction", [HAPPENED, "#F4F4F4", PREDICTED])
"""From too low to too high."""
_PLANE_HEIGHTS: Final = {2: 8.2, 3: 7.6}
_PLANE_CAPTION: Final = (
    "How to read it: each point of a map is a kind of event; events that are alike lie close together. Blue: "
    "predictions say too much there; orange: too little; white: fewer than 50 events near. Below, how many of the "
    "events of one range of predictions are off by how much among those like them: where the dotted line, their common "
    "error before, lies far left of the dashed curve, errors of both directions hid each other."
)
_MAX_POINTS: Final = 600
"""Of one range of predictions at which the error is evaluated."""
_MIN_OF_BIN: Final = 100
_SHARES: Final = 101


def _draw_map(
    axes: Axes, shades: ScalarMappable, error: Floats, n_eff: Floats, extent: tuple[float, float, float, float]
) -> None:
    """Draw errors as colours, the paler the fewer events are near."""
    picture = np.asarray(shades.to_rgba(np.nan_to_num(error)), np.float64)
    picture[..., 3] = np.clip(np.nan_to_num(n_eff) / MIN_NEIGHBOURS, 0.0, 1.0) ** 2
    axes.imshow(picture, origin="lower", aspect="auto", interpolation="nearest", extent=extent)


def _draw_scale(figure: Figure, axes: Axes, shades: ScalarMappable, label: str, size: float) -> None:
    bar = figure.colorbar(shades, cax=axes)
    bar.set_label(label, size=size)
    bar.ax.yaxis.set_major_formatter(size_tick)
    bar.ax.tick_params(labelsize=SMALL_SIZE, color=GREY)
    bar.outline.set_visible(False)


def plane_figure(
    predictions: Mapping[str, Floats],
    outcome: Mapping[str, Floats],
    plane: Floats,
    weight: Floats | None = None,
    *,
    gamma: float = DEFAULT_GAMMA,
) -> Figure:
    """Signed local errors over a plane of the features, one map beside the other, on one scale of colours.

    Below, how the local errors spread in the best and in the worst bin of the first map's predictions, for all maps
    over the same events.

    Parameters are those of :func:`~monitor.reports.diagrams.plane.plane_errors`.

    Raises
    ------
    NotEnoughData
        Nowhere are there enough events to say anything.

    Notes
    -----
    The paper's figure shows absolute errors of one model; here they have a sign, because "too high" and "too low" ask
    for opposite remedies.
    """
    labels = list(predictions)
    events, x, y, errors = plane_errors(predictions, outcome, plane, weight, gamma=gamma)
    worst = np.abs(errors.error[errors.enough]).max(axis=0)
    figure, grid = framed(
        _PLANE_HEIGHTS.get(len(labels), 7.6),
        _plane_title(float(worst[0]), float(worst[-1])),
        _PLANE_CAPTION,
        rows=(1.45, 1.0),
        gap=1.15 if len(labels) < 3 else 1.35,
        above=0.3,
        right=0.85,
    )
    maps = grid[0].subgridspec(1, len(labels) + 1, width_ratios=(*[1.0] * len(labels), 0.05), wspace=0.12)
    reach, n_eff = max(worst.max(), 0.01), errors.n_eff.reshape(x.size, x.size)
    shades = ScalarMappable(Normalize(-reach, reach), COLORS)
    for column, label in enumerate(labels):
        axes = panel(figure, maps[column], grid="")
        error = errors.error[:, column].reshape(x.size, x.size)
        _draw_map(axes, shades, error, n_eff, (x[0], x[-1], y[0], y[-1]))
        name_panel(axes, label, f"at worst {points(float(worst[column]))} off")
        axes.set_xlabel("first direction of the features" if column == 0 else "")
        if column == 0:
            axes.set_ylabel("second")
        else:
            axes.tick_params(axis="y", labelleft=False)
    _draw_scale(figure, figure.add_subplot(maps[len(labels)]), shades, "too low     points     too high", SMALL_SIZE)
    _draw_bins(figure, grid, labels, events, gamma)
    return figure


def _near(at: Floats, events: Events, gamma: float) -> Errors:
    """Compute errors with the narrowest neighbourhood that holds enough events at half of the points.

    Of a single range of predictions there are few events; what is enough for the maps is not for it.
    """
    for wider in (1.0, 2.0, 4.0):
        errors = local_errors(at, events, wider * gamma)
        if 2 * errors.enough.sum() >= errors.enough.size:
            break
    return errors


def _draw_bins(figure: Figure, grid: GridSpec, labels: Sequence[str], events: Events, gamma: float) -> None:
    """Draw how the local errors spread in the bin that is best on average, and in the worst."""
    bins = default_bins(events.confidence.size)
    place = np.searchsorted(np.arange(1, bins) / bins, events.confidence, side="right")
    counts = np.bincount(place, minlength=bins)
    usable = np.flatnonzero(counts >= _MIN_OF_BIN) if (counts >= _MIN_OF_BIN).any() else [int(np.argmax(counts))]
    before = events.residual[:, 0]
    mean = {int(b): float(np.average(before[place == b], weights=events.weight[place == b])) for b in usable}
    best, worst = min(mean, key=lambda b: abs(mean[b])), max(mean, key=lambda b: abs(mean[b]))
    shown = {best: "best on average", worst: "worst on average"} if best != worst else {best: "all in one range"}
    lines = dict(zip(labels, (_line(number, len(labels)) for number in range(len(labels))), strict=True))
    panels = grid[1].subgridspec(1, len(shown), wspace=0.12)
    rng = np.random.default_rng(0)
    drawn: list[Axes] = []
    for column, (b, remark) in enumerate(shown.items()):
        inside = events.select(np.flatnonzero(place == b))
        points_at = inside.where
        if len(points_at) > _MAX_POINTS:
            points_at = points_at[np.sort(rng.choice(len(points_at), _MAX_POINTS, replace=False))]
        errors = _near(points_at, inside, gamma)
        axes = panel(figure, panels[column], grid="both")
        drawn.append(axes)
        axes.plot([abs(mean[b])] * 2, [0.0, 1.0], color=INK, ls=":", lw=1.6)
        share = np.linspace(0.0, 1.0, _SHARES)
        for number, line in enumerate(lines.values()):
            size = np.abs(errors.error[errors.enough, number])
            if size.size:
                axes.plot(np.quantile(size, share), share, **line)
        if not errors.enough.any():
            reason = "too few events\nfor any to be alike"
            axes.text(0.5, 0.5, reason, transform=axes.transAxes, ha="center", va="center", size=SMALL_SIZE, color=GREY)
        first, last = percent(b / bins), percent((b + 1) / bins)
        name_panel(axes, f"Predictions of {first} to {last}", f"{remark}: {points(mean[b])} off")
        axes.set_xlabel("off by, among those alike")
        axes.set_ylim(0.0, 1.02)
        axes.yaxis.set_major_formatter(lambda value, _: f"{100.0 * value:.0f}%")
        axes.xaxis.set_major_formatter(points_tick)
        if column:
            axes.tick_params(axis="y", labelleft=False)
        else:
            axes.set_ylabel("share of them")
    reach = max(axes.get_xlim()[1] for axes in drawn)
    for axes in drawn:
        axes.set_xlim(0.0, reach)
    handles = [Line2D([], [], label=label, **line) for label, line in lines.items()]
    handles.append(Line2D([], [], color=INK, ls=":", lw=1.6, label="all together, before"))
    # Of three maps with the names of their methods one row may be wider than the figure.
    legend(drawn[0], *handles, columns=len(handles) if len(labels) < 3 else 2, above=0.38)


def _line(number: int, of: int) -> dict[str, Any]:
    if number == 0:
        return {"color": INK, "ls": "--", "lw": 1.8}
    return {"color": BLUE, "ls": "-", "lw": 2.4} if number == of - 1 else {"color": YELLOW, "ls": "-", "lw": 1.8}


def _plane_title(before: float, after: float) -> str:
    if after < before:
        return (
            f"Before, predictions that are alike were up to {points(before)} off;\n"
            f"after, up to {points(after)} (some of it by chance)"
        )
    return (
        f"Predictions that are alike are not better than before:\n"
        f"up to {points(before)} off before, up to {points(after)} after"
    )
