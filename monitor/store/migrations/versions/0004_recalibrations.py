"""Refits, their maps and figures, what serves and served, schedules, and the audit trail."""

import sqlalchemy as sa
from alembic import op

from monitor.store.migrations.columns import columns, keys, numbered

revision = "0004"
down_revision = "0003"

_APPENDED_ONLY = {"audit": ("UPDATE", "DELETE"), "recalibration_maps": ("UPDATE",)}
"""Table -> what the database itself refuses."""


def upgrade() -> None:
    """Add the tables."""
    op.create_table(
        "refits",
        numbered(),
        sa.Column("id", sa.Text, nullable=False, unique=True),
        *columns(sa.Text, "model", "version", "method", "options"),
        *columns(sa.BigInteger, "window_ms", nullable=True),
        *columns(sa.Integer, "promote"),
        *columns(sa.Text, "triggered_by", "state"),
        *columns(sa.BigInteger, "requested_ms"),
        *columns(sa.Text, "actor"),
        *columns(sa.BigInteger, "started_ms", "finished_ms", nullable=True),
        *columns(sa.Double, "progress"),
        *columns(sa.Text, "step"),
        *columns(sa.Integer, "attempts"),
        *columns(sa.Text, "reason", "comparison", nullable=True),
        *columns(sa.Text, "figures"),
        *columns(sa.Text, "baseline", "owner", nullable=True),
        *columns(sa.BigInteger, "lease_until_ms", nullable=True),
        sa.Column("idempotency_key", sa.Text, unique=True),
        *columns(sa.Text, "fingerprint"),
        sqlite_autoincrement=True,
    )
    under_way = sa.text("state IN ('queued', 'running')")
    op.create_index(
        "refits_under_way", "refits", ["model"], unique=True, sqlite_where=under_way, postgresql_where=under_way
    )
    op.create_index("refits_by_model", "refits", ["model", "number"])
    op.create_table(
        "recalibration_maps",
        sa.Column("id", sa.Text, sa.ForeignKey("refits.id"), primary_key=True),
        *columns(sa.LargeBinary, "artifact"),
        *columns(sa.Text, "sha256"),
    )
    op.create_table(
        "refit_figures",
        sa.Column("refit", sa.Text, sa.ForeignKey("refits.id"), primary_key=True),
        *keys(sa.Text, "name"),
        *columns(sa.LargeBinary, "svg"),
    )
    op.create_table(
        "servings",
        *keys(sa.Text, "model", "version"),
        *keys(sa.BigInteger, "revision"),
        *columns(sa.Text, "map_id", nullable=True),
        *columns(sa.BigInteger, "since_ms"),
        *columns(sa.BigInteger, "until_ms", "goes_back_to", nullable=True),
    )
    serves = sa.text("until_ms IS NULL")
    op.create_index(
        "servings_now", "servings", ["model", "version"], unique=True, sqlite_where=serves, postgresql_where=serves
    )
    op.create_table(
        "refit_schedules",
        *keys(sa.Text, "model"),
        *columns(sa.Text, "expression"),
        *columns(sa.BigInteger, "handled_ms"),
    )
    op.create_table(
        "audit",
        numbered(),
        *columns(sa.BigInteger, "at_ms"),
        *columns(sa.Text, "actor", "action", "model", "version", "subject", "detail"),
        sqlite_autoincrement=True,
    )
    op.create_index("audit_by_model", "audit", ["model", "number"])
    if op.get_context().dialect.name == "postgresql":
        _guard_postgresql()
    else:
        _guard_sqlite()


def _guard_sqlite() -> None:
    for table, refused in _APPENDED_ONLY.items():
        for verb in refused:
            op.execute(
                f"CREATE TRIGGER {table}_refuses_{verb.lower()} BEFORE {verb} ON {table}"
                f" BEGIN SELECT RAISE(ABORT, 'rows of {table} are never changed'); END"
            )


def _guard_postgresql() -> None:
    op.execute(
        "CREATE OR REPLACE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN RAISE EXCEPTION 'rows of % are never changed', TG_TABLE_NAME; END $$"
    )
    for table, refused in _APPENDED_ONLY.items():
        op.execute(
            f"CREATE TRIGGER {table}_refuses_change BEFORE {' OR '.join(refused)} ON {table}"
            " FOR EACH ROW EXECUTE FUNCTION refuse_change()"
        )
