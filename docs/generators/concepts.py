"""Pictures of docs/concepts.md: each shows one concept with numbers that the package computed."""

from typing import Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from scipy.special import expit, logit

from monitor.arrays import Floats
from monitor.measures import smce
from monitor.reports.figures.style import (
    CHANCE,
    GREY,
    HAPPENED,
    INK,
    PREDICTED,
    SMALL_SIZE,
    YELLOW,
    framed,
    legend,
    name_panel,
    panel,
)
from monitor.reports.formatting import tick
from monitor.scores import GridTable, ScoreTable, Steps
from monitor.sequential import CalibrationBets, Evidence, share_budget

HEIGHT: Final = 4.6
_HOUR_MS: Final = 3_600_000
_LINE: Final = 1.0 / share_budget(1.0, {"the model": 1.0}, {"calibration": 1.0})["the model", "calibration"]


def score_table_figure() -> Figure:
    """Draw two days and their sum: rows of a score table add."""
    rng = np.random.default_rng(5)
    scores = np.array([0.1, 0.3, 0.5, 0.7, 0.9])
    days = []
    for n in (40, 60):
        p = rng.choice(scores, n)
        days.append(GridTable.from_events(p, rng.random(n) < p))
    both = (days[0] + days[1]).to_scores()
    figure, grid = framed(
        HEIGHT,
        "Two days of events become one table: its rows add",
        "Each bar is a row: how many predictions had this probability, and how many of them came true. A measure needs "
        "nothing else. Events need not be kept, and the tables of days, partitions and replicas add up.",
        columns=(1.0, 1.0, 1.0),
        gap=0.75,
        above=0.8,
    )
    for column, (name, table) in enumerate(
        (("Monday", days[0].to_scores()), ("Tuesday", days[1].to_scores()), ("both days", both))
    ):
        axes = panel(figure, grid[0, column])
        place = np.arange(table.rows)
        axes.bar(place, table.counts, color=CHANCE, width=0.8)
        axes.bar(place, table.positives, color=HAPPENED, width=0.8)
        axes.set_xticks(place, [tick(score) for score in table.score.tolist()])
        axes.set_ylim(0.0, 1.1 * float(both.counts.max()))
        axes.set_xlabel("prediction")
        if column == 0:
            axes.set_ylabel("events")
        name_panel(axes, name, f"{table.total:.0f} events, {table.positives.sum():.0f} came true")
    legend(
        figure.axes[0],
        Patch(color=HAPPENED, label="came true"),
        Patch(color=CHANCE, label="did not"),
        columns=2,
        above=0.42,
    )
    return figure


def too_sure(n: int, seed: int = 1) -> tuple[Floats, Floats]:
    """Predictions whose logits are 1.3 times as large as the true ones, and their outcomes; shape (n,) each."""
    rng = np.random.default_rng(seed)
    true = rng.normal(0.0, 1.2, n)
    return expit(1.3 * true), (rng.random(n) < expit(true)).astype(float)


def null_level_figure() -> Figure:
    """Draw smCE of a model beside that of 400 calibrated models with the same predictions."""
    p, y = too_sure(4_000)
    value = smce(ScoreTable.from_events(p, y))
    rng = np.random.default_rng(2)
    drawn = np.array([smce(ScoreTable.from_events(p, rng.random(p.size) < p)) for _ in range(400)])
    q95 = float(np.quantile(drawn, 0.95))
    figure, grid = framed(
        HEIGHT,
        "A calibrated model is not at 0, either",
        "For the grey bars the 4,000 predictions were kept and outcomes drawn 400 times, each as probable as its "
        "prediction says. What remains is chance. The value of the model is to be compared with them.",
        above=0.3,
    )
    axes = panel(figure, grid[0, 0])
    edges = np.linspace(0.0, 1.15 * value, 60)
    axes.hist(drawn, edges.tolist(), color=CHANCE)
    axes.axvline(float(drawn.mean()), color=GREY, lw=1.6, ls=(0, (4, 3)))
    axes.axvline(q95, color=INK, lw=1.6)
    axes.axvline(value, color=HAPPENED, lw=2.6)
    axes.set_xlim(0.0, edges[-1])
    axes.set_xlabel("smCE")
    axes.set_ylabel("draws")
    legend(
        axes,
        Patch(color=CHANCE, label="calibrated"),
        Line2D([], [], color=GREY, lw=1.6, ls=(0, (4, 3)), label=f"null_mean {drawn.mean():.4f}"),
        Line2D([], [], color=INK, lw=1.6, label=f"null_q95 {q95:.4f}"),
        Line2D([], [], color=HAPPENED, lw=2.6, label=f"the model {value:.4f}"),
        columns=4,
    )
    return figure


