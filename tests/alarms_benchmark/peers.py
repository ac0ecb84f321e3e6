"""What others use, on the same events: windows, a control chart and a conformal martingale.

Each has its usual setting, and one tuned to a false alarm in 100,000 calibrated events.
"""

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import numpy as np
from scipy.special import expit, logit

from monitor.arrays import Floats, Ints
from monitor.measures import brier, ece, smce
from monitor.scores import ScoreTable
from monitor.scores.steps import Steps
from monitor.simulation.generator import DrawnEvents
from tests.alarms_benchmark.methods import RUN_LENGTH, Alarm, Method, Peer
from tests.alarms_benchmark.peer_loops import CELLS, cusum, rank_transforms
from tests.alarms_benchmark.streams import PREVALENCES

WINDOW: Final = 5_000
LOOK: Final = 1_000
"""Events between two looks at a window."""

BASELINE: Final = 50
"""Looks that mean and standard deviation are of."""

MEASURES: Final[Mapping[str, Callable[[ScoreTable], float]]] = MappingProxyType(
    {"ECE": ece, "Brier": brier, "smCE": smce}
)


class Window:
    """A measure of the last 5,000 events, every 1,000 events.

    Parameters
    ----------
    measure
        A name in :data:`MEASURES`.
    threshold
        Of the measure; None for its mean and 3 standard deviations in the first looks.
    """

    def __init__(self, measure: str, threshold: float | None) -> None:
        self.variants = (f"window {measure}, {'mean + 3 sd' if threshold is None else 'tuned'}",)
        self._measure = MEASURES[measure]
        self._threshold = threshold
        self._baseline: list[float] = []
        self._events = 0
        self._begin = 0
        self._prediction: Floats = np.zeros(0)
        self._outcome: Ints = np.zeros(0, np.int64)

    def read(self, part: DrawnEvents, steps: Steps) -> list[Alarm]:
        """Look at the windows that end in the part; after an alarm a window begins anew."""
        before = self._events - self._prediction.size
        self._prediction = np.concatenate([self._prediction, part.prediction])
        self._outcome = np.concatenate([self._outcome, part.outcome])
        first, self._events = self._events, self._events + part.prediction.size
        result = []
        for end in range((first // LOOK + 1) * LOOK, self._events + 1, LOOK):
            if end - self._begin < WINDOW:
                continue
            rows = slice(end - WINDOW - before, end - before)
            value = self._measure(ScoreTable.from_events(self._prediction[rows], self._outcome[rows]))
            if self._threshold is None and len(self._baseline) < BASELINE:
                self._baseline.append(value)
            elif value >= self._limit():
                result.append(Alarm(self.variants[0], end))
                self._begin = end
        self._prediction, self._outcome = self._prediction[-WINDOW:], self._outcome[-WINDOW:]
        return result

    def _limit(self) -> float:
        if self._threshold is not None:
            return self._threshold
        return float(np.mean(self._baseline) + 3.0 * np.std(self._baseline, ddof=1))


class LinearLogOddsCusum:
    """Control charts of the likelihood of four recalibrations on linear log odds (Franck et al. 2025, 2510.25573).

    Their limits follow the predictions by simulation; here they are constant. Slopes are about the mean logit.

    Parameters
    ----------
    threshold
        None for log(4 * 100,000), with which the run length is at least 100,000.
    """

    def __init__(self, centre: float, threshold: float | None) -> None:
        self.variants = (f"CUSUM on log odds, {'by its bound' if threshold is None else 'tuned'}",)
        self._centre = centre
        self._threshold = math.log(4.0 * RUN_LENGTH) if threshold is None else threshold
        self._score = np.zeros(4)
        self._events = 0

    def read(self, part: DrawnEvents, steps: Steps) -> list[Alarm]:
        """Add the events to the charts."""
        z = logit(part.prediction)
        about = z - self._centre
        alternatives = (z + 0.25, z - 0.25, z + 0.3 * about, z - 0.23 * about)
        positive = part.outcome == 1
        p = np.where(positive, part.prediction, 1.0 - part.prediction)
        gain = [np.log(expit(np.where(positive, q, -q)) / p) for q in alternatives]
        alarms = cusum(np.column_stack(gain), self._score, self._threshold)
        first, self._events = self._events, self._events + positive.size
        return [Alarm(self.variants[0], first + event) for event in alarms.tolist()]


class PitMonitor:
    """A conformal test martingale on randomised probability integral transforms (Farran 2026, 2603.13156).

    Parameters
    ----------
    threshold
        None for its own alarm, of which a stream raises a false one with a probability of at most .05; otherwise of the
        same martingale in the form of Shiryaev and Roberts.
    """

    BINS: Final = 10

    def __init__(self, seed: int, threshold: float | None) -> None:
        self.variants = (f"PITMonitor, {'alpha .05' if threshold is None else 'tuned'}",)
        self._threshold = threshold
        self._rng = np.random.default_rng([seed, 7])
        self._seen = np.zeros(CELLS + 1, np.int64)
        self._bins = np.zeros(self.BINS, np.int64)
        self._evidence = np.zeros(2)
        self._events = 0

    def read(self, part: DrawnEvents, steps: Steps) -> list[Alarm]:
        """Add the transforms of the events to the martingale."""
        draw, share = self._rng.random((2, part.prediction.size))
        negative = 1.0 - part.prediction
        transform = np.where(part.outcome == 1, negative + draw * part.prediction, draw * negative)
        threshold = 20.0 if self._threshold is None else self._threshold
        alarms = rank_transforms(
            np.minimum(transform, 1.0 - 1e-12),
            share,
            self._seen,
            self._bins,
            self._evidence,
            threshold,
            self._threshold is None,
        )
        first, self._events = self._events, self._events + part.prediction.size
        return [Alarm(self.variants[0], first + event) for event in alarms.tolist()]


def _window(measure: str) -> Callable[[str, int, float | None], Method]:
    return lambda prevalence, seed, setting: Window(measure, setting)


WINDOWS: Final[Mapping[str, Peer]] = MappingProxyType(
    {f"window {measure}": Peer(_window(measure), 1e-5, 1.0) for measure in MEASURES}
)
CHARTS: Final[Mapping[str, Peer]] = MappingProxyType(
    {
        "CUSUM on log odds": Peer(
            lambda prevalence, seed, setting: LinearLogOddsCusum(PREVALENCES[prevalence], setting), 1.0, 20.0
        ),
        "PITMonitor": Peer(lambda prevalence, seed, setting: PitMonitor(seed, setting), 10.0, 1e8),
    }
)
PEERS: Final[Mapping[str, Peer]] = MappingProxyType({**WINDOWS, **CHARTS})
"""By the name that their variants begin with."""
