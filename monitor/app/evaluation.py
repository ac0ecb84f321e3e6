"""The evaluation of a replica: what happens every few seconds, from closings to what the service shows."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import structlog

from monitor.alarms.alarms import Alarms, Findings, Key
from monitor.alarms.watcher import Watcher
from monitor.clock import Clock
from monitor.errors import StoreUnavailable
from monitor.outage_log import Outage
from monitor.store.alert import Alert
from monitor.store.evaluations import EvaluationStore
from monitor.store.sql import SqlStore
from monitor.tracing import span
from monitor.windows.evaluator import Evaluator
from monitor.windows.leases import Leases
from monitor.windows.panes import ClosedPanes, read_closings
from monitor.windows.snapshot import Snapshot
from monitor.windows.snapshots import SharedSnapshots

_WAIT_SECONDS: Final = 0.05
"""A clock's sleep cannot be cut short, so waiting is cut into pieces: `stop` takes effect after at most one."""

_PROMPT_SECONDS: Final = 2.0
"""How long values wait for their intervals. Most installations renew all in that time, and save once."""

_log = structlog.get_logger(__name__)


@dataclass(kw_only=True)
class Evaluation:
    """Evaluates the models whose lease this replica has. One thread calls :meth:`run`.

    What is shown was saved: an evaluation that cannot be saved is not published, and the next one saves and publishes
    all that came since.

    Attributes
    ----------
    store, panes
        The closings, and the panes that they are added to.
    evaluations
        Saves what was evaluated.
    leases
        Say which models are evaluated here.
    evaluator
        Measures the windows.
    watcher
        Adds up the evidence.
    alarms
        Keep the alerts.
    snapshots
        Show what was evaluated, here and elsewhere.
    clock
        The clock.
    alerts
        (model, version, kind) -> the alert that this kind of finding leads, None where it leads none, as last
        committed; of every finding.
    """

    store: SqlStore
    panes: ClosedPanes
    evaluations: EvaluationStore
    leases: Leases
    evaluator: Evaluator
    watcher: Watcher
    alarms: Alarms
    snapshots: SharedSnapshots
    clock: Clock
    alerts: Mapping[Key, Alert | None] = field(default_factory=dict)
    _one_at_a_time: threading.Lock = field(default_factory=threading.Lock)
    _stopping: threading.Event = field(default_factory=threading.Event)

    def tick(self) -> None:
        """Evaluate once.

        Raises
        ------
        StoreUnavailable
            The database does not answer; call again.
        """
        with self._one_at_a_time, span("evaluation"):
            started = self.clock.monotonic()
            # 1. Read the closings that partitions have published since.
            self.read_closings()
            # 2. Measure the windows of the models whose lease this replica has.
            epochs = self.leases.acquire({series.model for series in self.panes.series()})
            snapshot = self.evaluator.measure(epochs, self.snapshots.latest)
            # 3. Add what was settled to the evidence on them.
            watched = self.watcher.update({model: epochs[model] for model in snapshot.models})
            snapshot = snapshot.with_evidence(watched.evidence, self.clock.monotonic() - started)
            # 4. Renew intervals and levels for a moment: mostly that is all of them.
            snapshot = self.evaluator.renew(snapshot, started, _PROMPT_SECONDS)
            # 5. Save windows, evidence and what becomes of alerts in one transaction, then publish them.
            self._save_and_publish(snapshot, watched.findings)
            # 6. Renew the other intervals and levels in the time that is left, save and publish them.
            renewed = self.evaluator.renew(snapshot, started)
            if renewed is not snapshot and not self._stopping.is_set():
                self._save_and_publish(renewed, {})

    def read_closings(self) -> None:
        """Bring the panes up to what the store holds. Raises StoreUnavailable."""
        # Before the clocks are read: they have all models that were evaluated by then, but those that have stopped.
        shown = self.snapshots.latest.models.keys()
        self.snapshots.remove(shown - read_closings(self.store, self.panes))

    def _save_and_publish(self, snapshot: Snapshot, findings: Findings) -> None:
        epochs = {model: part.epoch for model, part in snapshot.models.items()}
        changes = self.snapshots.changes(snapshot)
        with self.evaluations.saving(self.leases.replica, epochs) as (connection, held):
            self.evaluations.save(connection, held, changes.evaluations, changes.same)
            alerts = self.alarms.save(connection, held, findings)
        # Nothing is known here any more of the alerts of models that another replica evaluates.
        kept = {key: alert for key, alert in self.alerts.items() if key[0] in held and key[0] not in findings}
        self.alerts = kept | alerts
        self.leases.drop(epochs.keys() - held.keys(), epochs)
        self.snapshots.publish(snapshot, held)

    def run(self) -> None:
        """Evaluate at every interval until :meth:`stop`: the body of a thread.

        An evaluation that takes longer than that is followed by the next at once; none is made up for.
        """
        outage = Outage(_log, "windows are not evaluated", "windows are evaluated again", self.clock)
        while not self._stopping.is_set():
            started = self.clock.monotonic()
            try:
                self.tick()
            except StoreUnavailable as error:
                outage.failed(error)
            except Exception:  # noqa: BLE001 - the last snapshot stays until an evaluation succeeds
                self.evaluator.count_failure()
                _log.exception("evaluation failed", evaluation=self.evaluator.evaluations_total)
            else:
                outage.over()
            self._wait_until(started + self.evaluator.interval_seconds)

    def stop(self) -> None:
        """Make :meth:`run` return after the current evaluation."""
        self._stopping.set()

    def _wait_until(self, moment: float) -> None:
        while not self._stopping.is_set() and (left := moment - self.clock.monotonic()) > 0:
            self.clock.sleep(min(left, _WAIT_SECONDS))
