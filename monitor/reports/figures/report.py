"""A report on one sheet: its measures, and the most important diagrams."""

import math
from collections.abc import Mapping
from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure, FigureBase

from monitor.measures import MEASURES
from monitor.reports.diagrams.reliability import on_cells, smce_result
from monitor.reports.evaluation.report import MeasureResult
from monitor.reports.figures import reliability, witness
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
from monitor.reports.formatting import interval_text, value_text
from monitor.scores import ScoreTable

Results = Mapping[str, MeasureResult]
"""Results of a report, by the titles of the measures."""

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


def judged(results: Results, name: str) -> MeasureResult | None:
    """Return the result of a measure, if it has a level under calibration."""
    result = results.get(MEASURES[name].title)
    return None if result is None or result.null_q95 is None else result


def report_sheet(
    table: ScoreTable,
    results: Results,
    title: str,
    subtitle: str,
    *,
    of_table: Results | None = None,
    insufficient: str | None = None,
    about: str = "",
) -> Figure:
    """Draw a report on one sheet.

    Parameters
    ----------
    table
        m rows. Of an empty table nothing is drawn below the heading.
    results
        The measures to list.
    title, subtitle
        What the report is about, and its verdict or numbers in a line or two; line breaks are kept.
    of_table
        The measures of ``table``, where ``results`` are of something else, as of whole vectors: their levels decide on
        the titles of the figures.
    insufficient
        Why the report gives no verdict, if it gives none: titles say so.
    about
        What the figures are of, where ``results`` are of something else.

    Returns
    -------
    Figure
        8 inches wide, as high as it takes.
    """
    heading = wrapped(title, WIDTH - 2 * MARGIN, _HEAD_SIZE, bold=True)
    below = wrapped(subtitle, WIDTH - 2 * MARGIN, TEXT_SIZE)
    head = MARGIN + 0.1 + height_of(heading, _HEAD_SIZE) + height_of(below, TEXT_SIZE)
    measures = _HEADING + _ROW * len(results) if results else 0.0
    filled = bool(table.counts.any())
    drawings = [reliability.HEIGHT, witness.HEIGHT] if filled else [0.5]
    heights = [head, *([measures] if results else []), *([_ABOUT] if about else []), *drawings]
    figure = new_figure(sum(heights))
    parts = iter(figure.subfigures(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0])
    _draw_head(next(parts), head, heading, below)
    if results:
        _draw_rows(next(parts), measures, results)
    if about:
        next(parts).text(MARGIN / WIDTH, 0.1, about, size=TITLE_SIZE, weight="bold", color=GREY, va="bottom")
    if filled:
        cells = on_cells(table)
        smce = judged(results if of_table is None else of_table, "smce") or smce_result(cells)
        reliability.draw_reliability(next(parts), cells, smce, insufficient)
        witness.draw_witness(next(parts), cells, smce, insufficient)
    else:
        reason = "There are no predictions with an outcome to draw."
        next(parts).text(MARGIN / WIDTH, 0.5, reason, size=TEXT_SIZE, color=GREY)
    return figure


def _draw_head(figure: FigureBase, height: float, heading: str, below: str) -> None:
    figure.text(MARGIN / WIDTH, 1.0 - MARGIN / height, heading, size=_HEAD_SIZE, weight="bold", color=INK, va="top")
    figure.text(MARGIN / WIDTH, 0.02, below, size=TEXT_SIZE, color=GREY, va="bottom", linespacing=1.3)


def _draw_rows(figure: FigureBase, height: float, results: Results) -> None:
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
    for number, (title, result) in enumerate(results.items()):
        _draw_row(axes, _HEADING + _ROW * (number + 0.4), title, result)


def _draw_row(axes: Axes, y: float, title: str, result: MeasureResult) -> None:
    beyond, unit, chance = result.significant, result.unit, result.null_q95
    color = GREY if beyond is None else HAPPENED if beyond else GREEN
    weight = "bold" if beyond else "normal"
    interval = "" if result.lower is None or result.upper is None else interval_text(result.lower, result.upper, unit)
    name, size = fitting(title, _NAME, TEXT_SIZE)
    axes.text(_COLUMNS["measure"], y, name, size=size, color=INK, va="center")
    for column, text, side, style in (
        ("value", value_text(result.value, unit), "right", "bold"),
        ("interval", interval, "left", "normal"),
        ("chance", "" if chance is None else f"up to {value_text(chance, unit)}", "right", "normal"),
    ):
        axes.text(_COLUMNS[column], y, text, size=TEXT_SIZE, color=INK, ha=side, va="center", weight=style)
    axes.text(_COLUMNS["verdict"], y, result.verdict, size=TEXT_SIZE, color=color, va="center", weight=weight)
    if chance is not None and 0.0 < chance < math.inf:
        _draw_strip(axes, y, result, chance, color)


def _draw_strip(axes: Axes, y: float, result: MeasureResult, chance: float, color: str) -> None:
    """Draw the value and its interval in multiples of what chance gives, which is the grey field."""
    start, width = _COLUMNS["strip"] + 0.005, _COLUMNS["verdict"] - _COLUMNS["strip"] - 0.04

    def at(value: float) -> float:
        return start + width * min(max(value / chance, 0.0), _REACH) / _REACH

    axes.hlines(y, at(0.0), at(chance), color=CHANCE, lw=9.0)
    if result.lower is not None and result.upper is not None:
        axes.hlines(y, at(result.lower), at(result.upper), color=color, lw=1.6)
    marker = ">" if result.value > _REACH * chance else "o"
    axes.plot(at(result.value), y, marker=marker, color=color, ms=6.0, ls="none")
