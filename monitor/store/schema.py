"""The store's tables, as a new store has them and as the newest migration leaves an existing one."""

from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Dialect,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.types import TypeDecorator

REVISION: Final = "baseline"
"""The newest revision: that of the last script in ``migrations``."""

METADATA: Final = MetaData()

VERSION: Final = Table(
    "alembic_version",
    MetaData(),
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)
"""Alembic's table: the revision of a store, in one row."""


class NameText(TypeDecorator[str]):
    """Text chosen by a producer. Escapes U+0000, which PostgreSQL cannot store and which must not stop a partition."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        """Escape U+0000."""
        if value is None or ("\0" not in value and "\\" not in value):
            return value
        return value.replace("\\", "\\\\").replace("\0", "\\0")

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        """Undo the escapes."""
        if value is None or "\\" not in value:
            return value
        return "\\".join(part.replace("\\0", "\0") for part in value.split("\\\\"))


def table(name: str, *parts: Any, **options: Any) -> Table:
    """A table of the store; `parts` and `options` are those of SQLAlchemy's Table."""
    return Table(name, METADATA, *parts, **options)


def columns(kind: Any, *names: str, nullable: bool = False) -> list[Column[Any]]:
    """Columns of one type."""
    return [Column(name, kind, nullable=nullable) for name in names]


def keys(kind: Any, *names: str) -> list[Column[Any]]:
    """Columns of one type that are part of the primary key."""
    return [Column(name, kind, primary_key=True, autoincrement=False) for name in names]


def owner() -> Column[int]:
    """The partition that owns a row, part of the primary key."""
    return Column("partition", Integer, ForeignKey("partitions.partition"), primary_key=True, autoincrement=False)


def numbered() -> Column[int]:
    """The primary key of rows that the database numbers."""
    return Column("number", BigInteger().with_variant(Integer, "sqlite"), primary_key=True)


def series_table(name: str, *key: str, peaks: bool = False) -> Table:
    """A table of :class:`monitor.store.series.SeriesStore`: parts of the points of one series and day.

    ``step_ms`` is how far apart the points are at least; 0 as they were saved.
    """
    beside = [*columns(LargeBinary, "peaks"), Index(f"{name}_by_day", "day_ms")] if peaks else []
    return table(
        name,
        numbered(),
        *columns(NameText, *key),
        *columns(BigInteger, "day_ms", "step_ms"),
        *columns(Integer, "size"),
        *columns(LargeBinary, "points"),
        # Covers the query of the housekeeping, so that it reads no points if there is nothing to do.
        Index(f"{name}_by_series", *key, "day_ms", "step_ms"),
        # A request about the fleet reads the peaks of the newest days of all versions.
        *beside,
        # A number is never reused, so the order of numbers is that of evaluations.
        sqlite_autoincrement=True,
    )


META: Final = table(
    "meta",
    *keys(Text, "key"),
    *columns(Text, "value"),
)
"""Versions of the whole store, and the ids of the topics that it was read from."""

PARTITIONS: Final = table(
    "partitions",
    *keys(Integer, "partition"),
    *columns(BigInteger, "epoch"),
    # Raised by every save, even without batches: it numbers the batches, and shows whether a save whose COMMIT was
    # not confirmed took place.
    *columns(BigInteger, "next_sequence", "dead_letters_pruned"),
    # Models that the partition has not met are taken to have no earlier predictions in it: see PartitionClock.
    *columns(BigInteger, "read_to_ms"),
    # Wall-clock time of the last save: says since when the partition is not read.
    *columns(BigInteger, "saved_ms"),
)

OFFSETS: Final = table(
    "offsets",
    owner(),
    *keys(Text, "topic"),
    *columns(BigInteger, "next_offset"),
)

MODELS: Final = table(
    "models",
    owner(),
    *keys(NameText, "name"),
    *columns(BigInteger, "prediction_watermark_ms", "outcome_watermark_ms", "closed_to_ms"),
    *columns(Integer, "awaits_outcomes"),
    # Wall-clock time of the last save that changed it: says which models have stopped.
    *columns(BigInteger, "saved_ms"),
)

STRATA: Final = table(
    "strata",
    owner(),
    *keys(Integer, "stratum_id"),
    *columns(NameText, "model", "version"),
    *columns(Text, "segments"),  # JSON: [[key, value], ...]
    # About when it was last predicted: says when nothing holds it any more.
    *columns(BigInteger, "newest_ms"),
)

