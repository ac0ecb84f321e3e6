"""`monitor keys create|list|revoke`: the API keys of the service."""

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from monitor.access.keys import PREFIX, REVOKED_WITHIN_SECONDS, NewKey, check_name, make_key, parse_key, state_of
from monitor.access.model import Role, StoredKey, parse_grants
from monitor.app.access import open_keys_file
from monitor.app.logs import configure_logs
from monitor.app.parts import open_current_store
from monitor.app.settings import Settings
from monitor.cli.options import ConfigOption, argument, check_target, command_actor, flag, option, read_settings
from monitor.clock import SystemClock
from monitor.durations import DURATION_FORM, parse_duration, to_ms
from monitor.errors import InputError, SettingsError, Unauthenticated
from monitor.events.times import format_known, format_time
from monitor.reports.formatting import plain, time_text
from monitor.store.api_keys import ApiKeys

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Make, list and revoke the API keys of the service. They take effect without a restart.",
    epilog="Examples: `monitor keys create prometheus --role read`; `monitor keys list`; "
    "`monitor keys revoke prometheus`.",
)

_MAX_LISTED: Final = 20
"""Maximum number of keys in an error message."""


@app.command(
    epilog="Examples: `monitor keys create nightly-refits --role write --role promote:churn --expires 90d`; "
    "`monitor keys create prometheus --role read --write-key prometheus.key`; "
    "`monitor keys create grafana --role read --hashed >> keys.yaml`."
)
def create(
    *,
    name: Annotated[str, argument("NAME", "What the key is for; the audit trail shows it.")],
    role: Annotated[
        list[str],
        option(
            "ROLE[:MODEL]",
            f"What it allows: {', '.join(Role)}; for one model only as in promote:churn. write and promote"
            " include read. Repeatable.",
        ),
    ],
    expires: Annotated[
        str | None, option("DURATION", "How long it is valid, such as 90d; until revoked without it.")
    ] = None,
    write_key: Annotated[
        Path | None, option("FILE", "Write the key to this new file, which only its owner can read.")
    ] = None,
    hashed: Annotated[
        bool, flag("--hashed", "Print an entry for the file access.keys_file, and store nothing.")
    ] = False,
    config: ConfigOption = None,
) -> None:
    """Make an API key, and print it this once: only its hash is kept.

    The key goes to standard output, messages to standard error. With --hashed, the entry goes to standard output, and
    the key to standard error.
    """
    check_name(name)
    clock = SystemClock()
    now_ms = clock.now_ms()
    new = make_key()
    key = StoredKey(new.key_id, name, new.digest, parse_grants(role), now_ms, _expiry_ms(expires, now_ms))
    if hashed:
        with _key_file(write_key, new):
            _note(f"made {_described(key)}; it is stored nowhere: append the entry to the file of access.keys_file")
            _show_key(new, write_key, to_error=True)
            typer.echo(_entry(key), nl=False)
        return
    settings = read_settings(config)
    # Standard output is for the key alone; problems of the store go to standard error.
    configure_logs("warning", "auto")
    if any(other.name == name for other in _keys_in_file(settings)):
        raise InputError(
            f"a key of access.keys_file ({settings.access.keys_file}) is called {name!r} already: take another name, as"
            " the audit trail could not tell them apart"
        )
    with open_current_store(settings, clock, create=True) as store:
        with _key_file(write_key, new):
            ApiKeys(store.database).add_key(key, actor=command_actor())
        _note(f"made {_described(key)}; its hash is kept in {store.database.shown}")
    _show_key(new, write_key, to_error=False)
    if settings.access.mode == "off":
        _note("note: access.mode is off in these settings: no key is needed")


