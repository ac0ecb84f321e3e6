"""One model under the 32 members of the general calibration error: how much the choice of a measure decides."""

from collections.abc import Mapping
from typing import Final

import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from monitor.classes.gce import FAMILY, GceMember
from monitor.reports.figures.style import GREY, INK, PAPER, PREDICTED, SMALL_SIZE, TEXT_SIZE, framed, panel
from monitor.reports.formatting import value_text

HEIGHT: Final = 6.6
CAPTION: Final = (
    "How to read it: each field is the calibration error of the same predictions under one way of measuring it; darker "
    "is larger. Those with a name are the usual ones. Values of different fields do not compare: before saying that a "
    "model is better, say by which."
)
_COLORS: Final = LinearSegmentedColormap.from_list("error", [PAPER, PREDICTED])


def gce_figure(family: Mapping[GceMember, float]) -> Figure:
    """Draw the members of the general calibration error: binning and labels down, threshold and norm across.

    Parameters
    ----------
    family
        What :func:`monitor.classes.gce_family` finds. A member that is missing is left blank.
    """
    members = {member: family[member] for member in FAMILY if member in family}
    smallest, largest = (value_text(extreme(members.values()), "ratio") for extreme in (min, max))
    title = f"The same predictions, {len(members)} measures:\nthe error is {smallest} to {largest}, as one chooses"
    figure, grid = framed(HEIGHT, title, CAPTION, left=2.7, above=0.5, below=0.12)
    axes = panel(figure, grid[0, 0], grid="")
    lines = list(dict.fromkeys(member[:3] for member in FAMILY))
    columns = list(dict.fromkeys(member[3:] for member in FAMILY))
    values = np.array([[members.get(GceMember(*line, *column), np.nan) for column in columns] for line in lines])
    top = float(np.nanmax(values)) or 1.0
    axes.imshow(values, cmap=_COLORS, vmin=0.0, vmax=1.25 * top, aspect="auto")
    for i, line in enumerate(lines):
        for j, column in enumerate(columns):
            member, value = GceMember(*line, *column), float(values[i, j])
            text = "none above" if np.isnan(value) else value_text(value, "ratio")
            field = axes.text(j, i, f"{member.name}  {text}" if member.name else text, ha="center", va="center")
            color, weight = GREY if np.isnan(value) else INK, "bold" if member.name else "normal"
            field.set(size=TEXT_SIZE, weight=weight, color=color)
    axes.set_yticks(range(len(lines)), [GceMember(*line, *columns[0]).grouping for line in lines])
    axes.set_xticks(range(len(columns)), [GceMember(*lines[0], *column).weighing for column in columns])
    axes.tick_params(top=True, labeltop=True, bottom=False, labelbottom=False, length=0.0, labelsize=SMALL_SIZE)
    axes.spines[:].set_visible(False)
    return figure
