"""`monitor backup`: the store in SQLite, as one file."""

import json
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from monitor.app.logs import configure_logs
from monitor.cli.options import ConfigOption, argument, flag, read_settings
from monitor.clock import Clock, SystemClock
from monitor.errors import InputError
from monitor.events.times import format_time
from monitor.reports.formatting import size_text
from monitor.store.backup import BackupContents, back_up

app = typer.Typer(add_completion=False)


@app.command(
    epilog="Examples: `monitor backup /backups/ --config monitor.yaml`, which names the file by the time; "
    "`monitor backup store-before-upgrade.db`."
)
def backup(
    *,
    target: Annotated[str, argument("TARGET", "A new file, or a folder, in which it is named by the time.")],
    as_json: Annotated[bool, flag("--json", "Print rows, offsets, size and digest of the backup.")] = False,
    config: ConfigOption = None,
) -> None:
    """Back up a store in SQLite to one file, beside a running service, too; pg_dump backs up PostgreSQL.

    Everything that is in the store is in it: state and offsets, dead letters, refits and maps, the audit trail, digests
    of API keys. `monitor restore` puts it back.
    """
    settings = read_settings(config)
    configure_logs("warning", "auto")
    clock = SystemClock()
    file = _backup_file(target, clock)
    contents = back_up(settings.store.url, file, clock)
    if as_json:
        typer.echo(json.dumps({"file": str(file), **msgspec.to_builtins(contents)}))
        return
    typer.echo(f"wrote {file}: {describe_backup(contents)}")


def _backup_file(target: str, clock: Clock) -> Path:
    """Return the new file. A Path would drop the trailing slash that names a folder."""
    path = Path(target)
    if path.is_dir():
        moment = format_time(clock.now_ms()).replace(":", "-").partition(".")[0].removesuffix("Z")
        return path / f"calibration-monitor-{moment}Z.db"
    if target.endswith("/"):
        if path.exists():
            raise InputError(f"the backup's folder {target} is a file: move {path} away, and make the folder")
        raise InputError(
            f"the backup's folder {target} is not there: make it (mkdir -p {path}), or mount its volume;"
            " to write a file of that name, leave the / at the end out"
        )
    return path


def describe_backup(contents: BackupContents) -> str:
    """Describe a backup in one line."""
    partitions = len({offset.partition for offset in contents.offsets})
    counted = {"dead_letters": "dead letters", "recalibration_maps": "maps", "audit": "audit entries"}
    counts = ", ".join(f"{contents.tables[table]:,} {words}" for table, words in counted.items())
    return (
        f"{size_text(contents.size)} of {partitions:,} partitions, {counts}; schema {contents.schema_revision},"
        f" grid {contents.grid_version}, SHA-256 {contents.sha256[:16]}..."
    )
