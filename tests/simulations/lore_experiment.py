"""The claims of the local-calibration paper, measured: ``python -m tests.simulations.lore_experiment``.

Every method on every setting of :mod:`tests.simulations.lore_data`, seed by seed. Prints the tables; with ``--write``
keeps the summary, and what docs/lore.md shows of it.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from monitor.errors import NotEnoughData
from monitor.local import PrincipalComponents, group_calibration_error
from monitor.maps import apply_map, choose_method, fit_map
from monitor.measures import ece
from monitor.recalibration.decision import prediction_rejection_ratio, reward
from monitor.recalibration.refit_figures import gamma_curves
from monitor.scores import ScoreTable
from tests.simulations import lore_report
from tests.simulations.lore_data import GROUP, SETTINGS, Task

Floats = NDArray[np.float64]

ROOT: Final = Path(__file__).parents[2]
GAMMAS: Final = tuple(0.05 * 2.0**k for k in range(9))
COST_RATIOS: Final = (2.0, 3.0, 5.0, 10.0, 20.0)
EMBEDDED: Final = ("loans", "few")
"""Settings for which t-SNE is fitted: of thousands of events that takes half a minute a seed."""
GROUP_BINS: Final = 5
LEAST_OF_GROUP: Final = 50
"""Events of a group in a bin of confidence, for the bin to count: the largest error of fewer is that of chance."""
CLIP: Final = 1e-3
"""For the log loss alone: a map may say 0 or 1, and one mistake there would outweigh all else."""


@dataclass(frozen=True)
class Contender:
    """A method with its options.

    Attributes
    ----------
    method
        Name in METHODS.
    options
        Of the fit.
    kind
        ``none``; ``global``: of the prediction alone; ``told``: is told the groups; ``local``.
    """

    method: str
    kind: str
    options: Mapping[str, Any] = field(default_factory=dict)


CONTENDERS: Final[Mapping[str, Contender]] = MappingProxyType(
    {
        "no map": Contender("identity", "none"),
        "temperature": Contender("temperature", "global"),
        "Platt": Contender("platt", "global"),
        "beta": Contender("beta", "global"),
        "isotonic": Contender("isotonic", "global"),
        "histogram": Contender("histogram", "global"),
        "MMCE temperature": Contender("mmce_temperature", "global"),
        "temperature by group": Contender("group_wise_temperature", "told", {"segment": GROUP, "least": 50}),
        "histogram by group": Contender("group_wise_histogram", "told", {"segment": GROUP, "least": 50}),
        "LoRe as in the paper": Contender("lore", "local", {"gamma": 0.4, "shrinkage": 0.0, "prior": 0.0}),
        "LoRe (t-SNE)": Contender("lore", "local", {"space": "tsne", "gamma": 0.2}),
        "LoRe": Contender("lore", "local"),
    }
)
"""By what the tables call them. LoRe as the package fits it, unless told otherwise, is the last."""


@dataclass(frozen=True)
class Job:
    """One seed of one setting."""

    setting: str
    seed: int
    contenders: tuple[str, ...] = tuple(CONTENDERS)
    points: int = 400
    draws: int = 19


def measure(job: Job) -> dict[str, dict[str, Any]]:
    """All measures of every contender on one draw of a setting: contender -> measure -> number, or a list of them."""
    with threadpool_limits(1):
        task = SETTINGS[job.setting].draw(job.seed)
        space = PrincipalComponents.fit(task.likeness_fit)
        phi = space.apply(task.likeness_test)
        found = {}
        for name in job.contenders:
            contender = CONTENDERS[name]
            if contender.options.get("space") == "tsne" and job.setting not in EMBEDDED:
                continue
            fitted = fit_map(choose_method(contender.method), task.fit, contender.options)
            p = apply_map(fitted, task.test.prediction, features=task.test.features, segments=task.test.segments)
            found[name] = _measures(p, task, phi, job)
    return found


def _measures(p: Floats, task: Task, phi: Floats, job: Job) -> dict[str, Any]:
    y = task.test.outcome.astype(np.float64)
    curve = gamma_curves({"p": p}, y, phi, gammas=GAMMAS, max_points=job.points, draws=job.draws, seed=job.seed)["p"]
    clipped = np.clip(p, CLIP, 1.0 - CLIP)
    ratio = prediction_rejection_ratio(p, task.test.outcome, np.ones(y.size))
    at = GAMMAS.index(0.4)
    return {
        "ece": ece(ScoreTable.from_events(p, y)),
        "nll": float(-np.where(y == 1.0, np.log(clipped), np.log1p(-clipped)).mean()),
        "brier": float(np.mean((p - y) ** 2)),
        "prr": np.nan if ratio is None else ratio,
        "reward": [reward(p, task.test.outcome, np.ones(y.size), each) for each in COST_RATIOS],
        "group_mce": group_mce(p, y, task.test.segments[GROUP], job.seed),
        "truth": np.nan if task.truth is None else float(np.sqrt(np.mean((p - task.truth) ** 2))),
        "mlce": float(curve.mlce[at]),
        "mlce_excess": float(curve.mlce[at] - curve.null_mean[at]),
        "curve": [curve.mlce.tolist(), curve.null_mean.tolist(), curve.null_q95.tolist()],
    }


def group_mce(p: Floats, y: Floats, group: NDArray[np.str_], seed: int) -> float:
    """The largest error of a bin of a group: the paper's maximum group-wise MCE, but for the least number of events."""
    try:
        return group_calibration_error(
            p, y, group, bins=GROUP_BINS, least_neighbours=LEAST_OF_GROUP, max_points=None, seed=seed
        ).mlce
    except NotEnoughData:
        return np.nan


