"""Streams of settled panes that a test draws, and what the evidence says of them."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from monitor.alarms.attribution import Attribution
from monitor.alarms.findings import Explainer
from monitor.alarms.watch import WEIGHTS, VersionWatch
from monitor.arrays import Bools, Floats
from monitor.events.model import ModelPolicy, SeriesKey
from monitor.scores import GridTable
from monitor.scores.steps import Steps
from monitor.store import evidence
from monitor.store.alert import Finding
from monitor.store.base import ModelClock, PartitionClock
from monitor.store.closing import Cells, Closing, Panes
from monitor.store.evidence import StoredEvidence
from monitor.store.model_evidence import ModelEvidence, VersionEvidence
from monitor.windows.panes import ClosedPanes

START_MS = 1_790_000_100_000
MINUTE_MS = 60_000
WIDE_MS = 15 * MINUTE_MS
FOR_EVER_MS = 10**12
POLICY = ModelPolicy(horizon_ms=0, lateness_ms=0)
LINES = dict.fromkeys(WEIGHTS, 1e5)

Arrival = Callable[[int, Bools], Floats]
"""(minute, outcomes) -> the probability of each to arrive."""

Truth = Callable[[int, str, Floats], Floats]
"""(minute, segment, logits of the predictions) -> true logits."""


def no_map(*_: object) -> tuple[str, int, dict[str, Any]]:
    """What is said of a map where none serves."""
    raise AssertionError("no map serves")


def as_predicted(series: SeriesKey, steps: Steps) -> Steps:
    """The steps of a series that no map serves."""
    del series
    return steps


class Stream(NamedTuple):
    """The panes of a model "churn" of version "7", one a minute."""

    panes: ClosedPanes
    watch: VersionWatch
    lines: Mapping[str, float]

    def explain(self, explainer: Explainer | None = None) -> tuple[dict[str, Finding], VersionEvidence]:
        """The findings by kind, and the evidence."""
        explainer = explainer or Explainer(Attribution(self.panes, as_predicted), lambda _: 0.05, no_map)
        state = evidence.encode(self.watch.state())
        versions = {"7": VersionEvidence(self.watch.to_ms, self.watch.levels(self.lines))}
        known = ModelEvidence(versions, [StoredEvidence("churn", "7", self.watch.to_ms, state)])
        findings, known = explainer.findings("churn", known)
        return {one.kind: one for one in findings}, known.versions["7"]


def stream(
    truth: Truth,
    *,
    seed: int = 0,
    minutes: int = 300,
    of: Mapping[str, int] | None = None,
    kept_ms: Mapping[int, int] | None = None,
    lines: Mapping[str, float] = LINES,
    until_raised: str | None = None,
    arrival: Arrival | None = None,
) -> Stream:
    """Draw a stream.

    Parameters
    ----------
    of
        Segment -> predictions a minute, besides those of the whole; one segment of 60 if left out.
    lines
        Detector -> evidence at which it raises an alarm.
    until_raised
        Detector: the stream ends with the minute in which it raises an alarm.
    arrival
        Which labels arrive; all of them if left out.
    """
    rng = np.random.default_rng(seed)
    kept_ms = kept_ms or {MINUTE_MS: FOR_EVER_MS, WIDE_MS: FOR_EVER_MS}
    panes = ClosedPanes(kept_ms, lambda _: POLICY)
    watch = VersionWatch("churn", "7", 0.05, START_MS - 1)
    for at in range(minutes):
        begin_ms = START_MS + at * MINUTE_MS
        tables = {}
        for segment, size in (of or {"": 60}).items():
            logit = rng.normal(0.0, 1.5, size)
            y = rng.random(size) < 1.0 / (1.0 + np.exp(-truth(at, segment, logit)))
            label = y if arrival is None else np.where(rng.random(size) < arrival(at, y), y, -1)
            tables[segment] = GridTable.from_events(1.0 / (1.0 + np.exp(-logit)), label)
        series = {"all": GridTable.sum(tables.values()), **{name: table for name, table in tables.items() if name}}
        keys = [SeriesKey("churn", "7", segment) for segment in sorted(series)]
        rows = [series[key.segment] for key in keys]
        number = np.repeat(np.arange(len(rows)), [table.cell.size for table in rows])
        cells = Cells(
            number,
            np.full(number.size, begin_ms),
            np.concatenate([table.cell for table in rows]),
            np.concatenate([table.values for table in rows]),
        )
        to_ms = begin_ms + MINUTE_MS
        panes.show_partitions({0: PartitionClock(to_ms, 0)})
        closing = Closing("churn", begin_ms, to_ms, MINUTE_MS, Panes(keys, cells))
        panes.advance(0, "churn", ModelClock(to_ms, to_ms, to_ms), [closing])
        panes.settle("churn")
        steps = panes.steps("churn", begin_ms)
        assert steps is not None
        watch.update({key.segment: part for key, part in steps.items()}, lines)
        if until_raised is not None and watch.levels(lines)[until_raised].raised is not None:
            break
    return Stream(panes, watch, lines)
