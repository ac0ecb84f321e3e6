"""The formats of events: one file each, found by scanning this folder."""

from collections.abc import Callable, Mapping
from functools import cache

from monitor.events.formats.base import Format
from monitor.scanning import scan_modules


@cache
def load_formats() -> tuple[Format, ...]:
    """The formats that the files of this folder declare as ``FORMAT``; the default one, without ``matches``, first."""
    formats = [module.FORMAT for module in scan_modules(__name__) if hasattr(module, "FORMAT")]
    return tuple(sorted(formats, key=lambda declared: declared.matches is not None))


@cache
def load_schema_formats() -> Mapping[str, Callable[..., Format]]:
    """Name -> ``make_format`` of the formats that a topic must declare, as their messages are read with a schema."""
    modules = scan_modules(__name__)
    return {module.NAME: module.make_format for module in modules if hasattr(module, "make_format")}
