"""Results of streams, one a line, kept while the benchmark runs; and their summary, which the page shows."""

import csv
import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Final

import numpy as np

from tests.alarms_benchmark.trial import Result

ROOT: Final = Path(__file__).parents[2]
RAW: Final = ROOT / ".cache" / "alarms.csv"
"""Of every stream: a run that was interrupted goes on where it was."""

SUMMARY: Final = ROOT / "docs" / "alarms-benchmark.csv"


@dataclass(frozen=True)
class Summary:
    """What a variant did on all streams of a scenario."""

    scenario: str
    prevalence: str
    variant: str
    streams: int
    events: int
    """Without a change, of all streams."""
    false_alarms: int
    missed: float
    """Share of streams without an alarm after the change."""
    delay: float
    """Median number of events from the change to the alarm; infinite if more than half are missed."""
    delay_90: float
    error: float
    """Median distance, in events, of the estimated change from the change, among alarms that give one; or nan."""
    covered: float
    """Share of them whose set of possible changes holds it; or nan."""


def add(found: Iterable[Result]) -> None:
    """Keep results."""
    rows = [asdict(result) for result in found]
    RAW.parent.mkdir(parents=True, exist_ok=True)
    new = not RAW.exists()
    with RAW.open("a", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Result)])
        if new:
            writer.writeheader()
        writer.writerows(rows)


def done() -> dict[tuple[str, str, int], set[str]]:
    """Return the variants that have results: of a scenario, a prevalence and a seed."""
    variants = defaultdict(set)
    for row in _rows():
        variants[row["scenario"], row["prevalence"], int(row["seed"])].add(row["variant"])
    return variants


def summarise() -> None:
    """Write the summary of what was kept; a row of an older one stays if it is of more streams.

    Remove the rows of a method that has changed.
    """
    groups = defaultdict(list)
    for row in _rows():
        groups[row["scenario"], row["prevalence"], row["variant"]].append(row)
    summaries = {
        (summary.scenario, summary.prevalence, summary.variant): summary
        for summary in (load() if SUMMARY.exists() else [])
    }
    for key, rows in groups.items():
        if key not in summaries or summaries[key].streams <= len(rows):
            summaries[key] = _summary(*key, rows)
    with SUMMARY.open("w", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Summary)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(summaries[key]) for key in sorted(summaries))


def load() -> list[Summary]:
    """Read the summary."""
    with SUMMARY.open(newline="") as file:
        return [
            Summary(
                row["scenario"],
                row["prevalence"],
                row["variant"],
                int(row["streams"]),
                int(row["events"]),
                int(row["false_alarms"]),
                *(float(row[name]) for name in ("missed", "delay", "delay_90", "error", "covered")),
            )
            for row in csv.DictReader(file)
        ]


def _rows() -> list[dict[str, str]]:
    if not RAW.exists():
        return []
    with RAW.open(newline="") as file:
        return list(csv.DictReader(file))


def _summary(scenario: str, prevalence: str, variant: str, rows: list[dict[str, str]]) -> Summary:
    delays = np.array([float(row["delay"]) if row["delay"] else math.inf for row in rows])
    errors = [abs(float(row["error"])) for row in rows if row["error"]]
    covered = [row["covered"] == "True" for row in rows if row["covered"]]
    median, ninety = np.quantile(delays, [0.5, 0.9], method="higher")
    return Summary(
        scenario,
        prevalence,
        variant,
        len(rows),
        sum(int(row["events"]) for row in rows),
        sum(int(row["false_alarms"]) for row in rows),
        round(float(np.isinf(delays).mean()), 3),
        float(median),
        float(ninety),
        float(np.median(errors)) if errors else math.nan,
        round(float(np.mean(covered)), 3) if covered else math.nan,
    )
