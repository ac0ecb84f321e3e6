"""The store in SQLite or PostgreSQL."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, NamedTuple, Self, cast

import msgspec
import sqlalchemy as sa

from monitor.clock import Clock
from monitor.errors import DamagedStore, FencedOut, StoreError
from monitor.events.model import DeadLetter, Reason, Stratum
from monitor.events.strata import Cap
from monitor.store import audit, closings, evidence, journal, samples
from monitor.store.address import connect
from monitor.store.base import (
    BACKFILL,
    CandidateBatch,
    CapUse,
    CapUses,
    Checkpoint,
    JournalBatch,
    ModelClock,
    ModelState,
    PartitionClock,
    PartitionState,
    SavedStratum,
    StoredDeadLetter,
)
from monitor.store.caps import join_cap_uses
from monitor.store.closing import Closing, Panes
from monitor.store.database import Database, SharedConnection, Stream, chunks
from monitor.store.migrate import migrate
from monitor.store.recalibrations import AuditEntry, Sample
from monitor.store.schema import (
    CAPS,
    CLOSINGS,
    COUNTERS,
    DEAD_LETTERS,
    JOURNAL,
    META,
    MODELS,
    OFFSETS,
    PARTITIONS,
    SAMPLE_CANDIDATES,
    STRATA,
    UNSETTLED,
)

_TOPIC_ID: Final = "topic_id/"
_IS_READ: Final = PARTITIONS.c.partition != BACKFILL
_segments_from_json: Final = msgspec.json.Decoder(tuple[tuple[str, str], ...])
_headers_from_bytes: Final = msgspec.msgpack.Decoder(tuple[tuple[str, bytes | None], ...])


class SqlStore:
    """Partitions, dead letters and samples in an SQL database.

    Several processes of one machine may share a SQLite file, as replicas share a PostgreSQL database: epochs keep them
    apart.
    """

    def __init__(self, database: Database, dead_letter_limit: int) -> None:
        self._database = database
        self._dead_letter_limit = dead_letter_limit
        self._unconfirmed: dict[int, _UnconfirmedSave] = {}
        """Saves whose commit is not confirmed, by partition."""

    @classmethod
    def open(
        cls,
        url: str,
        *,
        dead_letter_limit: int = 100_000,
        patience_seconds: float = 10.0,
        clock: Clock,
    ) -> Self:
        """Open a store, and create it if it is missing.

        Parameters
        ----------
        url
            ``sqlite:///folder/monitor.db`` or ``postgresql://user:password@host/database``.
        dead_letter_limit
            Number of dead letters that are kept; the oldest are removed.
        patience_seconds
            How long to wait for another process's lock.
        clock
            Times of dead letters.

        Raises
        ------
        SettingsError
            The URL is wrong, the file cannot be written, or the driver is not installed.
        StoreUnavailable
            The database does not answer.
        IncompatibleStore
            The store is of another schema revision or grid.
        """
        database = connect(url, patience_seconds, clock)
        try:
            migrate(database)
        except BaseException:
            database.close()
            raise
        return cls(database, dead_letter_limit)

    @property
    def database(self) -> Database:
        """The database, for other tables in it. It is closed with the store."""
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

    def register(self, partitions: Iterable[int]) -> None:
        """Make all partitions known before one of them is read: none of them may be overtaken by the settled edge.

        One that is added to those that are read counts as read as far as the one that is furthest behind: what it holds
        from before the settled edge is late.

        Raises
        ------
        StoreUnavailable
            The database does not answer.
        """
        statement = self._database.insert(PARTITIONS).on_conflict_do_nothing(index_elements=["partition"])
        new = {"epoch": 0, "next_sequence": 0, "dead_letters_pruned": 0, "saved_ms": self._database.clock.now_ms()}
        with self._database.writing() as connection:
            read_to_ms = connection.execute(sa.select(sa.func.min(PARTITIONS.c.read_to_ms)).where(_IS_READ)).scalar()
            new["read_to_ms"] = -1 if read_to_ms is None else read_to_ms
            connection.execute(statement, [{"partition": partition, **new} for partition in sorted(partitions)])

    def topic_ids(self) -> Mapping[str, str]:
        """The ids of the topics whose offsets are stored, as far as their log has ids.

        Raises
        ------
        StoreUnavailable
            The database does not answer.
        """
        rows = self._database.rows(sa.select(META).where(META.c.key.startswith(_TOPIC_ID)))
        return {row.key.removeprefix(_TOPIC_ID): row.value for row in rows}

    def note_topics(self, topic_ids: Mapping[str, str]) -> None:
        """Note the ids of topics, and forget the offsets of those that had another: they were made anew.

        Raises
        ------
        StoreUnavailable
            The database does not answer.
        """
        known = self.topic_ids()
        new = {topic: topic_id for topic, topic_id in topic_ids.items() if known.get(topic) != topic_id}
        if not new:
            return
        rows = [{"key": _TOPIC_ID + topic, "value": new[topic]} for topic in sorted(new)]
        with self._database.writing() as connection:
            connection.execute(self._database.upsert(META), rows)
            if made_anew := new.keys() & known.keys():
                connection.execute(sa.delete(OFFSETS).where(OFFSETS.c.topic.in_(made_anew)))
                # No replica that still reads the earlier topic may save its offsets.
                connection.execute(sa.update(PARTITIONS).values(epoch=PARTITIONS.c.epoch + 1))

    def claim(self, partition: int, still_assigned: Callable[[], bool] = lambda: True) -> int:
        """Become the partition's owner: raise its epoch, so that saves of an earlier owner are refused.

        The epoch is read first, then ``still_assigned`` is called, and the epoch is raised only if it is unchanged. So
        a claim that was delayed (by the database, or in a stopped process) fails if another process was assigned the
        partition meanwhile: either that one claimed it before the epoch was read, and then the assignment has changed;
        or it claims later, and then the epoch has changed.

        Parameters
        ----------
        partition
            Number of the partition.
        still_assigned
            Asks the group, not this process's memory, whether the partition is still assigned.

        Raises
        ------
        FencedOut
            It is assigned to another process, or another process has claimed it meanwhile.
        StoreUnavailable
            The database does not answer. It is unknown whether the partition was claimed: claim it again.
        """
        epoch_of = sa.select(PARTITIONS.c.epoch).where(PARTITIONS.c.partition == partition)
        with self._database.reading() as connection:
            before: int = connection.execute(epoch_of).scalar_one_or_none() or 0
        if not still_assigned():
            raise FencedOut(f"partition {partition} is not claimed: it is assigned to another process, or about to be")
        statement = self._database.insert(PARTITIONS).values(
            partition=partition,
            epoch=before + 1,
            next_sequence=0,
            dead_letters_pruned=0,
            read_to_ms=-1,
            saved_ms=self._database.clock.now_ms(),
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
        self._unconfirmed.pop(partition, None)
        return claimed

    def load(self, partition: int) -> PartitionState:
        """The state as of the last checkpoint; empty if there was none.

        The streams read from one snapshot of the database, which is held until all of them are exhausted, closed (each
        has a ``close``) or forgotten. The batches of a bucket come in the order in which they were saved; merged
        batches have the place of the first one.
        """
        database, connection = self._database, self._database.snapshot()
        snapshot = SharedConnection(connection, streams=2)
        batches = journal.read(database, connection, JOURNAL, partition)
        candidates = journal.read(database, connection, SAMPLE_CANDIDATES, partition)
        read_to_ms = sa.select(PARTITIONS.c.read_to_ms).where(PARTITIONS.c.partition == partition)
        try:
            with database.translated():
                return PartitionState(
                    offsets=dict(_rows(connection, OFFSETS, partition)),
                    models=[ModelState(*state) for *state, _ in _rows(connection, MODELS, partition)],
                    strata={
                        at: SavedStratum(Stratum(model, version, _segments_from_json.decode(segments)), newest_ms)
                        for at, model, version, segments, newest_ms in _rows(connection, STRATA, partition)
                    },
                    counters={(kind, result): n for kind, result, n in _rows(connection, COUNTERS, partition)},
                    journal=Stream((JournalBatch(*batch) for batch in batches), snapshot),
                    caps=dict(map(_cap_use, _rows(connection, CAPS, partition))),
                    candidates=Stream((CandidateBatch(*batch) for batch in candidates), snapshot),
                    oldest_ms=closings.oldest(connection, partition),
                    read_to_ms=-1 if (at_ms := connection.execute(read_to_ms).scalar()) is None else at_ms,
                )
        except BaseException:
            connection.close()
            raise

    def save(self, checkpoints: Sequence[Checkpoint]) -> None:
        """Save all of these, or none.

        Batches of a bucket that the same checkpoint drops are not kept. After StoreUnavailable, call again with the
        same checkpoints: if only the answer to a COMMIT was lost, nothing is saved twice. One checkpoint per partition.

        Raises
        ------
        FencedOut
            Another process has claimed one of the partitions, which the message names.
        StoreUnavailable
            The database does not answer.
        StoreError
            A save whose answer was lost took place, and this is another checkpoint: its events would be counted twice.
            Claim and load the partition again.
        """
        # Always in one order, so that two saves never deadlock.
        ordered = sorted(checkpoints, key=lambda checkpoint: checkpoint.partition)
        if len({checkpoint.partition for checkpoint in ordered}) < len(ordered):
            raise ValueError("a save takes one checkpoint per partition")
        # Before the lock, which blocks other writers.
        encoded = [samples.encode_closed(self._database, part.partition, part.closed_samples) for part in ordered]
        saving: dict[int, _UnconfirmedSave] = {}
        committing = False
        try:
            with self._database.writing() as connection:
                for checkpoint, closed in zip(ordered, encoded, strict=True):
                    if self._is_saved(connection, checkpoint):
                        continue
                    next_sequence = self._save(connection, checkpoint, closed)
                    saving[checkpoint.partition] = _UnconfirmedSave(checkpoint, next_sequence)
                committing = True
        except BaseException:
            if committing:
                self._unconfirmed.update(saving)
            raise
        for checkpoint in checkpoints:
            self._unconfirmed.pop(checkpoint.partition, None)

    def model_clocks(self) -> Mapping[str, ModelClock]:
        """How far each model is over all partitions of the log, by what they have saved. Any thread.

        Raises
        ------
        StoreUnavailable
            The database does not answer.
        """
        columns = (
            sa.func.max(MODELS.c.prediction_watermark_ms),
            sa.func.max(MODELS.c.outcome_watermark_ms),
            sa.func.min(MODELS.c.closed_to_ms),
            sa.func.max(MODELS.c.awaits_outcomes),
        )
        of_log = sa.select(MODELS.c.name, *columns).where(MODELS.c.partition != BACKFILL)
        return {model: ModelClock(*clock) for model, *clock in self._database.rows(of_log.group_by(MODELS.c.name))}

    def backfilled_ms(self) -> Mapping[str, int]:
        """Model -> time up to which past predictions were backfilled. Any thread; raises as :meth:`model_clocks`."""
        return dict(
            self._database.rows(sa.select(MODELS.c.name, MODELS.c.closed_to_ms).where(MODELS.c.partition == BACKFILL))
        )

    def first_closing_ms(self, model: str) -> int | None:
        """Start of the oldest closing of a model that the log's partitions have; None if there is none. Any thread."""
        of_log = (CLOSINGS.c.model == model) & (CLOSINGS.c.partition != BACKFILL)
        ((first_ms,),) = self._database.rows(sa.select(sa.func.min(CLOSINGS.c.from_ms)).where(of_log))
        return cast("int | None", first_ms)

    def evidence_ms(self) -> Mapping[str, int]:
        """Model -> time up to which its evidence has read panes. Any thread; raises as :meth:`model_clocks`."""
        ends: dict[str, int] = {}
        for (model, _), to_ms in evidence.read_ends(self._database).items():
            ends[model] = max(to_ms, ends.get(model, -1))
        return ends

    def clocks(self) -> Mapping[str, Mapping[int, ModelClock]]:
        """Model -> partition -> how far it is, of all partitions that hold the model. Any thread.

        Raises
        ------
        StoreUnavailable
            The database does not answer.
        """
        columns = [MODELS.c[name] for name in ("name", "partition", *ModelClock._fields)]
        clocks: dict[str, dict[int, ModelClock]] = {}
        for model, partition, *clock in self._database.rows(sa.select(*columns)):
            clocks.setdefault(model, {})[partition] = ModelClock(*clock)
        return clocks

    def partition_clocks(self) -> Mapping[int, PartitionClock]:
        """Partition -> how far it is read, of all of the log that were ever assigned. Any thread.

        Read it before :meth:`clocks`: a model that a partition meets in between is then among its clocks.

        Raises
        ------
        StoreUnavailable
            The database does not answer.
        """
        columns = (PARTITIONS.c.partition, PARTITIONS.c.read_to_ms, PARTITIONS.c.saved_ms)
        rows = self._database.rows(sa.select(*columns).where(_IS_READ))
        return {partition: PartitionClock(*clock) for partition, *clock in rows}

    def read_closings(self, model: str, after_ms: Mapping[int, int]) -> Mapping[int, Sequence[Closing]]:
        """Partition -> its closings of a model that end after a time of that partition, in order. Any thread.

        Raises
        ------
        StoreUnavailable
            The database does not answer.
        DamagedStore, IncompatibleStore
            A closing cannot be read.
        """
        return dict(self.new_closings({model: after_ms})).get(model, {})

    def new_closings(
        self, after_ms: Mapping[str, Mapping[int, int]]
    ) -> Iterator[tuple[str, Mapping[int, Sequence[Closing]]]]:
        """Yield each model that has closings after a time, with them. Raises as :meth:`read_closings`.

        Parameters
        ----------
        after_ms
            Model -> partition -> that time. Many are read by one statement.
        """
        for wanted in closings.in_parts(after_ms):
            with self._database.reading() as connection:
                found = closings.read(connection, wanted)
            yield from closings.by_model(found)

    def read_unsettled(self) -> Mapping[int, Panes]:
        """Partition -> summary of what it has not settled. Any thread; raises as :meth:`read_closings`."""
        rows = self._database.rows(sa.select(UNSETTLED))
        return {row.partition: Panes.from_bytes(row.cells, row.sketches)[0] for row in rows}

    def saved_offsets(self) -> Mapping[tuple[str, int], int]:
        """(topic, partition) -> the offset up to which it is read and saved, by any process. Any thread.

        Raises
        ------
        StoreUnavailable
            The database does not answer.
        """
        return {(row.topic, row.partition): row.next_offset for row in self._database.rows(sa.select(OFFSETS))}

    def caps(self) -> CapUses:
        """How full caps are and what they made ``other``, over all partitions. Any thread.

        Raises
        ------
        StoreUnavailable
            The database does not answer.
        """
        rows = self._database.rows(sa.select(CAPS).order_by(CAPS.c.model, CAPS.c.setting, CAPS.c.segment_key))
        return join_cap_uses(_cap_use(row[1:]) for row in rows)

    def dead_letters(
        self, *, after: int = 0, limit: int = 100, reason: str | None = None
    ) -> Sequence[StoredDeadLetter]:
        """Letters with a number greater than ``after``, ascending, at most ``limit``."""
        letters = DEAD_LETTERS.c
        statement = sa.select(DEAD_LETTERS).where(letters.number > after).order_by(letters.number).limit(limit)
        if reason is not None:
            statement = statement.where(letters.reason == reason)
        return [_dead_letter(row._asdict()) for row in self._database.rows(statement)]

    def count_dead_letters(self) -> Mapping[str, int]:
        """Number of stored letters by reason."""
        of_reason = sa.select(DEAD_LETTERS.c.reason, sa.func.count()).group_by(DEAD_LETTERS.c.reason)
        return dict(self._database.rows(of_reason))

    def remove_dead_letters(self, numbers: Sequence[int], *, entry: AuditEntry | None = None) -> None:
        """Remove replayed or discarded letters, and append ``entry`` to the audit trail."""
        with audit.changing(self._database) as connection:
            connection.execute(sa.delete(DEAD_LETTERS).where(DEAD_LETTERS.c.number.in_(numbers)))
            audit.append(connection, [] if entry is None else [entry])

    def read_sample(
        self, model: str, version: str, *, from_ms: int = 0, to_ms: int | None = None, limit: int | None = None
    ) -> Sample:
        """Sampled events predicted in [from, to) whose outcome can no longer change, of all partitions. Any thread.

        Parameters
        ----------
        limit
            Largest number of events: a deterministic, stratified part of the sample.

        Raises
        ------
        StoreUnavailable
            The database does not answer.
        DamagedStore
            A stored sample cannot be read.
        """
        return samples.read_sample(self._database, model, version, from_ms=from_ms, to_ms=to_ms, limit=limit)

    def _is_saved(self, connection: sa.Connection, checkpoint: Checkpoint) -> bool:
        """Whether this checkpoint was saved by a COMMIT that was not confirmed."""
        earlier = self._unconfirmed.get(checkpoint.partition)
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
            f"partition {checkpoint.partition}: a checkpoint whose confirmation was lost is stored, and this other one"
            " would count its events twice: claim and load the partition again"
        )

    def _save(self, connection: sa.Connection, checkpoint: Checkpoint, closed: Sequence[samples.EncodedSample]) -> int:
        partition = checkpoint.partition
        dropped = set(checkpoint.dropped)
        batches = [(batch.bucket, batch.rows) for batch in checkpoint.journal if batch.bucket not in dropped]
        candidates = [batch for batch in checkpoint.candidates if batch.bucket not in dropped]
        now_ms = self._database.clock.now_ms()
        next_sequence = _lock(connection, checkpoint, len(batches) + len(candidates) + 2, now_ms)

        strata = [
            (at, stratum.model, stratum.version, msgspec.json.encode(stratum.segments).decode(), newest_ms)
            for at, (stratum, newest_ms) in checkpoint.strata.items()
        ]
        self._upsert(connection, STRATA, partition, strata)
        self._upsert(connection, OFFSETS, partition, checkpoint.offsets.items())
        changed = range(len(checkpoint.models)) if checkpoint.changed_models is None else checkpoint.changed_models
        self._upsert(connection, MODELS, partition, [(*checkpoint.models[number], now_ms) for number in changed])
        self._upsert(connection, COUNTERS, partition, [(*key, count) for key, count in checkpoint.counters.items()])
        if checkpoint.caps is not None:
            connection.execute(sa.delete(CAPS).where(CAPS.c.partition == partition))
            self._upsert(connection, CAPS, partition, [(*cap, *use) for cap, use in checkpoint.caps.items()])
        journal.append(connection, JOURNAL, partition, next_sequence - len(batches), batches)
        first_candidate = next_sequence - len(batches) - len(candidates)
        replaced = [batch.bucket for batch in candidates if batch.whole]
        journal.drop(connection, SAMPLE_CANDIDATES, partition, [*checkpoint.dropped, *replaced])
        new_candidates = [(batch.bucket, batch.rows) for batch in candidates]
        journal.append(connection, SAMPLE_CANDIDATES, partition, first_candidate, new_candidates)
        journal.drop(connection, JOURNAL, partition, checkpoint.dropped)
        journal.compact(connection, partition, {bucket for bucket, _ in batches})
        closings.append(connection, partition, checkpoint.closings)
        closings.compact(connection, partition, {closing.model for closing in checkpoint.closings})
        closings.retire(connection, partition, checkpoint.old)
        if checkpoint.unsettled is not None:
            self._upsert(connection, UNSETTLED, partition, [checkpoint.unsettled.to_bytes()])
        samples.append_closed(connection, partition, first_candidate - 1, closed)
        samples.expire(connection, partition, checkpoint.expired_samples_before_ms)
        for strata_ids in chunks(checkpoint.ended_strata):
            of = STRATA.c
            connection.execute(sa.delete(STRATA).where(of.partition == partition, of.stratum_id.in_(strata_ids)))
        for names in chunks(checkpoint.ended_models):
            connection.execute(sa.delete(MODELS).where(MODELS.c.partition == partition, MODELS.c.name.in_(names)))
        self._save_dead_letters(connection, checkpoint)
        return next_sequence

    def _upsert(
        self, connection: sa.Connection, table: sa.Table, partition: int, rows: Iterable[tuple[Any, ...]]
    ) -> None:
        records = _records(table, partition, rows)
        if records:
            connection.execute(self._database.upsert(table), records)

    def _save_dead_letters(self, connection: sa.Connection, checkpoint: Checkpoint) -> None:
        if not checkpoint.dead_letters:
            return
        stored_ms = self._database.clock.now_ms()
        rows = [
            {
                **letter._asdict(),
                "stored_ms": stored_ms,
                "reason": letter.reason.value,
                "headers": msgspec.msgpack.encode(letter.headers),
            }
            for letter in checkpoint.dead_letters
        ]
        insert = self._database.insert(DEAD_LETTERS)
        connection.execute(insert.on_conflict_do_nothing(index_elements=["topic", "partition", "offset"]), rows)
        number = DEAD_LETTERS.c.number
        last = sa.select(number).order_by(number.desc()).limit(1).offset(self._dead_letter_limit).scalar_subquery()
        pruned = connection.execute(sa.delete(DEAD_LETTERS).where(number <= last)).rowcount
        if pruned:
            connection.execute(
                sa.update(PARTITIONS)
                .where(PARTITIONS.c.partition == checkpoint.partition)
                .values(dead_letters_pruned=PARTITIONS.c.dead_letters_pruned + pruned)
            )


