"""The hypothesis tests of TCE: many hypotheses "P(Y = 1) = p" against the outcomes of a few bins.

**The exact two-sided binomial test.** Above the observed rate k/n the p-value of a hypothesis p is P(X <= k) +
P(X >= x), where x is the first outcome beyond the mode that is no likelier than k. It is *not* monotone in p: x moves
in steps, and with each step the p-value falls, then may rise again (k = 1, n = 30: .1692 is rejected although .163 and
.1762 are not). Its parts are monotone, though: as p moves away from k/n the near tail P(X <= k) falls and x moves away;
and for a fixed x the far tail P(X >= x) rises. So over any range of hypotheses from p (nearer to k/n) to p' (further
away)

    P'(X <= k) + P(X >= x')   <=   p-value   <=   P(X <= k) + P'(X >= x),

and when one of the bounds passes alpha the whole range has one verdict. Ranges without a verdict are halved. A few
dozen bounds decide a bin of any number of predictions, and only these three properties of the test are used.

``scipy.stats.binomtest`` decides the single hypotheses whose p-value is closer to alpha than rounding, or whose x is
in doubt by rounding, so that every verdict is scipy's own.

**Student's t-test** accepts an interval about the rate, so that two limits per bin decide any number of predictions.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

import numpy as np
import scipy
from scipy.special import betainc, betaincc, expit, gammaln, stdtrit

from monitor.arrays import Bools, Floats, Ints
from monitor.measures.binomial_loops import (
    ACCEPTED,
    LOG_TOLERANCE,
    OPEN,
    REJECTED,
    log_factorials,
    straddling,
    verdicts,
)

Test = Literal["binomial", "t", "t_published"]


class BinomialTest:
    """The exact test, with the verdicts of ``scipy.stats.binomtest(k, n, score).pvalue <= alpha``.

    All tests are two-sided tests of "P(Y = 1) = p" for many p, given the outcomes of their bins. ``starts``,
    (bins + 1,), holds the first row of each bin, then m. ``successes`` and ``trials``, (bins,), are the observations;
    every ``trials`` > 0. ``alpha`` is the level of the test, in (0, 1).
    """

    def rejected(self, score: Floats, starts: Ints, successes: Ints, trials: Ints, alpha: float) -> Bools:
        """Whether each score (m,), strictly ascending in [0, 1], is rejected as the rate of its bin; (m,)."""
        verdict = verdicts(score, score, starts, successes, trials, alpha, log_factorials())
        rows = np.flatnonzero(verdict == OPEN)
        bins = np.searchsorted(starts, rows, side="right") - 1
        for row, b in zip(rows, bins, strict=True):
            p_value = scipy.stats.binomtest(int(successes[b]), int(trials[b]), float(score[row])).pvalue
            verdict[row] = REJECTED if p_value <= alpha else ACCEPTED
        return np.asarray(verdict == REJECTED)

    def straddling(
        self, lower: Floats, upper: Floats, starts: Ints, successes: Ints, trials: Ints, *, alpha: float
    ) -> Bools:
        """Whether the verdict could differ between the predictions of a row, in [lower, upper]; (m,) each.

        False only if all of [lower, upper] certainly has one verdict. Rows are ascending and disjoint.
        """
        return np.asarray(straddling(lower, upper, starts, successes, trials, alpha, log_factorials()))

    def acceptance_limits(self, successes: Ints, trials: Ints, alpha: float) -> tuple[Floats, Floats]:
        """The lowest and the highest hypothesis in [0, 1] that is not rejected; (bins,) each.

        To about 1e-9 relative to the distance from the nearer end of [0, 1].

        The p-value peaks at the hypotheses that make an outcome x exactly as likely as the observed one, up to scipy's
        tolerance, and the peaks fall away from the rate (tests: every k and n <= 60). The last peak above alpha is
        found by binary search; behind it the p-value may pass alpha once more before the next, lower peak.
        """
        return 1.0 - _upper_limit(trials - successes, trials, alpha), _upper_limit(successes, trials, alpha)


@dataclass(frozen=True, slots=True)
class StudentTest:
    """The t-test of one sample, with the verdicts of ``scipy.stats.ttest_1samp(outcomes, score).pvalue <= alpha``.

    A hypothesis whose p-value differs from alpha only in its last bits may have either verdict.

    Attributes
    ----------
    published
        Use the variance r (1 - r) in place of the standard deviation, divided by sqrt(n), as the TCE paper's published
        numbers do.
    """

    published: bool = False

    def rejected(self, score: Floats, starts: Ints, successes: Ints, trials: Ints, alpha: float) -> Bools:
        """See :class:`BinomialTest`."""
        rows = np.diff(starts)
        distance = np.abs(score - np.repeat(successes / trials, rows))
        # The rate itself is accepted also if equal outcomes leave no width.
        width = np.repeat(self.half_width(successes, trials, alpha), rows)
        return np.asarray((distance >= width) & (distance > 0.0))

    def straddling(
        self, lower: Floats, upper: Floats, starts: Ints, successes: Ints, trials: Ints, *, alpha: float
    ) -> Bools:
        """See :class:`BinomialTest`."""
        rows = np.diff(starts)
        rate = np.repeat(successes / trials, rows)
        width = np.repeat(self.half_width(successes, trials, alpha), rows)
        nearest = np.maximum(np.maximum(lower - rate, rate - upper), 0.0)
        farthest = np.maximum(upper - rate, rate - lower)
        holds_accepted = (nearest < width) | (nearest == 0.0)
        holds_rejected = (farthest >= width) & (farthest > 0.0)
        return np.asarray(holds_accepted & holds_rejected)

    def acceptance_limits(self, successes: Ints, trials: Ints, alpha: float) -> tuple[Floats, Floats]:
        """See :class:`BinomialTest`."""
        rate = successes / trials
        width = self.half_width(successes, trials, alpha)
        return np.maximum(rate - width, 0.0), np.minimum(rate + width, 1.0)

    def half_width(self, successes: Ints, trials: Ints, alpha: float) -> Floats:
        r"""The distance from the rate r = k/n at which a hypothesis is rejected, (bins,).

        .. math:: t_{1 - \alpha/2,\, n - 1} \sqrt{r (1 - r) / (n - 1)}

        0 if all outcomes are equal, which the test takes for certain; infinite for a single outcome, whose deviation is
        unknown (0 if ``published``).
        """
        rate = successes / trials
        variance = rate * (1.0 - rate)
        freedom = np.maximum(trials - 1, 1)
        scale = variance / np.sqrt(trials) if self.published else np.sqrt(variance / freedom)
        width = stdtrit(freedom, 1.0 - alpha / 2.0) * scale
        return np.asarray(width if self.published else np.where(trials == 1, np.inf, width), np.float64)


TESTS: Final[Mapping[Test, BinomialTest | StudentTest]] = MappingProxyType(
    {"binomial": BinomialTest(), "t": StudentTest(), "t_published": StudentTest(published=True)}
)
"""Value of TCE's option ``test`` -> test."""


