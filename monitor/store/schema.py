"""The store's tables, as of the newest migration."""

from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Column,
    Dialect,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.types import TypeDecorator

METADATA: Final = MetaData()

FORMER_TABLES: Final = ("closed_panes", "closed_sketches")
"""Tables of earlier revisions that there are no more."""


class Name(TypeDecorator[str]):
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


META: Final = Table(
    "meta",
    METADATA,
    Column("key", Text, primary_key=True),
    Column("value", Text, nullable=False),
)
"""Versions of the whole store, and the ids of the topics that it was read from."""

PARTITIONS: Final = Table(
    "partitions",
    METADATA,
    Column("partition", Integer, primary_key=True, autoincrement=False),
    Column("epoch", BigInteger, nullable=False),
    # Raised by every save, even without batches: it numbers the batches, and shows whether a save whose COMMIT was
    # not confirmed took place.
    Column("next_sequence", BigInteger, nullable=False),
    Column("dead_letters_pruned", BigInteger, nullable=False),
    # Models that the partition has not met are taken to have no earlier predictions in it: see PartitionClock.
    Column("read_to_ms", BigInteger, nullable=False, server_default="-1"),
    # Wall-clock time of the last save: says since when the partition is not read.
    Column("saved_ms", BigInteger, nullable=False, server_default="0"),
)


def _partition() -> Column[int]:
    return Column("partition", Integer, ForeignKey("partitions.partition"), primary_key=True, autoincrement=False)


def _pane_key() -> list[Column[Any]]:
    """Columns of a pane's key, in the order in which the index also finds expired panes."""
    return [
        Column("model", Name, primary_key=True),
        Column("slide_ms", BigInteger, primary_key=True, autoincrement=False),
        Column("start_ms", BigInteger, primary_key=True, autoincrement=False),
        Column("version", Name, primary_key=True),
        Column("segment", Name, primary_key=True),
    ]


def _number() -> Column[int]:
    return Column("number", BigInteger().with_variant(Integer, "sqlite"), primary_key=True)


OFFSETS: Final = Table(
    "offsets",
    METADATA,
    _partition(),
    Column("topic", Text, primary_key=True),
    Column("next_offset", BigInteger, nullable=False),
)

MODELS: Final = Table(
    "models",
    METADATA,
    _partition(),
    Column("model_id", Integer, primary_key=True, autoincrement=False),
    Column("name", Name, nullable=False),
    Column("prediction_watermark_ms", BigInteger, nullable=False),
    Column("outcome_watermark_ms", BigInteger, nullable=False),
    Column("closed_to_ms", BigInteger, nullable=False),
    Column("awaits_outcomes", Integer, nullable=False),
    # Wall-clock time of the last save that changed it: says which models have stopped.
    Column("saved_ms", BigInteger, nullable=False, server_default="0"),
)

STRATA: Final = Table(
    "strata",
    METADATA,
    _partition(),
    Column("stratum_id", Integer, primary_key=True, autoincrement=False),
    Column("model", Name, nullable=False),
    Column("version", Name, nullable=False),
    Column("segments", Text, nullable=False),  # JSON: [[key, value], ...]
)

JOURNAL: Final = Table(
    "journal",
    METADATA,
    _partition(),
    Column("sequence", BigInteger, primary_key=True, autoincrement=False),
    Column("model", Name, nullable=False),
    Column("bucket_ms", BigInteger, nullable=False),
    Column("size", Integer, nullable=False),
    Column("rows", LargeBinary, nullable=False),
    # Covers the query of the compaction, so that it reads no rows if there is nothing to do.
    Index("journal_by_bucket", "partition", "model", "bucket_ms", "sequence", "size"),
)

CLOSINGS: Final = Table(
    "closings",
    METADATA,
    _partition(),
    Column("model", Name, primary_key=True),
    Column("to_ms", BigInteger, primary_key=True, autoincrement=False),
    Column("from_ms", BigInteger, nullable=False),
    Column("pane_ms", BigInteger, nullable=False),
    Column("cells", LargeBinary, nullable=False),
    Column("sketches", LargeBinary),
)

UNSETTLED: Final = Table(
    "unsettled",
    METADATA,
    _partition(),
    Column("cells", LargeBinary, nullable=False),
    Column("sketches", LargeBinary),
)

HISTORY: Final = Table(
    "history",
    METADATA,
    _number(),
    Column("model", Name, nullable=False),
    Column("version", Name, nullable=False),
    Column("segment", Name, nullable=False),
    Column("day_ms", BigInteger, nullable=False),
    Column("step_ms", BigInteger, nullable=False),
    Column("size", Integer, nullable=False),
    Column("points", LargeBinary, nullable=False),
    # Covers the query of the housekeeping, so that it reads no points if there is nothing to do.
    Index("history_by_series", "model", "version", "segment", "day_ms", "step_ms"),
    # A number is never reused, so the order of numbers is that of evaluations.
    sqlite_autoincrement=True,
)
"""Points of one series whose windows end within one day, as :class:`monitor.store.history.Points` writes them.
``step_ms`` is how far apart the points are at least; 0 as they were evaluated."""

