"""The store's tables, as the newest migration leaves them."""

from typing import Final

from sqlalchemy import (
    BigInteger,
    Column,
    Dialect,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
)
from sqlalchemy.types import TypeDecorator

METADATA: Final = MetaData()


class Name(TypeDecorator[str]):
    """Text that a producer chose. PostgreSQL's text cannot hold U+0000, and one such name must not stop a partition."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        """Escape what the database cannot hold."""
        if value is None or ("\0" not in value and "\\" not in value):
            return value
        return value.replace("\\", "\\\\").replace("\0", "\\0")

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        """Undo the escapes."""
        if value is None or "\\" not in value:
            return value
        return "\\".join(part.replace("\\0", "\0") for part in value.split("\\\\"))


META: Final = Table(
    "meta",
    METADATA,
    Column("key", Text, primary_key=True),
    Column("value", Text, nullable=False),
)
"""What the whole store was written with."""

PARTITIONS: Final = Table(
    "partitions",
    METADATA,
    Column("partition", Integer, primary_key=True, autoincrement=False),
    Column("epoch", BigInteger, nullable=False),
    # Raised by every save, also by one without a batch: it numbers the batches, and tells later whether a save whose
    # COMMIT went unanswered took place.
    Column("next_sequence", BigInteger, nullable=False),
    Column("dead_letters_pruned", BigInteger, nullable=False),
)


def _partition() -> Column[int]:
    return Column("partition", Integer, ForeignKey("partitions.partition"), primary_key=True, autoincrement=False)


OFFSETS: Final = Table(
    "offsets",
    METADATA,
    _partition(),
    Column("topic", Text, primary_key=True),
    Column("next_offset", BigInteger, nullable=False),
)

MODELS: Final = Table(
    "models",
    METADATA,
    _partition(),
    Column("model_id", Integer, primary_key=True, autoincrement=False),
    Column("name", Name, nullable=False),
    Column("prediction_watermark_ms", BigInteger, nullable=False),
    Column("outcome_watermark_ms", BigInteger, nullable=False),
    Column("evicted_before_ms", BigInteger, nullable=False),
)

STRATA: Final = Table(
    "strata",
    METADATA,
    _partition(),
    Column("stratum_id", Integer, primary_key=True, autoincrement=False),
    Column("model", Name, nullable=False),
    Column("version", Name, nullable=False),
    Column("segments", Text, nullable=False),  # JSON: [[key, value], ...]
)

JOURNAL: Final = Table(
    "journal",
    METADATA,
    _partition(),
    Column("sequence", BigInteger, primary_key=True, autoincrement=False),
    Column("model", Name, nullable=False),
    Column("bucket_ms", BigInteger, nullable=False),
    Column("size", Integer, nullable=False),
    Column("rows", LargeBinary, nullable=False),
    # Covers what the compaction asks, so that it reads no rows to learn that there is nothing to do.
    Index("journal_by_bucket", "partition", "model", "bucket_ms", "sequence", "size"),
)

CLOSED_PANES: Final = Table(
    "closed_panes",
    METADATA,
    _partition(),
    # In this order the key also finds what has expired.
    Column("model", Name, primary_key=True),
    Column("slide_ms", BigInteger, primary_key=True, autoincrement=False),
    Column("start_ms", BigInteger, primary_key=True, autoincrement=False),
    Column("version", Name, primary_key=True),
    Column("segment", Name, primary_key=True),
    Column("grid_table", LargeBinary, nullable=False),
)

CLOSED_SKETCHES: Final = Table(
    "closed_sketches",
    METADATA,
    _partition(),
    Column("model", Name, primary_key=True),
    Column("slide_ms", BigInteger, primary_key=True, autoincrement=False),
    Column("start_ms", BigInteger, primary_key=True, autoincrement=False),
    Column("version", Name, primary_key=True),
    Column("segment", Name, primary_key=True),
    Column("sketch", LargeBinary, nullable=False),
)

COUNTERS: Final = Table(
    "counters",
    METADATA,
    _partition(),
    Column("type", Text, primary_key=True),
    Column("result", Text, primary_key=True),
    Column("events", BigInteger, nullable=False),
)

DEAD_LETTERS: Final = Table(
    "dead_letters",
    METADATA,
    Column("number", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("stored_ms", BigInteger, nullable=False),
    Column("topic", Text, nullable=False),
    Column("partition", Integer, nullable=False),
    Column("offset", BigInteger, nullable=False),
    Column("timestamp_ms", BigInteger, nullable=False),
    Column("reason", Text, nullable=False),
    Column("detail", Name, nullable=False),
    Column("key", LargeBinary),
    Column("value", LargeBinary),
    Column("headers", LargeBinary, nullable=False),  # MessagePack: [[name, bytes], ...]
    UniqueConstraint("topic", "partition", "offset", name="dead_letters_by_offset"),
    Index("dead_letters_by_reason", "reason", "number"),
    # A number is never given twice, so that a page's end stays a place to go on from.
    sqlite_autoincrement=True,
)
