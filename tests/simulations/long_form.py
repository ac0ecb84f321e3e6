"""The long form of the simulations: ``make simulate`` prints its tables, measure by scenario."""

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from itertools import product
from typing import Final

from monitor.measures import REPORT_MEASURES, WINDOW_MEASURES
from tests.simulations.classwise import CLASS_SCENARIOS, ClassSetting, simulate_classes, simulate_vectors
from tests.simulations.differences import PAIRS, Pair, simulate_differences
from tests.simulations.scenarios import SCENARIOS
from tests.simulations.simulate import FORMS, LEVEL, TOLERANCE, Outcome, Setting, simulate

SIZES: Final = (500, 5_000, 50_000)

Job = tuple[str, bool, Future[Mapping[str, Outcome]]]
"""What it is of, whether nothing is there to be seen, and what will have come of it."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description="Coverage of 95%% intervals and size of 5%% tests, by simulation.")
    parser.add_argument("--of", nargs="+", choices=_JOBS, default=list(_JOBS), help="what to simulate (default: all)")
    parser.add_argument("--repeats", type=int, default=400, help="samples of each scenario (default: %(default)s)")
    parser.add_argument("--draws", type=int, default=199, help="resamples of each sample (default: %(default)s)")
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES), help="events (default: %(default)s)")
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=list(FORMS), help="kinds of tables")
    parser.add_argument("--workers", type=int, default=None, help="processes (default: one for each processor)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--measures", nargs="+", choices=REPORT_MEASURES, default=list(REPORT_MEASURES), help="default: all of reports"
    )
    given = parser.parse_args(arguments)
    with ProcessPoolExecutor(given.workers) as pool:
        jobs = [job for what in given.of for job in _JOBS[what](given, pool)]
        for title, nothing, outcomes in jobs:
            _show(f"{title}, {given.repeats} samples", outcomes.result(), nothing=nothing)
            sys.stdout.flush()


def _models(given: argparse.Namespace, pool: Executor) -> Iterator[Job]:
    for n, form, scenario in product(given.sizes, given.forms, SCENARIOS):
        setting = Setting(scenario, n, form, given.repeats, given.draws, given.seed, tuple(given.measures))
        yield f"{scenario.name}, n = {n:,}, {form}", scenario.calibrated, pool.submit(simulate, setting)


def _differences(given: argparse.Namespace, pool: Executor) -> Iterator[Job]:
    for n, (first, second, paired) in product(given.sizes, PAIRS):
        pair = Pair(first, second, paired, n, given.repeats, given.draws, given.seed, tuple(given.measures))
        yield f"{pair.name}, n = {n:,}", pair.alike, pool.submit(simulate_differences, pair)


def _classes(given: argparse.Namespace, pool: Executor) -> Iterator[Job]:
    chosen = tuple(name for name in given.measures if name in WINDOW_MEASURES)
    for n, scenario in product(given.sizes, CLASS_SCENARIOS if chosen else ()):
        setting = ClassSetting(scenario, n, given.repeats, given.draws, given.seed, chosen)
        yield f"{scenario.name}, n = {n:,}", scenario.calibrated, pool.submit(simulate_classes, setting)


def _vectors(given: argparse.Namespace, pool: Executor) -> Iterator[Job]:
    for n, scenario in product(given.sizes, CLASS_SCENARIOS):
        setting = ClassSetting(scenario, n, given.repeats, given.draws, given.seed)
        yield f"{scenario.name}, whole vectors, n = {n:,}", scenario.calibrated, pool.submit(simulate_vectors, setting)


_JOBS: Final[Mapping[str, Callable[[argparse.Namespace, Executor], Iterator[Job]]]] = {
    "models": _models,
    "differences": _differences,
    "classes": _classes,
    "vectors": _vectors,
}


def _show(title: str, outcomes: Mapping[str, Outcome], *, nothing: bool) -> None:
    print(f"\n{title}")
    print(f"  {'measure':<32}{'coverage':>18}{'rejected':>18}")
    for name, outcome in outcomes.items():
        shares = (outcome.coverage, outcome.rejection)
        texts = [f"{share:.3f} +- {outcome.error(share):.3f}" for share in shares]
        # A test of what is there to be seen should reject, and rejects as often as it can.
        off = [abs(outcome.coverage - 1.0 + LEVEL) > TOLERANCE + outcome.error(outcome.coverage)]
        if nothing:
            off.append(abs(outcome.rejection - LEVEL) > TOLERANCE + outcome.error(outcome.rejection))
        print(f"  {name:<32}{texts[0]:>18}{texts[1]:>18}{'  beyond .03' if any(off) else ''}")


if __name__ == "__main__":
    main()
