"""Closed panes and their sketches in the database, each the sum of what dropped buckets added to it."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

import sqlalchemy as sa

from monitor.classes.sketch import SkceSketch
from monitor.events.model import SeriesKey
from monitor.scores import GridTable
from monitor.store.base import PaneKey
from monitor.store.database import Database
from monitor.store.schema import CLOSED_PANES, CLOSED_SKETCHES

T = TypeVar("T")

_KEY: Final = ("model", "slide_ms", "start_ms", "version", "segment")
_KEYS_A_STATEMENT: Final = 500
_PANES_A_FETCH: Final = 500


@dataclass(frozen=True, slots=True)
class ClosedParts(Generic[T]):
    """Table of one kind of data of closed panes.

    Attributes
    ----------
    table, column
        Table and column of the data.
    to_bytes, from_bytes
        Encoding of the data.
    sum
        Adds the parts of one pane, the newest first.
    """

    table: sa.Table
    column: str
    to_bytes: Callable[[T], bytes]
    from_bytes: Callable[[bytes], T]
    sum: Callable[[Sequence[T]], T]

    def add(
        self, database: Database, connection: sa.Connection, partition: int, closed: Iterable[tuple[PaneKey, T]]
    ) -> None:
        """Add parts to the stored panes."""
        parts: dict[PaneKey, list[T]] = {}
        for key, part in closed:
            parts.setdefault(key, []).append(part)
        if not parts:
            return
        for key, stored in self._stored(connection, partition, list(parts)):
            parts[key].append(stored)
        insert = database.insert(self.table)
        connection.execute(
            insert.on_conflict_do_update(
                index_elements=["partition", *_KEY], set_={self.column: insert.excluded[self.column]}
            ),
            [
                {
                    "partition": partition,
                    **dict(zip(_KEY, _columns(key), strict=True)),
                    self.column: self.to_bytes(pane_parts[0] if len(pane_parts) == 1 else self.sum(pane_parts)),
                }
                for key, pane_parts in parts.items()
            ],
        )

    def read(self, database: Database, connection: sa.Connection, partition: int) -> Iterator[tuple[PaneKey, T]]:
        """Yield all panes of a partition, in the order of the keys."""
        statement = self._select().where(self.table.c.partition == partition).order_by(*self._key_columns())
        with database.stream(connection, statement, _PANES_A_FETCH) as result:
            yield from map(self._part, result)

    def _stored(
        self, connection: sa.Connection, partition: int, keys: Sequence[PaneKey]
    ) -> Iterator[tuple[PaneKey, T]]:
        for at in range(0, len(keys), _KEYS_A_STATEMENT):
            rows = connection.execute(
                self._select().where(
                    self.table.c.partition == partition,
                    sa.tuple_(*self._key_columns()).in_([_columns(key) for key in keys[at : at + _KEYS_A_STATEMENT]]),
                )
            )
            yield from map(self._part, rows)

    def _select(self) -> sa.Select[Any]:
        return sa.select(*self._key_columns(), self.table.c[self.column])

    def _key_columns(self) -> list[sa.Column[Any]]:
        return [self.table.c[name] for name in _KEY]

    def _part(self, row: Any) -> tuple[PaneKey, T]:
        *key, data = row
        return _pane_key(*key), self.from_bytes(data)


def expire(
    connection: sa.Connection, table: sa.Table, partition: int, before_ms: Mapping[tuple[str, int], int]
) -> None:
    """Remove the panes of (model, slide) that start earlier, from a table with the key of panes."""
    if before_ms:
        connection.execute(
            sa.delete(table).where(
                table.c.partition == partition,
                table.c.model == sa.bindparam("expired_model"),
                table.c.slide_ms == sa.bindparam("expired_slide_ms"),
                table.c.start_ms < sa.bindparam("before_ms"),
            ),
            [
                {"expired_model": model, "expired_slide_ms": slide_ms, "before_ms": start_ms}
                for (model, slide_ms), start_ms in before_ms.items()
            ],
        )


def _columns(key: PaneKey) -> tuple[str, int, int, str, str]:
    return (key.series.model, key.slide_ms, key.start_ms, key.series.version, key.series.segment)


def _pane_key(model: str, slide_ms: int, start_ms: int, version: str, segment: str) -> PaneKey:
    return PaneKey(slide_ms, start_ms, SeriesKey(model, version, segment))


def _sum_of_newest(sketches: Sequence[SkceSketch]) -> SkceSketch:
    """The sum of those with the newest plan; sketches of an earlier declaration cannot be added."""
    total = SkceSketch.zero(sketches[0].plan)
    for sketch in sketches:
        if sketch.plan == total.plan:
            total += sketch
    return total


TABLES: Final = ClosedParts(CLOSED_PANES, "grid_table", GridTable.to_bytes, GridTable.from_bytes, GridTable.sum)
"""The panes' score tables."""

SKETCHES: Final = ClosedParts(CLOSED_SKETCHES, "sketch", SkceSketch.to_bytes, SkceSketch.from_bytes, _sum_of_newest)
"""The sketches of those that have one."""
