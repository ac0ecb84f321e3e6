"""Follows the evidence on all versions that are evaluated here, from settled panes."""

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

import numpy as np
import structlog

from monitor.alarms.alarms import Findings
from monitor.alarms.findings import Explainer
from monitor.alarms.serving import SERVING_MAP, ServedMaps, ServedVersion
from monitor.alarms.shocks import Shocks
from monitor.alarms.watch import WEIGHTS, VersionWatch, lines_of
from monitor.errors import StoreUnavailable
from monitor.events.model import ALL, SeriesKey
from monitor.scores.steps import Steps
from monitor.sequential.budget import share_budget
from monitor.sequential.calibration import TOLERANCE
from monitor.store import alerts, evidence
from monitor.store.alert import OPEN, Finding
from monitor.store.base import BACKFILL
from monitor.store.closing import Cells
from monitor.store.evidence import StoredEvidence
from monitor.store.model_evidence import ModelEvidence, VersionEvidence
from monitor.store.servings import Serving
from monitor.store.sql import SqlStore
from monitor.windows.panes import ClosedPanes, steps_of

_NEVER: Final = -1
_BEGAN: Final = "began"
_GONE: Final = "closings that it was computed from are gone, as no window needs them"

Unit = tuple[str, str]
"""Model and version."""

_log = structlog.get_logger(__name__)


class WatchPlan(NamedTuple):
    """How a model is watched."""

    tolerance: float = TOLERANCE
    """Error of its logits up to which nothing is called a fault."""
    weight: float = 1.0
    """Weight of each of its versions in the sharing of the budget."""
    within_horizon: bool = False
    """Whether its outcomes may depend on each other within a horizon."""


class Watched(NamedTuple):
    """The evidence on models, and what it amounts to."""

    evidence: Mapping[str, ModelEvidence]
    findings: Findings


