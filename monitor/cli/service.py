"""Options and HTTP client of the commands that talk to a running service."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final

import httpx
import typer

from monitor.bounded_file import read_bounded
from monitor.cli.options import flag, option
from monitor.errors import Forbidden, InputError, Unauthenticated
from monitor.http_client import API_KEY, connect, key_of_environment
from monitor.reports.formatting import plain

_SECONDS: Final = 30.0

UrlOption = Annotated[str, option("URL", "Where the service answers.", "--url", envvar="MONITOR_URL")]

KeyFileOption = Annotated[
    Path | None, option("FILE", f"File with the API key; without it, the environment variable {API_KEY}.")
]

USUAL_URL: Final = "http://localhost:8000"

JsonOption = Annotated[bool, flag("--json", "Print what REST answers.")]

NoteOption = Annotated[str, option("TEXT", "Why; kept in the audit trail.")]


@contextmanager
def service_at(url: str, key_file: Path | None = None) -> Iterator[httpx.Client]:
    """Open an HTTP client of the service at this address, with the user's API key.

    Raises
    ------
    InputError
        The address is invalid, the key cannot be read, or the service refuses it. The message names the origin of the
        key, never the key.
    """
    key, origin = _key(key_file)
    with connect(url, timeout_seconds=_SECONDS, api_key=key) as http:
        try:
            yield http
        except Unauthenticated as error:
            if key is None:
                raise InputError(
                    f"the service at {url} asks for an API key: put one into {API_KEY}, or into a file for --key-file; "
                    "`monitor keys create` makes one"
                ) from error
            raise InputError(f"the service at {url} refuses the API key of {origin}: {error}") from error
        except Forbidden as error:
            raise InputError(f"the API key of {origin} does not do: {error}") from error


def print_resolved(serving: Mapping[str, Any]) -> None:
    """Print the alerts that a promotion or rollback ended, where it did."""
    if serving["resolved_alerts"]:
        typer.echo(f"resolved: {plain(', '.join(serving['resolved_alerts']))}")


def _key(key_file: Path | None) -> tuple[str | None, str]:
    """Return the key and its origin."""
    if key_file is None:
        return key_of_environment(), API_KEY
    try:
        key = read_bounded(key_file).decode().strip()
    except OSError as error:
        raise InputError(f"--key-file: cannot read {key_file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"--key-file: {key_file} holds no API key, which is one line of text") from error
    if not key:
        raise InputError(
            f"--key-file: {key_file} is empty; `monitor keys create NAME --role ROLE --write-key FILE` fills it"
        )
    return key, str(key_file)
