"""The measures over time, each beside what chance gives, and prevalence beside the mean prediction."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateFormatter, AutoDateLocator, date2num
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from numpy.typing import NDArray

from monitor.arrays import Floats
from monitor.reports.evaluation.report import MeasureResult, Verdict
from monitor.reports.figures.cells import Results
from monitor.reports.figures.style import (
    CHANCE,
    GREEN,
    GREY,
    HAPPENED,
    INK,
    PALE,
    PINK,
    PREDICTED,
    SMALL_SIZE,
    YELLOW,
    axes_size,
    framed,
    legend,
    panel,
)
from monitor.reports.formatting import tick, value_text

CAPTION: Final = (
    "How to read it: above, a calibrated model's mean prediction goes with the share that came true. Below, each "
    "measure with its 95% interval; the grey field is what chance gives a calibrated model in 95% of {what}s, and "
    "orange points lie beyond it. A line ends where there is no value. Times are UTC."
)
_DATES: Final = {
    365.0: "%Y",
    31.0: "%b %Y",
    1.0: "%-d %b\n%Y",
    1.0 / 24.0: "%H:%M\n%-d %b",
    1.0 / 1_440.0: "%H:%M\n%-d %b",
    1.0 / 86_400.0: "%H:%M:%S\n%-d %b",
}
"""Days between ticks -> their labels, each of which can be read by itself."""
_VERDICTS: Final = {
    Verdict.CALIBRATED: GREEN,
    Verdict.PRIOR_SHIFT: YELLOW,
    Verdict.SHAPE: PINK,
    Verdict.BOTH: INK,
    Verdict.INSUFFICIENT: PALE,
}
"""Verdict -> its colour."""
_STRIP_CAPTION: Final = " The strip at the top shows the verdict of each window."
_STRIP: Final = 0.22
"""Inches for the strip of verdicts."""
_FEW: Final = 60
"""Moments whose markers do not touch each other."""
_PANEL: Final = 1.75
_GAP: Final = 1.6
"""Times the usual step between windows: more is a gap."""


@dataclass(frozen=True, slots=True)
class SignedResult(MeasureResult):
    """A result that chance moves to either side of 0, between ``-null_q95`` and ``null_q95``."""

    @property
    def significant(self) -> bool | None:
        """Whether the value is outside that range."""
        return None if self.null_q95 is None else abs(self.value) > self.null_q95


@dataclass(frozen=True, slots=True)
class Moment:
    """The measures of one window, or of one span of time.

    Attributes
    ----------
    time
        Where it stands, with its time zone: a window's end, a span's middle.
    results
        Its measures by title; none where there was too little data.
    prevalence, mean_prediction
        The share that came true, and the mean of the predictions.
    start
        When the window or span begins; ``time`` if left out.
    verdict
        What was wrong with the model; None where that is not known.
    """

    time: datetime
    results: Results = field(default_factory=dict)
    prevalence: float | None = None
    mean_prediction: float | None = None
    start: datetime | None = None
    verdict: Verdict | None = None


def history_figure(moments: Sequence[Moment], *, what: str = "window") -> Figure:
    """Draw the measures of a sequence of windows as small multiples.

    Parameters
    ----------
    moments
        At least one, in any order. A window that is missing, or that has no value, is a gap in its line.
    what
        What one of them is called: ``window``, ``span``.
    """
    ordered = sorted(moments, key=lambda moment: moment.time)
    titles = list(dict.fromkeys(title for moment in ordered for title in moment.results))
    lines = -(-len(titles) // 2)
    verdicts = [verdict for verdict in _VERDICTS if any(moment.verdict is verdict for moment in ordered)]
    above = 0.25 + (_STRIP + 0.2 * -(-len(verdicts) // 3) if verdicts else 0.0)
    figure, grid = framed(
        3.35 + above + _PANEL * lines + 0.35 * lines,
        _title(ordered, titles, what),
        CAPTION.format(what=what) + (_STRIP_CAPTION if verdicts else ""),
        rows=(1.1, *[1.0] * lines),
        columns=(1.0, 1.0),
        gap=0.75,
        above=above,
    )
    x = _Times.of([moment.time for moment in ordered])
    first = panel(figure, grid[0, :])
    _draw_prevalence(first, ordered, x, verdicts)
    for number, title in enumerate(titles):
        axes = panel(figure, grid[1 + number // 2, number % 2], share_x=first)
        _draw_measure(axes, title, [moment.results.get(title) for moment in ordered], x)
    return figure


class _Times(NamedTuple):
    """Places on the axis of time, in days as matplotlib counts them, with one more before each of ``gaps``."""

    x: Floats
    gaps: NDArray[np.intp]

    @classmethod
    def of(cls, times: Sequence[datetime]) -> "_Times":
        days = np.asarray(date2num(times), np.float64)  # type: ignore[no-untyped-call]  # matplotlib's dates are untyped
        steps = np.diff(days)
        gaps = np.flatnonzero(steps > _GAP * np.median(steps)) + 1 if steps.size else np.zeros(0, np.intp)
        return cls(np.insert(days, gaps, 0.5 * (days[gaps] + days[gaps - 1])), gaps)

    @property
    def scale(self) -> float:
        """Size of markers, 1 or less: many small ones are told apart where large ones are not."""
        return min(1.0, max(0.4, _FEW / self.x.size))

    def spread(self, values: Sequence[float | None]) -> Floats:
        """Place values on the axis; nan in gaps, and where there is no finite value."""
        filled = [np.nan if value is None or math.isinf(value) else value for value in values]
        return np.insert(np.array(filled), self.gaps, np.nan)


def _draw_prevalence(axes: Axes, moments: Sequence[Moment], times: _Times, verdicts: Sequence[Verdict]) -> None:
    for values, color, style in (
        ([moment.prevalence for moment in moments], HAPPENED, "-"),
        ([moment.mean_prediction for moment in moments], PREDICTED, "--"),
    ):
        axes.plot(times.x, times.spread(values), color=color, ls=style, lw=1.8, marker="o", ms=3.0 * times.scale)
    rates = [rate for moment in moments for rate in (moment.prevalence, moment.mean_prediction) if rate is not None]
    axes.set_ylim(0.0, 1.15 * max(rates, default=1.0) or 1.0)
    axes.yaxis.set_major_formatter(lambda value, _: tick(value))
    _on_time(axes, times)
    legend(
        axes,
        Line2D([], [], color=HAPPENED, lw=1.8, marker="o", ms=3.0, label="share that came true"),
        Line2D([], [], color=PREDICTED, lw=1.8, ls="--", marker="o", ms=3.0, label="mean prediction"),
        Patch(color=CHANCE, label="what chance gives"),
        *(Patch(color=_VERDICTS[verdict], label=verdict.words) for verdict in verdicts),
        columns=3,
        above=_STRIP if verdicts else 0.0,
    )
    if verdicts:
        _draw_verdicts(axes, moments, times)


def _draw_verdicts(axes: Axes, moments: Sequence[Moment], times: _Times) -> None:
    """Draw the verdict of each moment as a strip above the axes: it reaches back to the moment before."""
    points = np.delete(times.x, times.gaps + np.arange(times.gaps.size))
    steps = np.diff(points)
    usual = float(np.median(steps)) if steps.size else 1.0 / 48.0
    height = axes_size(axes)[1]
    strip = axes.inset_axes((0.0, 1.0 + 0.3 * _STRIP / height, 1.0, 0.5 * _STRIP / height), sharex=axes)
    strip.axis("off")
    for number, moment in enumerate(moments):
        if moment.verdict is not None:
            width = min(float(steps[number - 1]), usual) if number else usual
            strip.barh(
                0.0, width, left=points[number] - width, color=_VERDICTS[moment.verdict], lw=0.0, antialiased=False
            )


def _draw_measure(axes: Axes, title: str, results: Sequence[MeasureResult | None], times: _Times) -> None:
    unit = next(result.unit for result in results if result is not None)
    value, lower, upper, chance = (
        times.spread([None if result is None else getattr(result, name) for result in results])
        for name in ("value", "lower", "upper", "null_q95")
    )
    null_lower = times.spread([None if result is None else _null_lower(result) for result in results])
    axes.fill_between(times.x, null_lower, chance, color=CHANCE, lw=0.0)
    axes.fill_between(times.x, lower, upper, color=PREDICTED, alpha=0.2, lw=0.0)
    # A window between two gaps has no width to fill.
    axes.plot(times.x, chance, ls="none", marker="_", ms=5.0 * times.scale, color=GREY)
    axes.vlines(times.x, lower, upper, color=PREDICTED, alpha=0.3, lw=times.scale)
    axes.plot(times.x, value, color=INK, lw=1.4)
    # A comparison with nan is false, so what is not known is not beyond.
    beyond = (value > chance) | (value < null_lower)
    axes.plot(times.x[~beyond], value[~beyond], ls="none", marker="o", ms=3.5 * times.scale, color=INK)
    axes.plot(times.x[beyond], value[beyond], ls="none", marker="o", ms=4.5 * times.scale, color=HAPPENED)
    lowest = np.fmin(np.fmin(value, lower), null_lower)
    axes.set_ylim(bottom=1.1 * float(np.min(lowest, initial=0.0, where=np.isfinite(lowest))))
    axes.yaxis.set_major_formatter(lambda tick, _: f"{tick:g}%" if unit == "percent" else f"{tick:g}")
    axes.set_title(title, loc="left", size=SMALL_SIZE + 1.0, color=INK, weight="bold")
    last = next(result for result in reversed(results) if result is not None)
    axes.set_title(f"last {value_text(last.value, unit)}", loc="right", size=SMALL_SIZE, color=GREY)
    _on_time(axes, times)


def _null_lower(result: MeasureResult) -> float:
    """Return the lower end of the range of chance: 0, but for a result with a sign, and a score below its range."""
    mean, q95 = result.null_mean, result.null_q95
    if isinstance(result, SignedResult) and q95 is not None:
        return -q95
    return 2.0 * mean - q95 if result.below_chance and mean is not None and q95 is not None else 0.0


def _on_time(axes: Axes, times: _Times) -> None:
    first, last = float(times.x[0]), float(times.x[-1])
    margin = 0.02 * (last - first) if last > first else 1.0 / 48.0
    axes.set_xlim(first - margin, last + margin)
    locator = AutoDateLocator(tz=UTC, minticks=3, maxticks=7)  # type: ignore[no-untyped-call]  # matplotlib's dates
    axes.xaxis.set_major_locator(locator)
    formatter = AutoDateFormatter(locator, tz=UTC)  # type: ignore[no-untyped-call]
    formatter.scaled = _DATES
    axes.xaxis.set_major_formatter(formatter)


def _title(moments: Sequence[Moment], titles: Sequence[str], what: str) -> str:
    """Since when, or how often, smCE was beyond chance; that of the first measure where there is no smCE."""
    title = "smCE" if "smCE" in titles else titles[0] if titles else ""
    results = [moment.results.get(title) for moment in moments]
    beyond = [None if result is None else result.significant for result in results]
    judged = [is_beyond for is_beyond in beyond if is_beyond is not None]
    if not judged:
        return f"{_counted(len(moments), what)}: too little is known to compare with chance"
    if not any(judged):
        return f"The error was never more than chance ({title}, {_counted(len(judged), what)})"
    clear = [number for number, is_beyond in enumerate(beyond) if is_beyond is False]
    run = [number for number, is_beyond in enumerate(beyond) if is_beyond and number > max(clear, default=-1)]
    if run:
        start = (moments[run[0]].start or moments[run[0]].time).astimezone(UTC)
        since = f"{start:%Y-%m-%d %H:%M} UTC"
        before = f"; {sum(judged)} of all {len(judged)}" if sum(judged) > len(run) else ""
        return f"The error has been more than chance since {since}\n({title}, {_counted(len(run), what)}{before})"
    times = f"{sum(judged)} of {_counted(len(judged), what)}"
    return f"The error was more than chance in {times}, but not in the last ({title})"


def _counted(number: int, what: str) -> str:
    return f"1 {what}" if number == 1 else f"{number} {what}s"
