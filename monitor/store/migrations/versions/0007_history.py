"""The history of windows."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "history",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("version", sa.Text, nullable=False),
        sa.Column("segment", sa.Text, nullable=False),
        sa.Column("day_ms", sa.BigInteger, nullable=False),
        sa.Column("step_ms", sa.BigInteger, nullable=False),
        sa.Column("size", sa.Integer, nullable=False),
        sa.Column("points", sa.LargeBinary, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("history_by_series", "history", ["model", "version", "segment", "day_ms", "step_ms"])
