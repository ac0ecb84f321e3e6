"""The tables of the first version: where the migrations of existing stores begin.

There is nothing to migrate to it: :func:`monitor.store.schema.create_tables` makes the tables of a new store.
"""

revision = "baseline"
down_revision = None


def upgrade() -> None:
    """Change nothing: no store is older."""
