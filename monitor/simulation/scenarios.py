"""What happens to a simulated model."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from monitor.errors import OptionError
from monitor.options import Option
from monitor.simulation.generator import DAY_MS, HOUR_MS, OUTAGE_DAYS, Law

RAMP_DAYS: Final = 7
SEGMENT_SHARE: Final = 0.05


class ScenarioKind(NamedTuple):
    """A kind of scenario; ``text`` says what happens, with its size in braces."""

    text: str
    law: Callable[[float], Law]
    """The law of a size."""
    size: float
    """Its usual size."""
    least: float
    most: float
    calibrated: bool = False
    """Whether predictions stay right, so that each alarm is a false one."""
    bounded: bool = True
    """Whether the budget bounds the false alarms, if the predictions stay right."""


KINDS: Final[Mapping[str, ScenarioKind]] = {
    "none": ScenarioKind("nothing happens", lambda _: Law(), 0.0, 0.0, 0.0, calibrated=True),
    "seasonality": ScenarioKind(
        "logits of predictions move by {:g} over the day and outcomes with them, and volume by half",
        lambda size: Law(moving=size, season=0.5),
        1.0,
        0.0,
        5.0,
        calibrated=True,
    ),
    "outage": ScenarioKind(
        f"no label of the predictions of {{:g}} hours comes, every {OUTAGE_DAYS} days",
        lambda size: Law(outage=size * HOUR_MS),
        6.0,
        0.0,
        168.0,
        calibrated=True,
    ),
    "delayed": ScenarioKind(
        "{:.0%} of the labels come after the horizon, whatever they are",
        lambda size: Law(late=size),
        0.3,
        0.0,
        1.0,
        calibrated=True,
    ),
    "shocks": ScenarioKind(
        "outcomes share shocks, of a standard deviation of {:g} logits from horizon to horizon",
        lambda size: Law(shock=size),
        0.1,
        0.0,
        5.0,
        calibrated=True,
        bounded=False,
    ),
    "slope": ScenarioKind(
        "true logits are {:g} times the predicted ones, about their mean",
        lambda size: Law(slope=size),
        1.3,
        0.05,
        20.0,
    ),
    "offset": ScenarioKind("true logits are larger by {:g}", lambda size: Law(offset=size), 0.25, -10.0, 10.0),
    "prevalence": ScenarioKind(
        "the odds of a positive are {:g} times as high, and predictions ignore it",
        lambda size: Law(offset=math.log(size)),
        1.5,
        1e-3,
        1e3,
    ),
    "ramp": ScenarioKind(
        f"a slope of {{:g}} comes gradually, within {RAMP_DAYS} days",
        lambda size: Law(slope=size, ramp=RAMP_DAYS * DAY_MS),
        1.3,
        0.05,
        20.0,
    ),
    "bump": ScenarioKind(
        "true logits are larger by {:g} for the third quarter of the predictions",
        lambda size: Law(bump=size),
        0.5,
        -10.0,
        10.0,
    ),
    "segment": ScenarioKind(
        f"true logits are larger by {{:g}} in a declared segment of {SEGMENT_SHARE:.0%}",
        lambda size: Law(offset=size, share=SEGMENT_SHARE),
        1.0,
        -10.0,
        10.0,
    ),
}
"""Scenarios by name. An effect begins at the change and lasts; seasonality and shocks begin with the stream."""


class Scenario(NamedTuple):
    """A kind of scenario and its size."""

    name: str
    size: float

    @classmethod
    def parse(cls, text: str) -> "Scenario":
        """Read ``slope`` or ``slope=1.3``.

        Raises
        ------
        InputError
            There is no such scenario, or its size is out of its range.
        """
        name, equals, number = text.partition("=")
        kind = KINDS.get(name)
        if kind is None:
            raise OptionError(Option.SCENARIO, f": there is no {name!r}; there are {', '.join(KINDS)}")
        try:
            size = float(number) if equals else kind.size
        except ValueError:
            raise OptionError(
                Option.SCENARIO, f" {name}: its size must be a number, such as {kind.size:g}, got {number!r}"
            ) from None
        if not kind.least <= size <= kind.most:
            raise OptionError(
                Option.SCENARIO,
                f" {name}: its size must be at least {kind.least:g} and at most {kind.most:g}, got {number}",
            )
        return cls(name, size)

    @property
    def kind(self) -> ScenarioKind:
        """What it is."""
        return KINDS[self.name]

    @property
    def title(self) -> str:
        """Name and size."""
        return self.name if self.name == "none" else f"{self.name} {self.size:g}"

    @property
    def text(self) -> str:
        """What happens, in words."""
        return self.kind.text.format(self.size)

    def law(self, change_ms: int) -> Law:
        """The law of outcomes under the scenario, from a time on."""
        return replace(self.kind.law(self.size), change_at=change_ms)
