"""What the detectors of each version continue from, and from which events on a map serves or is fitted."""

import sqlalchemy as sa
from alembic import op

from monitor.store.migrations.columns import columns, keys

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Add the table and the columns. Evidence begins with the closings that are kept."""
    op.create_table(
        "evidence",
        *keys(sa.Text, "model", "version"),
        *columns(sa.BigInteger, "to_ms"),
        *columns(sa.LargeBinary, "state"),
    )
    op.add_column("servings", sa.Column("from_ms", sa.BigInteger, nullable=False, server_default="0"))
    op.execute("UPDATE servings SET from_ms = since_ms")
    op.add_column("refits", sa.Column("since_ms", sa.BigInteger, nullable=True))
