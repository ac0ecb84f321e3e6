"""Measures and tests of predictions over many classes.

A file of this folder that declares ``MEASURES`` adds them to :data:`CLASS_MEASURES`; no other file needs to change.
"""

import importlib
import pkgutil
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from monitor.classes.base import ClassMeasure, Findings
from monitor.classes.canonical_ece import canonical_ece
from monitor.classes.gce import GceMember, gce, gce_family, two_classes
from monitor.classes.hypothesis_tests import (
    CalibrationTest,
    block_test,
    bootstrap_test,
    consistency_test,
    distribution_free_test,
    exact_variance_test,
)
from monitor.classes.mmce import mmce
from monitor.classes.reductions import classwise, classwise_tce, of_each_class, tce_of_each_class, top_label
from monitor.classes.skce import VectorKernel, skce
from monitor.classes.sketch import SkceSketch, SketchNull, SketchPlan

__all__ = [
    "CLASS_MEASURES",
    "CalibrationTest",
    "ClassMeasure",
    "Findings",
    "GceMember",
    "SkceSketch",
    "SketchNull",
    "SketchPlan",
    "VectorKernel",
    "block_test",
    "bootstrap_test",
    "canonical_ece",
    "classwise",
    "classwise_tce",
    "consistency_test",
    "distribution_free_test",
    "exact_variance_test",
    "gce",
    "gce_family",
    "mmce",
    "of_each_class",
    "skce",
    "tce_of_each_class",
    "top_label",
    "two_classes",
]


def _scan() -> Mapping[str, ClassMeasure]:
    """Import the files of this folder and return the measures they declare, by name, in ascending rank."""
    measures: list[ClassMeasure] = []
    for file in pkgutil.iter_modules(__path__):
        for measure in getattr(importlib.import_module(f"{__name__}.{file.name}"), "MEASURES", ()):
            if not isinstance(measure, ClassMeasure):
                raise TypeError(f"MEASURES in monitor/classes/{file.name}.py must be of ClassMeasure, got {measure!r}")
            if any(measure.name == other.name for other in measures):
                raise ValueError(f"monitor/classes declares two measures called {measure.name}")
            measures.append(measure)
    measures.sort(key=lambda measure: (measure.rank, measure.name))
    return MappingProxyType({measure.name: measure for measure in measures})


CLASS_MEASURES: Final = _scan()
"""Every measure of many classes by its name, in the order of a report."""
