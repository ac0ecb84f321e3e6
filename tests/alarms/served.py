"""A store that partitions publish closings to, and a replica that evaluates it: alarms from panes to alerts."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from monitor.alarms.alarms import Alarms, Findings
from monitor.alarms.attribution import Attribution
from monitor.alarms.findings import Explainer
from monitor.alarms.serving import SERVING_MAP, ServedMaps
from monitor.alarms.shocks import Shocks
from monitor.alarms.watch import WEIGHTS
from monitor.alarms.watcher import Watcher, WatchPlan
from monitor.arrays import Floats, Ints
from monitor.clock import ManualClock
from monitor.events.model import ALL, ModelPolicy, SeriesKey
from monitor.maps import RecalibrationMap
from monitor.maps.artifact import to_bytes
from monitor.scores import GridTable
from monitor.store.alerts import AlertStore
from monitor.store.base import Checkpoint, ModelState, PaneKey, SampledSpan
from monitor.store.closed_samples import SCHEMA, ClosedSample
from monitor.store.closing import Cells, Closing, Panes
from monitor.store.evaluations import Evaluation, EvaluationStore
from monitor.store.model_evidence import ModelEvidence
from monitor.store.recalibration_store import RecalibrationStore
from monitor.store.recalibrations import Champion, JobState
from monitor.store.sql import SqlStore
from monitor.windows.panes import ClosedPanes, read_closings
from tests.store.refits import LEASE_MS, queued, stored_map

PANE_MS: Final = 60_000
PANE_EVENTS: Final = 150
SPAN_MS: Final = 20 * PANE_MS
START_MS: Final = 1_760_000_400_000
POLICY: Final = ModelPolicy(horizon_ms=5 * PANE_MS, lateness_ms=0)
KEPT_MS: Final = {PANE_MS: 7 * 86_400_000}
MODEL: Final = "churn"
VERSION: Final = "7"
SEGMENT: Final = "region=eu"
DETECTORS: Final = {**WEIGHTS, SERVING_MAP: 1.0}
PLAN: Final = WatchPlan()


class Stream:
    """Publishes the settled events of one version, in two partitions; half of the events are of a region."""

    def __init__(self, store: SqlStore) -> None:
        self.store = store
        self.now_ms = START_MS
        """Up to when predictions are settled."""
        self._epochs = [store.claim(number) for number in range(2)]
        self._number = 0

    def publish(self, p: Floats, y: Ints, features: Floats | None = None) -> None:
        """Close panes of :data:`PANE_EVENTS` events each; all panes are whole."""
        assert p.size % PANE_EVENTS == 0
        panes = p.size // PANE_EVENTS
        start_ms = self.now_ms + np.arange(p.size) // PANE_EVENTS * PANE_MS
        from_ms, self.now_ms = self.now_ms, self.now_ms + panes * PANE_MS
        for number, epoch in enumerate(self._epochs):
            own = np.flatnonzero(np.arange(p.size) % 2 == number)
            names = [SeriesKey(MODEL, VERSION, ALL), SeriesKey(MODEL, VERSION, SEGMENT)]
            cells = [
                _cells(series, start_ms[rows], p[rows], y[rows]) for series, rows in enumerate((own, own[own % 4 < 2]))
            ]
            closing = Closing(MODEL, from_ms, self.now_ms, PANE_MS, Panes.of(names, Cells.joined(cells)))
            newest_ms = self.now_ms + POLICY.retention_ms
            state = ModelState(MODEL, newest_ms, newest_ms, self.now_ms)
            samples = [] if features is None else self._samples(start_ms[own], p[own], y[own], features[own])
            self.store.save(
                [
                    Checkpoint(
                        partition=number,
                        epoch=epoch,
                        offsets={"events": self.now_ms},
                        models=[state],
                        closings=[closing],
                        closed_samples=samples,
                        read_to_ms=newest_ms,
                    )
                ]
            )

    def _samples(self, start_ms: Ints, p: Floats, y: Ints, features: Floats) -> list[SampledSpan]:
        samples = []
        for span_ms in np.unique(start_ms - start_ms % SPAN_MS).tolist():
            rows = np.flatnonzero(start_ms - start_ms % SPAN_MS == span_ms)
            ids = self._number + np.arange(rows.size)
            self._number += rows.size
            table = pa.table(
                {
                    "id_high": ids.astype(np.uint64),
                    "id_low": ids.astype(np.uint64),
                    "time_ms": start_ms[rows],
                    "confidence": np.zeros(rows.size, np.int32),
                    "prediction": [[one] for one in p[rows].tolist()],
                    "outcome": y[rows].astype(np.int16),
                    "segments": ["[]"] * rows.size,
                    "features": features[rows].tolist(),
                },
                schema=SCHEMA,
            )
            key = PaneKey(SPAN_MS, span_ms, SeriesKey(MODEL, VERSION, ALL))
            samples.append(SampledSpan(key, ClosedSample.of(10_000, {0: rows.size}, table)))
        return samples


def _cells(series: int, start_ms: Ints, p: Floats, y: Ints) -> Cells:
    parts = []
    for at in np.unique(start_ms).tolist():
        table = GridTable.from_events(p[start_ms == at], y[start_ms == at])
        ones = np.ones(table.cell.size, np.int64)
        parts.append(Cells(series * ones, at * ones, table.cell, table.values))
    return Cells.joined(parts)


class Replica:
    """A replica that evaluates the model, with these settings of its watcher."""

    def __init__(
        self,
        stream: Stream,
        clock: ManualClock,
        name: str = "a",
        *,
        rolls_back: Callable[[str], bool] = lambda _: False,
        **settings: Any,
    ) -> None:
        self.name, self._stream, self._clock = name, stream, clock
        store = stream.store
        self.alerts = AlertStore(store.database)
        self._evaluations = EvaluationStore(store.database)
        # The time of PostgreSQL cannot be set.
        store.database.now_ms = lambda _: clock.now_ms()  # type: ignore[method-assign, assignment]
        self._epochs = dict(self._evaluations.acquire(name, [MODEL]))
        self._panes = ClosedPanes(KEPT_MS, lambda _: POLICY)
        self.watcher = watcher(stream, self._panes, **settings)
        self.alarms = Alarms(store.database, rolls_back)
        self.findings: Findings = {}

    def evaluate(self, meanwhile: Callable[[], object] = lambda: None) -> ModelEvidence:
        """Add what was published, and save it with what becomes of alerts; ``meanwhile`` is between the two."""
        read_closings(self._stream.store, self._panes)
        watched = self.watcher.update(self._epochs)
        evidence, self.findings = watched.evidence[MODEL], watched.findings
        meanwhile()
        evaluation = Evaluation(MODEL, 1, b"summary", b"reports", evidence=evidence.states)
        with self._evaluations.saving(self.name, self._epochs) as (connection, held):
            self._evaluations.save(connection, held, [evaluation], {})
            self.alarms.save(connection, held, self.findings)
        return evidence

    def leave(self) -> None:
        """Give the lease up."""
        self._evaluations.release(self.name, self._epochs)

    def listed(self) -> list[tuple[str, str, str | None]]:
        """Kind, state and end of the alerts that fired, the oldest first."""
        return [
            (alert.finding.kind, alert.state.value, alert.reason and alert.reason.value)
            for alert in reversed(self.alerts.alerts())
            if alert.firing_ms is not None
        ]


def watcher(
    stream: Stream,
    panes: ClosedPanes,
    *,
    plan: WatchPlan = PLAN,
    detectors: Mapping[str, float] = DETECTORS,
) -> Watcher:
    """As the service makes it."""
    maps = ServedMaps(panes, stream.store)
    return Watcher(
        panes,
        stream.store,
        per_year=1.0,
        plan=lambda _: plan,
        maps=maps,
        shocks=Shocks(panes, [], lambda _: plan.tolerance, clock=ManualClock()),
        explainer=Explainer(Attribution(panes, maps.serve), lambda _: plan.tolerance, maps.explain),
        detectors=detectors,
    )


def promote(store: SqlStore, chosen: RecalibrationMap | None, number: int, clock: ManualClock) -> Champion:
    """Let a map serve; None: one that cannot be read."""
    refits = RecalibrationStore(store.database)
    champions = {(one.model, one.version): one.map_id for one in refits.champions()}
    refits.add_job(queued(number))
    claimed = refits.claim_job("w", lease_ms=LEASE_MS)
    assert claimed is not None
    ended = replace(claimed, state=JobState.CANDIDATE, comparison={}, baseline=champions.get((MODEL, VERSION)))
    refits.finish_job(
        ended, "w", stored_map(claimed.id, b"" if chosen is None else to_bytes(chosen, {})), {}, promote=False
    )
    return refits.promote(claimed.id, actor="ada", now_ms=clock.now_ms(), note="")
