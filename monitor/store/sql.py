"""The store in SQLite or PostgreSQL."""

from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

import msgspec
import sqlalchemy as sa

from monitor.clock import Clock, SystemClock
from monitor.errors import FencedOut, StoreError
from monitor.events.model import Stratum
from monitor.store import audit, journal, letters, panes, samples
from monitor.store.address import connect
from monitor.store.base import (
    CandidateBatch,
    Checkpoint,
    ClosedPane,
    ClosedSketch,
    JournalBatch,
    ModelState,
    PartitionState,
    StoredDeadLetter,
)
from monitor.store.database import Database
from monitor.store.migrate import migrate
from monitor.store.recalibrations import AuditEntry, Sample
from monitor.store.schema import CLOSED_SAMPLES, COUNTERS, MODELS, OFFSETS, PARTITIONS, STRATA
from monitor.store.streams import Snapshot, Stream

_segments_from_json: Final = msgspec.json.Decoder(tuple[tuple[str, str], ...])


class SqlStore:
    """Partitions and dead letters in an SQL database: a StateStore and a DeadLetterStore.

    One SQLite file may be shared by several processes of one machine; epochs keep them apart as they keep apart the
    replicas on one PostgreSQL.
    """

    def __init__(self, database: Database, dead_letter_limit: int) -> None:
        self._database = database
        self._dead_letter_limit = dead_letter_limit
        self._in_doubt: dict[int, _InDoubt] = {}
        """By partition."""

    @classmethod
    def open(
        cls,
        url: str,
        *,
        dead_letter_limit: int = 100_000,
        patience_seconds: float = 10.0,
        clock: Clock | None = None,
    ) -> Self:
        """Open a store, and create it if there is none.

        Parameters
        ----------
        url
            ``sqlite:///folder/monitor.db`` or ``postgresql://user:password@host/database``.
        dead_letter_limit
            As many dead letters are kept; beyond them the oldest go.
        patience_seconds
            How long to wait for another process's lock.
        clock
            Tells when a dead letter was stored.

        Raises
        ------
        SettingsError
            The URL is wrong, the file cannot be written, or the driver is not installed.
        StoreUnavailable
            The database does not answer.
        IncompatibleStore
            The store is of another schema revision or grid.
        """
        database = connect(url, patience_seconds, clock or SystemClock())
        try:
            migrate(database)
        except BaseException:
            database.close()
            raise
        return cls(database, dead_letter_limit)

    @property
    def database(self) -> Database:
        """The database, for what else is kept in it. It is closed with the store."""
        return self._database

    def close(self) -> None:
        """Release the connections."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def claim(self, partition: int, still_assigned: Callable[[], bool] = lambda: True) -> int:
        """Become the partition's owner: its epoch is raised, and what an earlier owner would save is refused.

        The epoch is read first, then ``still_assigned`` is called, and the epoch is raised only if it is still the one
        that was read: see :meth:`monitor.store.base.StateStore.claim`.

        Raises
        ------
        FencedOut
            It is assigned to another process, or another process has claimed it meanwhile.
        StoreUnavailable
            The database does not answer. Whether the partition was claimed is not known: claim it anew.
        """
        epoch_of = sa.select(PARTITIONS.c.epoch).where(PARTITIONS.c.partition == partition)
        with self._database.reading() as connection:
            before: int = connection.execute(epoch_of).scalar_one_or_none() or 0
        if not still_assigned():
            raise FencedOut(f"partition {partition} is not claimed: it is assigned to another process, or about to be")
        statement = self._database.insert(PARTITIONS).values(
            partition=partition, epoch=before + 1, next_sequence=0, dead_letters_pruned=0
        )
        with self._database.writing() as connection:
            claimed: int | None = connection.execute(
                statement.on_conflict_do_update(
                    index_elements=["partition"],
                    set_={"epoch": PARTITIONS.c.epoch + 1},
                    where=PARTITIONS.c.epoch == before,
                ).returning(PARTITIONS.c.epoch)
            ).scalar_one_or_none()
        if claimed is None:
            raise FencedOut(
                f"partition {partition} is not claimed: another process has claimed it after epoch {before}"
            )
        self._in_doubt.pop(partition, None)
        return claimed

    def load(self, partition: int) -> PartitionState:
        """The state as of the last checkpoint; empty if there was none.

        The streams read from one snapshot of the database, which is held until all of them are exhausted, closed (each
        has a ``close``) or forgotten. Within a bucket the batches come in the order in which they were saved; where
        batches of a bucket were merged, they stand in the first one's place.
        """
        connection = self._database.snapshot()
        snapshot = Snapshot(connection, streams=4)
        try:
            with self._database.translated():
                return PartitionState(
                    offsets=_mapping(connection, OFFSETS, partition, "topic", "next_offset"),
                    models=_models(connection, partition),
                    strata=_strata(connection, partition),
                    counters=_counters(connection, partition),
                    journal=Stream[JournalBatch](journal.read(self._database, connection, partition), snapshot),
                    panes=Stream[ClosedPane](
                        (ClosedPane(*pane) for pane in panes.TABLES.read(self._database, connection, partition)),
                        snapshot,
                    ),
                    sketches=Stream[ClosedSketch](
                        (ClosedSketch(*pane) for pane in panes.SKETCHES.read(self._database, connection, partition)),
                        snapshot,
                    ),
                    candidates=Stream[CandidateBatch](
                        samples.read_candidates(self._database, connection, partition), snapshot
                    ),
                )
        except BaseException:
            connection.close()
            raise

    def save(self, checkpoints: Sequence[Checkpoint]) -> None:
        """Save all of these, or none.

        Batches and dead letters are of the time before the drop: a batch of a bucket that the same checkpoint drops
        is not kept. After StoreUnavailable, call again with the same checkpoints: if the lost answer was that of a
        COMMIT, that is found out, and nothing is saved twice. One checkpoint a partition.

        Raises
        ------
        FencedOut
            Another process has claimed one of the partitions since. Names it.
        StoreUnavailable
            The database does not answer.
        StoreError
            A save whose answer was lost took place after all, but this is another checkpoint: its events would be
            counted twice. Claim and load the partition anew.
        """
        # In one order everywhere, so that two savers never wait for each other.
        ordered = sorted(checkpoints, key=lambda checkpoint: checkpoint.partition)
        if len({checkpoint.partition for checkpoint in ordered}) < len(ordered):
            raise ValueError("one save takes one checkpoint a partition")
        # Before the lock is taken, which keeps other writers waiting.
        encoded = [samples.encode_closed(self._database, each.partition, each.closed_samples) for each in ordered]
        saving: dict[int, _InDoubt] = {}
        committing = False
        try:
            with self._database.writing() as connection:
                for checkpoint, closed in zip(ordered, encoded, strict=True):
                    if self._took_place(connection, checkpoint):
                        continue
                    next_sequence = self._save(connection, checkpoint, closed)
                    saving[checkpoint.partition] = _InDoubt(checkpoint, next_sequence)
                committing = True
        except BaseException:
            if committing:
                self._in_doubt.update(saving)
            raise
        for checkpoint in checkpoints:
            self._in_doubt.pop(checkpoint.partition, None)

    def saved_offsets(self) -> Mapping[tuple[str, int], int]:
        """(topic, partition) -> the offset up to which it is read and saved, whichever process owns it. Any thread.

        Raises
        ------
        StoreUnavailable
            The database does not answer.
        """
        with self._database.reading() as connection:
            rows = connection.execute(sa.select(OFFSETS.c.topic, OFFSETS.c.partition, OFFSETS.c.next_offset))
            return {(row.topic, row.partition): row.next_offset for row in rows}

    def dead_letters(
        self, *, after: int = 0, limit: int = 100, reason: str | None = None
    ) -> Sequence[StoredDeadLetter]:
        """Letters with a number greater than ``after``, ascending, at most ``limit``."""
        with self._database.reading() as connection:
            return letters.page(connection, after, limit, reason)

    def count_dead_letters(self) -> Mapping[str, int]:
        """Number of stored letters by reason."""
        with self._database.reading() as connection:
            return letters.count(connection)

    def remove_dead_letters(self, numbers: Sequence[int], *, entry: AuditEntry | None = None) -> None:
        """Remove these, after they were replayed or discarded, and append ``entry`` to the audit trail with that."""
        with self._database.writing() as connection:
            letters.remove(connection, numbers)
            if entry is not None:
                audit.take_turn(self._database, connection)
                audit.append(connection, [entry])

    def pruned_dead_letters(self) -> int:
        """Number of letters that ever went because there were more than the limit."""
        with self._database.reading() as connection:
            return int(connection.execute(sa.select(sa.func.sum(PARTITIONS.c.dead_letters_pruned))).scalar_one() or 0)

    def read_sample(
        self, model: str, version: str, *, from_ms: int = 0, to_ms: int | None = None, limit: int | None = None
    ) -> Sample:
        """Events of [from, to) by the time of their prediction, whose outcome can change no more.

        Of all partitions in the store, also those that other processes hold. Any thread.

        Parameters
        ----------
        limit
            At most so many events: a deterministic, stratified part of what there is.

        Raises
        ------
        StoreUnavailable
            The database does not answer.
        DamagedStore
            A stored sample cannot be read.
        """
        return samples.read_sample(self._database, model, version, from_ms=from_ms, to_ms=to_ms, limit=limit)

    def _took_place(self, connection: sa.Connection, checkpoint: Checkpoint) -> bool:
        """Whether this checkpoint is stored already, by a save that ended in doubt."""
        earlier = self._in_doubt.get(checkpoint.partition)
        if earlier is None:
            return False
        reached = connection.execute(
            sa.select(PARTITIONS.c.next_sequence).where(
                PARTITIONS.c.partition == checkpoint.partition, PARTITIONS.c.epoch == checkpoint.epoch
            )
        ).scalar_one_or_none()
        if reached is None or reached < earlier.next_sequence:
            return False
        if checkpoint == earlier.checkpoint:
            return True
        raise StoreError(
            f"partition {checkpoint.partition}: the checkpoint whose confirmation was lost is stored after all, and"
            " this other one would count its events twice: claim and load the partition anew"
        )

    def _save(self, connection: sa.Connection, checkpoint: Checkpoint, closed: Sequence[samples.EncodedSample]) -> int:
        partition = checkpoint.partition
        dropped = set(checkpoint.dropped)
        batches = [
            (batch.bucket, piece)
            for batch in checkpoint.journal
            if batch.bucket not in dropped
            for piece in journal.pieces(batch.rows)
        ]
        candidates = [batch for batch in checkpoint.candidates if batch.bucket not in dropped]
        next_sequence = _lock(connection, checkpoint, len(batches) + len(candidates) + 2)

        _upsert(
            self._database,
            connection,
            OFFSETS,
            ["partition", "topic"],
            [
                {"partition": partition, "topic": topic, "next_offset": offset}
                for topic, offset in checkpoint.offsets.items()
            ],
        )
        _upsert(
            self._database,
            connection,
            MODELS,
            ["partition", "model_id"],
            [
                {"partition": partition, "model_id": model_id, **model._asdict()}
                for model_id, model in enumerate(checkpoint.models)
            ],
        )
        if checkpoint.new_strata:
            connection.execute(
                sa.insert(STRATA),
                [
                    {
                        "partition": partition,
                        "stratum_id": stratum_id,
                        "model": stratum.model,
                        "version": stratum.version,
                        "segments": msgspec.json.encode(stratum.segments).decode(),
                    }
                    for stratum_id, stratum in enumerate(checkpoint.new_strata, checkpoint.first_stratum)
                ],
            )
        _upsert(
            self._database,
            connection,
            COUNTERS,
            ["partition", "type", "result"],
            [
                {"partition": partition, "type": kind, "result": result, "events": events}
                for (kind, result), events in checkpoint.counters.items()
            ],
        )

        journal.append(connection, partition, next_sequence - len(batches), batches)
        first_candidate = next_sequence - len(batches) - len(candidates)
        samples.drop_candidates(connection, partition, checkpoint.dropped)
        samples.append_candidates(connection, partition, first_candidate, candidates)
        journal.drop(connection, partition, checkpoint.dropped)
        journal.compact(connection, partition, {bucket for bucket, _ in batches})
        panes.TABLES.add(self._database, connection, partition, checkpoint.closed)
        panes.SKETCHES.add(self._database, connection, partition, checkpoint.closed_sketches)
        samples.append_closed(connection, partition, first_candidate - 1, closed)
        for kind in (panes.TABLES, panes.SKETCHES):
            panes.expire(connection, kind.table, partition, checkpoint.expired_before_ms)
        panes.expire(connection, CLOSED_SAMPLES, partition, checkpoint.expired_samples_before_ms)
        self._save_dead_letters(connection, checkpoint)
        return next_sequence

    def _save_dead_letters(self, connection: sa.Connection, checkpoint: Checkpoint) -> None:
        if not checkpoint.dead_letters:
            return
        letters.add(self._database, connection, checkpoint.dead_letters, self._database.clock.now_ms())
        pruned = letters.prune(connection, self._dead_letter_limit)
        if pruned:
            connection.execute(
                sa.update(PARTITIONS)
                .where(PARTITIONS.c.partition == checkpoint.partition)
                .values(dead_letters_pruned=PARTITIONS.c.dead_letters_pruned + pruned)
            )


class _InDoubt(NamedTuple):
    """A save whose COMMIT was not answered, and the partition's next sequence number if it took place."""

    checkpoint: Checkpoint
    next_sequence: int


