"""Reports by columns and spans of time: one measure of each, beside what chance shows."""

from collections.abc import Mapping
from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from monitor.errors import NotEnoughData
from monitor.reports.evaluation.report import MeasureResult
from monitor.reports.evaluation.segments import SegmentReport
from monitor.reports.figures.style import (
    CHANCE,
    GREEN,
    GREY,
    HAPPENED,
    INK,
    SMALL_SIZE,
    TEXT_SIZE,
    WIDTH,
    fitting,
    framed,
)
from monitor.reports.formatting import value_text

MAX_ROWS: Final = 30
"""More do not fit onto a page; those with the least q are drawn."""

_CAPTION: Final = (
    "How to read it: the point is the measure, the line its 95% interval. The grey bar ends where 95% of calibrated "
    "models would lie. Orange: the group is miscalibrated, by a test corrected for the number of groups."
)
_ROW: Final = 0.3
_NAME: Final = 0.3
_BARS: Final = (0.52, 1.0)
"""Where the names end and the bars lie, in parts of the width."""


def groups_figure(groups: Mapping[str, SegmentReport], measure: str, title: str) -> Figure:
    """Draw one measure of each group, in the order of the groups.

    Parameters
    ----------
    groups
        Name -> report.
    measure
        Key of the measure, ``smce``.
    title
        Its name for people.

    Raises
    ------
    NotEnoughData
        No group has the measure.
    """
    rows = {name: group for name, group in groups.items() if measure in group.report.measures}
    if not rows:
        raise NotEnoughData(f"no group has enough outcomes for {title}")
    shown = sorted(rows, key=lambda name: 2.0 if (q := rows[name].q_value) is None else q)[:MAX_ROWS]
    rows = {name: group for name, group in rows.items() if name in shown}
    wrong = sum(group.significant for group in groups.values())
    heading = f"{title} of {len(groups):,} groups: {wrong:,} miscalibrated" + (
        f"; the {len(rows)} with the least q are drawn" if len(rows) < len(groups) else ""
    )
    figure, grid = framed(1.75 + _ROW * len(rows), heading, _CAPTION, left=0.22, right=0.22, below=0.1, above=0.1)
    axes = figure.add_subplot(grid[0, 0])
    axes.set_axis_off()
    axes.set_xlim(0.0, 1.0)
    axes.set_ylim(len(rows) - 0.4, -1.2)
    for x, text, side in ((0.0, "group", "left"), (0.39, "outcomes", "right"), (0.49, title, "right")):
        axes.text(x, -0.8, text, size=SMALL_SIZE, color=GREY, ha=side, va="center")
    axes.hlines(-0.45, 0.0, 1.0, color=CHANCE, lw=1.0)
    results = {name: group.report.measures[measure] for name, group in rows.items()}
    largest = max(end for result in results.values() for end in _ends(result)) or 1.0
    for y, (name, result) in enumerate(results.items()):
        _draw_row(axes, (y, name), rows[name], result, (_BARS[1] - _BARS[0]) / largest)
    return figure


def _ends(result: MeasureResult) -> list[float]:
    return [end for end in (result.value, result.upper, result.null_q95) if end is not None]


def _draw_row(axes: Axes, place: tuple[int, str], group: SegmentReport, result: MeasureResult, scale: float) -> None:
    y, name = place
    color = GREY if group.q_value is None else HAPPENED if group.significant else GREEN
    label, size = fitting(name or "all", _NAME * WIDTH, TEXT_SIZE)
    axes.text(0.0, y, label, size=size, color=INK, va="center")
    axes.text(0.39, y, f"{group.report.n:,}", size=TEXT_SIZE, color=INK, ha="right", va="center")
    axes.text(0.49, y, value_text(result.value, result.unit), size=TEXT_SIZE, color=INK, ha="right", va="center")
    if result.null_q95 is not None:
        axes.hlines(y, _BARS[0], _BARS[0] + scale * result.null_q95, color=CHANCE, lw=9.0)
    if result.lower is not None and result.upper is not None:
        axes.hlines(y, _BARS[0] + scale * result.lower, _BARS[0] + scale * result.upper, color=color, lw=2.0)
    axes.plot(_BARS[0] + scale * result.value, y, marker="o", ms=6.0, color=color, ls="none")
