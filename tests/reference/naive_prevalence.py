"""Bets given the number of positives, in obvious loops over events and over all outcomes of a block."""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

WORD = 2**64


class Row(NamedTuple):
    """Events of one cell; ``start`` and ``extent`` say where it lies in the regions, laid out over [0, 8)."""

    logit: float
    start: float
    extent: float
    positives: int
    negatives: int


class Event(NamedTuple):
    logit: float
    region: int
    outcome: int


class Hashes:
    """SplitMix64."""

    def __init__(self, seed: int) -> None:
        self.state = seed % WORD

    def next(self) -> int:
        self.state = (self.state + 0x9E3779B97F4A7C15) % WORD
        word = ((self.state ^ (self.state >> 30)) * 0xBF58476D1CE4E5B9) % WORD
        word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) % WORD
        return word ^ (word >> 31)


def listed(rows: Sequence[Row], seed: int) -> list[Event]:
    """The events of a step in the order in which they fill blocks."""
    hashes = Hashes(seed)
    events = []
    for row in rows:
        for at in range(row.positives + row.negatives):
            place = row.start
            if row.extent > 0:
                place += row.extent * (hashes.next() >> 11) / 2**53
            events.append(Event(row.logit, min(int(place), 7), int(at < row.positives)))
    for at in range(len(events) - 1, 0, -1):
        other = ((hashes.next() >> 32) * (at + 1)) >> 32
        events[at], events[other] = events[other], events[at]
    return events


def count_law(first: Sequence[float], second: Sequence[float], total: int) -> dict[int, float]:
    """Law of the positives in the first group, given those of both, for events with these odds."""
    weight: dict[int, float] = {}
    for outcomes in itertools.product((0, 1), repeat=len(first) + len(second)):
        if sum(outcomes) == total:
            j = sum(outcomes[: len(first)])
            odds = math.prod(o for o, y in zip([*first, *second], outcomes, strict=True) if y)
            weight[j] = weight.get(j, 0.0) + odds
    whole = sum(weight.values())
    return {j: value / whole for j, value in weight.items()}


def bets_on_counts(
    first: Sequence[float], second: Sequence[float], total: int, band: float, contrast: float
) -> Mapping[int, float]:
    """What each number of positives in the first group earns; 1 where the contrast, in logits, lies inside the band."""
    if abs(contrast) <= band:
        return dict.fromkeys(count_law(first, second, total), 1.0)
    edge = count_law([o * math.exp(math.copysign(band, contrast)) for o in first], second, total)
    alternative = count_law([o * math.exp(contrast) for o in first], second, total)
    return {j: alternative[j] / edge[j] for j in edge}


def block_bets(
    events: Sequence[Event], band: float, slopes: Sequence[float], bumps: Sequence[float], centre: Sequence[float]
) -> list[float]:
    """The bets of a block: of slopes, then of the bumps of each region."""
    result = []

    def bet(first: Sequence[Event], second: Sequence[Event], contrast: float) -> float:
        total = sum(event.outcome for event in [*first, *second])
        odds = [[math.exp(event.logit) for event in group] for group in (first, second)]
        return bets_on_counts(odds[0], odds[1], total, band, contrast)[sum(event.outcome for event in first)]

    for slope in slopes:
        e = 1.0
        for lower in range(4):
            upper = 7 - lower
            groups = [[event for event in events if event.region == region] for region in (upper, lower)]
            e *= bet(groups[0], groups[1], (slope - 1.0) * (centre[upper] - centre[lower]))
        result.append(e)
    for region in range(8):
        inside = [event for event in events if event.region == region]
        outside = [event for event in events if event.region != region]
        result += [bet(inside, outside, bump) for bump in bumps]
    return result
