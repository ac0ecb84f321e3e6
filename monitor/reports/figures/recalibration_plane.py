"""Where among the features predictions are off, before and after recalibration (the paper's Figure 2)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter
from numpy.typing import NDArray

from monitor.errors import NotEnoughData
from monitor.local.calibration import LEAST_NEIGHBOURS, default_bins
from monitor.local.landscape import DEFAULT_GAMMA
from monitor.local.neighbourhood import averages, laplace_kernels
from monitor.reports.figures.local_map import COLORS, shaded
from monitor.reports.figures.style import (
    BLUE,
    GREY,
    INK,
    SMALL_SIZE,
    YELLOW,
    dress,
    frame,
    legend,
    name_panel,
    new_figure,
)
from monitor.reports.figures.words import percent, points

Floats = NDArray[np.float64]

HEIGHT: Final = {2: 8.2, 3: 7.6}
CAPTION: Final = (
    "How to read it: each point of a map is a kind of event; events that are alike lie close together. Blue: "
    "predictions say too much there; orange: too little; white: fewer than 50 events near. Below, how many of the "
    "events of one range of predictions are off by how much among those like them: where the dotted line, their common "
    "error before, lies far left of the dashed curve, errors of both directions hid each other."
)
_SIZE: Final = 40
_MARGIN: Final = 0.005
"""Share of the events beyond each side of the picture: a few outliers would shrink all others to a spot."""
_MOST_POINTS: Final = 600
"""Of one range of predictions at which the error is evaluated."""
_LEAST_OF_BIN: Final = 100
_SHARES: Final = 101


@dataclass(frozen=True, eq=False)
class _Errors:
    """Local errors at some points.

    Attributes
    ----------
    error
        float64, shape (q, maps): mean of prediction - outcome; above 0 where predictions are too high.
    n_eff
        float64, shape (q,).
    """

    error: Floats
    n_eff: Floats

    @property
    def enough(self) -> NDArray[np.bool_]:
        return np.asarray(self.n_eff >= LEAST_NEIGHBOURS)


def plane_figure(
    predictions: Mapping[str, Floats],
    outcome: Mapping[str, Floats],
    plane: Floats,
    weight: Floats | None = None,
    *,
    names: tuple[str, str] = ("first direction of the features", "second"),
    gamma: float = DEFAULT_GAMMA,
    seed: int = 0,
) -> Figure:
    """Signed local errors over a plane of the features, one map beside the other, on one scale of colours.

    Below, how the local errors spread in the best and in the worst bin of the first map's predictions, for all maps
    over the same events.

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
    names
        What the coordinates are called.
    gamma
        Bandwidth, in standard deviations of the coordinates.
    seed
        Of the sample of points.

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
    if plane.shape[0] == 0:
        raise NotEnoughData("a map needs at least 1 event, got 0")
    residual = np.stack([predictions[label] - outcome[label] for label in labels], axis=1)
    w = np.ones(plane.shape[0]) if weight is None else weight
    where = _standardised(plane)
    ends = np.quantile(where, [_MARGIN, 1.0 - _MARGIN], axis=0)
    # A coordinate that is the same for all is drawn as a strip of one standard deviation.
    ends += np.where(ends[1] - ends[0] > 1e-9, 0.0, 0.5) * np.array([[-1.0], [1.0]])
    x, y = np.linspace(ends[0], ends[1], _SIZE, axis=1)
    corners = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    found = _errors(corners, where, residual, w, gamma)
    if not found.enough.any():
        raise NotEnoughData(
            f"a map needs places with {LEAST_NEIGHBOURS:g} events near, the most are {found.n_eff.max():.0f}"
        )
    worst = np.abs(found.error[found.enough]).max(axis=0)
    height = HEIGHT.get(len(labels), 7.6)
    figure = new_figure(height)
    grid = frame(
        figure,
        height,
        _title(float(worst[0]), float(worst[-1])),
        CAPTION,
        rows=(1.45, 1.0),
        gap=1.15 if len(labels) < 3 else 1.35,
        above=0.3,
        right=0.85,
    )
    maps = grid[0].subgridspec(1, len(labels) + 1, width_ratios=(*[1.0] * len(labels), 0.05), wspace=0.12)
    shades = ScalarMappable(Normalize(-max(worst.max(), 0.01), max(worst.max(), 0.01)), COLORS)
    for column, label in enumerate(labels):
        axes = figure.add_subplot(maps[column])
        dress(axes, grid="")
        picture = shaded(shades, found.error[:, column].reshape(_SIZE, _SIZE), found.n_eff.reshape(_SIZE, _SIZE))
        axes.imshow(picture, origin="lower", aspect="auto", interpolation="nearest", extent=(x[0], x[-1], y[0], y[-1]))
        name_panel(axes, label, f"at worst {points(float(worst[column]))} off")
        axes.set_xlabel(names[0] if column == 0 else "")
        if column == 0:
            axes.set_ylabel(names[1])
        else:
            axes.tick_params(axis="y", labelleft=False)
    bar = figure.colorbar(shades, cax=figure.add_subplot(maps[len(labels)]))
    bar.set_label("too low     points     too high", size=SMALL_SIZE)
    bar.ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100.0 * abs(value):.3g}"))
    bar.ax.tick_params(labelsize=SMALL_SIZE, color=GREY)
    bar.outline.set_visible(False)
    _draw_bins(
        figure,
        grid,
        labels=labels,
        confidence=predictions[labels[0]],
        residual=residual,
        where=where,
        weight=w,
        gamma=gamma,
        seed=seed,
    )
    return figure


