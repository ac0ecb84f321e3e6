"""Confidence intervals of the measures, each kind of measure in the way that is honest for it."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from monitor.inference.cautious import cautious_rates
from monitor.inference.named import NamedMeasure, largest_value, listed_measures
from monitor.inference.null_level import laws_of, with_outcomes
from monitor.inference.resampling import (
    CAUTIOUS,
    DEVIATIONS,
    REFITTED,
    Work,
    deviation_variance,
    deviations,
    drawn_tables,
    generator,
    percent_point_95,
    require_draws,
)
from monitor.inference.smoothed import smoothed_rates
from monitor.progress import Progress
from monitor.scores import ScoreTable
from monitor.scores.table import require_table

_NORMAL_975: Final = float(ndtri(0.975))

_FITTED_RATES: Final = 1.15
"""By how much an interval of the mean is wider than draws at fitted rates say: where a fit sees more error than there
is, TCE is near its largest values and varies less. Without it, 500 and 5,000 events with logits off by .5 cover .88 to
.92, with it .93 to .95 (simulated)."""


_LIMIT_DRAWS: Final = 99
"""Draws at most that the mean and the deviation of a measure with a limit come from, which no tail is asked of."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A 95% confidence interval.

    Attributes
    ----------
    lower, upper
        Its ends, within the measure's range.
    debiased
        The value less what chance adds to it, where it is a semi-norm of the residuals (but for an offset):
        sqrt(max(0, N(v)^2 - E[N(v* - v)^2])). None for another measure.
    """

    lower: float
    upper: float
    debiased: float | None = None


def interval(table: ScoreTable, measure: NamedMeasure, *, draws: int = 199, seed: int | None = None) -> Interval:
    r"""Confidence interval of a measure.

    What it is of, and how it is found, depends on what the measure is:

    A semi-norm N of the residual measure v, but for an offset
        The interval is of the measure of the law that the events come from,

        .. math:: N(v_n) \pm q_{.95}[N(v^* - v_n)]

        with v* the Poisson bootstrap of the rows. By the triangle inequality N(v) is no farther from N(v_n) than
        N(v_n - v), whose law N(v* - v_n) imitates, also at calibration, where the percentile bootstrap covers nothing.
        Where the model is off this is wider than need be, for in N(v_n - v) every error counts as if it added to N(v).
        Of a measure that declares its ``witness`` f, the functional that attains N(v_n), each end is therefore the
        nearer one of this and, with s the standard deviation of f(v* - v_n) and z = 1.96,

        .. math:: \Big( (N(v_n) \mp z s)^2 - (M_\mp - s^2) \Big)^{1/2}, \qquad
            M_- = E[N(v^* - v_n)^2], \quad M_+ = E[N(v^* - v_n)]^2

        but no upper end below the value. N(v_n)^2 is about (N(v) + f(v_n - v))^2, the error along v, and the square of
        the error at right angles to v, whose mean is E[N(v* - v_n)^2] - s^2. In a Hilbert space, as for kCE, that is
        Pythagoras' theorem; for other norms it serves, as simulations show. (What is certain is N(v) = f_v(v) <=
        N(v_n) + f_v(v - v_n) where f_v attains N(v): an upper end that holds, but too often. M_+ is the smaller
        because where the value is small by chance, so is the error at right angles.)
    Known without resampling (MCE)
        The ends are those that the measure declares.
    With a limit, and no semi-norm (intCE, surrogate intCE)
        The interval is of the measure T of the law, too. Chance adds to T, the more the less the model is off, and what
        it adds is found from draws T* of outcomes at rates q: those of a smoothed calibration curve, as far as it is
        beyond chance (:func:`~monitor.inference.cautious.cautious_rates`), so that rather too much is taken off.

        .. math:: \Big( T_n - (E[T^*] - T(q)) - z \, \mathrm{sd}(T^*), \; T_n + z s \Big)

        with s the standard deviation of T's gradient, its ``witness`` f, in the bootstrap: f(v* - v_n). The upper end
        takes nothing off, so that it holds where no smooth curve says what the error is like.
    The mean of a loss (Brier score, log loss)
        The interval is of the expected loss: the central limit theorem with Hall's correction for skewness ("On the
        Removal of Skewness by Transformation", 1992), without which the loss of few positives is covered too rarely.
    Any other (TCE)
        There is no value of the law: it depends on the number of events. The interval is of the mean over windows with
        these predictions and outcomes of the same law: the value +- the 95% point of how far draws lie from their
        mean, the draws being of outcomes at the rates of a smoothed calibration curve. (Raw bootstrap draws would add
        their noise to that of the outcomes, and lie where no window does.) It is widened a little, for the curve is an
        estimate.

    Parameters
    ----------
    table
        m rows. The value is exact; draws of a table of more rows than the grid has cells are made on the grid, or
        where the measure says on how many rows.
    measure
        Which measure.
    draws
        Number of draws, at least 19; a measure that declares ``max_draws`` sees no more than those.
    seed
        Seed of the draws; the table's content if left out.

    Raises
    ------
    NotEnoughData
        The table is empty.
    InputError
        ``draws`` is too small, or the table is weighted and the measure takes no weights.
    """
    (found,) = intervals(table, [measure], draws=draws, seed=seed).values()
    return found


def intervals(
    table: ScoreTable,
    measures: Iterable[NamedMeasure],
    *,
    draws: int = 199,
    seed: int | None = None,
    values: Mapping[str, float] | None = None,
    progress: Progress | None = None,
) -> Mapping[str, Interval]:
    """:func:`interval` of each measure, by name. All see the same draws, which are made once.

    Parameters
    ----------
    table, draws, seed
        See :func:`interval`.
    measures
        Which measures.
    values
        Each measure of the table by its name, where they are known already.
    progress
        Told the share of the work done, now and then.
    """
    require_draws(draws)
    require_table(table, "an interval")
    chosen = listed_measures(measures)
    work = Work(progress, draws * len(chosen))
    tables = list(drawn_tables(table, chosen, "an interval"))
    known = {measure.name: measure.value(table) for measure in chosen} if values is None else values
    found: dict[str, Interval] = {}
    for drawn, those in tables:
        exact = [measure for measure in those if measure.ends is not None]
        left = [measure for measure in those if measure not in exact]
        norms = [measure for measure in left if measure.norms is not None]
        limits = [measure for measure in left if measure not in norms and measure.witness is not None]
        means = [measure for measure in left if measure.losses is not None]
        others = [measure for measure in left if measure not in [*norms, *limits, *means]]
        distances = _distances(drawn, norms, draws, generator(drawn, seed, DEVIATIONS), work)
        variance = deviation_variance(drawn)
        for measure in exact:
            found[measure.name] = _exact(table, measure, known[measure.name])
            work.advance(draws)
        for measure in norms:
            spread = _spread(drawn, measure, variance)
            found[measure.name] = _of_norm(table, measure, known[measure.name], distances[measure.name], spread)
        for measure in means:
            found[measure.name] = _of_mean(table, measure, known[measure.name])
            work.advance(draws)
        if limits:
            rates = cautious_rates(drawn)
            expected = with_outcomes(drawn, drawn.counts * rates)
            few = min(draws, _LIMIT_DRAWS)
            rng = generator(drawn, seed, CAUTIOUS)
            laws = laws_of(drawn, rates, limits, draws=few, rng=rng, work=work)
            for measure in limits:
                value = known[measure.name]
                # Of the cells, whose draws these are: on a million predictions their intCE is not that of the raw ones.
                size = value if drawn is table else measure.value(drawn)
                law = laws[measure.name]
                added = float(law.mean()) - measure.value(expected) + _NORMAL_975 * float(law.std(ddof=1))
                reach = _NORMAL_975 * (_spread(drawn, measure, variance) or 0.0)
                found[measure.name] = Interval(min(size - added, value), max(size + reach, value))
            work.advance(len(limits) * (draws - few))
        if others:
            rng = generator(drawn, seed, REFITTED)
            for name, law in laws_of(drawn, smoothed_rates(drawn), others, draws=draws, rng=rng, work=work).items():
                radius = _FITTED_RATES * percent_point_95(np.abs(law - law.mean()))
                found[name] = Interval(known[name] - radius, known[name] + radius)
    return {
        measure.name: replace(
            found[measure.name],
            lower=max(0.0, found[measure.name].lower),
            upper=min(largest_value(measure, table), found[measure.name].upper),
        )
        for measure in chosen
    }


def _distances(
    cells: ScoreTable, measures: Sequence[NamedMeasure], draws: int, rng: np.random.Generator, work: Work
) -> Mapping[str, NDArray[np.float64]]:
    """Of each measure, the semi-norm of the bootstrap's deviations, (draws,)."""
    if not measures:
        return {}
    parts: dict[str, list[NDArray[np.float64]]] = {measure.name: [] for measure in measures}
    for moved in deviations(rng, cells, draws):
        for measure in measures:
            if measure.norms is not None:
                parts[measure.name].append(measure.norms(cells, moved))
            work.advance(len(moved))
    return {name: np.concatenate(each) for name, each in parts.items()}


