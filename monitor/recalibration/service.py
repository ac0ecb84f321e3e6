"""The recalibration service: request refits, promote and roll back maps, and apply the map that serves."""

import hashlib
import json
import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from numpy.typing import ArrayLike

from monitor.clock import Clock, SystemClock
from monitor.errors import Conflict
from monitor.maps import check_options, choose_method
from monitor.recalibration.plan import RefitPlan, next_slot_ms
from monitor.recalibration.serving import Applied, Serving
from monitor.store.recalibration_store import RecalibrationStore
from monitor.store.recalibrations import UNDER_WAY, AuditEntry, Champion, Job, JobState, Order, StoredMap

Live = Callable[[str, str], Mapping[str, Any] | None]


class Recalibrations:
    """Recalibration, as REST, the pages and the schedules use it. Any thread.

    Methods raise what :class:`RecalibrationStore` raises.

    Parameters
    ----------
    store
        Refits and maps.
    versions
        (model, version or None) -> that version, or the current one. Raises UnknownSeries.
    models
        Returns the names of all models, declared or with events.
    plan
        Model -> the plan of its refits.
    serving
        Cache of the maps that serve.
    live
        (model, version) -> the live document, or None.
    wake
        Called when a refit was queued, so that a runner need not wait for its next poll.
    clock
        The clock.
    """

    def __init__(
        self,
        store: RecalibrationStore,
        *,
        versions: Callable[[str, str | None], str],
        models: Callable[[], Collection[str]] = tuple,
        plan: Callable[[str], RefitPlan] | None = None,
        serving: Serving | None = None,
        live: Live | None = None,
        wake: Callable[[], None] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._store = store
        self._versions = versions
        self._models = models
        self._plan = plan or (lambda _: RefitPlan())
        self._clock = clock or SystemClock()
        self._serving = serving or Serving(store, clock=self._clock)
        self._live = live
        self._wake = wake

    def order(
        self,
        model: str,
        version: str | None = None,
        *,
        method: str | None = None,
        options: Mapping[str, Any] | None = None,
        window_ms: int | None = None,
        promote: bool | None = None,
        trigger: str = "request",
    ) -> Order:
        """Make an order; arguments that are None are taken from the model's plan.

        Options of the plan belong to the plan's method and are not used with another one. A given option wins over
        the plan's.

        Raises
        ------
        InputError
            The method or an option is wrong.
        UnknownSeries
            There is no such model or version.
        """
        version, plan = self.version_of(model, version), self._plan(model)
        chosen = choose_method(plan.method if method is None else method)
        defaults = plan.options if chosen.name == plan.method else {}
        return Order(
            model=model,
            version=version,
            method=chosen.name,
            options=check_options(chosen, {**defaults, **(options or {})}),
            window_ms=plan.window_ms if window_ms is None else window_ms,
            promote=plan.automatic if promote is None else promote,
            trigger=trigger,
        )

    def request(
        self,
        order: Order,
        *,
        actor: str,
        idempotency_key: str | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> tuple[Job, bool]:
        """Queue a refit; return it and True, or the refit of an equal earlier request and False.

        Parameters
        ----------
        body
            What must be equal in requests with the same key, as JSON; the order, if left out.

        Raises
        ------
        InputError
            The method or an option is wrong.
        UnknownSeries
            There is no such model or version.
        Conflict
            Another refit of the model is under way, or the key was used for another request.
        """
        # The key is per model: two clients that number their requests alike do not get each other's refits.
        key = None if idempotency_key is None else f"request {order.model} {idempotency_key}"
        return self._queue(order, actor, key, _fingerprint(asdict(order) if body is None else body))

    def request_once(self, order: Order, *, actor: str, occasion: str) -> tuple[Job, bool]:
        """Queue one refit per occasion, such as a slot of a schedule, however many replicas request it.

        Raises as :meth:`request`; the first order of an occasion wins.
        """
        return self._queue(order, actor, f"{order.trigger} {order.model} {occasion}", "")

    def version_of(self, model: str, version: str | None) -> str:
        """Return the version if it exists, or the current one if it is None. Raises UnknownSeries."""
        return self._versions(model, version)

    def job(self, job_id: str) -> Job:
        """Return one refit."""
        return self._store.job(job_id)

    def jobs(self, models: str | Collection[str] | None, *, before: str | None, limit: int) -> Sequence[Job]:
        """Return refits of a model, of several or of all, newest first, without their comparisons."""
        return self._store.jobs(models, before=before, limit=limit, comparisons=False)

    def promotable(self, jobs: Collection[Job]) -> set[str]:
        """Return the ids of the refits that :meth:`promote` accepts now."""
        candidates = [job.id for job in jobs if job.state is JobState.CANDIDATE]
        return self._store.promotable(candidates) if candidates else set()

    def with_map(self, jobs: Collection[Job]) -> set[str]:
        """Return the ids of the refits whose map is stored."""
        ended = [job.id for job in jobs if job.state not in {*UNDER_WAY, JobState.FAILED}]
        return self._store.with_map(ended) if ended else set()

    def artifact(self, map_id: str) -> StoredMap:
        """Return one map."""
        return self._store.artifact(map_id)

    def figure(self, job_id: str, name: str) -> bytes:
        """Return one figure (SVG)."""
        return self._store.figure(job_id, name)

    def champion(self, model: str, version: str) -> Champion:
        """Return what serves; ``map_id`` is None and ``revision`` 0 if no map was ever promoted."""
        return self._serving.champion(model, version)

    def promote(self, job_id: str, *, actor: str, note: str) -> Champion:
        """Let the map of a candidate serve. A refusal (Conflict) is audited."""
        try:
            champion = self._store.promote(job_id, actor=actor, now_ms=self._clock.now_ms(), note=note)
        except Conflict as error:
            order = self._store.job(job_id).order
            self._audit_refusal(actor, order.model, order.version, job_id, note=note, error=error)
            raise
        self._serving.refresh()
        return champion

    def roll_back(self, model: str, version: str, *, actor: str, note: str) -> Champion:
        """Let the map serve that served before. A refusal (Conflict) is audited."""
        try:
            champion = self._store.roll_back(model, version, actor=actor, now_ms=self._clock.now_ms(), note=note)
        except Conflict as error:
            self._audit_refusal(actor, model, version, "", note=note, error=error)
            raise
        self._serving.refresh()
        return champion

    def apply(
        self,
        model: str,
        version: str,
        prediction: ArrayLike,
        *,
        features: ArrayLike | None = None,
        segments: Mapping[str, ArrayLike] | None = None,
    ) -> Applied:
        """Recalibrate predictions with the map that serves. Raises as :meth:`Serving.apply`."""
        return self._serving.apply(model, version, prediction, features=features, segments=segments)

    def live(self, model: str, version: str) -> Mapping[str, Any] | None:
        """Return the live document (docs/recalibration.md, "live"), or None if there is none."""
        return None if self._live is None else self._live(model, version)

    def schedules(self) -> Mapping[str, Mapping[str, Any]]:
        """Return each model's plan, with ``next``: milliseconds since the epoch, or None."""
        now_ms = self._clock.now_ms()
        schedules: dict[str, Mapping[str, Any]] = {}
        for model in sorted(self._models()):
            plan = asdict(self._plan(model))
            promotion = "automatic" if plan.pop("automatic") else "manual"
            schedules[model] = {
                **plan,
                "promotion": promotion,
                "next": None if plan["schedule"] is None else next_slot_ms(plan["schedule"], now_ms),
            }
        return schedules

    def audit(self, *, after: int, limit: int, model: str | None) -> Sequence[AuditEntry]:
        """Return entries of the audit trail with a number greater than ``after``, ascending."""
        return self._store.audit(after=after, limit=limit, model=model)

    def _queue(self, order: Order, actor: str, key: str | None, fingerprint: str) -> tuple[Job, bool]:
        method = choose_method(order.method)
        check_options(method, order.options)
        self.version_of(order.model, order.version)
        job = Job(
            # Random: ids can neither be guessed nor counted.
            id=f"rc_{secrets.token_hex(8)}",
            order=order,
            state=JobState.QUEUED,
            requested_ms=self._clock.now_ms(),
            actor=actor,
        )
        queued, is_new = self._store.add_job(job, idempotency_key=key, fingerprint=fingerprint)
        if is_new and self._wake is not None:
            self._wake()
        return queued, is_new

    def _audit_refusal(self, actor: str, model: str, version: str, subject: str, *, note: str, error: Conflict) -> None:
        detail = {"note": note, "reason": str(error)}
        self._store.add_audit(AuditEntry(0, self._clock.now_ms(), actor, "refused", model, version, subject, detail))


def _fingerprint(body: Mapping[str, Any]) -> str:
    """Return a hash that is equal for equal requests."""
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
