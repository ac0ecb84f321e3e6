"""Partitions, their journal and closed panes, and the dead letters."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create the first tables."""
    op.create_table(
        "meta",
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("value", sa.Text, nullable=False),
    )
    op.create_table(
        "partitions",
        sa.Column("partition", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("next_sequence", sa.BigInteger, nullable=False),
        sa.Column("dead_letters_pruned", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "offsets",
        _partition(),
        sa.Column("topic", sa.Text, primary_key=True),
        sa.Column("next_offset", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "models",
        _partition(),
        sa.Column("model_id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("prediction_watermark_ms", sa.BigInteger, nullable=False),
        sa.Column("outcome_watermark_ms", sa.BigInteger, nullable=False),
        sa.Column("evicted_before_ms", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "strata",
        _partition(),
        sa.Column("stratum_id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("version", sa.Text, nullable=False),
        sa.Column("segments", sa.Text, nullable=False),
    )
    op.create_table(
        "journal",
        _partition(),
        sa.Column("sequence", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("bucket_ms", sa.BigInteger, nullable=False),
        sa.Column("size", sa.Integer, nullable=False),
        sa.Column("rows", sa.LargeBinary, nullable=False),
    )
    op.create_index("journal_by_bucket", "journal", ["partition", "model", "bucket_ms", "sequence", "size"])
    op.create_table(
        "closed_panes",
        _partition(),
        sa.Column("model", sa.Text, primary_key=True),
        sa.Column("slide_ms", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("start_ms", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("version", sa.Text, primary_key=True),
        sa.Column("segment", sa.Text, primary_key=True),
        sa.Column("grid_table", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "counters",
        _partition(),
        sa.Column("type", sa.Text, primary_key=True),
        sa.Column("result", sa.Text, primary_key=True),
        sa.Column("events", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "dead_letters",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
        sa.Column("stored_ms", sa.BigInteger, nullable=False),
        sa.Column("topic", sa.Text, nullable=False),
        sa.Column("partition", sa.Integer, nullable=False),
        sa.Column("offset", sa.BigInteger, nullable=False),
        sa.Column("timestamp_ms", sa.BigInteger, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("detail", sa.Text, nullable=False),
        sa.Column("key", sa.LargeBinary),
        sa.Column("value", sa.LargeBinary),
        sa.Column("headers", sa.LargeBinary, nullable=False),
        sa.UniqueConstraint("topic", "partition", "offset", name="dead_letters_by_offset"),
        sqlite_autoincrement=True,
    )
    op.create_index("dead_letters_by_reason", "dead_letters", ["reason", "number"])
    if op.get_context().dialect.name == "postgresql":
        # Hashes hardly compress, and trying costs more than writing them.
        op.execute("ALTER TABLE journal ALTER COLUMN rows SET STORAGE EXTERNAL")


def _partition() -> sa.Column[int]:
    return sa.Column(
        "partition", sa.Integer, sa.ForeignKey("partitions.partition"), primary_key=True, autoincrement=False
    )