JOURNAL: Final = table(
    "journal",
    owner(),
    *keys(BigInteger, "sequence"),
    *columns(NameText, "model"),
    *columns(BigInteger, "bucket_ms"),
    *columns(Integer, "size"),
    *columns(LargeBinary, "rows"),
    # Covers the query of the compaction, so that it reads no rows if there is nothing to do.
    Index("journal_by_bucket", "partition", "model", "bucket_ms", "sequence", "size"),
)

CLOSINGS: Final = table(
    "closings",
    owner(),
    *keys(NameText, "model"),
    *keys(BigInteger, "to_ms"),
    *columns(BigInteger, "from_ms", "pane_ms"),
    *columns(LargeBinary, "cells"),
    *columns(LargeBinary, "sketches", nullable=True),
)

UNSETTLED: Final = table(
    "unsettled",
    owner(),
    *columns(LargeBinary, "cells"),
    *columns(LargeBinary, "sketches", nullable=True),
)

HISTORY: Final = series_table("history", "model", "version", "segment")
"""Points of one series whose windows end within one day: see :mod:`monitor.store.history`."""

SAMPLE_CANDIDATES: Final = table(
    "sample_candidates",
    owner(),
    *keys(BigInteger, "sequence"),
    *columns(NameText, "model"),
    *columns(BigInteger, "bucket_ms"),
    *columns(LargeBinary, "rows"),
    Index("sample_candidates_by_bucket", "partition", "model", "bucket_ms"),
)

CLOSED_SAMPLES: Final = table(
    "closed_samples",
    owner(),
    # In the order in which the index also finds expired spans.
    *keys(NameText, "model"),
    *keys(BigInteger, "slide_ms", "start_ms"),
    *keys(NameText, "version", "segment"),
    *keys(BigInteger, "sequence"),
    *columns(Integer, "size"),
    *columns(LargeBinary, "sample"),
    # A refit reads one version of a model, of all partitions.
    Index("closed_samples_by_version", "model", "version"),
)
"""Keyed as panes are: ``slide_ms`` is the width of the span, ``segment`` is always ``all``. A span's sample is the sum
of its parts, numbered in the order in which they were saved; ``size`` is their number of bytes."""

COUNTERS: Final = table(
    "counters",
    owner(),
    *keys(Text, "type", "result"),
    *columns(BigInteger, "events"),
)

CAPS: Final = table(
    "caps",
    owner(),
    *keys(Text, "setting"),
    *keys(NameText, "model", "segment_key"),
    *columns(Integer, "used", "allowed"),
    *columns(BigInteger, "folded", "newest_ms"),
)
"""The caps of which :data:`monitor.store.base.CapUses` speaks."""

DEAD_LETTERS: Final = table(
    "dead_letters",
    numbered(),
    *columns(BigInteger, "stored_ms"),
    *columns(Text, "topic"),
    *columns(Integer, "partition"),
    *columns(BigInteger, "offset", "timestamp_ms"),
    *columns(Text, "reason"),
    *columns(NameText, "detail"),
    *columns(LargeBinary, "key", "value", nullable=True),
    *columns(LargeBinary, "headers"),  # MessagePack: [[name, bytes or nil], ...]
    UniqueConstraint("topic", "partition", "offset", name="dead_letters_by_offset"),
    Index("dead_letters_by_reason", "reason", "number"),
    # A number is never reused, so that pages can continue after a number.
    sqlite_autoincrement=True,
)

_UNDER_WAY: Final = text("state IN ('queued', 'running')")
_SERVES: Final = text("until_ms IS NULL")
_NOT_REVOKED: Final = text("revoked_ms IS NULL")

