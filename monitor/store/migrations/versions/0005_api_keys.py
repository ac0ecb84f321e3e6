"""API keys, of which only digests are kept."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "api_keys",
        sa.Column("key_id", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("digest", sa.LargeBinary, nullable=False),
        sa.Column("grants", sa.Text, nullable=False),
        sa.Column("created_ms", sa.BigInteger, nullable=False),
        sa.Column("expires_ms", sa.BigInteger),
        sa.Column("revoked_ms", sa.BigInteger),
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
