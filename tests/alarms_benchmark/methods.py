"""What is compared on the streams: whatever reads them part by part and raises alarms."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final, NamedTuple, Protocol

import numpy as np

from monitor.arrays import Ints
from monitor.scores.steps import Steps
from monitor.sequential.change_point import find_change
from monitor.sequential.detector import Bets, Detector
from monitor.sequential.evidence import YEAR_MS, Evidence
from monitor.simulation.generator import HOUR_MS, DrawnEvents
from tests.alarms_benchmark.streams import EVENTS_PER_HOUR

RUN_LENGTH: Final = 1e5
"""Events to a false alarm that methods are tuned to."""

TUNED: Final = ", tuned"
"""End of the names of variants that have the same number of false alarms."""

EVENTS_PER_YEAR: Final = EVENTS_PER_HOUR * YEAR_MS / HOUR_MS


class Change(NamedTuple):
    """When a method says that a change was."""

    since: int
    """After how many events."""
    possible: Ints
    """Spans of events, shape (spans, 2), one of which holds the change if the method is right."""


class Alarm(NamedTuple):
    """An alarm of a variant of a method."""

    variant: str
    event: int
    """Events that it took, from the beginning of the stream."""
    change: Callable[[], Change] | None = None
    """Estimates when the change was; None where the method does not."""


class Method(Protocol):
    """Reads a stream. After an alarm it goes on, from the beginning again."""

    @property
    def variants(self) -> tuple[str, ...]:
        """Names, each of which raises alarms of its own."""

    def read(self, part: DrawnEvents, steps: Steps) -> list[Alarm]:
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

    def read(self, part: DrawnEvents) -> None:
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
        self._budgets = {
            f"{name}, {budget}": _Budget(length / EVENTS_PER_YEAR) for budget, length in run_lengths.items()
        }
        self.variants = tuple(self._budgets)

    def read(self, part: DrawnEvents, steps: Steps) -> list[Alarm]:
        """Bet on the steps."""
        self._clock.read(part)
        bets = self._detector.bet(steps)
        return [
            alarm for variant, budget in self._budgets.items() for alarm in budget.alarms(variant, bets, self._clock)
        ]


class _Budget:
    """Evidence at one threshold, and the bets since it was 0."""

    def __init__(self, threshold: float) -> None:
        self._threshold = threshold
        self._evidence = Evidence(0)
        self._start_ms = 0
        self._bets: list[Bets] = []

    def alarms(self, variant: str, bets: Bets, clock: Clock) -> Iterator[Alarm]:
        """Add bets."""
        for alarm in self._evidence.update({"whole": {"all": bets}}, self._threshold):
            end = int(np.searchsorted(bets.end_ms, alarm.end_ms, side="right"))
            self._bets.append(Bets(bets.end_ms[:end], bets.log_bets[:end]))
            yield Alarm(variant, clock.events_before(alarm.end_ms), partial(_change, self._bets, self._start_ms, clock))
            self._start_ms, self._bets = alarm.end_ms, []
            bets = Bets(bets.end_ms[end:], bets.log_bets[end:])
        self._bets.append(bets)


def _change(parts: list[Bets], start_ms: int, clock: Clock) -> Change:
    bets = Bets(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    change = find_change(bets, start_ms)
    spans = np.concatenate([[start_ms], bets.end_ms])
    possible = np.array(
        [
            [clock.events_before(time_ms) for time_ms in spans[at : at + 2].tolist()]
            for at in np.searchsorted(spans, change.begins_ms).tolist()
        ]
    )
    return Change(clock.events_before(change.begin_ms), possible)


class Together:
    """Methods with the same variants, whose alarms count alike."""

    def __init__(self, *methods: Method) -> None:
        self._methods = methods
        self.variants = methods[0].variants

    def read(self, part: DrawnEvents, steps: Steps) -> list[Alarm]:
        """Let all read the events."""
        return sorted(
            (alarm for method in self._methods for alarm in method.read(part, steps)), key=lambda alarm: alarm.event
        )


class Always:
    """An alarm every minute."""

    variants = ("always",)

    def __init__(self) -> None:
        self._clock = Clock()

    def read(self, part: DrawnEvents, steps: Steps) -> list[Alarm]:
        """Raise an alarm at each step."""
        self._clock.read(part)
        return [Alarm("always", self._clock.events_before(end_ms)) for end_ms in steps.end_ms.tolist()]


class Never:
    """No alarm."""

    variants = ("never",)

    def read(self, part: DrawnEvents, steps: Steps) -> list[Alarm]:
        """Raise none."""
        return []


class Peer(NamedTuple):
    """A method with a setting that decides how sensitive it is."""

    make: Callable[[str, int, float | None], Method]
    """For a prevalence and a seed, with a setting or, if that is None, as it is meant to be used."""
    sensitive: float
    """A setting that alarms far too often."""
    insensitive: float
    """One that alarms far too rarely."""
    events: int = 5_000_000
    """Calibrated events that it is tuned on."""
    only: str = ""
    """What the names of the scenarios begin with that it is for; it is not tuned then."""
