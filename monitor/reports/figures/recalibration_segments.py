"""The worst segments before recalibration, and what became of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter

from monitor.errors import NotEnoughData
from monitor.reports.figures.style import (
    BLUE,
    CHANCE,
    GREY,
    INK,
    ORANGE,
    SMALL_SIZE,
    TEXT_SIZE,
    YELLOW,
    dress,
    frame,
    legend,
    new_figure,
)
from monitor.reports.figures.words import count, points

CAPTION: Final = (
    "How to read it: each row is one segment, with its number of events that no map had seen. The hollow dot is its "
    "error (smCE) before, the full one after; the line is blue where it fell and orange where it rose. Up to the grey "
    "bar's end a calibrated model may show by chance, the further the fewer events there are."
)
MOST: Final = 12
_WORST: Final = 8
_ROW: Final = 0.36
_LONGEST: Final = 26


@dataclass(frozen=True, slots=True)
class SegmentRow:
    """One segment under several maps.

    Attributes
    ----------
    name
        ``region=eu``.
    n
        Number of its held-out events.
    before, after
        Its smCE with no map, and with the one that is asked about.
    champion
        That with the one that serves, if there is one.
    chance
        What 95% of calibrated models stay below there, that make the predictions of the map asked about; None where it
        is not known.
    """

    name: str
    n: int
    before: float
    after: float
    champion: float | None = None
    chance: float | None = None

    @property
    def rose(self) -> bool:
        """Whether the error is larger after, and more than chance."""
        return self.after > max(self.before, self.chance or 0.0)


def segments_figure(rows: Sequence[SegmentRow]) -> Figure:
    """The segments that were worst, and those that became so, before and after.

    Parameters
    ----------
    rows
        In any order; at most 12 are drawn: the 8 that were worst before, then those that are worst after.

    Raises
    ------
    NotEnoughData
        There is no row.
    """
    if not rows:
        raise NotEnoughData("a picture of segments needs at least 1 segment, got 0")
    ordered = sorted(rows, key=lambda row: -row.before)
    kept = ordered[:_WORST]
    kept += sorted(ordered[_WORST:], key=lambda row: -row.after)[: MOST - len(kept)]
    shown = sorted(kept, key=lambda row: -row.before)
    height = 3.3 + _ROW * len(shown)
    figure = new_figure(height)
    champion = any(row.champion is not None for row in shown)
    grid = frame(figure, height, _title(ordered), _caption(len(rows)), left=2.6, right=1.05, above=0.3)
    axes = figure.add_subplot(grid[0, 0])
    dress(axes, grid="x")
    for y, row in enumerate(shown):
        _draw_row(axes, y, row)
    axes.set_yticks(range(len(shown)), [""] * len(shown))
    axes.tick_params(axis="y", length=0.0)
    axes.spines["left"].set_visible(False)
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.set_xlim(left=0.0)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100.0 * value:.3g}"))
    axes.set_xlabel("error, in points")
    handles = [
        Line2D([], [], color=INK, marker="o", mfc="white", ms=7.0, ls="none", label="before"),
        *([Line2D([], [], color=YELLOW, marker="D", ms=5.5, ls="none", label="champion")] if champion else []),
        Line2D([], [], color=INK, marker="o", ms=7.0, ls="none", label="after"),
        Line2D([], [], color=CHANCE, lw=7.0, label="chance"),
    ]
    legend(axes, handles, columns=len(handles))
    return figure


def _draw_row(axes: Axes, y: int, row: SegmentRow) -> None:
    place = axes.get_yaxis_transform()
    name = row.name if len(row.name) <= _LONGEST else f"{row.name[: _LONGEST - 1]}\N{HORIZONTAL ELLIPSIS}"
    width = axes.get_position().width * 8.0
    axes.text(-0.15 / width, y - 0.04, name, transform=place, ha="right", va="bottom", size=TEXT_SIZE, color=INK)
    axes.text(
        -0.15 / width, y + 0.06, f"{count(row.n)} events", transform=place, ha="right", va="top", size=7.5, color=GREY
    )
    color = ORANGE if row.after > row.before else BLUE
    if row.chance is not None:
        axes.barh(y, row.chance, height=0.5, color=CHANCE, zorder=1)
    axes.plot([row.before, row.after], [y, y], color=color, lw=2.4, zorder=2, solid_capstyle="butt")
    if row.champion is not None:
        axes.plot(row.champion, y, marker="D", ms=5.5, color=YELLOW, ls="none", zorder=3)
    axes.plot(row.before, y, marker="o", ms=7.0, mfc="white", mec=color, mew=1.6, ls="none", zorder=3)
    axes.plot(row.after, y, marker="o", ms=7.5, color=color, ls="none", zorder=4)
    axes.text(
        1.0 + 0.1 / width,
        y,
        f"{100.0 * row.before:.1f} \N{RIGHTWARDS ARROW} {100.0 * row.after:.1f}",
        transform=place,
        va="center",
        size=SMALL_SIZE,
        color=color,
    )


def _caption(number: int) -> str:
    return CAPTION + (
        f" {MOST} of {number} segments are shown: the worst before, and the worst after." if number > MOST else ""
    )


def _title(rows: Sequence[SegmentRow]) -> str:
    worst = rows[0]
    known = [row for row in rows if row.chance is not None]
    text = f"Worst segment before, {_short(worst.name)}: {points(worst.before)} off, now {points(worst.after)}"
    rose = [row.name for row in rows if row.rose]
    if rose:
        which = f"{_short(rose[0])} is" if len(rose) == 1 else f"{len(rose)} of {len(rows)} are"
        return f"{text}\n{which} worse than before, beyond chance"
    if known:
        within = sum(row.after <= (row.chance or 0.0) for row in known)
        return f"{text}\nwithin chance after: {within} of {len(known)} segments, {_before(known)} before"
    return text


def _before(known: Sequence[SegmentRow]) -> int:
    return int(np.sum([row.before <= (row.chance or 0.0) for row in known]))


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}\N{HORIZONTAL ELLIPSIS}"
