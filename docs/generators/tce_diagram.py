"""The test-based reliability diagram: which predictions the outcomes of their like refute."""

from typing import Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from monitor.arrays import Floats
from monitor.inference import null_level
from monitor.measures import MEASURES, TceBins, tce_bins
from monitor.reports.diagrams.axis import ProbabilityAxis
from monitor.reports.diagrams.reliability import COLUMNS, HistogramColumns, on_cells
from monitor.reports.evaluation.report import MeasureResult
from monitor.reports.figures.style import GREY, HAPPENED, INK, PREDICTED, SMALL_SIZE, framed, legend, panel, show_on_y
from monitor.reports.formatting import count, percent
from monitor.scores import ScoreTable

HEIGHT: Final = 6.6
CAPTION: Final = (
    "How to read it: predictions that are alike share a column. The black bar is the share of them that came true; "
    "blue predictions agree with it, orange ones are too far from it to be chance. Below, each column's size, and the "
    "share of it that is orange."
)
_DRAWS: Final = 99
_SLICES: Final = 40
"""A violin is drawn in this many slices."""
_HALF_WIDTH: Final = 0.42
_MAX_LABELS: Final = 24
"""Bins beyond which shares are no longer written at them."""


def tce_diagram(table: ScoreTable, row: MeasureResult | None = None) -> Figure:
    """Draw the test-based reliability diagram of the TCE paper.

    One column a bin of similar predictions: a violin of the predictions, orange where the test refutes them; a bar at
    the share that came true; below, the bin's size and the share of it that is refuted; on the right, all predictions.

    Parameters
    ----------
    table
        m rows of whole counts.
    row
        TCE as a report on the table has it; its level under calibration is drawn here if left out.

    Raises
    ------
    NotEnoughData
        The table is empty.
    InputError
        Counts are not whole numbers.

    Notes
    -----
    Source: Matsubara, Tax, Mudd, Guy, "TCE: A Test-Based Approach to Measuring Calibration Error", 2023, Figure 1. The
    colours of a violin, and the level of a calibrated model in the title, are not in the paper.
    """
    bins = tce_bins(table)
    cells = on_cells(table)
    mean = None if row is None else row.null_mean
    if mean is None:
        mean = null_level(cells, [MEASURES["tce"]], draws=_DRAWS)["tce"].mean
    refuted, chance = percent(bins.value / 100.0), percent(mean / 100.0)
    title = (
        f"{refuted} of the predictions disagree with what happened\n"
        f"(TCE; a perfectly calibrated model would show about {chance})"
    )
    axis = ProbabilityAxis.of(cells, bins.rate)
    caption = CAPTION
    if ((bins.rate < axis.lower) | (bins.rate > axis.upper)).any():
        caption += " A bar at the very end of the axis is one that lies beyond it."
    figure, grid = framed(HEIGHT, title, caption, rows=(3.2, 1.0), columns=(5.2, 1.0), gap=0.16, below=0.4, above=0.25)
    main = panel(figure, grid[0, 0])
    sizes, everything = panel(figure, grid[1, 0], share_x=main), panel(figure, grid[0, 1])
    _draw_violins(main, table, bins, axis)
    _draw_sizes(sizes, bins)
    _draw_all(everything, cells, axis)
    return figure


def _draw_violins(axes: Axes, table: ScoreTable, bins: TceBins, axis: ProbabilityAxis) -> None:
    show_on_y(axes, axis)
    axes.set_ylabel("predicted probability")
    number = bins.sizes.size
    # Rows of a bin lie side by side, so sizes alone tell which they are.
    filled = table.counts > 0.0
    at, counts = axis.place(table.score[filled]), table.counts[filled]
    ends = np.searchsorted(np.cumsum(counts), np.cumsum(bins.sizes)) + 1
    cuts = axis.place(np.stack(bins.limits, axis=1))
    for b, (start, end) in enumerate(zip(np.append(0, ends[:-1]), ends, strict=True)):
        _draw_violin(axes, b, at[start:end], counts[start:end], cuts[b])
    rate = axis.place(bins.rate)
    axes.hlines(rate, np.arange(number) - 0.46, np.arange(number) + 0.46, color=INK, lw=2.6, zorder=4)
    axes.set_xlim(-0.6, number - 0.4)
    axes.tick_params(axis="x", bottom=False, labelbottom=False)
    legend(
        axes,
        Line2D([], [], color=INK, lw=2.6, label="share that came true"),
        Patch(color=PREDICTED, alpha=0.75, label="predictions that agree with it"),
        Patch(color=HAPPENED, alpha=0.75, label="predictions that it refutes"),
        columns=3,
    )


