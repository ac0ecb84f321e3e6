"""Promotion: which refits may be promoted as things stand, and how one is."""

from collections.abc import Collection
from typing import Any, Final

import sqlalchemy as sa

from monitor.errors import Conflict
from monitor.events.times import format_time
from monitor.store import audit, refits, servings
from monitor.store.recalibrations import Champion, Job, JobState
from monitor.store.schema import RECALIBRATION_MAPS, REFITS

_STANDING: Final = {
    JobState.QUEUED: "it is waiting for its turn",
    JobState.RUNNING: "it is still under way",
    JobState.FAILED: "it failed and has no map",
    JobState.REJECTED: "it was rejected",
    JobState.CHAMPION: "its map serves already",
    JobState.RETIRED: "its map served before, and another took its place: refit, or roll back to it",
    JobState.ROLLED_BACK: "its map was rolled back: refit",
}
"""Why a refit that is no candidate is not promoted."""


def promotable(connection: sa.Connection, job_ids: Collection[str]) -> set[str]:
    """Those of some jobs that :func:`promote` would let serve: candidates, kept, and compared with what serves."""
    refit = REFITS.c
    found = connection.execute(
        sa.select(refit.id, refit.model, refit.version, refit.baseline)
        .join(RECALIBRATION_MAPS, RECALIBRATION_MAPS.c.id == refit.id)
        .where(refit.id.in_(job_ids), refit.state == JobState.CANDIDATE)
    ).all()
    if not found:
        return set()
    serving = {(each.model, each.version): each.map_id for each in servings.all_now(connection)}
    return {row.id for row in found if row.baseline == serving.get((row.model, row.version))}


def promote_by_itself(connection: sa.Connection, job: Job, *, now_ms: int) -> Champion:
    """Let a candidate's map serve because its order says so, not because somebody does now.

    After a rollback nothing begins to serve by a schedule or a verdict, nor by what was asked for before: a map of the
    same events would be the one that was taken back. That ends with the next promotion that somebody asks for.

    Raises Conflict where it has to wait for that, and as :func:`promote`.
    """
    model, version = job.order.model, job.order.version
    serving = servings.now(connection, model, version)
    if serving is not None and serving.map_id == job.baseline and _is_rollback(serving):
        is_asked_since = job.order.trigger == "request" and job.requested_ms >= serving.since_ms
        if not is_asked_since:
            raise Conflict(
                f"a map of {model} {version} was taken back at {format_time(serving.since_ms)}, and until somebody"
                " promotes one, none is promoted by itself"
            )
    return promote(connection, job, actor=job.actor, now_ms=now_ms, note="automatic: the guard passed")


def _is_rollback(serving: "sa.Row[Any]") -> bool:
    """Whether it serves since a rollback: a promotion would go back to the revision before it."""
    return bool(serving.revision > 1 and serving.goes_back_to != serving.revision - 1)


def promote(connection: sa.Connection, job: Job, *, actor: str, now_ms: int, note: str) -> Champion:
    """Let a candidate's map serve. Raises Conflict where it is none of :func:`promotable`, saying why."""
    model, version = job.order.model, job.order.version
    if job.state is not JobState.CANDIDATE:
        raise Conflict(f"the refit {job.id} is no candidate: {_STANDING[job.state]}")
    before = servings.now(connection, model, version)
    serving: str | None = None if before is None else before.map_id
    if serving != job.baseline:
        raise Conflict(
            f"the refit {job.id} was compared with {_named(job.baseline)}, and {_named(serving)} serves now: refit"
        )
    if not servings.is_kept(connection, job.id):
        raise Conflict(f"the map of the refit {job.id} is not kept any more: refit")
    champion = servings.serve(
        connection,
        model,
        version,
        job.id,
        since_ms=now_ms,
        before=before,
        goes_back_to=None if before is None else before.revision,
    )
    if serving is not None:
        refits.update(connection, serving, state=JobState.RETIRED)
    # What stood in the way before does so no more.
    refits.update(connection, job.id, state=JobState.CHAMPION, reason=None)
    detail = {"note": note, "replaced": serving, "revision": champion.revision}
    audit.append(connection, [refits.entry(job, now_ms, actor, "promoted", detail)])
    return champion


def _named(map_id: str | None) -> str:
    return "no map" if map_id is None else f"the map {map_id}"