def _spread(cells: ScoreTable, measure: NamedMeasure, variance: NDArray[np.float64]) -> float | None:
    """The standard deviation of the measure's witness, for rows of this variance."""
    return None if measure.witness is None else math.sqrt(float(variance @ measure.witness(cells) ** 2))


def _exact(table: ScoreTable, measure: NamedMeasure, value: float) -> Interval:
    """The interval that the measure knows by itself."""
    if measure.ends is None:
        raise TypeError(f"{measure.name} does not declare the ends of its interval")
    lower, upper = measure.ends(table)
    return Interval(min(lower, value), max(upper, value))


def _of_norm(
    table: ScoreTable, measure: NamedMeasure, value: float, distance: NDArray[np.float64], spread: float | None
) -> Interval:
    """The interval that distances (draws,) make, and the standard deviation of the witness."""
    offset = 0.0 if measure.offset is None else measure.offset(table)
    lower, upper, debiased = interval_of_norm(value - offset, distance, spread)
    return Interval(lower + offset, upper + offset, debiased + offset)


def interval_of_norm(size: float, distance: NDArray[np.float64], spread: float | None) -> tuple[float, float, float]:
    """The interval of a semi-norm of the residuals of this size, and the size less what chance adds to it.

    How it is found says :func:`interval`.

    Parameters
    ----------
    size
        The semi-norm.
    distance
        That of the bootstrap's deviations, (draws,).
    spread
        The standard deviation of the functional that attains the semi-norm, in the bootstrap; None if it is not known.
    """
    # In units of a power of two, in which squares neither overflow nor vanish; nothing else changes.
    unit = math.ldexp(1.0, math.frexp(max(size, float(np.max(distance))))[1])
    size, distance = size / unit, distance / unit
    radius = percent_point_95(distance)
    square = float(np.mean(distance**2))
    lower, upper = max(0.0, size - radius), size + radius
    if spread is not None:
        spread /= unit
        # The triangle inequality alone covers .99 to 1.00 where the model is off.
        reach = _NORMAL_975 * spread
        most, least = (max(0.0, each - spread**2) for each in (square, float(np.mean(distance)) ** 2))
        lower = max(lower, math.sqrt(max(0.0, max(0.0, size - reach) ** 2 - most)))
        upper = min(upper, max(size, math.sqrt(max(0.0, (size + reach) ** 2 - least))))
    return lower * unit, upper * unit, math.sqrt(max(0.0, size**2 - square)) * unit


