"""`monitor alerts list|show|ack`: alerts about the models of a running service."""

import json
import textwrap
from collections.abc import Sequence
from typing import Annotated, Any, Final

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from monitor.cli.options import argument, option
from monitor.cli.service import USUAL_URL, JsonOption, KeyFileOption, NoteOption, UrlOption, service_at
from monitor.http_client import request_document
from monitor.reports.formatting import evidence_text, plain, printable, share_text, times_text
from monitor.store.alert import SHOWN
from monitor.urls import path_of

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="List alerts about models of a running service, show one, and acknowledge it.",
    epilog="Examples: `monitor alerts list`; `monitor alerts ack al_5e2c8f0b7d1a4936 --note 'the join was fixed'`.",
)

_STYLES: Final = {"firing": "bold red", "acknowledged": "yellow", "pending": "default", "resolved": "dim"}

IdArgument = Annotated[str, argument("ID", "Id of the alert, as `monitor alerts list` prints it.")]


@app.command("list", epilog="Examples: `monitor alerts list`; `monitor alerts list --state resolved --model churn`.")
def list_alerts(
    *,
    state: Annotated[str, option("STATE", "open, pending, firing, acknowledged, resolved, or all.")] = "open",
    kind: Annotated[str, option("KIND", "Only of this kind: calibration, change or map.")] = "",
    model: Annotated[str, option("MODEL", "Only of this model.")] = "",
    model_version: Annotated[str, option("V", "Only of this version.", "--version")] = "",
    since: Annotated[str, option("TIME", "Only those that were not resolved before.")] = "",
    limit: Annotated[int, option(None, "At most this many.", min=1, max=1000)] = 100,
    as_json: JsonOption = False,
    url: UrlOption = USUAL_URL,
    key_file: KeyFileOption = None,
) -> None:
    """List alerts, the newest first: those that are firing or acknowledged, unless --state says otherwise."""
    query = {
        "state": state,
        "kind": kind,
        "model": model,
        "version": model_version,
        "since": since,
        "limit": str(limit),
    }
    with service_at(url, key_file) as http:
        page = request_document(http, "GET", "v1/alerts", params={name: text for name, text in query.items() if text})
    if as_json:
        typer.echo(json.dumps(page))
        return
    console = Console(highlight=False)
    if not page["alerts"]:
        console.print("no alerts")
        return
    for alert in page["alerts"]:
        console.print(_head(alert), soft_wrap=True)
        summary = textwrap.fill(printable(alert["summary"]), console.width - 2)
        console.print(Text(f"{textwrap.indent(summary, '  ')}\n"), soft_wrap=True)
    if page["next_cursor"] is not None:
        console.print(f"there are more than these {len(page['alerts'])}: set --limit", style="dim")


@app.command("show", epilog="Example: `monitor alerts show al_5e2c8f0b7d1a4936`.")
def show_alert(
    *, alert: IdArgument, as_json: JsonOption = False, url: UrlOption = USUAL_URL, key_file: KeyFileOption = None
) -> None:
    """Show one alert, with its history and notes."""
    with service_at(url, key_file) as http:
        shown = request_document(http, "GET", f"v1/alerts/{path_of('alert', alert)}")
        help_url = http.base_url.join("help/answers.html")
        simulated_now = request_document(http, "GET", "v1/session")["simulated_now"]
    if as_json:
        typer.echo(json.dumps(shown))
        return
    console = Console(highlight=False)
    console.print(_head(shown), soft_wrap=True)
    console.print(Text(printable(shown["summary"])))
    document = shown["document"]
    anchor = f"label-{document['label']}" if document.get("label") else f"kind-{shown['kind']}"
    for name, text in {**_facts(shown, document), "explained": f"{help_url}#{anchor}"}.items():
        console.print(Text.assemble((f"{name:<12}", "dim"), text), soft_wrap=True)
    command = document.get("remedy", {}).get("command")
    if command is not None:
        console.print("what to do", style="dim")
        # For copying: it is not broken into lines.
        console.print(Text(f"  {printable(command)}"), soft_wrap=True)
    if document.get("segments"):
        console.print(_segments(document["segments"]))
    if document.get("after", {}).get("bins"):
        console.print(_reliability(document["before"].get("bins", []), document["after"]["bins"]))
    if simulated_now is not None:
        console.print(f"events are simulated, and theirs is {_time(simulated_now)}; by the clock:", style="dim")
    for change in shown["history"]:
        console.print(Text(_change(change)))


