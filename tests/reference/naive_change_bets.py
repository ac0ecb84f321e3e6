"""Bets that outcomes changed, group by group, event by event."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit
from scipy.stats import norm

from monitor.arrays import Floats


class NaiveGroup(NamedTuple):
    """Events of one group: logits of their predictions."""

    shift: float
    """Of the alternative, in logits."""
    offset: float
    """How much higher outcomes of the pilot were than predicted, in logits."""
    before: Sequence[float]
    block: Sequence[float]
    positives_before: int
    positives: int
    share: float
    """What is drawn for the rank."""


def number_law(logits: Sequence[float]) -> Floats:
    """Probability of each number of positive events."""
    law = np.array([1.0])
    for p in expit(np.asarray(logits)):
        law = np.append(law * (1.0 - p), 0.0) + np.append(0.0, law * p)
    return law


def rank(k: int, positives: int, before: Sequence[float], block: Sequence[float], share: float) -> float:
    """The probability of fewer than k positive events in the block, given all of them, and a part of that of k."""
    law_before, law_block = number_law(before), number_law(block)
    weights = np.array(
        [
            p * law_before[positives - number] if 0 <= positives - number < law_before.size else 0.0
            for number, p in enumerate(law_block)
        ]
    )
    weights /= weights.sum()
    return float(weights[:k].sum() + share * weights[k])


def pilot_offsets(groups: Sequence[tuple[Sequence[float], int]]) -> Floats:
    """The most likely offsets of groups, each with its logits and positive events, of a random walk."""

    def cost(offset: Floats) -> float:
        fit = sum(
            float(np.logaddexp(0.0, np.asarray(logits) + one).sum()) - positives * one
            for one, (logits, positives) in zip(offset, groups, strict=True)
        )
        return float(fit + np.sum(offset**2) / 18.0 + 2.0 * np.sum(np.diff(offset) ** 2))

    found = minimize(cost, np.zeros(len(groups)), tol=1e-12)
    return np.asarray(found.x)


def log_bet(groups: Iterable[NaiveGroup]) -> float:
    """What an alternative gains on a block."""
    result = 0.0
    for group in groups:
        if not group.block or not group.before:
            continue
        variance, before = (
            float(np.sum(p * (1.0 - p)))
            for p in (expit(np.asarray(logits) + group.offset) for logits in (group.block, group.before))
        )
        d = group.shift * np.sqrt(variance * before / (variance + before))
        positives = group.positives_before + group.positives
        z = norm.ppf(rank(group.positives, positives, group.before, group.block, group.share))
        result += float(norm.logpdf(z, loc=d) - norm.logpdf(z))
    return result
