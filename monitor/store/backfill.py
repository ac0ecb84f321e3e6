"""Closings of past predictions, which no partition of the log has read.

They are those of a partition of their own. A model's backfill ends at a time: for the log's partitions, earlier
predictions are late, so no prediction is counted twice.
"""

import json
from collections.abc import Sequence
from typing import Final

import sqlalchemy as sa

from monitor.errors import Conflict
from monitor.events.times import format_time
from monitor.store import closings
from monitor.store.base import BACKFILL
from monitor.store.closing import Closing
from monitor.store.database import Database
from monitor.store.schema import CLOSINGS, META, MODELS, PARTITIONS

_PREFIX: Final = "backfill/"


def save(database: Database, batch: str, parts: Sequence[Closing]) -> None:
    """Save the closings of one model, all or none.

    A batch that is saved again replaces what it saved before, so a repeated backfill changes nothing. The owners of
    partitions claim them again: what they have read and not saved is read anew, by the rules that hold from now on.

    Parameters
    ----------
    batch
        Name of the batch.
    parts
        At least one, of one model, of consecutive times.

    Raises
    ------
    Conflict
        The times overlap those of another batch, or the log's partitions hold such predictions or may still get them.
    StoreUnavailable
        The database does not answer.
    """
    model, from_ms, to_ms = parts[0].model, parts[0].from_ms, parts[-1].to_ms
    with database.writing() as connection:
        connection.execute(sa.update(PARTITIONS).values(epoch=PARTITIONS.c.epoch + 1))
        spans = _spans(connection, model)
        earlier = spans.pop(batch, None)
        for other, (start_ms, end_ms) in spans.items():
            if start_ms < to_ms and from_ms < end_ms:
                raise Conflict(
                    f"{model}: the backfill {other!r} holds predictions from {format_time(start_ms)} to "
                    f"{format_time(end_ms)}: leave them out, or repeat that batch under its name to replace it"
                )
        _check_log(connection, model, to_ms)
        if earlier is not None:
            replaced = (CLOSINGS.c.from_ms >= earlier[0]) & (CLOSINGS.c.to_ms <= earlier[1])
            connection.execute(
                sa.delete(CLOSINGS).where(CLOSINGS.c.partition == BACKFILL, CLOSINGS.c.model == model, replaced)
            )
        now_ms = database.clock.now_ms()
        zeros = dict.fromkeys(("epoch", "next_sequence", "dead_letters_pruned"), 0)
        insert = database.insert(PARTITIONS).on_conflict_do_nothing(index_elements=["partition"])
        connection.execute(insert, [{"partition": BACKFILL, "saved_ms": now_ms, **zeros}])
        closings.append(connection, BACKFILL, parts)
        connection.execute(database.upsert(META), [{"key": _key(batch, model), "value": json.dumps([from_ms, to_ms])}])
        _move_clock(connection, database, model, to_ms, now_ms)


def _key(batch: str, model: str) -> str:
    return _PREFIX + json.dumps([model, batch])


def _spans(connection: sa.Connection, model: str) -> dict[str, tuple[int, int]]:
    """Batch -> the times of its closings of a model."""
    spans = {}
    rows = connection.execute(sa.select(META).where(META.c.key.startswith(_PREFIX, autoescape=True)))
    for key, value in rows:
        of_model, batch = json.loads(key.removeprefix(_PREFIX))
        if of_model == model:
            spans[batch] = tuple(json.loads(value))
    return spans


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


def _move_clock(connection: sa.Connection, database: Database, model: str, to_ms: int, now_ms: int) -> None:
    """Note that the model is closed up to a time, or to a later one where it was."""
    of_backfill = MODELS.c.partition == BACKFILL
    known = connection.execute(
        sa.select(MODELS.c.model_id, MODELS.c.closed_to_ms).where(of_backfill, MODELS.c.name == model)
    ).one_or_none()
    if known is None:
        last = connection.execute(sa.select(sa.func.max(MODELS.c.model_id)).where(of_backfill)).scalar()
        number = 0 if last is None else last + 1
    else:
        number, to_ms = known.model_id, max(to_ms, known.closed_to_ms)
    row = {
        "partition": BACKFILL,
        "model_id": number,
        "name": model,
        "prediction_watermark_ms": to_ms - 1,
        "outcome_watermark_ms": to_ms - 1,
        "closed_to_ms": to_ms,
        "awaits_outcomes": 1,
        "saved_ms": now_ms,
    }
    connection.execute(database.upsert(MODELS), [row])
