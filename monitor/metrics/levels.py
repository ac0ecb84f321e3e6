"""How much GET /metrics says of each window, and the choice between the levels."""

from enum import IntEnum
from typing import Final

MANY_MODELS: Final = 50
"""With more models than this, only values are exported unless the settings say otherwise."""

FEW_MODELS: Final = 40
"""At this number everything is exported again. It lies below MANY_MODELS, so that a model that comes and goes does not
make thousands of time series come and go with it."""


class Level(IntEnum):
    """What is exported of each window. Each level contains the one before."""

    VALUES = 0
    """Counts, values, the verdict, and whatever alerts and the tables of dashboards read."""
    INTERVALS = 1
    """Also intervals, levels under calibration, p-values and error bounds of all measures, and of maps."""
    ALL = 2
    """Also the bins of reliability diagrams."""

    @property
    def label(self) -> str:
        """As in the settings: ``values``."""
        return self.name.lower()


class LevelSwitch:
    """Chooses the level: the declared one, or by the number of models, with hysteresis.

    Parameters
    ----------
    declared
        The level that the settings name; None lets the number of models decide.
    """

    def __init__(self, declared: Level | None = None) -> None:
        self._declared = declared
        self._current = Level.ALL if declared is None else declared

    @property
    def current(self) -> Level:
        """The level in force."""
        return self._current

    def choose(self, models: int) -> Level:
        """Choose anew for so many models."""
        if self._declared is None:
            if models > MANY_MODELS:
                self._current = Level.VALUES
            elif models <= FEW_MODELS:
                self._current = Level.ALL
        return self._current
