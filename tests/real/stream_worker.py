"""The stream as a process of its own, to be killed and paused: Kafka to a store, until SIGTERM.

It also reads the closings of all partitions as they come, as a replica does that evaluates, adds up the evidence on the
models whose lease it has, keeps their alerts, and writes what it has summed at the end.

``python -m tests.real.stream_worker BOOTSTRAP GROUP STORE_URL SUFFIX RESULT_FILE [REGISTRY_URL]``; with a registry, the
topics are of Avro.
"""

import hashlib
import json
import math
import os
import secrets
import signal
import sys
import threading
import traceback
from collections.abc import Collection, Mapping
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from monitor.alarms.alarms import Alarms
from monitor.alarms.attribution import Attribution
from monitor.alarms.findings import Explainer
from monitor.alarms.serving import ServedMaps
from monitor.alarms.shocks import Shocks
from monitor.alarms.watch import WEIGHTS
from monitor.alarms.watcher import Unit, Watcher, WatchPlan
from monitor.clock import SystemClock
from monitor.errors import StoreUnavailable
from monitor.events.codec import Decoder
from monitor.events.formats import load_schema_formats
from monitor.events.formats.base import Format, Rules
from monitor.events.log import Topics
from monitor.events.model import Kind
from monitor.events.schemas import Framed
from monitor.scores import GridTable
from monitor.sequential.calibration import TOLERANCE
from monitor.sources.kafka import KafkaSource
from monitor.sources.kafka_connection import KafkaConnection
from monitor.sources.schema_registry import RegistrySettings, SchemaRegistry
from monitor.store.evaluations import Evaluation, EvaluationStore
from monitor.store.sql import SqlStore
from monitor.stream.partition import PartitionSettings
from monitor.stream.pipeline import DeadLetterSettings, Pipeline, PipelineSettings
from monitor.stream.sampling import SampleSettings
from monitor.windows.leases import Leases
from monitor.windows.panes import ClosedPanes, read_closings
from tests.real.mixed_log import (
    CLASSES,
    OF_CLASSES,
    OUTCOMES,
    PREDICTIONS,
    SAMPLE_CAPACITY,
    SAMPLE_SPAN_MS,
    SLIDE_MS,
    policy_of,
)

