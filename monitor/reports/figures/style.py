"""How every figure looks: one palette, one set of sizes, one place for title and caption.

The colours are those of Okabe and Ito, which people who see few colours can tell apart; what matters is said by words
or by form as well.
"""

import io
from collections.abc import Callable, Sequence
from typing import Final, Literal, TypedDict, Unpack

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure, FigureBase
from matplotlib.font_manager import FontProperties
from matplotlib.gridspec import GridSpec, SubplotSpec
from matplotlib.textpath import text_to_path

from monitor.reports.diagrams.axis import ProbabilityAxis
from monitor.reports.formatting import tick

Grid = Literal["x", "y", "both", ""]

WIDTH: Final = 8.0
"""Inches; 800 pixels on a page."""

PNG_DPI: Final = 150
"""Figures are 8 inches wide: 1,200 pixels, sharp also where a page shows them at 800."""
_NOTEBOOK_DPI: Final = 120
"""Below it letters are wider than lines are broken for."""

BLUE: Final = "#0072B2"
ORANGE: Final = "#D55E00"
GREEN: Final = "#007A5A"
YELLOW: Final = "#E69F00"
SKY: Final = "#56B4E9"
PINK: Final = "#CC79A7"
INK: Final = "#222222"
GREY: Final = "#6B6B6B"
PALE: Final = "#D5D8DC"
PAPER: Final = "#FFFFFF"

PREDICTED: Final = BLUE
"""What the model says."""
HAPPENED: Final = ORANGE
"""What came true, and what speaks against the model."""
CHANCE: Final = PALE
"""Where a calibrated model would be."""

TITLE_SIZE: Final = 14.0
TEXT_SIZE: Final = 10.5
SMALL_SIZE: Final = 9.5
MIN_SIZE: Final = 7.0
"""Below it nothing can be read."""

MARGIN: Final = 0.22
"""Inches between a figure's edge and its text."""


def new_figure(height: float) -> Figure:
    """Create an empty figure of the common width; height in inches."""
    return NotebookFigure(figsize=(WIDTH, height), facecolor=PAPER)


def to_png(figure: Figure, dpi: int = PNG_DPI) -> bytes:
    """Draw the figure as a PNG, of 150 dots per inch unless said otherwise."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=dpi, metadata={"Software": None})
    return buffer.getvalue()


class NotebookFigure(Figure):
    """A figure that a notebook shows without pyplot."""

    def _repr_png_(self) -> bytes:
        return to_png(self, _NOTEBOOK_DPI)


def _ruler(size: float, *, bold: bool) -> Callable[[str], float]:
    """Return a function that measures text of that size, in inches."""
    font = FontProperties(size=size, weight="bold" if bold else "normal")
    return lambda text: float(text_to_path.get_text_width_height_descent(text, font, ismath=False)[0]) / 72.0


def wrapped(text: str, width: float, size: float, *, bold: bool = False) -> str:
    """Break text into lines that fit into ``width`` inches at ``size`` points; its own line breaks are kept."""
    inches = _ruler(size, bold=bold)
    space = inches(" ")
    lines = []
    for paragraph in text.split("\n"):
        line: list[str] = []
        used = 0.0
        for word in paragraph.split():
            needed = inches(word)
            if line and used + space + needed > width:
                lines.append(" ".join(line))
                line, used = [], 0.0
            used += needed + (space if line else 0.0)
            line.append(word)
        lines.append(" ".join(line))
    return "\n".join(lines)


def height_of(text: str, size: float) -> float:
    """Inches that the text's lines take at ``size`` points, with the space between them."""
    return len(text.split("\n")) * size * 1.35 / 72.0


def frame(
    figure: FigureBase,
    height: float,
    title: str,
    caption: str,
    *,
    rows: Sequence[float] = (1.0,),
    columns: Sequence[float] = (1.0,),
    left: float = 1.05,
    right: float = 0.25,
    below: float = 0.55,
    above: float = 0.0,
    gap: float = 0.25,
) -> GridSpec:
    """Write the title above and the caption below, and part what is left between them.

    Parameters
    ----------
    figure
        A whole figure or a part of one, ``WIDTH`` wide.
    height
        Its height, inches.
    title
        What there is to see, in words.
    caption
        How to read it.
    rows, columns
        Relative heights and widths of the axes.
    left, right, below, above
        Inches for the labels of the axes, and for a legend above them.
    gap
        Inches between the axes.

    Returns
    -------
    GridSpec
        For ``figure.add_subplot(grid[row, column])``.
    """
    heading = wrapped(title, WIDTH - 2 * MARGIN, TITLE_SIZE, bold=True)
    footing = wrapped(caption, WIDTH - 2 * MARGIN, SMALL_SIZE)
    x, top, bottom = MARGIN / WIDTH, 1.0 - MARGIN / height, 0.13 / height
    figure.text(x, top, heading, size=TITLE_SIZE, weight="bold", color=INK, va="top", linespacing=1.2)
    figure.text(x, bottom, footing, size=SMALL_SIZE, color=GREY, va="bottom", linespacing=1.25)
    top = height - MARGIN - 0.18 - above - height_of(heading, TITLE_SIZE)
    bottom = 0.13 + height_of(footing, SMALL_SIZE) + below
    drawn_height, drawn_width = top - bottom, WIDTH - left - right
    return figure.add_gridspec(
        len(rows),
        len(columns),
        height_ratios=rows,
        width_ratios=columns,
        left=left / WIDTH,
        right=1.0 - right / WIDTH,
        top=top / height,
        bottom=bottom / height,
        # gridspec counts gaps in mean heights and widths of the axes.
        hspace=gap * len(rows) / max(drawn_height - gap * (len(rows) - 1), 0.1),
        wspace=gap * len(columns) / max(drawn_width - gap * (len(columns) - 1), 0.1),
    )


