"""The detectors of one version of a model: settled panes of its series in, evidence and alarms out."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
import xxhash

from monitor.events.model import ALL, CLASS
from monitor.sequential.calibration import CalibrationBets
from monitor.sequential.change import ChangeBets
from monitor.sequential.detector import Bets, Detector
from monitor.sequential.evidence import Alarm
from monitor.sequential.naming import name_series
from monitor.sequential.prevalence import PrevalenceBets
from monitor.sequential.steps import Steps
from monitor.sequential.watch import Watch
from monitor.windows.snapshot import NO_EVIDENCE, EvidenceLevel, Raised

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


def group_of(segment: str) -> str:
    """The group of a series: groups have equal weights in the evidence of a version."""
    if segment == ALL:
        return WHOLE
    return CLASSES if segment.startswith(f"{CLASS}=") else SEGMENTS


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
        for name, line in lines.items():
            watch = self._watches.setdefault(name, Watch(self.to_ms))
            bets: dict[str, dict[str, Bets]] = {}
            for segment, of_series in steps.items():
                bets.setdefault(group_of(segment), {})[segment] = self._detector(name, segment).bet(of_series)
            for event in watch.update(bets, line):
                if event.alarm is None:
                    del self._raised[name]
                else:
                    raised, first = raised_by(event.alarm), self._raised.get(name)
                    self._raised[name] = raised if first is None else raised._replace(since_ms=first.since_ms)
        self.to_ms = max(int(of_series.end_ms[-1]) for of_series in steps.values())

    def levels(self, lines: Mapping[str, float]) -> dict[str, EvidenceLevel]:
        """Detector -> its evidence now."""
        result = {}
        for name, watch in self._watches.items():
            evidence = watch.evidence
            series = [
                (one.score, segment, one.since_ms)
                for members in evidence.groups().values()
                for segment, one in members.items()
            ]
            _, segment, since_ms = max(series, default=(0.0, ALL, evidence.position_ms))
            raised = self._raised.get(name)
            if raised is not None:
                segment, since_ms = raised.segment, raised.since_ms
            line = max(evidence.threshold, lines[name])
            value = math.log10(evidence.value) if evidence.value > 0.0 else NO_EVIDENCE
            result[name] = EvidenceLevel(value, math.log10(line), segment, since_ms, raised)
        return result

    def restart(self) -> None:
        """Let all evidence start again at 0, about what predictions and outcomes are from now on."""
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
