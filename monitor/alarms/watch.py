"""The detectors of one version of a model: settled panes of its series in, evidence and alarms out."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import xxhash

from monitor.events.model import ALL, CLASS
from monitor.sequential.calibration import CalibrationBets
from monitor.sequential.detector import Detector
from monitor.sequential.evidence import Alarm, Evidence
from monitor.sequential.steps import Steps

State = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Kind:
    """A detector of every version.

    Attributes
    ----------
    make
        Tolerance of the model in logits, and a seed -> a detector of one series.
    restore
        State -> the detector.
    """

    make: Callable[[float, int], Detector]
    restore: Callable[[Mapping[str, Any]], Detector]


KINDS: Final[Mapping[str, Kind]] = {
    "calibration": Kind(lambda tolerance, _: CalibrationBets(tolerance), CalibrationBets.from_state),
}
"""Name of a detector, as in the label of the series -> how it is made."""


def group_of(segment: str) -> str:
    """The group of a series: groups have equal weights in the evidence of a version."""
    if segment == ALL:
        return "whole"
    return "classes" if segment.startswith(f"{CLASS}=") else "segments"


@dataclass(slots=True)
class Watch:
    """Evidence on one version.

    Attributes
    ----------
    model, version
        Whose it is.
    tolerance
        Logits by which true probabilities may differ from predictions without being evidence.
    to_ms
        Predictions before this time are in it.
    """

    model: str
    version: str
    tolerance: float
    to_ms: int
    evidence: dict[str, Evidence] = field(default_factory=dict)
    """By detector."""
    detectors: dict[tuple[str, str], Detector] = field(default_factory=dict)
    """(detector, segment) -> detector of the series."""

    def update(self, steps: Mapping[str, Steps], to_ms: int, thresholds: Mapping[str, float]) -> dict[str, list[Alarm]]:
        """Add the panes of the times [``self.to_ms``, to_ms) of each segment; returns the alarms of each detector.

        Parameters
        ----------
        thresholds
            By detector: see :meth:`monitor.sequential.evidence.Evidence.update`.
        """
        alarms = {}
        for name, threshold in thresholds.items():
            evidence = self.evidence.setdefault(name, Evidence(self.to_ms))
            bets: dict[str, dict[str, Any]] = {}
            for segment, of_series in steps.items():
                bets.setdefault(group_of(segment), {})[segment] = self._detector(name, segment).bet(of_series)
            alarms[name] = evidence.update(bets, threshold)
        self.to_ms = to_ms
        return alarms

    def restart(self, name: str) -> None:
        """Let the evidence of a detector start again at 0, with what it learns of the predictions from now on."""
        self.evidence[name].restart()
        for key in [key for key in self.detectors if key[0] == name]:
            del self.detectors[key]

    def state(self) -> State:
        """Return what :meth:`from_state` continues from."""
        return {
            "tolerance": self.tolerance,
            "evidence": {name: evidence.state() for name, evidence in self.evidence.items()},
            "detectors": [
                [*key, detector.state()] for key, detector in sorted(self.detectors.items(), key=lambda item: item[0])
            ],
        }

    @classmethod
    def from_state(cls, model: str, version: str, to_ms: int, state: Mapping[str, Any]) -> "Watch":
        """Continue from a state. Detectors that there are no more are left out."""
        return cls(
            model,
            version,
            state["tolerance"],
            to_ms,
            {name: Evidence.from_state(one) for name, one in state["evidence"].items() if name in KINDS},
            {(name, segment): KINDS[name].restore(one) for name, segment, one in state["detectors"] if name in KINDS},
        )

    def _detector(self, name: str, segment: str) -> Detector:
        key = name, segment
        if key not in self.detectors:
            seed = xxhash.xxh3_64_intdigest("\0".join((self.model, self.version, segment)).encode()) >> 1
            self.detectors[key] = KINDS[name].make(self.tolerance, seed)
        return self.detectors[key]
