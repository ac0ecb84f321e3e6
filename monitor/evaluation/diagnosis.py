"""Is it the prior or the model? The verdict on a table, with the evidence and the size of the fault together."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from monitor.evaluation.assess import Minimum
from monitor.evaluation.report import Diagnosis, Report, Verdict
from monitor.inference.combined import calibration_test
from monitor.inference.cox import Cox, fit_cox
from monitor.inference.few import caution_of_few, tail_of_few
from monitor.inference.prevalence import LEVEL, PriorShift, prior_shift
from monitor.inference.resampling import resampled
from monitor.measures import Decomposition, corp_decomposition
from monitor.measures.corp import Score
from monitor.scores import ScoreTable

TOLERANCE: Final = 0.05
"""Errors of the logits up to this are too small to matter, however certain they are: they change odds by 5%."""

LEAST: Final = Minimum(events=50, positives=5, negatives=5)
"""With less nothing is said: an offset is uncertain by some 0.9 logits with five positives, and the tests are not to be
relied on. Of weights, as many events count as they are worth."""

_SCORES: Final[tuple[Score, ...]] = ("brier", "log_loss")
_INTERVAL: Final = 1.96
"""Standard errors to either side in a 95% interval."""


class _Found(NamedTuple):
    fit: Cox
    p_value: float
    shift: PriorShift


def diagnosed(report: Report, table: ScoreTable, *, draws: int, seed: int | None = None) -> Report:
    """The report with its diagnosis and with its scores in parts.

    Parameters
    ----------
    table
        What the report is of; m rows.
    draws
        Resamples for the diagnosis; with 0 there is none, but where there is too little data for any.
    seed
        Of the resamples; the table's content if left out.
    """
    # That no measure that was asked for can be had of these events says nothing of the events.
    if report.insufficient is not None and not report.omitted:
        return replace(report, diagnosis=_insufficient(report.insufficient, table), decomposition={})
    diagnosis = diagnose(table, draws=draws, seed=seed) if draws else None
    return replace(report, diagnosis=diagnosis, decomposition=decompose(table))


def decompose(table: ScoreTable) -> Mapping[str, Decomposition]:
    """The proper scores in parts, those that are finite."""
    parts = {score: corp_decomposition(table, score) for score in _SCORES}
    return {score: each for score, each in parts.items() if math.isfinite(each.score)}


def diagnose(table: ScoreTable, *, draws: int, seed: int | None = None) -> Diagnosis:
    """Tell a shift of the prior from a fault of shape.

    There is a fault where the tests together say so (p <= .01) and the logits are off by more than .05, which is told
    by two numbers: the best offset b, and what remains after it. Each counts if its own test says so too; if the tests
    together are sure of a fault and neither alone is, the one counts that has the smaller p-value.

    Parameters
    ----------
    table
        m rows. One of more rows than the grid has cells is put on the grid first.
    draws
        Resamples, at least 19.
    seed
        Of the resamples; the table's content if left out.
    """
    cells = resampled(table, "a diagnosis")
    shortfall = LEAST.shortfall(_in_events(cells))
    if shortfall is not None:
        return _insufficient(shortfall, cells)
    fit = fit_cox(cells)
    found = _Found(fit, calibration_test(cells, fit=fit, draws=draws, seed=seed).p_value, prior_shift(cells, fit=fit))
    shift = found.shift
    verdict = _verdict(found)
    events = _in_events(cells)
    caution = caution_of_few(float(events.positives.sum()), float(events.negatives.sum()))
    return Diagnosis(
        verdict=verdict,
        sentence=f"{_sentence(verdict, found)} {caution}".rstrip(),
        p_value=found.p_value,
        offset=fit.offset,
        offset_error=fit.offset_error,
        slope=_finite(fit.slope),
        slope_error=_finite(fit.slope_error),
        slope_lower=fit.slope_lower,
        slope_upper=fit.slope_upper,
        error=shift.error,
        error_after_offset=shift.error_after_offset,
        logit_error_after_offset=shift.logit_error_after_offset,
        prior_shift_p_value=shift.p_value,
    )


def offset_interval(diagnosis: Diagnosis) -> tuple[float, float] | None:
    """95% interval of the offset, if there is one."""
    if diagnosis.offset is None or diagnosis.offset_error is None:
        return None
    reach = _INTERVAL * diagnosis.offset_error
    return diagnosis.offset - reach, diagnosis.offset + reach


def slope_interval(diagnosis: Diagnosis) -> tuple[float, float] | None:
    """95% interval of the slope, if there is one."""
    if diagnosis.slope_lower is None or diagnosis.slope_upper is None:
        return None
    return diagnosis.slope_lower, diagnosis.slope_upper


def _verdict(found: _Found) -> Verdict:
    if found.p_value > LEVEL:
        return Verdict.CALIBRATED
    fit, shift = found.fit, found.shift
    # Evidence of each fault, where it is large enough to matter.
    p_values = {}
    if abs(fit.offset) > TOLERANCE:
        p_values[Verdict.PRIOR_SHIFT] = fit.offset_p_value
    if shift.logit_error_after_offset > TOLERANCE:
        p_values[Verdict.SHAPE] = shift.p_value
    if not p_values:
        return Verdict.CALIBRATED
    sure = [fault for fault, p_value in p_values.items() if p_value <= LEVEL]
    if len(sure) > 1:
        return Verdict.BOTH
    return sure[0] if sure else min(p_values, key=p_values.__getitem__)


def _sentence(verdict: Verdict, found: _Found) -> str:
    fit, shift = found.fit, found.shift
    if verdict is Verdict.CALIBRATED:
        if found.p_value > LEVEL:
            limit = abs(fit.offset) + _INTERVAL * fit.offset_error
            return (
                f"No miscalibration beyond chance (p = {_p(found.p_value)}): {_frequencies(shift)}; an offset of the "
                f"logits is smaller than {limit:.2f}."
            )
        return (
            f"Miscalibrated beyond chance (p = {_p(found.p_value)}), but too little to matter: the logits are off by "
            f"{fit.offset:+.2f} in all and by {shift.logit_error_after_offset:.2f} beyond that, and up to {TOLERANCE} "
            "is tolerated. Nothing is to be done."
        )
    direction = "low" if fit.offset > 0.0 else "high"
    if verdict is Verdict.PRIOR_SHIFT:
        return (
            f"Predictions are too {direction}: {_frequencies(shift)}. Add {fit.offset:+.2f} (give or take "
            f"{_few_digits(_INTERVAL * fit.offset_error)}) to every logit, which multiplies the odds by "
            f"{math.exp(fit.offset):.2f}; beyond that no fault is seen, and no refit is needed."
        )
    shape = _shape(found)
    if verdict is Verdict.SHAPE:
        return f"Predictions {shape}. An offset does not repair it: recalibrate on recent data, or refit the model."
    return (
        f"Predictions are too {direction} ({_frequencies(shift)}) and {shape}. An offset of {fit.offset:+.2f} to every "
        f"logit repairs the first alone and takes smCE from {shift.error:.3g} to {shift.error_after_offset:.3g}: "
        "recalibrate on recent data, or refit the model."
    )


def _shape(found: _Found) -> str:
    """The fault of shape, to follow the word predictions."""
    fit, size = found.fit, found.shift.logit_error_after_offset
    off = f"off by {size:.2f} in logits after the best offset"
    if fit.slope is None or fit.slope_p_value is None or fit.slope_p_value > LEVEL:
        surprise = found.shift.contradictions
        if surprise.p_value <= LEVEL:
            side, kind = ("low", "came true") if surprise.positive else ("high", "failed to come true")
            return (
                f"are too sure at their {side} end: {surprise.found:g} {kind} where, after the best offset, "
                f"{surprise.expected:.2g} would be expected to ({off})"
            )
        return f"are too high in parts of their range and too low in others ({off})"
    kind = "too sure of themselves" if fit.slope < 1.0 else "not sure enough of themselves"
    if fit.slope_lower is None or fit.slope_upper is None:
        return f"are {kind} (they part the outcomes perfectly; {off})"
    within = (fit.slope_upper - fit.slope_lower) / 2.0
    return (
        f"are {kind} (slope of the logits {fit.slope:.2f}, give or take {_few_digits(within)}, where 1 is right; {off})"
    )


def _few_digits(size: float) -> str:
    """Two decimals, or as many as a small number needs: never 0.00."""
    return f"{size:.2f}" if size >= 0.095 else f"{size:.1g}"


def _frequencies(shift: PriorShift) -> str:
    return f"{_share(shift.mean_prediction)} predicted, {_share(shift.prevalence)} came true"


def _insufficient(reason: str, table: ScoreTable) -> Diagnosis:
    return Diagnosis(Verdict.INSUFFICIENT, f"Too little data to tell: {reason}.{_of_few(table)}")


def _of_few(table: ScoreTable) -> str:
    """What a lack of one kind of outcomes says all the same: a label feed that is broken looks like it."""
    few = min(table.positives.sum(), table.negatives.sum())
    if table.rows == 0 or _in_events(table).total < LEAST.events or few >= LEAST.positives:
        return ""
    gap = f" {_share(table.mean_prediction)} predicted, {_share(table.prevalence)} came true"
    # The tail is one of whole events.
    if table.weighted:
        return f"{gap}."
    positive = bool(few == table.positives.sum())
    probability = tail_of_few(resampled(table, "a diagnosis"), positive=positive)
    kind = "positives" if positive else "negatives"
    said = f"{gap}; of a calibrated model, so few {kind} have the probability {_p(probability)}."
    return f"{said} Check where the outcomes come from." if probability <= LEVEL else said


def _in_events(table: ScoreTable) -> ScoreTable:
    """A weighted table with as many events as its weights are worth."""
    if not table.weighted:
        return table
    squares = np.stack([table.positive_squares, table.negative_squares])
    worth = table.total / float(squares.sum())
    return replace(
        table,
        positives=worth * table.positives,
        negatives=worth * table.negatives,
        positive_sum=worth * table.positive_sum,
        negative_sum=worth * table.negative_sum,
        squares=worth**2 * squares,
    )


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _share(value: float) -> str:
    return f"{100.0 * value:.3g}%"


def _p(value: float) -> str:
    return f"{value:.2g}"