def settled_edge_figure() -> Figure:
    """Draw predictions of a day, the outcomes that came, and the edge before which nothing changes any more."""
    rng = np.random.default_rng(4)
    now, horizon, lateness = 24.0, 6.0, 1.0
    made = np.sort(rng.uniform(0.2, now, 46))
    delay = rng.exponential(2.6, made.size)
    answered = delay <= horizon
    came = np.where(answered, made + delay, np.nan)
    edge = now - horizon - lateness
    figure, grid = framed(
        HEIGHT,
        "A prediction counts once its outcome had time to come",
        "Each line is a prediction that waits for its outcome, at most for the horizon of 6 hours. It is 24:00. Before "
        "the settled edge, at 17:00, no event can change anything: windows end there. After it, outcomes are missing "
        "because it is early.",
        above=0.3,
    )
    axes = panel(figure, grid[0, 0], grid="x")
    axes.axvspan(0.0, edge, color="#EAF2F8", lw=0.0)
    axes.axvline(edge, color=INK, lw=1.8)
    axes.axvline(now, color=GREY, lw=1.2, ls=(0, (4, 3)))
    height = np.arange(made.size)
    until = np.minimum(np.where(answered, came, made + horizon), now)
    axes.hlines(height, made, until, color=GREY, lw=0.9)
    axes.plot(made, height, color=PREDICTED, marker="o", ms=4.0, ls="none")
    shown = answered & (came <= now)
    axes.plot(came[shown], height[shown], color=HAPPENED, marker="D", ms=4.0, ls="none")
    never = ~answered & (made + horizon <= now)
    axes.plot((made + horizon)[never], height[never], color=INK, marker="x", ms=5.0, ls="none")
    axes.text(edge - 0.2, made.size - 2, "settled", ha="right", va="top", size=SMALL_SIZE, color=INK)
    axes.text(edge + 0.2, 1.0, "not settled yet", ha="left", va="bottom", size=SMALL_SIZE, color=INK)
    axes.set_xlim(0.0, now + 0.4)
    axes.set_xticks(range(0, 25, 3), [f"{hour}:00" for hour in range(0, 25, 3)])
    axes.set_yticks([])
    axes.set_xlabel("time of the events")
    axes.set_ylabel("predictions")
    legend(
        axes,
        Line2D([], [], color=PREDICTED, marker="o", ls="none", label="prediction"),
        Line2D([], [], color=HAPPENED, marker="D", ls="none", label="outcome"),
        Line2D([], [], color=INK, marker="x", ls="none", label="none within the horizon"),
        Line2D([], [], color=INK, lw=1.8, label="settled edge"),
        columns=4,
    )
    return figure


def course_of_evidence(slope: float, seed: int) -> tuple[Floats, Floats]:
    """Days and evidence of a stream of 300 events an hour, whose logits are too large from the third day on.

    Parameters
    ----------
    slope
        By what factor the logits of the predictions exceed the true ones after two days; 1 for a calibrated model.
    seed
        Of the events.

    Returns
    -------
    days, evidence
        shape (96,) each: the ends of the hours, and the evidence of D1 there.
    """
    rng = np.random.default_rng(seed)
    hours = np.arange(96)
    true = rng.normal(0.0, 1.2, (hours.size, 300))
    p = expit(np.where(hours < 48, 1.0, slope)[:, None] * true)
    y = rng.random(true.shape) < expit(true)
    tables = [(_HOUR_MS * (hour + 1), GridTable.from_events(p[hour], y[hour])) for hour in hours.tolist()]
    detector, course, evidence = CalibrationBets(tolerance=0.05), Evidence(start_ms=0), []
    for table in tables:
        # The line is out of reach here, so that the course goes on beyond it.
        course.update({"whole": {"": detector.bet(Steps.of([table]))}}, threshold=np.inf)
        evidence.append(course.value)
    return (hours + 1) / 24.0, np.array(evidence)


def evidence_figure() -> Figure:
    """Draw the evidence on a calibrated model, and on one that becomes too sure."""
    figure, grid = framed(
        HEIGHT,
        "Evidence stays low without a fault, and grows without end with one",
        "What bets against the model's calibration have won, hour by hour. The line follows from the budget: one false "
        "alarm a year, of this one model and one detector, puts it at 1. With fifty models, which share the "
        "budget, it is at 50.",
        above=0.3,
    )
    axes = panel(figure, grid[0, 0])
    for slope, color, label in ((1.0, PREDICTED, "stays calibrated"), (1.3, HAPPENED, "too sure from day 2 on")):
        days, evidence = course_of_evidence(slope, seed=3)
        axes.plot(days, evidence, color=color, lw=2.0, label=label)
    axes.axhline(_LINE, color=INK, lw=1.4, ls=(0, (4, 3)), label="alert line")
    axes.axvline(2.0, color=GREY, lw=1.0, ls=":")
    axes.set_yscale("log")
    axes.set_ylim(1e-5, 1e8)
    axes.set_yticks([1e-4, 1.0, 1e4, 1e8], ["1/10,000", "1", "10,000", "$10^8$"])
    axes.set_yticks([], minor=True)
    axes.set_xlim(0.0, 4.0)
    axes.set_xticks(range(5))
    axes.set_xlabel("days")
    axes.set_ylabel("evidence")
    legend(axes, *axes.get_lines()[:3], columns=3)
    return figure


