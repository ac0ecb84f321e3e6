"""Refits, their maps and figures, what serves and served, schedules, and the audit trail."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

_APPENDED_ONLY = {"audit": ("UPDATE", "DELETE"), "recalibration_maps": ("UPDATE",)}
"""Table -> what the database itself refuses."""


def upgrade() -> None:
    """Add the tables."""
    number = sa.BigInteger().with_variant(sa.Integer, "sqlite")
    op.create_table(
        "refits",
        sa.Column("number", number, primary_key=True),
        sa.Column("id", sa.Text, nullable=False, unique=True),
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("version", sa.Text, nullable=False),
        sa.Column("method", sa.Text, nullable=False),
        sa.Column("options", sa.Text, nullable=False),
        sa.Column("window_ms", sa.BigInteger),
        sa.Column("promote", sa.Integer, nullable=False),
        sa.Column("triggered_by", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("requested_ms", sa.BigInteger, nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("started_ms", sa.BigInteger),
        sa.Column("finished_ms", sa.BigInteger),
        sa.Column("progress", sa.Double, nullable=False),
        sa.Column("step", sa.Text, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("reason", sa.Text),
        sa.Column("comparison", sa.Text),
        sa.Column("figures", sa.Text, nullable=False),
        sa.Column("baseline", sa.Text),
        sa.Column("owner", sa.Text),
        sa.Column("lease_until_ms", sa.BigInteger),
        sa.Column("idempotency_key", sa.Text, unique=True),
        sa.Column("fingerprint", sa.Text, nullable=False),
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
        sa.Column("artifact", sa.LargeBinary, nullable=False),
        sa.Column("sha256", sa.Text, nullable=False),
    )
    op.create_table(
        "refit_figures",
        sa.Column("refit", sa.Text, sa.ForeignKey("refits.id"), primary_key=True),
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("svg", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "servings",
        sa.Column("model", sa.Text, primary_key=True),
        sa.Column("version", sa.Text, primary_key=True),
        sa.Column("revision", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("map_id", sa.Text),
        sa.Column("since_ms", sa.BigInteger, nullable=False),
        sa.Column("until_ms", sa.BigInteger),
        sa.Column("goes_back_to", sa.BigInteger),
    )
    serves = sa.text("until_ms IS NULL")
    op.create_index(
        "servings_now", "servings", ["model", "version"], unique=True, sqlite_where=serves, postgresql_where=serves
    )
    op.create_table(
        "refit_schedules",
        sa.Column("model", sa.Text, primary_key=True),
        sa.Column("expression", sa.Text, nullable=False),
        sa.Column("handled_ms", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "audit",
        sa.Column("number", number, primary_key=True),
        sa.Column("at_ms", sa.BigInteger, nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("action", sa.Text, nullable=False),
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("version", sa.Text, nullable=False),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("detail", sa.Text, nullable=False),
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
