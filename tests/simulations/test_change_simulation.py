"""How often a refit finds changes of calibration that are none, and misses or misplaces those that are.

``python -m tests.simulations.test_change_simulation`` prints the long form, on which the docstrings of
``monitor/recalibration/change.py`` rest. The tests are its short form, seeded: what holds once holds always.
"""

import argparse
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.special import expit

from monitor.recalibration.change import changes
from monitor.scores.labelled import LabelledEvents
from tests.long import longer, short_of

pytestmark = pytest.mark.simulation


@dataclass(frozen=True)
class Outcome:
    """What was found in the samples of a stream.

    Attributes
    ----------
    any
        Share of samples with a change.
    more
        Share of those with a change that have a further one.
    away
        Median distance of the last change from the true one, in events; nan if none was found.
    lost
        Mean share of the events since the true change that are not taken, because the last change is later.
    seconds
        Of processor time, a sample.
    """

    any: float
    more: float
    away: float
    lost: float
    seconds: float


@dataclass(frozen=True)
class Stream:
    """A model whose logits are ``slope`` times the true ones plus ``offset``; the true ones jump once, or not."""

    name: str
    n: int
    slope: float = 1.0
    offset: float = 0.0
    curve: float = 0.0
    mean: float = 0.0
    trend: float = 0.0
    weighted: bool = False
    jump: tuple[float, float] | None = None
    at: float = 1.0

    def sample(self, repeat: int) -> LabelledEvents:
        """One of the samples."""
        rng = np.random.default_rng([repeat, 5])
        z = rng.normal(self.mean, 1.2, self.n) + self.trend * np.linspace(-1.0, 1.0, self.n)
        true = (z - self.offset) / self.slope + self.curve * z**2
        if self.jump is not None:
            rows = slice(int(self.at * self.n), None)
            true[rows] = true[rows] * self.jump[0] + self.jump[1]
        w = np.where(np.abs(z - self.mean) > 1.2, 1.0, 8.0) if self.weighted else None
        y = rng.random(self.n) < expit(true)
        return LabelledEvents.of(expit(z), y.astype(int), weight=w)

    def found(self, repeat: int) -> tuple[list[int], float]:
        """The changes of one sample, by their first events, and the processor's time in seconds."""
        sample = self.sample(repeat)
        before = time.process_time()
        rows = [change.row for change in changes(sample, seed=repeat)]
        return rows, time.process_time() - before

    def outcome(self, repeats: int, pool: ProcessPoolExecutor | None = None) -> Outcome:
        """Of many samples."""
        several = map if pool is None else pool.map
        found = list(several(self.found, range(repeats)))
        some = [rows for rows, _ in found if rows]
        true = int(self.at * self.n)
        last = np.array([rows[-1] for rows in some], np.float64)
        return Outcome(
            any=len(some) / repeats,
            more=float(np.mean([len(rows) > 1 for rows in some])) if some else 0.0,
            away=float(np.median(np.abs(last - true))) if some else np.nan,
            lost=float(np.mean(np.maximum(last - true, 0.0) / (self.n - true))) if some and true < self.n else 0.0,
            seconds=float(np.mean([seconds for _, seconds in found])),
        )


STEADY = (
    Stream("calibrated", 2000),
    Stream("slope 1.5, offset .5", 2000, slope=1.5, offset=0.5),
    Stream("slope 1.5, offset .5", 20_000, slope=1.5, offset=0.5),
    Stream("slope 1.5, predictions drift", 2000, slope=1.5, trend=1.0),
    Stream("bent, predictions drift", 5000, curve=0.15, trend=0.5),
    Stream("bent, predictions drift", 20_000, curve=0.15, trend=0.5),
    Stream("slope 1.5, weighted", 2000, slope=1.5, weighted=True),
    Stream("slope 1.5, weighted", 20_000, slope=1.5, weighted=True),
    Stream("slope 1.5, offset .5, 4% positive", 4000, slope=1.5, offset=0.5, mean=-4.6),
    Stream("offset .5, 1% positive", 6000, offset=0.5, mean=-4.8),
    Stream("offset .5, 1% positive", 20_000, offset=0.5, mean=-4.8),
)
JUMPS = (
    Stream("offset .5 at 60%", 2000, slope=1.5, jump=(1.0, 0.5), at=0.6),
    Stream("offset .5 at 60%", 5000, slope=1.5, jump=(1.0, 0.5), at=0.6),
    Stream("offset .5 at 60%, weighted", 5000, slope=1.5, weighted=True, jump=(1.0, 0.5), at=0.6),
    Stream("slope 1.5 at 60%", 5000, jump=(1.0 / 1.5, 0.0), at=0.6),
    Stream("offset 1 at 60%", 5000, slope=1.5, jump=(1.0, 1.0), at=0.6),
    Stream("offset -1 at 85%", 6000, slope=1.5, jump=(1.0, -1.0), at=0.85),
    Stream("offset 1 at 50%, 1% positive", 20_000, mean=-5.2, jump=(1.0, 1.0), at=0.5),
)


@pytest.mark.parametrize("stream", short_of([STEADY[k] for k in (1, 3, 4, 6)], 1), ids=lambda each: each.name)
@pytest.mark.longer
def test_changes_that_are_none_are_found_in_at_most_a_twentieth(stream: Stream) -> None:
    assert stream.outcome(longer(20, 60)).any <= 0.05


@pytest.mark.long
def test_of_rare_outcomes_too() -> None:
    # Of the first 60 samples 4 show a change, which a rate of .03 does in one of ten such sets: 240 tell more.
    assert STEADY[8].outcome(240).any <= 0.05


@pytest.mark.parametrize("stream", short_of([JUMPS[4], JUMPS[5]], 1), ids=lambda each: each.name)
@pytest.mark.longer
def test_changes_are_found_where_they_are(stream: Stream) -> None:
    found = stream.outcome(longer(3, 10))
    assert found.any >= 0.9
    assert found.away <= 0.05 * stream.n
    assert found.lost <= 0.1


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the long form."""
    parser = argparse.ArgumentParser(description="How often changes of calibration are found, by simulation.")
    parser.add_argument("--repeats", type=int, default=400, help="samples of each stream (default: %(default)s)")
    parser.add_argument("--only", choices=("steady", "jumps"), help="one kind of streams (default: both)")
    given = parser.parse_args(arguments)
    print("  stream                                 events    found    further  events away  lost   ms")
    with ProcessPoolExecutor() as pool:
        for stream in (*STEADY, *JUMPS) if given.only is None else {"steady": STEADY, "jumps": JUMPS}[given.only]:
            found = stream.outcome(given.repeats, pool)
            print(
                f"  {stream.name:<38} {stream.n:>6,}    {found.any:.3f}    {found.more:.3f}    "
                f"{found.away:>7.0f}      {found.lost:.3f}  {1000.0 * found.seconds:.0f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
