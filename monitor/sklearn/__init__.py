"""Calibration for scikit-learn: an estimator over the recalibration maps. Needs the extra ``sklearn``."""

from monitor.sklearn.calibrator import Calibrator

__all__ = ["Calibrator"]
