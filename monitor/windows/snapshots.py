"""The latest snapshot of all replicas together, and what of it is saved."""

import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import structlog

from monitor.clock import Clock
from monitor.errors import IncompatibleStore, StoreUnavailable
from monitor.outage_log import Outage
from monitor.store.evaluations import (
    EvaluatedMoment,
    Evaluation,
    EvaluationState,
    EvaluationStore,
    StoredMoment,
)
from monitor.store.model_evidence import ModelEvidence
from monitor.windows.evidence_history import evidence_points
from monitor.windows.history import points_of
from monitor.windows.leases import Leases
from monitor.windows.snapshot import (
    ModelSnapshot,
    Snapshot,
    decode_reports,
    decode_summary,
    encode_reports,
    encode_summary,
)

READ_SECONDS: Final = 2.0

_log = structlog.get_logger(__name__)


class Changes(NamedTuple):
    """The part of a snapshot that the store does not have yet."""

    evaluations: Sequence[Evaluation]
    """Evaluations of models whose content has changed."""
    same: Mapping[str, int]
    """Model -> time of its evaluation, where nothing else has changed."""


class _Known(NamedTuple):
    """The evaluation of a model as it is known from the store."""

    part: ModelSnapshot
    number: int
    """Number of the stored evaluation; negative for one that was evaluated here."""
    reports_number: int