SAMPLE_CANDIDATES: Final = Table(
    "sample_candidates",
    METADATA,
    _partition(),
    Column("sequence", BigInteger, primary_key=True, autoincrement=False),
    Column("model", Name, nullable=False),
    Column("bucket_ms", BigInteger, nullable=False),
    Column("rows", LargeBinary, nullable=False),
    Index("sample_candidates_by_bucket", "partition", "model", "bucket_ms"),
)

CLOSED_SAMPLES: Final = Table(
    "closed_samples",
    METADATA,
    _partition(),
    *_pane_key(),
    Column("sequence", BigInteger, primary_key=True, autoincrement=False),
    Column("size", Integer, nullable=False),
    Column("sample", LargeBinary, nullable=False),
    # A refit reads one version of a model, of all partitions.
    Index("closed_samples_by_version", "model", "version"),
)
"""Keyed as panes are: ``slide_ms`` is the width of the span, ``segment`` is always ``all``. A span's sample is the sum
of its parts, numbered in the order in which they were saved; ``size`` is their number of bytes."""

COUNTERS: Final = Table(
    "counters",
    METADATA,
    _partition(),
    Column("type", Text, primary_key=True),
    Column("result", Text, primary_key=True),
    Column("events", BigInteger, nullable=False),
)

DEAD_LETTERS: Final = Table(
    "dead_letters",
    METADATA,
    _number(),
    Column("stored_ms", BigInteger, nullable=False),
    Column("topic", Text, nullable=False),
    Column("partition", Integer, nullable=False),
    Column("offset", BigInteger, nullable=False),
    Column("timestamp_ms", BigInteger, nullable=False),
    Column("reason", Text, nullable=False),
    Column("detail", Name, nullable=False),
    Column("key", LargeBinary),
    Column("value", LargeBinary),
    Column("headers", LargeBinary, nullable=False),  # MessagePack: [[name, bytes], ...]
    UniqueConstraint("topic", "partition", "offset", name="dead_letters_by_offset"),
    Index("dead_letters_by_reason", "reason", "number"),
    # A number is never reused, so that pages can continue after a number.
    sqlite_autoincrement=True,
)

_UNDER_WAY: Final = text("state IN ('queued', 'running')")
_SERVES: Final = text("until_ms IS NULL")
_NOT_REVOKED: Final = text("revoked_ms IS NULL")

