"""The detectors of this package, on the streams."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from monitor.sequential.calibration import CalibrationBets
from monitor.sequential.change import ChangeBets
from monitor.sequential.detector import Detector
from tests.alarms_benchmark.methods import EVENTS_PER_YEAR, RUN_LENGTH, Method, Peer, Sequential

DETECTORS: Final[Mapping[str, Callable[[int], Detector]]] = MappingProxyType(
    {
        "D1": lambda seed: CalibrationBets(),
        "D1 without tolerance": lambda seed: CalibrationBets(0.0),
        "D3": ChangeBets,
    }
)
"""By name; made for the seed of a series."""

RUN_LENGTHS: Final = MappingProxyType({"1e5": RUN_LENGTH, "a year": EVENTS_PER_YEAR})
"""Events to a false alarm, on average at least: as many as peers are tuned to, and those of a year."""


def _peer(name: str) -> Peer:
    def make(prevalence: str, seed: int, setting: float | None) -> Method:
        return Sequential(name, DETECTORS[name](seed), RUN_LENGTHS if setting is None else {"tuned": setting})

    return Peer(make, 1e2, 1e6)


OURS: Final[Mapping[str, Peer]] = MappingProxyType({name: _peer(name) for name in DETECTORS})
"""By name; the setting is the run length, which is larger than the bound says."""
