"""What the detectors of each version continue from."""

import sqlalchemy as sa
from alembic import op

from monitor.store.migrations.columns import columns, keys

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Add the table. Evidence begins with the closings that are kept."""
    op.create_table(
        "evidence",
        *keys(sa.Text, "model", "version"),
        *columns(sa.BigInteger, "to_ms"),
        *columns(sa.LargeBinary, "state"),
    )
