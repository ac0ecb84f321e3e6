"""Sketches of whole probability vectors, beside the closed panes."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add the table of sketches."""
    op.create_table(
        "closed_sketches",
        sa.Column(
            "partition", sa.Integer, sa.ForeignKey("partitions.partition"), primary_key=True, autoincrement=False
        ),
        sa.Column("model", sa.Text, primary_key=True),
        sa.Column("slide_ms", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("start_ms", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("version", sa.Text, primary_key=True),
        sa.Column("segment", sa.Text, primary_key=True),
        sa.Column("sketch", sa.LargeBinary, nullable=False),
    )
