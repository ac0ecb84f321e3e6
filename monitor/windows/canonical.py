"""What a window says of whole probability vectors, from the sketch that its panes hold."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from monitor.classes.sketch import SkceSketch
from monitor.reports.evaluation.report import MeasureResult

SKCE: Final = "skce"

_LEAST_SHARE: Final = 0.99
"""Of the window's events in the sketch. While events come in, cells and sketch are not read at one instant."""

_LEAST_EVENTS: Final = 2
_NONE: Final[Mapping[str, MeasureResult]] = MappingProxyType({})


def canonical_measures(sketch: SkceSketch | None, n: int) -> Mapping[str, MeasureResult]:
    """The canonical measures of a window of n events, by name.

    None where panes hold no sketch, or one that lacks events: those of before it was asked for, or of another number
    of classes. The value of a part would be taken for that of the window.
    """
    if sketch is None or sketch.events < max(_LEAST_EVENTS, _LEAST_SHARE * n):
        return _NONE
    lower, upper = sketch.interval()
    null = sketch.null_level()
    result = MeasureResult(
        sketch.value, "ratio", lower=lower, upper=upper, null_mean=0.0, null_q95=null.q95, p_value=null.p_value
    )
    return MappingProxyType({SKCE: result})