def prior_and_shape_figure() -> Figure:
    """Draw what a prior shift does to the truth behind a prediction, and what a wrong slope does."""
    figure, grid = framed(
        5.2,
        "A prior shift moves the line, a wrong shape bends or tilts it",
        "Both axes are in logits: equal steps are equal factors of the odds. On the left one number, added to each "
        "logit, brings all points back to the dashed line. On the right none does: the model ranks well and is too "
        "sure, so it needs a map or a refit. Points are tenths of 20,000 simulated predictions.",
        columns=(1.0, 1.0),
        gap=0.85,
        above=0.5,
    )
    rng = np.random.default_rng(6)
    true = rng.normal(-1.0, 1.3, 20_000)
    y = rng.random(true.size) < expit(true)
    for column, (name, remark, z) in enumerate(
        (
            ("prior shift", "odds 2.2 times as high as predicted", true - 0.8),
            ("shape", "logits 1.6 times too large", -1.0 + 1.6 * (true + 1.0)),
        )
    ):
        axes = panel(figure, grid[0, column], grid="both")
        _draw_tenths(axes, z, y)
        name_panel(axes, name, remark)
        axes.set_xlabel("prediction")
        if column == 0:
            axes.set_ylabel("came true")
    return figure


def _draw_tenths(axes: Axes, z: Floats, y: Floats) -> None:
    order = np.array_split(np.argsort(z), 10)
    shares = np.array([0.01, 0.05, 0.2, 0.5, 0.8, 0.95])
    ends = (-5.6, 3.6)
    axes.plot(ends, ends, color=GREY, lw=1.2, ls=(0, (4, 3)))
    predicted = [float(logit(expit(z[rows]).mean())) for rows in order]
    happened = [float(logit(y[rows].mean())) for rows in order]
    axes.plot(predicted, happened, color=HAPPENED, marker="o", ms=6.0, lw=1.6)
    axes.set_xlim(*ends)
    axes.set_ylim(*ends)
    axes.set_xticks(logit(shares), [tick(share) for share in shares.tolist()])
    axes.set_yticks(logit(shares), [tick(share) for share in shares.tolist()])


def customers(n: int = 20_000, seed: int = 0) -> tuple[Floats, Floats, Floats]:
    """Predictions that are right on the whole, outcomes, and the years that each customer has been one.

    Returns
    -------
    p, y, years
        shape (n,) each. True logits are higher than those of p for new customers, lower for loyal ones.
    """
    rng = np.random.default_rng(seed)
    years = rng.uniform(0.0, 10.0, n)
    z = rng.normal(0.0, 1.0, n)
    y = (rng.random(n) < expit(z + 0.16 * (5.0 - years))).astype(float)
    return expit(z), y, years


def local_error_figure() -> Figure:
    """Draw a model that is right at each prediction and wrong for each group."""
    p, y, years = customers()
    figure, grid = framed(
        HEIGHT,
        "Right on the whole, wrong for nearly everybody",
        "The model does not know how long a customer has been one. Among all who get 30%, about 30% leave (left). "
        "Among the new ones more do and among the loyal ones fewer (right). Only measures that compare "
        "predictions with those of similar features see it.",
        columns=(1.0, 1.0),
        gap=0.95,
        above=0.5,
    )
    left, right = panel(figure, grid[0, 0], grid="both"), panel(figure, grid[0, 1])
    order = np.array_split(np.argsort(p), 10)
    left.plot([0.0, 1.0], [0.0, 1.0], color=GREY, lw=1.2, ls=(0, (4, 3)))
    left.plot(
        [p[rows].mean() for rows in order],
        [y[rows].mean() for rows in order],
        color=HAPPENED,
        marker="o",
        ms=6.0,
        lw=1.6,
    )
    shares = [0.0, 0.25, 0.5, 0.75, 1.0]
    left.set_xticks(shares, [tick(share) for share in shares])
    left.set_yticks(shares, [tick(share) for share in shares])
    left.set_xlabel("prediction")
    left.set_ylabel("came true")
    name_panel(left, "by prediction", f"smCE {smce(ScoreTable.from_events(p, y)):.4f}")
    gaps = [100.0 * float((y - p)[(years >= year) & (years < year + 1)].mean()) for year in range(10)]
    right.bar(np.arange(10) + 0.5, gaps, width=0.84, color=[HAPPENED if gap > 0.0 else YELLOW for gap in gaps])
    right.axhline(0.0, color=GREY, lw=1.0)
    right.set_xlabel("years as a customer")
    right.set_ylabel("came true, less predicted (points)")
    name_panel(right, "by customer", "above 0: predicted too low")
    return figure
