"""How much evidence there was on each version over time."""

import sqlalchemy as sa
from alembic import op

from monitor.store.migrations.columns import columns, keys

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """Add the table. The history of evidence begins now."""
    op.create_table(
        "evidence_history",
        *keys(sa.Text, "model", "version"),
        *keys(sa.BigInteger, "day_ms"),
        *columns(sa.BigInteger, "step_ms"),
        *columns(sa.LargeBinary, "peaks", "points"),
    )
    op.create_index("evidence_history_by_day", "evidence_history", ["day_ms"])
