"""`monitor dead-letters list|replay`: the messages that were no valid events."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import Annotated, Any, Final

import msgspec
import typer
from rich.console import Console
from rich.text import Text

from monitor.app.parts import make_writer, open_current_store
from monitor.cli.options import ConfigOption, command_actor, flag, option, read_settings
from monitor.clock import Clock, SystemClock
from monitor.errors import InputError
from monitor.events.log import Writer
from monitor.events.model import DeadLetter, Message, Reason
from monitor.reports.formatting import printable, time_text
from monitor.store.base import StoredDeadLetter
from monitor.store.recalibrations import AuditEntry
from monitor.store.sql import SqlStore

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="List messages that were no valid events, and send them back to their topic after the cause is fixed.",
    epilog="Examples: `monitor dead-letters list --reason not_json`; `monitor dead-letters replay`.",
)

_PAGE: Final = 500
_SHOWN_BYTES: Final = 200

ReasonOption = Annotated[str | None, option("REASON", f"Only those with this reason: {', '.join(Reason)}.")]


@app.command("list", epilog="Examples: `monitor dead-letters list --limit 20`; `monitor dead-letters list --json`.")
def list_letters(
    *,
    reason: ReasonOption = None,
    after: Annotated[int, option(None, "Only those with a greater number: the next page.", min=0)] = 0,
    limit: Annotated[int, option(None, "At most this many.", min=1)] = 50,
    as_json: Annotated[bool, flag("--json", "One JSON object a line, with the whole message in base64.")] = False,
    config: ConfigOption = None,
) -> None:
    """List dead letters, oldest first, with the reason and their position in the log."""
    _check_reason(reason)
    with open_current_store(read_settings(config), SystemClock()) as store:
        counts = store.count_dead_letters()
        pages = _pages(store, reason, after, min(_PAGE, limit))
        letters = list(islice(chain.from_iterable(pages), limit))
    if as_json:
        for stored in letters:
            typer.echo(json.dumps(_as_json(stored)))
        return
    console = Console()
    if not counts:
        console.print("no dead letters")
        return
    console.print(", ".join(f"{number:,} {name}" for name, number in sorted(counts.items())), soft_wrap=True)
    for stored in letters:
        console.print(_described(stored), soft_wrap=True)
    matching = counts.get(reason, 0) if reason else sum(counts.values())
    if letters and len(letters) < matching:
        option = f" --reason {reason}" if reason else ""
        more = f"more: monitor dead-letters list{option} --after {letters[-1].number}"
        console.print(more, style="dim", markup=False)


@app.command(
    "replay",
    epilog="Examples: `monitor dead-letters replay --reason invalid_time`; "
    "`monitor dead-letters replay --number 17 --number 18`.",
)
def replay_letters(
    *,
    reason: ReasonOption = None,
    number: Annotated[list[int] | None, option("N", "Only the one with this number. Repeatable.")] = None,
    limit: Annotated[int | None, option(None, "At most this many, oldest first.", min=1)] = None,
    config: ConfigOption = None,
) -> None:
    """Send dead letters back to their topic and partition, with their bytes and headers, and remove them here.

    Those that are still no valid events come back as new dead letters. A letter is removed only after it is written;
    the audit trail keeps who sent how many.
    """
    _check_reason(reason)
    settings = read_settings(config)
    clock = SystemClock()
    began_ms = clock.now_ms()
    wanted, missing = set(number or ()), set(number or ())
    sent: Counter[str] = Counter()
    with open_current_store(settings, clock) as store:
        writer = make_writer(settings, clock)
        try:
            for page in _pages(store, reason):
                # A letter that comes back meanwhile is not sent again.
                old = [stored for stored in page if stored.stored_ms <= began_ms]
                letters = [stored for stored in old if not wanted or stored.number in wanted]
                letters = letters[: None if limit is None else limit - sent.total()]
                if letters:
                    _send_back(letters, writer, store, reason, clock)
                    sent.update(stored.letter.topic for stored in letters)
                    missing.difference_update(stored.number for stored in letters)
                if sent.total() == limit:
                    break
        finally:
            # Even after a failure, report what was sent.
            writer.close()
            where = ", ".join(f"{count:,} to {topic}" for topic, count in sorted(sent.items()))
            noun = "dead letter" if sent.total() == 1 else "dead letters"
            typer.echo(f"sent back {sent.total():,} {noun}{f': {where}' if where else ''}")
    if missing and limit is None:
        numbers = ", ".join(map(str, sorted(missing)))
        with_reason = f" of reason {reason}" if reason else ""
        raise InputError(
            f"--number: no dead letter{with_reason} has number {numbers};"
            " `monitor dead-letters list` shows their numbers"
        )


def _check_reason(reason: str | None) -> None:
    if reason is not None and reason not in set(Reason):
        raise InputError(f"--reason must be one of {', '.join(Reason)}, got {reason!r}")


def _pages(
    store: SqlStore, reason: str | None, after: int = 0, size: int = _PAGE
) -> Iterator[Sequence[StoredDeadLetter]]:
    """Read dead letters in pages, oldest first."""
    while page := store.dead_letters(after=after, limit=size, reason=reason):
        yield page
        after = page[-1].number


def _send_back(
    letters: Sequence[StoredDeadLetter], writer: Writer, store: SqlStore, reason: str | None, clock: Clock
) -> None:
    """Write letters to their topics, remove them, and add an entry to the audit trail."""
    writer.write([_message(stored.letter) for stored in letters])
    topics = Counter(stored.letter.topic for stored in letters)
    detail = {"count": len(letters), "topics": dict(topics), "reason": reason}
    entry = AuditEntry(0, clock.now_ms(), command_actor(), "dead_letters_replayed", "", "", "", detail)
    store.remove_dead_letters([stored.number for stored in letters], entry=entry)


def _message(letter: DeadLetter) -> Message:
    # The partition is named, because the key of a malformed message need not be its id's.
    return Message(letter.topic, letter.value, key=letter.key, headers=letter.headers, partition=letter.partition)


def _described(stored: StoredDeadLetter) -> Text:
    letter = stored.letter
    text = Text(f"{stored.number:>6}  {time_text(stored.stored_ms)} UTC  ")
    text.append(letter.reason.value, style="bold yellow")
    text.append(f"  {letter.topic}/{letter.partition}@{letter.offset}\n        {printable(letter.detail)}\n")
    value = (letter.value or b"")[:_SHOWN_BYTES].decode("utf-8", "replace")
    return text.append(f"        {printable(value)}", style="dim")


def _as_json(stored: StoredDeadLetter) -> Any:
    letter = stored.letter
    fields = {
        "number": stored.number,
        "stored_ms": stored.stored_ms,
        "reason": letter.reason.value,
        "detail": letter.detail,
        "topic": letter.topic,
        "partition": letter.partition,
        "offset": letter.offset,
        "timestamp_ms": letter.timestamp_ms,
        "key_base64": letter.key,
        "value_base64": letter.value,
        "headers": letter.headers,
    }
    return msgspec.to_builtins(fields)  # bytes in base64
