"""Uncertainty of measures: intervals, null levels, tests, the prevalence fit."""

from monitor.inference.combined import CalibrationTest, calibration_test
from monitor.inference.concentration import deviation_probability, deviation_radius
from monitor.inference.cox import Cox, fit_cox
from monitor.inference.interval import Interval, interval, intervals
from monitor.inference.kce_test import KceMoments, kce_null_moments, kce_p_value
from monitor.inference.named import NamedMeasure
from monitor.inference.null_level import NullLevel, null_level
from monitor.inference.prevalence import PriorShift, prior_shift, shifted
from monitor.inference.resampling import coarsen
from monitor.inference.smoothed import smoothed_rates

__all__ = [
    "CalibrationTest",
    "Cox",
    "Interval",
    "KceMoments",
    "NamedMeasure",
    "NullLevel",
    "PriorShift",
    "calibration_test",
    "coarsen",
    "deviation_probability",
    "deviation_radius",
    "fit_cox",
    "interval",
    "intervals",
    "kce_null_moments",
    "kce_p_value",
    "null_level",
    "prior_shift",
    "shifted",
    "smoothed_rates",
]
