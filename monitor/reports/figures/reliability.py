"""Reliability diagrams: what was predicted against what came true, of one model or before and after recalibration."""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, FigureBase
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from monitor.reports.diagrams.axis import ProbabilityAxis
from monitor.reports.diagrams.reliability import BINS, COLUMNS, BinSums, Curve, HistogramColumns, on_cells, smce_result
from monitor.reports.evaluation.report import MeasureResult
from monitor.reports.figures.style import (
    CHANCE,
    GREY,
    HAPPENED,
    INK,
    PAPER,
    PREDICTED,
    dress,
    frame,
    framed,
    legend,
    name_panel,
    new_figure,
    panel,
    show_on_x,
    show_on_y,
)
from monitor.reports.formatting import count, percent, points
from monitor.scores import ScoreTable

HEIGHT: Final = 6.6
CAPTION: Final = (
    "How to read it: on the dashed line, predictions come true as often as they say; below it they are too high, above "
    "it too low. The curve is the best estimate of what comes true. That of a perfectly calibrated model would stay in "
    "the grey band, 95% of the time at each place. The larger a dot, the more predictions it stands for. The title "
    "names the largest gap where smCE is beyond chance (p up to .05); that is no verdict, which needs more evidence "
    "and a size."
)

_HEIGHTS: Final = {2: 6.2, 3: 5.7}
"""Inches, by the number of diagrams: they are about square."""
_SHORT_CAPTION: Final = (
    "How to read it: on the dashed line, predictions come true as often as they say; below it they are too high, above "
    "it too low. Each curve is the best estimate of what comes true; the grey band is where chance puts that of a "
    "calibrated model, 95% of the time at each place. The larger a dot, the more predictions it stands for. The error "
    "is smCE."
)


def reliability_diagram(
    table: ScoreTable, *, smce: MeasureResult | None = None, insufficient: str | None = None
) -> Figure:
    """Draw what came true against predictions: bins, the isotonic curve (CORP), and its band under calibration.

    Where nearly all predictions are close to 0, or to 1, both axes are uniform in log odds and show just the range of
    the predictions. Below, how many predictions there are where.

    Parameters
    ----------
    table
        m rows.
    smce
        The table's smCE as a report has it, with its level under calibration; drawn here if left out.
    insufficient
        Why the report judges nothing, if it does not: the title says so.

    Raises
    ------
    NotEnoughData
        The table is empty.
    """
    cells = on_cells(table)
    figure = new_figure(HEIGHT)
    draw_reliability(figure, cells, smce or smce_result(cells), insufficient)
    return figure


def draw_reliability(
    figure: FigureBase, cells: ScoreTable, smce: MeasureResult, insufficient: str | None = None
) -> None:
    """Draw it into a figure of ``HEIGHT``, or a part of one; smCE with its level decides on the title."""
    axis = ProbabilityAxis.of(cells, [cells.prevalence])
    bins = BinSums.of(cells, axis.edges(BINS))
    caption = CAPTION
    if axis.logit:
        caption += " Both axes are stretched where predictions are."
    grid = frame(
        figure,
        HEIGHT,
        finding(bins, significant=bool(smce.significant), insufficient=insufficient),
        caption,
        rows=(4.2, 1.0),
        gap=0.16,
        above=0.45,
    )
    main, density = panel(figure, grid[0, 0], grid="both"), panel(figure, grid[1, 0])
    _draw_main(main, cells, bins, axis, labels=False)
    draw_density(density, cells, axis)


def draw_diagram(axes: Axes, table: ScoreTable) -> None:
    """Draw the diagram into somebody's axes: bins, curve and band, with neither title nor density.

    Raises
    ------
    NotEnoughData
        The table is empty.
    """
    cells = on_cells(table)
    axis = ProbabilityAxis.of(cells, [cells.prevalence])
    dress(axes, grid="both")
    _draw_main(axes, cells, BinSums.of(cells, axis.edges(BINS)), axis, labels=True)
    axes.set_xlabel("predicted probability")


def _draw_main(axes: Axes, cells: ScoreTable, bins: BinSums, axis: ProbabilityAxis, *, labels: bool) -> None:
    draw_curve(axes, Curve.of(cells), axis)
    draw_dots(axes, bins, axis)
    show_on_x(axes, axis, labels=labels)
    show_on_y(axes, axis)
    axes.set_ylabel("how often it came true")
    _legend(axes)


def _legend(axes: Axes, above: float = 0.0) -> None:
    legend(
        axes,
        Line2D([], [], color=HAPPENED, lw=2.2, label="what came true (smoothed to rise)"),
        Line2D([], [], color=GREY, lw=1.2, ls=(0, (4, 3)), label="perfect calibration"),
        Line2D([], [], color=INK, marker="o", ms=6.0, ls="none", label="groups of similar predictions"),
        Patch(color=CHANCE, label="where chance puts a calibrated model"),
        columns=2,
        above=above,
    )


def finding(bins: BinSums, *, significant: bool, insufficient: str | None = None) -> str:
    """Name the bin that adds most to the error, if there is more error than chance."""
    if insufficient is not None:
        return f"Too little data to tell: {insufficient}"
    if not significant:
        # Other tests may see what smCE does not, so the title says which one it speaks for; and of little data no
        # test sees much, so it does not say that there is nothing.
        return f"No difference beyond chance can be seen\n(by smCE, n = {count(float(bins.counts.sum()))})"
    worst = int(np.argmax(np.abs(bins.residual)))
    if bins.residual[worst] == 0.0:
        return "Predictions come true as often as they say"
    predicted, happened = (float(sums[worst] / bins.counts[worst]) for sums in (bins.prediction_sum, bins.positives))
    size = points(predicted - happened)
    direction = "high" if predicted > happened else "low"
    return (
        f"Largest gap: predictions of about {percent(predicted)} come true {percent(happened)} of the time,\n"
        f"{size} too {direction}"
    )


