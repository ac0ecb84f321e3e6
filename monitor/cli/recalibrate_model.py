"""`monitor recalibrate MODEL`: request a refit over REST, and follow it to its end."""

import json
import os
import shlex
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import httpx
import typer
from rich.console import Console

from monitor.cli.service import USUAL_URL, service_at
from monitor.durations import parse_duration
from monitor.errors import InputError, MonitorError, ServiceUnavailable, UnknownSeries
from monitor.http_client import send_request
from monitor.recalibration.refit_view import print_refit
from monitor.reports.formatting import plain
from monitor.reports.progress import job_progress
from monitor.reports.view import report_console

REJECTED: Final = 3
"""Exit status if the map is not better: not a failure, and nothing changed."""

_UNDER_WAY: Final = ("queued", "running")
_POLL_SECONDS: Final = 0.5
_PATIENCE_SECONDS: Final = 60.0
"""How long the service may be unavailable while waiting for a refit: it may restart."""


def recalibrate_model(
    model: str,
    request: Mapping[str, Any],
    *,
    wait: bool,
    timeout: str | None,
    as_json: bool,
    url: str,
    key_file: Path | None,
) -> None:
    """Request a refit from a running service, and follow it to its end if ``wait`` is set.

    Fields of the request that are None are left out.

    Raises
    ------
    typer.Exit
        The map was rejected: status 3.
    MonitorError
        The refit failed, or did not end in time.
    """
    seconds = None if timeout is None else _seconds(timeout)
    if seconds is not None and not wait:
        raise InputError(f"--timeout {timeout} says how long to wait, and goes with --wait")
    with service_at(url, key_file) as http:
        body = {key: value for key, value in request.items() if value is not None}
        try:
            job = send_request(http, "POST", f"v1/models/{quote(model)}/recalibrations", json=body).json()
        except (ServiceUnavailable, UnknownSeries) as error:
            raise type(error)(f"{error}; {model} is taken for a model, as there is no such file") from error
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
        queued = (
            f"{plain(job['id'])}: {plain(job['method'])} for {plain(job['model'])} {plain(job['version'])} is queued"
        )
        typer.echo(f"{queued}; follow it at {page}")
    else:
        # The next command needs --url unless the environment or the default names the service.
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
    """Wait until the refit has ended, and return it."""
    started = answered = time.monotonic()
    with job_progress(Console(stderr=True)) as show:
        while job["state"] in _UNDER_WAY:
            show(plain(job["step"] or job["state"]), float(job["progress"]))
            if seconds is not None and time.monotonic() - started >= seconds:
                raise MonitorError(
                    f"--timeout: the refit {job['id']} is {job['state']} after {seconds:g} seconds; it goes on, "
                    f"see {page}"
                )
            time.sleep(_POLL_SECONDS)
            try:
                job = send_request(http, "GET", job["links"]["self"].lstrip("/")).json()
                answered = time.monotonic()
            except ServiceUnavailable:
                # The service may be restarting, and the refit goes on after that.
                if time.monotonic() - answered >= _PATIENCE_SECONDS:
                    raise
    return job


def _seconds(timeout: str) -> float:
    try:
        return parse_duration(timeout).total_seconds()
    except ValueError as error:
        raise InputError(f"--timeout {error}, got {timeout!r}") from None