def _standardised(plane: Floats) -> Floats:
    spread = plane.std(axis=0)
    return np.ascontiguousarray((plane - plane.mean(axis=0)) / np.where(spread > 1e-12, spread, 1.0))


def _errors(at: Floats, others: Floats, residual: Floats, weight: Floats, gamma: float) -> _Errors:
    """Weighted means of the others' residuals about some points; an event of weight 2 counts as two."""
    columns = np.column_stack([residual * weight[:, None], weight])
    (means,), (n_eff,) = averages(laplace_kernels([gamma]), at, others, lambda rows: columns[rows])
    return _Errors(means[:, :-1] / means[:, -1:], n_eff)


def _near(at: Floats, others: Floats, residual: Floats, weight: Floats, gamma: float) -> _Errors:
    """Errors by the narrowest of some neighbourhoods by which half of the points have enough events near.

    Of a single range of predictions there are few events; what is enough for the maps is not for it.
    """
    for wider in (1.0, 2.0, 4.0):
        found = _errors(at, others, residual, weight, wider * gamma)
        if 2 * found.enough.sum() >= found.enough.size:
            break
    return found


def _draw_bins(
    figure: Figure,
    grid: GridSpec,
    *,
    labels: Sequence[str],
    confidence: Floats,
    residual: Floats,
    where: Floats,
    weight: Floats,
    gamma: float,
    seed: int,
) -> None:
    """The spread of the local errors in the bin that is best on average, and in the worst."""
    bins = default_bins(confidence.size)
    place = np.searchsorted(np.arange(1, bins) / bins, confidence, side="right")
    held = np.bincount(place, minlength=bins)
    usable = np.flatnonzero(held >= _LEAST_OF_BIN) if (held >= _LEAST_OF_BIN).any() else [int(np.argmax(held))]
    mean = {int(b): float(np.average(residual[place == b, 0], weights=weight[place == b])) for b in usable}
    best, worst = min(mean, key=lambda b: abs(mean[b])), max(mean, key=lambda b: abs(mean[b]))
    shown = {best: "best on average", worst: "worst on average"} if best != worst else {best: "all in one range"}
    panels = grid[1].subgridspec(1, len(shown), wspace=0.12)
    rng = np.random.default_rng(seed)
    drawn: list[Axes] = []
    for column, (b, remark) in enumerate(shown.items()):
        inside = np.flatnonzero(place == b)
        asked = inside if inside.size <= _MOST_POINTS else np.sort(rng.choice(inside, _MOST_POINTS, replace=False))
        found = _near(where[asked], where[inside], residual[inside], weight[inside], gamma)
        axes = figure.add_subplot(panels[column])
        dress(axes, grid="both")
        drawn.append(axes)
        axes.plot([abs(mean[b])] * 2, [0.0, 1.0], color=INK, ls=":", lw=1.6)
        share = np.linspace(0.0, 1.0, _SHARES)
        for number in range(len(labels)):
            color, style, width = _line(number, len(labels))
            size = np.abs(found.error[found.enough, number])
            if size.size:
                axes.plot(np.quantile(size, share), share, color=color, ls=style, lw=width)
        if not found.enough.any():
            told = "too few events\nfor any to be alike"
            axes.text(0.5, 0.5, told, transform=axes.transAxes, ha="center", va="center", size=SMALL_SIZE, color=GREY)
        first, last = percent(b / bins), percent((b + 1) / bins)
        name_panel(axes, f"Predictions of {first} to {last}", f"{remark}: {points(mean[b])} off")
        axes.set_xlabel("off by, among those alike")
        axes.set_ylim(0.0, 1.02)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100.0 * value:.0f}%"))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100.0 * value:.3g}"))
        if column:
            axes.tick_params(axis="y", labelleft=False)
        else:
            axes.set_ylabel("share of them")
    reach = max(axes.get_xlim()[1] for axes in drawn)
    for axes in drawn:
        axes.set_xlim(0.0, reach)
    handles = [
        Line2D([], [], color=color, ls=style, lw=width, label=label)
        for label, (color, style, width) in zip(
            labels, (_line(n, len(labels)) for n in range(len(labels))), strict=True
        )
    ]
    handles.append(Line2D([], [], color=INK, ls=":", lw=1.6, label="all together, before"))
    # Of three maps with the names of their methods one row may be wider than the figure.
    legend(drawn[0], handles, columns=len(handles) if len(labels) < 3 else 2, above=0.38)


def _line(number: int, of: int) -> tuple[str, str, float]:
    if number == 0:
        return INK, "--", 1.8
    return (BLUE, "-", 2.4) if number == of - 1 else (YELLOW, "-", 1.8)


def _title(before: float, after: float) -> str:
    if after < before:
        return (
            f"Before, predictions that are alike were up to {points(before)} off;\n"
            f"after, up to {points(after)} (some of it by chance)"
        )
    return (
        f"Predictions that are alike are not better than before:\n"
        f"up to {points(before)} off before, up to {points(after)} after"
    )
