"""Calibration measures: each a function of predictions and outcomes, ``smce(p, y)``, or of a score table.

A file in this folder that declares ``MEASURE``, or several in ``MEASURES``, adds them with no other edit: report row,
series and law tests follow from the declaration. :data:`MEASURES` holds them all, in the order of a report.
"""

import difflib
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from monitor.errors import InputError
from monitor.measures.base import Limit, MeanLoss, Measure, SemiNorm
from monitor.measures.binned_errors import binned_ece_width, ece, ece_quantile, mce, rmsce
from monitor.measures.cumulative_error import ecce
from monitor.measures.error_by_tests import TceBins, tce, tce_bins, tce_t
from monitor.measures.interval_error import intce, intce_partition, rintce, surrogate_intce
from monitor.measures.kernel_error import kce, kce_logit
from monitor.measures.lower_distance import DistanceBracket, dce_lower, distance_bracket
from monitor.measures.proper_scores import Decomposition, brier, corp_curve, corp_decomposition, log_loss
from monitor.measures.smooth_error import smce, smce_witness
from monitor.measures.z_statistic import spiegelhalter, spiegelhalter_z
from monitor.scanning import scan_declared

__all__ = ["MAIN_MEASURES", "MEASURES", "REPORT_MEASURES", "WINDOW_MEASURES", "choose_measures", "scan_measures"]
__all__ += ["Limit", "MeanLoss", "Measure", "SemiNorm"]
__all__ += ["binned_ece_width", "brier", "dce_lower", "ecce", "ece", "ece_quantile", "intce", "kce", "kce_logit"]
__all__ += ["log_loss", "mce", "rintce", "rmsce", "smce", "spiegelhalter", "surrogate_intce", "tce", "tce_t"]
__all__ += ["Decomposition", "DistanceBracket", "TceBins"]
__all__ += ["corp_curve", "corp_decomposition", "distance_bracket", "intce_partition"]
__all__ += ["smce_witness", "spiegelhalter_z", "tce_bins"]


def scan_measures(*folders: Path) -> Mapping[str, Measure]:
    """The measures that the files of this package, and of other folders, declare: by name, in ascending rank."""
    return scan_declared(__name__, "MEASURE", Measure, *folders)


MEASURES: Final = scan_measures()
"""Every measure by its name, in the order of a report."""

# The function of a measure is imported by the measure's name. Its file has another one, and hides nothing.
globals().update({name: measure.value for name, measure in MEASURES.items() if name not in __all__})

WINDOW_MEASURES: Final[Mapping[str, Measure]] = MappingProxyType(
    {name: measure for name, measure in MEASURES.items() if measure.appears_in == "windows"}
)
"""Measures of every window unless the settings name others."""

REPORT_MEASURES: Final[Mapping[str, Measure]] = MappingProxyType(
    {name: measure for name, measure in MEASURES.items() if measure.appears_in != "request"}
)
"""Measures of a report on a file, or on data in memory, unless others are named."""


MAIN_MEASURES: Final = ("tce", "kce", "smce", "ece", "log_loss")
"""Measures that a report shows people first: how many predictions are refuted, the sharpest test, the error in plain
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
