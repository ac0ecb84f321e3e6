"""Recalibration methods on a file, as a page and as a picture."""

from typing import TYPE_CHECKING

from monitor.recalibration.refit_figures import map_labels, observed_by, refit_figures
from monitor.recalibration.refit_file import Trial
from monitor.recalibration.refit_view import trial_view
from monitor.reports.page import render_page
from monitor.scores import ScoreTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing


def refit_page(trial: Trial, name: str) -> bytes:
    """One HTML file: advice, the table of methods, and figures of the best one."""
    figures = refit_figures(trial.shown, trial.data.held_out, "rows")
    return render_page(trial_view(trial, name), list(figures.values()))


def before_and_after(trial: Trial) -> "Drawing":
    """The reliability diagrams of the later rows before and after."""
    # matplotlib takes a second to load, and a page does without it.
    from monitor.reports.figures.reliability import before_and_after_figure  # noqa: PLC0415

    held_out, observed = trial.data.held_out, observed_by(trial.shown, trial.data.held_out)
    weight = None if held_out.is_whole else held_out.weight
    labels = map_labels(trial.shown)
    return before_and_after_figure(
        {label: ScoreTable.from_events(*observed[name], weight) for name, label in labels.items()}
    )
