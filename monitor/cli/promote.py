"""`monitor promote`: let a map serve that passed the guard."""

import json
from typing import Annotated

import typer

from monitor.cli.options import argument
from monitor.cli.service import USUAL_URL, JsonOption, KeyFileOption, NoteOption, UrlOption, print_resolved, service_at
from monitor.http_client import request_document
from monitor.reports.formatting import plain
from monitor.urls import path_of

app = typer.Typer(add_completion=False)


@app.command(epilog="Example: `monitor promote rc_5e2c8f0b7d1a4936 --note 'agreed with the pricing team'`.")
def promote(
    *,
    refit: Annotated[str, argument("ID", "Id of the refit, as `monitor recalibrate` prints it.")],
    note: NoteOption = "",
    as_json: JsonOption = False,
    url: UrlOption = USUAL_URL,
    key_file: KeyFileOption = None,
) -> None:
    """Let the map of a refit serve.

    It must be a candidate, and what it was compared with must still serve; otherwise it is refused, with exit status 2.
    """
    with service_at(url, key_file) as http:
        champion = request_document(
            http, "POST", f"v1/recalibrations/{path_of('refit', refit)}/promotion", json={"note": note}
        )
    if as_json:
        typer.echo(json.dumps(champion))
        return
    typer.echo(f"{plain(champion['map'])} serves {plain(champion['model'])} {plain(champion['version'])} from now on")
    print_resolved(champion)
