"""What commands that ask a running service have in common."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Final

import httpx
import typer

from monitor.client import connect

_SECONDS: Final = 30.0

UrlOption = Annotated[
    str, typer.Option("--url", envvar="MONITOR_URL", metavar="URL", help="Where the service answers.")
]

USUAL_URL: Final = "http://localhost:8000"

JsonOption = Annotated[bool, typer.Option("--json", help="Print what REST answers.")]

NoteOption = Annotated[str, typer.Option(metavar="TEXT", help="Why; kept in the audit trail.")]


@contextmanager
def service_at(url: str) -> Iterator[httpx.Client]:
    """A client of the service at this address. Raises InputError where it is none."""
    with connect(url if "://" in url else f"http://{url}", timeout_seconds=_SECONDS) as http:
        yield http
