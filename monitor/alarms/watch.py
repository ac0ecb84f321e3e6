"""The detectors of one version of a model: settled panes of its series in, evidence and alarms out."""

import math
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
import xxhash

from monitor.events.model import ALL, CLASS
from monitor.sequential.calibration import CalibrationBets
from monitor.sequential.change import ChangeBets
from monitor.sequential.detector import Bets, Detector
from monitor.sequential.evidence import Alarm, after
from monitor.sequential.naming import name_series
from monitor.sequential.prevalence import PrevalenceBets
from monitor.sequential.steps import Steps
from monitor.sequential.watch import Event, Watch
from monitor.windows.snapshot import NO_EVIDENCE, EvidenceLevel, Raised

_STEPS_AT_ONCE: Final = 256
"""After an event, bets on the rest of so many steps are read again, or made again."""

WHOLE: Final = "whole"
SEGMENTS: Final = "segments"
CLASSES: Final = "classes"


class DetectorKind(NamedTuple):
    """How a detector of one series is made."""

    make: Callable[[float, int], Detector]
    """From the tolerance of the model in logits, and a seed."""
    restore: Callable[[Mapping[str, Any]], Detector]
    """From its state."""


DETECTORS: Final[Mapping[str, DetectorKind]] = {
    "calibration": DetectorKind(lambda tolerance, _: CalibrationBets(tolerance), CalibrationBets.from_state),
    "prevalence": DetectorKind(lambda tolerance, _: PrevalenceBets(tolerance), PrevalenceBets.from_state),
    "change": DetectorKind(lambda _, seed: ChangeBets(seed), ChangeBets.from_state),
}
"""By name, as in the label of the series."""


def raised_by(alarm: Alarm) -> Raised:
    """What an alarm says."""
    series = [(one.score, group, name) for group, members in alarm.groups.items() for name, one in members.items()]
    _, group, segment = max(series)
    parts = {name: one.evidence for of, members in alarm.groups.items() if of != WHOLE for name, one in members.items()}
    named = name_series(parts, 1.0 / alarm.threshold)
    since_ms = alarm.groups[group][segment].since_ms
    evidence = [math.log10(parts[name]) for name in named]
    return Raised(alarm.end_ms, math.log10(alarm.evidence), segment, since_ms, named, evidence)


def restore_detector(state: Mapping[str, Any], name: str, segment: str) -> Detector | None:
    """The detector of a series, from the state of its version: to bet with it on panes that it has read before."""
    for of, series, one in state["series"]:
        if (of, series) == (name, segment) and name in DETECTORS:
            # Events that wait for the rest of their block are of later panes.
            return DETECTORS[name].restore({**one, "waiting": np.zeros(0, np.int64)} if "waiting" in one else one)
    return None


def level_of(watch: Watch, raised: Raised | None, line: float) -> EvidenceLevel:
    """The evidence of one detector now, and what it was raised for if an alarm fires."""
    evidence = watch.evidence
    series = [
        (one.score, segment, one.since_ms) for members in evidence.groups().values() for segment, one in members.items()
    ]
    _, segment, since_ms = max(series, default=(0.0, ALL, evidence.position_ms))
    if raised is not None:
        segment, since_ms = raised.segment, raised.since_ms
    value = math.log10(evidence.value) if evidence.value > 0.0 else NO_EVIDENCE
    return EvidenceLevel(value, math.log10(max(evidence.threshold, line)), segment, since_ms, raised)


def group_of(segment: str) -> str:
    """The group of a series: groups have equal weights in the evidence of a version."""
    if segment == ALL:
        return WHOLE
    return CLASSES if segment.startswith(f"{CLASS}=") else SEGMENTS


def _bet(detector: Detector, steps: Steps, *, held: bool) -> Bets:
    return detector.bet(steps, held=held) if isinstance(detector, ChangeBets) else detector.bet(steps)


