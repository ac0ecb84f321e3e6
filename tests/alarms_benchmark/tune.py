"""Tune the settings of methods to one false alarm in 100,000 calibrated events."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from monitor.scores.steps import Steps
from monitor.simulation.generator import DrawnEvents, Law
from tests.alarms_benchmark.methods import RUN_LENGTH, TUNED, Peer
from tests.alarms_benchmark.streams import EVENTS, Panes, parts

SETTINGS: Final = Path(__file__).with_name("settings.json")
"""Prevalence -> peer -> setting."""

FIRST_SEED: Final = 1_000_000
"""Streams that settings are tuned on are no others."""

HALVINGS: Final = 9

Stream = list[tuple[DrawnEvents, Steps]]


def settings() -> dict[str, dict[str, float]]:
    """Return the tuned settings."""
    return json.loads(SETTINGS.read_text()) if SETTINGS.exists() else {}


def save(prevalence: str, peer: str, setting: float) -> None:
    """Keep a setting."""
    values = settings()
    values.setdefault(prevalence, {})[peer] = float(f"{setting:.4g}")
    SETTINGS.write_text(json.dumps(values, indent=1, sort_keys=True) + "\n")


def tune(peer: Peer, prevalence: str) -> float:
    """Return the setting, by halving the range between the two ends on a logarithmic scale.

    Where even the sensitive end alarms more rarely, it is returned.
    """
    streams = calibrated(prevalence, peer.events)
    sensitive, insensitive = math.log(peer.sensitive), math.log(peer.insensitive)
    for _ in range(HALVINGS):
        middle = (sensitive + insensitive) / 2.0
        if false_alarms(peer, prevalence, math.exp(middle), streams) > peer.events / RUN_LENGTH:
            sensitive = middle
        else:
            insensitive = middle
    return math.exp((sensitive + insensitive) / 2.0)


def false_alarms(peer: Peer, prevalence: str, setting: float | None, streams: Sequence[Stream]) -> int:
    """Count the alarms on calibrated streams: those of the setting, if there is one."""
    total = 0
    for seed, stream in enumerate(streams):
        method = peer.make(prevalence, seed, setting)
        alarms = (alarm for part, steps in stream for alarm in method.read(part, steps))
        total += sum(setting is None or alarm.variant.endswith(TUNED) for alarm in alarms)
    return total


def calibrated(prevalence: str, events: int, first_seed: int = FIRST_SEED) -> list[Stream]:
    """Draw streams of so many events together."""
    number, result = -(-events // EVENTS), []
    for at in range(number):
        panes = Panes()
        stream = parts(Law(), prevalence, first_seed + at, events // number)
        result.append([(part, panes.steps(part)) for part in stream])
    return result