def _lock(connection: sa.Connection, checkpoint: Checkpoint, numbers: int) -> int:
    """Take the partition for this transaction, and that many sequence numbers; its next number from then on."""
    is_partition = PARTITIONS.c.partition == checkpoint.partition
    next_sequence: int | None = connection.execute(
        sa.update(PARTITIONS)
        .where(is_partition, PARTITIONS.c.epoch == checkpoint.epoch)
        .values(next_sequence=PARTITIONS.c.next_sequence + numbers)
        .returning(PARTITIONS.c.next_sequence)
    ).scalar_one_or_none()
    if next_sequence is None:
        epoch = connection.execute(sa.select(PARTITIONS.c.epoch).where(is_partition)).scalar_one_or_none()
        raise FencedOut(
            f"partition {checkpoint.partition} was claimed under epoch {checkpoint.epoch}, its epoch now is {epoch}:"
            " another process owns it"
        )
    return next_sequence


def _upsert(
    database: Database, connection: sa.Connection, table: sa.Table, key: list[str], rows: list[dict[str, Any]]
) -> None:
    if rows:
        insert = database.insert(table)
        others = {column.name: insert.excluded[column.name] for column in table.c if column.name not in key}
        connection.execute(insert.on_conflict_do_update(index_elements=key, set_=others), rows)


