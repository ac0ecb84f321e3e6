"""The verdict on a table: is the prior wrong, the shape, or neither, judged by evidence and size of the fault."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from monitor.inference.calibration_tests import calibration_test
from monitor.inference.cox import Cox, fit_cox
from monitor.inference.power import POWER, DetectableFaults, detectable_faults
from monitor.inference.prevalence import LEVEL, PriorShift, prior_shift
from monitor.inference.rare_outcomes import caution_of_few, tail_of_few
from monitor.inference.resampling import resampled, widen
from monitor.measures import Decomposition, corp_decomposition
from monitor.measures.proper_scores import Score
from monitor.options import TOLERANCE
from monitor.reports.evaluation.assess import Minimum
from monitor.reports.evaluation.report import REACH, Diagnosis, Report, Severity, Verdict
from monitor.reports.formatting import rounded_share
from monitor.scores import ScoreTable

WEAK: Final = 0.05
"""A p-value up to this is weak evidence: one calibrated model in twenty has as much, so it is no verdict."""

MINIMUM: Final = Minimum(events=50, positives=5, negatives=5)
"""Data that a diagnosis needs: with five positives an offset is uncertain by some 0.9 logits, and with fewer the tests
are unreliable. Weighted events count as many as they are worth."""

_SCORES: Final[tuple[Score, ...]] = ("brier", "log_loss")
"""Standard errors to either side in a 95% interval."""


class _Evidence(NamedTuple):
    """The results of the tests on a table."""

    fit: Cox
    p_value: float
    shift: PriorShift
    detectable: DetectableFaults
    tolerance: float
    contradicted: str
    """See :func:`_contradicted_certainty`."""


def diagnosed(
    report: Report, table: ScoreTable, *, draws: int, seed: int | None = None, tolerance: float = TOLERANCE
) -> Report:
    """Add the diagnosis and the decomposition of the scores to a report.

    Parameters
    ----------
    table
        The report's predictions and outcomes; m rows.
    draws
        Resamples for the diagnosis; 0 leaves it out, unless there is too little data, which it says then.
    seed
        Seed of the resamples; derived from the table if left out.
    tolerance
        See :func:`diagnose`.
    """
    # Measures that are not defined on these events say nothing about the amount of data.
    if report.insufficient is not None and not report.omitted:
        return replace(report, diagnosis=_insufficient(report.insufficient, table), decomposition={})
    diagnosis = diagnose(table, draws=draws, seed=seed, tolerance=tolerance) if draws else None
    return replace(report, diagnosis=diagnosis, decomposition=decompose(table))


def decompose(table: ScoreTable) -> Mapping[str, Decomposition]:
    """Decompose the proper scores, those that are finite."""
    parts = {score: corp_decomposition(table, score) for score in _SCORES}
    return {score: part for score, part in parts.items() if math.isfinite(part.score)}


def diagnose(table: ScoreTable, *, draws: int, seed: int | None = None, tolerance: float = TOLERANCE) -> Diagnosis:
    """Distinguish a shift of the prior from a fault of shape.

    There is a fault where the combined test rejects calibration (p <= .01) and the logits are off by more than the
    tolerance. Two numbers measure that: the best offset b, and what remains after it. Each is a fault if its own test
    rejects too; if only the combined test rejects, the one with the smaller p-value is the fault.

    Parameters
    ----------
    table
        m rows. A table of more rows than the grid has cells is put on the grid first.
    draws
        Resamples, at least 19.
    seed
        Seed of the resamples; derived from the table if left out.
    tolerance
        Error of the logits up to which nothing is a fault, at least 0.
    """
    cells = resampled(table, "a diagnosis")
    shortfall = MINIMUM.shortfall(_in_events(cells))
    if shortfall is not None:
        return _insufficient(shortfall, cells)
    fit = fit_cox(cells)
    p_value = calibration_test(cells, fit=fit, draws=draws, seed=seed).p_value
    shift = prior_shift(cells, fit=fit)
    # To three digits, these depend on the predictions' law alone.
    detectable = detectable_faults(widen(cells), tolerance=tolerance)
    evidence = _Evidence(fit, p_value, shift, detectable, tolerance, _contradicted_certainty(cells))
    verdict = _verdict(evidence)
    events = _in_events(cells)
    caution = caution_of_few(float(events.positives.sum()), float(events.negatives.sum()))
    return Diagnosis(
        verdict=verdict,
        sentence=" ".join(filter(None, (_sentence(verdict, evidence), evidence.contradicted, caution))),
        p_value=p_value,
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
        severity=_severity(verdict, shift),
        tolerance=tolerance,
        detectable_offset=detectable.offset,
        detectable_slope_below=detectable.slope_below,
        detectable_slope_above=detectable.slope_above,
    )


def _verdict(evidence: _Evidence) -> Verdict:
    if evidence.p_value > LEVEL:
        return Verdict.CALIBRATED
    fit, shift, tolerance = evidence.fit, evidence.shift, evidence.tolerance
    # Evidence of each fault, where it is large enough to matter.
    p_values = {}
    if abs(fit.offset) > tolerance:
        p_values[Verdict.PRIOR_SHIFT] = fit.offset_p_value
    if shift.logit_error_after_offset > tolerance:
        p_values[Verdict.SHAPE] = shift.p_value
    if not p_values:
        return Verdict.CALIBRATED
    sure = [fault for fault, p_value in p_values.items() if p_value <= LEVEL]
    if len(sure) > 1:
        return Verdict.BOTH
    return sure[0] if sure else min(p_values, key=p_values.__getitem__)


def _severity(verdict: Verdict, shift: PriorShift) -> Severity:
    """Classify the size of the fault that the verdict names."""
    if verdict is Verdict.CALIBRATED:
        return Severity.NONE
    if verdict is Verdict.PRIOR_SHIFT:
        return Severity.of(abs(shift.offset))
    if verdict is Verdict.SHAPE:
        return Severity.of(shift.logit_error_after_offset)
    return Severity.of(math.hypot(shift.offset, shift.logit_error_after_offset))


def _sentence(verdict: Verdict, evidence: _Evidence) -> str:
    fit, shift = evidence.fit, evidence.shift
    if verdict is Verdict.CALIBRATED:
        return _calibrated_sentence(evidence)
    direction = "low" if fit.offset > 0.0 else "high"
    if verdict is Verdict.PRIOR_SHIFT:
        return (
            f"Predictions are too {direction}: {_frequencies(shift)}. Add {fit.offset:+.2f} (give or take "
            f"{_few_digits(REACH * fit.offset_error)}) to every logit, which multiplies the odds by "
            f"{math.exp(fit.offset):.2f}; {_beyond_offset(evidence)}."
        )
    if fit.slope_upper is not None and fit.slope_upper < 0.0:
        return (
            f"Predictions point the wrong way: the higher they are, the less often outcomes come true (slope of the "
            f"logits {fit.slope:.2f}, where 1 is right). Check whether the outcomes or the predictions are inverted, "
            "before anything is recalibrated."
        )
    shape = _shape(evidence)
    if verdict is Verdict.SHAPE:
        return f"Predictions {shape}. An offset does not repair it: recalibrate on recent data, or retrain the model."
    return (
        f"Predictions are too {direction} ({_frequencies(shift)}) and {shape}. An offset of {fit.offset:+.2f} to every "
        f"logit repairs the first alone and takes smCE from {shift.error:.3g} to {shift.error_after_offset:.3g}: "
        "recalibrate on recent data, or retrain the model."
    )


def _calibrated_sentence(evidence: _Evidence) -> str:
    fit, shift, tolerance = evidence.fit, evidence.shift, evidence.tolerance
    p_value = _p(evidence.p_value)
    if evidence.p_value > LEVEL:
        degree = (
            f"No evidence of miscalibration (p = {p_value})"
            if evidence.p_value > WEAK
            else f"Weak evidence of miscalibration (p = {p_value}, and a verdict takes {LEVEL})"
        )
        return f"{degree}: {_frequencies(shift)}. {_power(evidence.detectable)}"
    text = (
        f"There is an error that chance does not explain (p = {p_value}), but too small to matter: the logits are off "
        f"by {fit.offset:+.2f} in all and by {shift.logit_error_after_offset:.2f} beyond that, and up to "
        f"{tolerance:g} is tolerated"
    )
    limit = abs(fit.offset) + REACH * fit.offset_error
    if limit <= tolerance and _largest_left(shift) <= tolerance:
        if evidence.contradicted:
            return f"{text}."
        return f"{text}. Nothing is to be done."
    return f"{text}. With this many events a larger error cannot be excluded."


def _beyond_offset(evidence: _Evidence) -> str:
    """Faults that the offset does not fix, as a clause after a semicolon."""
    fit, shift = evidence.fit, evidence.shift
    if _largest_left(shift) <= evidence.tolerance and not evidence.contradicted:
        return "beyond that no fault is seen on the whole, for which the model need not be retrained"
    detected = (
        "beyond that no fault is seen"
        if shift.p_value > WEAK
        else f"of a fault beyond that there is weak evidence (p = {_p(shift.p_value)})"
    )
    if shift.slope_limit <= evidence.tolerance or fit.slope_lower is None or fit.slope_upper is None:
        return (
            f"{detected}, but with this many events errors of up to {shift.stretch_limit:.2g} in parts of their range "
            "cannot be excluded"
        )
    slopes = f"a slope between {fit.slope_lower:.2f} and {fit.slope_upper:.2f}"
    if not fit.slope_lower <= 1.0 <= fit.slope_upper:
        return f"beyond that there is weak evidence of {slopes}, where 1 is right"
    return f"{detected}, but with this many events {slopes} cannot be excluded"


def _largest_left(shift: PriorShift) -> float:
    """Bound the error of the logits that may remain after the offset."""
    return max(shift.logit_error_after_offset, shift.slope_limit, shift.stretch_limit)


def _power(detectable: DetectableFaults) -> str:
    """Describe the smallest faults that would have been detected."""
    slopes = [slope for slope in (detectable.slope_below, detectable.slope_above) if slope is not None]
    faults = [] if detectable.offset is None else [f"an offset of the logits of {detectable.offset:.2g}"]
    if slopes:
        faults.append(f"a slope of {' or '.join(f'{slope:.2f}' for slope in slopes)}")
    if not faults:
        return "With this many events no fault would have been found."
    return f"With this many events, {' or '.join(faults)} would have been found with probability {POWER}."


def _shape(evidence: _Evidence) -> str:
    """Describe the fault of shape, as a predicate of the word "predictions"."""
    fit, size = evidence.fit, evidence.shift.logit_error_after_offset
    off = f"off by {size:.2f} in logits after the best offset"
    if fit.slope is None or fit.slope_p_value is None or fit.slope_p_value > LEVEL:
        surprise = evidence.shift.contradictions
        if surprise.p_value <= LEVEL:
            side, kind = ("low", "came true") if surprise.positive else ("high", "failed to come true")
            return (
                f"are too sure at their {side} end: {surprise.observed:g} {kind} where, after the best offset, "
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
    """Format with two decimals, or as many as a small number needs: never 0.00."""
    return f"{size:.2f}" if size >= 0.095 else f"{size:.1g}"


def _frequencies(shift: PriorShift) -> str:
    return f"{rounded_share(shift.mean_prediction)} predicted, {rounded_share(shift.prevalence)} came true"


def _insufficient(reason: str, table: ScoreTable) -> Diagnosis:
    said = f"Too little data to tell: {reason}.{_few_outcomes(table)} {_contradicted_certainty(table)}"
    return Diagnosis(Verdict.INSUFFICIENT, said.rstrip())


def _contradicted_certainty(table: ScoreTable) -> str:
    """Describe outcomes that contradict predictions of exactly 0 and 1, which no test of means may notice."""
    contradicted = []
    for score, hits, misses, kind in (
        (0.0, table.negatives, table.positives, "positive"),
        (1.0, table.positives, table.negatives, "negative"),
    ):
        certain = table.score == score
        wrong, count = float(misses[certain].sum()), float((hits + misses)[certain].sum())
        if wrong > 0.0:
            # Weights are no numbers of events.
            part = f"{rounded_share(wrong / count)} of" if table.weighted else f"{wrong:,.0f} of {count:,.0f}"
            contradicted.append(f"{part} predictions of exactly {score:.0f} came out {kind}")
    if not contradicted:
        return ""
    return f"{' and '.join(contradicted)}, which such predictions exclude: let the model say neither 0 nor 1 exactly."


def _few_outcomes(table: ScoreTable) -> str:
    """Describe few positives or few negatives: a broken label feed looks like this."""
    few = min(table.positives.sum(), table.negatives.sum())
    if table.rows == 0 or _in_events(table).total < MINIMUM.events or few >= MINIMUM.positives:
        return ""
    gap = f" {rounded_share(table.mean_prediction)} predicted, {rounded_share(table.prevalence)} came true"
    # The tail probability needs whole events.
    if table.weighted:
        return f"{gap}."
    positive = bool(few == table.positives.sum())
    probability = tail_of_few(resampled(table, "a diagnosis"), positive=positive)
    kind = "positives" if positive else "negatives"
    text = f"{gap}; of a calibrated model, so few {kind} have the probability {_p(probability)}."
    return f"{text} Check where the outcomes come from." if probability <= LEVEL else text


def _in_events(table: ScoreTable) -> ScoreTable:
    """Scale a weighted table to as many events as its weights are worth."""
    if not table.weighted:
        return table
    squares = np.stack([table.positive_squares, table.negative_squares])
    worth = table.events_per_weight
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


def _p(value: float) -> str:
    """Format a p-value with two digits, or more where rounding would cross a level."""
    digits = 2
    while any((float(f"{value:.{digits}g}") <= level) != (value <= level) for level in (LEVEL, WEAK)):
        digits += 1
    return f"{value:.{digits}g}"
