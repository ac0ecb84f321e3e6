"""`monitor outcomes`: send the outcomes in a table or a query to the log."""

import json
import os
import time
from collections import Counter
from contextlib import ExitStack
from datetime import date, datetime
from pathlib import Path
from typing import Annotated, Any, Final, Self

import typer

from monitor.app.parts import make_decoder, make_policy, make_topics, make_writer
from monitor.app.replay import route
from monitor.app.settings import Settings
from monitor.bounded_file import read_bounded
from monitor.cli.options import ConfigOption, argument, flag, option, read_settings
from monitor.clock import SystemClock
from monitor.errors import InputError
from monitor.events.model import RecordBatch
from monitor.events.strata import Caps, Strata
from monitor.reports.progress import rows_progress
from monitor.sources.formats import TableFile, open_table
from monitor.sources.log_format import LogRecord
from monitor.sources.outcome_rows import BadRow, OutcomePiece, choose_columns, read_outcomes
from monitor.sources.sql_query import SqlTable

app = typer.Typer(add_completion=False)

_BATCH: Final = 2_000
_SHOWN: Final = 20
"""Bad rows that are named one by one."""
_TYPES: Final = {"datetime": datetime.fromisoformat, "date": date.fromisoformat}
_SOME_BAD: Final = 1


@app.command(
    epilog="Examples: `monitor outcomes labels.parquet --model churn`; `monitor outcomes --sql "
    "postgresql://reader@db/orders --query 'SELECT id, churned AS y, updated_at FROM labels' --model churn "
    "--cursor updated_at`, every night."
)
def outcomes(
    file: Annotated[
        Path | None, argument("[FILE]", "A table of outcomes: .csv, .tsv, .parquet, .orc, .avro, .jsonl.")
    ] = None,
    *,
    model: Annotated[str, option("NAME", "Whose outcomes.")],
    sql: Annotated[
        str | None, option("URL", "A database, as SQLAlchemy names it, in place of FILE.", envvar="OUTCOMES_SQL")
    ] = None,
    query: Annotated[str | None, option("SELECT", "The rows of --sql.")] = None,
    id: Annotated[  # noqa: A002 - the option's name
        str | None, option("COLUMN", "Column with the prediction's id; guessed if left out.")
    ] = None,
    y: Annotated[
        str | None, option("COLUMN", "Column with the outcome, 0 or 1, or the class; guessed if left out.")
    ] = None,
    ts: Annotated[
        str | None,
        option("COLUMN", "Column with the time at which the outcome became known; guessed if left out, else now."),
    ] = None,
    cursor: Annotated[
        str | None,
        option(
            "COLUMN",
            "Column that grows when a row is new or changed, such as updated_at: send only rows from the last on.",
        ),
    ] = None,
    cursor_file: Annotated[Path, option("FILE", "Where the cursor is kept from run to run.")] = Path(
        "outcomes-cursor.json"
    ),
    dry_run: Annotated[bool, flag("--dry-run", "Read and check, and send nothing.")] = False,
    config: ConfigOption = None,
) -> int:
    """Send the outcomes in a table or a query to the configured source: the embedded log or Kafka.

    Rows that are no outcomes are named, and the rest is sent; the exit status is then 1. Outcomes that the service has
    read before change nothing.
    """
    settings = read_settings(config)
    policy = make_policy(settings.models)(model)
    if policy is None:
        raise InputError(f"--model: {model} is not declared; declare it under models.declared")
    cursors = Cursors(cursor_file)
    since = None if cursor is None else cursors.read(model, cursor)
    with ExitStack() as opened:
        table: TableFile | SqlTable
        if file is not None and sql is None and query is None:
            table = open_table(file)
        elif file is None and sql is not None and query is not None:
            table = opened.enter_context(SqlTable(sql, query, cursor=cursor, since=since))
        else:
            raise InputError("name a FILE, or --sql and --query")
        columns = choose_columns(table, id, y, ts, cursor)
        typer.echo(
            f"id read from column {columns.id!r}, y from {columns.y!r}, "
            f"ts {'is now' if columns.ts is None else f'from {columns.ts!r}'}"
        )
        run = _Run(settings, table, dry_run=dry_run)
        largest = None
        with run, rows_progress(f"reading {table.name}") as progress:
            pieces = read_outcomes(
                table,
                # The database has left out the old rows.
                columns._replace(cursor=None) if isinstance(table, SqlTable) else columns,
                model,
                classes=policy.classes,
                lateness_ms=policy.lateness_ms,
                since=since,
                now_ms=run.clock.now_ms(),
            )
            for piece in pieces:
                run.send(piece)
                known = [value for value in (largest, piece.largest) if value is not None]
                largest = max(known, default=None)
                progress(run.rows)
        largest = table.largest if isinstance(table, SqlTable) else largest
        if cursor is not None and largest is not None and not dry_run:
            cursors.save(model, cursor, largest)
    return _SOME_BAD if run.counts["bad"] else 0