class _UnconfirmedSave(NamedTuple):
    """A save whose COMMIT was not confirmed, and the partition's next sequence number if it took place."""

    checkpoint: Checkpoint
    next_sequence: int


def _lock(connection: sa.Connection, checkpoint: Checkpoint, numbers: int, now_ms: int) -> int:
    """Lock the partition for this transaction and reserve sequence numbers; returns the first one after them."""
    is_partition = PARTITIONS.c.partition == checkpoint.partition
    next_sequence: int | None = connection.execute(
        sa.update(PARTITIONS)
        .where(is_partition, PARTITIONS.c.epoch == checkpoint.epoch)
        .values(next_sequence=PARTITIONS.c.next_sequence + numbers, read_to_ms=checkpoint.read_to_ms, saved_ms=now_ms)
        .returning(PARTITIONS.c.next_sequence)
    ).scalar_one_or_none()
    if next_sequence is None:
        epoch = connection.execute(sa.select(PARTITIONS.c.epoch).where(is_partition)).scalar_one_or_none()
        raise FencedOut(
            f"partition {checkpoint.partition} was claimed under epoch {checkpoint.epoch}, its epoch now is {epoch}:"
            " another process owns it"
        )
    return next_sequence


def _rows(connection: sa.Connection, table: sa.Table, partition: int) -> Sequence[Any]:
    """The rows of a partition by their key, without the partition's number."""
    columns = [column for column in table.c if column.name != "partition"]
    ordered = sa.select(*columns).order_by(*table.primary_key.columns)
    return connection.execute(ordered.where(table.c.partition == partition)).all()


def _cap_use(row: Sequence[Any]) -> tuple[Cap, CapUse]:
    return Cap(*row[:3]), CapUse(*row[3:])


def _records(table: sa.Table, partition: int, rows: Iterable[tuple[Any, ...]]) -> list[dict[str, Any]]:
    """Rows of a partition, as from :func:`_rows`, by the names of the columns."""
    return [dict(zip(table.c.keys(), (partition, *row), strict=True)) for row in rows]


def _dead_letter(row: dict[str, Any]) -> StoredDeadLetter:
    number, stored_ms = row.pop("number"), row.pop("stored_ms")
    try:
        headers = _headers_from_bytes.decode(row.pop("headers"))
        reason = Reason(row["reason"])
    except (msgspec.MsgspecError, ValueError) as error:
        raise DamagedStore(f"dead letter {number} cannot be read: {error}; restore a backup") from error
    return StoredDeadLetter(number, stored_ms, DeadLetter(**row | {"reason": reason, "headers": headers}))
