"""Measures and tests of predictions over many classes.

A file of this folder that declares ``MEASURE``, or several in ``MEASURES``, adds them to :data:`CLASS_MEASURES`; no
other file needs to change.
"""

from typing import Final

from monitor.classes.base import ClassMeasure, ClassMeasurement, classwise, of_each_class, top_label
from monitor.classes.canonical_ece import canonical_ece
from monitor.classes.gce import GceMember, gce, gce_family
from monitor.classes.hypothesis_tests import (
    ClassCalibrationTest,
    block_test,
    bootstrap_test,
    consistency_test,
    distribution_free_test,
    exact_variance_test,
)
from monitor.classes.mmce import mmce
from monitor.classes.skce import VectorKernel, skce
from monitor.classes.sketch import SketchNull, biased_skce, sketched_interval, sketched_null, sketched_skce
from monitor.scanning import scan_declared

__all__ = ["CLASS_MEASURES"]
__all__ += ["ClassCalibrationTest", "ClassMeasure", "ClassMeasurement", "GceMember", "SketchNull", "VectorKernel"]
__all__ += ["biased_skce", "sketched_interval", "sketched_null", "sketched_skce"]
__all__ += ["block_test", "bootstrap_test", "canonical_ece", "classwise", "consistency_test"]
__all__ += ["distribution_free_test", "exact_variance_test", "gce", "gce_family", "mmce", "of_each_class", "skce"]
__all__ += ["top_label"]

CLASS_MEASURES: Final = scan_declared(__name__, "MEASURE", ClassMeasure)
"""Every measure of many classes by its name, in the order of a report."""
