"""The formats of events: one file each, found by scanning this folder."""

from functools import cache
from pathlib import Path

from monitor.events.formats.base import Format
from monitor.scanning import scan_modules


@cache
def load_formats(folder: Path | None = None) -> tuple[Format, ...]:
    """The formats that the files of this folder, and of another one, declare as ``FORMAT``; the default format first.

    Raises
    ------
    ValueError
        Two files declare a format of the same name, or not exactly one is the default.
    """
    modules = scan_modules(__name__, *([] if folder is None else [folder]))
    formats = [module.FORMAT for module in modules if hasattr(module, "FORMAT")]
    names = [declared.name for declared in formats]
    if len(set(names)) < len(names):
        raise ValueError(f"two event formats have the same name: {', '.join(sorted(names))}")
    if sum(declared.matches is None for declared in formats) != 1:
        raise ValueError(f"exactly one event format must have no matches(), of {', '.join(names)}")
    return tuple(sorted(formats, key=lambda declared: declared.matches is not None))
