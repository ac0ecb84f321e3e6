"""How alarms of D1 go, by simulation: ``python -m tests.simulations.alarms`` prints a row for each change.

Streams of 8,600 events an hour in panes of 50, logits of standard deviation 1.5, a tolerance of .05 logits, and one
false alarm a year: calibrated at first, changed from the middle of a pane, and calibrated again or not.
"""

import argparse
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from monitor.sequential.calibration import CalibrationBets
from monitor.sequential.change_point import MARGIN, find_change
from monitor.sequential.detector import Bets
from monitor.sequential.evidence import YEAR_MS, Alarm, Evidence
from monitor.sequential.recovery import Recovery
from tests.sequential.streams import logistic, steps_of

PANE: Final = 50
PANE_MS: Final = round(PANE / 8600 * 3_600_000)
CALIBRATED: Final = 5_000
AFTER: Final = 100_000
"""Events after a change in which there is an alarm or not, and after an alarm in which it is over or not."""


class Change(NamedTuple):
    """True logits are slope * logit + offset; the mean logit of predictions is the centre."""

    slope: float = 1.0
    offset: float = 0.0
    centre: float = 0.0


CHANGES: Final = {
    "slope 1.5": Change(1.5),
    "slope 1.3": Change(1.3),
    "slope 1.15": Change(1.15),
    "slope 0.8": Change(0.8),
    "offset 0.5": Change(offset=0.5),
    "offset 0.25": Change(offset=0.25),
    "offset 0.1": Change(offset=0.1),
    "slope 1.3, 7% positive": Change(1.3, centre=-3.5),
    "offset 0.5, 7% positive": Change(offset=0.5, centre=-3.5),
    "slope 1.3, 1% positive": Change(1.3, centre=-5.5),
    "offset 0.5, 1% positive": Change(offset=0.5, centre=-5.5),
}


class Course(NamedTuple):
    """What became of a stream."""

    delay: int
    """Events from the change to the alarm."""
    error: int
    """Events from the change to its estimate."""
    covered: bool
    """The set holds the change."""
    set_size: int
    """Events of the set of change points."""
    over: int | None
    """Events from the alarm until it was over, calibrated again."""
    wrongly_over: bool
    """Over, although nothing became better."""


def simulate(change: Change, rng: np.random.Generator, threshold: float = 1.0, after: int = AFTER) -> Course | None:
    """Simulate one stream; None without an alarm within so many events of the change, or with one before it."""
    detector, evidence = CalibrationBets(), Evidence(0)
    bets: list[Bets] = []
    alarms: list[Alarm] = []
    at = 0

    def go_on(events: int, truth: Change, first: Change | None = None) -> Bets:
        """Bet on so many events; those of the first half of a pane may have another truth."""
        nonlocal at
        p, y = logistic(rng, events, *truth)
        if first is not None:
            p[: PANE // 2], y[: PANE // 2] = logistic(rng, PANE // 2, *first)
        new = detector.bet(steps_of(p, y, PANE, PANE_MS, at), held=bool(alarms))
        at = int(new.end_ms[-1])
        return new

    calibrated = Change(centre=change.centre)
    bets.append(go_on(CALIBRATED, calibrated))
    if evidence.update({"whole": {"": bets[0]}}, threshold):
        return None
    changed_ms = at
    while not alarms and at - changed_ms < after / PANE * PANE_MS:
        bets.append(go_on(1000, change, None if len(bets) > 1 else calibrated))
        alarms = evidence.update({"whole": {"": bets[-1]}}, threshold)
    if not alarms:
        return None
    end_ms, log_bets = (np.concatenate(column) for column in zip(*bets, strict=True))
    before = end_ms <= alarms[0].end_ms
    point = find_change(Bets(end_ms[before], log_bets[before]), 0)
    over = Recovery.of(alarms[0]).update(go_on(after, calibrated))
    fixed_ms = at - after // PANE * PANE_MS
    wrongly = Recovery.of(alarms[0]).update(go_on(after, change))
    return Course(
        delay=_events(alarms[0].end_ms - changed_ms),
        error=_events(point.begin_ms - changed_ms),
        covered=changed_ms in point.begins_ms,
        set_size=PANE * point.begins_ms.size,
        over=None if over is None else _events(over - fixed_ms),
        wrongly_over=wrongly is not None,
    )


def _events(milliseconds: int) -> int:
    return milliseconds // PANE_MS * PANE


def courses(change: Change, repeats: int, seed: int = 0, threshold: float = 1.0, after: int = AFTER) -> list[Course]:
    """Simulate many streams; those without an alarm of the change are left out."""
    rng = np.random.default_rng(seed)
    return [course for _ in range(repeats) if (course := simulate(change, rng, threshold, after)) is not None]


def row(name: str, results: Sequence[Course]) -> str:
    """A row of the table."""
    over = [np.inf if course.over is None else course.over for course in results]
    return (
        f"| {name} | {len(results)} | {np.median([course.delay for course in results]):,.0f} "
        f"| {np.median([course.error for course in results]):+,.0f} "
        f"| {np.median([abs(course.error) for course in results]):,.0f} "
        f"| {np.mean([course.covered for course in results]):.3f} "
        f"| {np.median([course.set_size for course in results]):,.0f} "
        f"| {np.median(over):,.0f} | {np.mean([course.wrongly_over for course in results]):.3f} |"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Delays, change points and ends of alarms, by simulation.")
    parser.add_argument("--repeats", type=int, default=400, help="streams of each change (default: %(default)s)")
    parser.add_argument("--per-year", type=float, default=1.0, help="false alarms a year (default: %(default)s)")
    given = parser.parse_args(arguments)
    print(f"panes of {PANE} events, {1 / YEAR_MS * PANE_MS:.2g} years each; margin {MARGIN} for change points")
    print("| change | alarms | delay | error | its size | coverage | size of the set | over after | wrongly over |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name, change in CHANGES.items():
        print(row(name, courses(change, given.repeats, threshold=1.0 / given.per_year)), flush=True)


if __name__ == "__main__":
    main()
