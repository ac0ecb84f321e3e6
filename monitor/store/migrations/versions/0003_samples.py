"""Samples of labelled events: candidates beside the journal, and what dropped buckets left behind of them."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add the tables of candidates and of closed samples."""
    op.create_table(
        "sample_candidates",
        _partition(),
        sa.Column("sequence", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("bucket_ms", sa.BigInteger, nullable=False),
        sa.Column("rows", sa.LargeBinary, nullable=False),
    )
    op.create_index("sample_candidates_by_bucket", "sample_candidates", ["partition", "model", "bucket_ms"])
    op.create_table(
        "closed_samples",
        _partition(),
        sa.Column("model", sa.Text, primary_key=True),
        sa.Column("slide_ms", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("start_ms", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("version", sa.Text, primary_key=True),
        sa.Column("segment", sa.Text, primary_key=True),
        sa.Column("sequence", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("size", sa.Integer, nullable=False),
        sa.Column("sample", sa.LargeBinary, nullable=False),
    )
    # A refit asks for one model's version, of all partitions.
    op.create_index("closed_samples_by_version", "closed_samples", ["model", "version"])


def _partition() -> sa.Column[int]:
    return sa.Column(
        "partition", sa.Integer, sa.ForeignKey("partitions.partition"), primary_key=True, autoincrement=False
    )
