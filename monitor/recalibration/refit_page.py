"""Recalibration methods on a file, as a page and as a picture."""

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from monitor.errors import NotEnoughData
from monitor.local.calibration import confidence_and_hit
from monitor.recalibration.comparison import Comparison
from monitor.recalibration.refit_file import Trial
from monitor.recalibration.refit_view import trial_view
from monitor.reports.diagrams.document import number
from monitor.reports.diagrams.plane import plane_errors
from monitor.reports.diagrams.refit import (
    MAX_SEGMENTS,
    GammaCurve,
    SegmentRow,
    gamma_curves,
    map_labels,
    segment_rows,
    worst_rows,
)
from monitor.reports.formatting import count, points
from monitor.reports.page import Figure, reliability, render_page
from monitor.scores import ScoreTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

_GAMMA: Final = (
    "Gamma says how alike predictions must be to count as neighbours; on the left only the most alike count, on the "
    "right all of about the same prediction do. The shaded field is where chance puts 95% of calibrated models (the "
    "widest of these maps'). A line begins where neighbourhoods are worth 50 events."
)
_PLANE: Final = (
    "Each point of a map is a kind of event; events that are alike lie close together. White: fewer than 50 events "
    "are near."
)
_SEGMENTS: Final = (
    "The hollow dot is the error (smCE) before, the full one after. Up to the shaded bar's end a calibrated model may "
    "show by chance, the further the fewer events there are."
)


def refit_page(trial: Trial, name: str) -> bytes:
    """One HTML file: advice, the table of methods, and figures of the best one."""
    return render_page(trial_view(trial, name), _figures(trial))


def refit_picture(trial: Trial, _name: str) -> bytes:
    """The reliability diagrams before and after, as PNG. The command line calls it as it calls :func:`refit_page`."""
    from monitor.reports.figures.output import to_png  # noqa: PLC0415

    return to_png(before_and_after(trial))


def before_and_after(trial: Trial) -> "Drawing":
    """The reliability diagrams of the later rows before and after."""
    # matplotlib takes a second to load, and a page does without it.
    from monitor.reports.figures.recalibration import refit_figures  # noqa: PLC0415

    method, shown = _shown(trial)
    return refit_figures(trial.data.held_out, shown.predictions, methods={"challenger": method})["reliability"]


def _shown(trial: Trial) -> tuple[str, Comparison]:
    if trial.shown.comparison is None:
        raise AssertionError("what is shown was fitted")
    return trial.shown.method.name, trial.shown.comparison


def _figures(trial: Trial) -> list[Figure]:
    held_out, (method, shown) = trial.data.held_out, _shown(trial)
    labels = map_labels(shown.predictions, {"challenger": method})
    weight = None if held_out.is_whole else held_out.weight
    observed = {name: confidence_and_hit(shown.predictions[name], held_out.outcome) for name in labels}
    tables = [(label, ScoreTable.from_events(*observed[name], weight)) for name, label in labels.items()]
    figures = reliability("Later rows, before and after", tables, beside=True)
    # The report itself says what is too little; a picture of it would say nothing.
    if shown.phi is not None:
        raw = {label: shown.predictions[name] for name, label in labels.items()}
        with suppress(NotEnoughData):
            figures.append(_gamma(gamma_curves(raw, held_out.outcome, shown.phi, weight), method))
    if shown.phi is not None and shown.phi.shape[1] >= 2:
        # After another map another class may be the largest, so that each map has hits of its own.
        confidence, hits = ({labels[name]: pair[of] for name, pair in observed.items()} for of in (0, 1))
        with suppress(NotEnoughData):
            figures.append(_plane(confidence, hits, shown, held_out.weight, method))
    rows = segment_rows(held_out, observed, shown.document["segments"])
    return [*figures, _segments(rows, method)] if rows else figures


def _gamma(curves: Mapping[str, GammaCurve], method: str) -> Figure:
    """The largest local error of several maps against gamma, above that of a calibrated model and as measured."""
    one = next(iter(curves.values()))
    measured = np.flatnonzero(np.isfinite([curve.mlce for curve in curves.values()]).all(axis=0)).tolist()
    if not measured:
        raise NotEnoughData("no width of the neighbourhood gives enough events of 50 neighbours: take more events")

    def panel(title: str, *, raw: bool) -> dict[str, Any]:
        def shown(curve: GammaCurve, value: float, place: int) -> float | None:
            return number(100.0 * (value - (0.0 if raw else float(curve.null_mean[place]))))

        chance = [max(shown(curve, curve.null_q95[at], at) or 0.0 for curve in curves.values()) for at in measured]
        lines = [
            {"name": name, "values": [shown(curve, curve.mlce[at], at) for at in measured]}
            for name, curve in curves.items()
        ]
        return {"title": title, "from": 0, "lines": lines, "chance": chance}

    return {
        "kind": "lines",
        "title": f"The largest error among rows that are alike: {method}",
        "text": _GAMMA,
        "wide": True,
        "at": [round(float(one.gamma[at]), 3) for at in measured],
        "axis": "gamma",
        "unit": "points",
        "panels": [panel("Points above chance", raw=False), panel("Points, as measured", raw=True)],
    }


def _plane(
    confidence: Mapping[str, Any], hits: Mapping[str, Any], shown: Comparison, weight: Any, method: str
) -> Figure:
    if shown.phi is None:
        raise AssertionError("a plane is drawn of features")
    errors = plane_errors(confidence, hits, shown.phi[:, :2], weight)
    return {
        "title": f"Where among the features predictions are too high or too low: {method}",
        "text": _PLANE,
        "wide": True,
        **errors.document(list(confidence)),
    }


def _segments(rows: list[SegmentRow], method: str) -> Figure:
    worst = worst_rows(rows)
    left = f" {MAX_SEGMENTS} of {len(rows)} are shown: the worst before, and the worst after."
    serves = any(row.champion is not None for row in worst)
    headings = ["segment", "events", "before", *(["serves now"] if serves else []), "after"]
    return {
        "kind": "strips",
        "title": f"The worst segments, before and after: {method}",
        "text": _SEGMENTS + (left if len(rows) > len(worst) else ""),
        "columns": [{"heading": heading, "words": not place} for place, heading in enumerate(headings)],
        "rows": [
            {
                "cells": [
                    row.name,
                    count(row.n),
                    points(row.before),
                    *([] if not serves else ["-" if row.champion is None else points(row.champion)]),
                    points(row.after),
                ],
                "tone": "bad" if row.rose else "",
                "value": number(row.after),
                "hollow": number(row.before),
                "other": number(row.champion),
                "chance": number(row.chance),
            }
            for row in worst
        ],
        "drawn": "error",
    }
