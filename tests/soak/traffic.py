"""Traffic of many models whose result is known: messages made by numpy, and the counts that must come of them."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from monitor.scores import grid

Ints = NDArray[np.int64]

PREDICTIONS: Final = "soak-predictions"
OUTCOMES: Final = "soak-outcomes"
STEP_MS: Final = 250
"""Event time that a step covers."""

_ANSWERED: Final = 0.9
_REPEATED: Final = 0.01
"""Share of the predictions that are sent twice, and of the outcomes."""
_GARBAGE: Final = 0.001
EVENTS_PER_PREDICTION: Final = (1 + _ANSWERED) * (1 + _REPEATED) + _GARBAGE

_MAX_DELAY_STEPS: Final = 40
"""Outcomes come within ten seconds."""

_OF_PREDICTIONS: Final = (
    b'{"type":"prediction","model":"m%%%","version":"1","id":"################","ts":@@@@@@@@@@@@@,"p":0.~~~~~~}',
    b'{"id":"################","p":0.~~~~~~,"model":"m%%%","ts":@@@@@@@@@@@@@,"version":"1"}',
)
_OF_OUTCOMES: Final = (
    b'{"type":"outcome","model":"m%%%","id":"################","ts":@@@@@@@@@@@@@,"y":^}',
    b'{"y":^,"id":"################","ts":@@@@@@@@@@@@@,"model":"m%%%"}',
)
_GARBAGE_VALUE: Final = b'{"model":"m000","id":"garbage","ts":'


class Messages(NamedTuple):
    """The messages of a step for one partition of a topic, in order."""

    topic: str
    partition: int
    values: Sequence[bytes]


class _Events(NamedTuple):
    """Predictions, or their outcomes, column by column."""

    id: Ints
    model: Ints
    p: Ints
    """In millionths."""
    y: Ints

    def take(self, rows: Ints | NDArray[np.bool_]) -> "_Events":
        return _Events(*(column[rows] for column in self))


@dataclass
class Expected:
    """What was published so far.

    Attributes
    ----------
    counts
        (type, result) -> events.
    closings
        int64, shape (models, 6): positives, negatives and predictions without an outcome of each model, then the sums
        of the predictions of each, in units of the grid. All settled once :meth:`Traffic.last` was read.
    """

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    closings: Ints = field(default_factory=lambda: np.zeros((0, 6), np.int64))

    @property
    def events(self) -> int:
        """Messages published."""
        return self.counts.total()


class Traffic:
    """Predictions of many models at a steady pace of event time, most of them answered within ten seconds.

    Parameters
    ----------
    models, partitions
        How many of each. Models are called ``m000`` and so on.
    predictions
        Of each step.
    start_ms
        Time of the first event.
    seed
        Of the random numbers.
    """

    def __init__(self, models: int, partitions: int, predictions: int, start_ms: int, seed: int = 0) -> None:
        if not 1 <= models <= 1000:
            raise ValueError(f"models must be 1 to 1000, as names have three digits, got {models}")
        self._models, self._partitions, self._predictions = models, partitions, predictions
        self._rng = np.random.default_rng(seed)
        self._next_id = 0
        self.time_ms = start_ms
        """Time of the next step."""
        self._step = 0
        self._waiting: defaultdict[int, list[_Events]] = defaultdict(list)
        """Step -> outcomes that are due then."""
        self.expected = Expected(closings=np.zeros((models, 6), np.int64))

    def step(self) -> Iterator[Messages]:
        """Yield the messages of the next step, of predictions and of outcomes."""
        count, rng = self._predictions, self._rng
        p = rng.integers(0, 1_000_000, count)
        made = _Events(
            np.arange(self._next_id, self._next_id + count),
            rng.integers(0, self._models, count),
            p,
            (rng.random(count) * 1_000_000 < p).astype(np.int64),
        )
        self._next_id += count
        answered = rng.random(count) < _ANSWERED
        delay = rng.integers(1, _MAX_DELAY_STEPS + 1, count)
        for steps in range(1, _MAX_DELAY_STEPS + 1):
            self._waiting[self._step + steps].append(made.take(answered & (delay == steps)))
        self._note(made, answered)
        due = self._waiting.pop(self._step, [])
        outcomes = _Events(*map(np.concatenate, zip(*due, strict=True))) if due else made.take(np.zeros(0, np.int64))
        repeated = self._repeat(made), self._repeat(outcomes)
        garbage = rng.binomial(count, _GARBAGE)
        self.expected.counts.update(
            {
                ("prediction", "accepted"): count,
                ("prediction", "duplicate"): repeated[0].id.size - count,
                ("outcome", "joined"): outcomes.id.size,
                ("outcome", "duplicate"): repeated[1].id.size - outcomes.id.size,
                ("unknown", "dead_letter"): int(garbage),
            }
        )
        yield from self._messages(PREDICTIONS, repeated[0], _OF_PREDICTIONS, int(garbage))
        yield from self._messages(OUTCOMES, repeated[1], _OF_OUTCOMES, 0)
        self._step += 1
        self.time_ms += STEP_MS

    def rest(self) -> Iterator[Messages]:
        """Yield the outcomes that are still due."""
        self._predictions = 0
        while self._waiting:
            yield from self.step()
            self._waiting = defaultdict(
                list, {at: parts for at, parts in self._waiting.items() if any(map(_some, parts))}
            )

    def last(self, wait_ms: int) -> Iterator[Messages]:
        """Yield a prediction and its outcome for each model and partition, so late that all before them is settled."""
        self.time_ms += wait_ms
        models = np.repeat(np.arange(self._models), self._partitions)
        # The partition of an event is its id, modulo the number of partitions.
        first = -(-self._next_id // self._partitions) * self._partitions
        half = np.full(models.size, 500_000)
        events = _Events(first + np.arange(models.size), models, half, np.ones_like(half))
        self.expected.counts.update({("prediction", "accepted"): models.size, ("outcome", "joined"): models.size})
        yield from self._messages(PREDICTIONS, events, _OF_PREDICTIONS, 0)
        yield from self._messages(OUTCOMES, events, _OF_OUTCOMES, 0)

    def _note(self, made: _Events, answered: NDArray[np.bool_]) -> None:
        column = np.where(answered, 1 - made.y, 2)
        units = grid.to_units(made.p / 1_000_000)
        np.add.at(self.expected.closings, (made.model, column), 1)
        np.add.at(self.expected.closings, (made.model, column + 3), units)

    def _repeat(self, events: _Events) -> _Events:
        return events.take(
            np.sort(np.r_[np.arange(events.id.size), np.flatnonzero(self._rng.random(events.id.size) < _REPEATED)])
        )

    def _messages(self, topic: str, events: _Events, templates: Sequence[bytes], garbage: int) -> Iterator[Messages]:
        time_ms = self.time_ms + np.arange(events.id.size) * STEP_MS // max(events.id.size, 1)
        for partition in range(self._partitions):
            here = np.flatnonzero(events.id % self._partitions == partition)
            values = _encode(events.take(here), time_ms[here], templates)
            if partition == self._step % self._partitions:
                values += [_GARBAGE_VALUE] * garbage
            if values:
                yield Messages(topic, partition, values)


def _some(events: _Events) -> bool:
    return bool(events.id.size)


def _encode(events: _Events, time_ms: Ints, templates: Sequence[bytes]) -> list[bytes]:
    """Messages of the events, in the order of their times within each template."""
    values: list[bytes] = []
    chosen = events.id // 64 % len(templates)
    for number, template in enumerate(templates):
        rows = np.flatnonzero(chosen == number)
        text = np.tile(np.frombuffer(template, np.uint8), (rows.size, 1))
        written = {b"%": events.model, b"#": events.id, b"@": time_ms, b"~": events.p, b"^": events.y}
        for mark, numbers in written.items():
            places = np.flatnonzero(text[0] == ord(mark)) if rows.size else np.zeros(0, np.int64)
            text[:, places] = numbers[rows, None] // 10 ** np.arange(places.size)[::-1] % 10 + ord("0")
        whole, width = text.tobytes(), len(template)
        values += [whole[at : at + width] for at in range(0, len(whole), width)]
    return values
