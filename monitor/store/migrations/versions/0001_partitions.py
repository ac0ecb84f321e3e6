"""Partitions, their journal and closed panes, and the dead letters."""

import sqlalchemy as sa
from alembic import op

from monitor.store.migrations.columns import columns, keys, numbered, owner

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create the first tables."""
    op.create_table(
        "meta",
        *keys(sa.Text, "key"),
        *columns(sa.Text, "value"),
    )
    op.create_table(
        "partitions",
        *keys(sa.Integer, "partition"),
        *columns(sa.BigInteger, "epoch", "next_sequence", "dead_letters_pruned"),
    )
    op.create_table(
        "offsets",
        owner(),
        *keys(sa.Text, "topic"),
        *columns(sa.BigInteger, "next_offset"),
    )
    op.create_table(
        "models",
        owner(),
        *keys(sa.Integer, "model_id"),
        *columns(sa.Text, "name"),
        *columns(sa.BigInteger, "prediction_watermark_ms", "outcome_watermark_ms", "evicted_before_ms"),
    )
    op.create_table(
        "strata",
        owner(),
        *keys(sa.Integer, "stratum_id"),
        *columns(sa.Text, "model", "version", "segments"),
    )
    op.create_table(
        "journal",
        owner(),
        *keys(sa.BigInteger, "sequence"),
        *columns(sa.Text, "model"),
        *columns(sa.BigInteger, "bucket_ms"),
        *columns(sa.Integer, "size"),
        *columns(sa.LargeBinary, "rows"),
    )
    op.create_index("journal_by_bucket", "journal", ["partition", "model", "bucket_ms", "sequence", "size"])
    op.create_table(
        "closed_panes",
        owner(),
        *keys(sa.Text, "model"),
        *keys(sa.BigInteger, "slide_ms", "start_ms"),
        *keys(sa.Text, "version", "segment"),
        *columns(sa.LargeBinary, "grid_table"),
    )
    op.create_table(
        "counters",
        owner(),
        *keys(sa.Text, "type", "result"),
        *columns(sa.BigInteger, "events"),
    )
    op.create_table(
        "dead_letters",
        numbered(),
        *columns(sa.BigInteger, "stored_ms"),
        *columns(sa.Text, "topic"),
        *columns(sa.Integer, "partition"),
        *columns(sa.BigInteger, "offset", "timestamp_ms"),
        *columns(sa.Text, "reason", "detail"),
        *columns(sa.LargeBinary, "key", "value", nullable=True),
        *columns(sa.LargeBinary, "headers"),
        sa.UniqueConstraint("topic", "partition", "offset", name="dead_letters_by_offset"),
        sqlite_autoincrement=True,
    )
    op.create_index("dead_letters_by_reason", "dead_letters", ["reason", "number"])
    if op.get_context().dialect.name == "postgresql":
        # Hashes hardly compress, and trying costs more than writing them.
        op.execute("ALTER TABLE journal ALTER COLUMN rows SET STORAGE EXTERNAL")
