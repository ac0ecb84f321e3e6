"""Refits from request to retirement: what the API, the exposition and the command line ask, answered by the store."""

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
from monitor.recalibration.contract import Applied
from monitor.recalibration.plan import RefitPlan, next_slot_ms
from monitor.recalibration.serving import Serving
from monitor.store.recalibrations import (
    UNDER_WAY,
    AuditEntry,
    Champion,
    Job,
    JobState,
    Order,
    RecalibrationStore,
    StoredMap,
)

Live = Callable[[str, str], Mapping[str, Any] | None]


class Lifecycle:
    """All that can be asked of recalibration: a Recalibrations. Any thread.

    Parameters
    ----------
    store
        Keeps refits and maps.
    versions
        (model, version or None) -> the version meant, or the current one. Raises UnknownSeries.
    models
        Names of the models that are known now, declared or seen.
    plan
        Model -> what the settings say of its refits.
    serving
        Keeps the maps that serve loaded.
    live
        (model, version) -> the live document, or None if there is none.
    wake
        Called when a refit was queued, so that a worker need not look for it.
    clock
        The one clock.
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
        """What is asked for; what is None is as the model's settings say.

        Options that the settings name are those of the method that they name: they do not go with another one. An
        option that is given stands before the one of the settings.

        Raises
        ------
        InputError
            The method or an option is wrong.
        UnknownSeries
            No model, or no version of it, is called that.
        """
        version, plan = self.version_of(model, version), self._plan(model)
        chosen = choose_method(plan.method if method is None else method)
        usual = plan.options if chosen.name == plan.method else {}
        return Order(
            model=model,
            version=version,
            method=chosen.name,
            options=check_options(chosen, {**usual, **(options or {})}),
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
        asked: Mapping[str, Any] | None = None,
    ) -> tuple[Job, bool]:
        """Queue a refit; False beside it if the same request was made before.

        Parameters
        ----------
        asked
            What tells the requests under one key apart, as JSON has it; the order, if left out.

        Raises
        ------
        InputError
            The method or an option is wrong.
        UnknownSeries
            No model, or no version of it, is called that.
        Conflict
            Another refit of the model is under way, or the key was used for another request.
        """
        # Of one model: two clients that number their requests alike do not get each other's refits.
        key = None if idempotency_key is None else f"request {order.model} {idempotency_key}"
        return self._queue(order, actor, key, _fingerprint(asdict(order) if asked is None else asked))

    def request_once(self, order: Order, *, actor: str, occasion: str) -> tuple[Job, bool]:
        """Queue a refit for an occasion, such as a slot of a schedule: once, however many replicas see it.

        Errors as of :meth:`request`, but for the key: the first order of an occasion is the one that counts.
        """
        return self._queue(order, actor, f"{order.trigger} {order.model} {occasion}", "")

    def version_of(self, model: str, version: str | None) -> str:
        """The version meant: the one named, or the current one. Raises UnknownSeries."""
        return self._versions(model, version)

    def job(self, job_id: str) -> Job:
        """One refit."""
        return self._store.job(job_id)

    def jobs(self, models: str | Collection[str] | None, *, before: str | None, limit: int) -> Sequence[Job]:
        """Refits of a model, of several, or of all, the newest first; without their comparisons."""
        return self._store.jobs(models, before=before, limit=limit, comparisons=False)

    def promotable(self, jobs: Collection[Job]) -> set[str]:
        """Ids of those refits that :meth:`promote` would let serve as things stand."""
        candidates = [job.id for job in jobs if job.state is JobState.CANDIDATE]
        return self._store.promotable(candidates) if candidates else set()

    def with_map(self, jobs: Collection[Job]) -> set[str]:
        """Ids of those refits whose map :meth:`artifact` has."""
        ended = [job.id for job in jobs if job.state not in {*UNDER_WAY, JobState.FAILED}]
        return self._store.kept(ended) if ended else set()

    def artifact(self, map_id: str) -> StoredMap:
        """One map."""
        return self._store.artifact(map_id)

    def figure(self, job_id: str, name: str) -> bytes:
        """One picture, SVG."""
        return self._store.figure(job_id, name)

    def champion(self, model: str, version: str) -> Champion:
        """What serves; ``map_id`` is None, and ``revision`` 0, where nothing ever did."""
        return self._serving.champion(model, version)

    def promote(self, job_id: str, *, actor: str, note: str) -> Champion:
        """Let a candidate's map serve. Errors as of :meth:`RecalibrationStore.promote`; a refusal is audited."""
        now_ms = self._clock.now_ms()
        try:
            champion = self._store.promote(job_id, actor=actor, now_ms=now_ms, note=note)
        except Conflict as refused:
            order = self._store.job(job_id).order
            self._refused(
                AuditEntry(0, now_ms, actor, "refused", order.model, order.version, job_id, {}), note, refused
            )
            raise
        self._serving.refresh()
        return champion

    def roll_back(self, model: str, version: str, *, actor: str, note: str) -> Champion:
        """Let serve what served before. Errors as of :meth:`RecalibrationStore.roll_back`; a refusal is audited."""
        now_ms = self._clock.now_ms()
        try:
            champion = self._store.roll_back(model, version, actor=actor, now_ms=now_ms, note=note)
        except Conflict as refused:
            self._refused(AuditEntry(0, now_ms, actor, "refused", model, version, "", {}), note, refused)
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
        """Recalibrate by the map that serves. Errors as of :meth:`Serving.apply`."""
        return self._serving.apply(model, version, prediction, features=features, segments=segments)

    def live(self, model: str, version: str) -> Mapping[str, Any] | None:
        """Measures of raw and recalibrated scores, side by side, on events that no refit saw; None if there are none.

        See docs/recalibration.md ("live").
        """
        return None if self._live is None else self._live(model, version)

    def schedules(self) -> Mapping[str, Mapping[str, Any]]:
        """Model -> what its settings say of refits, with ``next`` (milliseconds since the epoch, or None)."""
        now_ms = self._clock.now_ms()
        told: dict[str, Mapping[str, Any]] = {}
        for model in sorted(self._models()):
            plan = self._plan(model)
            due_ms = None if plan.schedule is None else next_slot_ms(plan.schedule, now_ms)
            told[model] = {
                **{key: value for key, value in asdict(plan).items() if key != "automatic"},
                "promotion": "automatic" if plan.automatic else "manual",
                "next": due_ms,
            }
        return told

    def audit(self, *, after: int, limit: int, model: str | None) -> Sequence[AuditEntry]:
        """Who did what."""
        return self._store.audit(after=after, limit=limit, model=model)

    def _queue(self, order: Order, actor: str, key: str | None, fingerprint: str) -> tuple[Job, bool]:
        method = choose_method(order.method)
        check_options(method, order.options)
        self.version_of(order.model, order.version)
        job = Job(
            # Nobody can guess another one's, nor tell from it how many there are.
            id=f"rc_{secrets.token_hex(8)}",
            order=order,
            state=JobState.QUEUED,
            requested_ms=self._clock.now_ms(),
            actor=actor,
        )
        queued, made = self._store.add_job(job, idempotency_key=key, fingerprint=fingerprint)
        if made and self._wake is not None:
            self._wake()
        return queued, made

    def _refused(self, entry: AuditEntry, note: str, refused: Conflict) -> None:
        self._store.add_audit(entry._replace(detail={"note": note, "reason": str(refused)}))


def _fingerprint(told: Mapping[str, Any]) -> str:
    """Equal for equal requests."""
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()
