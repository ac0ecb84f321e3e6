"""Progress of the schedules of refits, in the database."""

import sqlalchemy as sa

from monitor.store.database import Database
from monitor.store.schema import REFIT_SCHEDULES as SCHEDULES


def handled_ms(connection: sa.Connection, model: str, expression: str) -> int | None:
    """Time up to which slots of a schedule are handled; None if the model has no or another schedule."""
    statement = sa.select(SCHEDULES.c.handled_ms).where(
        SCHEDULES.c.model == model, SCHEDULES.c.expression == expression
    )
    handled: int | None = connection.execute(statement).scalar_one_or_none()
    return handled


def begin(database: Database, connection: sa.Connection, model: str, expression: str, now_ms: int) -> int:
    """Start a schedule now, unless another replica has; returns the time up to which it is handled."""
    values = {"expression": expression, "handled_ms": now_ms}
    connection.execute(
        database.insert(SCHEDULES)
        .values(model=model, **values)
        .on_conflict_do_update(index_elements=["model"], set_=values, where=SCHEDULES.c.expression != expression)
    )
    statement = sa.select(SCHEDULES.c.handled_ms).where(SCHEDULES.c.model == model)
    handled: int = connection.execute(statement).scalar_one()
    return handled


def note(connection: sa.Connection, model: str, expression: str, slot_ms: int) -> None:
    """Note that the slots up to this one are handled, unless a later one is noted."""
    connection.execute(
        sa.update(SCHEDULES)
        .where(SCHEDULES.c.model == model, SCHEDULES.c.expression == expression, SCHEDULES.c.handled_ms < slot_ms)
        .values(handled_ms=slot_ms)
    )
