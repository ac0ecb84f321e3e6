"""Which map serves and which served before, in the database: promotion and rollback.

Each promotion and each rollback is a row with the next revision. A row stores the revision that a rollback goes back
to, so that rollbacks walk back through the maps that served before, and never to a map that was rolled back.
"""

from collections.abc import Collection
from typing import Any, Final, NamedTuple

import sqlalchemy as sa

from monitor.errors import Conflict
from monitor.events.times import format_time
from monitor.store import audit, refits
from monitor.store.recalibrations import AuditEntry, Champion, Job, JobState, PromotableMap
from monitor.store.schema import MODELS, REFITS, SERVINGS

_WHY_NOT_PROMOTABLE: Final = {
    JobState.QUEUED: "it is waiting in the queue",
    JobState.RUNNING: "it is still under way",
    JobState.FAILED: "it failed and has no map",
    JobState.REJECTED: "it was rejected",
    JobState.CHAMPION: "its map serves already",
    JobState.RETIRED: "its map served before and was replaced: refit, or roll back to it",
    JobState.ROLLED_BACK: "its map was rolled back: refit",
}


class Serving(NamedTuple):
    """What serves a version, and from which predictions on."""

    model: str
    version: str
    map_id: str | None
    """None: predictions stay as they are."""
    revision: int
    from_ms: int
    """Event time of the newest prediction that had been read; the wall-clock time where none had."""


def read(connection: sa.Connection, models: Collection[str]) -> list[Serving]:
    """Return what serves the versions of these models that ever had a map."""
    columns = [SERVINGS.c[name] for name in Serving._fields]
    rows = connection.execute(sa.select(*columns).where(SERVINGS.c.until_ms.is_(None)))
    return [serving for row in rows if (serving := Serving(*row)).model in models]


def of_version(connection: sa.Connection, model: str, version: str) -> list[Serving]:
    """Return what served a version and what serves it, the first first."""
    columns = [SERVINGS.c[name] for name in Serving._fields]
    rows = connection.execute(
        sa.select(*columns)
        .where(SERVINGS.c.model == model, SERVINGS.c.version == version)
        .order_by(SERVINGS.c.revision)
    )
    return [Serving(*row) for row in rows]


def current(connection: sa.Connection, model: str, version: str) -> "sa.Row[Any] | None":
    """Return the row of the current champion; None if no map was ever promoted."""
    return connection.execute(
        sa.select(SERVINGS).where(
            SERVINGS.c.model == model, SERVINGS.c.version == version, SERVINGS.c.until_ms.is_(None)
        )
    ).one_or_none()


def champions(connection: sa.Connection) -> list[Champion]:
    """Return the champion of every model and version that ever had a map."""
    columns = [SERVINGS.c[name] for name in Champion._fields]
    statement = sa.select(*columns).where(SERVINGS.c.until_ms.is_(None))
    rows = connection.execute(statement.order_by(SERVINGS.c.model, SERVINGS.c.version))
    return [Champion(*row) for row in rows]


def newest_promotable(connection: sa.Connection) -> list[PromotableMap]:
    """Return the newest promotable refit of each model and version."""
    refit = REFITS.c
    newest = sa.select(sa.func.max(refit.number)).select_from(refits.WITH_MAPS_AND_SERVINGS)
    newest = newest.where(refits.IS_PROMOTABLE).group_by(refit.model, refit.version)
    statement = sa.select(refit.model, refit.version, refit.id).where(refit.number.in_(newest))
    return [PromotableMap(*row) for row in connection.execute(statement.order_by(refit.model, refit.version))]


def promote_automatically(connection: sa.Connection, job: Job, *, now_ms: int) -> Champion:
    """Promote a candidate because its order says so.

    After a rollback, refits by schedule or verdict are not promoted, nor are refits requested before the rollback: a
    map of the same events would be the one that was rolled back. This ends with the next promotion by a user.

    Raises Conflict in that case, and as :func:`promote`.
    """
    model, version = job.model, job.version
    serving = current(connection, model, version)
    if serving is not None and serving.map_id == job.baseline and _is_rollback(serving):
        is_requested_since = job.trigger == "request" and job.requested_ms >= serving.since_ms
        if not is_requested_since:
            raise Conflict(
                f"a map of {model} {version} was rolled back at {format_time(serving.since_ms)}; no map is promoted"
                " automatically until somebody promotes one"
            )
    return promote(connection, job, actor=job.actor, now_ms=now_ms, note="automatic: the guard passed")


