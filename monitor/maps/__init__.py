"""Recalibration maps: one method a file, and the Arrow artifact that holds one.

A file of this folder that declares ``METHOD``, or ``METHODS``, adds to :data:`METHODS`. Nothing else is to be edited
when one is added: its REST row, its options, its artifact and its law tests follow from the declaration.
"""

import difflib
import importlib
import pkgutil
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from monitor.errors import InputError
from monitor.maps.base import MapParts, Method, Option, OptionValue, RecalibrationMap
from monitor.maps.fitting import apply_map, check_options, fit_map

__all__ = [
    "METHODS",
    "MapParts",
    "Method",
    "Option",
    "OptionValue",
    "RecalibrationMap",
    "apply_map",
    "check_options",
    "choose_method",
    "fit_map",
]


def _scan() -> Mapping[str, Method]:
    """The methods that the files of this folder declare, by name, in ascending rank."""
    found: list[Method] = []
    for file in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{file.name}")
        declared = [*getattr(module, "METHODS", ()), *filter(None, [getattr(module, "METHOD", None)])]
        for method in declared:
            if not isinstance(method, Method):
                raise TypeError(f"METHOD in monitor/maps/{file.name}.py must be a Method, got {method!r}")
            if any(method.name == other.name for other in found):
                raise ValueError(f"two files of monitor/maps declare a method called {method.name}")
            found.append(method)
    found.sort(key=lambda method: (method.rank, method.name))
    return MappingProxyType({method.name: method for method in found})


METHODS: Final = _scan()
"""Every method by its name, in the order of lists."""


def choose_method(name: str) -> Method:
    """The method of this name.

    Raises
    ------
    InputError
        There is none. Names the nearest, or all there are.
    """
    if name not in METHODS:
        near = difflib.get_close_matches(name, METHODS, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(METHODS)}"
        raise InputError(f"there is no recalibration method {name!r}; {hint}")
    return METHODS[name]
