"""Samples of labelled events: candidates beside the journal, and what dropped buckets left behind of them."""

import sqlalchemy as sa
from alembic import op

from monitor.store.migrations.columns import columns, keys, owner

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add the tables of candidates and of closed samples."""
    op.create_table(
        "sample_candidates",
        owner(),
        *keys(sa.BigInteger, "sequence"),
        *columns(sa.Text, "model"),
        *columns(sa.BigInteger, "bucket_ms"),
        *columns(sa.LargeBinary, "rows"),
    )
    op.create_index("sample_candidates_by_bucket", "sample_candidates", ["partition", "model", "bucket_ms"])
    op.create_table(
        "closed_samples",
        owner(),
        *keys(sa.Text, "model"),
        *keys(sa.BigInteger, "slide_ms", "start_ms"),
        *keys(sa.Text, "version", "segment"),
        *keys(sa.BigInteger, "sequence"),
        *columns(sa.Integer, "size"),
        *columns(sa.LargeBinary, "sample"),
    )
    # A refit asks for one model's version, of all partitions.
    op.create_index("closed_samples_by_version", "closed_samples", ["model", "version"])
