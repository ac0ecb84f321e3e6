"""The detectors of one version of a model: settled panes of its series in, evidence and alarms out."""

import math
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final, NamedTuple, TypeGuard

import numpy as np
import xxhash

from monitor.events.model import ALL, CLASS
from monitor.scores.steps import Steps
from monitor.sequential.blocks import BlockBets
from monitor.sequential.calibration import CalibrationBets
from monitor.sequential.change import ChangeBets
from monitor.sequential.detector import Bets, Detector
from monitor.sequential.evidence import YEAR_MS, Alarm, after
from monitor.sequential.naming import name_series
from monitor.sequential.prevalence import PrevalenceBets
from monitor.sequential.watch import AlarmEvent, Watch
from monitor.store.model_evidence import NO_EVIDENCE, EvidenceLevel, Raised

_STEPS_AT_ONCE: Final = 256
"""After an event, bets on the rest of so many steps are read again, or made again."""

WHOLE: Final = "whole"
SEGMENTS: Final = "segments"
CLASSES: Final = "classes"


class DetectorKind(NamedTuple):
    """How a detector of one series is made."""

    make: Callable[[float, int, int], Detector]
    """Makes a detector from a tolerance, the length of blocks, and a seed."""
    restore: Callable[[Mapping[str, Any]], Detector]
    """Makes a detector from its state."""
    settings: tuple[str, ...] = ()
    """Attributes of the version that it is made from: with other values it starts anew."""


DETECTORS: Final[Mapping[str, DetectorKind]] = {
    "calibration": DetectorKind(
        lambda tolerance, _, __: CalibrationBets(tolerance), CalibrationBets.from_state, ("tolerance",)
    ),
    "prevalence": DetectorKind(
        lambda tolerance, _, __: PrevalenceBets(tolerance), PrevalenceBets.from_state, ("tolerance",)
    ),
    "change": DetectorKind(lambda _, __, seed: ChangeBets(seed), ChangeBets.from_state),
    "calibration_even": DetectorKind(
        lambda tolerance, block_ms, _: BlockBets(block_ms, 0, tolerance),
        BlockBets.from_state,
        ("tolerance", "block_ms"),
    ),
    "calibration_odd": DetectorKind(
        lambda tolerance, block_ms, _: BlockBets(block_ms, 1, tolerance),
        BlockBets.from_state,
        ("tolerance", "block_ms"),
    ),
}
"""Detectors by name, as in the label of the series."""

WEIGHTS: Final[Mapping[str, float]] = dict.fromkeys(("calibration", "prevalence", "change"), 1.0)
"""Weights of the detectors of predictions that have a share of the budget of their own."""

_WITHIN_HORIZON: Final[Mapping[str, tuple[str, ...]]] = {"calibration": ("calibration_even", "calibration_odd")}
"""Detectors whose budget is for others where outcomes within a horizon depend on each other. Each gets an equal part.

The null hypotheses of all others do not hold there.
"""


def lines_of(shares: Mapping[str, float], *, within_horizon: bool) -> dict[str, float]:
    """Detectors of a version, and the evidence at which each raises an alarm.

    Parameters
    ----------
    shares
        Of the detectors that are declared: false alarms a year.
    within_horizon
        Whether outcomes within a horizon may depend on each other.
    """
    if not within_horizon:
        return {name: 1.0 / share for name, share in shares.items()}
    return {
        name: len(names) / shares[declared]
        for declared, names in _WITHIN_HORIZON.items()
        if declared in shares
        for name in names
    }


def raised_by(alarm: Alarm) -> Raised:
    """What an alarm says."""
    series = [(one.score, group, name) for group, members in alarm.groups.items() for name, one in members.items()]
    _, group, segment = max(series)
    parts = {name: one.evidence for of, members in alarm.groups.items() if of != WHOLE for name, one in members.items()}
    named = name_series(parts, 1.0 / alarm.threshold)
    since_ms = alarm.groups[group][segment].since_ms
    evidence = [math.log10(parts[name]) for name in named]
    return Raised(alarm.end_ms, alarm.end_ms, math.log10(alarm.evidence), segment, since_ms, named, evidence)


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
    if raised is not None:
        value = max(value, raised.log10_evidence)
    return EvidenceLevel(value, math.log10(max(evidence.threshold, line)), segment, since_ms, raised)


def raised_again(first: Raised, again: Raised) -> Raised:
    """The alarm that fires, with the first time it was raised, its change, and the most evidence of all."""
    strongest = max(first.log10_evidence, again.log10_evidence)
    return again._replace(first_ms=first.first_ms, since_ms=first.since_ms, log10_evidence=strongest)


def group_of(segment: str) -> str:
    """The group of a series: groups have equal weights in the evidence of a version."""
    if segment == ALL:
        return WHOLE
    return CLASSES if segment.startswith(f"{CLASS}=") else SEGMENTS


def _learns(detector: Detector) -> TypeGuard[CalibrationBets | ChangeBets]:
    """A detector that learns its bets from outcomes, which it does not do while its alarm fires."""
    return isinstance(detector, CalibrationBets | ChangeBets)


