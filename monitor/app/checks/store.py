"""Check that the store answers, has this version, can be written, and continues at offsets that the log still has."""

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa

from monitor.app.checks.base import MAX_SKEW_SECONDS, CheckResult, Surroundings, existing_folder, fail, ok, warn
from monitor.app.log_bounds import LogBounds, continuation
from monitor.app.parts import make_kept_ms, make_measures, make_policy, make_webhooks
from monitor.errors import NoStore, SettingsError, SourceError
from monitor.events.model import ALL, Reason
from monitor.events.times import format_time
from monitor.metrics.series import Level, read_families
from monitor.metrics.windows import report_series
from monitor.reports.evaluation.report import Report
from monitor.reports.formatting import size_text
from monitor.store.address import connect_existing, sqlite_path
from monitor.store.base import BACKFILL, StoredDeadLetter
from monitor.store.caps import cap_warning
from monitor.store.database import Database
from monitor.store.evaluations import EvaluationStore
from monitor.store.migrate import (
    check_grid,
    check_no_foreign_tables,
    check_revision,
    grid_version_of,
    newest_revision,
    revision_of,
)
from monitor.store.schema import OFFSETS, PARTITIONS
from monitor.store.settled import running, settled_edge
from monitor.store.sql import SqlStore
from monitor.store.webhooks import WebhookStore
from monitor.windows.leases import EVALUATE
from monitor.windows.snapshot import decode_reports

_PATIENCE_SECONDS: Final = 5.0
_MAX_MODELS: Final = 20
"""Number of models held back or refused that are named."""
_MAX_LETTERS: Final = 1000
_WITHOUT: Final = {
    "consume": "no events are read",
    "evaluate": "no model is evaluated or exported",
    "serve": "reports and pages are not answered",
}
"""Role -> what does not happen where no replica has it."""


def check_store(around: Surroundings) -> Iterator[CheckResult]:
    """Check the store, without creating or migrating anything."""
    url = around.settings.store.url
    path = sqlite_path(url)
    if path is not None and (problem := _file_problem(path)) is not None:
        yield fail("store", problem)
        return
    try:
        database = connect_existing(url, _PATIENCE_SECONDS, around.clock)
    except NoStore as error:
        yield ok("store", str(error))
        return
    with closing(database):
        yield from _check_database(around, database, path)


def _file_problem(path: Path) -> str | None:
    """Why a SQLite file can neither be opened nor created there; None if it can."""
    if path.is_dir():
        return f"{path} is a folder: name a file in it"
    for needed in (existing_folder(path.parent), path):
        if needed.exists() and not os.access(needed, os.W_OK):
            return f"{path} cannot be written: no permission to write {needed}"
    return None


def _check_database(around: Surroundings, database: Database, path: Path | None) -> Iterator[CheckResult]:
    with database.reading() as connection:
        began_ms = around.clock.now_ms()
        server = _server(database, connection)
        ended_ms = around.clock.now_ms()
        revision = revision_of(connection)
        if revision is None:
            check_no_foreign_tables(database, connection)
            yield ok("store", f"{database.shown} ({server['name']}) is empty; the first start makes the tables")
        else:
            check_revision(database.shown, revision)
            check_grid(database.shown, grid_version_of(connection))
            newest = newest_revision()
            schema = f"schema {revision}" + ("" if revision == newest else f", which the next start brings to {newest}")
            of_log = sa.select(sa.func.count()).select_from(PARTITIONS).where(PARTITIONS.c.partition != BACKFILL)
            partitions = connection.execute(of_log).scalar_one()
            size = _size(path) if path is not None else server["size"]
            yield ok(
                "store",
                f"{database.shown} ({server['name']}): {schema}, {partitions} partitions, {size_text(size)}"
                + ("; back it up first" if revision != newest else ""),
            )
            yield from _check_offsets(around, connection)
            if revision == newest:
                store = SqlStore(database, dead_letter_limit=0)
                yield from _check_settled(around, store)
                yield from _check_refused(store)
                yield from _check_caps(store)
                yield from _check_replicas(database)
                yield from _check_windows(around, EvaluationStore(database))
                yield from _check_webhooks(around, database)
        if server["read_only"]:
            yield fail("store", f"{database.shown} takes no changes: {server['read_only']}")
        if server["now_ms"] is not None:
            yield _compare_clocks(server["now_ms"], began_ms, ended_ms)


