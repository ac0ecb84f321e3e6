"""How sure a measure is: intervals, and levels under calibration, by resampling."""

from monitor.inference.concentration import deviation_probability, deviation_radius
from monitor.inference.interval import Interval, interval, intervals
from monitor.inference.kce_test import KceMoments, kce_gamma_p_value, kce_null_moments
from monitor.inference.named import NamedMeasure
from monitor.inference.null_level import NullLevel, null_level
from monitor.inference.resampling import Progress, coarsen
from monitor.inference.smoothed import smoothed_rates

__all__ = [
    "Interval",
    "KceMoments",
    "NamedMeasure",
    "NullLevel",
    "Progress",
    "coarsen",
    "deviation_probability",
    "deviation_radius",
    "interval",
    "intervals",
    "kce_gamma_p_value",
    "kce_null_moments",
    "null_level",
    "smoothed_rates",
]
