"""The alarms that a service would raise on a simulated model, for several tolerances and budgets at once."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from monitor.alarms.watch import DETECTORS, WEIGHTS, group_of
from monitor.arrays import Ints
from monitor.events.model import ALL
from monitor.scores.grid_table import NEGATIVES
from monitor.scores.steps import Steps
from monitor.sequential.budget import share_budget
from monitor.sequential.detector import Bets, Detector
from monitor.sequential.watch import AlarmEvent, Watch
from monitor.simulation.stream import Course, SimulatedStream


class Setting(NamedTuple):
    """What can be chosen for alarms."""

    tolerance: float
    """Logits by which true probabilities may differ from predictions without being evidence."""
    budget: float
    """False alarms a year of the whole fleet."""


Key = tuple[Setting, str]
"""A setting, and a detector."""

_WITHOUT_TOLERANCE: Final = frozenset({"change"})
"""Detectors that do the same with every tolerance."""


class SimulatedDetectors:
    """Evidence and alarms of one simulated model, one of several that share the budget.

    As :class:`monitor.alarms.watch.VersionWatch` does, but the bets of a detector serve all budgets.

    Parameters
    ----------
    settings
        What is tried.
    models
        Number of models of the fleet.
    seed
        Of the detectors.
    """

    def __init__(self, settings: Sequence[Setting], models: int, seed: int) -> None:
        self._seed = seed
        self._detectors: dict[tuple[str, float, str], Detector] = {}
        """(detector, tolerance, segment) -> it."""
        self._keys: dict[Key, Key] = {}
        """Key -> the one whose watch it shares."""
        for setting in settings:
            for name in WEIGHTS:
                shared = setting._replace(tolerance=0.0) if name in _WITHOUT_TOLERANCE else setting
                self._keys[setting, name] = shared, name
        self._watches = {key: Watch(0) for key in self._keys.values()}
        self._lines = {setting.budget: lines(setting.budget, models) for setting in settings}
        self.events: dict[Key, list[AlarmEvent]] = {key: [] for key in self._watches}

    @property
    def active(self) -> bool:
        """Whether anything is watched still."""
        return bool(self._watches)

    def update(self, steps: Mapping[str, Steps]) -> None:
        """Add the steps of each segment that follow those of earlier calls."""
        bets: dict[tuple[str, float], dict[str, dict[str, Bets]]] = {}
        for (setting, name), watch in self._watches.items():
            detector = name, setting.tolerance
            if detector not in bets:
                of_groups = bets[detector] = {}
                for segment, of_segment in steps.items():
                    found = self._detector(*detector, segment).bet(of_segment)
                    of_groups.setdefault(group_of(segment), {})[segment] = found
            self.events[setting, name] += watch.update(bets[detector], self._lines[setting.budget][name])

    def forget_raised(self, after_ms: int) -> None:
        """Watch no further where an alarm was raised after a time."""
        for key in [key for key in self._watches if _first(self.events[key], after_ms) is not None]:
            del self._watches[key]

    def raised(self, after_ms: int) -> dict[Key, "RaisedSteps"]:
        """Return when alarms were raised, by setting and detector."""
        return {
            key: RaisedSteps([one.end_ms for one in events if one.kind == "raised"], _first(events, after_ms))
            for key, shared in self._keys.items()
            for events in (self.events[shared],)
        }

    def _detector(self, name: str, tolerance: float, segment: str) -> Detector:
        key = name, tolerance, segment
        if key not in self._detectors:
            self._detectors[key] = DETECTORS[name].make(tolerance, 0, self._seed)
        return self._detectors[key]


def _first(events: Sequence[AlarmEvent], after_ms: int) -> int | None:
    """End of the first step after a time in which an alarm was raised, or raised again."""
    return next((event.end_ms for event in events if event.alarm is not None and event.end_ms > after_ms), None)


def lines(budget: float, models: int) -> dict[str, float]:
    """Return the evidence at which each detector of one of so many models raises an alarm."""
    shares = share_budget(budget, dict.fromkeys(range(models), 1.0), WEIGHTS)
    return {name: 1.0 / shares[0, name] for name in WEIGHTS}


class RaisedSteps(NamedTuple):
    """When alarms were raised on a model."""

    pages: Sequence[int]
    """Ends of the steps at which one was raised that did not fire yet, in ms."""
    first: int | None
    """End of the first step after the change at which one was raised, or raised again."""


class Run(NamedTuple):
    """What became of one simulated model."""

    raised: Mapping[Key, RaisedSteps]
    end_ms: Ints
    """Ends of the steps after the change, ascending."""
    labelled: Ints
    """Labelled predictions from the change to each of these ends."""
    predictions: int
    """Labelled ones of the whole run."""


def follow(
    stream: SimulatedStream, alarms: SimulatedDetectors, course: Course, *, hours: int, until_raised: bool
) -> Run:
    """Watch a model to the end of its course, so many hours at a time.

    ``until_raised``: each detector only until its first alarm after the change.
    """
    ends, counts, before = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], 0
    while stream.to_ms < course.end_ms and alarms.active:
        changed = stream.to_ms >= course.change_ms
        steps = stream.draw(hours)
        alarms.update(steps)
        whole = steps[ALL]
        by_row = np.append(0, np.cumsum(whole.values[:, : NEGATIVES + 1].sum(axis=1)))
        if not changed:
            before += int(by_row[-1])
            continue
        ends.append(whole.end_ms)
        counts.append(np.diff(by_row[whole.first]))
        if until_raised:
            alarms.forget_raised(course.change_ms)
    labelled = np.cumsum(np.concatenate(counts))
    return Run(alarms.raised(course.change_ms), np.concatenate(ends), labelled, before + int(labelled[-1]))
