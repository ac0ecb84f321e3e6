"""Recalibration maps: one method a file, and the Arrow artifact that holds one.

A file of this folder that declares ``METHOD`` or ``METHODS`` adds methods to :data:`METHODS`. No other file needs to
change: the REST row, options, artifact and law tests of a method follow from its declaration.
"""

import difflib
import importlib
import pkgutil
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from monitor.errors import InputError
from monitor.maps.base import Method, Option, OptionValue, RecalibrationMap
from monitor.maps.fitting import apply_map, apply_serving_map, check_options, fit_map
from monitor.maps.labelled import LabelledEvents
from monitor.maps.parts import MapParts

__all__ = [
    "METHODS",
    "LabelledEvents",
    "MapParts",
    "Method",
    "Option",
    "OptionValue",
    "RecalibrationMap",
    "apply_map",
    "apply_serving_map",
    "check_options",
    "choose_method",
    "fit_map",
]


def _scan() -> Mapping[str, Method]:
    """Import the files of this folder and return the methods they declare, by name, in ascending rank."""
    methods: list[Method] = []
    for file in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{file.name}")
        declared = [*getattr(module, "METHODS", ()), *filter(None, [getattr(module, "METHOD", None)])]
        for method in declared:
            if not isinstance(method, Method):
                raise TypeError(f"METHOD in monitor/maps/{file.name}.py must be a Method, got {method!r}")
            if any(method.name == other.name for other in methods):
                raise ValueError(f"two files of monitor/maps declare a method called {method.name}")
            methods.append(method)
    methods.sort(key=lambda method: (method.rank, method.name))
    return MappingProxyType({method.name: method for method in methods})


METHODS: Final = _scan()
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