class Watcher:
    """Adds the panes that were settled since the last time to the evidence of every version. One thread calls it.

    Evidence depends on the panes alone: not on when and where they are added, nor on how many at a time.

    Parameters
    ----------
    panes, store
        Of all partitions. What the panes hold no longer is read from the store.
    per_year
        False alarms a year of all models together.
    plan
        Model -> how it is watched.
    maps
        The maps that serve.
    shocks
        Adds the common shocks to the evidence on a model.
    explainer
        Makes findings of the evidence on a model, and adds what it amounts to.
    detectors
        Weight of each in the sharing of the budget; one of weight 0 is switched off.
    """

    def __init__(
        self,
        panes: ClosedPanes,
        store: SqlStore,
        *,
        per_year: float,
        plan: Callable[[str], WatchPlan],
        maps: ServedMaps,
        shocks: Shocks,
        explainer: Explainer,
        detectors: Mapping[str, float] = {**WEIGHTS, SERVING_MAP: 1.0},
    ) -> None:
        self._panes = panes
        self._store = store
        self._per_year = per_year
        self._plan = plan
        self._maps = maps
        self._shocks = shocks
        self._explainer = explainer
        self._detectors = detectors
        self._models: dict[str, _Model] = {}
        self._failures: dict[str, str] = {}

    def update(self, epochs: Mapping[str, int]) -> Watched:
        """Add what was settled since; returns the evidence on each of these models, and what it amounts to.

        Parameters
        ----------
        epochs
            Model -> epoch of its lease. Under a new one, evidence goes on from the store.

        Raises
        ------
        StoreUnavailable
            The database does not answer; call again.
        """
        for model in self._models.keys() - epochs.keys():
            del self._models[model]
        new = [model for model, epoch in epochs.items() if self._epoch(model) != epoch]
        self._models.update(self._load(new, epochs))
        new_steps: dict[str, tuple[Mapping[SeriesKey, Steps], int]] = {}
        for model in epochs:
            with self._failing_alone(model):
                self._begin_again(model)
                new_steps[model] = self._steps(model)
        servings = self._maps.refresh(epochs)
        with_steps = {(key.model, key.version) for steps, _ in new_steps.values() for key in steps}
        lines = self._lines(with_steps, {unit for unit, serving in servings.items() if serving.map_id is not None})
        found: dict[str, ModelEvidence] = {}
        findings: dict[str, Sequence[Finding]] = {}
        for model, (steps, to_ms) in new_steps.items():
            with self._failing_alone(model):
                known = self._models[model].update(steps, to_ms, lines, servings, self._panes.narrowest_ms)
                findings[model], found[model] = self._explainer.findings(model, self._shocks.add(model, known))
        # What works again, or is evaluated elsewhere, is logged anew if it fails again.
        self._failures = {model: why for model, why in self._failures.items() if model in epochs.keys() - found.keys()}
        return Watched(found, findings)

    @contextmanager
    def _failing_alone(self, model: str) -> Iterator[None]:
        """One model never stops the others. What was added in part is added again, to what the store holds."""
        try:
            yield
        except StoreUnavailable:
            self._models.pop(model, None)  # what was added in part is added again, to what the store holds
            raise
        except Exception as error:  # noqa: BLE001 - see above
            self._models.pop(model, None)
            reason = (f"{type(error).__name__}: {error}".splitlines() or [""])[0]
            if self._failures.get(model) != reason:  # logged once, not at every evaluation
                self._failures[model] = reason
                _log.error("no evidence on a model", model=model, reason=reason, exc_info=error)

    def _lines(self, with_steps: Collection[Unit], with_map: Collection[Unit]) -> dict[Unit, dict[str, float]]:
        """The evidence at which each detector of a version raises an alarm.

        The share of a version is divided among the detectors that it has. They become more at a promotion and fewer at
        a rollback, where its evidence starts again at 0. Versions that have stopped have no share, except for those
        that come back: ``with_steps``.
        """
        wholes = [(key.model, key.version) for key in self._panes.series() if key.segment == ALL]
        to_ms, forget_ms = evidence.read_ends(self._store.database), self._panes.longest_kept_ms
        for of_model in self._models.values():
            to_ms.update(of_model.ends_ms())
        versions = {
            (model, version): self._plan(model).weight
            for model, version in wholes
            if (model, version) in with_steps
            or self._panes.edge_ms(model) - to_ms.get((model, version), math.inf) <= forget_ms
        }
        shares: dict[Unit, dict[str, float]] = {version: {} for version in versions}
        for has_map in (False, True):
            detectors = {name: one for name, one in self._detectors.items() if has_map or name != SERVING_MAP}
            for (unit, name), share in share_budget(self._per_year, versions, detectors).items():
                if (unit in with_map) is has_map:
                    shares[unit][name] = share
        return {
            unit: lines_of(of_unit, within_horizon=self._plan(unit[0]).within_horizon)
            for unit, of_unit in shares.items()
        }

    def _epoch(self, model: str) -> int:
        known = self._models.get(model)
        return _NEVER if known is None else known.epoch

    def _load(self, models: Collection[str], epochs: Mapping[str, int]) -> dict[str, "_Model"]:
        loaded = {model: self._new(model, epochs[model]) for model in models}
        with self._store.database.reading() as connection:
            current = alerts.read_current(connection, models)
        for model in models:
            of_model = (alert for (name, _), of in current.items() if name == model for alert in of)
            self._explainer.remember(model, (alert.finding for alert in of_model if alert.state in OPEN))
        for stored in evidence.read(self._store.database, models):
            loaded[stored.model].add(stored)
        return loaded

    def _new(self, model: str, epoch: int) -> "_Model":
        return _Model(
            model,
            epoch,
            self._plan(model).tolerance,
            self._maps,
            block_ms=self._block_ms(model),
            forget_ms=self._panes.longest_kept_ms,
        )

    def _begin_again(self, model: str) -> None:
        """Let the evidence on a model begin again with its first pane if there was a backfill since.

        Where closings of the log that it was computed from are gone by now, as no window needs them, it stays.
        """
        known, backfill = self._models[model], self._panes.clock(BACKFILL, model)
        if known.to_ms and known.backfilled_ms != backfill.saved_ms:
            first_ms, began_ms = self._store.first_closing_ms(model), known.began_ms
            if first_ms is not None and began_ms is not None and first_ms >= began_ms:
                _log.warning("evidence does not begin with what was backfilled", model=model, reason=_GONE)
                known.stay(backfill.saved_ms)
                return
            _log.info("evidence begins again with what was backfilled", model=model)
            known = self._models[model] = self._new(model, known.epoch)
        known.backfilled_ms, known.backfilled_to_ms = backfill.saved_ms, backfill.closed_to_ms

    def _block_ms(self, model: str) -> int:
        """The horizon of a model in whole panes."""
        pane_ms = self._panes.narrowest_ms
        return max(-(-self._panes.policy(model).horizon_ms // pane_ms), 1) * pane_ms

    def _steps(self, model: str) -> tuple[Mapping[SeriesKey, Steps], int]:
        """The steps of a model that evidence does not hold, and up to when they reach."""
        from_ms, edge_ms = self._models[model].to_ms, self._panes.edge_ms(model)
        steps = self._panes.steps(model, from_ms)
        if steps is None:
            return self._stored_steps(model, from_ms, edge_ms)
        return steps, edge_ms - edge_ms % self._panes.narrowest_ms

    def _stored_steps(self, model: str, from_ms: int, edge_ms: int) -> tuple[Mapping[SeriesKey, Steps], int]:
        """The same of closings. Of times that windows no longer need, some may have wider panes; then all get them."""
        after_ms = dict.fromkeys(self._store.clocks()[model], from_ms)
        closings = [part for parts in self._store.read_closings(model, after_ms).values() for part in parts]
        width_ms = max((part.pane_ms for part in closings), default=self._panes.narrowest_ms)
        edge_ms -= edge_ms % width_ms
        names = sorted({key for part in closings for key in part.panes.names})
        place = {key: number for number, key in enumerate(names)}
        cells = []
        for part in closings:
            series = np.array([place[key] for key in part.panes.names], np.int64)
            rows = part.panes.cells
            inside = np.flatnonzero((rows.start_ms >= from_ms) & (rows.start_ms < edge_ms))
            rows = rows._replace(series=series[rows.series], start_ms=rows.start_ms - rows.start_ms % width_ms)
            cells.append(rows.take(inside))
        implied = self._panes.policy(model).implied_negative
        return steps_of(Cells.joined(cells), dict(enumerate(names)), width_ms, implied_negatives=implied), edge_ms


class _Began(NamedTuple):
    """State of the closings when the evidence on a version began."""

    backfilled_ms: int
    """Wall-clock time of the last backfill of its model; 0 without one."""
    log_ms: int | None
    """End of its first pane that was not backfilled; None if there was none yet."""


class _Model:
    """The evidence on the versions of a model."""

    def __init__(
        self, name: str, epoch: int, tolerance: float, maps: ServedMaps, *, block_ms: int, forget_ms: int
    ) -> None:
        self.name = name
        self.epoch = epoch
        self.to_ms = 0
        self.backfilled_ms = 0
        """Wall-clock time of the last backfill that it is computed from."""
        self.backfilled_to_ms = _NEVER
        self._tolerance = tolerance
        self._maps = maps
        self._block_ms = block_ms
        self._forget_ms = forget_ms
        self._watches: dict[str, ServedVersion] = {}
        self._states: dict[str, StoredEvidence] = {}
        self._log_ms: dict[str, int] = {}
        """Version -> end of the first pane of it that was not backfilled."""

    def add(self, stored: StoredEvidence) -> None:
        """Continue from what was stored of a version; not if others were stored after a later backfill."""
        state = evidence.decode(stored.state)
        began = _Began(*state[_BEGAN])
        if self._states and began.backfilled_ms < self.backfilled_ms:
            return
        if began.backfilled_ms > self.backfilled_ms:
            self._watches, self._states, self._log_ms, self.to_ms = {}, {}, {}, 0
        self.backfilled_ms = began.backfilled_ms
        if began.log_ms is not None:
            self._log_ms[stored.version] = began.log_ms
        served = ServedVersion.from_state(stored.model, stored.version, stored.to_ms, state)
        served.watch.set(tolerance=self._tolerance, block_ms=self._block_ms, forget_ms=self._forget_ms)
        self._watches[stored.version] = served
        self._states[stored.version] = stored
        self.to_ms = max(self.to_ms, stored.to_ms)

    @property
    def began_ms(self) -> int | None:
        """End of the first pane of the log that is in it; None if there was none."""
        return min(self._log_ms.values(), default=None)

    def stay(self, backfilled_ms: int) -> None:
        """Note that the evidence stays after a backfill."""
        self.backfilled_ms = backfilled_ms
        self._states = {
            version: self._stored(version, self._watches[version], stored.to_ms)
            for version, stored in self._states.items()
        }

    def _stored(self, version: str, served: ServedVersion, to_ms: int) -> StoredEvidence:
        began = _Began(self.backfilled_ms, self._log_ms.get(version))
        return StoredEvidence(self.name, version, to_ms, evidence.encode({**served.state(), _BEGAN: list(began)}))

    def ends_ms(self) -> dict[tuple[str, str], int]:
        """(Model, version) -> end of its evidence."""
        return {(self.name, version): watch.to_ms for version, watch in self._watches.items()}

    def update(
        self,
        steps: Mapping[SeriesKey, Steps],
        to_ms: int,
        lines: Mapping[Unit, Mapping[str, float]],
        servings: Mapping[Unit, Serving],
        pane_ms: int,
    ) -> ModelEvidence:
        """Add steps of the times up to ``to_ms``, on what serves now."""
        to_ms = max(self.to_ms, to_ms)
        by_version: dict[str, dict[str, Steps]] = {}
        for key, of_series in steps.items():
            by_version.setdefault(key.version, {})[key.segment] = of_series
        for version, of_version in by_version.items():
            if version not in self._watches:
                begin_ms = min(int(of_series.end_ms[0]) for of_series in of_version.values()) - 1
                watch = VersionWatch(self.name, version, self._tolerance, begin_ms, self._block_ms, self._forget_ms)
                self._watches[version] = ServedVersion(watch)
            ends_ms = np.concatenate([of_series.end_ms for of_series in of_version.values()])
            of_log = ends_ms[ends_ms > self.backfilled_to_ms]
            if of_log.size and version not in self._log_ms:
                self._log_ms[version] = int(of_log.min())
        for version in [version for version in self._watches if (self.name, version) not in lines]:
            # It has stopped. Its row in the store is removed by the housekeeping.
            del self._watches[version]
            self._states.pop(version, None)
            self._log_ms.pop(version, None)
        for version, served in self._watches.items():
            serving = servings.get((self.name, version))
            restarts, new = serving is not None and served.serve(serving), by_version.get(version)
            restarts |= served.switch_off(lines[self.name, version])
            if new is not None:
                served.update(new, to_ms, lines[self.name, version], pane_ms=pane_ms, serving=serving, maps=self._maps)
            if restarts or new is not None:
                self._states[version] = self._stored(version, served, min(served.to_ms, to_ms))
        self.to_ms = to_ms
        known = {
            version: VersionEvidence(
                served.to_ms,
                served.levels(lines[self.name, version]),
                resting=served.resting,
                revision=served.revision,
            )
            for version, served in self._watches.items()
        }
        states = [self._states[version] for version in sorted(self._states)]
        return ModelEvidence(
            known, states, {version: served.watch.ended_by_settings for version, served in self._watches.items()}
        )
