"""The measures beside other packages that compute the same, on the same data in the same run."""

import time
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.isotonic import IsotonicRegression

from monitor.measures import ece, kce, smce, surrogate_intce
from monitor.measures.proper_scores import corp_curve, corp_decomposition
from monitor.scores import ScoreTable
from tests.reference.peers import (
    decomposition_of_model_diagnostics,
    ece_of_relplot,
    ece_of_scikit_learn,
    ece_of_uncertainty_calibration,
    kce_of_relplot,
    quantile_ece_of_uncertainty_calibration,
    smoothed_ece_of_relplot,
    surrogate_intce_of_relplot,
)

pytestmark = pytest.mark.benchmark

EVENTS = 100_000

Floats = NDArray[np.float64]
Peer = Callable[[Floats, Floats], object]


def seconds(work: Callable[[], object], repeats: int) -> float:
    """The least processor time of some runs, after one that compiles and warms up."""
    work()
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def test_beside_other_packages() -> None:
    rng = np.random.default_rng(1)
    q = rng.beta(2.0, 5.0, EVENTS)
    p, y = 1.0 / (1.0 + ((1.0 - q) / q) ** 1.3), (rng.random(EVENTS) < q).astype(np.float64)
    rows: list[tuple[str, str, Callable[[ScoreTable], object], Peer]] = [
        ("ECE", "scikit-learn", ece, ece_of_scikit_learn),
        ("ECE", "relplot", ece, ece_of_relplot),
        ("ECE", "uncertainty-calibration", ece, ece_of_uncertainty_calibration),
        (
            "ECE, bins of equal size",
            "uncertainty-calibration",
            lambda table: ece(table, bins="quantile"),
            quantile_ece_of_uncertainty_calibration,
        ),
        ("kCE (theirs: drawn pairs)", "relplot", kce, lambda p, y: kce_of_relplot(p, y, 0)),
        ("smCE (theirs: smECE, another measure)", "relplot", smce, smoothed_ece_of_relplot),
        (
            "surrogate intCE (theirs: drawn shifts)",
            "relplot",
            surrogate_intce,
            lambda p, y: surrogate_intce_of_relplot(p, y, 0),
        ),
        (
            "Brier score, decomposed",
            "model-diagnostics",
            corp_decomposition,
            lambda p, y: decomposition_of_model_diagnostics(p, y, "brier"),
        ),
        ("isotonic curve", "scikit-learn", corp_curve, lambda p, y: IsotonicRegression().fit(p, y)),
    ]
    print(f"\n{EVENTS:,} raw predictions; ours with the sort")
    for what, peer, ours, theirs in rows:
        mine = seconds(lambda ours=ours: ours(ScoreTable.from_events(p, y)), 3)  # type: ignore[misc]
        other = seconds(lambda theirs=theirs: theirs(p, y), 1)  # type: ignore[misc]
        print(f"  {what:<40} {mine * 1e3:8.1f} ms, {peer:<24} {other * 1e3:9.1f} ms: {other / mine:8.1f} times ours")
