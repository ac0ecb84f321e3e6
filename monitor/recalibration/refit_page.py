"""What came of several recalibration methods on a file, as a page that needs nothing else, and as one picture."""

from typing import Any, Final, NamedTuple

from markupsafe import Markup
from matplotlib.figure import Figure

from monitor.recalibration.refit_trial import Trial
from monitor.recalibration.refit_words import (
    BEST,
    HEADINGS,
    advice,
    columns_shown,
    describe,
    head_lines,
    legend_of,
    reasons_of,
    rows_of,
)
from monitor.reports.figures import to_png, to_svg
from monitor.reports.figures.recalibration import refit_figures
from monitor.reports.page import PAGES
from monitor.reports.plain import plain
from monitor.reports.tables import value_text

_TONES: Final = {"bold green": "well", "green": "well", "yellow": "mind", "bold red": "bad", "dim": "dim", "": ""}
"""A terminal's style -> the page's."""

_TITLES: Final = {
    "reliability": "Before and after",
    "mlce_by_gamma": "The largest error among rows that are alike",
    "local_map": "Where among the features predictions are too high or too low",
    "segments": "The worst segments, before and after",
}


class _Cell(NamedTuple):
    """One field of a table; what is below stands smaller in a second line."""

    text: str
    tone: str = ""
    below: str = ""


def refit_page(trial: Trial, name: str) -> bytes:
    """One HTML file: advice, the table, and figures of the best method, with nothing to be loaded from anywhere."""
    shown = trial.shown
    pictures = [
        {"title": f"{_TITLES[key]}: {shown.method.name}", "explanation": "", "svg": Markup(to_svg(figure))}  # noqa: S704 - our own
        for key, figure in _figures(trial).items()
    ]
    return PAGES.get_template("refit.html").render(**_words(trial, name), pictures=pictures, notes=trial.notes).encode()


def refit_fragment(trial: Trial, name: str) -> str:
    """What a notebook shows: the words and tables of the page."""
    return PAGES.get_template("notebook.html").render(**_words(trial, name))


def _words(trial: Trial, name: str) -> dict[str, Any]:
    return {
        "title": f"Recalibration of {plain(name)}",
        "lead": _Cell(advice(trial), "mind" if trial.best is None else "well"),
        "sections": [_methods(trial, name), *_segments(trial)],
        "cautions": trial.cautions,
    }


def refit_picture(trial: Trial, name: str) -> bytes:
    """One PNG: the reliability diagrams before and after."""
    del name
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


def _methods(trial: Trial, name: str) -> dict[str, Any]:
    headings = columns_shown(trial)
    rows = []
    for row in rows_of(trial):
        tone = _TONES[row.verdict.style]
        cells = (
            _Cell(row.name, "well" if row.verdict is BEST else ""),
            *(_Cell(each.text, "", each.below) for each in (row.log_loss, row.brier, row.smce, row.mlce)),
            _Cell(row.evidence),
            _Cell(row.verdict.value, tone),
        )
        by_heading = dict(zip(HEADINGS, cells, strict=True))
        rows.append([by_heading[heading] for heading in headings])
    said = [describe(trial.shown)] if trial.best is not None else []
    return {
        "title": "The methods",
        "headings": headings,
        "rows": rows,
        "before": head_lines(trial, name),
        "after": [*legend_of(trial), *said, *reasons_of(trial)],
    }


def _segments(trial: Trial) -> list[dict[str, Any]]:
    shown = trial.shown
    found = [] if shown.comparison is None else shown.comparison.document["segments"]
    if not found:
        return []
    rows = [
        [
            _Cell(plain(each["segment"])),
            _Cell(f"{each['n']:,}"),
            *(
                _Cell(value_text(each[side][key], "ratio"))
                for key in ("smce", "ece")
                for side in ("none", "challenger")
            ),
        ]
        for each in found
    ]
    after = shown.method.name
    headings = ("segment", "n", "smCE, no map", f"smCE, {after}", "ECE, no map", f"ECE, {after}")
    return [{"title": "Segments, worst first", "headings": headings, "rows": rows, "before": [], "after": []}]