def _bet(detector: Detector, steps: Steps, *, held: bool) -> Bets:
    return detector.bet(steps, held=held) if _learns(detector) else detector.bet(steps)


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
    block_ms
        Length of the blocks of detectors for dependent outcomes: a horizon or more, and whole panes.
    forget_ms
        A version that has no predictions for longer has stopped. Where it comes back, all starts again.
    """

    model: str
    version: str
    tolerance: float
    to_ms: int
    block_ms: int = 0
    forget_ms: int = YEAR_MS
    ended_by_settings: dict[str, int] = field(default_factory=dict)
    """Detector -> ``to_ms`` when other settings ended its alarm, which fired."""
    _watches: dict[str, Watch] = field(default_factory=dict)
    """Watches by detector, as the fields that follow."""
    _raised: dict[str, Raised] = field(default_factory=dict)
    _series: dict[tuple[str, str], Detector] = field(default_factory=dict)
    """(detector, segment) -> detector of the series."""

    def update(self, steps: Mapping[str, Steps], lines: Mapping[str, float]) -> None:
        """Add the panes of each segment (of at least one) that begin at ``self.to_ms`` or later.

        Parameters
        ----------
        lines
            Detector -> evidence at which an alarm is raised. Of others, evidence is dropped.
        """
        self.switch_off(lines)
        ends_ms = np.unique(np.concatenate([of_series.end_ms for of_series in steps.values()]))
        comes_back = np.diff(ends_ms, prepend=self.to_ms) > self.forget_ms
        parts = np.cumsum(comes_back) * ends_ms.size + np.arange(ends_ms.size) // _STEPS_AT_ONCE
        for start, stop in pairwise([*np.flatnonzero(np.diff(parts, prepend=-1)).tolist(), ends_ms.size]):
            if comes_back[start]:
                self.restart()
                self.to_ms = int(ends_ms[start]) - 1
            end_ms = int(ends_ms[stop - 1])
            part = {segment: of_series.until(end_ms).after(self.to_ms) for segment, of_series in steps.items()}
            for name, line in lines.items():
                self._follow(name, part, line)
            self.to_ms = end_ms

    def switch_off(self, lines: Mapping[str, float]) -> bool:
        """Drop the evidence of detectors without a line; returns whether there was any."""
        dropped = self._watches.keys() - lines.keys()
        for name in dropped:
            self._drop(name)
        return bool(dropped)

    def _follow(self, name: str, steps: Mapping[str, Steps], line: float) -> None:
        """Add steps to the evidence of one detector."""
        watch = self._watches.setdefault(name, Watch(self.to_ms))
        while steps:
            detectors = {segment: self._detector(name, segment) for segment in steps}
            # What these bet depends on whether the alarm fires: once that changes, they go back to then.
            earlier = {segment: copy(one) for segment, one in detectors.items() if _learns(one)}
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

    def _note(self, name: str, event: AlarmEvent) -> None:
        if event.alarm is None:
            del self._raised[name]
        else:
            raised, first = raised_by(event.alarm), self._raised.get(name)
            self._raised[name] = raised if first is None else raised_again(first, raised)

    def levels(self, lines: Mapping[str, float]) -> dict[str, EvidenceLevel]:
        """Detector -> its evidence now."""
        return {
            name: level_of(watch, self._raised.get(name), lines[name])
            for name, watch in self._watches.items()
            if name in lines
        }

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
            "block_ms": self.block_ms,
            "watches": {name: watch.state() for name, watch in self._watches.items()},
            "raised": {name: list(raised) for name, raised in self._raised.items()},
            "ended_by_settings": dict(self.ended_by_settings),
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
            state["block_ms"],
            ended_by_settings=dict(state["ended_by_settings"]),
            _watches={name: Watch.from_state(one) for name, one in state["watches"].items() if name in DETECTORS},
            _raised={name: Raised(*one) for name, one in state["raised"].items() if name in DETECTORS},
            _series={
                (name, segment): DETECTORS[name].restore(one)
                for name, segment, one in state["series"]
                if name in DETECTORS
            },
        )

    def set(self, *, tolerance: float, block_ms: int, forget_ms: int) -> None:
        """Change settings. Detectors that were made from others start again at 0."""
        self.forget_ms = forget_ms
        changed = {"tolerance": tolerance != self.tolerance, "block_ms": block_ms != self.block_ms}
        self.tolerance, self.block_ms = tolerance, block_ms
        for name in list(self._watches):
            if any(changed[key] for key in DETECTORS[name].settings):
                self._drop(name)

    def _drop(self, name: str) -> None:
        del self._watches[name]
        if self._raised.pop(name, None) is not None:
            self.ended_by_settings[name] = self.to_ms
        self._series = {key: detector for key, detector in self._series.items() if key[0] != name}

    def _detector(self, name: str, segment: str) -> Detector:
        key = name, segment
        if key not in self._series:
            seed = xxhash.xxh3_64_intdigest(f"{self.model}\0{self.version}\0{segment}".encode()) >> 1
            self._series[key] = DETECTORS[name].make(self.tolerance, self.block_ms, seed)
        return self._series[key]
