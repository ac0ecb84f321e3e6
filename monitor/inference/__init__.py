"""How sure a measure is: intervals, and levels under calibration, by resampling."""

from monitor.inference.interval import Interval, interval, intervals
from monitor.inference.null_level import NamedMeasure, NullLevel, null_level
from monitor.inference.resampling import coarsen

__all__ = ["Interval", "NamedMeasure", "NullLevel", "coarsen", "interval", "intervals", "null_level"]
