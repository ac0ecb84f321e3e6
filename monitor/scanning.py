"""Import every file of a folder: one file adds one measure, map, event format or route."""

import importlib
import importlib.util
import pkgutil
from pathlib import Path
from types import ModuleType


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
