"""Import every file of a folder: one file adds one measure, map, event format or route."""

import importlib
import importlib.util
import pkgutil
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Protocol, TypeVar


def scan_modules(package: str, *folders: Path) -> list[ModuleType]:
    """The modules of a package, and the Python files of further folders, each sorted by name.

    Raises
    ------
    ImportError
        A file cannot be imported.
    """
    path = importlib.import_module(package).__path__
    names = sorted(file.name for file in pkgutil.iter_modules(path))
    modules = [importlib.import_module(f"{package}.{name}") for name in names]
    for folder in folders:
        for file in sorted(folder.glob("*.py")):
            spec = importlib.util.spec_from_file_location(file.stem, file)
            if spec is None or spec.loader is None:
                raise ImportError(f"{file} cannot be imported")
            modules.append(importlib.util.module_from_spec(spec))
            spec.loader.exec_module(modules[-1])
    return modules


class Declared(Protocol):
    """What a file of a scanned folder declares: measures and recalibration methods."""

    @property
    def name(self) -> str:
        """Unique among all of its kind."""
        ...

    @property
    def rank(self) -> int:
        """Position in lists; ascending."""
        ...


_Kind = TypeVar("_Kind", bound=Declared)


def scan_declared(package: str, constant: str, kind: type[_Kind], *folders: Path) -> Mapping[str, _Kind]:
    """Collect what files declare in a constant such as ``MEASURE``, or as a tuple in ``MEASURES``: by name and rank.

    Raises
    ------
    TypeError
        A file declares something else.
    ValueError
        Two declarations have the same name.
    """
    declared: dict[str, _Kind] = {}
    for module in scan_modules(package, *folders):
        one = getattr(module, constant, None)
        for value in (*([] if one is None else [one]), *getattr(module, f"{constant}S", ())):
            if not isinstance(value, kind):
                raise TypeError(f"{constant} in {module.__file__} must be a {kind.__name__}, got {value!r}")
            if value.name in declared:
                raise ValueError(f"{module.__file__} declares a second {constant.lower()} called {value.name}")
            declared[value.name] = value
    return MappingProxyType(dict(sorted(declared.items(), key=lambda item: (item[1].rank, item[0]))))
