"""A partition whose join is in a key-value state: a batch loads what it touches, and writes back what has changed.

The rules are those of :class:`~monitor.stream.partition.Partition`, which joins and closes each batch. Its table holds
the ids of one batch, and the predictions that the batch settles; all others wait in the state, under their id. So
memory depends on the batch, and not on the horizon.

Two maps are needed. *Rows*: hash of an id -> what the join knows of it. *Due*: pane -> the ids that are to be looked at
when the pane is settled.
"""

import struct
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from monitor.events.codec import Decoder
from monitor.events.model import Kind, RecordBatch, Stratum
from monitor.store.base import (
    JOURNAL_ROW,
    PREDICTED,
    WAITING,
    Checkpoint,
    ModelClock,
    ModelState,
    PartitionState,
    SavedStratum,
)
from monitor.stream.join import Ends, Silence
from monitor.stream.partition import Partition, PartitionSettings

_MODEL: Final = struct.Struct("<i")
"""A value of the rows: the model's id, and rows of the journal."""
_DUE: Final = struct.Struct(">iqi")
"""A key of the due ids: model, start of the pane, and number of the chunk, or _HEAD."""
_COUNT: Final = struct.Struct("<i")
_HEAD: Final = -1
"""Under it is the number of chunks of a pane."""
_ID_BYTES: Final = 16
_ENTRY: Final = 44
"""Place of the entry in a row of the journal."""
_MAX_STEPS: Final = 10_000
"""Where the settled edge moves by more panes than this, the panes that hold something are listed."""
_UNBOUNDED: Final = 1 << 62


class KeyedState(Protocol):
    """A map from bytes to bytes that survives the process."""

    def get(self, key: bytes) -> bytes | None:
        """The value of a key."""
        ...

    def put(self, key: bytes, value: bytes) -> None:
        """Set the value of a key."""
        ...

    def remove(self, key: bytes) -> None:
        """Remove a key that is there."""
        ...

    def keys(self) -> Iterable[bytes]:
        """All keys."""
        ...


class Others(NamedTuple):
    """What a partition knows of the log and of the other partitions when a batch was planned."""

    ends: Mapping[str, int]
    """Topic -> the offset at which this partition's log ended."""
    clocks: Mapping[str, ModelClock]
    """Model -> how far it is over all partitions, by what they have saved."""
    backfilled_ms: Mapping[str, int]
    """Model -> time up to which its past predictions are in the store."""


class _Silence(NamedTuple):
    """What is known from the ends of the logs, as :class:`~monitor.stream.join.Ends` without arrays."""

    columns: tuple[list[int], list[int], list[int], list[int]]
    newest_ms: int


class _Saved(msgspec.Struct):
    """What is saved of a partition beside its two maps."""

    offsets: dict[str, int] = msgspec.field(default_factory=dict)
    models: list[ModelState] = msgspec.field(default_factory=list)
    strata: list[Stratum] = msgspec.field(default_factory=list)
    counters: list[tuple[str, str, int]] = msgspec.field(default_factory=list)
    read_to_ms: int = -1
    first_due_ms: dict[int, int] = msgspec.field(default_factory=dict)
    """Model id -> start of the first pane that may have due ids."""
    all_at_end: _Silence | None = None
    outcomes_at_end_ms: list[int] = msgspec.field(default_factory=list)


_from_bytes: Final = msgspec.msgpack.Decoder(_Saved)


