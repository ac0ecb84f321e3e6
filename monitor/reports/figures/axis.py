"""A probability axis on the axes of a figure."""

from matplotlib.axes import Axes

from monitor.reports.diagrams.axis import ProbabilityAxis
from monitor.reports.formatting import tick


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
