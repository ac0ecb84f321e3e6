"""Compare the calibration of two models, or of two periods of one model, with intervals of the differences."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from monitor.arrays import Floats, Ints
from monitor.errors import InputError
from monitor.inference.draw_loops import add_poisson_deviations
from monitor.inference.interval import skewed, unskewed
from monitor.inference.resampling import CHUNK, deviations, generator, percent_point_95, resampled
from monitor.measures import REPORT_MEASURES
from monitor.measures.base import MeanLoss, Measure, SemiNorm, Unit
from monitor.options import TOLERANCE, Option
from monitor.progress import StageProgress, no_progress
from monitor.reports.evaluation.assess import DRAWS
from monitor.reports.evaluation.files import report_table
from monitor.reports.evaluation.report import MeasureResult, Report
from monitor.reports.formatting import rounded_share
from monitor.scores import ScoreTable, grid
from monitor.scores.table import relative_weights
from monitor.sources.tables import EventTable

DrawnErrors = Iterator[tuple[Floats, Floats]]
"""Drawn errors of the residuals of both, (chunk, m) and (chunk, k), chunk by chunk."""

Pairing = Literal["ids", "rows", "none"]


_MAX_DRAWN: Final = 10_000_000
"""Drawn numbers held at a time: 80 MB."""

_PSEUDO_EVENTS: Final = 2.0
"""Positives, and negatives, added where the models expect them, as for the interval of one model."""

_PAIRED, _FIRST, _SECOND = 10, 11, 12
"""Streams of random numbers, different from those of the intervals of one model."""

_NORMAL_975: Final = float(ndtri(0.975))

_CLEAR_ERRORS: Final = 2.576
"""Standard errors that chance exceeds in 1% of cases."""

_MIN_VARIANCE_RATIO: Final = 1.25
"""Ratio of the variances of the outcomes from which measures cannot be compared."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One measure of two models.

    Attributes
    ----------
    first, second
        The measure of each, in ``unit``.
    lower, upper
        95% confidence interval of second - first, or None where there is none.
    p_value
        Of the hypothesis that the measure is the same for both: at most .05 just where 0 lies outside the interval.
    """

    unit: Unit
    first: float
    second: float
    lower: float | None = None
    upper: float | None = None
    p_value: float | None = None

    @property
    def difference(self) -> float:
        """Second less first: below 0 where the second is better."""
        return self.second - self.first

    @property
    def significant(self) -> bool:
        """Whether 0 lies outside the interval."""
        return self.lower is not None and self.upper is not None and not self.lower <= 0.0 <= self.upper

    def within(self, first: float, second: float) -> "Difference":
        """Cut the interval to possible differences, given the largest value of each measure; the smallest is 0."""
        if self.lower is None or self.upper is None:
            return self
        return replace(self, lower=max(-first, self.lower), upper=min(second, self.upper))

    def to_dict(self) -> dict[str, Any]:
        """As JSON shows it."""
        names = ("first", "second", "difference", "unit", "lower", "upper", "p_value")
        return {name: getattr(self, name) for name in names}


class ComparedEvents:
    """Predictions with known outcomes, and the cells that they are drawn by.

    Parameters
    ----------
    prediction, outcome
        float64, shape (n,), n >= 1; every outcome 0 or 1.
    weight
        float64, shape (n,), every value above 0; None where there are no weights.
    """

    def __init__(self, prediction: Floats, outcome: Floats, weight: Floats | None) -> None:
        self.prediction = prediction + 0.0  # -0.0 becomes 0.0
        self.outcome = outcome
        self.weight = np.ones(prediction.size) if weight is None else weight
        self.table = ScoreTable.from_events(prediction, outcome, weight)
        self.cells = resampled(self.table, "a difference")

    def rows(self) -> Ints:
        """Find the row of ``cells`` that each event belongs to, shape (n,)."""
        if self.cells is self.table:
            return np.searchsorted(self.table.score, self.prediction)
        return np.searchsorted(np.unique(grid.locate(self.table.score)), grid.locate(self.prediction))

    def losses(self, measure: Callable[[ScoreTable], Floats]) -> Floats:
        """Look up the loss of each event, shape (n,)."""
        row_losses = measure(self.table)
        row = np.searchsorted(self.table.score, self.prediction)
        return np.asarray(np.where(self.outcome == 1.0, row_losses[0, row], row_losses[1, row]))


@dataclass(frozen=True, slots=True)
class ReportComparison:
    """Two reports side by side.

    Attributes
    ----------
    first, second
        The reports; where rows are paired by ids, of the rows that both files have.
    pairing
        ``ids`` or ``rows`` where both are of the same events, by their ids or by equal outcomes row by row; ``none``
        where they are of different ones.
    note
        How the pairing was decided, in words.
    differences
        By the measure's name, of those that both reports have.
    cautions
        What to consider when reading them.
    """

    first: Report
    second: Report
    pairing: Pairing
    note: str
    differences: Mapping[str, Difference]
    cautions: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """As JSON shows it."""
        return {
            "first": self.first.to_dict(),
            "second": self.second.to_dict(),
            "pairing": self.pairing,
            "note": self.note,
            "differences": {name: difference.to_dict() for name, difference in self.differences.items()},
            "cautions": list(self.cautions),
        }


def compare_tables(
    first: EventTable,
    second: EventTable,
    *,
    names: tuple[str, str] = ("first", "second"),
    measures: Mapping[str, Measure] = REPORT_MEASURES,
    draws: int = DRAWS,
    seed: int | None = None,
    progress: StageProgress = no_progress,
    tolerance: float = TOLERANCE,
) -> ReportComparison:
    """Compare the calibration of two tables of predictions.

    Rows are paired where both tables are of the same events, see :func:`align`; then both are drawn together, so that
    common chance cancels. Intervals of semi-norms of the residuals (kCE, smCE, ECE, ...) are those of
    :func:`norm_difference`; of mean losses of the same events (Brier score, log loss), those of the central limit
    theorem; of any other measure, MCE among them, they follow from both intervals:
    :func:`interval_difference`. All are cut to possible differences.

    Parameters
    ----------
    first, second
        The tables, of P(y = 1).
    names
        Model names in the reports.
    measures
        Measures by name.
    draws
        Resamples, at least 19; 0 leaves intervals and levels out.
    seed
        Seed of the resamples; derived from the data if left out.
    progress
        Called with the current step and the share of it that is done.
    tolerance
        See :func:`~monitor.reports.evaluation.evaluate.evaluate_binary`.

    Raises
    ------
    InputError
        The tables are of many classes; or only one has ids, or they contradict each other.
    """
    if first.classes or second.classes:
        raise InputError(
            f"files of many classes are not compared; name one column of P(y = 1) with {Option.PREDICTION}"
        )
    aligned = align(first, second)
    a, b = (
        report_table(
            table,
            segments=(),
            model=name,
            measures=measures,
            draws=draws,
            seed=seed,
            progress=progress,
            tolerance=tolerance,
        ).whole
        for table, name in zip((aligned.first, aligned.second), names, strict=True)
    )
    shared = {name: measures[name] for name in a.measures if name in b.measures}
    if not shared:
        return ReportComparison(a, b, aligned.pairing, aligned.note, {})
    one, two = _events(aligned.first), _events(aligned.second)
    compared = compare_scores(
        (a, one.table),
        (b, two.table),
        same=None if aligned.pairing == "none" else (one, two),
        measures=shared,
        draws=draws,
        seed=seed,
        progress=progress,
    )
    return replace(compared, pairing=aligned.pairing, note=aligned.note)


def compare_scores(
    first: tuple[Report, ScoreTable],
    second: tuple[Report, ScoreTable],
    *,
    same: tuple[ComparedEvents, ComparedEvents] | None = None,
    measures: Mapping[str, Measure] = REPORT_MEASURES,
    draws: int = DRAWS,
    seed: int | None = None,
    progress: StageProgress = no_progress,
) -> ReportComparison:
    """Compare two reports, given the score tables that they were made of.

    Parameters are those of :func:`compare_tables`, which says how intervals are computed; ``same`` are the events where
    both reports are of the same ones.
    """
    (a, one), (b, two) = first, second
    shared = {name: measures[name] for name in measures if name in a.measures and name in b.measures}
    differences = {
        name: interval_difference(a.measures[name], b.measures[name], paired=same is not None) for name in shared
    }
    caution = _prevalences_apart(one, two, (a.model, b.model)) if shared and same is None else None
    if draws and shared:
        if same is None:
            cells = resampled(one, "a difference"), resampled(two, "a difference")
            errors = independent_errors(*cells, draws, seed)
        else:
            cells = same[0].cells, same[1].cells
            errors = paired_errors(*same, draws, seed)
        drawn = norms_of_draws(*cells, shared, errors, lambda done: progress("comparing", done / draws))
        for name, (differences_of_draws, own_norms) in drawn.items():
            differences[name] = norm_difference(differences[name], differences_of_draws, own_norms)
        for name, measure in shared.items():
            if same is not None and isinstance(measure, MeanLoss):
                differences[name] = loss_difference(differences[name], *same, measure.losses)
            differences[name] = differences[name].within(measure.largest(one), measure.largest(two))
    note = "they are of different events"
    return ReportComparison(a, b, "none", note, differences, () if caution is None else (caution,))


class Aligned(NamedTuple):
    """Two tables, row i of one beside row i of the other where they are paired."""

    first: EventTable
    second: EventTable
    pairing: Pairing
    note: str
    """How the pairing was decided, in words."""


def align(first: EventTable, second: EventTable) -> Aligned:
    """Decide whether two tables are of the same events.

    They are if both have ids, some of them in common: only those rows count then. Or if they have as many rows with the
    same outcomes in the same order. (Pairing unrelated rows that happen to look so does no harm.)

    Raises
    ------
    InputError
        Only one table has ids, or they have different outcomes for one id.
    """
    if first.ids is not None and second.ids is not None:
        return _by_ids(first, first.ids, second, second.ids)
    if first.ids is not None or second.ids is not None:
        raise InputError("one of the two files has ids and the other has none; name the column of ids for both")
    if len(first) and np.array_equal(first.outcome, second.outcome) and _same(first.weight, second.weight):
        note = f"both have the same {len(first):,} outcomes row by row, so they are compared event by event"
        return Aligned(first, second, "rows", note)
    return Aligned(first, second, "none", "the rows differ, so these are compared as different events")


def _by_ids(first: EventTable, ids: pa.ChunkedArray, second: EventTable, others: pa.ChunkedArray) -> Aligned:
    positions = pc.index_in(ids, value_set=others)
    first_rows = np.flatnonzero(positions.is_valid().to_numpy())
    if not first_rows.size:
        return Aligned(first, second, "none", "no id is in both files, so these are compared as different events")
    second_rows = pc.drop_null(positions).to_numpy()
    y, other = first.outcome[first_rows], second.outcome[second_rows]
    different = (y >= 0) & (other >= 0) & (y != other)
    if different.any():
        at = int(np.argmax(different))
        name = ids[int(first_rows[at])].as_py()
        raise InputError(
            f"the outcome of id {name!r} is {y[at]} in the first file and {other[at]} in the "
            f"second ({np.count_nonzero(different):,} such ids); an event has one outcome: correct one of the files"
        )
    # An outcome that is missing in one file may be in the other.
    outcome = np.where(y >= 0, y, other)
    one, two = _rows(first, first_rows, outcome), _rows(second, second_rows, outcome)
    left_out = len(first) + len(second) - 2 * first_rows.size
    out = f"; {left_out:,} rows whose id is in one file only are left out" if left_out else ""
    if not _same(one.weight, two.weight):
        return Aligned(one, two, "none", f"the weights of the same ids differ, so nothing is paired{out}")
    return Aligned(one, two, "ids", f"{first_rows.size:,} ids are in both files, and are compared event by event{out}")


def _rows(table: EventTable, rows: NDArray[np.intp], outcome: NDArray[np.int8]) -> EventTable:
    return EventTable(
        table.prediction[rows],
        outcome,
        None if table.time_ms is None else table.time_ms[rows],
        weight=None if table.weight is None else table.weight[rows],
    )


def _same(weight: Floats | None, other: Floats | None) -> bool:
    return weight is other if weight is None or other is None else np.array_equal(weight, other)


def _prevalences_apart(first: ScoreTable, second: ScoreTable, names: tuple[str, str]) -> str | None:
    """Caution against comparing where two prevalences differ clearly; None where they do not.

    Errors shrink with p (1 - p), the variance of an outcome: prevalences differ clearly where p <= .01 and one of
    these variances is a quarter larger than the other.
    """
    rates = [table.prevalence for table in (first, second)]
    variances = [rate * (1.0 - rate) for rate in rates]
    squared_error = 0.0
    for rate, table in zip(rates, (first, second), strict=True):
        worth = table.effective_events
        # With two more events of either kind: without any, the error would be 0.
        squared_error += (rate * worth + 2.0) * ((1.0 - rate) * worth + 2.0) / (worth + 4.0) ** 3
    similar = max(variances) < _MIN_VARIANCE_RATIO * min(variances)
    if similar or abs(rates[0] - rates[1]) <= _CLEAR_ERRORS * math.sqrt(squared_error):
        return None
    shown = " and ".join(f"{rounded_share(rate)} in {name}" for rate, name in zip(rates, names, strict=True))
    return (
        f"prevalences differ ({shown}), and the same fault of the logits gives smaller values where outcomes are "
        "rarer: a lower value is no better calibration; compare offsets and slopes, and each model with its own level"
    )


def _events(table: EventTable) -> ComparedEvents:
    """Select the events with an outcome and a weight above 0."""
    kept = table.outcome >= 0
    weight = None
    if table.weight is not None:
        relative = relative_weights(table.weight)
        kept &= relative > 0.0
        weight = relative[kept]
    return ComparedEvents(table.prediction[kept], table.outcome[kept].astype(float), weight)


def interval_difference(first: MeasureResult, second: MeasureResult, *, paired: bool) -> Difference:
    """Compute the difference of two results from their own intervals alone.

    Of different events, an end lies as far from the difference as the square root of the sum of the squares of how far
    the ends of the two intervals lie from their values (Zou, Donner, "Construction of confidence limits about effect
    measures", 2008). Of the same events, whose errors may have anything to do with each other, as far as the sum.
    The p-value is that of a normal law with such an interval.
    """
    difference = Difference(first.unit, first.value, second.value)
    if first.lower is None or first.upper is None or second.lower is None or second.upper is None:
        return difference
    add = float.__add__ if paired else math.hypot
    below = add(second.value - second.lower, first.upper - first.value)
    above = add(second.upper - second.value, first.value - first.lower)
    shift = difference.difference
    towards_zero = below if shift > 0.0 else above
    p_value = 2.0 * ndtr(-_NORMAL_975 * abs(shift) / towards_zero) if towards_zero > 0.0 else shift == 0.0
    return replace(difference, lower=shift - below, upper=shift + above, p_value=float(p_value))


def norm_difference(values: Difference, drawn: Floats, own_norms: tuple[Floats, Floats]) -> Difference:
    """Compute the interval of the difference of two semi-norms of the residuals.

    With e_a and e_b the errors of the residual measures in the samples, the observed difference differs from the true
    one by N(v_b + e_b) - N(v_b) less N(v_a + e_a) - N(v_a). Either term has a mean of at least 0, because N
    is convex, and of at most E N(e), because of the triangle inequality: about E N(e) near calibration, about 0 far
    from it, and how far it is is unknown. So with D the observed difference, and f the 95% point of the distance of
    draws of D from their mean, the interval reaches from D - E N(e_b) - f to D + E N(e_a) + f. (The plain bootstrap
    leaves the means out; of two paired models that are nearly calibrated it covers a third of the true differences.)

    Parameters
    ----------
    values
        The two values.
    drawn
        N(v_b + e_b) - N(v_a + e_a) of each draw, shape (draws,).
    own_norms
        N(e_a) and N(e_b) of each draw.
    """
    distance = np.abs(drawn - drawn.mean())
    reach, (mean_a, mean_b) = percent_point_95(distance), (float(norms.mean()) for norms in own_norms)
    shift = values.difference
    beyond = abs(shift) - (mean_b if shift > 0.0 else mean_a)
    return replace(
        values,
        lower=shift - mean_b - reach,
        upper=shift + mean_a + reach,
        p_value=(1 + int((distance >= beyond).sum())) / (1 + distance.size),
    )


def loss_difference(
    values: Difference, first: ComparedEvents, second: ComparedEvents, measure: Callable[[ScoreTable], Floats]
) -> Difference:
    """Compute the interval of the difference of two mean losses of the same events.

    By the central limit theorem with Hall's correction for skewness, as for one mean loss. Without it, coverage is .87
    in samples with five positives, whose losses are skewed.
    """
    shift = values.difference
    deviation = second.losses(measure) - first.losses(measure) - shift
    error_of_sum = math.sqrt(float((first.weight**2) @ deviation**2))
    if error_of_sum == 0.0:
        return replace(values, lower=shift, upper=shift, p_value=float(shift == 0.0))
    skewness = float((first.weight**3) @ deviation**3) / error_of_sum**3
    error = error_of_sum / float(first.weight.sum())
    return replace(
        values,
        lower=shift - error * unskewed(_NORMAL_975, skewness),
        upper=shift - error * unskewed(-_NORMAL_975, skewness),
        p_value=float(2.0 * ndtr(-abs(skewed(shift / error, skewness)))),
    )


def norms_of_draws(
    first: ScoreTable,
    second: ScoreTable,
    measures: Mapping[str, Measure],
    errors_of_draws: DrawnErrors,
    progress: Callable[[int], None],
) -> Mapping[str, tuple[Floats, tuple[Floats, Floats]]]:
    """Draw what :func:`norm_difference` needs of each measure that is a semi-norm, by name; ``progress`` counts draws.

    Measures whose interval is known without draws are left out, as MCE: its largest gap may be that of a bin of a few
    events, whose draws reach far beyond what a gap can be.
    """
    norms = {
        name: measure.norms
        for name, measure in measures.items()
        if isinstance(measure, SemiNorm) and measure.ends is None
    }
    parts: dict[str, list[Floats]] = {name: [] for name in norms}
    done = 0
    for error_a, error_b in errors_of_draws:
        for name, norm in norms.items():
            drawn = norm(second, second.residual + error_b) - norm(first, first.residual + error_a)
            parts[name].append(np.stack([drawn, norm(first, error_a), norm(second, error_b)]))
        done += len(error_a)
        progress(done)
    columns = {name: np.concatenate(chunks, axis=1) for name, chunks in parts.items()}
    return {name: (drawn, (norm_a, norm_b)) for name, (drawn, norm_a, norm_b) in columns.items()}


def independent_errors(first: ScoreTable, second: ScoreTable, draws: int, seed: int | None) -> DrawnErrors:
    """Poisson bootstrap of the residuals of different events."""
    return zip(
        deviations(generator(first, seed, _FIRST), first, draws),
        deviations(generator(second, seed, _SECOND), second, draws),
        strict=True,
    )


def paired_errors(first: ComparedEvents, second: ComparedEvents, draws: int, seed: int | None) -> DrawnErrors:
    """Poisson bootstrap of the residuals of the same events, drawn once for both models.

    Events that share the cells of both models are drawn together, as positives and as negatives, and to these are added
    two positive and two negative events, spread over the cells as the mean of the models expects them: see
    :func:`monitor.inference.resampling.deviations`, which does so for one model.
    """
    at_a, at_b = first.rows(), second.rows()
    pairs, pair = np.unique(at_a * second.cells.rows + at_b, return_inverse=True)
    weight, outcome = first.weight, first.outcome

    def summed(values: Floats) -> Floats:
        return np.asarray(np.bincount(pair, weights=values, minlength=pairs.size), np.float64)

    counts = summed(weight)
    p_a, p_b = (summed(weight * events.prediction) / counts for events in (first, second))
    expected = counts * (p_a + p_b) / 2.0
    typical = float(weight @ weight) / float(weight.sum())
    means: list[Floats] = []
    residuals_a: list[Floats] = []
    residuals_b: list[Floats] = []
    for y, likely in ((1.0, expected), (0.0, counts - expected)):
        weight_of_y = summed(weight * (outcome == y))
        squares = summed(weight**2 * (outcome == y))
        added = _PSEUDO_EVENTS * np.divide(likely, likely.sum(), out=np.zeros_like(likely), where=likely > 0.0)
        step = np.divide(
            squares + added * typical**2,
            weight_of_y + added * typical,
            out=np.zeros_like(weight_of_y),
            where=weight_of_y + added > 0.0,
        )
        means.append(np.divide(weight_of_y + added * typical, step, out=np.zeros_like(weight_of_y), where=step > 0.0))
        for events, usual, residuals in ((first, y - p_a, residuals_a), (second, y - p_b, residuals_b)):
            total = summed(weight * (outcome == y) * (y - events.prediction))
            residuals.append(step * np.divide(total, weight_of_y, out=usual.copy(), where=weight_of_y > 0.0))
    mean = np.concatenate(means)
    from_a, from_b = (
        scipy.sparse.csr_array(
            (np.concatenate(residual), (np.arange(mean.size), np.tile(row, 2))), shape=(mean.size, cells.rows)
        )
        for residual, row, cells in (
            (residuals_a, pairs // second.cells.rows, first.cells),
            (residuals_b, pairs % second.cells.rows, second.cells),
        )
    )
    rng = generator(first.cells, seed, _PAIRED)
    chunk = max(1, min(CHUNK, _MAX_DRAWN // mean.size))
    for start in range(0, draws, chunk):
        errors_of_draws = np.zeros((min(chunk, draws - start), mean.size))
        add_poisson_deviations(rng, mean, np.ones(mean.size), errors_of_draws)
        yield errors_of_draws @ from_a, errors_of_draws @ from_b
