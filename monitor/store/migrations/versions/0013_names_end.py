"""When each stratum was last predicted; models by their names, so that one can be removed."""

import sqlalchemy as sa
from alembic import op

from monitor.store.migrations.columns import columns, keys, owner

revision = "0013"
down_revision = "0012"

_CLOCKS = ("prediction_watermark_ms", "outcome_watermark_ms", "closed_to_ms")


def upgrade() -> None:
    """Add the column, and replace the key of the models."""
    op.add_column("strata", sa.Column("newest_ms", sa.BigInteger, nullable=False, server_default="-1"))
    op.rename_table("models", "models_by_id")
    op.create_table(
        "models",
        owner(),
        *keys(sa.Text, "name"),
        *columns(sa.BigInteger, *_CLOCKS),
        *columns(sa.Integer, "awaits_outcomes"),
        sa.Column("saved_ms", sa.BigInteger, nullable=False, server_default="0"),
    )
    names = ", ".join(("partition", "name", *_CLOCKS, "awaits_outcomes", "saved_ms"))
    op.execute(f"INSERT INTO models ({names}) SELECT {names} FROM models_by_id")  # noqa: S608 - constants
    op.drop_table("models_by_id")
