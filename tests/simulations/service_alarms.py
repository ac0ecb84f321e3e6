"""What the service says of simulated models: ``python -m tests.simulations.service_alarms`` prints the long form.

Steps are closed as the stream does, read by the detectors of a version, and explained from the panes that are kept.
"""

import argparse
import math
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np

from monitor.alarms.attribution import Attribution
from monitor.alarms.findings import Explainer
from monitor.alarms.watch import VersionWatch
from monitor.events.model import ALL, ModelPolicy, SeriesKey
from monitor.scores.steps import Steps
from monitor.simulation.alarms import lines
from monitor.simulation.generator import HOUR_MS, Law
from monitor.simulation.predictions import DrawnPredictions
from monitor.simulation.scenarios import Scenario
from monitor.simulation.stream import Course, SimulatedStream
from monitor.store import evidence
from monitor.store.alert import Finding
from monitor.store.base import ModelClock, PartitionClock
from monitor.store.closing import Cells, Closing, Panes
from monitor.store.evidence import StoredEvidence
from monitor.store.model_evidence import ModelEvidence, VersionEvidence
from monitor.windows.panes import ClosedPanes
from tests.alarms.streams import as_predicted, no_map
from tests.alarms_benchmark import streams
from tests.alarms_benchmark.scenarios import ACCEPTED

PANE_MS: Final = 60_000
PER_HOUR: Final = 3_000.0
CALM_HOURS: Final = 14
"""Twice the reference of D3."""
AFTER_HOURS: Final = 12
"""From the alarm to a later explanation: an alert is explained anew as data come."""
KEY: Final = SeriesKey("churn", "1", ALL)
POLICY: Final = ModelPolicy(horizon_ms=0, lateness_ms=0)
TOLERANCE: Final = 0.05
LINES: Final = lines(1.0, models=1)


class Service:
    """The service's part between closings and findings, for one model."""

    def __init__(self) -> None:
        self._panes = ClosedPanes({PANE_MS: 100 * 24 * HOUR_MS}, lambda _: POLICY)
        self._watch = VersionWatch(KEY.model, KEY.version, TOLERANCE, 0)
        self._explainer = Explainer(Attribution(self._panes, as_predicted), lambda _: TOLERANCE, no_map)

    def read(self, steps: Steps) -> dict[str, Finding]:
        """Close these steps; return the finding of each kind."""
        to_ms = int(steps.end_ms[-1])
        start_ms = np.repeat(steps.end_ms - PANE_MS, np.diff(steps.first))
        cells = Cells(np.zeros(start_ms.size, np.int64), start_ms, steps.cell, steps.values)
        self._panes.show_partitions({0: PartitionClock(to_ms, 0)})
        closing = Closing(KEY.model, self._watch.to_ms, to_ms, PANE_MS, Panes([KEY], cells))
        self._panes.advance(0, KEY.model, ModelClock(to_ms, to_ms, to_ms), [closing])
        self._panes.settle(KEY.model)
        closed = self._panes.steps(KEY.model, self._watch.to_ms)
        assert closed is not None
        self._watch.update({ALL: closed[KEY]}, LINES)
        versions = {KEY.version: VersionEvidence(self._watch.to_ms, self._watch.levels(LINES))}
        state = StoredEvidence(KEY.model, KEY.version, self._watch.to_ms, evidence.encode(self._watch.state()))
        findings, _ = self._explainer.findings(KEY.model, ModelEvidence(versions, [state]))
        return {finding.kind: finding for finding in findings}


class Explained(NamedTuple):
    """What was said of a jump of prevalence."""

    false: bool
    """There was an alarm before the jump."""
    hours: float
    """From the jump to the alarm."""
    robust: bool
    """The detector that no change of prevalence moves has raised it, too."""
    labels: tuple[str, str]
    """At the end of the hour of the alarm, and later."""
    holds: tuple[bool, bool]
    """Whether the interval of the offset holds the true one."""


