"""Calibration for scikit-learn: an estimator over the recalibration maps, scores, and a display.

Needs the extra ``sklearn``.
"""

from monitor.sklearn.calibrator import Calibrator as Calibrator
from monitor.sklearn.display import CalibrationDisplay as CalibrationDisplay
from monitor.sklearn.scores import *  # noqa: F403 - a score for each measure