DAY_MS: Final = 86_400_000
WIDE_MS: Final = 5 * SLIDE_MS
KEPT_MS: Final = {SLIDE_MS: DAY_MS // 72, WIDE_MS: DAY_MS}
"""Panes of a minute become panes of five when they are twenty minutes old."""
SESSION_SECONDS: Final = 6.0
"""A member that was killed must not hold its partitions for long."""
SPANS: Final = 24
SAMPLES: Final = SampleSettings(
    size=lambda _: SPANS * SAMPLE_CAPACITY, span_ms=SAMPLE_SPAN_MS, kept_ms=SPANS * SAMPLE_SPAN_MS
)
"""So that each span keeps as many as the expectation of the log has."""
PARTITIONS: Final = PartitionSettings(policy=policy_of, kept_ms=KEPT_MS, unsettled_cells=True, samples=SAMPLES)
NEVER_FIRES: Final = "fraud"
READY: Final = "SIGTERM ends this in order"
_READ_SECONDS: Final = 2.0


def topics(suffix: str) -> dict[str, Kind | None]:
    """The two topics of a log, with the types of their events."""
    return {f"{PREDICTIONS}-{suffix}": Kind.PREDICTION, f"{OUTCOMES}-{suffix}": Kind.OUTCOME}


def pipeline(
    bootstrap: str,
    group: str,
    store: SqlStore,
    kinds: dict[str, Kind | None],
    checkpoint_seconds: float = 0.5,
    *,
    partitions: PartitionSettings = PARTITIONS,
    registry: str | None = None,
) -> Pipeline:
    """A pipeline that keeps every pane of the log, and its samples; of events in Avro where a registry is named."""
    formats: dict[str, Format] = {}
    if registry is not None:
        avro = load_schema_formats()["avro"](
            Framed(SchemaRegistry(RegistrySettings(url=registry, cache=None), clock=SystemClock())), None
        )
        formats = dict.fromkeys(kinds, avro)
    source = KafkaSource(
        KafkaConnection((bootstrap,)),
        Topics(kinds),
        group_id=group,
        session_timeout_seconds=SESSION_SECONDS,
        clock=SystemClock(),
    )
    return Pipeline(
        source,
        store,
        Decoder(Rules(classes={OF_CLASSES: len(CLASSES)}), formats),
        partitions=partitions,
        settings=PipelineSettings(checkpoint_interval=timedelta(seconds=checkpoint_seconds)),
        dead_letters=DeadLetterSettings(),
        kinds=kinds,
        clock=SystemClock(),
    )


def digest(table: GridTable) -> str:
    """A short name for the content of a table."""
    return hashlib.sha256(table.cell.tobytes() + table.values.tobytes()).hexdigest()


def summary(panes: ClosedPanes) -> dict[str, Any]:
    """The settled edge of each model, and the content of each settled pane of each series and width that is kept."""
    models = {series.model for series in panes.series()}
    digests: dict[str, str] = {}
    for series in panes.series():
        edge_ms = panes.edge_ms(series.model)
        for slide_ms in KEPT_MS:
            kept_from_ms = panes.kept_from_ms(series, slide_ms)
            for start_ms, _, _ in panes.counts(series, slide_ms, kept_from_ms, edge_ms - slide_ms + 1):
                table = panes.sum(series, slide_ms, start_ms, start_ms + slide_ms)
                digests[f"{slide_ms} {start_ms} {'/'.join(series)}"] = digest(table)
    return {"edges": {model: panes.edge_ms(model) for model in sorted(models)}, "panes": digests}


def open_store(url: str) -> SqlStore:
    """Open a store as soon as it answers."""
    while True:
        try:
            return SqlStore.open(url, clock=SystemClock())
        except StoreUnavailable:
            threading.Event().wait(0.5)


class Evidence:
    """The evidence on the models that this process evaluates, and their alerts, saved under their leases."""

    def __init__(self, store: SqlStore, panes: ClosedPanes) -> None:
        self._evaluations = EvaluationStore(store.database, lease_ms=round(1000 * SESSION_SECONDS))
        self._leases = Leases(
            self._evaluations, f"{os.getpid()}-{secrets.token_hex(4)}", ["evaluate"], clock=SystemClock()
        )
        self._watcher = FixedLines(store, panes)
        self._alarms = Alarms(store.database, lambda _: False)
        self._panes = panes

    def update(self) -> None:
        """Add what was settled since, of the models of this process."""
        self._leases.beat()
        epochs = self._leases.acquire({series.model for series in self._panes.series()})
        watched = self._watcher.update(epochs)
        new = [Evaluation(model, 0, b"", None, evidence=one.states) for model, one in watched.evidence.items()]
        with self._evaluations.saving(self._leases.replica, epochs) as (connection, held):
            self._evaluations.save(connection, held, new, {})
            self._alarms.save(connection, held, watched.findings)
        self._leases.drop(epochs.keys() - held.keys(), epochs)

    def leave(self) -> None:
        """Let other processes go on at once."""
        self._leases.leave()


def make_explainer(store: SqlStore, panes: ClosedPanes) -> Explainer:
    """What makes findings of evidence."""
    maps = ServedMaps(panes, store)
    return Explainer(Attribution(panes, maps.serve), lambda _: TOLERANCE, maps.explain)


def lines_of(model: str) -> dict[str, float]:
    """The lines of every version of a model. The log is far from calibrated: its models fire, but for one."""
    return dict.fromkeys(WEIGHTS, math.inf if model == NEVER_FIRES else 1e6)


class FixedLines(Watcher):
    """A watcher whose lines do not depend on the order in which models are found."""

    def __init__(self, store: SqlStore, panes: ClosedPanes) -> None:
        super().__init__(
            panes,
            store,
            per_year=1.0,
            plan=lambda _: WatchPlan(TOLERANCE),
            maps=ServedMaps(panes, store),
            shocks=Shocks(panes, [], lambda _: TOLERANCE, clock=SystemClock()),
            explainer=make_explainer(store, panes),
        )

    def _lines(self, with_steps: Collection[Unit], with_map: Collection[Unit]) -> Mapping[Unit, Mapping[str, float]]:  # type: ignore[override]
        del with_steps, with_map
        return {(key.model, key.version): lines_of(key.model) for key in self._panes.series()}


def main() -> None:
    """Run until SIGTERM."""
    bootstrap, group, store_url, suffix, result, *registry = sys.argv[1:]
    stopping = threading.Event()
    panes = ClosedPanes(KEPT_MS, policy_of)
    with open_store(store_url) as store:
        runs = pipeline(bootstrap, group, store, topics(suffix), registry=registry[0] if registry else None)
        evidence = Evidence(store, panes)

        def read() -> None:
            try:
                while not stopping.wait(_READ_SECONDS):
                    with suppress(StoreUnavailable):
                        read_closings(store, panes)
                        evidence.update()
                evidence.leave()
            except Exception:  # noqa: BLE001 - the process ends, which the test sees, with the cause in its log
                traceback.print_exc()
                os._exit(1)

        signal.signal(signal.SIGTERM, lambda *_: runs.stop())
        print(READY, flush=True)
        reader = threading.Thread(target=read)
        reader.start()
        runs.run()
        stopping.set()
        reader.join()
        read_closings(store, panes)
    found = {"phase": runs.status.phase, "detail": runs.status.detail, **summary(panes)}
    Path(result).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
