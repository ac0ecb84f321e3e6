"""What is compared on the streams: whatever reads them part by part and raises alarms."""

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

import numpy as np

from monitor.arrays import Ints
from monitor.sequential.detector import Detector
from monitor.sequential.evidence import YEAR_MS, Evidence
from monitor.sequential.steps import Steps
from tests.alarms.streams import EVENTS_PER_HOUR, HOUR_MS, Part

EVENTS_PER_YEAR = EVENTS_PER_HOUR * YEAR_MS / HOUR_MS


class Alarm(NamedTuple):
    """An alarm of a variant of a method."""

    variant: str
    event: int
    """Events that it took, from the beginning of the stream."""
    since: int | None = None
    """After how many events the change was, as the method estimates it."""


class Method(Protocol):
    """Reads a stream. After an alarm it goes on, from the beginning again."""

    variants: tuple[str, ...]

    def read(self, part: Part, steps: Steps) -> list[Alarm]:
        """Return the alarms of events that follow those of earlier calls.

        Parameters
        ----------
        part
            The events.
        steps
            The panes that they finish.
        """


class Clock:
    """Counts the events of a stream before a time."""

    def __init__(self) -> None:
        self._times: list[Ints] = []
        self._counts = [0]

    def read(self, part: Part) -> None:
        """Add events."""
        self._times.append(part.time_ms)
        self._counts.append(self._counts[-1] + part.time_ms.size)

    def events_before(self, time_ms: int) -> int:
        """Return the number of events before a time, among those that were read."""
        at = max(int(np.searchsorted([times[0] for times in self._times], time_ms)) - 1, 0)
        return self._counts[at] + int(np.searchsorted(self._times[at], time_ms))


class Sequential:
    """A detector of this package.

    Parameters
    ----------
    name
        Of its variants, followed by their budget.
    detector
        Without a step so far.
    run_lengths
        Events to a false alarm, at least, on average and at the mean volume, by the name of the budget.
    """

    def __init__(self, name: str, detector: Detector, run_lengths: Mapping[str, float]) -> None:
        self._detector = detector
        self._clock = Clock()
        self._evidence = {
            f"{name}, {budget}": (Evidence(0), length / EVENTS_PER_YEAR) for budget, length in run_lengths.items()
        }
        self.variants = tuple(self._evidence)

    def read(self, part: Part, steps: Steps) -> list[Alarm]:
        """Bet on the steps."""
        self._clock.read(part)
        bets = self._detector.bet(steps)
        result = []
        for variant, (evidence, threshold) in self._evidence.items():
            for alarm in evidence.update({"whole": {"all": bets}}, threshold):
                since_ms = alarm.groups["whole"]["all"].since_ms
                event, since = (self._clock.events_before(time_ms) for time_ms in (alarm.end_ms, since_ms))
                result.append(Alarm(variant, event, since))
        return result


class Always:
    """An alarm every minute."""

    variants = ("always",)

    def __init__(self) -> None:
        self._clock = Clock()

    def read(self, part: Part, steps: Steps) -> list[Alarm]:
        """Raise an alarm at each step."""
        self._clock.read(part)
        return [Alarm("always", self._clock.events_before(end_ms)) for end_ms in steps.end_ms.tolist()]


class Never:
    """No alarm."""

    variants = ("never",)

    def read(self, part: Part, steps: Steps) -> list[Alarm]:
        """Raise none."""
        return []


Make = Callable[[int], Method]
"""Make a method for the stream of a seed."""
