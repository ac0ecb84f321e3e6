"""Closings in the database: they are appended, merged when there are many, widened when they are old, and read."""

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

import sqlalchemy as sa

from monitor.store.closing import Closing, OldPanes
from monitor.store.database import chunks
from monitor.store.journal import FULL_BYTES, MAX_BATCHES, merge_from
from monitor.store.schema import CLOSINGS

_PARTS_A_READ: Final = 100
"""Partitions of models whose closings are read by one statement: so many are in memory at a time."""

_AFTER: Final = ("partition", "model", "to_ms")


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
    for named in chunks(models):
        small = sa.func.count()
        crowded = connection.execute(
            sa.select(CLOSINGS.c.model)
            .where(
                CLOSINGS.c.partition == partition,
                CLOSINGS.c.model.in_(named),
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


def oldest(connection: sa.Connection, partition: int) -> dict[tuple[str, int], int]:
    """(model, width of panes) -> start of its oldest closing."""
    of = CLOSINGS.c
    groups = sa.select(of.model, of.pane_ms, sa.func.min(of.from_ms)).where(of.partition == partition)
    rows = connection.execute(groups.group_by(of.model, of.pane_ms))
    return {(model, pane_ms): from_ms for model, pane_ms, from_ms in rows}


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


class After(NamedTuple):
    """The closings of a model in one partition that end after a time."""

    partition: int
    model: str
    after_ms: int


class StoredClosing(NamedTuple):
    """A closing as it is stored."""

    model: str
    partition: int
    to_ms: int
    cells: bytes
    sketches: bytes | None


def in_parts(after_ms: Mapping[str, Mapping[int, int]]) -> Iterator[list[After]]:
    """Split what is to be read, model -> partition -> time, into statements; a model is in one of them."""
    part: list[After] = []
    for model, of_model in after_ms.items():
        part += [After(partition, model, at_ms) for partition, at_ms in of_model.items()]
        if len(part) >= _PARTS_A_READ:
            yield part
            part = []
    if part:
        yield part


def read(connection: sa.Connection, wanted: Iterable[After]) -> list[StoredClosing]:
    """Read closings (of at least one partition and model), in order of model, partition and time."""
    columns = [sa.column(name, CLOSINGS.c[key].type) for name, key in zip(After._fields, _AFTER, strict=True)]
    after = sa.values(*columns, name="after").data(list(wanted)).cte("after")
    found = CLOSINGS.c
    statement = sa.select(*(found[name] for name in StoredClosing._fields)).join(
        after,
        (found.partition == after.c.partition) & (found.model == after.c.model) & (found.to_ms > after.c.after_ms),
    )
    return sorted((StoredClosing(*row) for row in connection.execute(statement)), key=lambda row: row[:3])


def by_model(rows: Iterable[StoredClosing]) -> Iterator[tuple[str, Mapping[int, list[Closing]]]]:
    """Yield each model with its closings by partition; the rows are as from :func:`read`."""
    for model, of_model in itertools.groupby(rows, lambda row: row.model):
        parts: defaultdict[int, list[Closing]] = defaultdict(list)
        for row in of_model:
            parts[row.partition].append(Closing.from_bytes(row.cells, row.sketches))
        yield model, dict(parts)