REFITS: Final = table(
    "refits",
    numbered(),
    Column("id", Text, nullable=False, unique=True),
    *columns(NameText, "model", "version"),
    *columns(Text, "method"),
    *columns(Text, "options"),  # JSON
    *columns(BigInteger, "window_ms", "since_ms", nullable=True),
    *columns(Integer, "promote"),
    *columns(Text, "triggered_by", "state"),
    *columns(BigInteger, "requested_ms"),
    *columns(NameText, "actor"),
    *columns(BigInteger, "started_ms", "finished_ms", nullable=True),
    *columns(Double, "progress"),
    *columns(NameText, "step"),
    *columns(Integer, "attempts"),
    *columns(NameText, "reason", nullable=True),
    *columns(Text, "comparison", nullable=True),  # JSON
    *columns(Text, "figures"),  # JSON: [name, ...]
    *columns(Text, "baseline", nullable=True),
    # The worker of it, or the last one: tells a repeated report of its end from one that comes too late.
    *columns(Text, "owner", nullable=True),
    *columns(BigInteger, "lease_until_ms", nullable=True),
    Column("idempotency_key", NameText, unique=True),
    *columns(NameText, "fingerprint"),
    Index("refits_under_way", "model", unique=True, sqlite_where=_UNDER_WAY, postgresql_where=_UNDER_WAY),
    Index("refits_by_model", "model", "number"),
    sqlite_autoincrement=True,
)

RECALIBRATION_MAPS: Final = table(
    "recalibration_maps",
    Column("id", Text, ForeignKey("refits.id"), primary_key=True),
    *columns(LargeBinary, "artifact"),
    *columns(Text, "sha256"),
)

REFIT_FIGURES: Final = table(
    "refit_figures",
    Column("refit", Text, ForeignKey("refits.id"), primary_key=True),
    *keys(Text, "name"),
    *columns(LargeBinary, "document"),  # JSON
)

SERVINGS: Final = table(
    "servings",
    *keys(NameText, "model", "version"),
    *keys(BigInteger, "revision"),
    *columns(Text, "map_id", nullable=True),  # null: predictions as they are
    *columns(BigInteger, "since_ms"),
    # The second is the revision that a rollback restores; null: predictions as they are.
    *columns(BigInteger, "until_ms", "goes_back_to", nullable=True),
    # Event time: of the newest prediction that had been read.
    *columns(BigInteger, "from_ms"),
    Index("servings_now", "model", "version", unique=True, sqlite_where=_SERVES, postgresql_where=_SERVES),
)

REFIT_SCHEDULES: Final = table(
    "refit_schedules",
    *keys(NameText, "model"),
    *columns(Text, "expression"),
    *columns(BigInteger, "handled_ms"),
)

AUDIT: Final = table(
    "audit",
    numbered(),
    *columns(BigInteger, "at_ms"),
    *columns(NameText, "actor"),
    *columns(Text, "action"),
    *columns(NameText, "model", "version", "subject"),
    *columns(Text, "detail"),  # JSON
    Index("audit_by_model", "model", "number"),
    sqlite_autoincrement=True,
)

API_KEYS: Final = table(
    "api_keys",
    *keys(Text, "key_id"),
    *columns(NameText, "name"),
    *columns(LargeBinary, "digest"),
    *columns(Text, "grants"),  # JSON: ["read", "promote:churn", ...]
    *columns(BigInteger, "created_ms"),
    *columns(BigInteger, "expires_ms", "revoked_ms", nullable=True),
    Index("api_keys_by_name", "name", unique=True, sqlite_where=_NOT_REVOKED, postgresql_where=_NOT_REVOKED),
)

REPLICAS: Final = table(
    "replicas",
    *keys(Text, "id"),
    *columns(BigInteger, "started_ms", "seen_ms"),
    *columns(Text, "roles"),  # separated by commas
)

EVALUATIONS: Final = table(
    "evaluations",
    *keys(NameText, "model"),
    # The lease: who evaluates the model, until when, and how many leases there were.
    *columns(Text, "owner"),
    *columns(BigInteger, "epoch", "until_ms"),
    # The latest evaluation. Its number changes where its content does.
    *columns(BigInteger, "number", "evaluated_ms"),
    *columns(LargeBinary, "summary"),
    # Its moment, to find whether the next one is to be added to `evaluated_moments`, and when its watermark was new.
    *columns(BigInteger, "watermark_ms", "edge_ms", "since_ms"),
    *columns(NameText, "version"),
)

EVALUATED_REPORTS: Final = table(
    "evaluated_reports",
    *keys(NameText, "model"),
    *columns(BigInteger, "number"),  # of the evaluation that last changed them
    *columns(LargeBinary, "reports"),
)
"""Apart from the leases, which are renewed every few seconds: reports are large and change more rarely."""