class _Run:
    """Checks and writes pieces, and prints what became of the rows, also after an interrupt."""

    def __init__(self, settings: Settings, table: TableFile | SqlTable, *, dry_run: bool) -> None:
        self.clock = SystemClock()
        self.counts: Counter[str] = Counter()
        self._table = table
        self._topics = make_topics(settings)
        self._decoder = make_decoder(settings, self.clock)
        self._policy = make_policy(settings.models)
        self._writer = None if dry_run else make_writer(settings, self.clock)
        self._written: Counter[str] = Counter()
        self._late = 0
        self._began = time.monotonic()

    @property
    def rows(self) -> int:
        """Rows that were read."""
        return self.counts.total()

    def send(self, piece: OutcomePiece) -> None:
        """Write the outcomes of a piece."""
        refused = self._refused(piece.events)
        for bad in sorted([*piece.bad, *refused]):
            self.counts["bad"] += 1
            if self.counts["bad"] <= _SHOWN:
                typer.echo(f"{self._table.name}: {self._table.place(bad.row)}: {bad.why}; left out", err=True)
        rows = piece.events.keys() - {bad.row for bad in refused}
        messages = [route(piece.events[row], self._topics) for row in sorted(rows)]
        for start in range(0, len(messages), _BATCH):
            batch = messages[start : start + _BATCH]
            if self._writer is not None:
                self._writer.write(batch)
            self._written.update(message.topic for message in batch)
        self.counts["sent"] += len(messages)
        self.counts["unknown"] += piece.unknown
        self.counts["old"] += piece.old
        self._late += piece.late

    def _refused(self, events: dict[int, bytes]) -> list[BadRow]:
        """The events that the service would refuse, by its own rules."""
        now_ms = self.clock.now_ms()
        records = [LogRecord(row, now_ms, None, event, ()) for row, event in events.items()]
        strata = Strata(self._policy, Caps(models=1, versions=1, segment_values=1, strata=1))
        decoded = self._decoder.decode(RecordBatch("", 0, records, len(records)), strata, None)
        return [BadRow(letter.offset, letter.detail) for letter in decoded.dead_letters]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._writer is not None:
            self._writer.close()
        seconds = time.monotonic() - self._began
        where = ", ".join(f"{number:,} to {topic}" for topic, number in sorted(self._written.items()))
        does = "would be sent" if self._writer is None else "sent"
        typer.echo(f"{self._table.name}: {self.counts['sent']:,} outcomes {does} in {seconds:.1f} s: {where or 'none'}")
        for what, meaning in (
            ("old", "rows before the cursor"),
            ("unknown", "rows without an outcome yet"),
            ("bad", "rows left out, as they are no outcomes"),
        ):
            if self.counts[what]:
                typer.echo(f"{self.counts[what]:,} {meaning}", err=what == "bad")
        if self._late:
            typer.echo(
                f"{self._late:,} outcomes are older than earlier rows by more than the allowed lateness of the model, "
                "and the service may drop them as late; sort the rows by time",
                err=True,
            )


class Cursors:
    """Cursors by model and column, in one file of JSON. Not for two processes at a time.

    Parameters
    ----------
    path
        The file; made when the first cursor is saved.

    Raises
    ------
    InputError
        The file holds something else.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._saved: dict[str, dict[str, Any]] = json.loads(read_bounded(path)) if path.exists() else {}
            for columns in self._saved.values():
                for value in columns.values():
                    _cursor(value)
        except (OSError, ValueError, AttributeError, KeyError, RecursionError) as error:
            raise InputError(f"--cursor-file: {path} holds no cursors: {error}; name another, or remove it") from error

    def read(self, model: str, column: str) -> Any:
        """The cursor's value; None before the first."""
        return _cursor(self._saved.get(model, {}).get(column))

    def save(self, model: str, column: str, value: Any) -> None:
        """Replace the file by one with this value.

        Raises
        ------
        InputError
            It cannot be written.
        """
        encoded = value
        if isinstance(value, date):
            encoded = {"datetime" if isinstance(value, datetime) else "date": value.isoformat()}
        self._saved.setdefault(model, {})[column] = encoded
        written = self._path.with_name(f"{self._path.name}.new")
        try:
            written.write_text(json.dumps(self._saved, indent=1) + "\n", "utf-8")
            os.replace(written, self._path)  # noqa: PTH105 - whole, or not at all
        except OSError as error:
            raise InputError(f"--cursor-file: cannot write {self._path}: {error.strerror}") from error


def _cursor(value: Any) -> Any:
    if isinstance(value, dict):
        ((kind, text),) = value.items()
        return _TYPES[kind](text)
    return value
