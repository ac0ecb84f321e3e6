"""The benchmark of alarms: ``make alarms``, or a part: ``python -m tests.alarms_benchmark tune|run|oracle|write``."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from itertools import product
from types import MappingProxyType
from typing import Final

from tests.alarms_benchmark import oracle, page, results
from tests.alarms_benchmark.methods import Always, Method, Never
from tests.alarms_benchmark.ours import IN_BLOCKS, OURS, SERIES
from tests.alarms_benchmark.peers import CHARTS, WINDOWS
from tests.alarms_benchmark.river_peers import HDDM, KSWIN, KSWIN_EVENTS, RIVER
from tests.alarms_benchmark.scenarios import SCENARIOS
from tests.alarms_benchmark.streams import EVENTS, PREVALENCES
from tests.alarms_benchmark.trial import Result, run
from tests.alarms_benchmark.tune import save, settings, tune

GROUPS: Final = MappingProxyType(
    {
        "fast": {**SERIES, **CHARTS},
        "blocks": IN_BLOCKS,
        "windows": WINDOWS,
        "river": RIVER,
        "hddm": HDDM,
        "kswin": KSWIN,
    }
)
SEEDS: Final = MappingProxyType({"fast": 200, "blocks": 20, "windows": 20, "river": 20, "hddm": 1, "kswin": 1})
"""Streams of each scenario and prevalence: fewer for the slower groups."""


STEPS: Final = ("tune", "run", "oracle", "write")


def main(arguments: Sequence[str] | None = None) -> None:
    """Tune, run, let the oracle run, or write."""
    given = parse(arguments)
    with ProcessPoolExecutor(given.workers) as pool:
        if "tune" in given.do:
            _tune(given, pool)
        if "run" in given.do:
            _run(given, pool)
    if "oracle" in given.do:
        oracle.write()
    if "write" in given.do:
        results.summarise()
        page.write()


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the arguments of the command."""
    parser = argparse.ArgumentParser(description="False alarms and delays of detectors on simulated streams.")
    parser.add_argument("do", nargs="*", help=f"{', '.join(STEPS)} (default: all)")
    parser.add_argument("--of", nargs="+", choices=SEEDS, default=list(SEEDS), help="groups of methods")
    parser.add_argument("--scenarios", nargs="+", choices=SCENARIOS, default=list(SCENARIOS))
    parser.add_argument("--prevalences", nargs="+", choices=PREVALENCES, default=list(PREVALENCES))
    parser.add_argument("--seeds", type=int, help=f"streams of each scenario (default: {dict(SEEDS)})")
    parser.add_argument("--workers", type=int, default=2, help="processes (default: %(default)s)")
    given = parser.parse_args(arguments)
    for step in given.do:
        if step not in STEPS:
            parser.error(f"{step!r} is none of {', '.join(STEPS)}")
    given.do = given.do or STEPS
    return given


def _tune(given: argparse.Namespace, pool: ProcessPoolExecutor) -> None:
    """Tune what is not tuned yet: remove a line of settings.json to tune it anew."""
    known = settings()
    jobs = {
        pool.submit(_tune_one, group, name, prevalence): (prevalence, name)
        for group, prevalence in product(given.of, given.prevalences)
        for name, peer in GROUPS[group].items()
        if not peer.only and name not in known.get(prevalence, {})
    }
    for job in as_completed(jobs):
        save(*jobs[job], job.result())
        print(*jobs[job], job.result(), flush=True)


def _tune_one(group: str, name: str, prevalence: str) -> float:
    return tune(GROUPS[group][name], prevalence)


def _run(given: argparse.Namespace, pool: ProcessPoolExecutor) -> None:
    """Run what has no results yet."""
    known = results.done()
    jobs = [
        pool.submit(_run_one, group, scenario, prevalence, seed, known[scenario, prevalence, seed])
        for group in given.of
        for seed, prevalence, scenario in product(
            range(given.seeds or SEEDS[group]), given.prevalences, given.scenarios
        )
    ]
    for at, job in enumerate(as_completed(jobs), 1):
        results.add(job.result())
        if at % 50 == 0 or at == len(jobs):
            print(f"{at} of {len(jobs)} streams", file=sys.stderr, flush=True)


def _run_one(group: str, scenario: str, prevalence: str, seed: int, known: set[str]) -> list[Result]:
    methods = [
        method
        for method in _methods(group, scenario, prevalence, seed)
        if not all(name in known for name in method.variants)
    ]
    events = KSWIN_EVENTS if group == "kswin" else EVENTS
    return run(scenario, prevalence, seed, methods, events) if methods else []


def _methods(group: str, scenario: str, prevalence: str, seed: int) -> Iterator[Method]:
    if group == "windows":
        yield from (Always(), Never())
    tuned = settings().get(prevalence, {})
    for name, peer in GROUPS[group].items():
        if not scenario.startswith(peer.only):
            continue
        yield peer.make(prevalence, seed, tuned.get(name))
        if name in tuned and name not in OURS:
            yield peer.make(prevalence, seed, None)


if __name__ == "__main__":
    main()
