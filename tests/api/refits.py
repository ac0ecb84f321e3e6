"""Refits in memory, by the rules of the contract: what the routes are tried on where no database is needed."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from numpy.typing import ArrayLike

from monitor.clock import ManualClock
from monitor.errors import Conflict, UnknownRecalibration, UnknownSeries
from monitor.maps import METHODS, RecalibrationMap, apply_map, check_options, choose_method
from monitor.maps.artifact import from_bytes, to_bytes
from monitor.maps.identity import Identity
from monitor.recalibration.contract import Applied
from monitor.store.recalibrations import UNDER_WAY, AuditEntry, Champion, Job, JobState, Order, StoredMap
from tests.snapshots import NOW_MS

COMPARISON: dict[str, Any] = {"guard": {"passed": True, "reasons": ["better on later events"]}, "maps": {}}
FIGURE = b'<svg xmlns="http://www.w3.org/2000/svg"/>'


@dataclass
class Refits:
    """Refits of models, in the order of their requests. ``end`` does what a worker does."""

    versions: dict[str, list[str]] = field(default_factory=lambda: {"churn": ["7", "8"], "org/model": ["1"]})
    clock: ManualClock = field(default_factory=lambda: ManualClock(NOW_MS))
    found: dict[str, Job] = field(default_factory=dict)
    keys: dict[str, tuple[Order, str]] = field(default_factory=dict)
    maps: dict[str, StoredMap] = field(default_factory=dict)
    served: dict[tuple[str, str], list[str | None]] = field(default_factory=dict)
    revisions: dict[tuple[str, str], int] = field(default_factory=dict)
    entries: list[AuditEntry] = field(default_factory=list)
    measured: Mapping[str, Any] | None = None

    def order(
        self,
        model: str,
        version: str | None = None,
        *,
        method: str | None = None,
        options: Mapping[str, Any] | None = None,
        window_ms: int | None = None,
        promote: bool | None = None,
    ) -> Order:
        chosen = choose_method(method or next(iter(METHODS)))
        checked = check_options(chosen, options or {})
        return Order(model, self.version_of(model, version), chosen.name, checked, window_ms, bool(promote))

    def version_of(self, model: str, version: str | None) -> str:
        if model not in self.versions:
            raise UnknownSeries(f"no model {model!r}; models are {', '.join(map(repr, self.versions))}")
        if version is not None and version not in self.versions[model]:
            raise UnknownSeries(f"no version {version!r} of model {model!r}")
        return version or self.versions[model][-1]

    def request(self, order: Order, *, actor: str, idempotency_key: str | None = None) -> tuple[Job, bool]:
        if idempotency_key in self.keys:
            before, job_id = self.keys[idempotency_key]
            if before != order:
                raise Conflict(f"Idempotency-Key {idempotency_key!r} was used for another request, refit {job_id}")
            return self.found[job_id], False
        for job in self.found.values():
            if job.order.model == order.model and job.state in UNDER_WAY:
                raise Conflict(f"refit {job.id} of model {order.model!r} is under way; wait until it has ended")
        job = Job(f"rc_{len(self.found)}", order, JobState.QUEUED, self.clock.now_ms(), actor)
        self.found[job.id] = job
        if idempotency_key is not None:
            self.keys[idempotency_key] = (order, job.id)
        self._note(job, actor, "requested", {})
        return job, True

    def end(
        self, job_id: str, state: JobState = JobState.CANDIDATE, chosen: RecalibrationMap | None = None, **told: Any
    ) -> Job:
        """A worker is done with it."""
        job = self.job(job_id)
        now_ms = self.clock.now_ms()
        baseline = self.champion(job.order.model, job.order.version).map_id
        self.found[job_id] = job = replace(
            job, state=state, started_ms=now_ms, finished_ms=now_ms, progress=1.0, attempts=1, baseline=baseline, **told
        )
        if state is not JobState.FAILED:
            data = to_bytes(
                chosen or Identity(), {"id": job_id, "model": job.order.model, "version": job.order.version}
            )
            self.maps[job_id] = StoredMap(job_id, data, hashlib.sha256(data).hexdigest())
            self.found[job_id] = job = replace(job, comparison=COMPARISON, figures=("reliability",))
        return job

    def job(self, job_id: str) -> Job:
        if job_id not in self.found:
            raise UnknownRecalibration(f"there is no refit {job_id!r}")
        return self.found[job_id]

    def jobs(self, model: str | None, *, before: str | None, limit: int) -> Sequence[Job]:
        newest = [job for job in reversed(self.found.values()) if model in (None, job.order.model)]
        if before is not None:
            self.job(before)
            newest = newest[[job.id for job in newest].index(before) + 1 :]
        return newest[:limit]

    def artifact(self, map_id: str) -> StoredMap:
        if map_id not in self.maps:
            raise UnknownRecalibration(f"refit {self.job(map_id).id} has no map")
        return self.maps[map_id]

    def figure(self, job_id: str, name: str) -> bytes:
        if name not in self.job(job_id).figures:
            raise UnknownRecalibration(f"refit {job_id} has no figure {name!r}")
        return FIGURE

    def champion(self, model: str, version: str) -> Champion:
        key = (model, version)
        return Champion(model, version, self.served.get(key, [None])[-1], NOW_MS, self.revisions.get(key, 0))

    def promote(self, job_id: str, *, actor: str, note: str) -> Champion:
        job = self.job(job_id)
        order = job.order
        serving = self.champion(order.model, order.version).map_id
        if job.state is not JobState.CANDIDATE:
            raise Conflict(f"refit {job_id} is {job.state}, and only a candidate can be promoted")
        if job.baseline != serving:
            raise Conflict(f"refit {job_id} was compared with {job.baseline or 'no map'}, which serves no more")
        if serving is not None:
            self.found[serving] = replace(self.found[serving], state=JobState.RETIRED)
        self.found[job_id] = replace(job, state=JobState.CHAMPION)
        self.served.setdefault((order.model, order.version), [None]).append(job_id)
        return self._changed(job, actor, "promoted", note)

    def roll_back(self, model: str, version: str, *, actor: str, note: str) -> Champion:
        before = self.served.get((model, version), [None])
        if before[-1] is None:
            raise Conflict(f"no map serves {model} {version}, so that there is nothing to take back")
        job = self.job(before.pop() or "")
        self.found[job.id] = replace(job, state=JobState.ROLLED_BACK)
        return self._changed(job, actor, "rolled_back", note)

    def apply(
        self,
        model: str,
        version: str,
        prediction: ArrayLike,
        *,
        features: ArrayLike | None = None,
        segments: Mapping[str, ArrayLike] | None = None,
    ) -> Applied:
        map_id = self.champion(model, version).map_id
        serving = Identity() if map_id is None else from_bytes(self.maps[map_id].artifact).map
        return Applied(apply_map(serving, prediction, features=features, segments=segments).tolist(), map_id)

    def live(self, model: str, version: str) -> Mapping[str, Any] | None:
        return self.measured

    def schedules(self) -> Mapping[str, Mapping[str, Any]]:
        return {"churn": {"schedule": "0 3 * * *", "on_verdict": True, "next": NOW_MS}}

    def audit(self, *, after: int, limit: int, model: str | None) -> Sequence[AuditEntry]:
        entries = [entry for entry in self.entries if entry.number > after and model in (None, entry.model)]
        return entries[:limit]

    def _changed(self, job: Job, actor: str, action: str, note: str) -> Champion:
        key = (job.order.model, job.order.version)
        self.revisions[key] = self.revisions.get(key, 0) + 1
        self._note(job, actor, action, {"note": note})
        return self.champion(*key)

    def _note(self, job: Job, actor: str, action: str, detail: Mapping[str, Any]) -> None:
        number, order = len(self.entries) + 1, job.order
        self.entries.append(
            AuditEntry(number, self.clock.now_ms(), actor, action, order.model, order.version, job.id, detail)
        )
