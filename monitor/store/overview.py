"""Overview of the recalibration of all models, in a few statements that read neither comparisons nor maps."""

import sqlalchemy as sa

from monitor.store import servings
from monitor.store.recalibrations import Candidate, JobState, Overview, Tally
from monitor.store.schema import RECALIBRATION_MAPS, REFITS, SERVINGS


def read(connection: sa.Connection) -> Overview:
    """Champions, candidates and numbers of refits."""
    return Overview(servings.all_now(connection), _candidates(connection), _tallies(connection))


def _candidates(connection: sa.Connection) -> list[Candidate]:
    refit, serving = REFITS.c, SERVINGS.c
    same = sa.and_(serving.model == refit.model, serving.version == refit.version, serving.until_ms.is_(None))
    # If no map ever served, the outer join yields null, as the baseline is.
    baseline_serves = sa.or_(
        refit.baseline == serving.map_id, sa.and_(refit.baseline.is_(None), serving.map_id.is_(None))
    )
    newest = (
        sa.select(sa.func.max(refit.number))
        .select_from(REFITS.join(RECALIBRATION_MAPS, RECALIBRATION_MAPS.c.id == refit.id).outerjoin(SERVINGS, same))
        .where(refit.state == JobState.CANDIDATE, baseline_serves)
        .group_by(refit.model, refit.version)
    )
    statement = sa.select(refit.model, refit.version, refit.id).where(refit.number.in_(newest))
    return [Candidate(*row) for row in connection.execute(statement.order_by(refit.model, refit.version))]


def _tallies(connection: sa.Connection) -> list[Tally]:
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
    return [
        Tally(model, JobState(state), refits, finished_ms, started_ms)
        for model, state, refits, finished_ms, started_ms in connection.execute(statement)
    ]
