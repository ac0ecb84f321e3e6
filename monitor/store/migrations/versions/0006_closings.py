"""Closings in place of closed panes and their sketches."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import sqlalchemy as sa
from alembic import op

from monitor.classes.sketch import SkceSketch
from monitor.events.model import SeriesKey
from monitor.scores import GridTable
from monitor.store.closing import Cells, Closing, Panes, PaneSketch
from monitor.store.closings import append
from monitor.store.migrations.columns import columns, keys, owner
from monitor.store.schema import Name

revision = "0006"
down_revision = "0005"

_MODELS = sa.table(
    "models",
    *map(sa.column, ("partition", "evicted_before_ms", "closed_to_ms", "awaits_outcomes")),
    sa.column("name", Name()),
)
_JOURNAL = sa.table("journal", sa.column("partition"), sa.column("model", Name()), sa.column("bucket_ms"))


def upgrade() -> None:
    """Add the tables of closings, and turn closed panes into closings."""
    op.create_table(
        "closings",
        owner(),
        *keys(sa.Text, "model"),
        *keys(sa.BigInteger, "to_ms"),
        *columns(sa.BigInteger, "from_ms", "pane_ms"),
        *columns(sa.LargeBinary, "cells"),
        *columns(sa.LargeBinary, "sketches", nullable=True),
    )
    op.create_table(
        "unsettled",
        owner(),
        *columns(sa.LargeBinary, "cells"),
        *columns(sa.LargeBinary, "sketches", nullable=True),
    )
    op.add_column("partitions", sa.Column("read_to_ms", sa.BigInteger, nullable=False, server_default="-1"))
    op.add_column("partitions", sa.Column("saved_ms", sa.BigInteger, nullable=False, server_default="0"))
    op.execute(
        "UPDATE partitions SET read_to_ms = coalesce((SELECT max(prediction_watermark_ms) FROM models"
        " WHERE models.partition = partitions.partition), -1)"
    )
    op.add_column("models", sa.Column("closed_to_ms", sa.BigInteger, nullable=False, server_default="-1"))
    op.add_column("models", sa.Column("awaits_outcomes", sa.Integer, nullable=False, server_default="1"))
    _convert(op.get_bind())
    with op.batch_alter_table("models") as models:
        models.drop_column("evicted_before_ms")
    op.drop_table("closed_panes")
    op.drop_table("closed_sketches")


def _convert(connection: sa.Connection) -> None:
    """Write the closings of each partition and model, and the time up to which it is closed."""
    of_models = sa.select(_MODELS.c.partition, _MODELS.c.name, _MODELS.c.evicted_before_ms)
    for partition, model, evicted_ms in connection.execute(of_models).all():
        closings = list(_closings(connection, partition, model))
        if not closings:
            continue
        first_open_ms = connection.execute(
            sa.select(sa.func.min(_JOURNAL.c.bucket_ms)).where(
                _JOURNAL.c.partition == partition, _JOURNAL.c.model == model
            )
        ).scalar()
        last = closings[-1]
        # A pane may be closed in part, and the rest of it will be in the next closing: so the last one ends before it.
        closed_to_ms = last.to_ms if first_open_ms is None else min(last.to_ms, first_open_ms)
        closed_to_ms = max(closed_to_ms - closed_to_ms % last.pane_ms, evicted_ms)
        append(connection, partition, [*closings[:-1], last._replace(to_ms=closed_to_ms)])
        connection.execute(
            sa.update(_MODELS)
            .where(_MODELS.c.partition == partition, _MODELS.c.name == model)
            .values(closed_to_ms=closed_to_ms)
        )


def _closings(connection: sa.Connection, partition: int, model: str) -> Iterator[Closing]:
    """Yield the closings of a model, oldest first: of each time the narrowest panes that are kept."""
    tables = _by_width(connection, "closed_panes", "grid_table", partition, model)
    sketches = _by_width(connection, "closed_sketches", "sketch", partition, model)
    end_ms: int | None = None
    found = []
    for pane_ms in sorted(tables):
        panes = [pane for pane in tables[pane_ms] if end_ms is None or pane.start_ms < end_ms]
        if not panes:
            continue
        to_ms = max(pane.start_ms for pane in panes) + pane_ms if end_ms is None else end_ms
        # Wider panes hold also what the narrower ones do, so these begin where a wider one ends.
        wider_ms = min((width for width in tables if width > pane_ms), default=pane_ms)
        first_ms = min(pane.start_ms for pane in panes)
        from_ms = -(-first_ms // wider_ms) * wider_ms if wider_ms > pane_ms else first_ms
        names = sorted({SeriesKey(model, pane.version, pane.segment) for pane in panes})
        places = {name: at for at, name in enumerate(names)}
        kept = [pane for pane in panes if pane.start_ms >= from_ms]
        parts = [_cells(pane, places[SeriesKey(model, pane.version, pane.segment)]) for pane in kept]
        kept_sketches = sorted(
            (
                PaneSketch(SeriesKey(model, row.version, row.segment), row.start_ms, SkceSketch.from_bytes(row.data))
                for row in sketches.get(pane_ms, ())
                if from_ms <= row.start_ms < to_ms
            ),
            key=lambda part: part[:2],
        )
        if parts:
            found.append(
                Closing(model, from_ms, to_ms, pane_ms, Panes.of(names, Cells.joined(parts).summed(), kept_sketches))
            )
        end_ms = from_ms
    yield from reversed(found)


def _by_width(
    connection: sa.Connection, table: str, column: str, partition: int, model: str
) -> Mapping[int, Sequence[Any]]:
    names = [sa.column(name, Name()) for name in ("model", "version", "segment")]
    numbers: list[sa.ColumnClause[Any]] = [sa.column(name) for name in ("partition", "slide_ms", "start_ms", column)]
    of = sa.table(table, *names, *numbers)
    rows = connection.execute(
        sa.select(of.c.slide_ms, of.c.start_ms, of.c.version, of.c.segment, of.c[column].label("data")).where(
            of.c.partition == partition, of.c.model == model
        )
    )
    by_width = defaultdict(list)
    for row in rows:
        by_width[row.slide_ms].append(row)
    return by_width


def _cells(pane: Any, series: int) -> Cells:
    table = GridTable.from_bytes(pane.data)
    size = table.cell.size
    return Cells(np.full(size, series), np.full(size, pane.start_ms), table.cell, table.values)
