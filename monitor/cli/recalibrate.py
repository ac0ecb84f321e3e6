"""`monitor recalibrate`: fit a map on a file, or in a running service. `monitor refit` is its old name."""

import json
import os
import shlex
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import httpx
import typer
from rich.console import Console

from monitor.cli.options import (
    LOGITS_HELP,
    POSITIVE_HELP,
    SKIP_BAD_ROWS_HELP,
    argument,
    flag,
    method_options,
    option,
    print_help_line,
)
from monitor.cli.service import USUAL_URL, KeyFileOption, UrlOption, service_at
from monitor.durations import parse_duration
from monitor.errors import InputError, MonitorError, ServiceUnavailable, UnknownSeries
from monitor.http_client import request_document
from monitor.recalibration.compare import DRAWS
from monitor.recalibration.data import HELD_OUT
from monitor.recalibration.refit_view import print_refit
from monitor.reports.formatting import plain
from monitor.reports.progress import job_progress
from monitor.reports.view import report_console
from monitor.sources.formats import format_of
from monitor.sources.tables import Columns
from monitor.urls import path_of

app = typer.Typer(add_completion=False)

_OLD_NAME: Final = "refit"
_OF_FILE: Final = "For a file"
_OF_MODEL: Final = "For a model of a service"
_OF_SERVICE: Final = ("url", "key_file")
"""Options that are shared with other commands of a service."""
_NONE: list[str] = []

REJECTED: Final = 3
"""Exit status if the map is not better: not a failure, and nothing changed."""

_UNDER_WAY: Final = ("queued", "running")
_POLL_SECONDS: Final = 0.5
_PATIENCE_SECONDS: Final = 60.0
"""How long the service may be unavailable while waiting for a refit: it may restart."""

_of_file: Final = partial(option, rich_help_panel=_OF_FILE)
_of_model: Final = partial(option, rich_help_panel=_OF_MODEL)


