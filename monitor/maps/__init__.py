"""Recalibration maps: one file adds a method or a family; a map is stored as an Arrow artifact.

A file of this folder that declares ``METHOD``, or several in ``METHODS``, adds them to :data:`METHODS`. No other file
needs to change: the REST row, options, artifact and law tests of a method follow from its declaration.
"""

import difflib
from typing import Final

from monitor.errors import InputError
from monitor.maps.base import Method, MethodOption, OptionValue, RecalibrationMap
from monitor.maps.fitting import apply_map, apply_serving_map, check_options, fit_map
from monitor.maps.parts import MapParts
from monitor.scanning import scan_declared
from monitor.scores.labelled import LabelledEvents

__all__ = ["METHODS"]
__all__ += ["LabelledEvents", "MapParts", "Method", "MethodOption", "OptionValue", "RecalibrationMap"]
__all__ += ["apply_map", "apply_serving_map", "check_options", "choose_method", "fit_map"]

METHODS: Final = scan_declared(__name__, "METHOD", Method)
"""Every method by its name, in ascending rank."""


def choose_method(name: str) -> Method:
    """Return the method of this name.

    Raises
    ------
    InputError
        There is no such method. Suggests the nearest name, or lists all.
    """
    if name not in METHODS:
        near = difflib.get_close_matches(name, METHODS, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(METHODS)}"
        raise InputError(f"there is no recalibration method {name!r}; {hint}")
    return METHODS[name]
