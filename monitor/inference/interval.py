"""95% confidence intervals of the measures, by the kind of measure."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from scipy.special import ndtri

from monitor.arrays import Floats
from monitor.errors import InputError, NotEnoughData
from monitor.inference.calibration_curve import shrunken_rates, smoothed_rates
from monitor.inference.null_level import NullLevel, laws_of, null_level
from monitor.inference.resampling import (
    DEVIATIONS,
    REFITTED,
    SHRUNKEN,
    Work,
    deviation_variance,
    deviations,
    drawn_tables,
    generator,
    listed_measures,
    percent_point_95,
    require_draws,
)
from monitor.measures.base import Limit, MeanLoss, Measure, SemiNorm
from monitor.progress import Progress
from monitor.scores import ScoreTable
from monitor.scores.table import require_table

_NORMAL_975: Final = float(ndtri(0.975))

_FITTED_RATES: Final = 1.15
"""Factor on the interval of the mean from draws at fitted rates: where a fit sees more error than there is, TCE is near
its largest values and varies less. Without it, 500 and 5,000 events with logits off by .5 cover .88 to .92, with it .93
to .95 (simulated)."""

_FEW_DRAWS: Final = 99
"""Largest number of draws for a mean and a standard deviation, which need no tail: 99 give the latter as precisely as
199 give the 95% point."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A 95% confidence interval.

    Attributes
    ----------
    lower, upper
        Its ends, within the measure's range.
    debiased
        For a semi-norm of the residuals, the value without what chance adds to it: sqrt(max(0, N(v)^2 - E[N(v* -
        v)^2])) and the offset. None for another measure, and where the ends are known without resampling.
    """

    lower: float
    upper: float
    debiased: float | None = None


def interval(table: ScoreTable, measure: Measure, *, draws: int = 199, seed: int | None = None) -> Interval:
    r"""Confidence interval of a measure.

    The method depends on the kind of measure:

    Semi-norm N of the residual measure v, plus an offset (:class:`~monitor.measures.base.SemiNorm`)
        The interval is of the measure of the law that the events come from,

        .. math:: N(v_n) \pm q_{.95}[N(v^* - v_n)]

        with v* the Poisson bootstrap of the rows. By the triangle inequality N(v) is no farther from N(v_n) than
        N(v_n - v), whose law N(v* - v_n) imitates, also at calibration, where the percentile bootstrap covers nothing.
        For a miscalibrated model this is wider than necessary, because it treats every error in N(v_n - v) as if it
        added to N(v). With a ``witness`` f, the functional that attains N(v_n), each end is therefore the nearer one
        of this and, with s the standard deviation of f(v* - v_n) and z = 1.96,

        .. math:: \Big( (N(v_n) \mp z s)^2 - (M_\mp - s^2) \Big)^{1/2}, \qquad
            M_- = E[N(v^* - v_n)^2], \quad M_+ = E[N(v^* - v_n)]^2

        but no upper end below the value. N(v_n)^2 is about (N(v) + f(v_n - v))^2, the error along v, and the square of
        the error at right angles to v, whose mean is E[N(v* - v_n)^2] - s^2. In a Hilbert space, as for kCE, that is
        Pythagoras' theorem; for other norms it works in simulations. (N(v) = f_v(v) <= N(v_n) + f_v(v - v_n), where
        f_v attains N(v), is certain: an upper end that holds too often. M_+ is the smaller one because an error at
        right angles is small where the value is small by chance.) A measure with ``ends`` (MCE) has these instead.
    With a limit, and no semi-norm (:class:`~monitor.measures.base.Limit`: intCE, surrogate intCE)
        The interval is of the measure T of the law, too. Chance adds to T, more for a better model. How much it adds is
        estimated from draws T* of outcomes at rates q: those of a smoothed calibration curve, as far as it is
        significant (:func:`~monitor.inference.calibration_curve.shrunken_rates`), so that rather too much is
        subtracted.

        .. math:: \Big( T_n - (E[T^*] - T(q)) - z \, \mathrm{sd}(T^*), \; T_n + z s \Big)

        with s the standard deviation of T's gradient f in the bootstrap: f(v* - v_n). The upper end subtracts nothing,
        so that it holds for errors that no smooth curve describes.
    The mean of a loss (:class:`~monitor.measures.base.MeanLoss`: Brier score, log loss)
        The interval is of the expected loss: the central limit theorem with Hall's correction for skewness ("On the
        Removal of Skewness by Transformation", 1992), without which it covers too rarely when positives are few.
    Any other (TCE)
        There is no value of the law: it depends on the number of events. The interval is of the mean over windows with
        these predictions and outcomes of the same law: the value +- 1.96 standard deviations of draws, with outcomes
        drawn at the rates of a smoothed calibration curve. (Raw bootstrap draws would add their
        noise to that of the outcomes, and lie where no window does.) It is widened a little, because the curve is an
        estimate, and holds every value that the error bound of a table of cells allows.

    Parameters
    ----------
    table
        m rows. The value is exact; a table of more rows than the grid has cells is resampled on the grid, or on
        ``drawn_rows`` of the measure, and a table of cells on fewer rows.
    measure
        Which measure.
    draws
        Number of draws, at least 19; at most ``max_draws`` of the measure are used.
    seed
        Seed of the draws; the table's content if left out.

    Raises
    ------
    NotEnoughData
        The table is empty.
    InputError
        ``draws`` is too small, or the table is weighted and the measure takes no weights.
    """
    (result,) = intervals(table, [measure], draws=draws, seed=seed).values()
    return result


def intervals(
    table: ScoreTable,
    measures: Iterable[Measure],
    *,
    draws: int = 199,
    seed: int | None = None,
    values: Mapping[str, float] | None = None,
    levels: Mapping[str, NullLevel] | None = None,
    progress: Progress | None = None,
) -> Mapping[str, Interval]:
    """:func:`interval` of each measure, by name, all from the same draws.

    Parameters
    ----------
    table, draws, seed
        See :func:`interval`.
    measures
        Which measures.
    values
        The value of each measure by its name, if already computed.
    levels
        The null level of each measure from the same table, draws and seed, if already computed. It saves time, and
        changes nothing.
    progress
        Called with the share of the work done.
    """
    require_draws(draws)
    require_table(table, "an interval")
    chosen = listed_measures(measures)
    work = Work(progress, draws * len(chosen))
    tables = drawn_tables(table, chosen, "an interval")
    if values is None:
        values = {measure.name: measure.value(table) for measure in chosen}
    result: dict[str, Interval] = {}
    for drawn, subset in tables:
        norms = [measure for measure in subset if isinstance(measure, SemiNorm) and measure.ends is None]
        limits = [measure for measure in subset if isinstance(measure, Limit)]
        variance = deviation_variance(drawn)
        others = [measure for measure in subset if not isinstance(measure, SemiNorm | Limit | MeanLoss)]
        curve = smoothed_rates(drawn) if limits or others else drawn.score
        for measure in subset:
            value = values[measure.name]
            if isinstance(measure, SemiNorm) and measure.ends is not None:
                lower, upper = measure.ends(table)
                result[measure.name] = Interval(min(lower, value), max(upper, value))
                work.advance(draws)
            elif isinstance(measure, MeanLoss):
                result[measure.name] = _of_mean(table, measure, value)
                work.advance(draws)
        if norms:
            distances = _distances(drawn, norms, draws, generator(drawn, seed, DEVIATIONS), work)
            for measure in norms:
                offset = measure.smallest(table)
                spread = None if measure.witness is None else _spread(measure.witness(drawn), variance)
                ends = interval_of_norm(values[measure.name] - offset, distances[measure.name], spread)
                result[measure.name] = Interval(*(end + offset for end in ends))
        if limits:
            rates = shrunken_rates(drawn, curve)
            expected = drawn.with_outcomes(drawn.counts * rates)
            calibrated = np.array_equal(rates, drawn.score)
            if calibrated:
                # The curve is not significant, and the law at these rates is that of the null level.
                if levels is None:
                    levels = null_level(table, limits, draws=draws, seed=seed, values=values)
                laws = {measure.name: levels[measure.name].law for measure in limits}
                limit_draws = 0
            else:
                limit_draws = min(draws, _FEW_DRAWS)
                rng = generator(drawn, seed, SHRUNKEN)
                laws = laws_of(drawn, rates, limits, draws=limit_draws, rng=rng, work=work)
            for measure in limits:
                value, law = values[measure.name], laws[measure.name]
                # Of the rows of the draws: on a million predictions the intCE of cells is not that of the raw ones.
                # Null levels are comparable with the value.
                of_rows = value if calibrated or drawn is table else measure.value(drawn)
                added = float(law.mean()) - measure.value(expected) + _NORMAL_975 * float(law.std(ddof=1))
                reach = _NORMAL_975 * _spread(measure.gradient(drawn), variance)
                result[measure.name] = Interval(min(of_rows - added, value), value + reach)
            work.advance(len(limits) * (draws - limit_draws))
        if others:
            few, rng = min(draws, _FEW_DRAWS), generator(drawn, seed, REFITTED)
            laws = laws_of(drawn, curve, others, draws=few, rng=rng, work=work)
            for measure in others:
                value, deviation = values[measure.name], float(laws[measure.name].std(ddof=1))
                # A table of cells says no more about the raw predictions than its bound.
                radius = max(_FITTED_RATES * _NORMAL_975 * deviation, measure.error_bound(table, value))
                result[measure.name] = Interval(value - radius, value + radius)
            work.advance(len(others) * (draws - few))
    return {
        measure.name: replace(
            result[measure.name],
            lower=max(0.0, result[measure.name].lower),
            upper=min(measure.largest(table), result[measure.name].upper),
        )
        for measure in chosen
    }


def _distances(
    cells: ScoreTable, measures: Sequence[SemiNorm], draws: int, rng: np.random.Generator, work: Work
) -> Mapping[str, Floats]:
    """The semi-norm of the bootstrap's deviations, (draws,), by the measure's name."""
    parts: dict[str, list[Floats]] = {measure.name: [] for measure in measures}
    for moved in deviations(rng, cells, draws):
        for measure in measures:
            parts[measure.name].append(measure.norms(cells, moved))
            work.advance(len(moved))
    return {name: np.concatenate(chunks) for name, chunks in parts.items()}


def _spread(functional: Floats, variance: Floats) -> float:
    """The standard deviation of a functional (m,) of rows that vary independently."""
    return math.sqrt(float(variance @ functional**2))


def interval_of_norm(size: float, distance: Floats, spread: float | None) -> tuple[float, float, float]:
    """The interval of a semi-norm of the residuals, and its debiased size; see :func:`interval`.

    Parameters
    ----------
    size
        The semi-norm.
    distance
        That of the bootstrap's deviations, (draws,).
    spread
        The standard deviation of the functional that attains the semi-norm, in the bootstrap; None if unknown.
    """
    # In units of a power of two, in which squares neither overflow nor vanish; nothing else changes.
    unit = math.ldexp(1.0, math.frexp(max(size, float(np.max(distance))))[1])
    size, distance = size / unit, distance / unit
    radius = percent_point_95(distance)
    square = float(np.mean(distance**2))
    lower, upper = max(0.0, size - radius), size + radius
    if spread is not None:
        spread /= unit
        # The triangle inequality alone covers .99 to 1.00 for a miscalibrated model.
        reach = _NORMAL_975 * spread
        most, least = (max(0.0, moment - spread**2) for moment in (square, float(np.mean(distance)) ** 2))
        lower = max(lower, math.sqrt(max(0.0, max(0.0, size - reach) ** 2 - most)))
        upper = min(upper, max(size, math.sqrt(max(0.0, (size + reach) ** 2 - least))))
    return lower * unit, upper * unit, math.sqrt(max(0.0, size**2 - square)) * unit


def _of_mean(table: ScoreTable, measure: MeanLoss, value: float) -> Interval:
    """The interval of a mean loss, by Hall's transformation of the studentised mean."""
    spread = skewness = 0.0
    for loss, weight, squares in zip(
        measure.losses(table),
        (table.positives, table.negatives),
        (table.positive_squares, table.negative_squares),
        strict=True,
    ):
        # An infinite loss that no event had, like that of a positive at p = 0, does not count.
        deviation = np.subtract(loss, value, out=np.zeros(table.rows), where=weight > 0.0)
        variance = squares * deviation**2
        spread += float(variance.sum())
        # For unequal weights in one row, the sum of cubes is at least this.
        per_event = np.divide(squares, weight, out=np.zeros(table.rows), where=weight > 0.0)
        skewness += float((per_event * deviation) @ variance)
    if spread == 0.0:
        return Interval(value, value)
    spread = math.sqrt(spread)
    skewness /= spread**3
    lower, upper = (value - spread / table.total * unskewed(point, skewness) for point in (_NORMAL_975, -_NORMAL_975))
    return Interval(lower, upper)


