"""The streams of the benchmark, by the names that its page uses."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from monitor.simulation.generator import Law
from tests.alarms_benchmark.streams import CHANGE_AT

ACCEPTED: Final = Law(accepted_slope=1 / 1.5, accepted_offset=0.3)
"""A miscalibrated model that does not change."""

QUIET: Final[Mapping[str, Law]] = MappingProxyType(
    {
        "stationary": Law(),
        "seasonal": Law(moving=1.0, season=0.8),
        "moving": Law(wander=0.7, season=0.5),
        "shocks .1": Law(shock=0.1),
        "shocks .2": Law(shock=0.2),
        "prevalence jumps": Law(jump=0.5),
        "accepted": ACCEPTED,
    }
)
"""Streams on which nothing changes but what at least one detector is to be silent about."""

CHANGES: Final[Mapping[str, Law]] = MappingProxyType(
    {
        "slope 1.15": Law(slope=1.15, change_at=CHANGE_AT),
        "slope 1.3": Law(slope=1.3, change_at=CHANGE_AT),
        "slope 1.5": Law(slope=1.5, change_at=CHANGE_AT),
        "slope .8": Law(slope=0.8, change_at=CHANGE_AT),
        "offset .1": Law(offset=0.1, change_at=CHANGE_AT),
        "offset .25": Law(offset=0.25, change_at=CHANGE_AT),
        "offset .5": Law(offset=0.5, change_at=CHANGE_AT),
        "bump .5": Law(bump=0.5, change_at=CHANGE_AT),
        "bump -.5": Law(bump=-0.5, change_at=CHANGE_AT),
        "segment of 5%": Law(offset=1.0, share=0.05, change_at=CHANGE_AT),
        "ramp to slope 1.3": Law(slope=1.3, ramp=50_000, change_at=CHANGE_AT),
        "ramp to offset .5": Law(offset=0.5, ramp=50_000, change_at=CHANGE_AT),
        "accepted, then slope 1.3": replace(ACCEPTED, slope=1.3, change_at=CHANGE_AT),
        "accepted, then offset .25": replace(ACCEPTED, offset=0.25, change_at=CHANGE_AT),
        "accepted, then calibrated": replace(ACCEPTED, slope=1.5, offset=-0.3, change_at=CHANGE_AT),
    }
)
"""Streams whose outcomes change after :data:`tests.alarms_benchmark.streams.CHANGE_AT` events."""

SCENARIOS: Final = MappingProxyType({**QUIET, **CHANGES})