@app.command(
    "ack",
    epilog="Example: `monitor alerts ack al_5e2c8f0b7d1a4936 --note 'the join is late' --assign-to ada --until 8h`.",
)
def acknowledge_alert(
    *,
    alert: IdArgument,
    note: NoteOption = "",
    assign_to: Annotated[str, option("NAME", "Who works on it.")] = "",
    until: Annotated[
        str, option("TIME", "When it fires again, unless it is over: a time, or from now, as in 8h.")
    ] = "",
    as_json: JsonOption = False,
    url: UrlOption = USUAL_URL,
    key_file: KeyFileOption = None,
) -> None:
    """Acknowledge an alert: somebody has it. Webhooks and Prometheus are silent until it is over, or until a time.

    If it is not firing, this is refused, with exit status 2.
    """
    path = f"v1/alerts/{path_of('alert', alert)}/acknowledgement"
    body = {"note": note} | ({"assigned_to": assign_to} if assign_to else {}) | ({"until": until} if until else {})
    with service_at(url, key_file) as http:
        shown = request_document(http, "POST", path, json=body)
    typer.echo(json.dumps(shown) if as_json else _acknowledged(shown))


def _head(alert: dict[str, Any]) -> Text:
    """A line that fits into 80 columns, unless names are long; evidence in multiples of the alert line."""
    state = f"{alert['state']:<12}", _STYLES[alert["state"]]
    times = times_text(alert["log10_evidence"] - alert["log10_line"])
    return Text.assemble(f"{plain(alert['id'])}  ", state, f"  {times:<13}  ", (_about(alert), "bold"))


def _facts(alert: dict[str, Any], document: dict[str, Any]) -> dict[str, str]:
    """What there is to say beside the sentence, by its name."""
    point = alert["change_point"]
    beginning = "before " if document.get("change_point", {}).get("open") else ""
    facts = {
        "evidence": f"{evidence_text(alert['log10_evidence'], alert['log10_line'])}: 10^{alert['log10_evidence']:.1f}, "
        f"the line is 10^{alert['log10_line']:.1f}",
        "changed": f"{_time(point['at'])}; {beginning}{_day(point['from'])} to {_day(point['to'])}"
        if point["from"] != point["to"]
        else _time(point["at"]),
        "since then": f"{alert['events']:,} predictions with an outcome",
    }
    if len(alert["witnesses"]) > 1:
        facts["detectors"] = ", ".join(
            f"{one['detector']} 10^{one['log10_evidence']:.1f}{'' if one['firing'] else ' (pending)'}"
            for one in alert["witnesses"]
        )
    if alert["together"]:
        facts["together"] = ", ".join(f"{plain(one['model'])} {plain(one['version'])}" for one in alert["together"])
    since = document.get("since")
    if since is not None:
        facts["since then"] += f" of {since['predictions']:,}, in {since['hours']:g} h"
    for field in SHOWN:
        value = alert[field.place[-1]] if field.shown.label else None
        if value is not None:
            facts[field.shown.label] = _time(value) if field.is_time else printable(str(value))
    return facts


def _segments(segments: list[dict[str, Any]]) -> Table:
    """The segments to blame, one a line."""
    table = _empty_table(("segment", "labelled", "evidence", "offset", "slope"))
    for one in segments:
        table.add_row(
            Text(plain(one["segment"])),
            f"{one['labelled']:,}",
            f"10^{one['log10_evidence']:.1f}",
            _with_interval(one.get("offset"), one.get("offset_interval")),
            _with_interval(one.get("slope"), one.get("slope_interval")),
        )
    return table


def _reliability(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> Table:
    """The reliability diagrams before and after the change, a range of predictions a line."""
    table = _empty_table(("predictions", "labelled", "predicted", "came true", "before the change"))
    earlier = {one["lower"]: one for one in before}
    for one in after:
        then = earlier.get(one["lower"])
        table.add_row(
            f"from {one['lower']}",
            f"{one['labelled']:,}",
            share_text(one["prediction_sum"] / one["labelled"]),
            share_text(one["positives"] / one["labelled"]),
            "-" if then is None else share_text(then["positives"] / then["labelled"]),
        )
    return table


def _empty_table(headings: Sequence[str]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 2, 0, 0))
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="right" if number else "left", no_wrap=number > 0, overflow="fold")
    return table


def _with_interval(value: float | None, ends: list[float] | None) -> str:
    if value is None:
        return "-"
    return f"{value:.2f}" if ends is None else f"{value:.2f} ({ends[0]:.2f} to {ends[1]:.2f})"


def _about(alert: dict[str, Any]) -> str:
    return f"{alert['kind']} of {plain(alert['model'])} {plain(alert['version'])}"


def _acknowledged(alert: dict[str, Any]) -> str:
    until = f" until {_time(alert['muted_until'])}" if alert["muted_until"] else ""
    return f"{plain(alert['id'])}  {_about(alert)} is acknowledged by {plain(alert['acknowledged_by'])}{until}"


def _change(change: dict[str, Any]) -> str:
    note = f": {printable(change['note'])}" if change["note"] else ""
    return f"{_time(change['at'])}  {change['state']} by {plain(change['actor'])}{note}"


def _time(text: str) -> str:
    return f"{_day(text)} UTC"


def _day(text: str) -> str:
    return text[:16].replace("T", " ")