class KeyedPartition:
    """A partition during one batch.

    Parameters
    ----------
    number
        Number of the partition.
    settings
        Settings of all partitions. No samples are kept, and the number of predictions is not limited.
    kinds
        Topic -> type of its events that name none, or None.
    rows, due
        The two maps, of this partition alone.
    saved
        What :meth:`apply` returned last; None at first.
    """

    def __init__(
        self,
        number: int,
        settings: PartitionSettings,
        kinds: Mapping[str, Kind | None],
        *,
        rows: KeyedState,
        due: KeyedState,
        saved: bytes | None,
    ) -> None:
        self._state = _Saved() if saved is None else _from_bytes.decode(saved)
        self._kinds = kinds
        self._rows, self._due = rows, due
        self._pane_ms = settings.pane_ms
        self._loaded: dict[bytes, bytes] = {}
        """Id -> its value at the beginning of the batch, empty if there was none."""
        state = self._state
        self._partition = Partition(
            number,
            0,
            replace(settings, max_predictions=_UNBOUNDED),
            PartitionState(
                offsets=state.offsets,
                models=state.models,
                strata={at: SavedStratum(stratum) for at, stratum in enumerate(state.strata)},
                counters={(type_, result): count for type_, result, count in state.counters},
                journal=iter(()),
                read_to_ms=state.read_to_ms,
            ),
        )

    def apply(
        self, batches: Sequence[RecordBatch], decoder: Decoder, others: Others | None = None
    ) -> tuple[Checkpoint, bytes]:
        """Join batches of records, and close what is settled then.

        Parameters
        ----------
        batches
            Of this partition, each topic's in the order of its log. Records that were read before are left out.
        others
            If None, nothing is known of the ends of the logs: a model in whose log outcomes are silent is not settled.

        Returns
        -------
        checkpoint
            What has changed, without the journal.
        saved
            What the next batch begins with.
        """
        partition, join = self._partition, self._partition.join
        ends: Ends | None = None
        if others is not None:
            partition.elsewhere, partition.backfilled_ms = others.clocks, others.backfilled_ms
            ends = join.ends(others.clocks)
        before_ms = join.predictions_ms()
        for batch in batches:
            start = partition.offsets.get(batch.topic, -1)
            records = [record for record in batch.records if record.offset >= start]
            if records:
                unread = batch._replace(records=records)
                partition.apply(unread, decoder, self._kinds.get(batch.topic), self._load_hashes)
        self._note_ends(others, ends, before_ms)
        silence = self._silence()
        self._load(self._take_due(partition.settled_ms(silence)))
        checkpoint = partition.checkpoint(silence, summarise=False)
        self._write_back(checkpoint)
        self._state.offsets = dict(checkpoint.offsets)
        self._state.models = list(checkpoint.models)
        known = len(self._state.strata)
        self._state.strata += [saved.stratum for at, saved in checkpoint.strata.items() if at >= known]
        self._state.counters = [(*key, count) for key, count in checkpoint.counters.items()]
        self._state.read_to_ms = checkpoint.read_to_ms
        published = replace(checkpoint, journal=(), dropped=(), candidates=())
        return published, msgspec.msgpack.encode(self._state)

    # What the ends of the logs say.

    @property
    def _outcome_topics(self) -> list[str]:
        several = len(self._kinds) > 1
        return [topic for topic, kind in self._kinds.items() if several and kind is not Kind.PREDICTION]

    def _note_ends(self, others: Others | None, ends: Ends | None, before_ms: NDArray[np.int64]) -> None:
        """Note what was known before the batch, if the batch reads all that had been written when it was planned."""
        if others is None or ends is None:
            return

        def at_end(topic: str) -> bool:
            return self._partition.offsets.get(topic, 0) >= others.ends.get(topic, 0)

        if all(map(at_end, self._outcome_topics)):
            self._state.outcomes_at_end_ms = before_ms.tolist()
        if all(map(at_end, self._kinds)):
            columns = tuple(column.tolist() for column in ends[:4])
            self._state.all_at_end = _Silence(columns, ends.newest_ms)

    def _silence(self) -> Silence:
        known, join = self._state.all_at_end, self._partition.join
        ends = None
        if known is not None:
            columns = np.array(known.columns, np.int64)
            ends = Ends(columns[0], columns[1], columns[2], columns[3], known.newest_ms)
        read_ms = np.array(self._state.outcomes_at_end_ms, np.int64) if self._outcome_topics else join.predictions_ms()
        return join.silence(ends, read_ms)

    # From the state into the join.

    def _load_hashes(self, hashes: NDArray[np.uint64]) -> None:
        ids = np.unique(np.ascontiguousarray(hashes).view(f"V{_ID_BYTES}").reshape(-1))
        self._load(id_.tobytes() for id_ in ids)

    def _load(self, ids: Iterable[bytes]) -> None:
        """Put what the state holds of ids into the join."""
        predictions: list[bytes] = []
        waiting: list[bytes] = []
        models: list[int] = []
        for id_ in ids:
            if id_ in self._loaded:
                continue
            value = self._rows.get(id_)
            self._loaded[id_] = value or b""
            if value is None:
                continue
            rows = value[_MODEL.size :]
            if rows[_ENTRY] == WAITING:
                waiting.append(rows)
                models += [_MODEL.unpack_from(value)[0]] * (len(rows) // JOURNAL_ROW.itemsize)
            else:
                predictions.append(rows)
        join = self._partition.join
        if predictions:
            join.restore_rows(np.frombuffer(bytearray(b"".join(predictions)), JOURNAL_ROW))
        if waiting:
            join.restore_early_outcomes(
                np.frombuffer(bytearray(b"".join(waiting)), JOURNAL_ROW), np.array(models, np.int32)
            )

    # From the join into the state.

    def _write_back(self, checkpoint: Checkpoint) -> None:
        names = {state.name: number for number, state in enumerate(checkpoint.models)}
        values = dict(self._predictions())
        for id_, row, model in self._waiting():
            values[id_] = values.get(id_, _MODEL.pack(model)) + row
        due: defaultdict[tuple[int, int], list[bytes]] = defaultdict(list)
        for batch in checkpoint.journal:
            model = names[batch.bucket.model]
            rows = np.frombuffer(batch.rows, JOURNAL_ROW)
            lateness_ms = self._partition.strata.policies[model].lateness_ms
            for entry, delay_ms in ((PREDICTED, 0), (WAITING, lateness_ms)):
                new = rows[rows["entry"] == entry]
                times_ms = new["time_ms"] + delay_ms
                for pane_ms, id_ in zip((times_ms - times_ms % self._pane_ms).tolist(), _ids(new), strict=True):
                    if id_ in values:
                        due[model, pane_ms].append(id_)
        for id_, before in self._loaded.items():
            value = values.get(id_, b"")
            if value == before:
                continue
            if value:
                self._rows.put(id_, value)
            else:
                self._rows.remove(id_)
        for (model, pane_ms), ids in due.items():
            self._add_due(model, pane_ms, ids)

    def _predictions(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield id and value of the predictions in the join."""
        models = self._partition.strata.models_of_strata()
        size = JOURNAL_ROW.itemsize
        for rows in self._partition.join.copy():
            starts = np.flatnonzero(rows["entry"] == PREDICTED)
            ends = np.append(starts, rows.size)[1:]
            of_models = models[rows["stratum"][starts]].tolist()
            data = rows.tobytes()
            for start, end, model in zip((starts * size).tolist(), (ends * size).tolist(), of_models, strict=True):
                yield data[start : start + _ID_BYTES], _MODEL.pack(model) + data[start:end]

    def _waiting(self) -> Iterator[tuple[bytes, bytes, int]]:
        """Yield id, row and model of the outcomes that wait for their prediction, in order of arrival."""
        rows, models = self._partition.join.waiting()
        data, size = rows.tobytes(), JOURNAL_ROW.itemsize
        pieces = (data[at : at + size] for at in range(0, len(data), size))
        return zip(_ids(rows), pieces, models.tolist(), strict=True)

    # The ids of a pane.

    def _add_due(self, model: int, pane_ms: int, ids: Sequence[bytes]) -> None:
        head = _DUE.pack(model, pane_ms, _HEAD)
        found = self._due.get(head)
        number = 0 if found is None else _COUNT.unpack(found)[0]
        self._due.put(_DUE.pack(model, pane_ms, number), b"".join(ids))
        self._due.put(head, _COUNT.pack(number + 1))
        first_ms = self._state.first_due_ms
        first_ms[model] = min(first_ms.get(model, pane_ms), pane_ms)

    def _take_due(self, settled_ms: NDArray[np.int64]) -> Iterator[bytes]:
        """Remove the ids of the panes before ``settled_ms[model]``, and yield them."""
        for model, end_ms in enumerate(settled_ms.tolist()):
            first_ms = self._state.first_due_ms.get(model, end_ms)
            if first_ms >= end_ms:
                continue
            self._state.first_due_ms[model] = end_ms
            panes: Iterable[int] = range(first_ms, end_ms, self._pane_ms)
            if len(range(first_ms, end_ms, self._pane_ms)) > _MAX_STEPS:
                keys = map(_DUE.unpack, list(self._due.keys()))
                panes = [at for of, at, number in keys if of == model and number == _HEAD and at < end_ms]
            for pane_ms in panes:
                head = _DUE.pack(model, pane_ms, _HEAD)
                found = self._due.get(head)
                if found is None:
                    continue
                self._due.remove(head)
                for number in range(_COUNT.unpack(found)[0]):
                    key = _DUE.pack(model, pane_ms, number)
                    ids = self._due.get(key) or b""
                    self._due.remove(key)
                    yield from (ids[at : at + _ID_BYTES] for at in range(0, len(ids), _ID_BYTES))


def _ids(rows: NDArray[np.void]) -> list[bytes]:
    """The ids of rows of the journal, as keys."""
    data, size = rows.tobytes(), JOURNAL_ROW.itemsize
    return [data[at : at + _ID_BYTES] for at in range(0, len(data), size)]
