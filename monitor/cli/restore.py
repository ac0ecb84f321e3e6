"""`monitor restore`: a backup in the place of the store in SQLite."""

from pathlib import Path
from typing import Annotated

import typer

from monitor.app.log_bounds import LogBounds, continuation, is_log_read
from monitor.app.logs import configure_logs
from monitor.app.parts import log_directory
from monitor.app.settings import Settings
from monitor.cli.backup import describe_backup
from monitor.cli.options import ConfigOption, argument, command_actor, flag, option, read_settings
from monitor.clock import Clock, SystemClock
from monitor.errors import Conflict, SettingsError, SourceError
from monitor.store.backup import BackupContents
from monitor.store.restore import Restored, check_backup, restore

app = typer.Typer(add_completion=False)


@app.command(
    "restore",
    epilog="Examples: `monitor restore /backups/calibration-monitor-2026-11-21T12-00-00Z.db --config monitor.yaml`; "
    "`monitor restore backup.db --verify`; `monitor restore backup.db --replace state.db`.",
)
def restore_command(
    *,
    source: Annotated[Path, argument("SOURCE", "What `monitor backup` wrote.")],
    verify: Annotated[bool, flag("--verify", "Only check the backup; no store is touched.")] = False,
    replace: Annotated[
        str | None,
        option(
            "NAME", "Replace a store that holds something, or is damaged. To confirm it, name its file, as state.db."
        ),
    ] = None,
    config: ConfigOption = None,
) -> None:
    """Restore a backup of a store in SQLite: all of it, or nothing. Stop the service first.

    Events since the backup are read again from the log when the service starts; the command reports whether the log
    still holds them. pg_restore restores a store in PostgreSQL.
    """
    settings = read_settings(config)
    configure_logs("warning", "auto")
    clock = SystemClock()
    if verify:
        typer.echo(f"{source} is sound: {describe_backup(check_backup(source, clock))}")
        return
    _check_stopped(settings)
    restored = restore(source, settings.store.url, clock, replace=replace, actor=command_actor())
    typer.echo(f"restored the store: {describe_backup(restored.contents)}")
    if restored.kept is not None:
        typer.echo(f"the store was damaged; its file is kept as {restored.kept}: remove it once nothing is missing")
    if restored.contents.schema_revision != restored.schema_revision:
        typer.echo(f"its tables were migrated to schema {restored.schema_revision}")
    for line in (*_next_steps(restored.contents, settings, clock), *_key_warnings(restored)):
        typer.echo(line)


def _key_warnings(restored: Restored) -> list[str]:
    """Report on API keys that were revoked, which a backup made earlier does not know."""
    if restored.revoked_again:
        keys = "1 API key stays" if restored.revoked_again == 1 else f"{restored.revoked_again:,} API keys stay"
        return [f"{keys} revoked: the store that was replaced had done so since the backup"]
    if restored.contents.tables["api_keys"] and "api_keys" not in restored.replaced:
        warning = "the store's API keys are as they were at the backup: revoke again those that were revoked since"
        return [f"{warning}; `monitor keys list` shows them"]
    return []


def _check_stopped(settings: Settings) -> None:
    """Refuse to restore while a service reads the embedded log: it would go on with its own state."""
    if settings.source.kind == "embedded" and is_log_read(directory := log_directory(settings)):
        raise Conflict(f"a service runs: it reads the embedded log in {directory}; stop it first")


def _next_steps(contents: BackupContents, settings: Settings, clock: Clock) -> list[str]:
    """Describe what the service will read when it is started."""
    try:
        bounds = LogBounds(settings, clock).read()
    except (SourceError, SettingsError) as error:
        reason = str(error).removesuffix("; trying again")
        return [f"whether the log still holds what came after the backup is unknown: {reason}"]
    progress = continuation([(row.topic, row.partition, row.offset) for row in contents.offsets], bounds)
    lines = progress.gaps()
    if lines:
        lines.append(
            "the service will stop there, and say so; with `source.when_purged: earliest` it goes on without what is"
            " missing"
            if settings.source.when_purged == "stop"
            else "source.when_purged is earliest: the service will go on without what is missing, and count it"
        )
    if progress.unknown:
        partitions = ", ".join(f"{part.topic}/{part.partition}" for part in progress.unknown)
        lines.append(f"not in the log, or not read any more: {partitions}")
    records = "record is" if progress.to_read == 1 else "records are"
    exact = "" if lines else ": the reports will be exactly those of a service that was never interrupted"
    return [*lines, f"start the service: {progress.to_read:,} {records} read from the log{exact}"]
