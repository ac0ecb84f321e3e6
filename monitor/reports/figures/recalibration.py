"""The pictures that belong to a refit: before and after, and what serves now."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from monitor.errors import InputError, NotEnoughData
from monitor.local.calibration import confidence_and_hit
from monitor.maps.labelled import LabelledEvents
from monitor.reports.figures.cells import drawn, smce_row
from monitor.reports.figures.output import to_svg
from monitor.reports.figures.recalibration_gamma import gamma_curves, gamma_figure
from monitor.reports.figures.recalibration_plane import plane_figure
from monitor.reports.figures.recalibration_reliability import before_and_after_figure
from monitor.reports.figures.recalibration_segments import SegmentRow, segments_figure
from monitor.scores import ScoreTable

Floats = NDArray[np.float64]

MAPS: Final[Mapping[str, str]] = MappingProxyType(
    {"none": "no map", "champion": "champion", "challenger": "new"},
)
"""What may be compared, in the order of pictures, and what it is called there."""


def recalibration_figures(
    held_out: LabelledEvents,
    predictions: Mapping[str, Floats],
    phi: Floats | None = None,
    *,
    segments: Sequence[Mapping[str, Any]] = (),
    methods: Mapping[str, str] | None = None,
    seed: int = 0,
) -> dict[str, bytes]:
    """The pictures of a comparison, as SVG, by name; those that the data are too few for are left out.

    Parameters
    ----------
    held_out
        n events that no map was fitted on. Their own ``prediction`` is not looked at.
    predictions
        ``none``, ``challenger`` and, where one serves, ``champion`` -> what it makes of the events, float64, shape (n,)
        or (n, K). Of many classes the pictures show the largest probability against whether its class came true.
    phi
        float64, shape (n, d): coordinates of the events, as one feature map gives them for all; the first two are those
        of the picture ``local_map``. None, or no pictures ``mlce_by_gamma`` and ``local_map``.
    segments
        The ``segments`` of the comparison; none, and there is no picture ``segments``.
    methods
        ``champion``, ``challenger`` -> the method's name, for the labels.
    seed
        Of the samples of points and of draws under calibration.

    Returns
    -------
    ``reliability``, ``mlce_by_gamma``, ``local_map``, ``segments`` -> an ``<svg>`` element in UTF-8. The same bytes for
    the same arguments.

    Raises
    ------
    InputError
        ``none`` or ``challenger`` is missing, a name is another one, or shapes do not fit.
    """
    found = refit_figures(held_out, predictions, phi, segments=segments, methods=methods, seed=seed)
    return {name: to_svg(figure).encode() for name, figure in found.items()}


def refit_figures(
    held_out: LabelledEvents,
    predictions: Mapping[str, Floats],
    phi: Floats | None = None,
    *,
    segments: Sequence[Mapping[str, Any]] = (),
    methods: Mapping[str, str] | None = None,
    seed: int = 0,
) -> dict[str, Figure]:
    """The same as figures, to be written in any format: see :func:`recalibration_figures`."""
    labels = _labels(predictions, methods or {})
    observed = {name: confidence_and_hit(predictions[name], held_out.outcome) for name in labels}
    tables = {
        labels[name]: ScoreTable.from_events(p, y, None if held_out.is_whole else held_out.weight)
        for name, (p, y) in observed.items()
    }
    wanted: dict[str, Callable[[], Figure]] = {"reliability": lambda: before_and_after_figure(tables)}
    if phi is not None:
        wanted["mlce_by_gamma"] = lambda: gamma_figure(
            gamma_curves(
                {label: predictions[name] for name, label in labels.items()},
                held_out.outcome,
                phi,
                None if held_out.is_whole else held_out.weight,
                seed=seed,
            )
        )
    if phi is not None and phi.shape[1] >= 2:
        # After another map another class may be the largest, so that each map has hits of its own.
        wanted["local_map"] = lambda: plane_figure(
            {label: observed[name][0] for name, label in labels.items()},
            {label: observed[name][1] for name, label in labels.items()},
            phi[:, :2],
            held_out.weight,
            seed=seed,
        )
    if segments:
        wanted["segments"] = lambda: segments_figure(_rows(held_out, observed, segments))
    pictures: dict[str, Figure] = {}
    for name, draw in wanted.items():
        try:
            pictures[name] = draw()
        except NotEnoughData:
            # The comparison itself says what is too little; a picture of it would say nothing.
            continue
    return pictures


def _rows(
    held_out: LabelledEvents, observed: Mapping[str, tuple[Floats, Floats]], segments: Sequence[Mapping[str, Any]]
) -> list[SegmentRow]:
    """What a comparison says of segments, with what chance gives in each."""
    rows = []
    p, y = observed["challenger"]
    for entry in segments:
        name = str(entry["segment"])
        key, _, value = name.partition("=")
        chance = None
        if key in held_out.segments:
            inside = held_out.segments[key] == value
            if inside.any():
                weight = None if held_out.is_whole else held_out.weight[inside]
                chance = smce_row(drawn(ScoreTable.from_events(p[inside], y[inside], weight))).null_q95
        champion = entry.get("champion")
        rows.append(
            SegmentRow(
                name,
                int(entry["n"]),
                before=float(entry["none"]["smce"]),
                after=float(entry["challenger"]["smce"]),
                champion=None if champion is None else float(champion["smce"]),
                chance=chance,
            )
        )
    return rows


def _labels(predictions: Mapping[str, Floats], methods: Mapping[str, str]) -> dict[str, str]:
    """What each map is called in the pictures, in their order."""
    for name in predictions:
        if name not in MAPS:
            raise InputError(f"predictions must be of {', '.join(MAPS)}, got {name!r}")
    for name in ("none", "challenger"):
        if name not in predictions:
            raise InputError(f"predictions must have {name!r}, got {', '.join(predictions) or 'none at all'}")
    return {
        name: f"{label}: {methods[name]}" if name in methods else label
        for name, label in MAPS.items()
        if name in predictions
    }
