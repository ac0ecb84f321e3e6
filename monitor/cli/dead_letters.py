"""`monitor dead-letters list|replay`: the messages that were no valid events."""

import base64
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from monitor.app.parts import make_writer, open_store
from monitor.cli.options import ConfigOption, command_actor, read_settings
from monitor.clock import SystemClock
from monitor.errors import InputError
from monitor.events.model import Reason
from monitor.reports.formatting import time_text
from monitor.sources.base import Message
from monitor.store.base import StoredDeadLetter
from monitor.store.recalibrations import AuditEntry
from monitor.store.sql import SqlStore

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="List messages that were no valid events, and send them back to their topic after the cause is fixed.",
    epilog="Examples: `monitor dead-letters list --reason not_json`; `monitor dead-letters replay`.",
)

_PAGE = 500
_SHOWN_BYTES = 200

ReasonOption = Annotated[
    str | None, typer.Option(metavar="REASON", help=f"Only those of this reason: {', '.join(Reason)}.")
]


@app.command("list", epilog="Examples: `monitor dead-letters list --limit 20`; `monitor dead-letters list --json`.")
def list_letters(
    *,
    reason: ReasonOption = None,
    after: Annotated[int, typer.Option(min=0, help="Only those with a greater number: the next page.")] = 0,
    limit: Annotated[int, typer.Option(min=1, help="At most this many.")] = 50,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object a line, with the whole message in base64.")
    ] = False,
    config: ConfigOption = None,
) -> None:
    """List dead letters, oldest first, with the reason and where they stood in the log."""
    _check(reason)
    settings = read_settings(config)
    with open_store(settings, SystemClock()) as store:
        counts = store.count_dead_letters()
        letters = _up_to(store, reason, after, limit)
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
    of_interest = counts.get(reason, 0) if reason else sum(counts.values())
    if letters and len(letters) < of_interest:
        again = f" --reason {reason}" if reason else ""
        console.print(f"more: monitor dead-letters list{again} --after {letters[-1].number}", style="dim", markup=False)


@app.command(
    "replay",
    epilog="Examples: `monitor dead-letters replay --reason invalid_time`; "
    "`monitor dead-letters replay --number 17 --number 18`.",
)
def replay_letters(
    *,
    reason: ReasonOption = None,
    number: Annotated[
        list[int] | None, typer.Option(metavar="N", help="Only the one of this number. May be given several times.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="At most this many, oldest first.")] = None,
    config: ConfigOption = None,
) -> None:
    """Send dead letters back to their topic and partition, with their bytes and headers, and remove them here.

    What is still no valid event comes back as a new dead letter. A letter is removed only once it is written; the audit
    trail keeps who sent how many.
    """
    _check(reason)
    settings = read_settings(config)
    clock = SystemClock()
    with open_store(settings, clock) as store:
        writer = make_writer(settings, clock)
        sent: Counter[str] = Counter()
        unknown = set(number or ())
        try:
            for page in _pages(store, reason, set(number or ()), limit):
                writer.write([_message(stored) for stored in page])
                topics = Counter(stored.letter.topic for stored in page)
                store.remove_dead_letters(
                    [stored.number for stored in page], entry=_noted(topics, reason, clock.now_ms())
                )
                sent.update(topics)
                unknown.difference_update(stored.number for stored in page)
        finally:
            # Also after a failure: what was sent is sent.
            writer.close()
            where = ", ".join(f"{count:,} to {topic}" for topic, count in sorted(sent.items()))
            letters = "dead letter" if sent.total() == 1 else "dead letters"
            typer.echo(f"sent back {sent.total():,} {letters}{f': {where}' if where else ''}")
    if unknown and limit is None:
        listed = ", ".join(map(str, sorted(unknown)))
        of_reason = f" of reason {reason}" if reason else ""
        raise InputError(
            f"--number: no dead letter{of_reason} has number {listed}; `monitor dead-letters list` shows their numbers"
        )


def _noted(topics: Mapping[str, int], reason: str | None, at_ms: int) -> AuditEntry:
    """What the audit trail keeps of letters that were sent back together; a replay of many makes several entries."""
    detail = {"count": sum(topics.values()), "topics": dict(topics), "reason": reason}
    return AuditEntry(0, at_ms, command_actor(), "dead_letters_replayed", "", "", "", detail)


def _check(reason: str | None) -> None:
    if reason is not None and reason not in set(Reason):
        raise InputError(f"--reason must be one of {', '.join(Reason)}, got {reason!r}")


def _up_to(store: SqlStore, reason: str | None, after: int, limit: int) -> list[StoredDeadLetter]:
    letters: list[StoredDeadLetter] = []
    while len(letters) < limit:
        page = store.dead_letters(after=after, limit=min(_PAGE, limit - len(letters)), reason=reason)
        if not page:
            break
        letters.extend(page)
        after = page[-1].number
    return letters


def _pages(
    store: SqlStore, reason: str | None, numbers: set[int], limit: int | None
) -> Iterator[list[StoredDeadLetter]]:
    """The letters to be sent: those that are there now, so that one that comes back is not sent in circles."""
    began_ms = SystemClock().now_ms()
    after, left = 0, limit
    while left is None or left > 0:
        page = store.dead_letters(after=after, limit=_PAGE, reason=reason)
        if not page:
            return
        after = page[-1].number
        wanted = [
            stored for stored in page if stored.stored_ms <= began_ms and (not numbers or stored.number in numbers)
        ]
        if left is not None:
            wanted = wanted[:left]
            left -= len(wanted)
        if wanted:
            yield wanted


def _message(stored: StoredDeadLetter) -> Message:
    letter = stored.letter
    # The partition is named, as the key of a malformed message need not be its id's.
    return Message(letter.topic, letter.value, key=letter.key, headers=letter.headers, partition=letter.partition)


def _described(stored: StoredDeadLetter) -> Text:
    letter = stored.letter
    text = Text(f"{stored.number:>6}  {time_text(stored.stored_ms)} UTC  ")
    text.append(letter.reason.value, style="bold yellow")
    text.append(f"  {letter.topic}/{letter.partition}@{letter.offset}\n")
    text.append(f"        {_plain(letter.detail)}\n")
    return text.append(
        f"        {_plain((letter.value or b'')[:_SHOWN_BYTES].decode('utf-8', 'replace'))}", style="dim"
    )


def _plain(text: str) -> str:
    """A stranger's text, without what a terminal would obey."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def _as_json(stored: StoredDeadLetter) -> dict[str, Any]:
    letter = stored.letter
    return {
        "number": stored.number,
        "stored_ms": stored.stored_ms,
        "reason": letter.reason.value,
        "detail": letter.detail,
        "topic": letter.topic,
        "partition": letter.partition,
        "offset": letter.offset,
        "timestamp_ms": letter.timestamp_ms,
        "key_base64": _base64(letter.key),
        "value_base64": _base64(letter.value),
        "headers": [[name, _base64(value)] for name, value in letter.headers],
    }


def _base64(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()
