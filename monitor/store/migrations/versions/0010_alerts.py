"""Alerts, their changes, and how far webhooks were delivered."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Add the tables."""
    number = sa.BigInteger().with_variant(sa.Integer, "sqlite")
    op.create_table(
        "alerts",
        sa.Column("number", number, primary_key=True),
        sa.Column("id", sa.Text, nullable=False, unique=True),
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("version", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("is_current", sa.Integer, nullable=False),
        sa.Column("pending_ms", sa.BigInteger, nullable=False),
        sa.Column("firing_ms", sa.BigInteger),
        sa.Column("acknowledged_by", sa.Text),
        sa.Column("resolved_ms", sa.BigInteger),
        sa.Column("reason", sa.Text),
        sa.Column("log10_evidence", sa.Double, nullable=False),
        sa.Column("log10_line", sa.Double, nullable=False),
        sa.Column("settled_ms", sa.BigInteger, nullable=False),
        sa.Column("since_ms", sa.BigInteger, nullable=False),
        sa.Column("from_ms", sa.BigInteger, nullable=False),
        sa.Column("to_ms", sa.BigInteger, nullable=False),
        sa.Column("events", sa.BigInteger, nullable=False),
        sa.Column("summary", sa.Text, nullable=False),
        sa.Column("document", sa.Text, nullable=False),
        sqlite_autoincrement=True,
    )
    is_current = sa.text("is_current = 1")
    op.create_index(
        "alerts_current",
        "alerts",
        ["model", "version", "kind"],
        unique=True,
        sqlite_where=is_current,
        postgresql_where=is_current,
    )
    op.create_index("alerts_by_model", "alerts", ["model", "number"])
    op.create_table(
        "alert_changes",
        sa.Column("number", number, primary_key=True),
        sa.Column("alert", sa.Text, sa.ForeignKey("alerts.id"), nullable=False),
        sa.Column("at_ms", sa.BigInteger, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("note", sa.Text, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("alert_changes_by_alert", "alert_changes", ["alert", "number"])
    op.create_table(
        "webhooks",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("delivered", sa.BigInteger, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("until_ms", sa.BigInteger, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("due_ms", sa.BigInteger, nullable=False),
        sa.Column("error", sa.Text),
    )