def _upper_limit(k: Ints, n: Ints, alpha: float) -> Floats:
    never = np.zeros(k.shape, np.bool_)

    def peak(x: Ints) -> Floats:
        """The hypothesis that makes x as likely as k; k/n for x = k and 1 for x = n + 1."""
        inner = np.clip(x, k + 1, n)
        log_odds = (LOG_TOLERANCE + _log_choose(n, k) - _log_choose(n, inner)) / np.maximum(inner - k, 1)
        result = np.where(k < n, expit(log_odds), 1.0)
        return np.where(x <= k, k / n, np.where(x > n, 1.0, np.maximum(result, k / n)))

    def p_value(x: Ints, p: Floats) -> Floats:
        return _tail(never, k, n, p) + _tail(~never, x, n, p)

    # Largest x whose peak is above alpha.
    low, high = k.copy(), n.copy()
    while (low < high).any():
        middle = (low + high + 1) // 2
        above = p_value(middle, peak(middle)) > alpha
        low, high = np.where(above, middle, low), np.where(above, high, middle - 1)
    # From that peak to the next the far tail starts one further; there the p-value falls from above alpha, or never is.
    inside, outside = peak(low), peak(low + 1)
    for _ in range(60):
        middle_p = 0.5 * (inside + outside)
        above = p_value(low + 1, middle_p) > alpha
        inside, outside = np.where(above, middle_p, inside), np.where(above, outside, middle_p)
    return np.asarray(inside, np.float64)


def _log_choose(n: Ints, x: Ints) -> Floats:
    return np.asarray(gammaln(n + 1.0) - gammaln(x + 1.0) - gammaln(n - x + 1.0), np.float64)


def _tail(upper: Bools, x: Ints, n: Ints, p: Floats) -> Floats:
    """P(X >= x) where ``upper``, P(X <= x) elsewhere, X ~ Binomial(n, p)."""
    a = np.where(upper, x, x + 1)
    b = n - a + 1
    # Outside the support the incomplete beta function is not defined.
    result = np.where(upper, x <= 0, x >= n).astype(np.float64)
    inside = (a >= 1) & (b >= 1)
    at = np.flatnonzero(upper & inside)
    result[at] = betainc(a[at], b[at], p[at])
    at = np.flatnonzero(~upper & inside)
    result[at] = betaincc(a[at], b[at], p[at])
    return result
