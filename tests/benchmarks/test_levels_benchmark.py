"""What /metrics weighs at each level of the exposition."""

import gzip
from time import thread_time

import pytest

from monitor.measures import WINDOW_MEASURES
from monitor.metrics.exposition import Exposition
from monitor.metrics.series import Level
from tests.snapshots import Evaluations, cohorts, report, snapshot, window_families

MODELS = 200
SEGMENTS = ("all", "region=r1", "region=r2", "region=r3", "region=r4")
WINDOWS = ("1h", "6h", "24h", "7d")


@pytest.mark.benchmark
def test_values_of_many_models_are_a_fraction_of_everything() -> None:
    """The peer: the same windows with everything that is known of them."""
    evaluations = Evaluations()
    names = [f"model-{at:03d}" for at in range(MODELS)]
    evaluations.show(
        snapshot(
            (
                report(
                    model=name,
                    version="1",
                    segment=segment,
                    window=window,
                    measures=WINDOW_MEASURES.values(),
                    bins=10,
                    seed=seed,
                )
                for seed, name in enumerate(names)
                for segment in SEGMENTS
                for window in WINDOWS
            ),
            coverage={(name, "1"): cohorts() for name in names},
        )
    )
    size, seconds = {}, {}
    for level in Level:

        def made(level: Level = level) -> Exposition:
            return Exposition([window_families(evaluations, WINDOW_MEASURES.values(), level=level)])

        seconds[level] = min(_seconds(made()) for _ in range(3))
        exposition = made()
        exposition.render()
        again = min(_seconds(exposition) for _ in range(3))
        body, _ = exposition.render()
        size[level] = len(body)
        packed = len(gzip.compress(body, compresslevel=1))
        print(
            f"\n| {level.name} | {body.count(b'} '):,} | {size[level] / 1e6:.1f} MB | {packed / 1e6:.2f} MB | "
            f"{seconds[level] * 1e3:.0f} ms | {again * 1e3:.0f} ms where no report has changed"
        )
    print(
        f"\nvalues against all: {size[Level.ALL] / size[Level.VALUES]:.1f} times smaller, "
        f"{seconds[Level.ALL] / seconds[Level.VALUES]:.1f} times faster"
    )
    assert size[Level.VALUES] < 0.35 * size[Level.ALL]
    assert seconds[Level.VALUES] < seconds[Level.ALL]


def _seconds(exposition: Exposition) -> float:
    began = thread_time()
    exposition.render()
    return thread_time() - began
