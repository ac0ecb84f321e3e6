"""A source for Spark of what partitions have to know of the log and of each other when a batch is planned.

Spark writes down the offsets of all sources before it runs a batch. Here the offset is the knowledge itself. So a batch
that is repeated knows what it knew, and comes to the same.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from monitor.spark.stream import OTHERS, encode_others
from monitor.store.base import ModelClock
from monitor.stream.keyed_partition import Others

_NAME: Final = "calibration_monitor_others"


def read_others(spark: SparkSession, make_reader: Callable[[], Callable[[], Mapping[int, Others]]]) -> DataFrame:
    """Rows for :func:`monitor.spark.stream.checkpoints`, with the columns of Spark's Kafka source.

    Parameters
    ----------
    make_reader
        Called once on the driver, in a process of its own. It makes a function that returns what each partition of the
        log has to know now.
    """

    class _Others(DataSource):
        """The source, under a name: Spark sends it to its process by value."""

        @classmethod
        def name(cls) -> str:
            return _NAME

        def schema(self) -> str:
            return "partition int, value binary"

        def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802 - Spark's
            return _Reader(make_reader)

    spark.dataSource.register(_Others)
    rows = spark.readStream.format(_NAME).load()
    return rows.select(
        F.lit(None).cast("binary").alias("key"),
        "value",
        F.lit(OTHERS).alias("topic"),
        "partition",
        F.lit(0).cast("bigint").alias("offset"),
        F.timestamp_millis(F.lit(-1)).alias("timestamp"),
        F.lit(None).cast("int").alias("timestampType"),
        F.lit(None).cast("array<struct<key:string,value:binary>>").alias("headers"),
    )


class _Reader(DataSourceStreamReader):
    """Plans on the driver, and reads on an executor, where nothing is connected."""

    def __init__(self, make_reader: Callable[[], Callable[[], Mapping[int, Others]]]) -> None:
        self._make_reader = make_reader
        self._read: Callable[[], Mapping[int, Others]] | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - the names are Spark's
        return {}

    def latestOffset(self, start: Any = None, limit: Any = None) -> dict[str, Any]:  # noqa: ARG002, N802
        """All of it. What is the same for all partitions is in there once."""
        if self._read is None:
            self._read = self._make_reader()
        of_partitions = self._read()
        first = next(iter(of_partitions.values()))
        return {
            "ends": {str(number): dict(others.ends) for number, others in of_partitions.items()},
            "clocks": {model: list(clock) for model, clock in first.clocks.items()},
            "backfilled_ms": dict(first.backfilled_ms),
        }

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:  # noqa: ARG002
        return [InputPartition(end)]

    def read(self, partition: InputPartition) -> Iterator[tuple[int, bytes]]:
        known = partition.value
        clocks = {model: ModelClock(*clock) for model, clock in known["clocks"].items()}
        for number, ends in known["ends"].items():
            yield int(number), encode_others(Others(ends, clocks, known["backfilled_ms"]))

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing is held for it."""

    def stop(self) -> None:
        """Nothing is held beyond the process."""
