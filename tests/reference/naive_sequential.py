"""Sequential evidence in obvious loops over events, one bet at a time."""

import itertools
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction


def sigmoid(z: float) -> float:
    return 1.0 / (1.0 + math.exp(-z))


def bet(p: float, y: int, stake: float, shift: float, tolerance: float) -> float:
    """What a bet makes of one unit, against the edge of the band on the side of the alternative."""
    if abs(shift) <= tolerance:
        return 1.0
    edge = sigmoid(math.log(p / (1.0 - p)) + math.copysign(tolerance, shift))
    return 1.0 + stake * (y - edge)


def best_stake(p: float, shift: float, tolerance: float) -> float:
    """The stake that grows fastest if the alternative is true: (q - b) / (b (1 - b))."""
    if abs(shift) <= tolerance:
        return 0.0
    z = math.log(p / (1.0 - p))
    edge = sigmoid(z + math.copysign(tolerance, shift))
    return (sigmoid(z + shift) - edge) / (edge * (1.0 - edge))


def shiryaev_roberts(weights: Sequence[Fraction], bets: Sequence[Fraction]) -> list[Fraction]:
    """M <- (M + weight) e, exactly."""
    value, result = Fraction(0), []
    for weight, e in zip(weights, bets, strict=True):
        value = (value + weight) * e
        result.append(value)
    return result


def conditional_likelihood(odds: Sequence[float], outcomes: Sequence[int]) -> float:
    """Probability of the outcomes given their sum, over all subsets of that size."""
    size = sum(outcomes)
    own = math.prod(o for o, y in zip(odds, outcomes, strict=True) if y)
    return own / sum(math.prod(subset) for subset in itertools.combinations(odds, size))


def latest_rise(log_bets: Sequence[float], ends_ms: Sequence[int], begin_ms: int) -> tuple[float, int]:
    """Largest sum of all bets since some step (0 for none), and the end of the step before; the latest of equals."""
    candidates = [(0.0, ends_ms[-1])] + [
        (math.fsum(log_bets[at:]), ends_ms[at - 1] if at else begin_ms) for at in range(len(log_bets))
    ]
    return max(candidates)


def change_point(log_bets: Sequence[Sequence[float]], margin: float) -> tuple[int, int, float, list[int]]:
    """First step of the change, its alternative and gain, and all steps that it may lie in; the latest of equals."""
    gains = [
        [math.fsum(row[k] for row in log_bets[start:]) for k in range(len(log_bets[0]))]
        for start in range(len(log_bets))
    ]
    best = max(range(len(gains)), key=lambda start: (max(gains[start]), start))
    largest = max(gains[best])
    within = {s for s, gain in enumerate(gains) if max(gain) >= largest - margin}
    steps = [s for s in range(len(gains)) if s in within or s + 1 in within]
    return best, gains[best].index(largest), largest, steps


def recovery(log_bets: Sequence[Sequence[float]], alternatives: Sequence[int], margin: float) -> int | None:
    """First step up to which each of the alternatives has lost a margin since some step, each since its own."""
    for end in range(1, len(log_bets) + 1):
        losses = [max(-math.fsum(row[k] for row in log_bets[start:end]) for start in range(end)) for k in alternatives]
        if min(losses) >= margin:
            return end - 1
    return None


def average_evidence(
    steps: Sequence[tuple[int, Mapping[tuple[str, str], Sequence[Fraction]]]],
    start_ms: int,
    year_ms: int,
    threshold: Fraction,
) -> tuple[list[int], Fraction]:
    """Ends of alarms and the last evidence of series, (group, name) -> e of each alternative, exactly.

    Groups and the series in them have equal weights; a series begins at 0, at the end of the step before its first.
    """
    alarms, position = [], start_ms
    values: dict[tuple[str, str], list[Fraction]] = {}
    since: dict[tuple[str, str], int] = {}
    average = Fraction(0)
    for end_ms, factors in steps:
        for key, bets in factors.items():
            old = values.get(key, [Fraction(0)] * len(bets))
            weight = Fraction(end_ms - since.get(key, position), year_ms)
            values[key] = [(value + weight) * e for value, e in zip(old, bets, strict=True)]
            since[key] = end_ms
        groups = {group for group, _ in values}
        means = [
            [sum(of, Fraction(0)) / len(of) for (own, _), of in values.items() if own == group] for group in groups
        ]
        average = sum((sum(mean, Fraction(0)) / len(mean) for mean in means), Fraction(0)) / max(len(groups), 1)
        position = end_ms
        if average >= threshold:
            alarms.append(end_ms)
            values, since, average = {}, {}, Fraction(0)
    return alarms, average
