"""Evaluations in tests: of a process that evaluates alone, and of replicas that share a store."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from monitor.alarms.alarms import Alarms, Findings
from monitor.alarms.watcher import Watched
from monitor.app.evaluation import Evaluation
from monitor.clock import Clock
from monitor.store.evaluations import Evaluation as StoredEvaluation
from monitor.store.evaluations import EvaluationStore, StoredMoment
from monitor.store.model_evidence import ModelEvidence
from monitor.store.sql import SqlStore
from monitor.windows.evaluator import Evaluator
from monitor.windows.leases import Leases
from monitor.windows.panes import ClosedPanes
from monitor.windows.reports import Reports
from monitor.windows.snapshot import Snapshot
from monitor.windows.snapshots import SharedSnapshots
from monitor.windows.windows import Window


def save(
    store: EvaluationStore,
    replica: str,
    epochs: Mapping[str, int],
    evaluations: Sequence[StoredEvaluation],
    same: Mapping[str, int] = {},
) -> Collection[str]:
    """Save evaluations under leases; returns the models whose lease is not held."""
    with store.saving(replica, epochs) as (connection, held):
        store.save(connection, held, evaluations, same)
    return epochs.keys() - held.keys()


class Shown:
    """A snapshot that is shown, of which no moments are stored."""

    def __init__(self) -> None:
        self.latest = Snapshot()

    def moments(self, model: str, at_ms: int) -> tuple[StoredMoment | None, StoredMoment | None]:
        """None is known."""
        del model, at_ms
        return None, None


class Alone(Reports):
    """Evaluates all models alone, and answers from what it evaluated; has the counts of its evaluator."""

    def __init__(self, panes: ClosedPanes, windows: Sequence[Window], **settings: Any) -> None:
        self._alone, self._shown, self._clock = Evaluator(panes, windows, **settings), Shown(), settings["clock"]
        super().__init__(panes, self._alone, self._shown)  # type: ignore[arg-type]

    def evaluate(self, evidence: Mapping[str, ModelEvidence] = {}) -> Snapshot:
        """Evaluate once."""
        started = self._clock.monotonic()
        epochs = dict.fromkeys({series.model for series in self._panes.series()}, 0)
        measured = self._alone.measure(epochs, self._shown.latest)
        self._shown.latest = measured.with_evidence(evidence, measured.duration_seconds)
        self._shown.latest = self._alone.renew(self._shown.latest, started)
        return self._shown.latest

    def __getattr__(self, name: str) -> Any:
        return getattr(self._alone, name)


class Script:
    """A watcher whose findings a test sets."""

    def __init__(self) -> None:
        self.findings: Findings = {}

    def update(self, epochs: Mapping[str, int]) -> Watched:
        """No evidence, and the findings."""
        del epochs
        return Watched({}, self.findings)


class _OfPanes(Evaluation):
    def read_closings(self) -> None:
        """The panes hold all there is."""


class Sharing(Reports):
    """A replica that evaluates the windows of panes, saves them in a store, and answers from it."""

    def __init__(
        self,
        store: SqlStore,
        panes: ClosedPanes,
        windows: Sequence[Window],
        name: str = "a",
        *,
        clock: Clock,
        of_closings: bool = False,
        evaluations: EvaluationStore | None = None,
        **settings: Any,
    ) -> None:
        evaluations = evaluations or EvaluationStore(store.database)
        self.panes = panes
        self.leases = Leases(evaluations, name, ("evaluate", "serve"), clock=clock)
        self.snapshots = SharedSnapshots(evaluations, self.leases, [window.name for window in windows], clock=clock)
        self.watcher = Script()
        evaluator = Evaluator(panes, windows, clock=clock, **settings)
        self.evaluation = (Evaluation if of_closings else _OfPanes)(
            store=store,
            panes=panes,
            evaluations=evaluations,
            leases=self.leases,
            evaluator=evaluator,
            watcher=self.watcher,  # type: ignore[arg-type]
            alarms=Alarms(store.database, lambda _: False),
            snapshots=self.snapshots,
            clock=clock,
        )
        super().__init__(panes, evaluator, self.snapshots)

    def evaluate(self) -> Snapshot:
        """Renew the leases and evaluate once."""
        self.leases.beat()
        self.evaluation.tick()
        return self.latest