@dataclass(slots=True)
class VersionWatch:
    """Evidence and alarms on one version.

    Attributes
    ----------
    model, version
        Whose they are.
    tolerance
        Logits by which true probabilities may differ from predictions without being evidence.
    to_ms
        Predictions before this time are in it.
    """

    model: str
    version: str
    tolerance: float
    to_ms: int
    _watches: dict[str, Watch] = field(default_factory=dict)
    """By detector, as what follows."""
    _raised: dict[str, Raised] = field(default_factory=dict)
    _series: dict[tuple[str, str], Detector] = field(default_factory=dict)
    """(detector, segment) -> detector of the series."""

    def update(self, steps: Mapping[str, Steps], lines: Mapping[str, float]) -> None:
        """Add the panes of each segment (of at least one) that begin at ``self.to_ms`` or later.

        Parameters
        ----------
        lines
            Detector -> evidence at which an alarm is raised.
        """
        ends_ms = np.unique(np.concatenate([of_series.end_ms for of_series in steps.values()]))
        for end_ms in [*ends_ms[_STEPS_AT_ONCE - 1 :: _STEPS_AT_ONCE].tolist(), int(ends_ms[-1])]:
            part = {segment: of_series.until(end_ms).after(self.to_ms) for segment, of_series in steps.items()}
            for name, line in lines.items():
                self._follow(name, part, line)
            self.to_ms = end_ms

    def _follow(self, name: str, steps: Mapping[str, Steps], line: float) -> None:
        """Add steps to the evidence of one detector."""
        watch = self._watches.setdefault(name, Watch(self.to_ms))
        while steps:
            detectors = {segment: self._detector(name, segment) for segment in steps}
            # What these bet depends on whether the alarm fires: once that changes, they go back to then.
            earlier = {segment: copy(one) for segment, one in detectors.items() if isinstance(one, ChangeBets)}
            fired = watch.firing
            bets: dict[str, dict[str, Bets]] = {}
            for segment, detector in detectors.items():
                of_group = bets.setdefault(group_of(segment), {})
                of_group[segment] = _bet(detector, steps[segment], held=fired)
            rest: Mapping[str, Steps] = {}
            while not rest and (event := watch.update_until_event(bets, line)) is not None:
                self._note(name, event)
                bets = after(bets, event.end_ms)
                if earlier and watch.firing != fired:
                    for segment, detector in earlier.items():
                        detector.bet(steps[segment].until(event.end_ms), held=fired)
                        self._series[name, segment] = detector
                    rest = {segment: of_series.after(event.end_ms) for segment, of_series in steps.items()}
            steps = rest

    def _note(self, name: str, event: Event) -> None:
        if event.alarm is None:
            del self._raised[name]
        else:
            raised, first = raised_by(event.alarm), self._raised.get(name)
            self._raised[name] = raised if first is None else raised._replace(since_ms=first.since_ms)

    def levels(self, lines: Mapping[str, float]) -> dict[str, EvidenceLevel]:
        """Detector -> its evidence now."""
        return {name: level_of(watch, self._raised.get(name), lines[name]) for name, watch in self._watches.items()}

    def restart(self, from_ms: int) -> None:
        """Let all evidence start again at 0, about predictions from this time on."""
        self.to_ms = max(self.to_ms, from_ms)
        self._watches.clear()
        self._raised.clear()
        self._series.clear()

    def state(self) -> dict[str, Any]:
        """Return what :meth:`from_state` continues from."""
        series = sorted(self._series.items(), key=lambda item: item[0])
        return {
            "tolerance": self.tolerance,
            "watches": {name: watch.state() for name, watch in self._watches.items()},
            "raised": {name: list(raised) for name, raised in self._raised.items()},
            "series": [[*key, detector.state()] for key, detector in series],
        }

    @classmethod
    def from_state(cls, model: str, version: str, to_ms: int, state: Mapping[str, Any]) -> "VersionWatch":
        """Continue from a state. Detectors that there are no more are left out."""
        return cls(
            model,
            version,
            state["tolerance"],
            to_ms,
            _watches={name: Watch.from_state(one) for name, one in state["watches"].items() if name in DETECTORS},
            _raised={name: Raised(*one) for name, one in state["raised"].items() if name in DETECTORS},
            _series={
                (name, segment): DETECTORS[name].restore(one)
                for name, segment, one in state["series"]
                if name in DETECTORS
            },
        )

    def _detector(self, name: str, segment: str) -> Detector:
        key = name, segment
        if key not in self._series:
            seed = xxhash.xxh3_64_intdigest(f"{self.model}\0{self.version}\0{segment}".encode()) >> 1
            self._series[key] = DETECTORS[name].make(self.tolerance, seed)
        return self._series[key]
