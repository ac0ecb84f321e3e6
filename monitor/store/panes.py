"""The closed panes in the database: each the sum of what dropped buckets left behind in it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import sqlalchemy as sa

from monitor.events.model import SeriesKey
from monitor.scores import GridTable
from monitor.store.base import ClosedPane, PaneKey
from monitor.store.database import Database
from monitor.store.schema import CLOSED_PANES as PANES

_KEY: Final = ("model", "slide_ms", "start_ms", "version", "segment")
_KEYS_A_STATEMENT: Final = 500
_PANES_A_FETCH: Final = 500


def add(database: Database, connection: sa.Connection, partition: int, closed: Sequence[ClosedPane]) -> None:
    """Add to the closed panes, of which some may stand there already."""
    tables: dict[PaneKey, list[GridTable]] = {}
    for key, table in closed:
        tables.setdefault(key, []).append(table)
    if not tables:
        return
    for key, stored in _stored(connection, partition, list(tables)):
        tables[key].append(stored)
    insert = database.insert(PANES)
    connection.execute(
        insert.on_conflict_do_update(
            index_elements=["partition", *_KEY], set_={"grid_table": insert.excluded.grid_table}
        ),
        [
            {
                "partition": partition,
                **dict(zip(_KEY, _columns(key), strict=True)),
                "grid_table": (parts[0] if len(parts) == 1 else GridTable.sum(parts)).to_bytes(),
            }
            for key, parts in tables.items()
        ],
    )


def expire(connection: sa.Connection, partition: int, before_ms: Mapping[tuple[str, int], int]) -> None:
    """Remove the panes of (model, slide) that start before."""
    if before_ms:
        connection.execute(
            sa.delete(PANES).where(
                PANES.c.partition == partition,
                PANES.c.model == sa.bindparam("expired_model"),
                PANES.c.slide_ms == sa.bindparam("expired_slide_ms"),
                PANES.c.start_ms < sa.bindparam("before_ms"),
            ),
            [
                {"expired_model": model, "expired_slide_ms": slide_ms, "before_ms": start_ms}
                for (model, slide_ms), start_ms in before_ms.items()
            ],
        )


def read(database: Database, connection: sa.Connection, partition: int) -> Iterator[ClosedPane]:
    """All closed panes, in the order of their keys."""
    columns = [PANES.c[name] for name in _KEY]
    statement = sa.select(*columns, PANES.c.grid_table).where(PANES.c.partition == partition).order_by(*columns)
    with database.stream(connection, statement, _PANES_A_FETCH) as result:
        yield from map(_pane, result)


def _stored(connection: sa.Connection, partition: int, keys: Sequence[PaneKey]) -> Iterator[ClosedPane]:
    columns = [PANES.c[name] for name in _KEY]
    for at in range(0, len(keys), _KEYS_A_STATEMENT):
        rows = connection.execute(
            sa.select(*columns, PANES.c.grid_table).where(
                PANES.c.partition == partition,
                sa.tuple_(*columns).in_([_columns(key) for key in keys[at : at + _KEYS_A_STATEMENT]]),
            )
        )
        yield from map(_pane, rows)


def _columns(key: PaneKey) -> tuple[str, int, int, str, str]:
    return (key.series.model, key.slide_ms, key.start_ms, key.series.version, key.series.segment)


def _pane(row: Any) -> ClosedPane:
    key = PaneKey(row.slide_ms, row.start_ms, SeriesKey(row.model, row.version, row.segment))
    return ClosedPane(key, GridTable.from_bytes(row.grid_table))
