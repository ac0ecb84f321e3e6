"""The fleet of a simulated year: its models, versions, segments and faults, and what they predict."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
HORIZON_MS: Final = 2 * DAY_MS
LATENESS_MS: Final = 6 * HOUR_MS
MILLION: Final = 1_000_000

MODELS: Final = 40
"""Models that live at a time; the first half is declared in the settings."""
DECLARED: Final = MODELS // 2
PER_HOUR: Final = 30.0
REGIONS: Final = 8
"""Values of the segment key of a model at a time; each week one goes and another one comes."""
_CANARY: Final = 0.1
_SPREAD: Final = 1.2
_UNANSWERED: Final = 0.04
_DELAY_MS: Final = 10 * HOUR_MS
_CALM_DAYS: Final = 45
_FAULT_DAYS: Final = 20
_OFFSET: Final = 0.8
"""Logits by which a fault moves the true probabilities."""
ALWAYS_WRONG: Final = ("m00", "m01")
"""Models that are wrong from the beginning, so that refits find a better map."""
NAMES_DAY: Final = 40
"""When somebody invents thousands of models."""
_NAMES_DAYS: Final = 75
"""For how long those hold the places of undeclared models, where reading lags days behind: none comes meanwhile."""


class Fault(NamedTuple):
    """A time in which a model's predictions are wrong by an offset of their logits."""

    from_ms: int
    to_ms: int
    offset: float


@dataclass
class Life:
    """The life of one model."""

    name: str
    born_ms: int
    dies_ms: int
    mean: float
    """Of the logits of its predictions."""
    releases_ms: Sequence[int]
    """When its versions come, the first one with its birth."""
    faults: Sequence[Fault]

    def version(self, at_ms: int) -> int:
        """Number of the newest version that is not a canary any more, from 1."""
        return max(1, sum(release + DAY_MS <= at_ms for release in self.releases_ms[1:]) + 1)

    def canary(self, at_ms: int) -> int | None:
        """Number of the version that takes a tenth of the predictions on its first day."""
        for number, release in enumerate(self.releases_ms[1:], 2):
            if release <= at_ms < release + DAY_MS:
                return number
        return None

    def offset(self, at_ms: int) -> float:
        """By how much the true logits differ from the predicted ones."""
        return sum(fault.offset for fault in self.faults if fault.from_ms <= at_ms < fault.to_ms)


def draw_lives(start_ms: int, days: int, seed: int) -> list[Life]:
    """Draw all models that live within so many days; undeclared ones are retired, and others take their places."""
    rng = np.random.default_rng([seed, 0])
    lives = []
    for place in range(MODELS):
        born_ms, successor = start_ms, 0
        while born_ms < start_ms + days * DAY_MS:
            if 0 <= born_ms - (start_ms + NAMES_DAY * DAY_MS) < _NAMES_DAYS * DAY_MS:
                born_ms = start_ms + (NAMES_DAY + _NAMES_DAYS) * DAY_MS
                continue
            lifetime = days + 1 if place < DECLARED else int(rng.integers(40, 160))
            dies_ms = born_ms + lifetime * DAY_MS
            name = f"m{place:02d}" if place < DECLARED else f"u{place:02d}-{successor}"
            lives.append(_life(name, born_ms, min(dies_ms, start_ms + days * DAY_MS), rng))
            born_ms, successor = dies_ms, successor + 1
    return lives


def _life(name: str, born_ms: int, dies_ms: int, rng: np.random.Generator) -> Life:
    releases = [born_ms]
    pace = int(rng.integers(7, 15))
    while releases[-1] < dies_ms:
        releases.append(releases[-1] + int(rng.integers(7, pace + 7)) * DAY_MS)
    if name in ALWAYS_WRONG:
        return Life(name, born_ms, dies_ms, 0.0, releases[:-1], [Fault(born_ms, dies_ms, _OFFSET / 2)])
    faults = []
    begins_ms = born_ms + int(rng.integers(_CALM_DAYS, 200)) * DAY_MS
    if begins_ms + _FAULT_DAYS * DAY_MS < dies_ms and rng.random() < 0.6:
        faults.append(Fault(begins_ms, begins_ms + _FAULT_DAYS * DAY_MS, float(rng.choice([-1, 1])) * _OFFSET))
    return Life(name, born_ms, dies_ms, float(rng.uniform(-1.5, 0.5)), releases[:-1], faults)


