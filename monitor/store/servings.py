"""What serves and what served, in the database.

Each promotion and each rollback is a row with the next revision. A row knows to which revision a rollback goes back,
so that rollbacks walk back through what served before, and never to what was itself taken back.
"""

from typing import Any

import sqlalchemy as sa

from monitor.store.recalibrations import Champion
from monitor.store.schema import RECALIBRATION_MAPS, SERVINGS


def now(connection: sa.Connection, model: str, version: str) -> "sa.Row[Any] | None":
    """The row of what serves; None where nothing ever did."""
    return connection.execute(
        sa.select(SERVINGS).where(
            SERVINGS.c.model == model, SERVINGS.c.version == version, SERVINGS.c.until_ms.is_(None)
        )
    ).one_or_none()


def all_now(connection: sa.Connection) -> list[Champion]:
    """What serves, of every model and version that ever had a map."""
    columns = [SERVINGS.c[name] for name in Champion._fields]
    statement = sa.select(*columns).where(SERVINGS.c.until_ms.is_(None))
    rows = connection.execute(statement.order_by(SERVINGS.c.model, SERVINGS.c.version))
    return [Champion(*row) for row in rows]


def serve(
    connection: sa.Connection,
    model: str,
    version: str,
    map_id: str | None,
    *,
    since_ms: int,
    before: "sa.Row[Any] | None",
    goes_back_to: int | None,
) -> Champion:
    """Let a map serve in place of ``before``, which is what :func:`now` told in this transaction."""
    revision = 1
    if before is not None:
        revision = before.revision + 1
        connection.execute(
            sa.update(SERVINGS)
            .where(SERVINGS.c.model == model, SERVINGS.c.version == version, SERVINGS.c.revision == before.revision)
            .values(until_ms=since_ms)
        )
    champion = Champion(model, version, map_id, since_ms, revision)
    connection.execute(sa.insert(SERVINGS).values(**champion._asdict(), goes_back_to=goes_back_to))
    return champion


def target_of_rollback(connection: sa.Connection, serving: "sa.Row[Any]") -> tuple[str | None, int | None, list[str]]:
    """What a rollback restores: the map, where a further rollback goes, and maps passed over that are not kept."""
    passed: list[str] = []
    revision = serving.goes_back_to
    while revision is not None:
        earlier = connection.execute(
            sa.select(SERVINGS).where(
                SERVINGS.c.model == serving.model,
                SERVINGS.c.version == serving.version,
                SERVINGS.c.revision == revision,
            )
        ).one()
        if earlier.map_id is None or is_kept(connection, earlier.map_id):
            return earlier.map_id, earlier.goes_back_to, passed
        passed.append(earlier.map_id)
        revision = earlier.goes_back_to
    return None, None, passed


def is_kept(connection: sa.Connection, map_id: str) -> bool:
    """Whether a map's artifact is in the store."""
    found = sa.select(RECALIBRATION_MAPS.c.id).where(RECALIBRATION_MAPS.c.id == map_id)
    return connection.execute(found).first() is not None


def needed(connection: sa.Connection, model: str) -> set[str]:
    """Maps of a model, whatever the version, that serve or that a rollback would restore."""
    found: set[str] = set()
    rows = connection.execute(sa.select(SERVINGS).where(SERVINGS.c.model == model, SERVINGS.c.until_ms.is_(None))).all()
    for serving in rows:
        restored, _, _ = target_of_rollback(connection, serving)
        found |= {each for each in (serving.map_id, restored) if each is not None}
    return found
