"""Finds fields of the settings by their dotted path."""

import ast
import inspect
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import pairwise
from typing import Any, Final, Literal, NamedTuple, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic import SecretStr
from pydantic.fields import FieldInfo

from monitor.app.settings.model import Settings
from monitor.section import Address, Anchor, Section

Path = tuple[str | int, ...]

_BOUNDS: Final = {Ge: ("ge", "at least"), Gt: ("gt", "more than"), Le: ("le", "at most"), Lt: ("lt", "less than")}


class Leaf(NamedTuple):
    """A setting that holds a value rather than further settings."""

    path: tuple[str, ...]
    field: FieldInfo
    section: type[Section]

    @property
    def description(self) -> str:
        """The docstring below the field; empty if it has none."""
        return docstrings(self.section).get(self.path[-1], "")


@cache
def docstrings(section: type[Section]) -> Mapping[str, str]:
    """Field of a section -> the docstring below it; without those that have none.

    pydantic's own option reads them whenever a section is defined, which takes a sixth of the start of the service.
    """
    found: dict[str, str] = {}
    for base in reversed(section.__mro__):
        # A section of another's keys has no source.
        if issubclass(base, Section) and base.__qualname__ in _classes(base.__module__):
            body = _classes(base.__module__)[base.__qualname__].body
            for statement, after in pairwise(body):
                match statement, after:
                    case ast.AnnAssign(target=ast.Name(name)), ast.Expr(value=ast.Constant(str(text))):
                        found[name] = inspect.cleandoc(text)
    return found


@cache
def _classes(module: str) -> Mapping[str, ast.ClassDef]:
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {each.name: each for each in tree.body if isinstance(each, ast.ClassDef)}


def dotted(path: Path) -> str:
    """``source.kafka.group_id``, ``windows[1].length``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def section_in(annotation: Any) -> type[Section] | None:
    """The section that a type holds: itself, an optional one, or the values of a mapping or sequence of them."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return annotation
    sections = (section_in(argument) for argument in get_args(annotation))
    return next((section for section in sections if section), None)


def subsection(field: FieldInfo) -> type[Section] | None:
    """The one section that a field always holds; None for values, and for lists, mappings and optional sections."""
    annotation = field.annotation
    apart = is_keyed(annotation) or is_listed(annotation) or is_optional(annotation)
    return None if apart else section_in(annotation)


def is_keyed(annotation: Any) -> bool:
    """Whether the type is a mapping with keys that the user chooses, or may be one."""
    return get_origin(annotation) is dict or any(get_origin(part) is dict for part in get_args(annotation))


def is_optional(annotation: Any) -> bool:
    """Whether the type is one value, which may be null."""
    return type(None) in get_args(annotation) and not is_keyed(annotation)


def is_listed(annotation: Any) -> bool:
    """Whether the type is a sequence of sections."""
    return get_origin(annotation) is tuple and section_in(annotation) is not None


def mentions(annotation: Any, wanted: Any) -> bool:
    """Whether a type is, or may be, another."""
    return annotation is wanted or any(mentions(argument, wanted) for argument in get_args(annotation))


def choices(annotation: Any) -> tuple[str, ...]:
    """The words that a Literal allows; none for another type."""
    if get_origin(annotation) is Literal:
        return tuple(map(str, get_args(annotation)))
    return tuple(choice for argument in get_args(annotation) for choice in choices(argument))


def bounds(field: FieldInfo) -> dict[str, Any]:
    """The bounds of a number or duration, in words: ``at least`` -> 1."""
    return {
        words: getattr(item, attribute)
        for item in _metadata(field)
        for kind, (attribute, words) in _BOUNDS.items()
        if isinstance(item, kind)
    }


def _metadata(field: FieldInfo) -> Iterator[Any]:
    yield from field.metadata
    # Of `Annotated[int, Field(ge=1)] | None`, pydantic leaves the bound inside the union.
    for argument in get_args(field.annotation):
        for item in getattr(argument, "__metadata__", ()):
            yield from getattr(item, "metadata", [item])


def section_at(path: Path, root: type[Section] = Settings) -> type[Section] | None:
    """The section at a path, or None where there is none."""
    section: type[Section] | None = root
    keyed = False
    for part in path:
        if keyed or isinstance(part, int):
            # A key that the user chose, or a place in a list: the section is that of the values.
            keyed = False
            continue
        field = section.model_fields.get(part) if section else None
        if field is None:
            return None
        section, keyed = section_in(field.annotation), is_keyed(field.annotation)
    return section


def field_at(path: Path) -> FieldInfo | None:
    """The field at a path, or None where there is none."""
    section = section_at(path[:-1])
    return section.model_fields.get(str(path[-1])) if section else None


def hides(path: Path) -> bool:
    """Whether the value at a path is a secret, or may contain one."""
    field = field_at(path) if path else None
    if field is None:
        return False
    secret = mentions(field.annotation, SecretStr) or mentions(field.annotation, Address)
    return secret or any(item in field.metadata for item in Address.__metadata__)  # type: ignore[attr-defined]


def anchor_of(field: FieldInfo) -> Anchor | None:
    """How a relative path of this setting is made absolute; None if it is no path."""
    return next((item for item in _metadata(field) if isinstance(item, Anchor)), None)


def leaves(section: type[Section] = Settings, path: tuple[str, ...] = ()) -> Iterator[Leaf]:
    """Every setting, in the order of the file. Lists and mappings of sections count as one."""
    for name, field in section.model_fields.items():
        inner = subsection(field)
        if inner is None:
            yield Leaf((*path, name), field, section)
        else:
            yield from leaves(inner, (*path, name))
