"""Where measures disagree: the counter-examples of the papers, as figures of the documentation."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from numpy.typing import NDArray
from scipy.special import expit, logit, softmax

from monitor.inference import null_level
from monitor.inference.cox import fit_cox
from monitor.measures import MEASURES, ece, intce, kce, mce, smce, surrogate_intce, tce
from monitor.reports.figures.style import (
    BLUE,
    CHANCE,
    GREEN,
    GREY,
    HAPPENED,
    INK,
    ORANGE,
    PINK,
    PREDICTED,
    SKY,
    TEXT_SIZE,
    YELLOW,
    dress,
    frame,
    legend,
    new_figure,
)
from monitor.reports.formatting import tick, value_text
from monitor.scores import ClassTable, ScoreTable

Floats = NDArray[np.float64]

HEIGHT: Final = 5.2
_DRAWS: Final = 39

_LOOKS: Final[Mapping[str, tuple[str, str]]] = {
    "ECE": (ORANGE, "o"),
    "smCE": (BLUE, "s"),
    "kCE": (GREEN, "^"),
    "intCE": (PINK, "D"),
    "surrogate intCE": (YELLOW, "v"),
    "TCE / 100": (SKY, "P"),
    "Cox offset": (INK, "X"),
}
"""Colour and marker of each measure."""


def two_points(epsilon: float) -> ScoreTable:
    """Half of the predictions at 1/2 - epsilon, with outcome 0, and half at 1/2 + epsilon, with outcome 1."""
    return ScoreTable.from_events([0.5 - epsilon, 0.5 + epsilon], [0, 1])


def discontinuity_figure() -> Figure:
    """Two predictions on either side of 1/2: ECE jumps, the others grow from 0 with their distance.

    Source: "A Unifying Theory of Distance from Calibration", 2023, section 1.
    """
    epsilon = np.concatenate([[0.0], np.geomspace(1e-4, 0.1, 60)])
    tables = [two_points(distance) for distance in epsilon.tolist()]
    return _lines(
        "A step of one in ten thousand moves ECE from 0 to a half;\nthe others grow from 0 with the distance",
        "Half of the predictions say a little less than 50% and never come true, half a little more and always do. "
        "With both at 50% exactly the model is perfectly calibrated. ECE is over ten bins, whose edge lies at 50%.",
        epsilon,
        _values(tables, {"ECE": ece, "smCE": smce, "kCE": kce, "intCE": intce}),
        "distance of the predictions from 50%",
    )


def confident_mistakes() -> ScoreTable:
    """450 predictions of .52 that never come true, and 550 of .58 that always do.

    Source: "Measuring Calibration in Deep Learning", 2019, Figure 4.
    """
    return ScoreTable.from_events([0.52] * 450 + [0.58] * 550, [0] * 450 + [1] * 550)


def cancellation_figure() -> Figure:
    """Errors of both signs in one bin: ECE sees nothing, a test sees all.

    Source: "Measuring Calibration in Deep Learning", 2019, Figure 4.
    """
    table = confident_mistakes()
    figure = new_figure(HEIGHT)
    grid = frame(
        figure,
        HEIGHT,
        "Every prediction is refuted, and ECE is 0.003",
        "450 predictions of 52% never came true, 550 of 58% always did. Ten bins put them together, and the misses of "
        "both kinds cancel. smCE is small, too, and means it: moving each prediction by 3 points, to 55%, mends them. "
        "That the model knows what happens, and does not say so, is not a question of calibration.",
        columns=(1.0, 1.15),
        gap=1.75,
        above=0.3,
    )
    left = figure.add_subplot(grid[0, 0])
    dress(left, grid="both")
    left.axvspan(0.5, 0.6, color=CHANCE, lw=0.0)
    left.plot([0.4, 0.7], [0.4, 0.7], color=GREY, lw=1.2, ls=(0, (4, 3)))
    left.plot(table.score, table.positives / table.counts, color=INK, marker="o", ms=9.0, ls="none")
    left.plot([table.mean_prediction], [table.prevalence], color=HAPPENED, marker="D", ms=8.0, ls="none")
    left.set_xlim(0.44, 0.66)
    left.set_ylim(-0.04, 1.04)
    left.set_xticks([0.45, 0.5, 0.55, 0.6, 0.65], [tick(share) for share in (0.45, 0.5, 0.55, 0.6, 0.65)])
    left.set_yticks([0.0, 0.5, 1.0], [tick(share) for share in (0.0, 0.5, 1.0)])
    left.set_xlabel("predicted probability")
    left.set_ylabel("how often it came true")
    legend(
        left,
        Line2D([], [], color=INK, marker="o", ls="none", label="predictions"),
        Line2D([], [], color=HAPPENED, marker="D", ls="none", label="mean of the bin"),
        Patch(color=CHANCE, label="bin"),
        columns=3,
    )
    bars = {
        "ECE, 10 bins": ece(table),
        "ECE, 20 bins": ece(table, n_bins=20),
        "MCE, 10 bins": mce(table),
        "smCE": smce(table),
        "kCE": kce(table),
        "intCE": intce(table),
        "TCE": tce(table) / 100.0,
    }
    right = figure.add_subplot(grid[0, 1])
    dress(right, grid="")
    place = np.arange(len(bars))
    right.barh(
        place, [*bars.values()], height=0.6, color=[HAPPENED if value > 0.1 else PREDICTED for value in bars.values()]
    )
    for y, (name, value) in enumerate(bars.items()):
        text = value_text(100.0 * value, "percent") if name == "TCE" else value_text(value, "ratio")
        right.text(value + 0.02, y, text, size=TEXT_SIZE, color=INK, va="center")
    right.set_yticks(place, [*bars])
    right.invert_yaxis()
    right.set_xlim(0.0, 1.22)
    right.set_xticks([])
    right.spines["bottom"].set_visible(False)
    return figure


def simulated(n: int, *, slope: float = 1.0, offset: float = 0.0, mean: float = 0.0, seed: int = 1) -> ScoreTable:
    """Predictions whose logits are ``slope`` times the true ones, which are normal around ``mean``, plus ``offset``."""
    rng = np.random.default_rng(seed)
    true = rng.normal(mean, 1.0, n)
    outcome = rng.random(n) < expit(true)
    return ScoreTable.from_events(expit(slope * true + offset), outcome)


def prevalence_figure() -> Figure:
    """One error of the logits at many prevalences: the measures scale with prevalence, the Cox offset does not."""
    tables = [simulated(50_000, offset=0.5, mean=mean) for mean in np.linspace(0.0, -7.5, 11).tolist()]
    prevalence = np.array([table.prevalence for table in tables])
    figure = _lines(
        "The same mistake looks a hundred times smaller\nwhere outcomes are rare",
        "Every model adds 0.5 to its log odds; only the prevalence differs. The errors of the probabilities shrink "
        "with it, and TCE refutes less where positives are few. The offset of the log odds (Cox) compares.",
        prevalence,
        _values(tables, {"smCE": smce, "kCE": kce, "intCE": intce, "ECE": ece})
        | {
            "TCE / 100": [tce(table) / 100.0 for table in tables],
            "Cox offset": [abs(fit_cox(table).offset) for table in tables],
        },
        "share that came true",
    )
    axes = figure.axes[0]
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks([0.001, 0.01, 0.1, 0.5], ["0.1%", "1%", "10%", "50%"], minor=False)
    axes.set_xticks([], minor=True)
    _decades(axes, (0.0001, 0.001, 0.01, 0.1, 1.0))
    return figure


def sample_size_figure() -> Figure:
    """TCE of one and the same error grows with the number of events; its smCE does not."""
    sizes = [200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000]
    title = "More data refute more: TCE of one and the same error\ngrows, while its smCE does not"
    caption = (
        "Grey is what chance gives a perfectly calibrated model, up to the 95% point; the orange model exaggerates its "
        "log odds by 15%. No fixed threshold on TCE can be right: only its distance from the grey field says something."
    )
    figure = new_figure(HEIGHT)
    grid = frame(figure, HEIGHT, title, caption, columns=(1.0, 1.0), gap=0.85, above=0.3)
    for column, (name, unit) in enumerate((("tce", "TCE, percent"), ("smce", "smCE"))):
        axes = figure.add_subplot(grid[0, column])
        dress(axes)
        measure = MEASURES[name]
        calibrated = [simulated(n) for n in sizes]
        level = [null_level(table, [measure], draws=_DRAWS)[name].q95 for table in calibrated]
        axes.fill_between(sizes, 0.0, level, color=CHANCE, lw=0.0)
        for values, color, marker in (
            ([measure.value(table) for table in calibrated], INK, "o"),
            ([measure.value(simulated(n, slope=1.15)) for n in sizes], HAPPENED, "s"),
        ):
            axes.plot(sizes, values, color=color, marker=marker, lw=1.8, ms=4.5)
        axes.set_xscale("log")
        axes.set_xticks([1e3, 1e4, 1e5], ["1,000", "10,000", "100,000"])
        axes.set_xticks([], minor=True)
        axes.set_ylim(bottom=0.0)
        axes.set_xlabel("number of predictions")
        axes.set_ylabel(unit)
    legend(
        figure.axes[0],
        Line2D([], [], color=INK, marker="o", lw=1.8, label="calibrated model"),
        Line2D([], [], color=HAPPENED, marker="s", lw=1.8, label="model that exaggerates"),
        Patch(color=CHANCE, label="what chance gives"),
        columns=3,
    )
    return figure


def tempered(beta: float, n: int = 10_000, seed: int = 1) -> ScoreTable:
    """Outcomes of probability q, q uniform in (0, 1), and predictions whose log odds are beta times those of q."""
    rng = np.random.default_rng(seed)
    q = rng.random(n)
    return ScoreTable.from_events(expit(beta * logit(q)), rng.random(n) < q)


def temperature_figure() -> Figure:
    """A model that plays down, or exaggerates, more and more: close to calibrated by one measure, far off by another.

    Source: "A Unifying Theory of Distance from Calibration", 2023, Figure 2.
    """
    beta = np.geomspace(0.125, 8.0, 25)
    tables = [tempered(factor) for factor in beta.tolist()]
    figure = _lines(
        "Played down to almost nothing: far off by ECE,\nclose to calibrated by smCE",
        "Log odds are multiplied by the factor: above 1 the model exaggerates, below 1 it plays down. With a factor "
        "of 1/8 all predictions lie near 50%, and so does what comes true on average: a small change makes them "
        "calibrated, and smCE measures that change. ECE compares each bin with its outcomes.",
        beta,
        _values(tables, {"ECE": ece, "smCE": smce, "kCE": kce, "intCE": intce, "surrogate intCE": surrogate_intce}),
        "factor of the log odds",
    )
    axes = figure.axes[0]
    axes.set_xscale("log")
    ticks = [0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0]
    axes.set_xticks(ticks, ["1/8", "1/4", "1/2", "1", "2", "4", "8"])
    axes.set_xticks([], minor=True)
    return figure


def too_sure_classes(n: int = 3_000, seed: int = 0) -> ClassTable:
    """Predictions over five classes whose logits are 1.4 times as large as the right ones."""
    rng = np.random.default_rng(seed)
    true = rng.normal(size=(n, 5))
    likely = softmax(1.4 * true, axis=1)
    outcome = (likely.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    return ClassTable.from_events(softmax(2.0 * true, axis=1), outcome)


def _values(
    tables: Sequence[ScoreTable], measures: Mapping[str, Callable[[ScoreTable], float]]
) -> dict[str, Sequence[float]]:
    return {name: [measure(table) for table in tables] for name, measure in measures.items()}


def _lines(title: str, caption: str, x: Floats, series: Mapping[str, Sequence[float]], x_label: str) -> Figure:
    figure = new_figure(HEIGHT)
    grid = frame(figure, HEIGHT, title, caption, above=0.3)
    axes = figure.add_subplot(grid[0, 0])
    dress(axes)
    handles = []
    for name, values in series.items():
        color, marker = _LOOKS[name]
        handles += axes.plot(
            x, values, color=color, marker=marker, lw=1.8, ms=5.0, markevery=max(1, x.size // 12), label=name
        )
    axes.set_ylim(bottom=0.0)
    axes.set_xlabel(x_label)
    axes.set_ylabel("calibration error")
    legend(axes, *handles, columns=len(handles))
    return figure


def _decades(axes: Axes, values: Sequence[float]) -> None:
    axes.set_ylim(values[0], values[-1] * 1.3)
    axes.set_yticks(values, [f"{value:g}" for value in values])
    axes.set_yticks([], minor=True)
