"""Pictures of calibration, made to be read by people who are not statisticians.

One figure a file. Each function returns a :class:`matplotlib.figure.Figure`; nothing here knows pyplot or keeps any
state, so figures may be drawn in many threads. :func:`save`, :func:`to_svg` and :func:`to_png` write them, the same
bytes for the same figure.
"""

from monitor.reports.figures.comparison import DifferenceRow, comparison_figure
from monitor.reports.figures.gce_comparison import gce_figure
from monitor.reports.figures.history import Moment, history_figure
from monitor.reports.figures.local_map import local_map_figure
from monitor.reports.figures.output import save, to_png, to_svg
from monitor.reports.figures.picture import MeasureRow, Picture
from monitor.reports.figures.reliability import reliability_diagram
from monitor.reports.figures.report import report_figures
from monitor.reports.figures.sheet import report_sheet
from monitor.reports.figures.tce_diagram import tce_diagram
from monitor.reports.figures.witness import witness_figure

__all__ = [
    "DifferenceRow",
    "MeasureRow",
    "Moment",
    "Picture",
    "comparison_figure",
    "gce_figure",
    "history_figure",
    "local_map_figure",
    "reliability_diagram",
    "report_figures",
    "report_sheet",
    "save",
    "tce_diagram",
    "to_png",
    "to_svg",
    "witness_figure",
]
