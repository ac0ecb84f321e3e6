"""Live replicas, the leases of models, and the latest evaluation of each model."""

import sqlalchemy as sa
from alembic import op

from monitor.store.migrations.columns import columns, keys

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Add the tables."""
    op.create_table(
        "replicas",
        *keys(sa.Text, "id"),
        *columns(sa.BigInteger, "started_ms", "seen_ms"),
        *columns(sa.Text, "roles"),
    )
    op.create_table(
        "evaluations",
        *keys(sa.Text, "model"),
        *columns(sa.Text, "owner"),
        *columns(sa.BigInteger, "epoch", "until_ms", "number", "evaluated_ms"),
        *columns(sa.LargeBinary, "summary"),
    )
    op.create_table(
        "evaluated_reports",
        *keys(sa.Text, "model"),
        *columns(sa.BigInteger, "number"),
        *columns(sa.LargeBinary, "reports"),
    )
