"""`monitor simulate-alarms`: false alarms and delays, before there is an incident."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Final

import typer

from monitor.app.history import read_history
from monitor.app.parts import make_kept_ms
from monitor.cli.options import ConfigOption, check_target, flag, option, read_settings, write_target
from monitor.clock import SystemClock
from monitor.durations import parse_duration, to_ms
from monitor.errors import InputError, NotEnoughData
from monitor.reports.progress import stages_progress
from monitor.reports.view import print_view, report_console
from monitor.simulation.alarms import Setting
from monitor.simulation.page import simulation_page
from monitor.simulation.predictions import DrawnPredictions, HistoryPredictions, PredictionSource
from monitor.simulation.scenarios import KINDS, Scenario
from monitor.simulation.simulate import (
    BUDGETS,
    DAYS,
    PER_HOUR,
    PREVALENCE,
    RUNS,
    SPREAD,
    TOLERANCES,
    Fleet,
    Plan,
    simulate,
)
from monitor.simulation.view import simulation_view

app = typer.Typer(add_completion=False)

_NONE: Final[list[str]] = []
_NUMBERS: Final[list[float]] = []


@app.command(
    epilog="Examples: `monitor simulate-alarms --prevalence 0.02 --per-hour 5000 --models 40`; "
    "`monitor simulate-alarms --scenario slope=1.2 --scenario none --days 90 --html alarms.html`; "
    "`monitor simulate-alarms --config monitor.yaml --model churn`."
)
def simulate_alarms(
    *,
    prevalence: Annotated[str | None, option("SHARE", f"Of positive outcomes.  [default: {PREVALENCE:g}]")] = None,
    per_hour: Annotated[float | None, option("N", f"Predictions of a model an hour.  [default: {PER_HOUR:g}]")] = None,
    spread: Annotated[
        float | None, option("LOGITS", f"Standard deviation of the predictions' logits.  [default: {SPREAD:g}]")
    ] = None,
    model: Annotated[str | None, option("MODEL", "Resample the history of this model, from the store.")] = None,
    model_version: Annotated[str | None, option("V", "Of the model; the newest one if left out.", "--version")] = None,
    scenario: Annotated[list[str], option("NAME[=SIZE]", f"Repeatable; all if left out: {', '.join(KINDS)}.")] = _NONE,
    tolerance: Annotated[
        list[float],
        option("LOGITS", f"Repeatable.  [default: {', '.join(f'{t:g}' for t in TOLERANCES)} and the settings']"),
    ] = _NUMBERS,
    budget: Annotated[
        list[float],
        option(
            "N",
            "False alarms a year of the fleet. Repeatable.  "
            f"[default: {', '.join(f'{b:g}' for b in BUDGETS)} and the settings']",
        ),
    ] = _NUMBERS,
    models: Annotated[int, option("N", "Models that share the budget.")] = 1,
    horizon: Annotated[str | None, option("SPAN", "How long outcomes take at most; the settings' if left out.")] = None,
    days: Annotated[float, option("N", "Length of a run from the change on.")] = DAYS,
    runs: Annotated[int, option("N", "Runs of each scenario.")] = RUNS,
    seed: Annotated[int, option(None, "The same seed gives the same numbers.", min=0)] = 0,
    as_json: Annotated[bool, flag("--json", "Print JSON.")] = False,
    html: Annotated[Path | None, option("FILE", "Write a page with figures, which needs nothing else.")] = None,
    config: ConfigOption = None,
) -> None:
    """Simulate false alarms and the delay of alarms, to choose a tolerance and a budget before an incident.

    Models are simulated under scenarios such as a slope of 1.3, and the detectors of the service read them, with each
    tolerance and budget. Nothing is written, and no service is needed. The service's own models are watched in
    earnest by `monitor serve`; `monitor simulate` writes simulated events for it to read.
    """
    if html is not None:
        check_target("--html", html)
    settings = read_settings(config)
    declared = settings.models.defaults if model is None else settings.models.of(model)
    # The first is shown by detector.
    usual = Setting(declared.tolerance, settings.alerts.false_alarms_per_year)
    chosen = Setting(tolerance[0] if tolerance else usual.tolerance, budget[0] if budget else usual.budget)
    plan = Plan(
        scenarios=[Scenario.parse(text) for text in scenario or KINDS],
        tolerances=tolerance or sorted({*TOLERANCES, usual.tolerance}),
        budgets=budget or sorted({*BUDGETS, usual.budget}),
        days=days,
        runs=runs,
        seed=seed,
        chosen=chosen,
    )
    fleet = Fleet(
        models=models,
        horizon_ms=to_ms(declared.horizon if horizon is None else _span(horizon)),
        lateness_ms=to_ms(declared.allowed_lateness),
        implied_negative=declared.implied_negative,
    )
    predictions: PredictionSource
    if model is None:
        if model_version is not None:
            raise InputError("--version is of a model: name it with --model")
        predictions = DrawnPredictions.normal(
            PREVALENCE if prevalence is None else _share(prevalence),
            SPREAD if spread is None else spread,
            PER_HOUR if per_hour is None else per_hour,
        )
    else:
        for option, value in (("--prevalence", prevalence), ("--per-hour", per_hour), ("--spread", spread)):
            if value is not None:
                raise InputError(f"{option} is that of the history of --model {model}: leave one of the two out")
        history = read_history(settings, model, model_version, SystemClock())
        try:
            predictions = HistoryPredictions.of(*history)
        except NotEnoughData as error:
            raise NotEnoughData(f"--model {model}: {error}") from error
    with stages_progress() as progress:
        simulation = simulate(predictions, plan, fleet, pane_ms=min(make_kept_ms(settings)), progress=progress)
        if html is not None:
            progress(f"drawing {html.name}", 1.0)
            write_target("--html", html, simulation_page(simulation))
    if as_json:
        typer.echo(json.dumps(simulation.to_dict(), indent=2))
        return
    print_view(report_console(), simulation_view(simulation))
    if html is not None:
        typer.echo(f"wrote {html}")


def _share(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"--prevalence must be above 0 and below 1, such as 0.05 for 5%, got {text!r}") from None


def _span(text: str) -> timedelta:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise InputError(f"--horizon {error}, got {text!r}") from error