def _draw_violin(axes: Axes, b: int, at: Floats, counts: Floats, cuts: Floats) -> None:
    """Draw the predictions of bin b as a violin, each part in the colour of its verdict.

    Parameters
    ----------
    axes, b
        Where: around x = b.
    at, counts
        shape (rows,): coordinates of the predictions, ascending, and how many there are.
    cuts
        shape (2,): the coordinates between which they are not refuted.
    """
    if at[-1] - at[0] < 0.004 * float(np.ptp(axes.get_ylim())):
        # All in one place: a violin would be a line too thin to see.
        color = PREDICTED if cuts[0] <= at[0] <= cuts[1] else HAPPENED
        axes.hlines(at[0], b - _HALF_WIDTH, b + _HALF_WIDTH, color=color, lw=6.0, alpha=0.75, zorder=3)
        return
    edges = np.linspace(at[0], at[-1], _SLICES + 1)
    mass = np.histogram(at, edges, weights=counts)[0]
    reach = np.arange(-4, 5)
    smooth = np.convolve(np.pad(mass, 4, mode="reflect"), np.exp(-0.5 * (reach / 1.6) ** 2), mode="valid")
    # Cut where the verdict changes, so that each part has one colour.
    y = np.unique(np.concatenate([edges, cuts[(cuts > at[0]) & (cuts < at[-1])]]))
    middle = 0.5 * (edges[1:] + edges[:-1])
    width = _HALF_WIDTH * np.interp(y, middle, smooth) / smooth.max()
    limits = (-np.inf, *cuts, np.inf)
    for below, above, color in zip(limits, limits[1:], (HAPPENED, PREDICTED, HAPPENED), strict=False):
        part = (y >= below) & (y <= above)
        if part.sum() > 1:
            axes.fill_betweenx(y[part], b - width[part], b + width[part], color=color, alpha=0.75, lw=0.0, zorder=3)


def _short(number: float) -> str:
    """Format a number of events in a few characters, for an axis: ``9,876``, ``96k``, ``1.2M``."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if number >= size:
            scaled = number / (1e3 if unit == "k" else size)
            return f"{scaled:.{0 if scaled >= 10.0 else 1}f}{unit}"
    return count(number)


def _draw_sizes(axes: Axes, bins: TceBins) -> None:
    place = np.arange(bins.sizes.size)
    axes.bar(place, bins.sizes, width=0.84, color="#C5C9CE")
    axes.bar(place, bins.rejected, width=0.84, color=HAPPENED, alpha=0.85)
    axes.set_ylim(0.0, 1.22 * float(bins.sizes.max()))
    axes.set_yticks([0.0, float(bins.sizes.max())], ["0", _short(float(bins.sizes.max()))])
    axes.set_ylabel("predictions")
    axes.set_xticks([])
    axes.set_xlabel("columns of similar predictions, from the lowest to the highest")
    if place.size <= _MAX_LABELS:
        for x, size, share in zip(place, bins.sizes, bins.rejected / bins.sizes, strict=True):
            text = percent(float(share)) if share in {0.0, 1.0} else f"{100.0 * share:.0f}%"
            label = axes.annotate(text, (x, size), xytext=(0, 2), textcoords="offset points", ha="center", va="bottom")
            label.set(size=min(SMALL_SIZE, 120.0 / place.size), color=HAPPENED if share > 0.0 else GREY)


def _draw_all(axes: Axes, cells: ScoreTable, axis: ProbabilityAxis) -> None:
    """Draw all predictions as a histogram along the vertical axis."""
    show_on_y(axes, axis, labels=False)
    columns = HistogramColumns.of(cells, axis, COLUMNS)
    axes.barh(columns.centre, columns.counts, height=0.92 * columns.width, color=PREDICTED, alpha=0.6)
    axes.set_xticks([])
    axes.set_xlabel("all predictions")
