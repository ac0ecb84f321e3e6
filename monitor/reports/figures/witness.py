"""Where the model is too low and where it is too high: the witness of the smooth calibration error."""

from typing import Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase

from monitor.reports.diagrams.axis import ProbabilityAxis
from monitor.reports.diagrams.reliability import HistogramColumns, Witness
from monitor.reports.evaluation.places import Place, places
from monitor.reports.evaluation.report import MeasureResult
from monitor.reports.figures.style import GREY, HAPPENED, INK, PREDICTED, TEXT_SIZE, frame, panel, show_on_x
from monitor.reports.formatting import percent, value_text
from monitor.scores import ScoreTable

HEIGHT: Final = 6.0
TOO_LOW: Final = HAPPENED
TOO_HIGH: Final = PREDICTED
"""Colours of ranges with more error than chance explains; the rest is grey."""
CAPTION: Final = (
    "How to read it: above, the line is high where the model says too little and low where it says too much (it is the "
    "witness of smCE, whose slope is limited, so it cannot jump). Below, of every 1,000 predictions, how many more or "
    "fewer came true than was predicted. The title names ranges where smCE is beyond chance (p up to .05); that is no "
    "verdict."
)
_BINS: Final = 24
_MAX_PLACES: Final = 3
_MOSTLY: Final = 0.5
"""Share of smCE that the difference of the means is, if the error has one direction."""


def draw_witness(figure: FigureBase, cells: ScoreTable, smce: MeasureResult, insufficient: str | None = None) -> None:
    """Draw it into a figure of ``HEIGHT``, or a part of one; smCE with its level decides on the title."""
    axis = ProbabilityAxis.of(cells)
    sure = bool(smce.significant) and insufficient is None
    ranges = places(cells) if sure else ()
    colors = (TOO_LOW, TOO_HIGH) if sure else (GREY, GREY)
    title = _title(cells, ranges, smce) if insufficient is None else f"Too little data to tell where: {insufficient}"
    grid = frame(figure, HEIGHT, title, CAPTION, rows=(1.2, 1.0), gap=0.2)
    for row, draw in enumerate((_draw_witness, _draw_surplus)):
        draw(panel(figure, grid[row, 0]), cells, axis, colors)


def _title(cells: ScoreTable, ranges: tuple[Place, ...], smce: MeasureResult) -> str:
    if ranges:
        strongest = sorted(sorted(ranges, key=lambda place: -place.share)[:_MAX_PLACES], key=lambda place: place.first)
        return "\n".join(str(place) for place in strongest)
    if smce.significant:
        return _on_the_whole(cells, smce)
    if smce.null_q95 is None:
        return f"How much of this is chance is not known\n(smCE {value_text(smce.value, smce.unit)})"
    return (
        "No range of predictions is too low or too high beyond chance\n"
        f"(smCE {value_text(smce.value, smce.unit)}; 95% of calibrated models stay below "
        f"{value_text(smce.null_q95, smce.unit)})"
    )


def _on_the_whole(cells: ScoreTable, smce: MeasureResult) -> str:
    """Describe an error that chance does not explain where no range stands out."""
    gap = cells.mean_prediction - cells.prevalence
    means = f"{percent(cells.mean_prediction, 3)} predicted, {percent(cells.prevalence, 3)} came true"
    if abs(gap) < _MOSTLY * smce.value:
        return f"Predictions are too high here, too low there; no range stands out\n({means} on the whole)"
    return f"Predictions are too {'high' if gap > 0.0 else 'low'} on the whole; no range stands out\n({means})"


def _draw_witness(axes: Axes, cells: ScoreTable, axis: ProbabilityAxis, colors: tuple[str, str]) -> None:
    line = Witness.of(cells)
    x, witness = axis.place(line.prediction), line.value
    if x.size == 1:
        axes.vlines(x, 0.0, witness, color=colors[0] if witness[0] > 0.0 else colors[1], lw=8.0)
    for side, color in ((witness > 0.0, colors[0]), (witness < 0.0, colors[1])):
        axes.fill_between(x, witness, 0.0, where=side, interpolate=True, color=color, alpha=0.35, lw=0.0)
    axes.plot(x, witness, color=INK, lw=1.6)
    axes.axhline(0.0, color=GREY, lw=1.0)
    reach = 1.25 * max(float(np.abs(witness).max()), 0.05)
    axes.set_ylim(-reach, reach)
    axes.set_yticks([])
    for y, text, color in ((0.75, "too little", TOO_LOW), (0.25, "too much", TOO_HIGH)):
        label = axes.text(-0.015, y, f"model says\n{text}", transform=axes.transAxes, rotation=90.0, color=color)
        label.set(size=TEXT_SIZE, ha="right", va="center", multialignment="center")
    show_on_x(axes, axis, labels=False)


def _draw_surplus(axes: Axes, cells: ScoreTable, axis: ProbabilityAxis, colors: tuple[str, str]) -> None:
    """Bars of what came true beyond what was predicted, of every 1,000 predictions."""
    columns = HistogramColumns.of(cells, axis, _BINS)
    surplus = 1000.0 * columns.surplus / cells.total
    color = [colors[0] if height > 0.0 else colors[1] for height in surplus]
    axes.bar(columns.centre, surplus, width=0.9 * columns.width, color=color)
    axes.axhline(0.0, color=GREY, lw=1.0)
    axes.set_ylabel("came true beyond\nprediction, per 1,000")
    show_on_x(axes, axis)
    axes.set_xlabel("predicted probability")