EVALUATED_MOMENTS: Final = table(
    "evaluated_moments",
    *keys(NameText, "model"),
    *keys(BigInteger, "watermark_ms"),
    # Up to this watermark the evaluation before was shown.
    *columns(BigInteger, "before_to_ms", "edge_ms"),
    *columns(NameText, "version"),
)
"""The watermarks at which evaluations of a model had another settled edge, or current version, than the ones before."""

_IS_CURRENT: Final = text("is_current = 1")

ALERTS: Final = table(
    "alerts",
    numbered(),
    Column("id", Text, nullable=False, unique=True),
    *columns(NameText, "model", "version"),
    *columns(Text, "kind", "state"),
    # Until its evidence has fallen below the line after it was resolved.
    *columns(Integer, "is_current"),
    *columns(BigInteger, "pending_ms"),
    *columns(BigInteger, "firing_ms", "raised_ms", "muted_until_ms", "resolved_ms", nullable=True),
    *columns(NameText, "acknowledged_by", "assigned_to", nullable=True),
    *columns(Text, "reason", nullable=True),
    *columns(Text, "finding", "document"),  # JSON
    Index("alerts_current", "model", "version", sqlite_where=_IS_CURRENT, postgresql_where=_IS_CURRENT),
    Index("alerts_by_model", "model", "number"),
    sqlite_autoincrement=True,
)

ALERT_CHANGES: Final = table(
    "alert_changes",
    numbered(),
    Column("alert", Text, ForeignKey("alerts.id"), nullable=False),
    *columns(BigInteger, "at_ms"),
    *columns(Text, "state"),
    *columns(NameText, "actor", "note"),
    Index("alert_changes_by_alert", "alert", "number"),
    sqlite_autoincrement=True,
)

WEBHOOKS: Final = table(
    "webhooks",
    *keys(Text, "name"),
    *columns(BigInteger, "delivered"),  # number of the last change that was delivered or refused
    # Who delivers the next one, and until when nobody else does.
    *columns(Text, "owner"),
    *columns(BigInteger, "until_ms"),
    # The attempts to deliver the next one, and when it is tried again.
    *columns(Integer, "attempts"),
    *columns(BigInteger, "due_ms"),
    *columns(NameText, "error", nullable=True),
)

EVIDENCE: Final = table(
    "evidence",
    *keys(NameText, "model", "version"),
    *columns(BigInteger, "to_ms"),  # predictions before this time are in it
    *columns(LargeBinary, "state"),
)
"""What the detectors of a version continue from."""

EVIDENCE_HISTORY: Final = series_table("evidence_history", "model", "version", peaks=True)
"""Points of one version within one day: see :mod:`monitor.store.evidence_history`."""

_NEVER_CHANGED: Final = {"audit": ("UPDATE", "DELETE"), "recalibration_maps": ("UPDATE",)}
"""Table -> statements that the database itself refuses."""


def create_tables(connection: Connection) -> None:
    """Create all tables in an empty database."""
    METADATA.create_all(connection)
    if connection.dialect.name == "sqlite":
        _set_up_sqlite(connection)
    else:
        _set_up_postgresql(connection)


def _set_up_sqlite(connection: Connection) -> None:
    for table, verbs in _NEVER_CHANGED.items():
        for verb in verbs:
            trigger = f"CREATE TRIGGER {table}_refuses_{verb.lower()} BEFORE {verb} ON {table}"
            error = f"SELECT RAISE(ABORT, 'rows of {table} are never changed')"
            connection.execute(text(f"{trigger} BEGIN {error}; END"))


def _set_up_postgresql(connection: Connection) -> None:
    # Hashes hardly compress, and trying costs more than writing them.
    connection.execute(text("ALTER TABLE journal ALTER COLUMN rows SET STORAGE EXTERNAL"))
    error = "RAISE EXCEPTION 'rows of % are never changed', TG_TABLE_NAME"
    function = "CREATE OR REPLACE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql"
    connection.execute(text(f"{function} AS $$ BEGIN {error}; END $$"))
    for table, verbs in _NEVER_CHANGED.items():
        trigger = f"CREATE TRIGGER {table}_refuses_change BEFORE {' OR '.join(verbs)} ON {table}"
        connection.execute(text(f"{trigger} FOR EACH ROW EXECUTE FUNCTION refuse_change()"))
