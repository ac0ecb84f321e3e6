"""A report on one sheet: measures with their verdicts, the reliability diagram, and where the model is off."""

import math
from collections.abc import Sequence
from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure, FigureBase

from monitor.reports.figures import reliability, witness
from monitor.reports.figures.cells import drawn, judged, smce_row
from monitor.reports.figures.picture import MeasureRow
from monitor.reports.figures.style import (
    CHANCE,
    GREEN,
    GREY,
    HAPPENED,
    INK,
    MARGIN,
    SMALL_SIZE,
    TEXT_SIZE,
    TITLE_SIZE,
    WIDTH,
    fitting,
    height_of,
    new_figure,
    wrapped,
)
from monitor.reports.figures.words import amount, span
from monitor.scores import ScoreTable

_HEAD_SIZE: Final = TITLE_SIZE + 3.0
_ROW: Final = 0.27
_HEADING: Final = 0.62
_NAME: Final = 1.42
"""Inches for the name of a measure."""
_ABOUT: Final = 0.45
_REACH: Final = 3.0
"""Multiples of what chance gives that the strip of a row shows; what is beyond stands at its end."""

_COLUMNS: Final = {"measure": 0.0, "value": 0.285, "interval": 0.305, "chance": 0.635, "strip": 0.655, "verdict": 0.805}
"""Where columns begin, or end where they hold numbers, as shares of the width."""


def report_sheet(
    table: ScoreTable,
    rows: Sequence[MeasureRow],
    title: str,
    subtitle: str,
    *,
    of_table: Sequence[MeasureRow] | None = None,
    insufficient: str | None = None,
    about: str = "",
) -> Figure:
    """A report on one sheet.

    Parameters
    ----------
    table
        m rows. Of an empty table nothing is drawn below the heading.
    rows
        The measures, in the order of the report.
    title, subtitle
        What the report is about, and its verdict or its numbers in a line or two; line breaks are kept.
    of_table
        The measures of the table itself, where the rows are of something else, as of whole vectors. The figures take
        from them what chance makes of smCE, so that the sheet says one thing; it is drawn here where they lack it.
    insufficient
        Why the report judges nothing, if it does not: the titles of the figures say so.
    about
        What the figures are of, where that is not what the rows are of: a line above them.

    Returns
    -------
    Figure
        8 inches wide, as high as it takes.
    """
    heading = wrapped(title, WIDTH - 2 * MARGIN, _HEAD_SIZE, bold=True)
    below = wrapped(subtitle, WIDTH - 2 * MARGIN, TEXT_SIZE)
    head = MARGIN + 0.1 + height_of(heading, _HEAD_SIZE) + height_of(below, TEXT_SIZE)
    measures = _HEADING + _ROW * len(rows) if rows else 0.0
    filled = bool(table.counts.any())
    drawings = [reliability.HEIGHT, witness.HEIGHT] if filled else [0.5]
    heights = [head, *([measures] if rows else []), *([_ABOUT] if about else []), *drawings]
    figure = new_figure(sum(heights))
    parts = iter(figure.subfigures(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0])
    _draw_head(next(parts), head, heading, below)
    if rows:
        _draw_rows(next(parts), measures, rows)
    if about:
        next(parts).text(MARGIN / WIDTH, 0.1, about, size=TITLE_SIZE, weight="bold", color=GREY, va="bottom")
    if filled:
        cells = drawn(table)
        smce = judged(rows if of_table is None else of_table, "smce") or smce_row(cells)
        reliability.draw_reliability(next(parts), reliability.HEIGHT, cells, smce, insufficient)
        witness.draw_witness(next(parts), witness.HEIGHT, cells, smce, insufficient)
    else:
        next(parts).text(
            MARGIN / WIDTH, 0.5, "There are no predictions with an outcome to draw.", size=TEXT_SIZE, color=GREY
        )
    return figure


def _draw_head(figure: FigureBase, height: float, heading: str, below: str) -> None:
    figure.text(MARGIN / WIDTH, 1.0 - MARGIN / height, heading, size=_HEAD_SIZE, weight="bold", color=INK, va="top")
    figure.text(MARGIN / WIDTH, 0.02, below, size=TEXT_SIZE, color=GREY, va="bottom", linespacing=1.3)


def _draw_rows(figure: FigureBase, height: float, rows: Sequence[MeasureRow]) -> None:
    axes = figure.add_axes((MARGIN / WIDTH, 0.0, 1.0 - 2.0 * MARGIN / WIDTH, 1.0))
    axes.set_axis_off()
    axes.set_xlim(0.0, 1.0)
    axes.set_ylim(height, 0.0)
    for name, heading, side in (
        ("measure", "measure", "left"),
        ("value", "value", "right"),
        ("interval", "95% interval", "left"),
        ("chance", "by chance", "right"),
        ("strip", "against chance", "left"),
        ("verdict", "verdict", "left"),
    ):
        axes.text(_COLUMNS[name], _HEADING - 0.16, heading, size=SMALL_SIZE, color=GREY, ha=side, va="bottom")
    axes.hlines(_HEADING - 0.1, 0.0, 1.0, color=CHANCE, lw=1.0)
    for number, row in enumerate(rows):
        _draw_row(axes, _HEADING + _ROW * (number + 0.4), row)


def _draw_row(axes: Axes, y: float, row: MeasureRow) -> None:
    beyond = row.beyond_chance
    color = GREY if beyond is None else HAPPENED if beyond else GREEN
    interval = "" if row.lower is None or row.upper is None else span(row.lower, row.upper, row.unit)
    title, size = fitting(row.title, _NAME, TEXT_SIZE)
    axes.text(_COLUMNS["measure"], y, title, size=size, color=INK, va="center")
    for name, text, side, weight in (
        ("value", amount(row.value, row.unit), "right", "bold"),
        ("interval", interval, "left", "normal"),
        ("chance", "" if row.null_q95 is None else f"up to {amount(row.null_q95, row.unit)}", "right", "normal"),
    ):
        axes.text(_COLUMNS[name], y, text, size=TEXT_SIZE, color=INK, ha=side, va="center", weight=weight)
    axes.text(
        _COLUMNS["verdict"],
        y,
        row.verdict,
        size=TEXT_SIZE,
        color=color,
        va="center",
        weight="bold" if beyond else "normal",
    )
    if row.null_q95 is not None and 0.0 < row.null_q95 < math.inf:
        _draw_strip(axes, y, row, row.null_q95, color)


def _draw_strip(axes: Axes, y: float, row: MeasureRow, chance: float, color: str) -> None:
    """The value and its interval in multiples of what chance gives, which is the grey field."""
    start, width = _COLUMNS["strip"] + 0.005, _COLUMNS["verdict"] - _COLUMNS["strip"] - 0.04

    def at(value: float) -> float:
        return start + width * min(max(value / chance, 0.0), _REACH) / _REACH

    axes.hlines(y, at(0.0), at(chance), color=CHANCE, lw=9.0)
    if row.lower is not None and row.upper is not None:
        axes.hlines(y, at(row.lower), at(row.upper), color=color, lw=1.6)
    axes.plot(at(row.value), y, marker=">" if row.value > _REACH * chance else "o", color=color, ms=6.0, ls="none")
