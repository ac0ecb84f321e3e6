"""What is possible at most: Shiryaev-Roberts with the likelihood ratio of the change itself, on single events.

It is told the law before and after the change, and which events are in the segment that changes, but not when. Among
all methods with as many false alarms it has the smallest delay that can be promised, to first order. Ramps have a ratio
for each time since their beginning, and are left out.
"""

import csv
import math
from dataclasses import asdict, dataclass, fields
from typing import Final

import numpy as np
from scipy.special import expit, ndtri

from monitor.arrays import Floats
from monitor.simulation.generator import Law
from tests.alarms_benchmark import ours
from tests.alarms_benchmark.peer_loops import first_alarm
from tests.alarms_benchmark.results import ROOT
from tests.alarms_benchmark.scenarios import CHANGES
from tests.alarms_benchmark.streams import PREVALENCES, SPREAD

TABLE: Final = ROOT / "docs" / "alarms-oracle.csv"

STREAMS: Final = 200
_BEFORE: Final = 20_000
"""Calibrated events, after which evidence does not remember where it began."""

_PART: Final = 20_000
_POINTS: Final = 20_000


@dataclass(frozen=True)
class Optimum:
    """The oracle on the streams of a scenario."""

    scenario: str
    prevalence: str
    budget: str
    """See :data:`tests.alarms_benchmark.ours.RUN_LENGTHS`."""
    bound: float
    """Events in which the logarithm of the run length is gained on average."""
    delay: float
    """Median number of events from the change to the alarm."""


def write() -> None:
    """Run the oracle, and write what it does."""
    rows = [
        row
        for prevalence in PREVALENCES
        for scenario, law in CHANGES.items()
        if not law.ramp
        for row in optima(scenario, law, prevalence)
    ]
    with TABLE.open("w", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Optimum)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(row) for row in rows)


def load() -> dict[tuple[str, str, str], Optimum]:
    """Read what was written, by scenario, prevalence and budget."""
    with TABLE.open(newline="") as file:
        rows = [
            Optimum(row["scenario"], row["prevalence"], row["budget"], float(row["bound"]), float(row["delay"]))
            for row in csv.DictReader(file)
        ]
    return {(row.scenario, row.prevalence, row.budget): row for row in rows}


def optima(scenario: str, law: Law, prevalence: str, streams: int = STREAMS) -> list[Optimum]:
    """Return the oracle's delay at each budget."""
    rng = np.random.default_rng([*scenario.encode(), *prevalence.encode()])
    information, result = divergence(law, prevalence), []
    for budget, length in ours.RUN_LENGTHS.items():
        threshold = threshold_of(law, prevalence, length, streams, rng)
        delays = [run(law, prevalence, threshold, _BEFORE, rng)[0] for _ in range(streams)]
        result.append(
            Optimum(scenario, prevalence, budget, round(math.log(length) / information), float(np.median(delays)))
        )
    return result


def threshold_of(law: Law, prevalence: str, length: float, streams: int, rng: np.random.Generator) -> float:
    """Return the threshold with this run length: as much smaller as evidence is beyond a threshold at an alarm."""
    return length * float(np.mean([length / run(law, prevalence, length, 0, rng)[1] for _ in range(streams)]))


def run(law: Law, prevalence: str, threshold: float, before: int, rng: np.random.Generator) -> tuple[int, float]:
    """Return the events from a change to the first alarm after it, and the evidence there."""
    evidence, done = np.zeros(1), -before
    while True:
        size = _PART if done >= 0 else min(_PART, -done)
        old, new = truths(law, prevalence, rng.normal(0.0, SPREAD, size))
        if law.share is not None:
            new = np.where(rng.random(size) < law.share, new, old)
        p, q = expit(old), expit(new)
        positive = rng.random(size) < (q if done >= 0 else p)
        ratio = np.where(positive, q / p, (1.0 - q) / (1.0 - p))
        start = 0
        while (alarm := first_alarm(ratio[start:], evidence, threshold)) >= 0:
            if done >= 0:
                return done + start + alarm + 1, float(evidence[0])
            start, evidence[0] = start + alarm + 1, 0.0
        done += size


def truths(law: Law, prevalence: str, z: Floats) -> tuple[Floats, Floats]:
    """Return true logits before and after a change, of logits of predictions less their mean."""
    old = PREVALENCES[prevalence] + law.accepted_offset + law.accepted_slope * z
    bump = law.bump * ((z >= 0.0) & (z <= 0.6745 * SPREAD))
    return old, old + law.offset + (law.slope - 1.0) * law.accepted_slope * z + bump


def divergence(law: Law, prevalence: str) -> float:
    """Return the mean logarithm of the likelihood ratio of an event after a change."""
    old, new = truths(law, prevalence, SPREAD * ndtri((np.arange(_POINTS) + 0.5) / _POINTS))
    q = expit(new)
    # log(1 - p) is that of the odds less log p.
    gain = q * (new - old) - np.logaddexp(0.0, new) + np.logaddexp(0.0, old)
    return float(gain.mean()) * (1.0 if law.share is None else law.share)
