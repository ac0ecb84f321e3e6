"""`monitor recalibrate MODEL`: a refit, requested over REST, and followed to its end."""

import json
import os
import shlex
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import httpx
import typer
from rich.console import Console

from monitor.cli.options import method_options
from monitor.cli.service import USUAL_URL, service_at
from monitor.durations import parse_duration
from monitor.errors import InputError, MonitorError, ServiceUnavailable, UnknownSeries
from monitor.http_client import ask
from monitor.recalibration.refit_text import print_refit
from monitor.reports.formatting import plain
from monitor.reports.progress import job_progress
from monitor.reports.view import report_console

REJECTED: Final = 3
"""Exit status where a map was fitted and is not better: not a failure, and nothing changed."""

_UNDER_WAY: Final = ("queued", "running")
_POLL_SECONDS: Final = 0.5
_PATIENCE_SECONDS: Final = 60.0
"""How long a service may be away while a refit is waited for: that long a restart may take."""


class ModelRequest(NamedTuple):
    """What a service is to fit; a field is named as its option."""

    model: str
    method: str | None
    option: Sequence[str]
    version: str | None
    window: str | None
    promote: bool | None
    wait: bool
    timeout: str | None
    as_json: bool
    url: str
    key_file: Path | None


def recalibrate_model(request: ModelRequest) -> None:
    """Let a running service fit a map, and follow it to its end if that is wanted.

    Raises
    ------
    typer.Exit
        The map was rejected: status 3.
    MonitorError
        The refit failed, or did not end in time.
    """
    model = request.model
    asked = {
        "method": request.method,
        "options": method_options(request.option) or None,
        "version": request.version,
        "window": request.window,
        "promote": request.promote,
    }
    seconds = None if request.timeout is None else _seconds(request.timeout)
    if seconds is not None and not request.wait:
        raise InputError(f"--timeout {request.timeout} says how long to wait, and goes with --wait")
    with service_at(request.url, request.key_file) as http:
        body = {key: value for key, value in asked.items() if value is not None}
        try:
            job = ask(http, "POST", f"v1/models/{quote(model)}/recalibrations", json=body).json()
        except (ServiceUnavailable, UnknownSeries) as error:
            raise type(error)(f"{error}; {model} is taken for a model, as there is no such file") from error
        page = str(http.base_url.join(job["links"]["page"].lstrip("/")))
        if request.wait:
            try:
                job = _follow(http, job, seconds, page)
            except KeyboardInterrupt:
                typer.echo(f"the refit {plain(job['id'])} goes on; see {page}", err=True)
                raise
    if request.as_json:
        typer.echo(json.dumps(job))
    elif not request.wait:
        told = f"{plain(job['id'])}: {plain(job['method'])} for {plain(job['model'])} {plain(job['version'])} is queued"
        typer.echo(f"{told}; follow it at {page}")
    else:
        # Where the environment names the service, the next command finds it, too.
        elsewhere = request.url not in {USUAL_URL, os.environ.get("MONITOR_URL")}
        print_refit(report_console(), job, f" --url {shlex.quote(plain(request.url))}" if elsewhere else "")
        typer.echo(f"pictures and details: {page}")
    if not request.wait:
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
