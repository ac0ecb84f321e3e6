"""Sketches of whole probability vectors, beside the closed panes."""

import sqlalchemy as sa
from alembic import op

from monitor.store.migrations.columns import columns, keys, owner

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add the table of sketches."""
    op.create_table(
        "closed_sketches",
        owner(),
        *keys(sa.Text, "model"),
        *keys(sa.BigInteger, "slide_ms", "start_ms"),
        *keys(sa.Text, "version", "segment"),
        *columns(sa.LargeBinary, "sketch"),
    )
