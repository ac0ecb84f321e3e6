"""The formats of events: one file each, found by scanning this folder."""

import importlib
import importlib.util
import pkgutil
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

from monitor.events.formats.base import Format


@cache
def load_formats(folder: Path | None = None) -> tuple[Format, ...]:
    """The formats that the files of this folder, and of another one, declare as ``FORMAT``; the default format first.

    Raises
    ------
    ValueError
        Two files declare a format of the same name, or not exactly one is the default.
    """
    modules = [importlib.import_module(f"{__name__}.{file.name}") for file in pkgutil.iter_modules(__path__)]
    if folder is not None:
        modules += [_load_file(path) for path in sorted(folder.glob("*.py"))]
    formats = [module.FORMAT for module in modules if hasattr(module, "FORMAT")]
    names = [declared.name for declared in formats]
    if len(set(names)) < len(names):
        raise ValueError(f"two event formats have the same name: {', '.join(sorted(names))}")
    if sum(declared.matches is None for declared in formats) != 1:
        raise ValueError(f"exactly one event format must have no matches(), of {', '.join(names)}")
    return tuple(sorted(formats, key=lambda declared: declared.matches is not None))


def _load_file(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"event_format_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module  # structs and dataclasses look their module up there
    spec.loader.exec_module(module)
    return module
