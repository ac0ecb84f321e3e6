"""Figures of a compared map, as the page of a refit and the file of a recalibration show them; and that file."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from monitor.arrays import Floats
from monitor.errors import NotEnoughData
from monitor.local import mlce_curve
from monitor.local.calibration import confidence_and_hit
from monitor.recalibration.compare import Candidate, segments_of
from monitor.recalibration.comparison import ComparedSegment
from monitor.recalibration.refit_file import Trial
from monitor.recalibration.refit_view import trial_view
from monitor.reports.diagrams.document import number
from monitor.reports.diagrams.plane import plane_document
from monitor.reports.diagrams.reliability import on_cells, smce_result
from monitor.reports.formatting import count, points
from monitor.reports.page import Figure, reliability, render_page
from monitor.scores import ScoreTable
from monitor.scores.labelled import LabelledEvents

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

_MAPS: Final = {"none": "no map", "champion": "champion", "challenger": "new"}
"""Names of the maps in figures, in their order."""

MAX_SEGMENTS: Final = 12
_WORST: Final = 8
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


GAMMAS: Final[Sequence[float]] = tuple(0.05 * 2.0**k for k in range(9))
"""Widths from neighbourhoods of a few events to whole bins, the paper's .2 and .4 among them."""

_MIN_SHARE: Final = 0.05
"""Smallest share of points with enough neighbours. The maximum over fewer says little of the rest."""


class GammaCurve(NamedTuple):
    """The maximum local calibration error of one map, gamma by gamma.

    Attributes
    ----------
    gamma
        float64, shape (g,), ascending.
    mlce
        float64, shape (g,); nan where too few points have enough neighbours.
    null_mean, null_q95
        float64, shape (g,): mean and 95% point of a calibrated model that makes the same predictions.
    """

    gamma: Floats
    mlce: Floats
    null_mean: Floats
    null_q95: Floats


def refit_figures(candidate: Candidate, held_out: LabelledEvents, rows: str = "events") -> dict[str, Figure]:
    """Return the figures of a compared map by name, without those that need more data.

    Of many classes they show the largest probability against whether its class came true.

    Parameters
    ----------
    candidate
        The map, which was fitted.
    held_out
        The events that it was compared on.
    rows
        What the events are called.

    Returns
    -------
    ``reliability``, ``mlce_by_gamma``, ``local_map``, ``segments`` -> a figure.
    """
    labels, phi, method = map_labels(candidate), candidate.phi, candidate.method.name
    weight = None if held_out.is_whole else held_out.weight
    observed = observed_by(candidate, held_out)
    tables = [(label, ScoreTable.from_events(*observed[name], weight)) for name, label in labels.items()]
    (diagrams,) = reliability(f"Later {rows}, before and after", tables, beside=True)
    figures = {"reliability": diagrams}
    if phi is not None:
        raw = {label: candidate.predictions[name] for name, label in labels.items()}
        # The comparison itself says what is too little; a picture of it would say nothing.
        with suppress(NotEnoughData):
            curves = gamma_curves(raw, held_out.outcome, phi, weight)
            title = f"The largest error among {rows} that are alike: {method}"
            figures["mlce_by_gamma"] = _gamma(curves, title)
    if phi is not None and phi.shape[1] >= 2:
        # After another map another class may be the largest, so that each map has hits of its own.
        confidence, hits = ({labels[name]: pair[of] for name, pair in observed.items()} for of in (0, 1))
        with suppress(NotEnoughData):
            figures["local_map"] = {
                "title": f"Where among the features predictions are too high or too low: {method}",
                "text": _PLANE,
                "wide": True,
                **plane_document(confidence, hits, phi[:, :2], held_out.weight),
            }
    segments = [] if candidate.comparison is None else candidate.comparison.segments
    if segments:
        figures["segments"] = _segments(segments, _levels(held_out, *observed["challenger"]), method)
    return figures


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


def map_labels(candidate: Candidate) -> dict[str, str]:
    """Name each map as in the figures, in their order."""
    maps = {} if candidate.comparison is None else candidate.comparison.maps.by_name()
    return {name: _MAPS[name] if name == "none" else f"{_MAPS[name]}: {each.method}" for name, each in maps.items()}


