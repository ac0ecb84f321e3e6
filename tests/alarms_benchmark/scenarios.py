"""The streams of the benchmark, by the names that its page uses."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from tests.alarms_benchmark.streams import CHANGE_AT, Scenario

ACCEPTED: Final = Scenario(accepted_slope=1 / 1.5, accepted_offset=0.3)
"""A miscalibrated model that does not change."""

QUIET: Final[Mapping[str, Scenario]] = MappingProxyType(
    {
        "stationary": Scenario(),
        "seasonal": Scenario(moving=1.0, season=0.8),
        "moving": Scenario(wander=0.7, season=0.5),
        "shocks .1": Scenario(shock=0.1),
        "shocks .2": Scenario(shock=0.2),
        "prevalence jumps": Scenario(jump=0.5),
        "accepted": ACCEPTED,
    }
)
"""Streams on which nothing changes but what at least one detector is to be silent about."""

CHANGES: Final[Mapping[str, Scenario]] = MappingProxyType(
    {
        "slope 1.15": Scenario(slope=1.15, change_at=CHANGE_AT),
        "slope 1.3": Scenario(slope=1.3, change_at=CHANGE_AT),
        "slope 1.5": Scenario(slope=1.5, change_at=CHANGE_AT),
        "slope .8": Scenario(slope=0.8, change_at=CHANGE_AT),
        "offset .1": Scenario(offset=0.1, change_at=CHANGE_AT),
        "offset .25": Scenario(offset=0.25, change_at=CHANGE_AT),
        "offset .5": Scenario(offset=0.5, change_at=CHANGE_AT),
        "bump .5": Scenario(bump=0.5, change_at=CHANGE_AT),
        "bump -.5": Scenario(bump=-0.5, change_at=CHANGE_AT),
        "segment of 5%": Scenario(offset=1.0, share=0.05, change_at=CHANGE_AT),
        "ramp to slope 1.3": Scenario(slope=1.3, ramp=50_000, change_at=CHANGE_AT),
        "ramp to offset .5": Scenario(offset=0.5, ramp=50_000, change_at=CHANGE_AT),
        "accepted, then slope 1.3": replace(ACCEPTED, slope=1.3, change_at=CHANGE_AT),
        "accepted, then offset .25": replace(ACCEPTED, offset=0.25, change_at=CHANGE_AT),
        "accepted, then calibrated": replace(ACCEPTED, slope=1.5, offset=-0.3, change_at=CHANGE_AT),
    }
)
"""Streams whose outcomes change after :data:`tests.alarms_benchmark.streams.CHANGE_AT` events."""

SCENARIOS: Final = MappingProxyType({**QUIET, **CHANGES})