def summarise(runs: Mapping[str, Sequence[Mapping[str, Mapping[str, Any]]]]) -> dict[str, Any]:
    """Means, standard deviations and paired differences over seeds; setting -> what was measured of each seed."""
    return {
        "gammas": list(GAMMAS),
        "cost_ratios": list(COST_RATIOS),
        "contenders": list(CONTENDERS),
        "global": [name for name, contender in CONTENDERS.items() if contender.kind == "global"],
        "paper": ["temperature", "histogram", "isotonic", "MMCE temperature"],
        "settings": {name: _summary(list(of_seeds)) for name, of_seeds in runs.items()},
    }


def _summary(of_seeds: Sequence[Mapping[str, Mapping[str, Any]]]) -> dict[str, Any]:
    contenders = list(of_seeds[0])
    values = {
        measure: {name: np.array([run[name][measure] for run in of_seeds], np.float64) for name in contenders}
        for measure in (*lore_report.MEASURES, "curve")
        if measure in of_seeds[0][contenders[0]]
    }
    at = COST_RATIOS.index(10.0)
    curves, rewards = (
        values.pop("curve"),
        {name: np.array([run[name]["reward"] for run in of_seeds]) for name in contenders},
    )
    values["reward"] = {name: each[:, at] for name, each in rewards.items()}
    last = contenders[-1]
    flat = {measure: np.concatenate(list(each.values())) for measure, each in values.items()}
    return {
        "seeds": len(of_seeds),
        "measures": {
            measure: {name: [_mean(x), _spread(x)] for name, x in each.items()} for measure, each in values.items()
        },
        "differences": {
            measure: {
                name: [_mean(each[last] - x), _spread(each[last] - x) / len(of_seeds) ** 0.5]
                for name, x in each.items()
                if name != last
            }
            for measure, each in values.items()
        },
        "curves": {
            name: {kind: [_mean(column) for column in curves[name][:, k].T] for k, kind in enumerate(_CURVES)}
            for name in contenders
        },
        "rewards": {name: [_mean(column) for column in each.T] for name, each in rewards.items()},
        "correlation_with_group_mce": {
            measure: _correlation(flat["group_mce"], x) for measure, x in flat.items() if measure != "group_mce"
        },
    }


_CURVES: Final = ("mlce", "null_mean", "null_q95")


def _mean(x: Floats) -> float | None:
    """The mean, if at least half of the seeds have a value."""
    known = x[np.isfinite(x)]
    return round(float(known.mean()), 6) if 2 * known.size >= x.size and known.size else None


def _spread(x: Floats) -> float:
    known = x[np.isfinite(x)]
    return round(float(known.std(ddof=1)), 6) if known.size > 1 else 0.0


def _correlation(x: Floats, y: Floats) -> float | None:
    known = np.isfinite(x) & np.isfinite(y)
    if known.sum() < 3 or x[known].std() == 0.0 or y[known].std() == 0.0:
        return None
    return round(float(np.corrcoef(x[known], y[known])[0, 1]), 3)


def run(jobs: Sequence[Job], workers: int | None = 1) -> dict[str, list[dict[str, dict[str, Any]]]]:
    """What was found, by setting, in the order of the jobs; in so many processes, None: one for each processor."""
    found: dict[str, list[dict[str, dict[str, Any]]]] = {}
    if workers == 1:
        results = map(measure, jobs)
        for job, result in zip(jobs, results, strict=True):
            found.setdefault(job.setting, []).append(result)
        return found
    with ProcessPoolExecutor(workers) as pool:
        for number, (job, result) in enumerate(zip(jobs, pool.map(measure, jobs), strict=True), 1):
            found.setdefault(job.setting, []).append(result)
            print(f"{number} of {len(jobs)}: {job.setting}, seed {job.seed}", file=sys.stderr, flush=True)
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables, and write them if told to."""
    parser = argparse.ArgumentParser(description="Every recalibration method on every setting, seed by seed.")
    parser.add_argument("--seeds", type=int, default=20, help="draws of each setting (default: %(default)s)")
    parser.add_argument("--settings", nargs="+", choices=list(SETTINGS), default=list(SETTINGS))
    parser.add_argument("--contenders", nargs="+", choices=list(CONTENDERS), default=list(CONTENDERS))
    parser.add_argument("--workers", type=int, default=None, help="processes (default: one for each processor)")
    parser.add_argument(
        "--write", action="store_true", help="keep the summary, the figures and the tables of docs/lore.md"
    )
    given = parser.parse_args(arguments)
    # By seed first: with the seeds done so far all settings could be told.
    jobs = [Job(name, seed, tuple(given.contenders)) for seed, name in product(range(given.seeds), given.settings)]
    summary = summarise(run(jobs, given.workers))
    print(lore_report.text(summary))
    if given.write:
        lore_report.write(summary, ROOT / "docs")


if __name__ == "__main__":
    main()
