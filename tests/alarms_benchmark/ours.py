"""The detectors of this package, on the streams."""

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Final

import numpy as np
from scipy.special import expit, logit

from monitor.arrays import Floats
from monitor.sequential.blocks import BlockBets
from monitor.sequential.calibration import CalibrationBets
from monitor.sequential.change import ChangeBets
from monitor.sequential.detector import Detector
from monitor.sequential.prevalence import PrevalenceBets
from monitor.sequential.serving_map import ServingMapBets
from tests.alarms_benchmark.methods import EVENTS_PER_YEAR, RUN_LENGTH, Method, Peer, Sequential, Together
from tests.alarms_benchmark.scenarios import ACCEPTED
from tests.alarms_benchmark.streams import HORIZON_MS, PREVALENCES

DETECTORS: Final[Mapping[str, Callable[[str, int], Detector]]] = MappingProxyType(
    {
        "D1": lambda prevalence, seed: CalibrationBets(),
        "D1 without tolerance": lambda prevalence, seed: CalibrationBets(0.0),
        "D2": lambda prevalence, seed: PrevalenceBets(),
        "D3": lambda prevalence, seed: ChangeBets(seed),
        "D4": lambda prevalence, seed: ServingMapBets(partial(_recalibrate, PREVALENCES[prevalence])),
    }
)
"""By name; made for a prevalence and the seed of a series."""

BLOCKS: Final = "D1 in blocks"
"""``dependence: within_horizon``."""

RUN_LENGTHS: Final = MappingProxyType({"1e5": RUN_LENGTH, "a year": EVENTS_PER_YEAR})
"""Events to a false alarm, on average at least: as many as peers are tuned to, and those of a year."""


def _recalibrate(mean: float, prediction: Floats) -> Floats:
    """The map of the model that was accepted: it is right until outcomes change."""
    with np.errstate(divide="ignore"):
        z = logit(prediction) - mean
    return np.asarray(expit(mean + ACCEPTED.accepted_slope * z + ACCEPTED.accepted_offset))


def _budgets(setting: float | None) -> Mapping[str, float]:
    return RUN_LENGTHS if setting is None else {**RUN_LENGTHS, "tuned": setting}


def _peer(name: str) -> Peer:
    def make(prevalence: str, seed: int, setting: float | None) -> Method:
        return Sequential(name, DETECTORS[name](prevalence, seed), _budgets(setting))

    return Peer(make, 1e2, 1e6, only="accepted" if name == "D4" else "")


def _in_blocks(prevalence: str, seed: int, setting: float | None) -> Method:
    """Even blocks of one horizon and odd ones, each with half of the budget."""
    budgets = {budget: 2.0 * length for budget, length in _budgets(setting).items()}
    return Together(*(Sequential(BLOCKS, BlockBets(HORIZON_MS, parity), budgets) for parity in range(2)))


SERIES: Final[Mapping[str, Peer]] = MappingProxyType({name: _peer(name) for name in DETECTORS})
IN_BLOCKS: Final[Mapping[str, Peer]] = MappingProxyType({BLOCKS: Peer(_in_blocks, 1e-2, 1e6)})
OURS: Final[Mapping[str, Peer]] = MappingProxyType({**SERIES, **IN_BLOCKS})
"""By name; the setting is the run length that the bound is set to, besides those of the budgets."""
