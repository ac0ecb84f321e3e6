"""Recalibration methods on a file, as a page and as a picture."""

from typing import Final

from matplotlib.figure import Figure

from monitor.recalibration.refit_file import Trial
from monitor.recalibration.refit_view import trial_view
from monitor.reports.figures.cells import Picture
from monitor.reports.figures.output import to_png
from monitor.reports.figures.recalibration import refit_figures
from monitor.reports.page import render_page

_TITLES: Final = {
    "reliability": "Before and after",
    "mlce_by_gamma": "The largest error among rows that are alike",
    "local_map": "Where among the features predictions are too high or too low",
    "segments": "The worst segments, before and after",
}


def refit_page(trial: Trial, name: str) -> bytes:
    """One HTML file: advice, the table of methods, and figures of the best one."""
    method = trial.shown.method.name
    pictures = [Picture(key, f"{_TITLES[key]}: {method}", "", figure) for key, figure in _figures(trial).items()]
    return render_page(trial_view(trial, name), pictures)


def refit_picture(trial: Trial, _name: str) -> bytes:
    """The reliability diagrams before and after, as PNG. The command line calls it as it calls :func:`refit_page`."""
    return to_png(before_and_after(trial))


def before_and_after(trial: Trial) -> Figure:
    """The reliability diagrams of the later rows before and after."""
    return _figures(trial, only_reliability=True)["reliability"]


def _figures(trial: Trial, *, only_reliability: bool = False) -> dict[str, Figure]:
    shown = trial.shown
    if shown.comparison is None:
        raise AssertionError("what is shown was fitted")
    return refit_figures(
        trial.data.held_out,
        shown.comparison.predictions,
        None if only_reliability else shown.comparison.phi,
        segments=() if only_reliability else shown.comparison.document["segments"],
        methods={"challenger": shown.method.name},
    )
