"""Refits as rows of the database, and back."""

from collections.abc import Collection, Mapping
from typing import Any, Final

import msgspec
import sqlalchemy as sa

from monitor.errors import UnknownRecalibration
from monitor.store.recalibrations import UNDER_WAY, AuditEntry, Job, JobState, Order
from monitor.store.schema import RECALIBRATION_MAPS, REFIT_FIGURES, REFITS

MOST_ATTEMPTS: Final = 3
"""A refit whose worker was lost so often is given up: most likely it is what kills them."""

_SUMMARY: Final = [column if column.name != "comparison" else sa.null().label(column.name) for column in REFITS.columns]
"""Each refit without its comparison, which takes far more room than all the rest."""

_object_from_json: Final = msgspec.json.Decoder(dict[str, Any])
_names_from_json: Final = msgspec.json.Decoder(tuple[str, ...])


def to_row(job: Job) -> dict[str, Any]:
    """The columns of a job, without what only the store knows."""
    order = job.order
    return {
        "id": job.id,
        "model": order.model,
        "version": order.version,
        "method": order.method,
        "options": to_json(order.options),
        "window_ms": order.window_ms,
        "promote": int(order.promote),
        "triggered_by": order.trigger,
        "state": job.state.value,
        "requested_ms": job.requested_ms,
        "actor": job.actor,
        "started_ms": job.started_ms,
        "finished_ms": job.finished_ms,
        "progress": job.progress,
        "step": job.step,
        "attempts": job.attempts,
        "reason": job.reason,
        "comparison": None if job.comparison is None else to_json(job.comparison),
        "figures": to_json(job.figures),
        "baseline": job.baseline,
    }


def from_row(row: "sa.Row[Any]") -> Job:
    """The job of a row."""
    return Job(
        id=row.id,
        order=Order(
            model=row.model,
            version=row.version,
            method=row.method,
            options=_object_from_json.decode(row.options),
            window_ms=row.window_ms,
            promote=bool(row.promote),
            trigger=row.triggered_by,
        ),
        state=JobState(row.state),
        requested_ms=row.requested_ms,
        actor=row.actor,
        started_ms=row.started_ms,
        finished_ms=row.finished_ms,
        progress=row.progress,
        step=row.step,
        attempts=row.attempts,
        reason=row.reason,
        comparison=None if row.comparison is None else _object_from_json.decode(row.comparison),
        figures=_names_from_json.decode(row.figures),
        baseline=row.baseline,
    )


def to_json(value: Any) -> str:
    """JSON text. It holds no U+0000 even where a name does, so that any database can keep it."""
    return msgspec.json.encode(value).decode()


def find(connection: sa.Connection, job_id: str) -> "sa.Row[Any]":
    """The row of a job. Raises UnknownRecalibration."""
    row = connection.execute(sa.select(REFITS).where(REFITS.c.id == job_id)).one_or_none()
    if row is None:
        raise _unknown(job_id)
    return row


def _number(connection: sa.Connection, job_id: str) -> int:
    """Its place among all jobs. Raises UnknownRecalibration."""
    number: int | None = connection.execute(
        sa.select(REFITS.c.number).where(REFITS.c.id == job_id)
    ).scalar_one_or_none()
    if number is None:
        raise _unknown(job_id)
    return number


def under_way(connection: sa.Connection, model: str) -> str | None:
    """Id of the model's refit that is queued or running, if there is one."""
    statement = sa.select(REFITS.c.id).where(REFITS.c.model == model, REFITS.c.state.in_(UNDER_WAY))
    found: str | None = connection.execute(statement).scalar_one_or_none()
    return found


def page(
    connection: sa.Connection,
    models: str | Collection[str] | None,
    before: str | None,
    limit: int,
    *,
    comparisons: bool = True,
) -> list[Job]:
    """Jobs of a model, of several, or of all, the newest first; with their comparisons, or without."""
    chosen = sa.select(REFITS) if comparisons else sa.select(*_SUMMARY)
    statement = chosen.order_by(REFITS.c.number.desc()).limit(limit)
    if models is not None:
        statement = statement.where(REFITS.c.model.in_((models,) if isinstance(models, str) else sorted(models)))
    if before is not None:
        statement = statement.where(REFITS.c.number < _number(connection, before))
    return [from_row(row) for row in connection.execute(statement)]


def update(connection: sa.Connection, job_id: str, **values: Any) -> None:
    """Change columns of a job."""
    connection.execute(sa.update(REFITS).where(REFITS.c.id == job_id).values(**values))


def claimable(connection: sa.Connection, now_ms: int) -> "sa.Row[Any] | None":
    """The oldest job that is queued, or whose owner has not been heard of since its lease ran out."""
    lapsed = sa.and_(REFITS.c.state == JobState.RUNNING, REFITS.c.lease_until_ms < now_ms)
    return connection.execute(
        sa.select(REFITS).where(sa.or_(REFITS.c.state == JobState.QUEUED, lapsed)).order_by(REFITS.c.number).limit(1)
    ).one_or_none()


def prune(connection: sa.Connection, model: str, keep: int, needed: set[str]) -> list[str]:
    """Remove artifacts and figures of a model beyond the newest so many, but none that is needed; which.

    The refits themselves stay, with their comparisons.
    """
    with_map = (
        sa.select(RECALIBRATION_MAPS.c.id)
        .join(REFITS, REFITS.c.id == RECALIBRATION_MAPS.c.id)
        .where(REFITS.c.model == model)
        .order_by(REFITS.c.number.desc())
    )
    going = [each for each in connection.execute(with_map).scalars().all()[keep:] if each not in needed]
    if going:
        connection.execute(sa.delete(REFIT_FIGURES).where(REFIT_FIGURES.c.refit.in_(going)))
        connection.execute(sa.delete(RECALIBRATION_MAPS).where(RECALIBRATION_MAPS.c.id.in_(going)))
        connection.execute(sa.update(REFITS).where(REFITS.c.id.in_(going)).values(figures="[]"))
    return going


def entry(job: Job, at_ms: int, actor: str, action: str, detail: Mapping[str, Any]) -> AuditEntry:
    """What the audit trail says of a job, with whatever number the trail gives it."""
    return AuditEntry(0, at_ms, actor, action, job.order.model, job.order.version, job.id, detail)


def _unknown(job_id: str) -> UnknownRecalibration:
    return UnknownRecalibration(f"no refit is called {job_id!r}")
