"""What LoRe costs to fit, to apply and to measure, beside whole matrices of the kernel, in one run."""

import json
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from scipy.special import expit

from monitor.local import PrincipalComponents, local_calibration_error, mlce_curve
from monitor.maps import METHODS, apply_map, fit_map
from monitor.maps.artifact import from_bytes, to_bytes
from monitor.maps.lore import EVENTS_PER_BIN, GAMMAS, Lore, bin_indices, coordinates, leave_one_out_losses
from monitor.scores.labelled import LabelledEvents

pytestmark = pytest.mark.benchmark

Floats = NDArray[np.float64]

FEATURES = 50
MEGABYTE = 2**20


def seconds(work: Callable[[], object], repeats: int = 3) -> float:
    """The least processor time of some runs, after one that compiles and warms up."""
    work()
    times = []
    for _ in range(repeats):
        start = time.process_time()  # what else the machine does is not counted
        work()
        times.append(time.process_time() - start)
    return min(times)


def simulated(n: int, seed: int = 1) -> LabelledEvents:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, FEATURES))
    x[:, 1:8] += x[:, :1]
    z = 1.5 * rng.normal(size=n)
    y = rng.random(n) < expit(z + np.sign(x[:, 0]))
    return LabelledEvents.of(expit(z), y, features=x)


def by_matrix(lore: Lore, asked: LabelledEvents) -> Floats:
    """The map's formula with the whole matrix of distances of each bin."""
    assert asked.features is not None
    phi, at = lore.stored.points.T.astype(np.float64), coordinates(lore.space, asked.features).astype(np.float64)
    result, place, bins = asked.prediction.copy(), bin_indices(lore.bins.count, asked.prediction), lore.bins
    for b in np.unique(place):
        rows, inside = place == b, slice(*lore.stored.first[b : b + 2])
        k = np.exp(-cdist(at[rows], phi[inside], "cityblock") / (phi.shape[1] * lore.gamma))
        total, squares = k.sum(axis=1), (k**2).sum(axis=1)
        n_eff, local = total**2 / squares, k @ lore.stored.hit[inside] / total
        pulled = (n_eff * local + lore.shrinkage * bins.mean[b]) / (n_eff + lore.shrinkage)
        n = bins.events[b] ** 2 / bins.squares[b]
        result[rows] = (n * pulled + lore.prior * bins.confidence[b]) / (n + lore.prior)
    return result


def test_a_fit_of_a_hundred_thousand_events_by_itself() -> None:
    code = """
        import json, resource, time
        import numpy as np
        from monitor.maps import METHODS, fit_map
        from tests.benchmarks.test_lore_benchmark import simulated
        events = simulated(100_000)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        start = time.process_time()
        found = fit_map(METHODS["lore"], events)
        took = time.process_time() - start
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(json.dumps([took, before / 1024, peak / 1024, found.describe()]))
    """
    ran = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True, capture_output=True, text=True)
    took, before, peak, described = json.loads(ran.stdout)
    print(f"\nfit on 100,000 events x {FEATURES} features: {took:.1f} s, compiled loops loaded or compiled included")
    print(f"  {peak:.0f} MB at most in the process, {before:.0f} MB of them before the fit")
    print(f"  {described}")
    assert peak < 1000.0


@pytest.mark.parametrize(("bins", "spread"), [(15, "spread over 15 bins"), (1, "all in one bin")])
def test_applying_to_a_thousand_events(bins: int, spread: str) -> None:
    lore = fit_map(METHODS["lore"], simulated(50_000), {"bins": bins, "gamma": 0.4})
    assert isinstance(lore, Lore)
    asked = simulated(1000, 2)
    took = seconds(lambda: apply_map(lore, asked.prediction, features=asked.features))
    naive = seconds(lambda: by_matrix(lore, asked), 1)
    print(
        f"\n1,000 events against {lore.stored.hit.size:,} stored ones in 20 dimensions, {spread}: {took * 1e3:.0f} ms"
    )
    print(f"  the whole matrix of the kernel takes {naive / took:.1f} times as long")
    found = apply_map(lore, asked.prediction, features=asked.features)
    np.testing.assert_allclose(found, by_matrix(lore, asked), rtol=1e-5)


def test_leaving_each_event_out() -> None:
    lore = fit_map(METHODS["lore"], simulated(20_000), {"gamma": 0.4})
    assert isinstance(lore, Lore)
    stored, bins = lore.stored, lore.bins
    gammas = np.array(GAMMAS[4:])  # the whole matrix of smaller ones has rows without any weight

    def by_matrices() -> Floats:
        loss, phi = np.zeros(gammas.size), stored.points.T.astype(np.float64)
        for b in range(bins.count):
            start, stop = stored.first[b : b + 2]
            asked = np.arange(min(EVENTS_PER_BIN, stop - start))
            hit = stored.hit[start:stop]
            distance = cdist(phi[start:stop][asked], phi[start:stop], "cityblock")
            for at, gamma in enumerate(gammas):
                k = np.exp(-distance / (phi.shape[1] * gamma))
                k[asked, asked] = 0.0
                total, n = k.sum(axis=1), hit.size - 1
                n_eff, local = total**2 / (k**2).sum(axis=1), k @ hit / total
                pulled = (n_eff * local + 5.0 * (hit.sum() - hit[asked]) / n) / (n_eff + 5.0)
                p = (n * pulled + bins.confidence[b]) / (n + 1.0)
                loss[at] -= hit.size * np.log(np.where(hit[asked] == 1.0, p, 1.0 - p)).mean()
        return loss / stored.hit.size

    took = seconds(lambda: leave_one_out_losses(stored, bins, 5.0, 1.0, gammas))
    naive = seconds(by_matrices, 1)
    print(f"\nleave-one-out losses of {gammas.size} gammas on 20,000 events: {took:.2f} s")
    print(f"  whole matrices of the kernel take {naive / took:.1f} times as long")
    found = leave_one_out_losses(stored, bins, 5.0, 1.0, gammas)
    np.testing.assert_allclose(found, by_matrices(), rtol=1e-5)


def test_a_curve_of_local_errors_over_gammas() -> None:
    events = simulated(20_000)
    assert events.features is not None
    phi = PrincipalComponents.fit(events.features).apply(events.features)
    gammas = (0.4, 0.8, 1.6, 3.2)
    p = {"before": events.prediction, "after": expit(events.prediction)}

    def one_by_one() -> list[float]:
        return [
            local_calibration_error(q, events.outcome, phi, gamma=gamma, max_points=2000, seed=1).mlce
            for q in p.values()
            for gamma in gammas
        ]

    def together() -> list[float]:
        curves = mlce_curve(p, events.outcome, phi, gammas, max_points=2000, seed=1)
        return [found.mlce for curve in curves.values() for found in curve if found is not None]

    took, apart = seconds(together), seconds(one_by_one)
    print(f"\nlocal errors of 2 maps at 4 gammas, 2,000 points among 20,000 events: {took:.2f} s together")
    print(f"  one by one {apart / took:.1f} times as long")
    np.testing.assert_allclose(together(), one_by_one(), rtol=1e-9)


def test_a_map_to_bytes_and_back() -> None:
    lore = fit_map(METHODS["lore"], simulated(50_000), {"gamma": 0.4})
    data = to_bytes(lore, {})
    write, read = seconds(lambda: to_bytes(lore, {})), seconds(lambda: from_bytes(data))
    print(f"\n50,000 points of 20 dimensions: {len(data) / MEGABYTE:.1f} MiB, written in {write * 1e3:.0f} ms")
    print(f"  read, checked and ready in {read * 1e3:.0f} ms")