REFITS: Final = Table(
    "refits",
    METADATA,
    _number(),
    Column("id", Text, nullable=False, unique=True),
    Column("model", Name, nullable=False),
    Column("version", Name, nullable=False),
    Column("method", Text, nullable=False),
    Column("options", Text, nullable=False),  # JSON
    Column("window_ms", BigInteger),
    Column("promote", Integer, nullable=False),
    Column("triggered_by", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("requested_ms", BigInteger, nullable=False),
    Column("actor", Name, nullable=False),
    Column("started_ms", BigInteger),
    Column("finished_ms", BigInteger),
    Column("progress", Double, nullable=False),
    Column("step", Name, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("reason", Name),
    Column("comparison", Text),  # JSON
    Column("figures", Text, nullable=False),  # JSON: [name, ...]
    Column("baseline", Text),
    # The worker of it, or the last one: tells a repeated report of its end from one that comes too late.
    Column("owner", Text),
    Column("lease_until_ms", BigInteger),
    Column("idempotency_key", Name, unique=True),
    Column("fingerprint", Name, nullable=False),
    Index("refits_under_way", "model", unique=True, sqlite_where=_UNDER_WAY, postgresql_where=_UNDER_WAY),
    Index("refits_by_model", "model", "number"),
    sqlite_autoincrement=True,
)

RECALIBRATION_MAPS: Final = Table(
    "recalibration_maps",
    METADATA,
    Column("id", Text, ForeignKey("refits.id"), primary_key=True),
    Column("artifact", LargeBinary, nullable=False),
    Column("sha256", Text, nullable=False),
)

REFIT_FIGURES: Final = Table(
    "refit_figures",
    METADATA,
    Column("refit", Text, ForeignKey("refits.id"), primary_key=True),
    Column("name", Text, primary_key=True),
    Column("svg", LargeBinary, nullable=False),
)

SERVINGS: Final = Table(
    "servings",
    METADATA,
    Column("model", Name, primary_key=True),
    Column("version", Name, primary_key=True),
    Column("revision", BigInteger, primary_key=True, autoincrement=False),
    Column("map_id", Text),  # null: predictions as they are
    Column("since_ms", BigInteger, nullable=False),
    Column("until_ms", BigInteger),
    Column("goes_back_to", BigInteger),  # the revision that a rollback restores; null: predictions as they are
    Index("servings_now", "model", "version", unique=True, sqlite_where=_SERVES, postgresql_where=_SERVES),
)

REFIT_SCHEDULES: Final = Table(
    "refit_schedules",
    METADATA,
    Column("model", Name, primary_key=True),
    Column("expression", Text, nullable=False),
    Column("handled_ms", BigInteger, nullable=False),
)

AUDIT: Final = Table(
    "audit",
    METADATA,
    _number(),
    Column("at_ms", BigInteger, nullable=False),
    Column("actor", Name, nullable=False),
    Column("action", Text, nullable=False),
    Column("model", Name, nullable=False),
    Column("version", Name, nullable=False),
    Column("subject", Name, nullable=False),
    Column("detail", Text, nullable=False),  # JSON
    Index("audit_by_model", "model", "number"),
    sqlite_autoincrement=True,
)

API_KEYS: Final = Table(
    "api_keys",
    METADATA,
    Column("key_id", Text, primary_key=True),
    Column("name", Name, nullable=False),
    Column("digest", LargeBinary, nullable=False),
    Column("grants", Text, nullable=False),  # JSON: ["read", "promote:churn", ...]
    Column("created_ms", BigInteger, nullable=False),
    Column("expires_ms", BigInteger),
    Column("revoked_ms", BigInteger),
    Index("api_keys_by_name", "name", unique=True, sqlite_where=_NOT_REVOKED, postgresql_where=_NOT_REVOKED),
)

REPLICAS: Final = Table(
    "replicas",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("started_ms", BigInteger, nullable=False),
    Column("seen_ms", BigInteger, nullable=False),
    Column("roles", Text, nullable=False),  # separated by commas
)

EVALUATIONS: Final = Table(
    "evaluations",
    METADATA,
    Column("model", Name, primary_key=True),
    # The lease: who evaluates the model, until when, and how many leases there were.
    Column("owner", Text, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("until_ms", BigInteger, nullable=False),
    # The latest evaluation. Its number changes where its content does.
    Column("number", BigInteger, nullable=False),
    Column("evaluated_ms", BigInteger, nullable=False),
    Column("summary", LargeBinary, nullable=False),
)

EVALUATED_REPORTS: Final = Table(
    "evaluated_reports",
    METADATA,
    Column("model", Name, primary_key=True),
    Column("number", BigInteger, nullable=False),  # of the evaluation that last changed them
    Column("reports", LargeBinary, nullable=False),
)
"""Apart from the leases, which are renewed every few seconds: reports are large and change more rarely."""

_IS_CURRENT: Final = text("is_current = 1")

ALERTS: Final = Table(
    "alerts",
    METADATA,
    _number(),
    Column("id", Text, nullable=False, unique=True),
    Column("model", Name, nullable=False),
    Column("version", Name, nullable=False),
    Column("kind", Text, nullable=False),
    Column("state", Text, nullable=False),
    # Until its evidence has fallen below the line after it was resolved.
    Column("is_current", Integer, nullable=False),
    Column("pending_ms", BigInteger, nullable=False),
    Column("firing_ms", BigInteger),
    Column("acknowledged_by", Name),
    Column("resolved_ms", BigInteger),
    Column("reason", Text),
    Column("log10_evidence", Double, nullable=False),
    Column("log10_line", Double, nullable=False),
    Column("settled_ms", BigInteger, nullable=False),
    Column("since_ms", BigInteger, nullable=False),
    Column("from_ms", BigInteger, nullable=False),
    Column("to_ms", BigInteger, nullable=False),
    Column("events", BigInteger, nullable=False),
    Column("summary", Name, nullable=False),
    Column("document", Text, nullable=False),  # JSON
    Index(
        "alerts_current",
        "model",
        "version",
        "kind",
        unique=True,
        sqlite_where=_IS_CURRENT,
        postgresql_where=_IS_CURRENT,
    ),
    Index("alerts_by_model", "model", "number"),
    sqlite_autoincrement=True,
)

ALERT_CHANGES: Final = Table(
    "alert_changes",
    METADATA,
    _number(),
    Column("alert", Text, ForeignKey("alerts.id"), nullable=False),
    Column("at_ms", BigInteger, nullable=False),
    Column("state", Text, nullable=False),
    Column("actor", Name, nullable=False),
    Column("note", Name, nullable=False),
    Index("alert_changes_by_alert", "alert", "number"),
    sqlite_autoincrement=True,
)

WEBHOOKS: Final = Table(
    "webhooks",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("delivered", BigInteger, nullable=False),  # number of the last change that was delivered or refused
    # Who delivers the next one, and until when nobody else does.
    Column("owner", Text, nullable=False),
    Column("until_ms", BigInteger, nullable=False),
    # The attempts to deliver the next one, and when it is tried again.
    Column("attempts", Integer, nullable=False),
    Column("due_ms", BigInteger, nullable=False),
    Column("error", Name),
)