@app.command("list", epilog="Examples: `monitor keys list`; `monitor keys list --json`.")
def list_keys(
    *,
    as_json: Annotated[bool, flag("--json", "One JSON object a line.")] = False,
    config: ConfigOption = None,
) -> None:
    """List API keys, the oldest first, those of access.keys_file last. Keys themselves are not kept."""
    settings = read_settings(config)
    configure_logs("warning", "auto")
    clock = SystemClock()
    in_file = _keys_in_file(settings)
    with open_current_store(settings, clock) as store:
        in_store = ApiKeys(store.database).keys()
    rows = [*(("store", key) for key in in_store), *(("file", key) for key in in_file)]
    now_ms = clock.now_ms()
    if as_json:
        for kept_in, key in rows:
            typer.echo(json.dumps(_as_json(key, kept_in, now_ms)))
        return
    console = Console()
    if not rows:
        console.print("no API keys; `monitor keys create NAME --role read` makes one", markup=False)
        return
    console.print(_table(rows, now_ms))


@app.command(
    epilog="Examples: `monitor keys revoke nightly-refits`; `monitor keys revoke 7f3a0c9d2e41`, by the id as "
    "`monitor keys list` shows it."
)
def revoke(
    *,
    name_or_id: Annotated[str, argument("NAME_OR_ID", "Which; `monitor keys list` shows names and ids.")],
    config: ConfigOption = None,
) -> None:
    """Revoke an API key, for good: within seconds every replica refuses it."""
    settings = read_settings(config)
    configure_logs("warning", "auto")
    clock = SystemClock()
    with open_current_store(settings, clock) as store:
        keys = ApiKeys(store.database)
        key = _find(keys.keys(), name_or_id)
        if key is None:
            raise InputError(_unknown_key(settings, keys.keys(), name_or_id))
        if key.revoked_ms is None:
            key = keys.revoke_key(key.key_id, at_ms=clock.now_ms(), actor=command_actor())
            typer.echo(
                f"revoked {plain(key.name)} ({key.key_id}): every replica refuses it within"
                f" {REVOKED_WITHIN_SECONDS:.0f} seconds"
            )
        else:
            typer.echo(f"{plain(key.name)} ({key.key_id}) was revoked already, {time_text(key.revoked_ms)} UTC")


def _expiry_ms(text: str | None, now_ms: int) -> int | None:
    if text is None:
        return None
    try:
        length_ms = to_ms(parse_duration(text))
    except ValueError as error:
        raise InputError(f"--expires {error}, got {text!r}") from error
    if not length_ms:
        raise InputError(f"--expires must be {DURATION_FORM}, longer than none, got {text!r}")
    return now_ms + length_ms


def _keys_in_file(settings: Settings) -> Sequence[StoredKey]:
    """Read access.keys_file. Raises SettingsError if it is broken, as the service does when it starts."""
    file = open_keys_file(settings)
    return () if file is None else file.keys()


@contextmanager
def _key_file(path: Path | None, new: NewKey) -> Iterator[None]:
    """Write the key to a new file, if one is named, and remove the file if the block fails."""
    if path is None:
        yield
        return
    check_target("--write-key", path)
    try:
        # Only its owner can read it from the start, and an existing file is never overwritten.
        with open(path, "x", encoding="ascii", opener=partial(os.open, mode=0o600)) as file:
            file.write(f"{new.text}\n")
    except FileExistsError as error:
        raise InputError(f"--write-key: {path} is there already: name a new file, or remove that one") from error
    except OSError as error:
        path.unlink(missing_ok=True)
        raise InputError(f"--write-key: cannot write {path}: {error.strerror}") from error
    try:
        yield
    except BaseException:
        path.unlink()
        raise


def _show_key(new: NewKey, file: Path | None, *, to_error: bool) -> None:
    if file is not None:
        _note(f"wrote it to {file}, which is the only copy: move it to where secrets are kept")
        return
    typer.echo(new.text, err=to_error)
    _note("This is the only time that it is shown: keep it where secrets are kept.")
    _note("Send it as `Authorization: Bearer KEY`; commands take it from MONITOR_API_KEY, or --key-file FILE.")