def observed_by(candidate: Candidate, held_out: LabelledEvents) -> dict[str, tuple[Floats, Floats]]:
    """Return the predictions, or confidences, and the outcomes, or hits, of each map."""
    return {name: confidence_and_hit(p, held_out.outcome) for name, p in candidate.predictions.items()}


def _gamma(curves: Mapping[str, GammaCurve], title: str) -> Figure:
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
        "title": title,
        "text": _GAMMA,
        "wide": True,
        "at": [round(float(one.gamma[at]), 3) for at in measured],
        "axis": "gamma",
        "unit": "points",
        "panels": [panel("Points above chance", raw=False), panel("Points, as measured", raw=True)],
    }


def _levels(held_out: LabelledEvents, p: Floats, hit: Floats) -> dict[str, float | None]:
    """Return segment -> smCE below which 95% of calibrated models that make the new map's predictions stay."""
    levels = {}
    for name, rows in segments_of(held_out):
        weight = None if held_out.is_whole else held_out.weight[rows]
        levels[name] = smce_result(on_cells(ScoreTable.from_events(p[rows], hit[rows], weight))).null_q95
    return levels


def _segments(segments: Sequence[ComparedSegment], levels: Mapping[str, float | None], method: str) -> Figure:
    worst = worst_segments(segments)
    left = f" {MAX_SEGMENTS} of {len(segments)} are shown: the worst before, and the worst after."
    serves = any(segment.champion is not None for segment in worst)
    headings = ["segment", "events", "before", *(["serves now"] if serves else []), "after"]
    rows = []
    for segment in worst:
        before, after, chance = segment.none.smce, segment.challenger.smce, levels[segment.segment]
        champion = None if segment.champion is None else segment.champion.smce
        rows.append(
            {
                "cells": [
                    segment.segment,
                    count(segment.n),
                    points(before),
                    *([] if not serves else ["-" if champion is None else points(champion)]),
                    points(after),
                ],
                "tone": "bad" if after > max(before, chance or 0.0) else "",
                "value": number(after),
                "hollow": number(before),
                "other": number(champion),
                "chance": number(chance),
            }
        )
    return {
        "kind": "strips",
        "title": f"The worst segments, before and after: {method}",
        "text": _SEGMENTS + (left if len(segments) > len(worst) else ""),
        "columns": [{"heading": heading, "words": not place} for place, heading in enumerate(headings)],
        "rows": rows,
        "drawn": "error",
    } | ({"wide": True} if serves else {})


def worst_segments(segments: Sequence[ComparedSegment]) -> list[ComparedSegment]:
    """Choose at most 12 segments: the 8 that were worst before, then those that are worst after."""
    ordered = sorted(segments, key=lambda segment: -segment.none.smce)
    kept = ordered[:_WORST]
    kept += sorted(ordered[_WORST:], key=lambda segment: -segment.challenger.smce)[: MAX_SEGMENTS - len(kept)]
    return sorted(kept, key=lambda segment: -segment.none.smce)


def gamma_curves(
    predictions: Mapping[str, ArrayLike],
    outcome: ArrayLike,
    phi: ArrayLike,
    weight: ArrayLike | None = None,
    *,
    gammas: Sequence[float] = GAMMAS,
    max_points: int = 2000,
    draws: int = 199,
    seed: int = 0,
) -> dict[str, GammaCurve]:
    """MLCE of each map at each gamma, with its level under calibration.

    Points, draws and seed are those of a refit's comparison, so that at its gamma both are the same numbers.

    Parameters
    ----------
    predictions, outcome, phi, weight, max_points, draws, seed
        See :func:`monitor.local.mlce_curve`.
    gammas
        Bandwidths, ascending.
    """
    calibrations = mlce_curve(
        predictions, outcome, phi, gammas, weight=weight, max_points=max_points, draws=draws, seed=seed
    )
    curves = {}
    for name, of_gammas in calibrations.items():
        values = np.full((3, len(gammas)), np.nan)
        for place, local in enumerate(of_gammas):
            if local is not None and local.level is not None and local.valid_share >= _MIN_SHARE:
                values[:, place] = local.mlce, local.level.mlce.mean, local.level.mlce.q95
        curves[name] = GammaCurve(np.asarray(gammas, np.float64), *values)
    return curves