def promote(connection: sa.Connection, job: Job, *, actor: str, now_ms: int, note: str) -> Champion:
    """Let the map of a candidate serve. Raises Conflict, with the reason, if it is not promotable."""
    model, version = job.model, job.version
    if job.state is not JobState.CANDIDATE:
        raise Conflict(f"the refit {job.id} is no candidate: {_WHY_NOT_PROMOTABLE[job.state]}")
    before = current(connection, model, version)
    serving: str | None = None if before is None else before.map_id
    if serving != job.baseline:
        raise Conflict(
            f"the refit {job.id} was compared with {_name(job.baseline)}, and {_name(serving)} serves now: refit"
        )
    if not job.has_map:
        raise Conflict(f"the map of the refit {job.id} is not kept any more: refit")
    champion = _serve(
        connection,
        Champion(model, version, job.id, now_ms, 1 if before is None else before.revision + 1),
        goes_back_to=None if before is None else before.revision,
    )
    if serving is not None:
        refits.update(connection, serving, state=JobState.RETIRED)
    refits.update(connection, job.id, state=JobState.CHAMPION, reason=None)
    detail = {"note": note, "replaced": serving, "revision": champion.revision}
    audit.append(connection, [refits.entry(job, now_ms, actor, "promoted", detail)])
    return champion


def roll_back(connection: sa.Connection, model: str, version: str, *, actor: str, now_ms: int, note: str) -> Champion:
    """Let the map serve that served before, or none. Maps that are not stored any more are skipped.

    Raises Conflict if no map serves.
    """
    serving = current(connection, model, version)
    if serving is None or serving.map_id is None:
        others = ", ".join(
            repr(champion.version) for champion in champions(connection) if champion.model == model and champion.map_id
        )
        hint = f"; maps serve the versions {others}" if others else ""
        raise Conflict(f"no map serves model {model!r} version {version!r}: there is nothing to roll back{hint}")
    restored, goes_back_to, skipped = _rollback_target(connection, serving)
    champion = _serve(
        connection, Champion(model, version, restored, now_ms, serving.revision + 1), goes_back_to=goes_back_to
    )
    refits.update(connection, serving.map_id, state=JobState.ROLLED_BACK)
    if restored is not None:
        refits.update(connection, restored, state=JobState.CHAMPION)
    detail = {"note": note, "restored": restored, "passed_over": skipped, "revision": champion.revision}
    audit.append(connection, [AuditEntry(0, now_ms, actor, "rolled_back", model, version, serving.map_id, detail)])
    return champion


def needed_maps(connection: sa.Connection, model: str) -> set[str]:
    """Return the maps of a model, of all versions, that serve or that a rollback would restore."""
    needed: set[str | None] = set()
    rows = connection.execute(sa.select(SERVINGS).where(SERVINGS.c.model == model, SERVINGS.c.until_ms.is_(None))).all()
    for serving in rows:
        needed |= {serving.map_id, _rollback_target(connection, serving)[0]}
    return {map_id for map_id in needed if map_id is not None}


def _serve(connection: sa.Connection, champion: Champion, *, goes_back_to: int | None) -> Champion:
    """Write the next revision in place of the current one."""
    connection.execute(
        sa.update(SERVINGS)
        .where(
            SERVINGS.c.model == champion.model, SERVINGS.c.version == champion.version, SERVINGS.c.until_ms.is_(None)
        )
        .values(until_ms=champion.since_ms)
    )
    from_ms = _newest_prediction_ms(connection, champion.model)
    values = {"goes_back_to": goes_back_to, "from_ms": champion.since_ms if from_ms is None else from_ms}
    connection.execute(sa.insert(SERVINGS).values(**champion._asdict(), **values))
    return champion


def _newest_prediction_ms(connection: sa.Connection, model: str) -> int | None:
    """Return the time of the newest prediction that was read of a model; None if none was."""
    newest = sa.select(sa.func.max(MODELS.c.prediction_watermark_ms))
    newest = newest.where(MODELS.c.name == model, MODELS.c.prediction_watermark_ms >= 0)
    from_ms: int | None = connection.execute(newest).scalar_one()
    return from_ms


def _rollback_target(connection: sa.Connection, serving: "sa.Row[Any]") -> tuple[str | None, int | None, list[str]]:
    """Return the map to restore, the revision that a further rollback goes to, and skipped maps (not stored)."""
    skipped: list[str] = []
    revision = serving.goes_back_to
    while revision is not None:
        earlier = connection.execute(
            sa.select(SERVINGS).where(
                SERVINGS.c.model == serving.model,
                SERVINGS.c.version == serving.version,
                SERVINGS.c.revision == revision,
            )
        ).one()
        if earlier.map_id is None or refits.find(connection, earlier.map_id).has_map:
            return earlier.map_id, earlier.goes_back_to, skipped
        skipped.append(earlier.map_id)
        revision = earlier.goes_back_to
    return None, None, skipped


def _is_rollback(serving: "sa.Row[Any]") -> bool:
    """Whether this row was written by a rollback: a promotion goes back to the revision before it."""
    return bool(serving.revision > 1 and serving.goes_back_to != serving.revision - 1)


def _name(map_id: str | None) -> str:
    return "no map" if map_id is None else f"the map {map_id}"