def draw_density(axes: Axes, cells: ScoreTable, axis: ProbabilityAxis) -> None:
    """Draw a histogram of the predictions on the axis."""
    columns = HistogramColumns.of(cells, axis, COLUMNS)
    mass = columns.counts / cells.total
    axes.bar(columns.centre, mass, width=0.92 * columns.width, color=PREDICTED, alpha=0.6)
    axes.set_ylim(0.0, 1.12 * float(mass.max()))
    axes.set_yticks([0.0, float(mass.max())], ["0", percent(float(mass.max()))])
    axes.set_ylabel("share")
    show_on_x(axes, axis)
    axes.set_xlabel("predicted probability")


def draw_curve(axes: Axes, curve: Curve, axis: ProbabilityAxis) -> None:
    """Draw the isotonic curve, its band under calibration, and the diagonal."""
    x = axis.place(curve.prediction)
    low, high = axis.place(curve.lower), axis.place(curve.upper)
    if x.size > 1:
        axes.fill_between(x, low, high, color=CHANCE, lw=0.0)
    else:
        axes.vlines(x, low, high, color=CHANCE, lw=14.0)
    ends = axis.place([axis.lower, axis.upper])
    axes.plot(ends, ends, color=GREY, lw=1.2, ls=(0, (4, 3)))
    axes.plot(x, axis.place(curve.rate), color=HAPPENED, lw=2.2)


def draw_dots(axes: Axes, bins: BinSums, axis: ProbabilityAxis) -> None:
    """Bins as dots, the larger the more predictions they hold."""
    shown = bins.filled()
    predicted, happened = axis.place(shown.predicted), axis.place(shown.rate)
    axes.vlines(predicted, predicted, happened, color=HAPPENED, lw=1.0, alpha=0.6)
    area = 18.0 + 260.0 * shown.counts / shown.counts.sum()
    axes.scatter(predicted, happened, s=area, color=INK, edgecolor=PAPER, linewidth=0.8, zorder=4)


def before_and_after_figure(tables: Mapping[str, ScoreTable]) -> Figure:
    """Reliability diagrams of the same events under several maps.

    Parameters
    ----------
    tables
        What each map is called -> the score table of what it makes of the events. The first is before, the
        last after.

    Raises
    ------
    NotEnoughData
        A table is empty.
    """
    cells = {label: on_cells(table) for label, table in tables.items()}
    rows = {label: smce_result(table) for label, table in cells.items()}
    # One pair of axes for all: a map that draws predictions together would be stretched otherwise.
    axis = ProbabilityAxis.of(_join(list(cells.values())), [table.prevalence for table in cells.values()])
    figure, grid = framed(
        _HEIGHTS.get(len(cells), 5.7),
        _change(list(rows.values())),
        _SHORT_CAPTION + (" Both axes are stretched where predictions are." if axis.logit else ""),
        rows=(3.6, 1.0),
        columns=(1.0,) * len(cells),
        gap=0.22 if len(cells) < 3 else 0.36,
        above=0.8,
    )
    densities = []
    for column, (label, table) in enumerate(cells.items()):
        diagram, density = panel(figure, grid[0, column], grid="both"), panel(figure, grid[1, column])
        draw_curve(diagram, Curve.of(table), axis)
        draw_dots(diagram, BinSums.of(table, axis.edges(BINS)), axis)
        show_on_x(diagram, axis, labels=False)
        show_on_y(diagram, axis, labels=column == 0)
        name_panel(diagram, label, _size(rows[label]))
        draw_density(density, table, axis)
        densities.append(density)
        if column == 0:
            diagram.set_ylabel("how often it came true")
            _legend(diagram, above=0.4)
        else:
            density.set_ylabel("")
    top = max(density.get_ylim()[1] for density in densities)
    for density in densities:
        density.set_ylim(0.0, top)
        # The tallest column of all, as draw_density leaves room above it.
        density.set_yticks([0.0, top / 1.12], ["0", percent(top / 1.12)] if density is densities[0] else ["", ""])
        density.set_xlabel("predicted probability" if len(cells) < 3 else "predicted")
    return figure


def _join(tables: Sequence[ScoreTable]) -> ScoreTable:
    """Join the predictions of some tables; their outcomes are left out."""
    scores = np.concatenate([table.score for table in tables])
    return ScoreTable.from_events(scores, np.zeros(scores.size), np.concatenate([table.counts for table in tables]))


def _size(row: MeasureResult) -> str:
    return f"error {points(row.value)}, {'beyond' if row.significant else 'within'} chance"


def _change(rows: Sequence[MeasureResult]) -> str:
    before, after = rows[0], rows[-1]
    if not before.significant and not after.significant:
        return "The error was within chance before, and is after"
    change = f"from {points(before.value)} to {points(after.value)}"
    if after.value >= before.value:
        return f"The error did not fall: it went {change}"
    if not after.significant:
        return f"The error fell {change},\nwhich a calibrated model shows by chance"
    return f"The error fell {change},\nwhich is still more than chance"
