"""Uncertainty of measures: intervals, null levels, tests, the prevalence fit."""

from monitor.inference.calibration_curve import smoothed_rates
from monitor.inference.calibration_tests import (
    CalibrationTest,
    KceMoments,
    calibration_test,
    kce_null_moments,
    kce_p_value,
)
from monitor.inference.cox import Cox, fit_cox
from monitor.inference.interval import Interval, deviation_radius, interval, intervals
from monitor.inference.null_level import NullLevel, null_level
from monitor.inference.prevalence import PriorShift, prior_shift, shifted
from monitor.inference.resampling import coarsen

__all__ = ["CalibrationTest", "Cox", "Interval", "KceMoments", "NullLevel", "PriorShift"]
__all__ += ["calibration_test", "coarsen", "deviation_radius", "fit_cox", "interval"]
__all__ += ["intervals", "kce_null_moments", "kce_p_value", "null_level", "prior_shift", "shifted", "smoothed_rates"]