class Layout(TypedDict, total=False):
    """Options of :func:`frame`."""

    rows: Sequence[float]
    columns: Sequence[float]
    left: float
    right: float
    below: float
    above: float
    gap: float


def framed(height: float, title: str, caption: str, **layout: Unpack[Layout]) -> tuple[Figure, GridSpec]:
    """Create a figure of its own with a frame: see :func:`frame`."""
    figure = new_figure(height)
    return figure, frame(figure, height, title, caption, **layout)


def panel(figure: FigureBase, cell: SubplotSpec, *, grid: Grid = "y", share_x: Axes | None = None) -> Axes:
    """Add axes to a figure, and :func:`dress` them."""
    axes = figure.add_subplot(cell, sharex=share_x)
    dress(axes, grid=grid)
    return axes


def dress(axes: Axes, *, grid: Grid = "y") -> None:
    """Light axes: no box, a pale grid along x, y or both behind everything."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(GREY)
    axes.tick_params(labelsize=SMALL_SIZE, colors=GREY, labelcolor=INK, length=3.0)
    axes.set_axisbelow(True)
    if grid:
        axes.grid(visible=True, axis=grid, color="#E8EAED", lw=0.8)
    # Labels of axes that stand above each other are aligned.
    axes.yaxis.set_label_coords(-0.64 / axes_size(axes)[0], 0.5)
    axes.xaxis.label.set(size=TEXT_SIZE, color=INK)
    axes.yaxis.label.set(size=TEXT_SIZE, color=INK)


def axes_size(axes: Axes) -> tuple[float, float]:
    """Width and height of axes in a figure of the common width."""
    place = axes.get_position()
    return place.width * WIDTH, place.height * axes.get_figure(root=True).get_figheight()  # type: ignore[union-attr]


def legend(axes: Axes, *handles: Artist, columns: int, above: float = 0.0) -> None:
    """Put a legend above the axes, where it hides nothing; ``above`` inches over them where they have a title."""
    axes.legend(
        handles=list(handles),
        loc="lower left",
        bbox_to_anchor=(-0.01, 1.0 + above / axes_size(axes)[1]),
        ncols=columns,
        frameon=False,
        fontsize=SMALL_SIZE,
        borderaxespad=0.2,
        columnspacing=1.6,
    )


def fitting(text: str, width: float, size: float, *, bold: bool = False) -> tuple[str, float]:
    """Cut text if need be, and choose the points, ``size`` or less, at which it fits into ``width`` inches."""
    inches = _ruler(size, bold=bold)
    max_inches = width * size / MIN_SIZE
    if inches(text) > max_inches:
        kept = next(
            (n for n in range(len(text) - 1, 0, -1) if inches(f"{text[:n]}\N{HORIZONTAL ELLIPSIS}") <= max_inches), 0
        )
        text = f"{text[:kept]}\N{HORIZONTAL ELLIPSIS}"
    return text, max(min(size, size * width / max(inches(text), 1e-9)), MIN_SIZE)


def name_panel(axes: Axes, name: str, remark: str) -> None:
    """Write a name in bold above axes, and a remark below that, no wider than the axes."""
    width, height = axes_size(axes)
    for text, above, color, size, weight in (
        (name, 0.22, INK, TEXT_SIZE, "bold"),
        (remark, 0.05, GREY, SMALL_SIZE, "normal"),
    ):
        shown, points = fitting(text, width, size, bold=weight == "bold")
        axes.text(0.0, 1.0 + above / height, shown, transform=axes.transAxes, color=color, size=points, weight=weight)


def show_on_x(axes: Axes, axis: ProbabilityAxis, *, labels: bool = True) -> None:
    """Make it the horizontal axis."""
    axes.set_xlim(*_padded(axis))
    axes.set_xticks(axis.place(axis.ticks()).tolist(), [tick(p) for p in axis.ticks()])
    axes.tick_params(axis="x", labelbottom=labels)


def show_on_y(axes: Axes, axis: ProbabilityAxis, *, labels: bool = True) -> None:
    """Make it the vertical axis."""
    axes.set_ylim(*_padded(axis))
    axes.set_yticks(axis.place(axis.ticks()).tolist(), [tick(p) for p in axis.ticks()])
    axes.tick_params(axis="y", labelleft=labels)


def _padded(axis: ProbabilityAxis) -> tuple[float, float]:
    first, last = axis.limits
    return first - 0.02 * (last - first), last + 0.02 * (last - first)
