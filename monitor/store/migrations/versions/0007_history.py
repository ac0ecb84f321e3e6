"""The history of windows."""

import sqlalchemy as sa
from alembic import op

from monitor.store.migrations.columns import columns, numbered

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "history",
        numbered(),
        *columns(sa.Text, "model", "version", "segment"),
        *columns(sa.BigInteger, "day_ms", "step_ms"),
        *columns(sa.Integer, "size"),
        *columns(sa.LargeBinary, "points"),
        sqlite_autoincrement=True,
    )
    op.create_index("history_by_series", "history", ["model", "version", "segment", "day_ms", "step_ms"])