@app.command(
    epilog="Examples: `monitor recalibrate scores.csv --prediction score --outcome label -o map.arrow`; `monitor "
    "recalibrate scores.parquet --feature age --feature income --method beta --method lore --option gamma=0.4`; "
    "`monitor recalibrate churn --wait`; `monitor recalibrate churn --method histogram --window 7d --promote --wait`."
)
def recalibrate(
    context: typer.Context,
    target: Annotated[
        str,
        argument(
            "FILE|MODEL",
            "A table of predictions and outcomes (.csv, .tsv, .parquet, .orc, .avro, .jsonl), or the name of a "
            "model of a running service. It is read as a file if one of that name exists, or its name ends like one.",
        ),
    ],
    *,
    method: Annotated[
        list[str],
        option(
            "NAME",
            "Recalibration method. For a file, several may be given and are compared; by default the usual ones "
            "for such rows. For a model, one; by default that of the service's settings.",
        ),
    ] = _NONE,
    option: Annotated[
        list[str],
        option("NAME=VALUE", "Option of the methods that have it, such as gamma=0.4. May be given several times."),
    ] = _NONE,
    as_json: Annotated[
        bool, flag("--json", "Print JSON: the whole comparison of each method, or what REST answers.")
    ] = False,
    held_out: Annotated[
        float, _of_file("SHARE", "Share of the latest rows, which no fit uses; above 0 and below 1.")
    ] = HELD_OUT,
    since_change: Annotated[
        bool, _of_file(None, "Leave out the rows before the last change of calibration.", "--since-change")
    ] = False,
    prediction: Annotated[
        list[str],
        _of_file(
            "COLUMN",
            "Column with P(y = 1); guessed if left out. For many classes, the column of each class, or one column "
            "of lists.",
        ),
    ] = _NONE,
    outcome: Annotated[
        str | None, _of_file("COLUMN", "Column with the outcome, 0 or 1, or the class; guessed if left out.")
    ] = None,
    time: Annotated[
        str | None, _of_file("COLUMN", "Column with the time; guessed if left out. Without one, rows are in order.")
    ] = None,
    weight: Annotated[str | None, _of_file("COLUMN", "Column with the weight of each row.")] = None,
    positive: Annotated[str | None, _of_file("VALUE", POSITIVE_HELP)] = None,
    logits: Annotated[bool, _of_file(None, LOGITS_HELP, "--logits")] = False,
    skip_bad_rows: Annotated[bool, _of_file(None, SKIP_BAD_ROWS_HELP, "--skip-bad-rows")] = False,
    segment: Annotated[
        list[str],
        _of_file(
            "COLUMN",
            "Column of groups: for methods by group, and to see who gains. May be given several times; methods by "
            "group cross the columns, as 'region*device' does.",
        ),
    ] = _NONE,
    feature: Annotated[
        list[str],
        _of_file("COLUMN", "Column of numbers or words by which similar rows are found. May be given several times."),
    ] = _NONE,
    draws: Annotated[
        int, _of_file(None, "Resamples for intervals and levels; 0 leaves both out, and is fast.", min=0)
    ] = DRAWS,
    output: Annotated[
        Path | None, _of_file("FILE", "Write the map of the best method, for `monitor apply`.", "--output", "-o")
    ] = None,
    unguarded: Annotated[
        bool,
        _of_file(
            None,
            "Write the map of the one method that --method names, though it is not proven better than no map; the "
            "file says so.",
            "--unguarded",
        ),
    ] = False,
    html: Annotated[Path | None, _of_file("FILE", "Write a page with figures, in one HTML file.")] = None,
    png: Annotated[Path | None, _of_file("FILE", "Write a picture of before and after.")] = None,
    model_version: Annotated[
        str | None, _of_model("V", "Without it, that of the newest predictions.", "--version")
    ] = None,
    window: Annotated[str | None, _of_model("LENGTH", "How far back events are used, such as 7d or 12h.")] = None,
    since: Annotated[
        str | None, _of_model("TIME", "Only events predicted then or later are used, such as since a change.")
    ] = None,
    alert: Annotated[
        str | None, _of_model("ID", "Refit the version that this alert is about, since its change point.")
    ] = None,
    promote: Annotated[
        bool | None,
        _of_model(None, "Let the map serve at once if it passes the guard, or not.", "--promote/--no-promote"),
    ] = None,
    wait: Annotated[bool, _of_model(None, "Wait until the refit has ended, and print the result.", "--wait")] = False,
    timeout: Annotated[str | None, _of_model("LENGTH", "With --wait: the longest wait, such as 20m.")] = None,
    url: UrlOption = USUAL_URL,
    key_file: KeyFileOption = None,
) -> None:
    """Fit recalibration maps, on a file or in a running service, and see on later data whether one is better than none.

    The exit status is 0 if a map is better (of a model: it is a candidate, or serves), 3 if none is, 1 for a failure,
    such as too few rows, and 2 for bad use. Of a model without --wait it is 0 once the refit is queued.
    """
    if context.info_name == _OLD_NAME:
        typer.echo(
            "`monitor refit` is now `monitor recalibrate`; the old name will be removed in the next release", err=True
        )
    file = Path(target)
    if file.exists() or _ends_as_a_table(file) or context.info_name == _OLD_NAME:
        _refuse(context, _OF_MODEL, f"{target} is read as a file")
        # Imported here, because it loads matplotlib.
        from monitor.cli.recalibrate_file import recalibrate_file  # noqa: PLC0415

        recalibrate_file(
            file,
            Columns(
                prediction,
                outcome,
                time,
                weight,
                None,
                segment,
                feature,
                positive,
                logits=logits,
                skip_bad_rows=skip_bad_rows,
            ),
            method=method,
            option=option,
            held_out=held_out,
            since_change=since_change,
            draws=draws,
            unguarded=unguarded,
            targets={"--output": output, "--html": html, "--png": png},
            as_json=as_json,
        )
        return
    reason = f"{target} is read as a model of a service, because there is no such file"
    _refuse(context, _OF_FILE, reason)
    if len(method) > 1:
        raise InputError(f"--method goes once with a model, and {reason}")
    request = {
        "method": method[0] if method else None,
        "options": method_options(option) or None,
        "version": model_version,
        "window": window,
        "since": since,
        "alert": alert,
        "promote": promote,
    }
    _recalibrate_model(target, request, wait=wait, timeout=timeout, as_json=as_json, url=url, key_file=key_file)


def _ends_as_a_table(file: Path) -> bool:
    try:
        format_of(file)
    except InputError:
        return False
    return True


def _refuse(context: typer.Context, panel: str, reason: str) -> None:
    """Raise InputError if an option of that panel was given."""
    for parameter in context.command.params:
        name, source = parameter.name or "", context.get_parameter_source(parameter.name or "")
        group = _OF_MODEL if name in _OF_SERVICE else getattr(parameter, "rich_help_panel", None)
        if group == panel and source is not None and source.name == "COMMANDLINE":
            raise InputError(f"{parameter.opts[0]} is {panel[0].lower()}{panel[1:]}, and {reason}")


def _recalibrate_model(
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
        path = f"v1/models/{path_of('model, as there is no such file,', model)}/recalibrations"
        try:
            job = request_document(http, "POST", path, json=body)
        except (ServiceUnavailable, UnknownSeries) as error:
            raise type(error)(f"{error}; {model} is read as a model, because there is no such file") from error
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
        print_help_line([str(job["state"])])
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
                job = request_document(http, "GET", job["links"]["self"].lstrip("/"))
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
