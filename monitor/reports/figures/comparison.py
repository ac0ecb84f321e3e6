"""Two models, or two periods: by which measures they differ for certain."""

import math
from collections.abc import Mapping, Sequence
from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from monitor.errors import NotEnoughData
from monitor.measures import MEASURES
from monitor.reports.evaluation.compare import Difference
from monitor.reports.figures.style import CHANCE, GREEN, GREY, HAPPENED, INK, SMALL_SIZE, TEXT_SIZE, framed
from monitor.reports.formatting import value_text

CAPTION: Final = (
    "How to read it: the point is the difference of the two, the line its 95% interval; each row has its own scale. "
    "Where the line does not touch the middle, it is more than chance. "
)
_LESS_IS_BETTER: Final = "For all of these measures, less is better."
_LESS_IS_LESS: Final = "The two differ in prevalence, so a lower value does not say which is better calibrated."
LEAD: Final = MEASURES["smce"].title
"""What the title speaks of first, as the lead of a report does."""
_ROW: Final = 0.36
_LONGEST: Final = 12
"""Characters of a name that fit above a column."""


def comparison_figure(
    differences: Mapping[str, Difference], first: str, second: str, *, less_is_better: bool = True
) -> Figure:
    """Draw the differences of two reports, one row per measure.

    Parameters
    ----------
    differences
        The measures that both have, by title.
    first, second
        What the two are called.
    less_is_better
        False where the two differ in prevalence, on which all of these measures depend.

    Raises
    ------
    NotEnoughData
        There is no measure.
    """
    if not differences:
        raise NotEnoughData("a comparison needs at least 1 measure that both reports have, got 0")
    lower, higher = ("better", "worse") if less_is_better else ("lower", "higher")
    title = _title(differences, first, second, lower, higher)
    caption = CAPTION + (_LESS_IS_BETTER if less_is_better else _LESS_IS_LESS)
    height = 2.3 + _ROW * len(differences)
    figure, grid = framed(height, title, caption, left=0.22, below=0.1, above=0.1)
    axes = figure.add_subplot(grid[0, 0])
    axes.set_axis_off()
    axes.set_xlim(0.0, 1.0)
    axes.set_ylim(len(differences) - 0.4, -1.2)
    one, other = _headings(first, second)
    for x, text, side in (
        (0.0, "measure", "left"),
        (0.36, one, "right"),
        (0.49, other, "right"),
        (0.56, f"\N{LEFTWARDS ARROW} {other} {lower}", "left"),
        (1.0, f"{other} {higher} \N{RIGHTWARDS ARROW}", "right"),
    ):
        axes.text(x, -0.8, text, size=SMALL_SIZE, color=GREY, ha=side, va="center")
    axes.hlines(-0.45, 0.0, 1.0, color=CHANCE, lw=1.0)
    axes.vlines(0.78, -0.35, len(differences) - 0.5, color=GREY, lw=1.0)
    colors = (GREEN, HAPPENED) if less_is_better else (INK, INK)
    for y, (name, difference) in enumerate(differences.items()):
        _draw_row(axes, y, name, difference, colors)
    return figure


def _headings(first: str, second: str) -> tuple[str, str]:
    """Shorten names so that they fit above columns; their ends stay, in which dates and versions differ."""
    one, other = (
        name if len(name) <= _LONGEST else f"\N{HORIZONTAL ELLIPSIS}{name[1 - _LONGEST :]}" for name in (first, second)
    )
    return (one, other) if one != other else ("first", "second")


def _draw_row(axes: Axes, y: int, name: str, row: Difference, colors: tuple[str, str]) -> None:
    color = GREY if not row.significant else colors[row.difference >= 0.0]
    axes.text(0.0, y, name, size=TEXT_SIZE, color=INK, va="center")
    for x, value in ((0.36, row.first), (0.49, row.second)):
        axes.text(x, y, value_text(value, row.unit), size=TEXT_SIZE, color=INK, ha="right", va="center")
    if not math.isfinite(row.difference):
        axes.text(0.78, y, "no finite difference", size=SMALL_SIZE, color=GREY, ha="center", va="center")
        return
    ends = [end for end in (row.lower, row.difference, row.upper) if end is not None]
    scale = 0.2 / (max(abs(end) for end in ends) or 1.0)
    if row.lower is not None and row.upper is not None:
        axes.hlines(y, 0.78 + scale * row.lower, 0.78 + scale * row.upper, color=color, lw=2.0)
    axes.plot(0.78 + scale * row.difference, y, marker="o", ms=6.5, color=color, ls="none")


def _title(differences: Mapping[str, Difference], first: str, second: str, lower: str, higher: str) -> str:
    """State the difference by smCE, or the first measure there is, and list the others that are significant."""
    name = LEAD if LEAD in differences else next(iter(differences))
    lead = differences[name]
    if lead.lower is None or lead.upper is None:
        one, two = (value_text(value, lead.unit) for value in (lead.first, lead.second))
        return f"{name} is {one} for {first} and {two} for {second};\nwithout draws there is no interval"
    if not lead.significant:
        heading = f"Neither is better calibrated for certain (by {name})"
    else:
        one, two = (second, first) if lead.difference < 0.0 else (first, second)
        heading = (
            f"{one} is better calibrated than {two} (by {name})"
            if lower == "better"
            else f"{name} of {one} is lower than that of {two}"
        )
    others = {title: row.difference < 0.0 for title, row in differences.items() if title != name and row.significant}
    parts = [
        f"{word} by {_some([title for title, falls in others.items() if falls == (word == lower)])}"
        for word in (lower, higher)
        if (word == lower) in others.values()
    ]
    return f"{heading};\n{second} is {' and '.join(parts)}" if parts else heading


def _some(titles: Sequence[str]) -> str:
    return ", ".join(titles) if len(titles) <= 3 else f"{len(titles)} other measures"
