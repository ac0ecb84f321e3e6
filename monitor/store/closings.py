"""Closings in the database: they are appended, merged when there are many, widened when they are old, and read."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import sqlalchemy as sa

from monitor.store.closing import Closing, OldPanes
from monitor.store.database import Database
from monitor.store.journal import FULL_BYTES, MAX_BATCHES, merge_from
from monitor.store.schema import CLOSINGS

_CLOSINGS_A_FETCH: Final = 64
_MODELS_A_STATEMENT: Final = 500


def append(connection: sa.Connection, partition: int, closings: Iterable[Closing]) -> None:
    """Store closings of a partition."""
    rows = []
    for closing in closings:
        cells, sketches = closing.to_bytes()
        times = {"to_ms": closing.to_ms, "from_ms": closing.from_ms, "pane_ms": closing.pane_ms}
        rows.append({"partition": partition, "model": closing.model, **times, "cells": cells, "sketches": sketches})
    if rows:
        connection.execute(sa.insert(CLOSINGS), rows)


def compact(connection: sa.Connection, partition: int, models: Iterable[str]) -> None:
    """Merge the small closings of those models that have many: one is written every few seconds."""
    size = sa.func.length(CLOSINGS.c.cells)
    named = list(models)
    for at in range(0, len(named), _MODELS_A_STATEMENT):
        small = sa.func.count()
        crowded = connection.execute(
            sa.select(CLOSINGS.c.model)
            .where(
                CLOSINGS.c.partition == partition,
                CLOSINGS.c.model.in_(named[at : at + _MODELS_A_STATEMENT]),
                size < FULL_BYTES,
            )
            .group_by(CLOSINGS.c.model)
            .having(small > MAX_BATCHES)
        ).scalars()
        for model in list(crowded):
            rows = connection.execute(
                sa.select(CLOSINGS.c.to_ms, CLOSINGS.c.pane_ms, size.label("size"))
                .where(CLOSINGS.c.partition == partition, CLOSINGS.c.model == model)
                .order_by(CLOSINGS.c.to_ms)
            ).all()
            # Only those of the newest width: the others were widened, or written under other settings.
            first = next((at for at in reversed(range(len(rows))) if rows[at].pane_ms != rows[-1].pane_ms), -1) + 1
            start = first + merge_from([row.size for row in rows[first:]])
            if start < len(rows):
                whole = Closing.merged(_take(connection, partition, model, CLOSINGS.c.to_ms >= rows[start].to_ms))
                append(connection, partition, [whole])


def retire(connection: sa.Connection, partition: int, old: Iterable[OldPanes]) -> None:
    """Widen, or remove, the panes that windows no longer need."""
    for model, width_ms, before_ms, wider_ms in old:
        is_old = (CLOSINGS.c.pane_ms == width_ms) & (CLOSINGS.c.from_ms < before_ms)
        if wider_ms is None:
            _delete(connection, partition, model, is_old & (CLOSINGS.c.to_ms <= before_ms))
        elif parts := _take(connection, partition, model, is_old):
            append(connection, partition, Closing.merged(parts).split(before_ms, wider_ms))


def _take(connection: sa.Connection, partition: int, model: str, which: sa.ColumnElement[bool]) -> list[Closing]:
    """Remove closings of a model, and return them in order."""
    rows = connection.execute(
        sa.select(CLOSINGS.c.cells, CLOSINGS.c.sketches)
        .where(CLOSINGS.c.partition == partition, CLOSINGS.c.model == model, which)
        .order_by(CLOSINGS.c.to_ms)
    ).all()
    _delete(connection, partition, model, which)
    return [Closing.from_bytes(*row) for row in rows]


def _delete(connection: sa.Connection, partition: int, model: str, which: sa.ColumnElement[bool]) -> None:
    connection.execute(sa.delete(CLOSINGS).where(CLOSINGS.c.partition == partition, CLOSINGS.c.model == model, which))


def read(
    database: Database, connection: sa.Connection, model: str, after_ms: Mapping[int, int]
) -> Iterator[tuple[int, Closing]]:
    """Yield (partition, closing) of a model in order of time, those that end after a time.

    Parameters
    ----------
    after_ms
        Partition -> that time. A closing that begins earlier, because it was merged, is cut there.
    """
    columns = CLOSINGS.c
    is_new = sa.or_(*(sa.and_(columns.partition == part, columns.to_ms > at_ms) for part, at_ms in after_ms.items()))
    statement = (
        sa.select(columns.partition, columns.cells, columns.sketches)
        .where(columns.model == model, is_new)
        .order_by(columns.partition, columns.to_ms)
    )
    with database.stream(connection, statement, _CLOSINGS_A_FETCH) as result:
        for partition, cells, sketches in result:
            yield partition, Closing.from_bytes(cells, sketches)
