"""The messages of all simulated models, in the order in which they reach the log."""

import heapq
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from monitor.events.encode import encode_outcome, encode_prediction
from monitor.events.model import Message
from monitor.simulation.models import MODELS, Regime, SimulatedModel

STEP_MS: Final = 10_000
_REPEAT_MS: Final = 15_000
"""Largest delay of a repeated message."""
_GARBAGE: Final = 0.001
"""Share of messages that are not valid events."""
_VERSION: Final = "1"

HORIZON_MS: Final = 600_000
"""How long an outcome counts. Few outcomes arrive later."""

LATENESS_MS: Final = 300_000
"""Events reach the log at most this much after their time."""

REGIONS: Final = ("eu", "us", "apac")

_STRAGGLERS: Final = 0.02
"""Share of predictions that reach the log up to three minutes late, some of them after their outcome."""
_STRAGGLE_MS: Final = 180_000.0
_NEVER: Final = 0.04
_TOO_LATE: Final = 0.01
_CORRECTED: Final = 0.01
_TWICE: Final = 0.01

Times = NDArray[np.int64]
Flags = NDArray[np.bool_]


class Cohort(NamedTuple):
    """The predictions of one model in one step, one row each. Times are simulated, milliseconds since the epoch.

    Attributes
    ----------
    time_ms, prediction, region
        Of the prediction; int64, float64, and int8 index into REGIONS.
    logged_ms
        When it reaches the log.
    outcome, outcome_ms, outcome_logged_ms
        The truth, when it is known, and when that reaches the log.
    answered
        Whether the outcome ever reaches the log.
    corrected
        Whether the outcome is first reported wrongly; the truth then follows at ``corrected_ms``.
    prediction_twice, outcome_twice
        Whether the message is sent a second time.
    features
        Features in the prediction, float32, shape (n, D); D is 0 where there are none.
    """

    time_ms: Times
    prediction: NDArray[np.float64]
    region: NDArray[np.int8]
    logged_ms: Times
    outcome: NDArray[np.int8]
    outcome_ms: Times
    outcome_logged_ms: Times
    answered: Flags
    corrected: Flags
    corrected_ms: Times
    prediction_twice: Flags
    outcome_twice: Flags
    features: NDArray[np.float32]


def draw_cohort(regime: Regime, start_ms: int, length_ms: int, rate: float, rng: np.random.Generator) -> Cohort:
    """Draw the predictions that a model makes in [start, start + length).

    The delay of an outcome depends on the outcome, but whether it is reported within the horizon does not: so a mature
    window holds an unbiased sample, and one that is not mature does not.

    Parameters
    ----------
    rate
        Predictions per simulated second, on average.
    """
    count = int(rng.poisson(rate * length_ms / 1000))
    prediction, outcome, features = regime.draw(count, rng)
    time_ms = np.sort(rng.integers(start_ms, start_ms + length_ms, count))

    # Positives are reported early, negatives mostly late.
    share = np.where(outcome == 1, rng.beta(1.2, 5.0, count), rng.beta(3.0, 2.5, count))
    too_late = rng.random(count) < _TOO_LATE
    delay = np.where(too_late, HORIZON_MS * (1.05 + 0.3 * rng.random(count)), 0.95 * HORIZON_MS * share)
    outcome_ms = time_ms + delay.astype(np.int64)

    corrected = (rng.random(count) < _CORRECTED) & ~too_late
    left_ms = np.maximum(time_ms + 0.99 * HORIZON_MS - outcome_ms, 0.0)
    corrected_ms = outcome_ms + 1 + (left_ms * rng.random(count)).astype(np.int64)

    straggling = np.where(rng.random(count) < _STRAGGLERS, _STRAGGLE_MS * rng.random(count), 0.0)
    return Cohort(
        time_ms=time_ms,
        prediction=prediction,
        region=rng.choice(len(REGIONS), count, p=(0.5, 0.3, 0.2)).astype(np.int8),
        logged_ms=time_ms + _transport(count, rng) + straggling.astype(np.int64),
        outcome=outcome,
        outcome_ms=outcome_ms,
        outcome_logged_ms=outcome_ms + _transport(count, rng),
        answered=rng.random(count) >= _NEVER,
        corrected=corrected,
        corrected_ms=corrected_ms,
        prediction_twice=rng.random(count) < _TWICE,
        outcome_twice=rng.random(count) < _TWICE,
        features=features,
    )


def _transport(count: int, rng: np.random.Generator) -> Times:
    """Milliseconds from the making of a message to the log, shape (count,)."""
    return np.minimum(rng.exponential(800.0, count), 20_000.0).astype(np.int64)


class _Logged(NamedTuple):
    """A message and when it reaches the log; the number keeps the order of equals, and bytes out of comparisons."""

    logged_ms: int
    number: int
    key: bytes
    value: bytes


