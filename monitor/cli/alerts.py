"""`monitor alerts list|show|ack`: alerts about the models of a running service."""

import json
from typing import Annotated, Any, Final
from urllib.parse import quote

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from monitor.cli.service import USUAL_URL, JsonOption, KeyFileOption, NoteOption, UrlOption, service_at
from monitor.http_client import send_request
from monitor.reports.formatting import plain, printable

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="List alerts about models of a running service, show one, and acknowledge it.",
    epilog="Examples: `monitor alerts list`; `monitor alerts ack al_5e2c8f0b7d1a4936 --note 'the join was fixed'`.",
)

_STYLES: Final = {"firing": "bold red", "acknowledged": "yellow", "pending": "default", "resolved": "dim"}

IdArgument = Annotated[str, typer.Argument(metavar="ID", help="Id of the alert, as `monitor alerts list` prints it.")]


@app.command("list", epilog="Examples: `monitor alerts list`; `monitor alerts list --state resolved --model churn`.")
def list_alerts(
    *,
    state: Annotated[
        str, typer.Option(metavar="STATE", help="open, pending, firing, acknowledged, resolved, or all.")
    ] = "open",
    kind: Annotated[str, typer.Option(metavar="KIND", help="Only of this kind: calibration, change or map.")] = "",
    model: Annotated[str, typer.Option(metavar="MODEL", help="Only of this model.")] = "",
    model_version: Annotated[str, typer.Option("--version", metavar="V", help="Only of this version.")] = "",
    since: Annotated[str, typer.Option(metavar="TIME", help="Only those that were not resolved before.")] = "",
    limit: Annotated[int, typer.Option(min=1, max=1000, help="At most this many.")] = 100,
    as_json: JsonOption = False,
    url: UrlOption = USUAL_URL,
    key_file: KeyFileOption = None,
) -> None:
    """List alerts, the newest first: those that are firing or acknowledged, unless --state says otherwise."""
    query = {
        "state": "" if state == "all" else state,
        "kind": kind,
        "model": model,
        "version": model_version,
        "since": since,
        "limit": str(limit),
    }
    with service_at(url, key_file) as http:
        page = send_request(
            http, "GET", "v1/alerts", params={name: text for name, text in query.items() if text}
        ).json()
    if as_json:
        typer.echo(json.dumps(page))
        return
    console = Console()
    if not page["alerts"]:
        console.print("no alerts")
        return
    console.print(_table(page["alerts"]))
    if page["next_cursor"] is not None:
        console.print(f"there are more than these {len(page['alerts'])}: set --limit", style="dim")


@app.command("show", epilog="Example: `monitor alerts show al_5e2c8f0b7d1a4936`.")
def show_alert(
    *, alert: IdArgument, as_json: JsonOption = False, url: UrlOption = USUAL_URL, key_file: KeyFileOption = None
) -> None:
    """Show one alert, with its history and notes."""
    with service_at(url, key_file) as http:
        shown = send_request(http, "GET", f"v1/alerts/{quote(alert, safe='')}").json()
    if as_json:
        typer.echo(json.dumps(shown))
        return
    console = Console(soft_wrap=True, highlight=False)
    console.print(Text(f"{_name(shown)}  {shown['state']}", style=_STYLES[shown["state"]]))
    point = shown["change_point"]
    lines = [
        printable(shown["summary"]),
        f"evidence 10^{shown['log10_evidence']:.1f}, fires at 10^{shown['log10_line']:.1f}",
        f"{shown['events']:,} events since {_time(point['at'])} ({_time(point['from'])} to {_time(point['to'])})",
        *map(_change, shown["history"]),
    ]
    for line in lines:
        console.print(line, markup=False)
    if shown["document"]:
        console.print(printable(json.dumps(shown["document"])), markup=False)


@app.command("ack", epilog="Example: `monitor alerts ack al_5e2c8f0b7d1a4936 --note 'the upstream join was fixed'`.")
def acknowledge_alert(
    *,
    alert: IdArgument,
    note: NoteOption = "",
    as_json: JsonOption = False,
    url: UrlOption = USUAL_URL,
    key_file: KeyFileOption = None,
) -> None:
    """Acknowledge an alert: somebody has it.

    If it is not firing, this is refused, with exit status 2.
    """
    path = f"v1/alerts/{quote(alert, safe='')}/acknowledgement"
    with service_at(url, key_file) as http:
        shown = send_request(http, "POST", path, json={"note": note}).json()
    typer.echo(json.dumps(shown) if as_json else f"{_name(shown)} is acknowledged by {plain(shown['acknowledged_by'])}")


def _table(alerts: list[dict[str, Any]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("id", "state", "evidence", "since", "about"):
        table.add_column(name, no_wrap=name != "about", overflow="fold")
    for alert in alerts:
        table.add_row(
            alert["id"],
            Text(alert["state"], style=_STYLES[alert["state"]]),
            f"10^{alert['log10_evidence']:.1f}",
            _time(alert["change_point"]["at"]),
            Text(f"{alert['kind']} of {plain(alert['model'])} {plain(alert['version'])}"),
        )
    return table


def _name(alert: dict[str, Any]) -> str:
    return f"{plain(alert['id'])}  {alert['kind']} of {plain(alert['model'])} {plain(alert['version'])}"


def _change(change: dict[str, Any]) -> str:
    note = f": {printable(change['note'])}" if change["note"] else ""
    return f"{_time(change['at'])}  {change['state']} by {plain(change['actor'])}{note}"


def _time(text: str) -> str:
    return f"{text[:16].replace('T', ' ')} UTC"
