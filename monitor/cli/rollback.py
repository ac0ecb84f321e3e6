"""`monitor rollback`: let the map serve that served before."""

import json
from typing import Annotated

import typer

from monitor.cli.options import argument, option
from monitor.cli.service import USUAL_URL, JsonOption, KeyFileOption, NoteOption, UrlOption, print_resolved, service_at
from monitor.http_client import request_document
from monitor.reports.formatting import plain
from monitor.urls import path_of

app = typer.Typer(add_completion=False)


@app.command(epilog="Example: `monitor rollback churn --note 'complaints since noon'`.")
def rollback(
    *,
    model: Annotated[str, argument("MODEL", "The model's name.")],
    model_version: Annotated[
        str | None, option("V", "Without it, that of the newest predictions.", "--version")
    ] = None,
    note: NoteOption = "",
    as_json: JsonOption = False,
    url: UrlOption = USUAL_URL,
    key_file: KeyFileOption = None,
) -> None:
    """Roll back the map that serves a model: the previous one serves again, or none.

    If no map serves, it is refused, with exit status 2.
    """
    body = {"note": note} | ({} if model_version is None else {"version": model_version})
    with service_at(url, key_file) as http:
        champion = request_document(http, "POST", f"v1/models/{path_of('model', model)}/rollback", json=body)
    if as_json:
        typer.echo(json.dumps(champion))
        return
    of = f"{plain(champion['model'])} {plain(champion['version'])}"
    serves = champion["map"]
    typer.echo(f"no map serves {of} any more" if serves is None else f"{plain(serves)} serves {of} again")
    print_resolved(champion)