class SharedSnapshots:
    """The snapshots of all replicas, merged: one's own once they are saved, those of others from the store.

    All methods may be called from any thread.

    Parameters
    ----------
    store
        Keeps the latest evaluation of each model.
    leases
        Say which models are evaluated here.
    windows
        Names of the declared windows: reports on others, of earlier settings, are not shown.
    clock
        Measures outages for the log.
    """

    def __init__(self, store: EvaluationStore, leases: Leases, windows: Collection[str], *, clock: Clock) -> None:
        self.latest = Snapshot()
        """The latest snapshot of all models, from all replicas."""
        self._store = store
        self._windows = windows
        self._leases = leases
        self._own = Snapshot()
        self._known: dict[str, _Known] = {}
        self._exported = Snapshot()
        self._exported_of: tuple[Snapshot, frozenset[str]] = (self._exported, frozenset())
        self._unreadable: dict[str, str] = {}
        self._merging = threading.Lock()
        self._outage = Outage(_log, "evaluations are not read", "evaluations are read again", clock)
        self.was_read = False
        """Whether the store was read since this process started."""

    def remove(self, models: Collection[str]) -> None:
        """Show the evaluation of models that have stopped no more, after the next :meth:`read`.

        Raises
        ------
        StoreUnavailable
            The database does not answer; call again.
        """
        shown = [model for model in models if model in self._known]
        if shown:
            self._leases.remove(shown)

    def changes(self, snapshot: Snapshot) -> Changes:
        """What has to be saved of a snapshot of this process. One thread calls this and :meth:`publish`."""
        changed, same = [], {}
        for model, part in snapshot.models.items():
            before = self._known.get(model)
            known = before.part if before is not None and before.part.epoch == part.epoch else None
            same_reports = known is not None and part.same_reports(known)
            if known is not None and same_reports and part.same_summary(known):
                same[model] = part.evaluated_ms
                continue
            new = [
                report for key, report in part.reports.items() if known is None or report is not known.reports.get(key)
            ]
            changed.append(
                Evaluation(
                    model,
                    part.evaluated_ms,
                    encode_summary(part),
                    None if same_reports else encode_reports(part.reports.values()),
                    points_of(new),
                    [one for one in part.evidence.states if known is None or one not in known.evidence.states],
                    evidence_points(part.evidence, ModelEvidence() if known is None else known.evidence),
                    EvaluatedMoment(part.watermark_ms, part.edge_ms, part.current_version, part.evaluated_ms),
                )
            )
        return Changes(changed, same)

    def publish(self, snapshot: Snapshot, saved: Collection[str]) -> None:
        """Show the models of a snapshot of this process that are saved. Others show them after their :meth:`read`."""
        with self._merging:
            self._own = snapshot
            self._known |= {model: _Known(snapshot.models[model], -1, -1) for model in saved}
            self._merge()

    def moments(self, model: str, at_ms: int) -> tuple[StoredMoment | None, StoredMoment | None]:
        """The last moment of a model up to a watermark, and the first after it, whichever replica evaluated it.

        Raises
        ------
        StoreUnavailable
            The database does not answer.
        """
        return self._store.moments(model, at_ms)

    def exported(self) -> Snapshot:
        """The part of the latest snapshot that this process exports: models whose lease has not ended.

        It is the same object as long as it holds the same.
        """
        with self._merging:
            latest, held = self.latest, frozenset(self._leases.held())
            before, before_held = self._exported_of
            if before is not latest or before_held != held:
                self._exported_of = latest, held
                self._exported = self._with({model: part for model, part in latest.models.items() if model in held})
            return self._exported

    def read(self) -> None:
        """Read what others have saved. Call it every READ_SECONDS."""
        try:
            self._read()
        except StoreUnavailable as error:
            self._outage.failed(error)
        else:
            self._outage.over()
            self.was_read = True

    def _read(self) -> None:
        states = self._store.states()
        with self._merging:
            mine = self._mine()
        others = {model: state for model, state in states.items() if model not in mine and state.number}
        news: dict[str, _Known] = {}
        stale = {model: state for model, state in others.items() if self._is_news(model, state)}
        numbers = {model: self._known[model].reports_number if model in self._known else -1 for model in stale}
        for evaluation, number, reports_number in self._store.read(numbers):
            known = self._known.get(evaluation.model)
            try:
                if evaluation.reports is not None:
                    stored = decode_reports(evaluation.reports)
                    reports = {key: report for key, report in stored.items() if key.window in self._windows}
                elif known is not None:
                    reports = dict(known.part.reports)
                else:
                    continue
                part = decode_summary(evaluation.summary, evaluation.evaluated_ms, reports)
            except IncompatibleStore as error:
                self._log_unreadable(evaluation.model, error)
                continue
            self._unreadable.pop(evaluation.model, None)
            news[evaluation.model] = _Known(part, number, reports_number)
        with self._merging:
            # What was evaluated here meanwhile is newer.
            mine = self._mine()
            self._known |= {model: known for model, known in news.items() if model not in mine}
            for model, state in others.items():
                known = self._known.get(model)
                if known is not None and known.number == state.number:
                    part = replace(known.part, evaluated_ms=state.evaluated_ms)
                    self._known[model] = known._replace(part=part)
            for model in self._known.keys() - states.keys() - mine:
                del self._known[model]
            self._merge()

    def _is_news(self, model: str, state: EvaluationState) -> bool:
        known = self._known.get(model)
        return known is None or known.number != state.number

    def _merge(self) -> None:
        merged = self._with({model: known.part for model, known in self._known.items()})
        if not merged.number and merged.models:
            # Nothing was evaluated here; what is shown is as old as the newest of it.
            number = max(known.number for known in self._known.values())
            newest_ms = max(part.evaluated_ms for part in merged.models.values())
            merged = replace(merged, number=number, evaluated_ms=newest_ms)
        self.latest = merged

    def _with(self, models: Mapping[str, ModelSnapshot]) -> Snapshot:
        """The snapshot of this process with these models in place of its own; the very same where they are."""
        own = self._own
        if models.keys() == own.models.keys() and all(part is own.models[model] for model, part in models.items()):
            return own
        return replace(own, models=dict(sorted(models.items())))

    def _mine(self) -> set[str]:
        """Models that were evaluated here under the lease that this replica still seems to have."""
        epochs = self._leases.epochs
        return {model for model, known in self._known.items() if epochs.get(model) == known.part.epoch}

    def _log_unreadable(self, model: str, error: IncompatibleStore) -> None:
        if self._unreadable.get(model) != str(error):
            self._unreadable[model] = str(error)
            _log.warning("the evaluation of a model is not shown here", model=model, detail=str(error))
