"""What the learnt alternatives of D1 gain: ``python -m tests.simulations.learnt_bets`` prints a row for each fault.

Streams of 8,600 events an hour in panes of 143, logits of standard deviation 1.5 and a tolerance of .05 logits, which
are calibrated at first. The same bets are counted twice: those of the fixed alternatives alone, and all.
"""

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from types import MappingProxyType
from typing import Final

import numpy as np
from scipy.special import expit

from monitor.arrays import Floats
from monitor.sequential.calibration import CalibrationBets
from monitor.sequential.detector import Bets
from monitor.sequential.evidence import Evidence
from monitor.sequential.learnt import HALF_LIVES
from tests.sequential.streams import steps_of

PANE: Final = 143
PANE_MS: Final = round(PANE / 8600 * 3_600_000)
SPREAD: Final = 1.5
CALIBRATED: Final = 20_020
AFTER: Final = 80_080
BUDGETS: Final = MappingProxyType({"one false alarm a year": 1.0, "one in 800 years": 800.0})
"""Name -> evidence at an alarm."""


def u_shape(size: float, z: Floats) -> Floats:
    """Both ends are shifted one way and the middle the other."""
    return size * np.clip((z / SPREAD) ** 2 - 1.0, -1.0, 2.0)


def zigzag(size: float, width: float, z: Floats) -> Floats:
    """One stretch of predictions is shifted one way and the next the other."""
    return size * np.sign(np.sin(np.pi * z / width + 1.0))


def band(size: float, z: Floats) -> Floats:
    """Predictions from .6 to .75 are shifted."""
    return np.where((z > 0.4) & (z < 1.1), size, 0.0)


FAULTS: Final = MappingProxyType[str, Callable[[Floats], Floats]](
    {
        "U shape of .3": partial(u_shape, 0.3),
        "U shape of .6": partial(u_shape, 0.6),
        "zigzag of .4, each .75 wide": partial(zigzag, 0.4, 0.75),
        "zigzag of .3, each 1 wide": partial(zigzag, 0.3, 1.0),
        "band of .5": partial(band, 0.5),
        "offset .5": lambda z: np.full_like(z, 0.5),
        "offset .25": lambda z: np.full_like(z, 0.25),
        "slope 1.3": lambda z: 0.3 * z,
        "slope .8": lambda z: -0.2 * z,
    }
)
"""Shift of the true logits, by the predictions' logits."""


def delays(shift: Callable[[Floats], Floats], seed: int, tolerance: float = 0.05) -> list[tuple[float, float]]:
    """Return the events to the first alarm after the change, with the fixed alternatives and with all, by budget."""
    rng = np.random.default_rng(seed)
    z = SPREAD * rng.normal(size=CALIBRATED + AFTER)
    truth = z + np.where(np.arange(z.size) < CALIBRATED, 0.0, shift(z))
    y = (rng.random(z.size) < expit(truth)).astype(np.float64)
    bets = CalibrationBets(tolerance).bet(steps_of(expit(z), y, PANE, PANE_MS))
    fixed = Bets(bets.end_ms, bets.log_bets[:, : -len(HALF_LIVES)])
    return [(_delay(fixed, line), _delay(bets, line)) for line in BUDGETS.values()]


def _delay(bets: Bets, line: float) -> float:
    alarms = Evidence(0).update({"whole": {"": bets}}, line)
    events = (alarm.end_ms // PANE_MS * PANE - CALIBRATED for alarm in alarms)
    return next((float(event) for event in events if event > 0), np.inf)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=200)
    repeats = parser.parse_args(arguments).repeats
    print(f"| fault | {' | '.join(f'{name}, fixed alone | all' for name in BUDGETS)} |")
    print(f"|---|{'---:|---:|' * len(BUDGETS)}")
    for name, shift in FAULTS.items():
        medians = np.median([delays(shift, seed) for seed in range(repeats)], axis=0)
        print(f"| {name} | {' | '.join(f'{value:,.0f}' for value in medians.ravel())} |", flush=True)


if __name__ == "__main__":
    main()
