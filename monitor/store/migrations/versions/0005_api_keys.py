"""API keys, of which only digests are kept."""

import sqlalchemy as sa
from alembic import op

from monitor.store.migrations.columns import columns, keys

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "api_keys",
        *keys(sa.Text, "key_id"),
        *columns(sa.Text, "name"),
        *columns(sa.LargeBinary, "digest"),
        *columns(sa.Text, "grants"),
        *columns(sa.BigInteger, "created_ms"),
        *columns(sa.BigInteger, "expires_ms", "revoked_ms", nullable=True),
    )
    not_revoked = sa.text("revoked_ms IS NULL")
    op.create_index(
        "api_keys_by_name",
        "api_keys",
        ["name"],
        unique=True,
        sqlite_where=not_revoked,
        postgresql_where=not_revoked,
    )