class Rows(NamedTuple):
    """Predictions with their outcomes, one row each."""

    id: Ints
    model: Ints
    """Number of the life."""
    version: Ints
    region: Ints
    """Number of the value within the life of its model."""
    time_ms: Ints
    p: Ints
    """In millionths."""
    y: Ints
    """Outcome; -1 if it never comes."""
    outcome_ms: Ints

    def take(self, rows: "Ints | NDArray[np.bool_]") -> "Rows":
        """These rows."""
        return Rows(*(column[rows] for column in self))

    @classmethod
    def joined(cls, parts: Sequence["Rows"]) -> "Rows":
        """The rows of all parts."""
        return cls(*(np.concatenate(column) for column in zip(NO_ROWS, *parts, strict=True)))


NO_ROWS: Final = Rows(*np.zeros((8, 0), np.int64))


@dataclass
class Fleet:
    """Draws what all models predict, step by step. The same seed gives the same year.

    Attributes
    ----------
    start_ms
        When the year begins.
    days
        How long it is.
    silent
        Numbers of the lives whose producer is out of order at present, and sends garbage.
    """

    start_ms: int
    days: int
    seed: int = 0
    silent: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.lives = draw_lives(self.start_ms, self.days, self.seed)
        self._next_id = 0

    def living(self, at_ms: int) -> Iterator[tuple[int, Life]]:
        """Yield the lives of a time, with their numbers."""
        return ((number, life) for number, life in enumerate(self.lives) if life.born_ms <= at_ms < life.dies_ms)

    def draw(self, from_ms: int, to_ms: int) -> Rows:
        """The predictions made in [from, to), in the order of their times."""
        rng = np.random.default_rng([self.seed, 1, from_ms // HOUR_MS])
        parts = [self._draw(number, life, from_ms, to_ms, rng) for number, life in self.living(from_ms)]
        rows = Rows.joined([part for number, part in parts if number not in self.silent])
        rows = rows.take(np.argsort(rows.time_ms, kind="stable"))
        first, self._next_id = self._next_id, self._next_id + rows.id.size
        return rows._replace(id=np.arange(first, self._next_id))

    def _draw(self, number: int, life: Life, from_ms: int, to_ms: int, rng: np.random.Generator) -> tuple[int, Rows]:
        count = int(rng.poisson(PER_HOUR * (to_ms - from_ms) / HOUR_MS))
        logit = rng.normal(life.mean, _SPREAD, count)
        p = np.clip(np.rint(MILLION / (1 + np.exp(-logit))), 1, MILLION - 1)
        true = 1 / (1 + (MILLION - p) / p * np.exp(-life.offset(from_ms)))
        y = (rng.random(count) < true).astype(np.int64)
        version = np.full(count, life.version(from_ms))
        canary = life.canary(from_ms)
        if canary is not None:
            version[rng.random(count) < _CANARY] = canary
        week = (from_ms - life.born_ms) // (7 * DAY_MS)
        time_ms = rng.integers(from_ms, to_ms, count)
        delay_ms = np.minimum(rng.exponential(_DELAY_MS, count), HORIZON_MS - HOUR_MS).astype(np.int64) + 1
        y[rng.random(count) < _UNANSWERED] = -1
        return number, Rows(
            np.zeros(count, np.int64),
            np.full(count, number),
            version,
            week + rng.integers(0, REGIONS, count),
            time_ms,
            p.astype(np.int64),
            y,
            time_ms + delay_ms,
        )


def region(life: Life, number: int) -> str:
    """Name of a value of the segment key."""
    return f"{life.name}-r{number}"
