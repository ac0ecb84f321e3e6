"""The last change of calibration within a sample: the data since then are what to refit on."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from monitor.errors import InputError
from monitor.inference.cox import fit_cox, logits
from monitor.local.calibration import confidence_and_hit
from monitor.samples import LabelledEvents
from monitor.scores import ScoreTable

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LEVEL: Final = 0.02
"""Of each search. One search finds a change in a sample without any a little more often than that, and after a change
that there was, the next search may err again: so set, either stays below 5%."""

DRAWS: Final = 499
BLOCKS: Final = 500
"""In time, of about equally many events: a change is looked for at their ends, and then event by event."""

_TRIM: Final = 0.05
"""Share of the events that must lie on either side of a change."""
_LEAST_OF_EACH: Final = 20.0
"""Events of each outcome that must lie on either side of a change: with fewer, the normal law of the scores fails."""
_OUTLYING: Final = 0.01
"""Logits beyond the points of this share at either end count as lying there: one contradicted prediction of 0 or 1
would outweigh a thousand others."""


@dataclass(frozen=True, slots=True)
class Change:
    """A change of calibration.

    Attributes
    ----------
    row
        The first event after it.
    time_ms
        The time of that event.
    p_value
        Of the hypothesis that calibration is the same, right or wrong, throughout the events that it was found among.
    """

    row: int
    time_ms: int
    p_value: float


def last_change(events: LabelledEvents, *, level: float = LEVEL, seed: int = 0) -> Change | None:
    r"""The last change of calibration, if there is one.

    The model may be miscalibrated all the time: what is tested is whether it is so in the same way. Offset and slope of
    the logits, sigmoid(c + a z), are fitted to all events; the scores of that fit, residuals in the directions of the
    offset and of the slope,

    .. math:: s_i = w_i \left(y_i - \sigma(c + a z_i)\right) (1, z_i), \qquad S_k = \sum_{i \le k} s_i,

    add up to 0, and wander no farther from it on the way than chance lets them, if offset and slope are always the
    same. The statistic is the largest :math:`S_k' V_k^{-1} S_k` over all k with enough events on either side, V_k the
    variance of S_k given the fit. Its law comes from outcomes drawn by the fit, of whose scores the part is taken off
    that a fit to them would have taken. (Normal scores instead of drawn outcomes found a change in .09 to .10 of
    samples of 2,000 without any.) So a change of the *predictions* alone is none: neither of their mean, nor of their
    number.

    Where there is a change, the events since then are searched in the same way, until no further one is found.

    Parameters
    ----------
    events
        In the order of time. Of many classes, the largest probability and whether its class came true.
    level
        Of each search, above 0 and below 1.
    seed
        Of the draws.

    Returns
    -------
    Change or None
        None also where there are too few events to tell.

    Notes
    -----
    Source: Hjort, Koning, "Tests for constancy of model parameters over time", 2002; Andrews, "Tests for parameter
    instability and structural change with unknown change point", 1993, for the largest of the statistics. Simulated
    (tests/simulations/test_guard_simulation.py): see docs/recalibration.md.
    """
    if not 0.0 < level < 1.0:
        raise InputError(f"level must be above 0 and below 1, got {level:g}")
    p, y = confidence_and_hit(events.prediction, events.outcome)
    found: Change | None = None
    start = 0
    while True:
        rows = slice(start, None)
        search = _Search.of(p[rows], y[rows], events.weight[rows], events.time_ms[rows])
        if search is None:
            return found
        p_value = search.p_value(np.random.default_rng([seed, start]))
        if p_value > level:
            return found
        start += search.location
        found = Change(start, int(events.time_ms[start]), p_value)


@dataclass(frozen=True, eq=False)
class _Search:
    """Some events, and the fit of d = 1 (the offset alone) or 2 parameters to them.

    Attributes
    ----------
    outcome, rate
        float64, shape (n,): outcomes, and their probabilities by the fit.
    direction
        float64, shape (n, d): what a residual counts for each parameter, weights included.
    information, squares
        float64, shape (n, d, d): what each event tells of the parameters, and the variance of its score.
    ends
        int64, shape (m,), ascending: how many events lie before each place at which a change is looked for; the last
        is n.
    open
        Shape (m,): whether a change may lie there.
    allowed
        Shape (n,): whether a change may lie right before the event.
    """

    outcome: Floats
    rate: Floats
    direction: Floats
    information: Floats
    squares: Floats
    ends: Ints
    open: NDArray[np.bool_]
    allowed: NDArray[np.bool_]

    @classmethod
    def of(cls, p: Floats, y: Floats, w: Floats, time_ms: Ints) -> "_Search | None":
        """None where there are too few events, or the fit has no finite slope and offset."""
        n = p.size
        allowed = _allowed(y, time_ms)
        if not allowed.any():
            return None
        z = logits(p)
        low, high = np.quantile(z, [_OUTLYING, 1.0 - _OUTLYING])
        z = np.clip(z, low, high)
        weighted = not bool((w == w[0]).all())
        cox = fit_cox(ScoreTable.from_events(expit(z), y, w if weighted else None))
        if cox.slope is None or cox.intercept is None:
            if cox.slope is not None:
                return None  # some logit parts positives from negatives
            q, direction = expit(z + cox.offset), np.ones((n, 1))
        else:
            middle = float(z.mean())
            q, direction = expit(cox.intercept + cox.slope * z), np.stack([np.ones(n), z - middle], axis=1)
        variance = (q * (1.0 - q))[:, None, None] * direction[:, :, None] * direction[:, None, :]
        ends = _ends(time_ms)
        return cls(
            outcome=y,
            rate=q,
            direction=w[:, None] * direction,
            information=w[:, None, None] * variance,
            squares=(w**2)[:, None, None] * variance,
            ends=ends,
            open=np.append(allowed, False)[ends],
            allowed=allowed,
        )

    def p_value(self, rng: np.random.Generator) -> float:
        """(1 + draws that wander as far) / (1 + draws)."""
        first = np.concatenate([[0], self.ends[:-1]])
        information = np.cumsum(np.add.reduceat(self.information, first, axis=0), axis=0)
        share = information @ np.linalg.inv(information[-1])
        squares = np.cumsum(np.add.reduceat(self.squares, first, axis=0), axis=0)
        inverse = _inverses(_variances(squares, share)[self.open])

        def largest(outcome: Floats) -> float:
            walk = np.cumsum(np.add.reduceat((outcome - self.rate)[:, None] * self.direction, first, axis=0), axis=0)
            # The fit takes off what the scores add up to: of the events themselves that is 0 already.
            walk -= share @ walk[-1]
            return float(_forms(walk[self.open], inverse).max())

        observed = largest(self.outcome)
        reached = sum(
            largest(np.asarray(rng.random(self.rate.size) < self.rate, np.float64)) >= observed for _ in range(DRAWS)
        )
        return (1 + reached) / (1 + DRAWS)

    @property
    def location(self) -> int:
        """The first event after the likeliest change."""
        at = np.flatnonzero(self.allowed)
        walk = np.cumsum((self.outcome - self.rate)[:, None] * self.direction, axis=0)[at - 1]
        squares = np.cumsum(self.squares, axis=0)
        information = np.cumsum(self.information, axis=0)
        share = information @ np.linalg.inv(information[-1])
        variances = _variances(squares, share)[at - 1]
        return int(at[np.argmax(_forms(walk, _inverses(variances)))])


def _allowed(y: Floats, time_ms: Ints) -> NDArray[np.bool_]:
    """Whether a change may lie right before each event, shape (n,)."""
    n = y.size
    before = np.arange(n)
    hits, misses = np.cumsum(y) - y, np.cumsum(1.0 - y) - (1.0 - y)
    result: NDArray[np.bool_] = (before >= _TRIM * n) & (n - before >= _TRIM * n)
    for kind in (hits, misses):
        total = kind[-1] + 1.0 if n else 0.0
        result &= (kind >= _LEAST_OF_EACH) & (total - kind >= _LEAST_OF_EACH)
    # Events of one time have no order.
    result[1:] &= time_ms[1:] > time_ms[:-1]
    result[:1] = False
    return result


def _ends(time_ms: Ints) -> Ints:
    """How many events lie before the end of each block, ascending; the last is n. No time lies in two blocks."""
    n = time_ms.size
    wanted = np.linspace(0, n, min(BLOCKS, n) + 1)[1:-1].round().astype(np.int64)
    starts = np.flatnonzero(np.diff(time_ms, prepend=time_ms[0] - 1) > 0)
    nearest = starts[np.minimum(np.searchsorted(starts, wanted), starts.size - 1)]
    inner = np.unique(nearest[nearest > 0])
    return np.append(inner, n)


def _variances(squares: Floats, share: Floats) -> Floats:
    """Of the cumulated scores, once the fit took off what it does, (m, d, d).

    ``squares`` are cumulated, ``share`` is the part of the information up to there.
    """
    crossed = share @ squares
    spread: Floats = squares - crossed - np.swapaxes(crossed, 1, 2) + share @ squares[-1] @ np.swapaxes(share, 1, 2)
    return spread


def _inverses(variances: Floats) -> Floats:
    """Inverses of symmetric matrices (m, d, d), pseudo where there is nothing to be inverted."""
    return np.asarray(np.linalg.pinv(variances, hermitian=True), np.float64)


def _forms(walk: Floats, inverse: Floats) -> Floats:
    """Each v' M v; (m, d) and (m, d, d) -> (m,)."""
    return np.asarray(np.einsum("ki,kij,kj->k", walk, inverse, walk), np.float64)