def skewed(point: float, skewness: float) -> float:
    """Hall's transformation of a studentised mean T to a normal law: T + s T^2 / 3 + s^2 T^3 / 27 + s / 6.

    s is the skewness of the sum.
    """
    return point + skewness * point**2 / 3.0 + skewness**2 * point**3 / 27.0 + skewness / 6.0


def unskewed(point: float, skewness: float) -> float:
    """The studentised mean that :func:`skewed` maps to this point of the normal law."""
    if abs(skewness) < 1e-6:
        return point
    return 3.0 / skewness * (float(np.cbrt(1.0 + skewness * (point - skewness / 6.0))) - 1.0)


def deviation_radius(table: ScoreTable, level: float = 0.05) -> float:
    r"""How far a semi-norm N of the residuals lies from its mean with a probability of at most ``level``, in (0, 1].

    .. math:: P(|N(v_n) - E N(v_n)| \ge t) \le 2 \exp(-n t^2 / 2)

    for independent events, whatever their law and number. It holds for every N that is at most the total variation:
    kCE, smCE, RintCE, ECE and their relatives. For weights, n is the number of equal weights with the same variance,
    their sum squared over the sum of squares.

    Raises
    ------
    NotEnoughData
        The table is empty.
    InputError
        ``level`` is out of range.

    Notes
    -----
    One event moves N by at most 2/n: McDiarmid, "On the method of bounded differences", 1989, Lemma 1.2.
    """
    if not 0.0 < level <= 1.0:
        raise InputError(f"level must be above 0 and at most 1, got {level}")
    if table.rows == 0:
        raise NotEnoughData("a deviation needs at least 1 event, got 0")
    return math.sqrt(2.0 * math.log(2.0 / level) / table.effective_events)