def prior_shift(prevalence: float, odds: float, seed: int) -> Explained:
    """Let the odds of a positive change under a model, and explain the alarm."""
    change_ms = CALM_HOURS * HOUR_MS
    course = Course(change_ms, change_ms + 400 * HOUR_MS, PANE_MS, HOUR_MS, implied_negative=False)
    predictions = DrawnPredictions.normal(prevalence, 1.5, PER_HOUR)
    stream, service = SimulatedStream(predictions, Scenario("prevalence", odds), course, seed), Service()
    calm = service.read(stream.draw(CALM_HOURS)[ALL])["calibration"]
    found = calm
    while found.raised_ms is None or found.raised_ms <= change_ms:
        found = service.read(stream.draw(1)[ALL])["calibration"]
    raised_ms, first = found.raised_ms, found.document
    later = service.read(stream.draw(AFTER_HOURS)[ALL])["calibration"].document
    return Explained(
        false=calm.raised_ms is not None,
        hours=(raised_ms - change_ms) / HOUR_MS,
        robust=service._watch.levels(LINES)["prevalence"].raised is not None,
        labels=(first["label"], later["label"]),
        holds=(_holds(first, odds), _holds(later, odds)),
    )


def _holds(document: Mapping[str, Any], odds: float) -> bool:
    lower, upper = document["after"]["offset_interval"]
    return bool(lower <= math.log(odds) <= upper)


def accepted(change: Law, hours: int, seed: int) -> tuple[int | None, str | None]:
    """Watch a model that has been wrong from the beginning, and may change: the hour of the alarm of D3, its label."""
    service = Service()
    for number, steps in enumerate(_hours(change, hours, seed), 1):
        found = service.read(steps)["change"]
        if found.raised_ms is not None:
            return number, found.document["label"]
    return None, None


def _hours(scenario: Law, hours: int, seed: int) -> Iterator[Steps]:
    panes = streams.Panes(PANE_MS)
    events = round(hours * streams.EVENTS_PER_HOUR)
    for part in streams.parts(scenario, "balanced", seed, events):
        steps = panes.steps(part)
        width = HOUR_MS // PANE_MS
        yield from (steps.part(at, min(at + width, steps.end_ms.size)) for at in range(0, steps.end_ms.size, width))


CHANGE_AT: Final = 40_000
CHANGED: Final = {
    "nothing": ACCEPTED,
    "slope 1.3": replace(ACCEPTED, slope=1.3, change_at=CHANGE_AT),
    "offset 0.25": replace(ACCEPTED, offset=0.25, change_at=CHANGE_AT),
    "calibrated": replace(ACCEPTED, slope=1.5, offset=-0.3, change_at=CHANGE_AT),
}
SHIFTS: Final = ((0.1, 2.0), (0.5, 1.6), (0.02, 2.5))
"""Prevalence, and how many times as high the odds become."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description="What the service says of jumps of prevalence and of accepted models.")
    parser.add_argument("--runs", type=int, default=60, help="of each case (default: %(default)s)")
    given = parser.parse_args(arguments)
    with ThreadPoolExecutor() as pool:
        print(f"| prevalence | odds | runs | false | hours | robust | prior shift, at once | {AFTER_HOURS} h later "
              f"| interval holds it, at once | {AFTER_HOURS} h later |")  # fmt: skip
        print("|---|---|---|---|---|---|---|---|---|---|")
        for prevalence, odds in SHIFTS:
            found = list(pool.map(partial(prior_shift, prevalence, odds), range(given.runs)))
            labels = [sum(one.labels[at] == "prior_shift" for one in found) for at in range(2)]
            holds = [sum(one.holds[at] for one in found) for at in range(2)]
            print(f"| {prevalence:g} | {odds:g} | {len(found)} | {sum(one.false for one in found)} "
                  f"| {np.median([one.hours for one in found]):.2f} | {sum(one.robust for one in found)} "
                  f"| {labels[0]} | {labels[1]} | {holds[0]} | {holds[1]} |", flush=True)  # fmt: skip
        print("\n| accepted, then | runs | alarms of D3 | median hour | labels |\n|---|---|---|---|---|")
        for name, scenario in CHANGED.items():
            watched = list(pool.map(partial(accepted, scenario, 24), range(given.runs)))
            hours = [hour for hour, _ in watched if hour is not None]
            said = sorted({label for _, label in watched if label is not None})
            median = f"{np.median(hours):.1f}" if hours else "-"
            print(f"| {name} | {len(watched)} | {len(hours)} | {median} | {', '.join(said) or '-'} |", flush=True)


if __name__ == "__main__":
    main()