def _server(database: Database, connection: sa.Connection) -> dict[str, Any]:
    if database.is_sqlite:
        version = connection.exec_driver_sql("SELECT sqlite_version()").scalar_one()
        return {"name": f"SQLite {version}", "read_only": "", "now_ms": None}
    row = connection.exec_driver_sql(
        "SELECT current_setting('server_version') AS version, pg_is_in_recovery() AS standby,"
        " current_setting('default_transaction_read_only') AS read_only,"
        " has_schema_privilege(current_schema(), 'CREATE') AS may_create,"
        " pg_database_size(current_database()) AS size,"
        " (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now_ms"
    ).one()
    reason = ""
    if row.standby:
        reason = "it is a standby that only reads; name the primary"
    elif row.read_only == "on":
        reason = "default_transaction_read_only is on for this user"
    elif not row.may_create:
        reason = "this user may not create tables: GRANT CREATE ON SCHEMA to it, or make it the schema's owner"
    return {
        "name": f"PostgreSQL {row.version.split(' ')[0]}",
        "read_only": reason,
        "size": row.size,
        "now_ms": row.now_ms,
    }


def _size(path: Path) -> int:
    files = (path, path.with_name(f"{path.name}-wal"))
    return sum(file.stat().st_size for file in files if file.exists())


def _check_offsets(around: Surroundings, connection: sa.Connection) -> Iterator[CheckResult]:
    """Check that the log still holds what the store has not read."""
    rows = connection.execute(sa.select(OFFSETS.c.topic, OFFSETS.c.partition, OFFSETS.c.next_offset)).all()
    if not rows:
        return
    try:
        bounds = LogBounds(around.settings, around.clock).read()
    except (SourceError, SettingsError):
        return  # Reported by the check of the log.
    progress = continuation([(row.topic, row.partition, row.next_offset) for row in rows], bounds)
    gaps = progress.gaps()
    if not gaps:
        yield ok("offsets", f"the log holds all that the store has not read: {progress.to_read:,} records")
    for gap in gaps:
        if around.settings.source.when_purged == "stop":
            yield fail(
                "offsets",
                f"{gap}; the service stops there; source.when_purged: earliest goes on without what is missing",
            )
        else:
            yield warn("offsets", f"{gap}; the service goes on without what is missing")


def _check_settled(around: Surroundings, store: SqlStore) -> Iterator[CheckResult]:
    """Name the models whose settled edge is held back, and the partition that does."""
    policy_of, kept_ms = make_policy(around.settings.models), make_kept_ms(around.settings)
    partitions, now_ms = store.partition_clocks(), around.clock.now_ms()
    models = {
        model: settled_edge(clocks, partitions, policy, min(kept_ms), now_ms)
        for model, clocks in running(store.clocks(), policy_of, max(kept_ms.values())).items()
        if (policy := policy_of(model)) is not None
    }
    held = {model: edge for model, edge in sorted(models.items()) if edge.held_back_by is not None}
    texts = []
    for model, edge in held.items():
        settled = f"settled up to {format_time(edge.to_ms)}" if edge.to_ms >= 0 else "nothing is settled yet"
        texts.append(f"{model}: {settled}, held back by {edge.held_back_by}")
    yield from _first("settled", texts, "{} more models are held back")
    if models and not held:
        yield ok("settled", f"no partition holds a model back, of {len(models)} models")


def _first(check: str, warnings: Sequence[str], others: str) -> Iterator[CheckResult]:
    """The first warnings, and the number of the others in a sentence."""
    yield from (warn(check, text) for text in warnings[:_MAX_MODELS])
    if len(warnings) > _MAX_MODELS:
        yield warn(check, others.format(len(warnings) - _MAX_MODELS))


def _check_refused(store: SqlStore) -> Iterator[CheckResult]:
    """Name the models whose events are refused, by the dead letters of their first events."""
    letters = store.dead_letters(limit=_MAX_LETTERS, reason=Reason.REFUSED_MODEL.value)
    first: dict[str, StoredDeadLetter] = {}
    for stored in letters:
        first.setdefault(stored.letter.detail, stored)
    texts = [
        f"{detail} (since {format_time(stored.stored_ms)}; `monitor dead-letters replay --reason "
        f"{stored.letter.reason.value}` sends the first events again, and ends this line)"
        for detail, stored in first.items()
    ]
    yield from _first("refused", texts, "events of {} more models are refused")


def _check_caps(store: SqlStore) -> Iterator[CheckResult]:
    """Name the caps that are nearly full, or have made names ``other`` that windows still reach."""
    warnings = [
        f"{cap.model}: {text}" if cap.model else text
        for cap, use in store.caps().items()
        if (text := cap_warning(cap, use)) is not None
    ]
    yield from _first("caps", warnings, "{} more caps are nearly full")


