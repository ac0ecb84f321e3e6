"""Messages of the log become checkpoints with closings, on a cluster: the join's state is in RocksDB.

The unit of state is the log's partition, as in the service. Each batch of a partition goes through
:class:`~monitor.stream.keyed_partition.KeyedPartition`, so the rules, and so the numbers, are those of the service. A
prediction waits for its outcome in the state store of the executor.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.streaming.stateful_processor import MapState, StatefulProcessor, StatefulProcessorHandle, ValueState

from monitor.events.codec import Decoder
from monitor.events.model import DeadLetter, Kind, RecordBatch
from monitor.store.base import Checkpoint, ModelState, SavedStratum
from monitor.store.closing import Closing
from monitor.stream.keyed_partition import KeyedPartition, Others
from monitor.stream.partition import PartitionSettings

STATE_STORE: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
"""The value of ``spark.sql.streaming.stateStore.providerClass`` that the job needs."""

OTHERS: Final = ""
"""In place of the topic in a row that says what a partition knows of others; its value is of :func:`encode_others`."""

_NO_HEADERS: Final[tuple[tuple[str, bytes], ...]] = ()


def checkpoints(
    messages: DataFrame,
    settings: PartitionSettings,
    kinds: Mapping[str, Kind | None],
    make_decoder: Callable[[], Decoder],
) -> DataFrame:
    """Join messages, and close what is settled.

    Parameters
    ----------
    messages
        A streaming DataFrame with the columns of Spark's Kafka source, with its headers: ``topic``, ``partition``,
        ``offset``, ``timestamp``, ``key``, ``value`` and ``headers``; and rows of the topic OTHERS.
    settings
        Settings of all partitions. No samples are kept.
    kinds
        Topic -> type of its events that name none, or None.
    make_decoder
        Called on the executors.

    Returns
    -------
    A streaming DataFrame, to be written in append mode: a row for each partition of the log that a batch has read, with
    ``partition`` and ``checkpoint``, which :func:`decode_checkpoint` reads.
    """
    rows = messages.select(
        "partition",
        "topic",
        "offset",
        F.unix_millis("timestamp").alias("timestamp_ms"),
        "key",
        "value",
        F.transform("headers", lambda header: F.struct(header["key"], header["value"])).alias("headers"),
    )
    processor = _Join(settings, kinds, make_decoder)
    schema = "partition int, checkpoint binary"
    return rows.groupBy("partition").transformWithStateInPandas(processor, schema, "append", "none")


class _Message(NamedTuple):
    """A message, as a :class:`~monitor.events.model.Record`."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class _Map:
    """A map of the state, as :class:`~monitor.stream.keyed_partition.KeyedState`."""

    def __init__(self, state: MapState) -> None:
        self._state = state

    def get(self, key: bytes) -> bytes | None:
        found = self._state.getValue((key,))
        return None if found is None else bytes(found[0])

    def put(self, key: bytes, value: bytes) -> None:
        self._state.updateValue((key,), (value,))

    def remove(self, key: bytes) -> None:
        self._state.removeKey((key,))

    def keys(self) -> Iterable[bytes]:
        return (bytes(key[0]) for key in self._state.keys())  # noqa: SIM118 - it is no dict


