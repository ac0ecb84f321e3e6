"""Detectors of drift of river, on the events of the streams."""

import sys
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType, SimpleNamespace
from typing import Any, Final, NamedTuple

import numpy as np
from river import drift
from scipy import stats

from monitor.arrays import Floats
from monitor.scores.steps import Steps
from monitor.simulation.generator import DrawnEvents
from tests.alarms_benchmark.methods import Alarm, Peer
from tests.alarms_benchmark.peer_loops import kolmogorov_smirnov


class RiverDetector:
    """A detector of drift of river, event by event.

    Parameters
    ----------
    name
        In :data:`DETECTORS`.
    setting
        Of its parameter that decides how sensitive it is; None for river's default.
    """

    def __init__(self, name: str, setting: float | None) -> None:
        self.variants = (f"{name}, {'default' if setting is None else 'tuned'}",)
        make, parameter, signal = DETECTORS[name]
        self._detector = make() if setting is None else make(**{parameter: setting})
        self._signal = SIGNALS[signal]
        self._events = 0

    def read(self, part: DrawnEvents, steps: Steps) -> list[Alarm]:
        """Update the detector with each event; it begins anew after an alarm by itself."""
        result, detector = [], self._detector
        for event, value in enumerate(self._signal(part).tolist(), self._events + 1):
            detector.update(value)
            if detector.drift_detected:
                result.append(Alarm(self.variants[0], event))
        self._events += part.prediction.size
        return result


def _log_loss(part: DrawnEvents) -> Floats:
    p = np.where(part.outcome == 1, part.prediction, 1.0 - part.prediction)
    return np.asarray(-np.log(np.maximum(p, 1e-12)))


SIGNALS: Final[Mapping[str, Callable[[DrawnEvents], Any]]] = MappingProxyType(
    {
        "y - p": lambda part: part.outcome - part.prediction,
        "log loss": _log_loss,
        "error": lambda part: (part.prediction >= 0.5) != (part.outcome == 1),
        # HDDM-A is for numbers in [0, 1].
        "(1 + y - p) / 2": lambda part: (1.0 + part.outcome - part.prediction) / 2.0,
        "log loss / 8": lambda part: np.minimum(_log_loss(part) / 8.0, 1.0),
    }
)


def _hddm_a(**settings: float) -> Any:
    return drift.binary.HDDMA(two_sided_test=True, **settings)


_P_VALUES: Final[dict[float, float]] = {}
"""Of the statistic of two samples of KSWIN, which are of one size: the exact test depends on nothing else."""


def _test_samples(first: Sequence[float], second: Sequence[float], method: str) -> tuple[float, float]:
    """Return what ``scipy.stats.ks_2samp`` does for two samples of KSWIN, in a twentieth of the time."""
    statistic = kolmogorov_smirnov(np.array(first, np.float64), np.array(second, np.float64))
    if statistic not in _P_VALUES:
        _P_VALUES[statistic] = float(stats.ks_2samp(first, second, method=method).pvalue)
    return statistic, _P_VALUES[statistic]


sys.modules[drift.KSWIN.__module__].stats = SimpleNamespace(ks_2samp=_test_samples)  # type: ignore[attr-defined]


def _kswin(**settings: Any) -> Any:
    return drift.KSWIN(seed=1, **settings)


class Detector(NamedTuple):
    """A class of river, and what it is fed with."""

    make: Callable[..., Any]
    parameter: str
    """The one that decides how sensitive it is."""
    signal: str


DETECTORS: Final[Mapping[str, Detector]] = MappingProxyType(
    {
        "ADWIN on y - p": Detector(drift.ADWIN, "delta", "y - p"),
        "ADWIN on log loss": Detector(drift.ADWIN, "delta", "log loss"),
        "Page-Hinkley on y - p": Detector(drift.PageHinkley, "threshold", "y - p"),
        "Page-Hinkley on log loss": Detector(drift.PageHinkley, "threshold", "log loss"),
        "DDM on errors": Detector(drift.binary.DDM, "drift_threshold", "error"),
        "HDDM-A on y - p": Detector(_hddm_a, "drift_confidence", "(1 + y - p) / 2"),
        "HDDM-A on log loss": Detector(_hddm_a, "drift_confidence", "log loss / 8"),
        "KSWIN on y - p": Detector(_kswin, "alpha", "y - p"),
        "KSWIN on log loss": Detector(_kswin, "alpha", "log loss"),
    }
)


def _peer(name: str, sensitive: float, insensitive: float, events: int) -> Peer:
    return Peer(lambda prevalence, seed, setting: RiverDetector(name, setting), sensitive, insensitive, events)


RIVER: Final[Mapping[str, Peer]] = MappingProxyType(
    {
        "ADWIN on y - p": _peer("ADWIN on y - p", 0.9, 1e-12, 5_000_000),
        "ADWIN on log loss": _peer("ADWIN on log loss", 0.9, 1e-12, 5_000_000),
        "Page-Hinkley on y - p": _peer("Page-Hinkley on y - p", 1.0, 1e4, 5_000_000),
        "Page-Hinkley on log loss": _peer("Page-Hinkley on log loss", 1.0, 1e4, 5_000_000),
        "DDM on errors": _peer("DDM on errors", 1.0, 20.0, 5_000_000),
    }
)

HDDM: Final[Mapping[str, Peer]] = MappingProxyType(
    {
        "HDDM-A on y - p": _peer("HDDM-A on y - p", 0.5, 1e-12, 1_000_000),
        "HDDM-A on log loss": _peer("HDDM-A on log loss", 0.5, 1e-12, 1_000_000),
    }
)
"""Apart from the others, since it takes 3 to 5 microseconds an event. No confidence alarms more often than .5."""

KSWIN: Final[Mapping[str, Peer]] = MappingProxyType(
    {
        "KSWIN on y - p": _peer("KSWIN on y - p", 0.1, 1e-12, 300_000),
        "KSWIN on log loss": _peer("KSWIN on log loss", 0.1, 1e-12, 300_000),
    }
)
"""Apart from the others, since it takes 30 microseconds an event."""

KSWIN_EVENTS: Final = 150_000
"""Length of the streams that it reads."""