class Traffic:
    """The messages of the simulated models. The same seed and start give the same messages, in pieces of any size.

    Parameters
    ----------
    topic
        Topic of the messages.
    start_ms
        When simulated time begins, milliseconds since the epoch.
    change_ms
        When the models begin to change.
    seed
        Seed of all random draws.
    rate
        Predictions per model and simulated second.
    """

    def __init__(
        self,
        topic: str,
        *,
        start_ms: int,
        change_ms: int,
        seed: int = 0,
        rate: float = 2.5,
    ) -> None:
        self._topic = topic
        self._start_ms = start_ms
        self._change_ms = change_ms
        self._seed = seed
        self._rate = rate
        self._step = 0
        self._number = 0
        self._waiting: list[_Logged] = []

    def until(self, end_ms: int) -> list[Message]:
        """The next messages, up to those that reach the log before that time, in log order."""
        while self._start_ms + self._step * STEP_MS < end_ms:
            for index, model in enumerate(MODELS):
                for logged in self._messages(index, model):
                    heapq.heappush(self._waiting, logged)
            self._step += 1
        messages = []
        while self._waiting and self._waiting[0].logged_ms < end_ms:
            logged = heapq.heappop(self._waiting)
            messages.append(Message(self._topic, logged.value, key=logged.key, timestamp_ms=logged.logged_ms))
        return messages

    def draw(self, index: int, step: int) -> tuple[Cohort, np.random.Generator]:
        """The predictions of a model in a step, with their outcomes, and the generator that goes on from there."""
        # A generator for each model and step, so that the draws of one model do not change another's.
        rng = np.random.default_rng([self._seed, index, step])
        start_ms = self._start_ms + step * STEP_MS
        regime = MODELS[index].regime((start_ms - self._change_ms) / 1000)
        return draw_cohort(regime, start_ms, STEP_MS, self._rate, rng), rng

    def _messages(self, index: int, model: SimulatedModel) -> Iterator[_Logged]:
        cohort, rng = self.draw(index, self._step)
        repeat_ms = rng.integers(1, _REPEAT_MS, (2, len(cohort.time_ms)))
        # Lists, because reading an array element by element would cost more than everything else.
        rows = zip(*(column.tolist() for column in cohort), strict=True)
        for row, (values, repeat_prediction_ms, repeat_outcome_ms) in enumerate(
            zip(rows, *repeat_ms.tolist(), strict=True)
        ):
            event: Any = Cohort._make(values)
            identifier = f"{self._step:x}-{row}"
            key = identifier.encode()
            value = encode_prediction(
                model.name,
                identifier,
                event.time_ms,
                event.prediction,
                version=_VERSION,
                segments={"region": REGIONS[event.region]},
                features=event.features or None,
            )
            yield self._logged(event.logged_ms, key, value)
            if event.prediction_twice:
                yield self._logged(event.logged_ms + repeat_prediction_ms, key, value)
            if not event.answered:
                continue
            first = 1 - event.outcome if event.corrected else event.outcome
            value = encode_outcome(model.name, identifier, event.outcome_ms, first)
            yield self._logged(event.outcome_logged_ms, key, value)
            if event.outcome_twice:
                yield self._logged(event.outcome_logged_ms + repeat_outcome_ms, key, value)
            if event.corrected:
                value = encode_outcome(model.name, identifier, event.corrected_ms, event.outcome)
                yield self._logged(event.corrected_ms + event.outcome_logged_ms - event.outcome_ms, key, value)
        for _ in range(rng.poisson(2 * len(cohort.time_ms) * _GARBAGE)):
            logged_ms = self._start_ms + self._step * STEP_MS + int(rng.integers(STEP_MS))
            yield self._logged(logged_ms, b"", _garbage(model.name, logged_ms, rng))

    def _logged(self, logged_ms: int, key: bytes, value: bytes) -> _Logged:
        self._number += 1
        return _Logged(logged_ms, self._number, key, value)


def _garbage(model: str, time_ms: int, rng: np.random.Generator) -> bytes:
    """An invalid message, such as producers with a bug send."""
    kinds = (
        f'{{"type":"prediction","model":"{model}","id":"bad","ts":{time_ms},"p":1.7}}',
        f'{{"type":"prediction","model":"{model}","id":"bad","ts":{time_ms}}}',
        f'{{"type":"outcome","model":"{model}","id":"bad","ts":{time_ms},"y":2}}',
        f'{{"type":"outcome","model":"{model}","id":"bad","ts":"yesterday","y":1}}',
        f'{{"type":"click","model":"{model}","id":"bad","ts":{time_ms}}}',
        "<html><body>502 Bad Gateway</body></html>",
        "",
    )
    return kinds[int(rng.integers(len(kinds)))].encode()