def _of_mean(table: ScoreTable, measure: NamedMeasure, value: float) -> Interval:
    """The interval of a mean loss, by Hall's transformation of the studentised mean."""
    if measure.losses is None:
        raise TypeError(f"{measure.name} is not the mean of a loss")
    spread = skewness = 0.0
    for loss, weight, squares in zip(
        measure.losses(table),
        (table.positives, table.negatives),
        (table.positive_squares, table.negative_squares),
        strict=True,
    ):
        # A loss without a finite value where no event had it, as that of a positive at p = 0, is none.
        away = np.subtract(loss, value, out=np.zeros(table.rows), where=weight > 0.0)
        variance = squares * away**2
        spread += float(variance.sum())
        # Of weights in one row that are not equal, the sum of cubes is at least this.
        per_event = np.divide(squares, weight, out=np.zeros(table.rows), where=weight > 0.0)
        skewness += float((per_event * away) @ variance)
    if spread == 0.0:
        return Interval(value, value)
    spread = math.sqrt(spread)
    skewness /= spread**3
    return Interval(
        value - spread / table.total * unskewed(_NORMAL_975, skewness),
        value - spread / table.total * unskewed(-_NORMAL_975, skewness),
    )


def skewed(point: float, skewness: float) -> float:
    """Hall's transformation of a studentised mean T to a normal law: T + s T^2 / 3 + s^2 T^3 / 27 + s / 6.

    s is the skewness of the sum.
    """
    return point + skewness * point**2 / 3.0 + skewness**2 * point**3 / 27.0 + skewness / 6.0


def unskewed(point: float, skewness: float) -> float:
    """The studentised mean that :func:`skewed` takes to this point of the normal law."""
    if abs(skewness) < 1e-6:
        return point
    return 3.0 / skewness * (float(np.cbrt(1.0 + skewness * (point - skewness / 6.0))) - 1.0)
