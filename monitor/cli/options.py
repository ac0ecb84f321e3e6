"""Options of several commands, and how their values are read and written."""

import json
import os
import pwd
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from monitor.answers import explained
from monitor.errors import InputError

if TYPE_CHECKING:
    from monitor.app.settings import Settings

USUAL_FILE: Final = Path("monitor.yaml")


def option(metavar: str | None, text: str, *names: str, **more: Any) -> Any:
    """An option with a value: what stands for the value in the help, and the meaning.

    It is called as its parameter is, unless `names` are given; `more` are arguments of typer's Option.
    """
    return typer.Option(*names, metavar=metavar, help=text, **more)


def flag(name: str, text: str, **more: Any) -> Any:
    """An option that is there or not: its name, and the meaning. ``--a/--no-a`` names both sides."""
    return typer.Option(name, help=text, **more)


def argument(metavar: str, text: str) -> Any:
    """An argument: what stands for it in the help, and the meaning."""
    return typer.Argument(metavar=metavar, help=text)


ConfigOption = Annotated[
    Path | None,
    option(
        "FILE",
        "Settings; without it, monitor.yaml in the working directory if there is one.",
        "--config",
        "-c",
        envvar="MONITOR_CONFIG",
    ),
]

SeedOption = Annotated[int, option(None, "Of the simulation: the same seed gives the same events.", min=0)]

POSITIVE_HELP: Final = "Outcome that is 1, such as bad; any other is 0 then."
LOGITS_HELP: Final = "The predictions are logits (log odds), or what softmax is applied to."
SKIP_BAD_ROWS_HELP: Final = "Leave out rows with values that cannot be read, count them and say what is wrong."

PositiveOption = Annotated[str | None, option("VALUE", POSITIVE_HELP)]
LogitsOption = Annotated[bool, flag("--logits", LOGITS_HELP)]
SkipBadRowsOption = Annotated[bool, flag("--skip-bad-rows", SKIP_BAD_ROWS_HELP)]


def command_actor() -> str:
    """Return the actor of the audit trail: ``cli:`` and the system's user, or its number where it has no name."""
    # Not the environment's USER, which anybody can set.
    number = os.geteuid()
    try:
        return f"cli:{pwd.getpwuid(number).pw_name}"
    except KeyError:
        return f"cli:{number}"


def read_settings(config: Path | None) -> "Settings":
    """Return the settings of the file, or of monitor.yaml if there is one, overridden by the environment."""
    from monitor.app.settings import load_settings  # noqa: PLC0415 - takes half a second, and some commands need none

    return load_settings(settings_file(config), os.environ)


def settings_file(config: Path | None) -> Path | None:
    """Return the file of the settings, or None if there is none."""
    return config or (USUAL_FILE if USUAL_FILE.is_file() else None)


def method_options(pairs: Sequence[str]) -> dict[str, Any]:
    """Parse --option NAME=VALUE: numbers, true, false and null as in JSON, anything else as text."""
    options: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name.strip():
            raise InputError(f"--option must be like bins=10, got {pair!r}")
        if name.strip() in options:
            raise InputError(f"--option {name.strip()} is given twice")
        options[name.strip()] = _value(text.strip())
    return options


def _value(text: str) -> Any:
    try:
        value = json.loads(text, parse_constant=str)
    except (ValueError, RecursionError):
        return text
    return text if isinstance(value, list | dict) else value


def check_target(option: str, path: Path) -> None:
    """Raise InputError if no file can be written there. Called before any work is done."""
    if path.is_dir():
        raise InputError(f"{option}: {path} is a directory; name a file in it")
    if not path.parent.is_dir():
        raise InputError(f"{option}: there is no directory {path.parent}; make it first")
    if option == "--png" and path.suffix.lower() != ".png":
        raise InputError(f"--png: the name of {path} must end in .png, which is what is written")


def write_target(option: str, path: Path, content: bytes) -> None:
    """Write a file, or replace it. Raises InputError if it cannot be written."""
    try:
        path.write_bytes(content)
    except OSError as error:
        raise InputError(f"{option}: cannot write {path}: {error.strerror}") from error


def print_help_line(names: Iterable[str]) -> None:
    """Print the command that explains these words, to a person: where standard error is a terminal.

    Words without a paragraph are left out.
    """
    words = explained(names) if sys.stderr.isatty() else []
    if words:
        typer.echo(f"help: monitor explain {' '.join(word.replace(' ', '-') for word in words)}", err=True)
