"""Bets given the number of positives, in obvious loops over events and over all outcomes of a block."""

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

WORD = 2**64


class Event(NamedTuple):
    logit: float
    region: int
    outcome: int


def scrambled(state: int) -> int:
    """SplitMix64."""
    word = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) % WORD
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) % WORD
    return word ^ (word >> 31)


def listed(
    rows: Sequence[tuple[float, float, float, int, int]],
    seed: int,
) -> list[Event]:
    """Events of rows (logit, start, extent, positives, negatives), in their order and with their regions."""
    events = [(row, 1) for row in rows for _ in range(row[3])]
    events = [(row, y) for row in rows for y, count in ((1, row[3]), (0, row[4])) for _ in range(count)]
    result, state = [], seed % WORD
    for last in range(len(events) - 1, -1, -1):
        state = (state + 0x9E3779B97F4A7C15) % WORD
        word = scrambled(state)
        (logit, start, extent, _, _), y = events.pop((word >> 32) * (last + 1) >> 32) if False else _take(
            events, (word >> 32) * (last + 1) >> 32, last
        )
        result.append(Event(logit, min(int(start + extent * (word % 2**32) / 2**32), 7), y))
    return result[::-1]


def _take(events: list[tuple[tuple[float, float, float, int, int], int]], at: int, last: int) -> tuple[tuple[float, float, float, int, int], int]:
    events[at], events[last] = events[last], events[at]
    return events.pop()
