"""Calibration measures of score tables: one a file.

A file of this folder that declares ``MEASURE`` is a measure: :data:`MEASURES` holds them all, in the order of a
report. Nothing else is to be edited when one is added; its report row, its series and its law tests follow from the
declaration.
"""

import difflib
import importlib
import pkgutil
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from monitor.errors import InputError
from monitor.measures.base import Measure, Norms
from monitor.measures.binned_ece_width import binned_ece_width
from monitor.measures.brier import brier
from monitor.measures.corp import Decomposition, corp_curve, corp_decomposition
from monitor.measures.dce_lower import DistanceBracket, dce_lower, distance_bracket
from monitor.measures.ecce import ecce
from monitor.measures.ece import ece
from monitor.measures.ece_quantile import ece_quantile
from monitor.measures.intce import intce, intce_partition
from monitor.measures.kce import kce
from monitor.measures.kce_estimates import KceJackknife, kce_by_frequencies, kce_by_random_bins, kce_jackknife
from monitor.measures.kce_logit import kce_logit
from monitor.measures.log_loss import log_loss
from monitor.measures.mce import mce
from monitor.measures.rintce import rintce
from monitor.measures.rmsce import rmsce
from monitor.measures.smce import smce, smce_witness
from monitor.measures.spiegelhalter import spiegelhalter, spiegelhalter_z
from monitor.measures.surrogate_intce import surrogate_intce
from monitor.measures.tce import TceBins, tce, tce_bins
from monitor.measures.tce_t import tce_t

__all__ = [
    "MAIN_MEASURES",
    "MEASURES",
    "REPORT_MEASURES",
    "WINDOW_MEASURES",
    "Decomposition",
    "DistanceBracket",
    "KceJackknife",
    "Measure",
    "Norms",
    "TceBins",
    "binned_ece_width",
    "brier",
    "choose_measures",
    "corp_curve",
    "corp_decomposition",
    "dce_lower",
    "distance_bracket",
    "ecce",
    "ece",
    "ece_quantile",
    "intce",
    "intce_partition",
    "kce",
    "kce_by_frequencies",
    "kce_by_random_bins",
    "kce_jackknife",
    "kce_logit",
    "log_loss",
    "mce",
    "rintce",
    "rmsce",
    "smce",
    "smce_witness",
    "spiegelhalter",
    "spiegelhalter_z",
    "surrogate_intce",
    "tce",
    "tce_bins",
    "tce_t",
]


def _scan() -> Mapping[str, Measure]:
    """The measures that the files of this folder declare, by name, in ascending rank."""
    found: list[Measure] = []
    for file in pkgutil.iter_modules(__path__):
        measure = getattr(importlib.import_module(f"{__name__}.{file.name}"), "MEASURE", None)
        if measure is None:
            continue
        if not isinstance(measure, Measure):
            raise TypeError(f"MEASURE in monitor/measures/{file.name}.py must be a Measure, got {measure!r}")
        if any(measure.name == other.name for other in found):
            raise ValueError(f"two files of monitor/measures declare a measure called {measure.name}")
        found.append(measure)
    found.sort(key=lambda measure: (measure.rank, measure.name))
    return MappingProxyType({measure.name: measure for measure in found})


MEASURES: Final = _scan()
"""Every measure by its name, in the order of a report."""

WINDOW_MEASURES: Final[Mapping[str, Measure]] = MappingProxyType(
    {name: measure for name, measure in MEASURES.items() if measure.stands_in == "windows"}
)
"""Those that are measured in every window unless the settings name others."""

REPORT_MEASURES: Final[Mapping[str, Measure]] = MappingProxyType(
    {name: measure for name, measure in MEASURES.items() if measure.stands_in != "request"}
)
"""Those of a report on a file, or on data that is handed over, unless others are named."""


MAIN_MEASURES: Final = ("tce", "kce", "smce", "ece", "log_loss")
"""Those that a report shows people first: how many predictions are refuted, the sharpest test, the error in plain
probability, the error that others report, and the score by which models are compared."""


def choose_measures(names: Iterable[str]) -> Mapping[str, Measure]:
    """The measures of these names, or of this one, in the order of a report.

    Raises
    ------
    InputError
        There is no measure of a name, or no name at all. Names the nearest, or all there are.
    """
    # A string is an iterable of its letters.
    wanted = [names] if isinstance(names, str) else list(names)
    if not wanted:
        raise InputError(f"at least one measure must be named; there are {', '.join(MEASURES)}")
    for name in wanted:
        if name not in MEASURES:
            near = difflib.get_close_matches(name, MEASURES, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(MEASURES)}"
            raise InputError(f"there is no measure {name!r}; {hint}")
    return MappingProxyType({name: measure for name, measure in MEASURES.items() if name in wanted})
