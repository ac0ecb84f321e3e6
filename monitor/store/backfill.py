"""Closings of past predictions, which no partition of the log has read.

They are those of a partition of their own. A model's backfill ends at a time: for the log's partitions, earlier
predictions are late, so no prediction is counted twice.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np
import sqlalchemy as sa

from monitor.errors import Conflict
from monitor.events.model import SeriesKey
from monitor.events.times import format_time
from monitor.store import closings, history
from monitor.store.base import BACKFILL
from monitor.store.closing import Closing, OldPanes, Panes
from monitor.store.database import Database
from monitor.store.schema import CLOSINGS, META, MODELS, PARTITIONS

_PREFIX: Final = "backfill/"

Span = tuple[int, int]
"""[from, to), milliseconds since the epoch."""


def save(
    database: Database, batch: str, parts: Sequence[Closing], *, to_ms: int | None = None, replace: bool = False
) -> None:
    """Save the closings of one model, all or none.

    A batch that is saved again replaces what it saved before, so a repeated backfill changes nothing. The owners of
    partitions claim them again: what they have read and not saved is read anew, by the rules that hold from now on.
    Running services read the closings of the model again, as the time of the backfill's clock has changed.

    Parameters
    ----------
    batch
        Name of the batch.
    parts
        At least one, of one model, of consecutive times.
    to_ms
        Where the backfill ends, if that is after the last of them.
    replace
        Whether what other batches hold of these times is removed.

    Raises
    ------
    Conflict
        The times overlap those of another batch and are not to be replaced, or end within one of its panes; or the
        log's partitions hold such predictions or may still get them.
    StoreUnavailable
        The database does not answer.
    """
    model, from_ms = parts[0].model, parts[0].from_ms
    to_ms = max(parts[-1].to_ms, to_ms or 0)
    with database.writing() as connection:
        connection.execute(sa.update(PARTITIONS).values(epoch=PARTITIONS.c.epoch + 1))
        spans = _spans(connection, model)
        earlier = spans.pop(batch, [])
        _check_log(connection, model, to_ms)
        for span in earlier:
            _remove(connection, model, *span)
        for other, of_other in spans.items():
            for start_ms, end_ms in of_other:
                if start_ms < to_ms and from_ms < end_ms and not replace:
                    raise Conflict(
                        f"{model}: the backfill {other!r} holds predictions from {format_time(start_ms)} to "
                        f"{format_time(end_ms)}: leave them out, repeat that batch under its name to replace it, or "
                        "add --replace to replace what it holds of these times"
                    )
            left = [part for span in of_other for part in _outside(span, from_ms, to_ms)]
            if left != of_other:
                _write_spans(connection, database, other, model, left)
        _remove(connection, model, from_ms, to_ms)
        _insert(connection, database, parts)
        _write_spans(connection, database, batch, model, [(from_ms, to_ms)])
        _move_clock(connection, database, model, to_ms)


def append(
    database: Database,
    batch: str,
    parts: Sequence[Closing],
    *,
    to_ms: int,
    points: Iterable[Mapping[SeriesKey, history.Points]],
    old: Iterable[OldPanes],
) -> None:
    """Save closings that begin where the backfills of their model end, with the history that they give, all or none.

    What the batch saved before stays. Running services read what is new, as from a partition of the log, and evidence
    goes on with it.

    Parameters
    ----------
    batch
        Name of the batch.
    parts
        At least one, of one model, of consecutive times.
    to_ms
        Up to when the model is backfilled from now on.
    points
        What is added to the history.
    old
        Panes that windows no longer need as narrow as they are.

    Raises
    ------
    Conflict
        Another backfill has moved on meanwhile; or the log's partitions hold such predictions or may still get them.
    StoreUnavailable
        The database does not answer.
    """
    model, from_ms = parts[0].model, parts[0].from_ms
    with database.writing() as connection:
        connection.execute(sa.update(PARTITIONS).values(epoch=PARTITIONS.c.epoch + 1))
        end_ms = _end_ms(connection, model)
        if end_ms is not None and end_ms != from_ms:
            raise Conflict(
                f"{model}: another backfill has reached {format_time(end_ms)} meanwhile, and this one began at "
                f"{format_time(from_ms)}: repeat it"
            )
        _check_log(connection, model, to_ms)
        _insert(connection, database, parts)
        closings.retire(connection, BACKFILL, old)
        spans = _spans(connection, model).get(batch, [])
        if spans and spans[-1][1] == from_ms:
            from_ms = spans.pop()[0]
        _write_spans(connection, database, batch, model, [*spans, (from_ms, to_ms)])
        for of_series in points:
            history.append(connection, of_series)
        _move_clock(connection, database, model, to_ms, goes_on=True)


def end_ms(database: Database, model: str) -> int | None:
    """The time at which the backfills of a model end; None if there are none. Raises StoreUnavailable."""
    with database.reading() as connection:
        return _end_ms(connection, model)


def read(database: Database, model: str, from_ms: int, to_ms: int) -> list[Closing]:
    """The backfilled closings of a model that end in (from, to], in order. Raises StoreUnavailable, DamagedStore."""
    of_model = (CLOSINGS.c.partition == BACKFILL) & (CLOSINGS.c.model == model)
    within = (CLOSINGS.c.to_ms > from_ms) & (CLOSINGS.c.to_ms <= to_ms)
    stored = sa.select(CLOSINGS.c.cells, CLOSINGS.c.sketches).where(of_model, within).order_by(CLOSINGS.c.to_ms)
    return [Closing.from_bytes(*row) for row in database.rows(stored)]


def _end_ms(connection: sa.Connection, model: str) -> int | None:
    clock = sa.select(MODELS.c.closed_to_ms).where(MODELS.c.partition == BACKFILL, MODELS.c.name == model)
    return connection.execute(clock).scalar()


def _insert(connection: sa.Connection, database: Database, parts: Sequence[Closing]) -> None:
    zeros = dict.fromkeys(("epoch", "next_sequence", "dead_letters_pruned"), 0)
    insert = database.insert(PARTITIONS).on_conflict_do_nothing(index_elements=["partition"])
    row = {"partition": BACKFILL, "read_to_ms": -1, "saved_ms": database.clock.now_ms(), **zeros}
    connection.execute(insert, [row])
    closings.append(connection, BACKFILL, parts)


def _key(batch: str, model: str) -> str:
    return _PREFIX + json.dumps([model, batch])


def _spans(connection: sa.Connection, model: str) -> dict[str, list[Span]]:
    """Batch -> the spans of its closings of a model."""
    spans = {}
    rows = connection.execute(sa.select(META).where(META.c.key.startswith(_PREFIX, autoescape=True)))
    for key, value in rows:
        of_model, batch = json.loads(key.removeprefix(_PREFIX))
        if of_model == model:
            spans[batch] = [(start_ms, end_ms) for start_ms, end_ms in json.loads(value)]
    return spans


def _write_spans(connection: sa.Connection, database: Database, batch: str, model: str, spans: list[Span]) -> None:
    key = _key(batch, model)
    if spans:
        connection.execute(database.upsert(META), [{"key": key, "value": json.dumps(spans)}])
    else:
        connection.execute(sa.delete(META).where(META.c.key == key))


def _outside(span: Span, from_ms: int, to_ms: int) -> list[Span]:
    """The parts of a span before and after [from, to)."""
    start_ms, end_ms = span
    parts = [(start_ms, min(end_ms, from_ms)), (max(start_ms, to_ms), end_ms)]
    return [(first_ms, last_ms) for first_ms, last_ms in parts if first_ms < last_ms]


def _remove(connection: sa.Connection, model: str, from_ms: int, to_ms: int) -> None:
    """Remove the backfilled panes of a model in [from, to).

    Raises
    ------
    Conflict
        A pane is only in part in there.
    """
    of_model = (CLOSINGS.c.partition == BACKFILL) & (CLOSINGS.c.model == model)
    overlaps = of_model & (CLOSINGS.c.from_ms < to_ms) & (CLOSINGS.c.to_ms > from_ms)
    rows = connection.execute(sa.select(CLOSINGS.c.cells, CLOSINGS.c.sketches).where(overlaps)).all()
    connection.execute(sa.delete(CLOSINGS).where(overlaps))
    for closing in (Closing.from_bytes(*row) for row in rows):
        cells, width_ms = closing.panes.cells, closing.pane_ms
        for first_ms, last_ms in _outside((closing.from_ms, closing.to_ms), from_ms, to_ms):
            at_ms = first_ms if first_ms == to_ms else last_ms
            begin_ms = at_ms - at_ms % width_ms
            if begin_ms < at_ms and at_ms not in {closing.from_ms, closing.to_ms}:
                raise Conflict(
                    f"{model}: what is backfilled there has panes of {width_ms // 1000} s, and {format_time(at_ms)} is "
                    f"within one: end this backfill at {format_time(begin_ms)} or {format_time(begin_ms + width_ms)}, "
                    "with --to"
                )
            kept = cells.take(np.flatnonzero((cells.start_ms >= first_ms) & (cells.start_ms < last_ms)))
            part = Closing(model, first_ms, last_ms, width_ms, Panes.of(closing.panes.names, kept))
            closings.append(connection, BACKFILL, [part])


def _check_log(connection: sa.Connection, model: str, to_ms: int) -> None:
    """Raise Conflict if a partition of the log has predictions from before a time, or may still accept some."""
    of_log = (MODELS.c.partition != BACKFILL) & (MODELS.c.name == model)
    for partition, closed_ms in connection.execute(sa.select(MODELS.c.partition, MODELS.c.closed_to_ms).where(of_log)):
        first_ms = _first_pane_ms(connection, partition, model)
        if closed_ms < to_ms or (first_ms is not None and first_ms < to_ms):
            since = "" if first_ms is None else f" from {format_time(first_ms)} on"
            raise Conflict(
                f"{model}: the service has read predictions{since} from partition {partition} of its log, and the "
                f"backfill reaches to {format_time(to_ms)}: end it before the service's first prediction, with --to"
            )


def _first_pane_ms(connection: sa.Connection, partition: int, model: str) -> int | None:
    """Start of the first pane of a model that a partition has closed; None if there is none."""
    rows = (
        sa.select(CLOSINGS.c.cells)
        .where(CLOSINGS.c.partition == partition, CLOSINGS.c.model == model)
        .order_by(CLOSINGS.c.to_ms)
    )
    for (cells,) in connection.execute(rows):
        start_ms = Closing.from_bytes(cells).panes.cells.start_ms
        if start_ms.size:
            return int(start_ms.min())
    return None


def _move_clock(
    connection: sa.Connection, database: Database, model: str, to_ms: int, *, goes_on: bool = False
) -> None:
    """Note that the model is closed up to a time, or to a later one where it was."""
    now_ms = database.clock.now_ms()
    saved = sa.select(MODELS.c.closed_to_ms, MODELS.c.saved_ms)
    earlier = connection.execute(saved.where(MODELS.c.partition == BACKFILL, MODELS.c.name == model)).one_or_none()
    if earlier is not None:
        to_ms = max(to_ms, earlier.closed_to_ms)
        # Services tell by this time that there was another backfill; what goes on from it is new to them anyway.
        now_ms = earlier.saved_ms if goes_on else max(now_ms, earlier.saved_ms + 1)
    row = {
        "partition": BACKFILL,
        "name": model,
        "prediction_watermark_ms": to_ms - 1,
        "outcome_watermark_ms": to_ms - 1,
        "closed_to_ms": to_ms,
        "awaits_outcomes": 1,
        "saved_ms": now_ms,
    }
    connection.execute(database.upsert(MODELS), [row])
