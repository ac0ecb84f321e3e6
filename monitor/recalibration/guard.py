"""The guard: whether a map is better on later events than what serves now, and not worse among similar events."""

import math
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

import msgspec
import numpy as np
from scipy.special import logsumexp, ndtri

from monitor.arrays import Floats, Ints
from monitor.roots import brentq
from monitor.sequential.serving_map import MIN_LOSS, SHARES, gains

MIN_E_VALUE: Final = 20.0
"""Required e-value: a challenger that is no better reaches it with a probability of at most 1 / 20."""

MAX_E: Final = 1e300
"""Largest e-value in JSON, which has no infinity; ``log10_e`` is exact."""

LOCAL_TOLERANCE: Final = 1.0
"""Standard deviations by which the excess of the largest local error may exceed that of what serves now."""

Against = Literal["none", "champion"]

_NORMAL_975: Final = float(ndtri(0.975))


class LossDifference(msgspec.Struct, frozen=True):
    """Mean loss of the challenger minus that of the other map: below 0 if the challenger is better.

    Attributes
    ----------
    value
        The difference.
    lower, upper
        95% confidence interval of the paired difference, by the central limit theorem.
    """

    value: float
    lower: float
    upper: float


class MapEvidence(msgspec.Struct, frozen=True):
    """Evidence that a challenger is better than another map.

    Attributes
    ----------
    e_value
        The e-value, at most 1e300.
    log10_e
        Its decimal logarithm, exact.
    brier_difference, lower, upper
        Difference of the mean Brier losses and its 95% interval.
    log_loss_difference
        Difference of the mean log losses; None if one is infinite.
    """

    e_value: float
    log10_e: float
    brier_difference: float
    lower: float
    upper: float
    log_loss_difference: LossDifference | None

    def reaches(self, e_value: float) -> bool:
        """Whether the e-value is at least this one."""
        return self.log10_e >= math.log10(e_value)


class LocalExcess(NamedTuple):
    """The largest local error of a map, compared with that of a calibrated model.

    Attributes
    ----------
    excess
        Its value minus the mean for a calibrated model with the same predictions.
    deviation
        Standard deviation for a calibrated model.
    """

    excess: float
    deviation: float


