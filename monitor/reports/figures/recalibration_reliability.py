"""The reliability diagram before and after recalibration, side by side on the same axes."""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from monitor.errors import NotEnoughData
from monitor.reports.figures.axis import ProbabilityAxis
from monitor.reports.figures.cells import BinSums, drawn, smce_row
from monitor.reports.figures.picture import MeasureRow
from monitor.reports.figures.reliability import draw_curve, draw_density, draw_dots
from monitor.reports.figures.style import CHANCE, GREY, HAPPENED, INK, dress, frame, legend, name_panel, new_figure
from monitor.reports.figures.words import percent, points
from monitor.scores import ScoreTable
from monitor.scores.table import merge_rows

HEIGHT: Final = {2: 6.2, 3: 5.7}
"""Inches, by the number of diagrams: they are about square."""
CAPTION: Final = (
    "How to read it: on the dashed line, predictions come true as often as they say; below it they are too high, above "
    "it too low. Each curve is the best estimate of what comes true; the grey band is where chance puts that of a "
    "calibrated model, 95% of the time at each place. The larger a dot, the more predictions it stands for. The error "
    "is smCE."
)
_BINS: Final = 10
_CURVE_ROWS: Final = 100
"""More cannot be seen in a third of a page, and would be half of the picture's bytes."""


def before_and_after_figure(tables: Mapping[str, ScoreTable]) -> Figure:
    """Reliability diagrams of the same events under several maps.

    Parameters
    ----------
    tables
        What each map is called -> the score table of what it makes of the events. The first is what was before, the
        last is what is asked about.

    Raises
    ------
    NotEnoughData
        A table is empty, or there are fewer than two.
    """
    if len(tables) < 2:
        raise NotEnoughData(f"before and after are two tables at least, got {len(tables)}")
    cells = {label: drawn(table) for label, table in tables.items()}
    rows = {label: smce_row(each) for label, each in cells.items()}
    # One pair of axes for all: a map that draws predictions together would be stretched otherwise.
    axis = ProbabilityAxis.of(_together(list(cells.values())), [each.prevalence for each in cells.values()])
    height = HEIGHT.get(len(cells), 5.7)
    figure = new_figure(height)
    grid = frame(
        figure,
        height,
        _title(list(rows.values())),
        CAPTION + (" Both axes are stretched where predictions are." if axis.logit else ""),
        rows=(3.6, 1.0),
        columns=(1.0,) * len(cells),
        gap=0.22 if len(cells) < 3 else 0.36,
        above=0.8,
    )
    densities = []
    for column, (label, table) in enumerate(cells.items()):
        diagram, density = figure.add_subplot(grid[0, column]), figure.add_subplot(grid[1, column])
        dress(diagram, grid="both")
        dress(density)
        draw_curve(diagram, merge_rows(table, _CURVE_ROWS), axis)
        draw_dots(diagram, BinSums.of(table, axis.edges(_BINS)), axis)
        axis.on_x(diagram, labels=False)
        axis.on_y(diagram, labels=column == 0)
        name_panel(diagram, label, _size(rows[label]))
        draw_density(density, table, axis)
        densities.append(density)
        if column == 0:
            diagram.set_ylabel("how often it came true")
            _legend(diagram)
        else:
            density.set_ylabel("")
    most = max(density.get_ylim()[1] for density in densities)
    for density in densities:
        density.set_ylim(0.0, most)
        # The tallest column of all, as draw_density leaves room above it.
        density.set_yticks([0.0, most / 1.12], ["0", percent(most / 1.12)] if density is densities[0] else ["", ""])
        density.set_xlabel("predicted probability" if len(cells) < 3 else "predicted")
    return figure


def _together(tables: Sequence[ScoreTable]) -> ScoreTable:
    """All predictions of some tables; their outcomes are left out."""
    scores = np.concatenate([table.score for table in tables])
    return ScoreTable.from_events(scores, np.zeros(scores.size), np.concatenate([table.counts for table in tables]))


def _size(row: MeasureRow) -> str:
    return f"error {points(row.value)}, {'beyond' if row.beyond_chance else 'within'} chance"


def _title(rows: Sequence[MeasureRow]) -> str:
    before, after = rows[0], rows[-1]
    if not before.beyond_chance and not after.beyond_chance:
        return "The error was within chance before, and is after"
    change = f"from {points(before.value)} to {points(after.value)}"
    if after.value >= before.value:
        return f"The error did not fall: it went {change}"
    if not after.beyond_chance:
        return f"The error fell {change},\nwhich a calibrated model shows by chance"
    return f"The error fell {change},\nwhich is still more than chance"


def _legend(axes: Axes) -> None:
    legend(
        axes,
        [
            Line2D([], [], color=HAPPENED, lw=2.2, label="what came true (smoothed to rise)"),
            Line2D([], [], color=GREY, lw=1.2, ls=(0, (4, 3)), label="perfect calibration"),
            Line2D([], [], color=INK, marker="o", ms=6.0, ls="none", label="groups of similar predictions"),
            Patch(color=CHANCE, label="where chance puts a calibrated model"),
        ],
        columns=2,
        above=0.4,
    )