def _check_replicas(database: Database) -> Iterator[CheckResult]:
    """Name the live replicas, and what each of them does."""
    replicas = EvaluationStore(database).replicas()
    for replica, models in replicas.items():
        does = ", ".join(f"evaluates {len(models)} models" if role == EVALUATE else role for role in replica.roles)
        started, seen = format_time(replica.started_ms), format_time(replica.seen_ms)
        yield ok("replicas", f"{replica.id}: {does}; started {started}, last seen {seen}")
    for role, consequence in _WITHOUT.items():
        if replicas and not any(role in replica.roles for replica in replicas):
            yield warn("replicas", f"no live replica has the role {role}: {consequence}")


def _check_windows(around: Surroundings, store: EvaluationStore) -> Iterator[CheckResult]:
    """Check what the latest windows show: outcomes that met predictions, and time series of each replica."""
    windows = {window.title: window.mature for window in around.settings.windows}
    states = store.states()
    reports = {
        evaluation.model: [one for one in decode_reports(evaluation.reports).values() if one.window in windows]
        for evaluation, _, _ in store.read(dict.fromkeys(states, 0))
        if evaluation.reports
    }
    yield from _check_labels(
        {model: [one for one in of_model if windows[one.window]] for model, of_model in reports.items()}
    )
    yield from _check_metrics(around, reports, {model: state.owner for model, state in states.items()})


def _check_labels(reports: Mapping[str, Sequence[Report]]) -> Iterator[CheckResult]:
    """Say how many predictions an outcome has met, of the models with the smallest share first."""
    largest = {
        model: max((one for one in of_model if one.segment == ALL), key=lambda one: one.predictions, default=None)
        for model, of_model in reports.items()
    }
    known = [one for one in largest.values() if one is not None and one.predictions]
    for one in sorted(known, key=lambda one: (one.n / one.predictions, one.model))[:_MAX_MODELS]:
        of = f"predictions of {one.model} {one.version} in the window {one.window}"
        message = f"{one.n:,} of {one.predictions:,} {of} have an outcome"
        if one.n:
            yield ok("labels", message)
        else:
            yield warn("labels", f"{message}: see whether outcomes come at all, and have the ids of their predictions")
    if len(known) > _MAX_MODELS:
        yield ok("labels", f"larger shares have one of {len(known) - _MAX_MODELS} more models")


def _check_metrics(
    around: Surroundings, reports: Mapping[str, Sequence[Report]], owner_of: Mapping[str, str | None]
) -> Iterator[CheckResult]:
    """Compare the time series about windows that each replica exports with the bound of /metrics."""
    by_owner = Counter[str | None]()
    level, bound = around.settings.exposition.level, around.settings.exposition.max_series
    series = report_series(make_measures(around.settings).values(), Level[level.upper()])
    for model, of_model in reports.items():
        families = read_families(series, [((), report) for report in of_model])
        by_owner[owner_of[model]] += sum(len(read.rows) for read in families)
    largest = max(by_owner.values(), default=0)
    message = f"{largest:,} time series about windows at exposition.level {level}"
    if largest <= bound:
        yield ok("metrics", message)
    else:
        yield warn(
            "metrics",
            f"{message}, of which exposition.max_series takes {bound:,}: windows are left out of /metrics, those of "
            "segments first; raise it, or lower exposition.level, evaluation.measures or the number of windows",
        )


def _check_webhooks(around: Surroundings, database: Database) -> Iterator[CheckResult]:
    """Name the receivers of alerts that do not take them."""
    store = WebhookStore(database)
    for target in make_webhooks(around.settings):
        waiting, attempts, error = store.progress(target.name, target.states)
        state = f"{target.name}: waiting changes of alerts: {waiting}"
        if error is None:
            yield ok("webhooks", state)
        else:
            yield warn("webhooks", f"{state}, attempts at the next: {attempts}; the last attempt failed: {error}")


def _compare_clocks(server_ms: int, began_ms: int, ended_ms: int) -> CheckResult:
    """Compare the server's clock, which was read between two moments of ours, with this machine's."""
    # Only what lies outside of these moments is certainly a difference.
    seconds = (max(server_ms - ended_ms, 0) - max(began_ms - server_ms, 0)) / 1000
    if abs(seconds) <= MAX_SKEW_SECONDS:
        return ok("clock", f"the database's clock and this machine's differ by {abs(seconds):.1f} s at most")
    direction = "ahead of" if seconds > 0 else "behind"
    return warn(
        "clock",
        f"the database's clock is {abs(seconds):,.1f} s {direction} this machine's: synchronise both (NTP); leases of"
        " refits, expiry of keys and the age of data depend on them",
    )