class Guard(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a challenger may be promoted.

    Attributes
    ----------
    passed
        Whether it may.
    reasons
        Sentences: all reasons against it or, if there are none, all checks that it passed.
    notes
        Sentences about checks that were not possible.
    against
        What serves now: ``champion``, or ``none``.
    """

    passed: bool
    reasons: tuple[str, ...]
    notes: tuple[str, ...] = ()
    against: Against


def log_losses(prediction: Floats, outcome: Ints) -> Floats:
    """Return the log loss of each event in nats, (n,); infinite if the outcome had probability 0."""
    if prediction.ndim == 1:
        own = np.where(outcome == 1, prediction, 1.0 - prediction)
    else:
        own = prediction[np.arange(outcome.size), outcome]
    with np.errstate(divide="ignore"):
        return np.asarray(-np.log(own), np.float64)


def weigh(baseline: Floats, challenger: Floats, outcome: Ints, weight: Floats) -> MapEvidence:
    r"""Compute the evidence that a challenger is better than a baseline.

    .. math:: E = \frac1{|B|} \sum_{\beta \in B} \prod_i \left(1 + \beta w_i [L(p_i, y_i) - L(q_i, y_i)]\right)

    with p the baseline's predictions, q the challenger's, and L the Brier loss, which lies in [0, 1]. The bets are
    B = {lambda / max w} and {lambda / max_i w_i m_i} for the lambda of :data:`SHARES`, with m_i the most that the
    challenger can lose on event i, whatever its outcome. Both keep every factor above 0.

    If the challenger is not better, the mean of E is at most 1, so that E >= 20 has a probability of at most 5%. That
    holds given the predictions and the weights, for independent outcomes of any law, stationary or not, as long as the
    weighted mean of the expected differences is at most 0: by the inequality of arithmetic and geometric means,
    prod (1 + beta w_i d_i) <= (1 + beta mean(w_i d_i))^n <= 1. So it holds for a sample with a fixed number of events
    in each stratum, too.

    Parameters
    ----------
    baseline, challenger
        float64, shape (n,) or (n, K).
    outcome
        int64, shape (n,).
    weight
        float64, shape (n,), above 0: how many events each represents.

    Notes
    -----
    Source: section 7 of the mathematics, which has the bets lambda / max w only. The others are a departure: if
    outcomes are rare or the maps are similar, all differences are small, and the former bets never win anything. At a
    prevalence of 1% and 6,000 held-out events, a challenger that removes an offset of .7 in the logits reached 20 in
    .00 of 1,000 samples, and in .46 with both kinds; for a slope of 1.3 of balanced models it was .81 instead of .86.
    """
    gain, max_loss = gains(baseline, challenger, outcome)
    logs = _logs_of_bets(gain, max_loss, weight)
    log10_e = float(logsumexp(logs) - math.log(logs.size)) / math.log(10.0)
    brier = mean_difference(-gain, weight)
    return MapEvidence(
        e_value=float(10.0 ** min(log10_e, math.log10(MAX_E))),
        log10_e=log10_e,
        brier_difference=brier.value,
        lower=brier.lower,
        upper=brier.upper,
        log_loss_difference=log_loss_difference(baseline, challenger, outcome, weight),
    )


def events_until(e_value: float, baseline: Floats, challenger: Floats, outcome: Ints, weight: Floats) -> int | None:
    """Estimate the number of such events on which the evidence reaches an e-value; None if never.

    If the difference is small compared with its noise, another sample may need several times as many.
    """
    growth = _logs_of_bets(*gains(baseline, challenger, outcome), weight) / outcome.size
    if growth.max() <= 0.0:
        return None
    target = math.log(e_value * growth.size)

    def missing(events: float) -> float:
        return target - float(logsumexp(events * growth))

    # The best bet alone reaches it then.
    enough = target / float(growth.max())
    return math.ceil(brentq(missing, 0.0, enough)) if missing(enough) < 0.0 else math.ceil(enough)


def _logs_of_bets(gain: Floats, max_loss: Floats, weight: Floats) -> Floats:
    """Return the logarithm of each bet's wealth."""
    largest_loss = float((weight * max_loss).max())
    stakes = [share / float(weight.max()) for share in SHARES]
    if largest_loss > MIN_LOSS:
        stakes += [share / largest_loss for share in SHARES]
    return np.array([np.log1p(stake * weight * gain).sum() for stake in stakes])


def judge(
    *,
    against: Against,
    against_serving: MapEvidence,
    against_none: MapEvidence,
    events: int,
    local: LocalExcess | None = None,
    local_serving: LocalExcess | None = None,
    notes: Sequence[str] = (),
) -> Guard:
    """Decide about a challenger.

    It passes if all of these hold:

    - The e-value against what serves now is at least 20 (:func:`weigh`).
    - The excess of its largest local error (MLCE less its mean under calibration) lies no more than one standard
      deviation above that of what serves now: that of the difference of two such levels, sqrt(s^2 + s'^2). Simulated
      (``python -m tests.simulations.test_guard_simulation``) with a tolerance of 0, 1 and 2 of them: of challengers
      that are better everywhere .07 to .27, .00 to .08 and .00 to .02 are refused. Of those that are better on the
      whole and 1 to 1.5 off in the logits in a tenth of the space, .43 to .78, .10 to .58 and .02 to .35 are, with
      2,000 held-out events; .73 to 1.00, .47 to 1.00 and .27 to .90 with 6,000. A refusal by chance costs little,
      because the next refit tries again; a map that hurts a tenth costs more.
    - It is not evidently worse than no map at all: the 95% interval of the difference of Brier scores does not lie
      above 0.

    Parameters
    ----------
    against
        What serves now: ``champion``, or ``none``.
    against_serving, against_none
        The evidence; the same if no map serves.
    events
        Number of held-out events.
    local, local_serving
        Local errors of the challenger and of what serves; None if unknown.
    notes
        Sentences about checks that were not possible.
    """
    faults: list[str] = []
    passed: list[str] = []
    serving = "the map that serves" if against == "champion" else "no map"
    result = (
        f"on {events:,} later events its Brier score is {_lower(against_serving.brier_difference)} (95% interval of the"
        f" difference {against_serving.lower:+.2g} to {against_serving.upper:+.2g}), evidence {_e(against_serving)}"
    )
    if against_serving.reaches(MIN_E_VALUE):
        passed.append(f"Better than {serving}: {result}, where at least {MIN_E_VALUE:g} is needed.")
    else:
        fault = f"Not evidently better than {serving}: {result}, and at least {MIN_E_VALUE:g} is needed."
        # Two tests that disagree: say which one decides.
        if against_serving.upper < 0.0:
            fault += (
                " The interval alone would pass it; the evidence decides, as it holds however often maps are compared."
            )
        faults.append(fault)
    if against_none.lower > 0.0:
        faults.append(
            f"Evidently worse than no map at all: its Brier score is {against_none.brier_difference:.2g} higher "
            f"(95% interval {against_none.lower:+.2g} to {against_none.upper:+.2g})."
        )
    if local is not None and local_serving is not None:
        allowed = LOCAL_TOLERANCE * math.hypot(local.deviation, local_serving.deviation)
        compared = (
            f"the largest error there lies {_beyond(local.excess)} chance, "
            f"that of {serving} {_beyond(local_serving.excess)} it"
        )
        if local.excess - local_serving.excess > allowed:
            faults.append(f"Worse among events that are alike: {compared}; up to {allowed:.2g} more would be chance.")
        else:
            passed.append(f"Not worse among events that are alike: {compared}.")
    return Guard(passed=not faults, reasons=tuple(faults or passed), notes=tuple(notes), against=against)


def mean_difference(difference: Floats, weight: Floats) -> LossDifference:
    """Return the mean of a column, such as differences of losses, (n,), with its interval."""
    share = weight / weight.sum()
    value = float(share @ difference)
    radius = _NORMAL_975 * math.sqrt(float(share**2 @ (difference - value) ** 2))
    return LossDifference(value, value - radius, value + radius)


def log_loss_difference(baseline: Floats, challenger: Floats, outcome: Ints, weight: Floats) -> LossDifference | None:
    """Return the mean difference of the log losses; None if one of them is infinite."""
    before, after = log_losses(baseline, outcome), log_losses(challenger, outcome)
    if not (np.isfinite(before).all() and np.isfinite(after).all()):
        return None
    return mean_difference(after - before, weight)


def _lower(brier_difference: float) -> str:
    if brier_difference == 0.0:
        return "no lower"
    return f"{abs(brier_difference):.2g} {'lower' if brier_difference < 0.0 else 'higher'}"


def _e(evidence: MapEvidence) -> str:
    if evidence.log10_e >= 6.0:
        return f"E = 10^{evidence.log10_e:.0f}"
    # Two significant digits would show 100 as 1e+02.
    return f"E = {evidence.e_value:,.0f}" if evidence.e_value >= 10.0 else f"E = {evidence.e_value:.2g}"


def _beyond(excess: float) -> str:
    return f"{abs(excess):.2g} {'above' if excess >= 0.0 else 'below'}"