def _mapping(connection: sa.Connection, table: sa.Table, partition: int, key: str, value: str) -> dict[Any, Any]:
    rows = connection.execute(sa.select(table.c[key], table.c[value]).where(table.c.partition == partition))
    return {key: value for key, value in rows}  # noqa: C416 - a row is no pair to the type checker


def _models(connection: sa.Connection, partition: int) -> list[ModelState]:
    # The columns are called as the fields are.
    columns = [MODELS.c[name] for name in ModelState._fields]
    rows = connection.execute(sa.select(*columns).where(MODELS.c.partition == partition).order_by(MODELS.c.model_id))
    return [ModelState(*row) for row in rows]


def _strata(connection: sa.Connection, partition: int) -> list[Stratum]:
    columns = STRATA.c.model, STRATA.c.version, STRATA.c.segments
    rows = connection.execute(sa.select(*columns).where(STRATA.c.partition == partition).order_by(STRATA.c.stratum_id))
    return [Stratum(model, version, _segments_from_json.decode(segments)) for model, version, segments in rows]


def _counters(connection: sa.Connection, partition: int) -> dict[tuple[str, str], int]:
    rows = connection.execute(sa.select(COUNTERS).where(COUNTERS.c.partition == partition))
    return {(row.type, row.result): row.events for row in rows}
