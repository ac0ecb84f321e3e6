"""Rows of refits in the database."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final

import msgspec
import sqlalchemy as sa

from monitor.errors import UnknownRecalibration
from monitor.store.recalibrations import AuditEntry, Job, JobState, Tally
from monitor.store.schema import RECALIBRATION_MAPS, REFIT_FIGURES, REFITS, SERVINGS

MAX_ATTEMPTS: Final = 3
"""A refit fails after it lost this many workers: most likely it is what kills them."""

_JSON_COLUMNS: Final = ("options", "comparison", "figures")
_COLUMNS: Final = {part.name: part.name for part in fields(Job)} | {"trigger": "triggered_by"}
"""Field of a job -> column."""
_COMPUTED: Final = ("has_map", "promotable")

IS_PROMOTABLE: Final = sa.and_(
    REFITS.c.state == JobState.CANDIDATE,
    RECALIBRATION_MAPS.c.id.is_not(None),
    # If no map ever served, the outer join gives null, which is also the baseline of such refits.
    REFITS.c.baseline.is_not_distinct_from(SERVINGS.c.map_id),
)
WITH_MAPS_AND_SERVINGS: Final = REFITS.outerjoin(RECALIBRATION_MAPS, RECALIBRATION_MAPS.c.id == REFITS.c.id).outerjoin(
    SERVINGS,
    sa.and_(SERVINGS.c.model == REFITS.c.model, SERVINGS.c.version == REFITS.c.version, SERVINGS.c.until_ms.is_(None)),
)


def select(*, comparisons: bool = True) -> "sa.Select[Any]":
    """Select refits; without the comparison, which is far larger than all other columns, it is null."""
    columns = [
        column if comparisons or column.name != "comparison" else sa.null().label(column.name)
        for column in REFITS.columns
    ]
    computed = (RECALIBRATION_MAPS.c.id.is_not(None).label("has_map"), IS_PROMOTABLE.label("promotable"))
    return sa.select(*columns, *computed).select_from(WITH_MAPS_AND_SERVINGS)


def to_row(job: Job) -> dict[str, Any]:
    """Return the columns of a job, without owner, lease and key."""
    row = {column: getattr(job, name) for name, column in _COLUMNS.items() if name not in _COMPUTED}
    row |= {name: None if row[name] is None else to_json(row[name]) for name in _JSON_COLUMNS}
    return row | {"promote": int(job.promote), "state": job.state.value}


def from_row(row: "sa.Row[Any]") -> Job:
    """Return the job of a row of :func:`select`."""
    values = {name: getattr(row, column) for name, column in _COLUMNS.items()}
    values |= {name: None if values[name] is None else msgspec.json.decode(values[name]) for name in _JSON_COLUMNS}
    values |= {name: bool(values[name]) for name in ("promote", *_COMPUTED)}
    return Job(**values | {"state": JobState(row.state), "figures": tuple(values["figures"])})


def to_json(value: Any) -> str:
    """Encode as JSON text, in which U+0000 is escaped, so that any database accepts it."""
    return msgspec.json.encode(value).decode()


def find(connection: sa.Connection, job_id: str) -> "sa.Row[Any]":
    """Return the row of a job. Raises UnknownRecalibration."""
    row = connection.execute(select().where(REFITS.c.id == job_id)).one_or_none()
    if row is None:
        raise UnknownRecalibration(f"no refit is called {job_id!r}")
    return row


def update(connection: sa.Connection, job_id: str, **values: Any) -> None:
    """Change columns of a job."""
    connection.execute(sa.update(REFITS).where(REFITS.c.id == job_id).values(**values))


def claimable(connection: sa.Connection, now_ms: int) -> "sa.Row[Any] | None":
    """Return the oldest job that is queued, or running with an expired lease."""
    expired = sa.and_(REFITS.c.state == JobState.RUNNING, REFITS.c.lease_until_ms < now_ms)
    return connection.execute(
        select().where(sa.or_(REFITS.c.state == JobState.QUEUED, expired)).order_by(REFITS.c.number).limit(1)
    ).one_or_none()


def tallies(connection: sa.Connection) -> list[Tally]:
    """Count the refits of each model by state, with the times of the last that finished."""
    refit = REFITS.c
    tally = (
        sa.select(
            refit.model, refit.state, sa.func.count().label("refits"), sa.func.max(refit.finished_ms).label("last_ms")
        )
        .group_by(refit.model, refit.state)
        .subquery()
    )
    last = sa.and_(refit.model == tally.c.model, refit.state == tally.c.state, refit.finished_ms == tally.c.last_ms)
    columns = (tally.c.model, tally.c.state, tally.c.refits, tally.c.last_ms)
    # Of refits that finished in the same millisecond, the later start.
    statement = (
        sa.select(*columns, sa.func.max(refit.started_ms))
        .select_from(tally.outerjoin(REFITS, last))
        .group_by(*columns)
        .order_by(tally.c.model, tally.c.state)
    )
    return [Tally(model, JobState(state), *rest) for model, state, *rest in connection.execute(statement)]


def prune(connection: sa.Connection, model: str, keep: int, needed: set[str]) -> list[str]:
    """Remove maps and figures of a model beyond the newest ``keep``, but no needed one; return the removed ids.

    The refits themselves stay, with their comparisons.
    """
    newest_first = (
        sa.select(RECALIBRATION_MAPS.c.id)
        .join(REFITS, REFITS.c.id == RECALIBRATION_MAPS.c.id)
        .where(REFITS.c.model == model)
        .order_by(REFITS.c.number.desc())
    )
    old = connection.execute(newest_first).scalars().all()[keep:]
    removed = [map_id for map_id in old if map_id not in needed]
    if removed:
        connection.execute(sa.delete(REFIT_FIGURES).where(REFIT_FIGURES.c.refit.in_(removed)))
        connection.execute(sa.delete(RECALIBRATION_MAPS).where(RECALIBRATION_MAPS.c.id.in_(removed)))
        connection.execute(sa.update(REFITS).where(REFITS.c.id.in_(removed)).values(figures="[]"))
    return removed


def entry(job: Job, at_ms: int, actor: str, action: str, detail: Mapping[str, Any]) -> AuditEntry:
    """Return the audit entry of a job; the audit trail assigns its number."""
    return AuditEntry(0, at_ms, actor, action, job.model, job.version, job.id, detail)
