"""The pictures of a refit: before and after, and what serves now; segment by segment."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import LogLocator, NullLocator

from monitor.arrays import Bools, Floats
from monitor.errors import NotEnoughData
from monitor.local.calibration import DEFAULT_GAMMA, confidence_and_hit
from monitor.maps.labelled import LabelledEvents
from monitor.reports.diagrams.refit import (
    MAX_SEGMENTS,
    GammaCurve,
    SegmentRow,
    gamma_curves,
    map_labels,
    segment_rows,
    worst_rows,
)
from monitor.reports.figures.local_map import plane_figure
from monitor.reports.figures.reliability import before_and_after_figure
from monitor.reports.figures.style import (
    BLUE,
    CHANCE,
    GREEN,
    GREY,
    INK,
    ORANGE,
    PINK,
    SKY,
    SMALL_SIZE,
    TEXT_SIZE,
    YELLOW,
    axes_size,
    framed,
    legend,
    panel,
    points_tick,
)
from monitor.reports.formatting import count, points
from monitor.scores import ScoreTable

_SEGMENTS_CAPTION: Final = (
    "How to read it: each row is one segment, with its number of events that no map had seen. The hollow dot is its "
    "error (smCE) before, the full one after; the line is blue where it fell and orange where it rose. Up to the grey "
    "bar's end a calibrated model may show by chance, the further the fewer events there are."
)
_ROW: Final = 0.36


def refit_figures(
    held_out: LabelledEvents,
    predictions: Mapping[str, Floats],
    phi: Floats | None = None,
    *,
    segments: Sequence[Mapping[str, Any]] = (),
    methods: Mapping[str, str] | None = None,
) -> dict[str, Figure]:
    """Draw the pictures of a comparison, by name; without those that need more data.

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

    Returns
    -------
    ``reliability``, ``mlce_by_gamma``, ``local_map``, ``segments`` -> a figure.
    """
    labels = map_labels(predictions, methods or {})
    weight = None if held_out.is_whole else held_out.weight
    observed = {name: confidence_and_hit(predictions[name], held_out.outcome) for name in labels}
    tables = {labels[name]: ScoreTable.from_events(p, y, weight) for name, (p, y) in observed.items()}
    wanted: dict[str, Callable[[], Figure]] = {"reliability": lambda: before_and_after_figure(tables)}
    if phi is not None:
        raw = {label: predictions[name] for name, label in labels.items()}
        wanted["mlce_by_gamma"] = lambda: gamma_figure(gamma_curves(raw, held_out.outcome, phi, weight))
    if phi is not None and phi.shape[1] >= 2:
        # After another map another class may be the largest, so that each map has hits of its own.
        confidence, hits = ({labels[name]: pair[of] for name, pair in observed.items()} for of in (0, 1))
        wanted["local_map"] = lambda: plane_figure(confidence, hits, phi[:, :2], held_out.weight)
    if segments:
        wanted["segments"] = lambda: segments_figure(segment_rows(held_out, observed, segments))
    pictures: dict[str, Figure] = {}
    for name, draw in wanted.items():
        # The comparison itself says what is too little; a picture of it would say nothing.
        with suppress(NotEnoughData):
            pictures[name] = draw()
    return pictures


def segments_figure(rows: Sequence[SegmentRow]) -> Figure:
    """Draw the segments that were worst, and those that became so, before and after.

    Parameters
    ----------
    rows
        At least one, in any order; at most 12 are drawn: the 8 that were worst before, then those that are worst after.
    """
    ordered, shown = sorted(rows, key=lambda row: -row.before), worst_rows(rows)
    champion = any(row.champion is not None for row in shown)
    caption = _SEGMENTS_CAPTION
    if len(rows) > MAX_SEGMENTS:
        caption += f" {MAX_SEGMENTS} of {len(rows)} segments are shown: the worst before, and the worst after."
    height = 3.3 + _ROW * len(shown)
    figure, grid = framed(height, _segments_title(ordered), caption, left=2.6, right=1.05, above=0.3)
    axes = panel(figure, grid[0, 0], grid="x")
    for y, row in enumerate(shown):
        _draw_row(axes, y, row)
    axes.set_yticks(range(len(shown)), [""] * len(shown))
    axes.tick_params(axis="y", length=0.0)
    axes.spines["left"].set_visible(False)
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.set_xlim(left=0.0)
    axes.xaxis.set_major_formatter(points_tick)
    axes.set_xlabel("error, in points")
    handles = [
        Line2D([], [], color=INK, marker="o", mfc="white", ms=7.0, ls="none", label="before"),
        *([Line2D([], [], color=YELLOW, marker="D", ms=5.5, ls="none", label="champion")] if champion else []),
        Line2D([], [], color=INK, marker="o", ms=7.0, ls="none", label="after"),
        Line2D([], [], color=CHANCE, lw=7.0, label="chance"),
    ]
    legend(axes, *handles, columns=len(handles))
    return figure


def _draw_row(axes: Axes, y: int, row: SegmentRow) -> None:
    place = axes.get_yaxis_transform()
    width = axes_size(axes)[0]
    beside: dict[str, Any] = {"transform": place, "ha": "right"}
    axes.text(-0.15 / width, y - 0.04, row.short_name, va="bottom", size=TEXT_SIZE, color=INK, **beside)
    axes.text(-0.15 / width, y + 0.06, f"{count(row.n)} events", va="top", size=7.5, color=GREY, **beside)
    color = ORANGE if row.after > row.before else BLUE
    if row.chance is not None:
        axes.barh(y, row.chance, height=0.5, color=CHANCE, zorder=1)
    axes.plot([row.before, row.after], [y, y], color=color, lw=2.4, zorder=2, solid_capstyle="butt")
    if row.champion is not None:
        axes.plot(row.champion, y, marker="D", ms=5.5, color=YELLOW, ls="none", zorder=3)
    axes.plot(row.before, y, marker="o", ms=7.0, mfc="white", mec=color, mew=1.6, ls="none", zorder=3)
    axes.plot(row.after, y, marker="o", ms=7.5, color=color, ls="none", zorder=4)
    change = f"{100.0 * row.before:.1f} \N{RIGHTWARDS ARROW} {100.0 * row.after:.1f}"
    axes.text(1.0 + 0.1 / width, y, change, transform=place, va="center", size=SMALL_SIZE, color=color)


def _segments_title(rows: Sequence[SegmentRow]) -> str:
    worst = rows[0]
    tested = [(row, row.chance) for row in rows if row.chance is not None]
    text = f"Worst segment before, {worst.short_name}: {points(worst.before)} off, now {points(worst.after)}"
    rose = [row.short_name for row in rows if row.rose]
    if rose:
        which = f"{rose[0]} is" if len(rose) == 1 else f"{len(rose)} of {len(rows)} are"
        return f"{text}\n{which} worse than before, beyond chance"
    if tested:
        before, after = (sum(getattr(row, side) <= chance for row, chance in tested) for side in ("before", "after"))
        return f"{text}\nwithin chance after: {after} of {len(tested)} segments, {before} before"
    return text


_GAMMA_HEIGHT: Final = 7.6
_GAMMA_CAPTION: Final = (
    "How to read it: gamma says how alike predictions must be to count as neighbours; on the left only the most alike "
    "count, on the right all of about the same prediction do. The upper lines are the largest local errors (MLCE) less "
    "what a calibrated model shows on average; the lower lines are as measured. The grey fields are where chance puts "
    "95% of calibrated models (the widest of these maps'). A line begins where neighbourhoods are worth 50 events."
)
_LINES: Final = ((YELLOW, "-"), (GREEN, "-"), (PINK, "-"), (SKY, "-"), (ORANGE, "-"), (GREEN, ":"), (PINK, ":"))


def gamma_figure(curves: Mapping[str, GammaCurve]) -> Figure:
    """Draw the largest local error of several maps against gamma: above chance, and as measured.

    Parameters
    ----------
    curves
        What each map is called -> its curve, all at the same gammas. The first is before, the last after.

    Raises
    ------
    NotEnoughData
        Nowhere are there enough neighbours.
    """
    measured = np.asarray(np.isfinite([curve.mlce for curve in curves.values()]).all(axis=0))
    if not measured.any():
        raise NotEnoughData("no width of the neighbourhood gives enough events of 50 neighbours: take more events")
    figure, grid = framed(
        _GAMMA_HEIGHT,
        _gamma_title(list(curves.values()), measured),
        _GAMMA_CAPTION,
        rows=(1.0, 1.0),
        gap=0.3,
        above=0.22 * -(-(len(curves) + 1) // _columns(curves)) + 0.05,
    )
    upper, lower = panel(figure, grid[0, 0]), panel(figure, grid[1, 0])
    x = next(iter(curves.values())).gamma
    for axes, raw in ((upper, False), (lower, True)):
        axes.set_xscale("log")
        axes.set_xlim(x[measured][0] / 1.08, x[-1] * 1.08)
        high = np.max([curve.null_q95 - (0.0 if raw else curve.null_mean) for curve in curves.values()], axis=0)
        axes.fill_between(x, 0.0, high, color=CHANCE, lw=0.0)
        handles: list[Artist] = []
        for place, (label, curve) in enumerate(curves.items()):
            y = curve.mlce if raw else curve.excess
            handles += axes.plot(x, y, marker="o", ms=3.0, label=label, **_line(place, len(curves)))
        axes.yaxis.set_major_formatter(points_tick)
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.xaxis.set_minor_locator(NullLocator())
    upper.tick_params(axis="x", labelbottom=False)
    upper.axhline(0.0, color=GREY, lw=1.0)
    upper.set_ylabel("points above chance")
    lower.set_ylabel("points, as measured")
    lower.set_ylim(bottom=0.0)
    lower.set_xlabel(
        "most alike only    \N{LEFTWARDS ARROW}    gamma    \N{RIGHTWARDS ARROW}    all of about the same prediction"
    )
    handles.append(Patch(color=CHANCE, label="chance"))
    legend(upper, *handles, columns=_columns(curves))
    return figure


def _columns(curves: Mapping[str, GammaCurve]) -> int:
    longest = max(map(len, curves))
    return 4 if longest <= 22 else 3 if longest <= 26 else 2


def _line(place: int, number: int) -> dict[str, Any]:
    if place == 0:
        return {"color": INK, "ls": (0, (4, 2)), "lw": 1.8}
    if place == number - 1:
        return {"color": BLUE, "ls": "-", "lw": 2.6}
    color, style = _LINES[(place - 1) % len(_LINES)]
    return {"color": color, "ls": style, "lw": 1.5}


def _gamma_title(curves: Sequence[GammaCurve], measured: Bools) -> str:
    distance = np.where(measured, np.abs(np.log(curves[0].gamma / DEFAULT_GAMMA)), np.inf)
    at = int(np.argmin(distance))
    before, after = (
        f"{points(float(curve.mlce[at]))} ({'beyond' if curve.mlce[at] > curve.null_q95[at] else 'within'} chance)"
        for curve in (curves[0], curves[-1])
    )
    return (
        f"Worst error among predictions that are alike (gamma {curves[0].gamma[at]:.2g}):\n"
        f"before {before}, after {after}"
    )
