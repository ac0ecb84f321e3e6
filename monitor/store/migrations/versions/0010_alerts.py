"""Alerts, their changes, and how far webhooks were delivered."""

import sqlalchemy as sa
from alembic import op

from monitor.store.migrations.columns import columns, keys, numbered

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Add the tables."""
    op.create_table(
        "alerts",
        numbered(),
        sa.Column("id", sa.Text, nullable=False, unique=True),
        *columns(sa.Text, "model", "version", "kind", "state"),
        *columns(sa.Integer, "is_current"),
        *columns(sa.BigInteger, "pending_ms"),
        *columns(sa.BigInteger, "firing_ms", "resolved_ms", nullable=True),
        *columns(sa.Text, "acknowledged_by", "reason", nullable=True),
        *columns(sa.Double, "log10_evidence", "log10_line"),
        *columns(sa.BigInteger, "settled_ms", "since_ms", "from_ms", "to_ms", "events"),
        *columns(sa.Text, "summary", "document"),
        sqlite_autoincrement=True,
    )
    is_current = sa.text("is_current = 1")
    key = ["model", "version", "kind"]
    op.create_index("alerts_current", "alerts", key, unique=True, sqlite_where=is_current, postgresql_where=is_current)
    op.create_index("alerts_by_model", "alerts", ["model", "number"])
    op.create_table(
        "alert_changes",
        numbered(),
        sa.Column("alert", sa.Text, sa.ForeignKey("alerts.id"), nullable=False),
        *columns(sa.BigInteger, "at_ms"),
        *columns(sa.Text, "state", "actor", "note"),
        sqlite_autoincrement=True,
    )
    op.create_index("alert_changes_by_alert", "alert_changes", ["alert", "number"])
    op.create_table(
        "webhooks",
        *keys(sa.Text, "name"),
        *columns(sa.BigInteger, "delivered", "until_ms", "due_ms"),
        *columns(sa.Text, "owner"),
        *columns(sa.Integer, "attempts"),
        *columns(sa.Text, "error", nullable=True),
    )