class _Join(StatefulProcessor):
    """Applies a batch to the state of its partition."""

    def __init__(
        self, settings: PartitionSettings, kinds: Mapping[str, Kind | None], make_decoder: Callable[[], Decoder]
    ) -> None:
        self._settings, self._kinds, self._make_decoder = settings, kinds, make_decoder

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._saved: ValueState = handle.getValueState("saved", "value binary")
        self._rows = _Map(handle.getMapState("rows", "id binary", "value binary"))
        self._due = _Map(handle.getMapState("due", "pane binary", "value binary"))
        self._decoder = self._make_decoder()

    def handleInputRows(  # noqa: N802 - the name is Spark's
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: Any,  # noqa: ARG002, N803
    ) -> Iterator[pd.DataFrame]:
        number = int(key[0])
        saved = self._saved.get()
        partition = KeyedPartition(
            number,
            self._settings,
            self._kinds,
            rows=self._rows,
            due=self._due,
            saved=None if saved is None else bytes(saved[0]),
        )
        frame = pd.concat(list(rows), ignore_index=True)
        batches = {topic: _batch(str(topic), number, part) for topic, part in frame.groupby("topic", sort=False)}
        others = batches.pop(OTHERS, None)
        ordered = [batches[topic] for topic in self._kinds if topic in batches]
        checkpoint, state = partition.apply(
            ordered, self._decoder, None if others is None else decode_others(others.records[-1].value or b"")
        )
        self._saved.update((state,))
        yield pd.DataFrame({"partition": np.array([number], np.int32), "checkpoint": [encode_checkpoint(checkpoint)]})

    def close(self) -> None:
        """Nothing is held beyond a batch."""


def _batch(topic: str, partition: int, rows: pd.DataFrame) -> RecordBatch:
    """The messages of one topic, in the order of the log."""
    ordered = rows.sort_values("offset", kind="stable")
    columns = (ordered[name].tolist() for name in ("offset", "timestamp_ms", "key", "value", "headers"))
    records = [
        _Message(offset, timestamp_ms, key, value, _NO_HEADERS if headers is None else _headers(headers))
        for offset, timestamp_ms, key, value, headers in zip(*columns, strict=True)
    ]
    return RecordBatch(topic, partition, records, records[-1].offset + 1)


def _headers(headers: Iterable[Any]) -> tuple[tuple[str, bytes | None], ...]:
    return tuple(
        (str(header["key"]), None if header["value"] is None else bytes(header["value"])) for header in headers
    )


class _Checkpoint(msgspec.Struct, array_like=True):
    """A checkpoint without what the store does not need of it."""

    partition: int
    offsets: dict[str, int]
    models: list[ModelState]
    strata: dict[int, SavedStratum]
    closings: list[tuple[bytes, bytes | None]]
    counters: list[tuple[str, str, int]]
    dead_letters: list[DeadLetter]
    read_to_ms: int
    changed_models: list[int]


_checkpoint_from_bytes: Final = msgspec.msgpack.Decoder(_Checkpoint)
_others_from_bytes: Final = msgspec.msgpack.Decoder(Others)


def encode_checkpoint(checkpoint: Checkpoint) -> bytes:
    """Bytes that :func:`decode_checkpoint` reads."""
    return msgspec.msgpack.encode(
        _Checkpoint(
            partition=checkpoint.partition,
            offsets=dict(checkpoint.offsets),
            models=list(checkpoint.models),
            strata=dict(checkpoint.strata),
            closings=[closing.to_bytes() for closing in checkpoint.closings],
            counters=[(*key, count) for key, count in checkpoint.counters.items()],
            dead_letters=list(checkpoint.dead_letters),
            read_to_ms=checkpoint.read_to_ms,
            changed_models=list(checkpoint.changed_models or ()),
        )
    )


def decode_checkpoint(data: bytes, epoch: int) -> Checkpoint:
    """The checkpoint, to be saved under an epoch."""
    read = _checkpoint_from_bytes.decode(data)
    return Checkpoint(
        partition=read.partition,
        epoch=epoch,
        offsets=read.offsets,
        models=read.models,
        strata=read.strata,
        closings=[Closing.from_bytes(*parts) for parts in read.closings],
        counters={(type_, result): count for type_, result, count in read.counters},
        dead_letters=read.dead_letters,
        read_to_ms=read.read_to_ms,
        changed_models=read.changed_models,
    )


def encode_others(others: Others) -> bytes:
    """Bytes that :func:`decode_others` reads."""
    return msgspec.msgpack.encode(others)


def decode_others(data: bytes) -> Others:
    """What a partition knows of the log and of others."""
    return _others_from_bytes.decode(data)