def _note(text: str) -> None:
    typer.echo(text, err=True)


def _described(key: StoredKey) -> str:
    until = "until it is revoked" if key.expires_ms is None else f"until {time_text(key.expires_ms)} UTC"
    return f"the API key {plain(key.name)} ({key.key_id}): {_roles(key)}, {until}"


def _roles(key: StoredKey) -> str:
    return ", ".join(map(str, key.grants))


def _entry(key: StoredKey) -> str:
    """An entry of the file of keys. Values are JSON, which is valid YAML."""
    fields: dict[str, Any] = {
        "id": key.key_id,
        "name": key.name,
        "sha256": key.digest.hex(),
        "roles": [str(grant) for grant in key.grants],
    }
    if key.expires_ms is not None:
        fields["expires"] = format_time(key.expires_ms)
    lines = [f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in fields.items()]
    return "- " + "\n  ".join(lines) + "\n"


def _table(rows: Iterable[tuple[str, StoredKey]], now_ms: int) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("id", "name", "roles", "created", "state"):
        table.add_column(name, no_wrap=name not in {"name", "roles"}, overflow="fold")
    for kept_in, key in rows:
        state = state_of(key, now_ms)
        until = "in force" if key.expires_ms is None else f"until {_day(key.expires_ms)}"
        since = {"revoked": key.revoked_ms, "expired": key.expires_ms}.get(state)
        table.add_row(
            key.key_id,
            Text(plain(key.name)),
            Text(plain(_roles(key))),
            _day(key.created_ms) if kept_in == "store" else "in the file",
            until if since is None else f"{state} {_day(since)}",
            style="" if state == "in force" else "dim",
        )
    return table


def _day(milliseconds: int) -> str:
    return time_text(milliseconds)[: len("2026-11-21")]


def _as_json(key: StoredKey, kept_in: str, now_ms: int) -> dict[str, Any]:
    return {
        "id": key.key_id,
        "name": key.name,
        "roles": [str(grant) for grant in key.grants],
        "created": format_time(key.created_ms) if kept_in == "store" else None,
        "expires": format_known(key.expires_ms),
        "revoked": format_known(key.revoked_ms),
        "state": state_of(key, now_ms).replace(" ", "_"),
        "kept_in": kept_in,
    }


def _find(keys: Sequence[StoredKey], name_or_id: str) -> StoredKey | None:
    """The key of that id, or else the newest of that name, those that are not revoked first."""
    wanted = name_or_id
    if wanted.startswith(PREFIX):
        # A leaked key, whose name is not known.
        try:
            wanted, _ = parse_key(wanted)
        except Unauthenticated as error:
            raise InputError(str(error)) from error
    by_id = next((key for key in keys if key.key_id == wanted), None)
    if by_id is not None:
        return by_id
    named = [key for key in keys if key.name == wanted]
    return next((key for key in named if key.revoked_ms is None), named[-1] if named else None)


def _unknown_key(settings: Settings, keys: Sequence[StoredKey], name_or_id: str) -> str:
    shown = "this" if name_or_id.startswith(PREFIX) else repr(name_or_id)
    try:
        in_file = _find(_keys_in_file(settings), name_or_id)
    except SettingsError as error:
        return f"no API key in the store has the name or the id {shown}; those of the file are unknown: {error}"
    if in_file is not None:
        return f"{shown} is in access.keys_file ({settings.access.keys_file}): remove its entry there"
    there = [f"{plain(key.name)} ({key.key_id})" for key in keys if key.revoked_ms is None]
    more = f" and {len(there) - _MAX_LISTED} more, see `monitor keys list`" if len(there) > _MAX_LISTED else ""
    existing = f"there are {', '.join(there[:_MAX_LISTED])}{more}" if there else "there are none"
    return f"no API key has the name or the id {shown}; {existing}"
