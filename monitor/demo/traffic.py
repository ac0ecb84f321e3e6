"""The messages of all simulated models, in the order in which they reach the log."""

import heapq
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np

from monitor.demo.cohort import HORIZON_MS, LATENESS_MS, REGIONS, Cohort, draw_cohort
from monitor.demo.models import MODELS, SimulatedModel
from monitor.events.encode import encode_outcome, encode_prediction
from monitor.sources.base import Message

__all__ = ["HORIZON_MS", "LATENESS_MS", "STEP_MS", "Traffic"]

STEP_MS: Final = 10_000
_REPEAT_MS: Final = 15_000
"""How long after a message its copy follows, at the most."""
_GARBAGE: Final = 0.001
"""Share of messages that are no valid events."""
_VERSION: Final = "1"


class _Logged(NamedTuple):
    """A message and when it reaches the log; the number keeps the order of equals, and bytes out of comparisons."""

    logged_ms: int
    number: int
    key: bytes
    value: bytes


class Traffic:
    """What the simulated models send. The same seed and start give the same messages, however they are asked for.

    Parameters
    ----------
    topic
        Where the messages are to be written.
    start_ms
        When simulated time begins, milliseconds since the epoch.
    change_ms
        When the models begin to change.
    seed
        Of all random draws.
    rate
        Predictions a model and simulated second.
    models
        The models.
    """

    def __init__(
        self,
        topic: str,
        *,
        start_ms: int,
        change_ms: int,
        seed: int = 0,
        rate: float = 2.5,
        models: Sequence[SimulatedModel] = MODELS,
    ) -> None:
        self._topic = topic
        self._start_ms = start_ms
        self._change_ms = change_ms
        self._seed = seed
        self._rate = rate
        self._models = models
        self._step = 0
        self._number = 0
        self._waiting: list[_Logged] = []

    def until(self, end_ms: int) -> list[Message]:
        """The messages that reach the log before that time and were not given yet, in log order."""
        while self._start_ms + self._step * STEP_MS < end_ms:
            for index, model in enumerate(self._models):
                for logged in self._messages(index, model):
                    heapq.heappush(self._waiting, logged)
            self._step += 1
        messages = []
        while self._waiting and self._waiting[0].logged_ms < end_ms:
            logged = heapq.heappop(self._waiting)
            messages.append(Message(self._topic, logged.value, key=logged.key, timestamp_ms=logged.logged_ms))
        return messages

    def cohort(self, index: int, step: int) -> Cohort:
        """The predictions of a model in a step, with the truth: what a test compares with."""
        return self._draw(index, step, self._rng(index, step))

    def _draw(self, index: int, step: int, rng: np.random.Generator) -> Cohort:
        start_ms = self._start_ms + step * STEP_MS
        regime = self._models[index].regime((start_ms - self._change_ms) / 1000)
        return draw_cohort(regime, start_ms, STEP_MS, self._rate, rng)

    def _rng(self, index: int, step: int) -> np.random.Generator:
        # A generator for each model and step: what one model does never moves another's draws.
        return np.random.default_rng([self._seed, index, step])

    def _messages(self, index: int, model: SimulatedModel) -> Iterator[_Logged]:
        rng = self._rng(index, self._step)
        cohort = self._draw(index, self._step, rng)
        repeat_ms = rng.integers(1, _REPEAT_MS, (2, len(cohort.time_ms)))
        # Plain lists: indexing an array element by element costs more than all the rest.
        rows = zip(*(getattr(cohort, name).tolist() for name in Cohort.__slots__), *repeat_ms.tolist(), strict=True)
        for row, (
            time_ms,
            prediction,
            region,
            logged_ms,
            outcome,
            outcome_ms,
            outcome_logged_ms,
            answered,
            corrected,
            corrected_ms,
            prediction_twice,
            outcome_twice,
            features,
            repeat_prediction_ms,
            repeat_outcome_ms,
        ) in enumerate(rows):
            identifier = f"{self._step:x}-{row}"
            key = identifier.encode()
            value = encode_prediction(
                model.name,
                identifier,
                time_ms,
                prediction,
                version=_VERSION,
                segments={"region": REGIONS[region]},
                features=features or None,
            )
            yield self._logged(logged_ms, key, value)
            if prediction_twice:
                yield self._logged(logged_ms + repeat_prediction_ms, key, value)
            if not answered:
                continue
            first = 1 - outcome if corrected else outcome
            value = encode_outcome(model.name, identifier, outcome_ms, first)
            yield self._logged(outcome_logged_ms, key, value)
            if outcome_twice:
                yield self._logged(outcome_logged_ms + repeat_outcome_ms, key, value)
            if corrected:
                value = encode_outcome(model.name, identifier, corrected_ms, outcome)
                yield self._logged(corrected_ms + outcome_logged_ms - outcome_ms, key, value)
        for _ in range(rng.poisson(2 * len(cohort.time_ms) * _GARBAGE)):
            logged_ms = self._start_ms + self._step * STEP_MS + int(rng.integers(STEP_MS))
            yield self._logged(logged_ms, b"", _garbage(model.name, logged_ms, rng))

    def _logged(self, logged_ms: int, key: bytes, value: bytes) -> _Logged:
        self._number += 1
        return _Logged(logged_ms, self._number, key, value)


def _garbage(model: str, time_ms: int, rng: np.random.Generator) -> bytes:
    """A message such as producers with a bug send."""
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
