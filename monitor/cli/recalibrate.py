"""`monitor recalibrate`: a refit, asked for over REST, and followed to its end."""

import json
import os
import shlex
import time
from typing import Annotated, Any, Final
from urllib.parse import quote

import httpx
import typer
from rich.console import Console

from monitor.asking import ask
from monitor.cli.options import method_options
from monitor.cli.service import USUAL_URL, JsonOption, KeyFileOption, UrlOption, service_at
from monitor.durations import parse_duration
from monitor.errors import InputError, MonitorError, ServiceUnavailable
from monitor.reports.plain import plain
from monitor.reports.progress import job_progress
from monitor.reports.refit_text import print_refit
from monitor.reports.text import report_console

app = typer.Typer(add_completion=False)

REJECTED: Final = 3
"""Exit status where a map was fitted and is not better: not a failure, and nothing changed."""

_UNDER_WAY: Final = ("queued", "running")
_POLL_SECONDS: Final = 0.5
_PATIENCE_SECONDS: Final = 60.0
"""How long a service may be away while a refit is waited for: that long a restart may take."""


@app.command(
    epilog="Examples: `monitor recalibrate churn --wait`; "
    "`monitor recalibrate churn --method histogram --option bins=10 --window 7d --promote --wait --timeout 20m`."
)
def recalibrate(
    *,
    model: Annotated[str, typer.Argument(metavar="MODEL", help="The model's name.")],
    method: Annotated[
        str | None, typer.Option(metavar="NAME", help="Of the map; without it, as in the settings of the service.")
    ] = None,
    option: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Of the method. May be given several times.")
    ] = None,
    model_version: Annotated[
        str | None,
        typer.Option("--version", metavar="V", help="Without it, that of the newest predictions."),
    ] = None,
    window: Annotated[
        str | None, typer.Option(metavar="LENGTH", help="How far back events are taken, such as 7d or 12h.")
    ] = None,
    promote: Annotated[
        bool | None,
        typer.Option("--promote/--no-promote", help="Let the map serve at once if it passes the guard, or do not."),
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Follow the refit to its end, and print what came of it.")
    ] = False,
    timeout: Annotated[
        str | None, typer.Option(metavar="LENGTH", help="With --wait: how long at most, such as 20m.")
    ] = None,
    as_json: JsonOption = False,
    url: UrlOption = USUAL_URL,
    key_file: KeyFileOption = None,
) -> None:
    """Fit a recalibration map in a running service, and see whether it is better.

    The exit status is 0 if the map is a candidate or serves, 3 if it was rejected since it is not better, 1 if the
    refit failed or did not end in time, 2 for bad use. Without --wait it is 0 once the refit is queued.
    """
    asked = {
        "method": method,
        "options": method_options(option or []) or None,
        "version": model_version,
        "window": window,
        "promote": promote,
    }
    seconds = None if timeout is None else _seconds(timeout)
    if seconds is not None and not wait:
        raise InputError(f"--timeout {timeout} says how long to wait, and goes with --wait")
    with service_at(url, key_file) as http:
        body = {key: value for key, value in asked.items() if value is not None}
        job = ask(http, "POST", f"v1/models/{quote(model)}/recalibrations", json=body).json()
        page = str(http.base_url.join(job["links"]["page"].lstrip("/")))
        if wait:
            try:
                job = _follow(http, job, seconds, page)
            except KeyboardInterrupt:
                typer.echo(f"the refit {plain(job['id'])} goes on; see {page}", err=True)
                raise
    if as_json:
        typer.echo(json.dumps(job))
    elif not wait:
        told = f"{plain(job['id'])}: {plain(job['method'])} for {plain(job['model'])} {plain(job['version'])} is queued"
        typer.echo(f"{told}; follow it at {page}")
    else:
        # Where the environment names the service, the next command finds it, too.
        elsewhere = url not in {USUAL_URL, os.environ.get("MONITOR_URL")}
        print_refit(report_console(), job, f" --url {shlex.quote(plain(url))}" if elsewhere else "")
        typer.echo(f"pictures and details: {page}")
    if not wait:
        return
    if job["state"] == "failed":
        raise MonitorError(f"the refit {job['id']} failed: {job['reason'] or 'the service does not say why'}")
    if job["state"] == "rejected":
        raise typer.Exit(REJECTED)


def _follow(http: httpx.Client, job: dict[str, Any], seconds: float | None, page: str) -> dict[str, Any]:
    """The refit once it has ended."""
    began = heard = time.monotonic()
    with job_progress(Console(stderr=True)) as show:
        while job["state"] in _UNDER_WAY:
            show(plain(job["step"] or job["state"]), float(job["progress"]))
            if seconds is not None and time.monotonic() - began >= seconds:
                raise MonitorError(
                    f"--timeout: the refit {job['id']} is {job['state']} after {seconds:g} seconds; it goes on, "
                    f"see {page}"
                )
            time.sleep(_POLL_SECONDS)
            try:
                job = ask(http, "GET", job["links"]["self"].lstrip("/")).json()
                heard = time.monotonic()
            except ServiceUnavailable:
                # It may be restarting: a refit outlives that.
                if time.monotonic() - heard >= _PATIENCE_SECONDS:
                    raise
    return job


def _seconds(timeout: str) -> float:
    try:
        return parse_duration(timeout).total_seconds()
    except ValueError as error:
        raise InputError(f"--timeout {error}, got {timeout!r}") from None
