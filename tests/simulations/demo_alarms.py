"""The alarms on the demo's models over many simulated days: ``python -m tests.simulations.demo_alarms``.

Predictions and outcomes are those of the demo's generator, joined as the service joins them: outcomes that come within
the horizon count. The detectors are the service's, with the settings of the demo.
"""

import argparse
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np

from monitor.alarms.watch import WEIGHTS, VersionWatch
from monitor.app.parts import make_kept_ms
from monitor.cli.demo import demo_settings
from monitor.events.model import ALL
from monitor.scores.steps import Steps
from monitor.simulation.alarms import lines
from monitor.simulation.models import MODELS, SimulatedModel
from monitor.simulation.traffic import HORIZON_MS, draw_cohort
from tests.alarms_benchmark.streams import steps_of

CALIBRATED: Final = ("calibrated", "prior-shift", "local-error")
RATE: Final = 2.5
"""Predictions of a model a second."""
HOUR_MS: Final = 3_600_000
CHANGE_HOURS: Final = 2.5
"""Simulated hours until the models change, as in the demo."""
AT_ONCE_MS: Final = 300_000
"""Simulated time in which a regime stays as it is; more of it is drawn at once where it does not change any more."""


def steps(model: SimulatedModel, days: float, seed: int, pane_ms: int) -> Iterator[Steps]:
    """The settled steps of a model, an hour at a time after its change."""
    rng = np.random.default_rng([seed, *model.name.encode()])
    change_ms, end_ms = round(CHANGE_HOURS * HOUR_MS), round(days * 24 * HOUR_MS)
    at_ms = 0
    while at_ms < end_ms:
        changing = at_ms < change_ms + 1000 * model.ramp_seconds
        length_ms = AT_ONCE_MS if changing else min(HOUR_MS, end_ms - at_ms)
        cohort = draw_cohort(model.regime((at_ms - change_ms) / 1000), at_ms, length_ms, RATE, rng)
        joined = cohort.answered & (cohort.outcome_ms - cohort.time_ms <= HORIZON_MS)
        outcome = cohort.outcome[joined].astype(np.int64)
        yield steps_of(cohort.time_ms[joined], cohort.prediction[joined], outcome, pane_ms)
        at_ms += length_ms


def alarms(model: SimulatedModel, days: float, seed: int) -> Mapping[str, float | None]:
    """The hour of the first alarm of each detector; None without one."""
    with tempfile.TemporaryDirectory() as folder:
        settings = demo_settings(Path(folder), 0)
    at = lines(settings.alerts.false_alarms_per_year, len(MODELS))
    watch = VersionWatch(model.name, "1", settings.models.tolerance(model.name), 0)
    first: dict[str, float | None] = dict.fromkeys(WEIGHTS)
    for part in steps(model, days, seed, min(make_kept_ms(settings))):
        watch.update({ALL: part}, at)
        for name, level in watch.levels(at).items():
            if level.raised is not None and first[name] is None:
                first[name] = level.raised.end_ms / HOUR_MS
    return first


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a line for each model."""
    parser = argparse.ArgumentParser(description="Alarms on the demo's models over many simulated days.")
    parser.add_argument("--days", type=float, default=100.0, help="simulated days (default: %(default)s)")
    parser.add_argument("--seeds", type=int, default=10, help="runs of each model (default: %(default)s)")
    given = parser.parse_args(arguments)
    print(f"| model | runs | days | runs with an alarm | of {' | of '.join(WEIGHTS)} | first hour, median |")
    print("|---|---|---|---|" + "---|" * (len(WEIGHTS) + 1))
    with ThreadPoolExecutor() as pool:
        for model in MODELS:
            # Those that are wrong are found in hours.
            days = given.days if model.name in CALIBRATED else min(given.days, 1.0)
            found = list(pool.map(partial(alarms, model, days), range(given.seeds)))
            hours = [min((hour for hour in one.values() if hour is not None), default=np.inf) for one in found]
            of_detector = (sum(one[name] is not None for one in found) for name in WEIGHTS)
            raised = [hour for hour in hours if np.isfinite(hour)]
            median = f"{np.median(raised):.2f}" if raised else "-"
            fields = (model.name, len(found), f"{days:g}", len(raised), *of_detector, median)
            print(f"| {' | '.join(map(str, fields))} |", flush=True)


if __name__ == "__main__":
    main()
