"""The pictures of a refit: before and after, and what serves now; segment by segment."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from monitor.errors import InputError, NotEnoughData
from monitor.local.calibration import confidence_and_hit
from monitor.maps.labelled import LabelledEvents
from monitor.reports.figures.cells import drawn, smce_result
from monitor.reports.figures.local_map import plane_figure
from monitor.reports.figures.recalibration_gamma import gamma_curves, gamma_figure
from monitor.reports.figures.reliability import before_and_after_figure
from monitor.reports.figures.style import (
    BLUE,
    CHANCE,
    GREY,
    INK,
    ORANGE,
    SMALL_SIZE,
    TEXT_SIZE,
    YELLOW,
    dress,
    frame,
    legend,
    new_figure,
    points_tick,
)
from monitor.reports.formatting import count, points
from monitor.scores import ScoreTable

Floats = NDArray[np.float64]

MAPS: Final[Mapping[str, str]] = MappingProxyType(
    {"none": "no map", "champion": "champion", "challenger": "new"},
)
"""What may be compared, in the order of pictures, and what it is called there."""


_SEGMENTS_CAPTION: Final = (
    "How to read it: each row is one segment, with its number of events that no map had seen. The hollow dot is its "
    "error (smCE) before, the full one after; the line is blue where it fell and orange where it rose. Up to the grey "
    "bar's end a calibrated model may show by chance, the further the fewer events there are."
)
MAX_SEGMENTS: Final = 12
_WORST: Final = 8
_ROW: Final = 0.36
_MAX_NAME: Final = 26


@dataclass(frozen=True, slots=True)
class SegmentRow:
    """smCE of one segment under several maps.

    ``n`` counts its held-out events. ``before`` is with no map, ``after`` with the new one, ``champion`` with the one
    that serves. 95% of calibrated models that make the new map's predictions stay below ``chance``.
    """

    name: str
    n: int
    before: float
    after: float
    champion: float | None = None
    chance: float | None = None

    @property
    def rose(self) -> bool:
        """Whether the error is larger after, and more than chance."""
        return self.after > max(self.before, self.chance or 0.0)

    @property
    def short_name(self) -> str:
        """The name, cut where it is long."""
        return self.name if len(self.name) <= _MAX_NAME else f"{self.name[: _MAX_NAME - 1]}\N{HORIZONTAL ELLIPSIS}"


def refit_figures(
    held_out: LabelledEvents,
    predictions: Mapping[str, Floats],
    phi: Floats | None = None,
    *,
    segments: Sequence[Mapping[str, Any]] = (),
    methods: Mapping[str, str] | None = None,
    seed: int = 0,
) -> dict[str, Figure]:
    """The pictures of a comparison by name; without those that need more data.

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
    ``reliability``, ``mlce_by_gamma``, ``local_map``, ``segments`` -> a figure.

    Raises
    ------
    InputError
        ``none`` or ``challenger`` is missing, a name is another one, or shapes do not fit.
    """
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
    """The segments of a comparison, with the level of each under calibration."""
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
                chance = smce_result(drawn(ScoreTable.from_events(p[inside], y[inside], weight))).null_q95
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


def segments_figure(rows: Sequence[SegmentRow]) -> Figure:
    """The segments that were worst, and those that became so, before and after.

    Parameters
    ----------
    rows
        In any order; at most 12 are drawn: the 8 that were worst before, then those that are worst after.

    Raises
    ------
    NotEnoughData
        There is no row.
    """
    if not rows:
        raise NotEnoughData("a picture of segments needs at least 1 segment, got 0")
    ordered = sorted(rows, key=lambda row: -row.before)
    kept = ordered[:_WORST]
    kept += sorted(ordered[_WORST:], key=lambda row: -row.after)[: MAX_SEGMENTS - len(kept)]
    shown = sorted(kept, key=lambda row: -row.before)
    height = 3.3 + _ROW * len(shown)
    figure = new_figure(height)
    champion = any(row.champion is not None for row in shown)
    caption = _SEGMENTS_CAPTION
    if len(rows) > MAX_SEGMENTS:
        caption += f" {MAX_SEGMENTS} of {len(rows)} segments are shown: the worst before, and the worst after."
    grid = frame(figure, height, _segments_title(ordered), caption, left=2.6, right=1.05, above=0.3)
    axes = figure.add_subplot(grid[0, 0])
    dress(axes, grid="x")
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
    legend(axes, handles, columns=len(handles))
    return figure


def _draw_row(axes: Axes, y: int, row: SegmentRow) -> None:
    place = axes.get_yaxis_transform()
    width = axes.get_position().width * 8.0
    axes.text(
        -0.15 / width, y - 0.04, row.short_name, transform=place, ha="right", va="bottom", size=TEXT_SIZE, color=INK
    )
    axes.text(
        -0.15 / width, y + 0.06, f"{count(row.n)} events", transform=place, ha="right", va="top", size=7.5, color=GREY
    )
    color = ORANGE if row.after > row.before else BLUE
    if row.chance is not None:
        axes.barh(y, row.chance, height=0.5, color=CHANCE, zorder=1)
    axes.plot([row.before, row.after], [y, y], color=color, lw=2.4, zorder=2, solid_capstyle="butt")
    if row.champion is not None:
        axes.plot(row.champion, y, marker="D", ms=5.5, color=YELLOW, ls="none", zorder=3)
    axes.plot(row.before, y, marker="o", ms=7.0, mfc="white", mec=color, mew=1.6, ls="none", zorder=3)
    axes.plot(row.after, y, marker="o", ms=7.5, color=color, ls="none", zorder=4)
    axes.text(
        1.0 + 0.1 / width,
        y,
        f"{100.0 * row.before:.1f} \N{RIGHTWARDS ARROW} {100.0 * row.after:.1f}",
        transform=place,
        va="center",
        size=SMALL_SIZE,
        color=color,
    )


def _segments_title(rows: Sequence[SegmentRow]) -> str:
    worst = rows[0]
    known = [(row, row.chance) for row in rows if row.chance is not None]
    text = f"Worst segment before, {worst.short_name}: {points(worst.before)} off, now {points(worst.after)}"
    rose = [row.short_name for row in rows if row.rose]
    if rose:
        which = f"{rose[0]} is" if len(rose) == 1 else f"{len(rose)} of {len(rows)} are"
        return f"{text}\n{which} worse than before, beyond chance"
    if known:
        before, after = (sum(getattr(row, side) <= chance for row, chance in known) for side in ("before", "after"))
        return f"{text}\nwithin chance after: {after} of {len(known)} segments, {before} before"
    return text
