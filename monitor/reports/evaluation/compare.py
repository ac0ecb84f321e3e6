"""Compare the calibration of two models, or of two periods of one model."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from monitor.errors import InputError
from monitor.inference.named import largest_value
from monitor.inference.prevalence import TOLERANCE
from monitor.measures import REPORT_MEASURES
from monitor.measures.base import Measure
from monitor.progress import StageProgress
from monitor.reports.evaluation import difference
from monitor.reports.evaluation.assess import DRAWS
from monitor.reports.evaluation.difference import Difference, Events
from monitor.reports.evaluation.files import report_table
from monitor.reports.evaluation.inputs import relative_weights
from monitor.reports.evaluation.report import Report
from monitor.sources.tables import EventTable

Pairing = Literal["ids", "rows", "none"]


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
    here = np.flatnonzero(positions.is_valid().to_numpy())
    if not here.size:
        return Aligned(first, second, "none", "no id stands in both files, so these are compared as different events")
    there = pc.drop_null(positions).to_numpy()
    y, other = first.outcome[here], second.outcome[there]
    different = (y >= 0) & (other >= 0) & (y != other)
    if different.any():
        at = int(np.argmax(different))
        raise InputError(
            f"the outcome of id {ids[int(here[at])].as_py()!r} is {y[at]} in the first file and {other[at]} in the "
            f"second ({np.count_nonzero(different):,} such ids); an event has one outcome: correct one of the files"
        )
    # An outcome that is missing in one file may be in the other.
    outcome = np.where(y >= 0, y, other)
    one, two = _rows(first, here, outcome), _rows(second, there, outcome)
    left = len(first) + len(second) - 2 * here.size
    out = f"; {left:,} rows whose id stands in one file only are left out" if left else ""
    if not _same(one.weight, two.weight):
        return Aligned(one, two, "none", f"the weights of the same ids differ, so nothing is paired{out}")
    return Aligned(one, two, "ids", f"{here.size:,} ids stand in both files, and are compared event by event{out}")


def _rows(table: EventTable, rows: NDArray[np.intp], outcome: NDArray[np.int8]) -> EventTable:
    return replace(
        table,
        prediction=table.prediction[rows],
        outcome=outcome,
        time_ms=None if table.time_ms is None else table.time_ms[rows],
        weight=None if table.weight is None else table.weight[rows],
        ids=None,
        features=None,
        segments={},
    )


def _same(weight: NDArray[np.float64] | None, other: NDArray[np.float64] | None) -> bool:
    if weight is None or other is None:
        return weight is other
    return np.array_equal(weight, other)


_CLEAR_ERRORS: Final = 2.576
"""Standard errors that chance exceeds in 1% of cases."""

_MIN_VARIANCE_RATIO: Final = 1.25
"""Ratio of the variances of the outcomes from which measures cannot be compared."""


@dataclass(frozen=True, slots=True)
class Comparison:
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
    progress: StageProgress | None = None,
    tolerance: float = TOLERANCE,
) -> Comparison:
    """Compare the calibration of two tables of predictions.

    Rows are paired where both tables are of the same events, see :func:`align`; then both are drawn together, so that
    common chance cancels. Intervals of semi-norms of the residuals (kCE, smCE, ECE, ...) are those of
    :func:`.difference.of_norm`; of mean losses of the same events (Brier score, log loss), those of the central limit
    theorem; of any other measure, MCE among them, they follow from both intervals:
    :func:`.difference.from_intervals`. All are cut to possible differences.

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
        raise InputError("files of many classes are not compared; name one column of P(y = 1) with --prediction")
    aligned = align(first, second)
    a, b = (
        report_table(
            replace(table, segments={}),
            model=name,
            measures=measures,
            draws=draws,
            seed=seed,
            progress=progress,
            tolerance=tolerance,
        ).whole
        for table, name in zip((aligned.first, aligned.second), names, strict=True)
    )
    paired = aligned.pairing != "none"
    shared = {name: measures[name] for name in a.measures if name in b.measures}
    differences = {
        name: difference.from_intervals(a.measures[name], b.measures[name], paired=paired) for name in shared
    }
    if not shared:
        return Comparison(a, b, aligned.pairing, aligned.note, differences)
    one, two = _events(aligned.first), _events(aligned.second)
    if draws:
        drawn = difference.norms_of_draws(
            one,
            two,
            shared,
            (difference.paired_errors if paired else difference.independent_errors)(one, two, draws, seed),
            lambda done: progress("comparing", done / draws) if progress is not None else None,
        )
        for name, (together, alone) in drawn.items():
            differences[name] = difference.of_norm(differences[name], together, alone)
        for name, measure in shared.items():
            if paired and measure.losses is not None:
                differences[name] = difference.of_losses(differences[name], one, two, measure.losses)
            differences[name] = differences[name].within(
                largest_value(measure, one.table), largest_value(measure, two.table)
            )
    apart = None if paired else _prevalences_apart(one, two, names)
    return Comparison(a, b, aligned.pairing, aligned.note, differences, () if apart is None else (apart,))


def _prevalences_apart(first: Events, second: Events, names: tuple[str, str]) -> str | None:
    """The caution where two prevalences differ clearly, or None.

    Errors shrink with p (1 - p), the variance of an outcome: prevalences differ clearly where p <= .01 and one of
    these variances is a quarter larger than the other.
    """
    rates, errors, variances = [], [], []
    for events in (first, second):
        rate, weight = events.table.prevalence, events.weight
        worth = float(weight.sum()) ** 2 / float(weight @ weight)
        rates.append(rate)
        variances.append(rate * (1.0 - rate))
        # With two more events of either kind: without any, the error would be 0.
        errors.append((rate * worth + 2.0) * ((1.0 - rate) * worth + 2.0) / (worth + 4.0) ** 3)
    if abs(rates[0] - rates[1]) <= _CLEAR_ERRORS * math.sqrt(sum(errors)) or max(variances) < _MIN_VARIANCE_RATIO * min(
        variances
    ):
        return None
    shown = " and ".join(f"{100.0 * rate:.3g}% in {name}" for rate, name in zip(rates, names, strict=True))
    return (
        f"prevalences differ ({shown}), and the same fault of the logits gives smaller values where outcomes are "
        "rarer: a lower value is no better calibration; compare offsets and slopes, and each model with its own level"
    )


def _events(table: EventTable) -> Events:
    """The events with an outcome and a weight above 0."""
    known = table.outcome >= 0
    weight = None
    if table.weight is not None:
        relative = relative_weights(table.weight)
        known &= relative > 0.0
        weight = relative[known]
    return Events(table.prediction[known], table.outcome[known].astype(float), weight)
