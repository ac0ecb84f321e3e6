"""The recalibration service: request refits, promote and roll back maps, and apply the map that serves."""

import hashlib
import json
import secrets
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from monitor.clock import Clock
from monitor.errors import Conflict
from monitor.maps import check_options, choose_method
from monitor.recalibration.comparison import LiveComparison
from monitor.recalibration.plan import RefitPlan, next_slot_ms
from monitor.recalibration.serving import ServingMaps
from monitor.store.recalibration_store import RecalibrationStore
from monitor.store.recalibrations import AuditEntry, Champion, Job, JobState, RefitRequest

Live = Callable[[str, str], LiveComparison | None]


class Recalibrations:
    """Recalibration, as REST, the pages and the schedules use it. Any thread.

    Methods raise what :class:`RecalibrationStore` raises. What only reads is in its ``store``, ``serving``, ``live``,
    ``plan`` and ``version_of``.

    Parameters
    ----------
    store
        Refits and maps.
    versions
        (model, version or None) -> that version, or the current one. Raises UnknownSeries.
    plan
        Model -> the plan of its refits.
    serving
        Cache of the maps that serve.
    live
        (model, version) -> its maps on live events, or None.
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
        plan: Callable[[str], RefitPlan],
        serving: ServingMaps,
        live: Live,
        wake: Callable[[], None],
        clock: Clock,
    ) -> None:
        self.store = store
        self.version_of = versions
        self.plan = plan
        self._clock = clock
        self.serving = serving
        self.live = live
        self._wake = wake

    def make_request(
        self,
        model: str,
        version: str | None = None,
        *,
        method: str | None = None,
        options: Mapping[str, Any] | None = None,
        window_ms: int | None = None,
        since_ms: int | None = None,
        promote: bool | None = None,
        trigger: str = "request",
    ) -> RefitRequest:
        """Make a request; arguments that are None are taken from the model's plan.

        Options of the plan belong to the plan's method and are not used with another one. A given option wins over
        the plan's.

        Raises
        ------
        InputError
            The method or an option is wrong.
        UnknownSeries
            There is no such model or version.
        """
        version, plan = self.version_of(model, version), self.plan(model)
        chosen = choose_method(plan.method if method is None else method)
        defaults = plan.options if chosen.name == plan.method else {}
        return RefitRequest(
            model=model,
            version=version,
            method=chosen.name,
            options=check_options(chosen, {**defaults, **(options or {})}),
            window_ms=plan.window_ms if window_ms is None else window_ms,
            promote=plan.automatic if promote is None else promote,
            trigger=trigger,
            since_ms=since_ms,
        )

    def request(
        self,
        request: RefitRequest,
        *,
        actor: str,
        idempotency_key: str | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> tuple[Job, bool]:
        """Queue a refit; return it and True, or the refit of an equal earlier request and False.

        Parameters
        ----------
        body
            What must be equal in requests with the same key, as JSON; the request, if left out.

        Raises
        ------
        Conflict
            Another refit of the model is under way, or the key was used for another request.
        """
        # The key is per model: two clients that number their requests alike do not get each other's refits.
        key = None if idempotency_key is None else f"request {request.model} {idempotency_key}"
        return self._queue(request, actor, key, _fingerprint(asdict(request) if body is None else body))

    def request_once(self, request: RefitRequest, *, actor: str, occasion: str) -> tuple[Job, bool]:
        """Queue one refit per occasion, such as a slot of a schedule, however many replicas request it.

        Raises as :meth:`request`; the first request of an occasion wins.
        """
        return self._queue(request, actor, f"{request.trigger} {request.model} {occasion}", "")

    def promote(self, job_id: str, *, actor: str, note: str) -> Champion:
        """Let the map of a candidate serve. A refusal (Conflict) is audited."""
        try:
            champion = self.store.promote(job_id, actor=actor, now_ms=self._clock.now_ms(), note=note)
        except Conflict as error:
            job = self.store.job(job_id)
            self._audit_refusal(actor, job.model, job.version, job_id, note=note, error=error)
            raise
        self.serving.note_change()
        return champion

    def roll_back(self, model: str, version: str, *, actor: str, note: str) -> Champion:
        """Let the map serve that served before. A refusal (Conflict) is audited."""
        try:
            champion = self.store.roll_back(model, version, actor=actor, now_ms=self._clock.now_ms(), note=note)
        except Conflict as error:
            self._audit_refusal(actor, model, version, "", note=note, error=error)
            raise
        self.serving.note_change()
        return champion

    def next_scheduled_ms(self, model: str) -> int | None:
        """Return when the model's schedule starts the next refit, milliseconds since the epoch; None: there is none."""
        schedule = self.plan(model).cron
        return None if schedule is None else next_slot_ms(schedule, self._clock.now_ms())

    def _queue(self, request: RefitRequest, actor: str, key: str | None, fingerprint: str) -> tuple[Job, bool]:
        job = Job(
            **asdict(request),
            # Random: ids can neither be guessed nor counted.
            id=f"rc_{secrets.token_hex(8)}",
            state=JobState.QUEUED,
            requested_ms=self._clock.now_ms(),
            actor=actor,
        )
        queued, is_new = self.store.add_job(job, idempotency_key=key, fingerprint=fingerprint)
        if is_new:
            self._wake()
        return queued, is_new

    def _audit_refusal(self, actor: str, model: str, version: str, subject: str, *, note: str, error: Conflict) -> None:
        detail = {"note": note, "reason": str(error)}
        self.store.add_audit(AuditEntry(0, self._clock.now_ms(), actor, "refused", model, version, subject, detail))


def _fingerprint(body: Mapping[str, Any]) -> str:
    """Return a hash that is equal for equal requests."""
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
