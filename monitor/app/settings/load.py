"""Read the settings: monitor.yaml, overridden by the environment.

Relative paths in the file begin in the file's folder; those of the environment and the defaults in the working
directory. The settings hold absolute ones.
"""

import difflib
import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path as FilePath
from typing import Any, Final

import yaml
from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from monitor.app.settings import fields
from monitor.app.settings.model import Settings
from monitor.bounded_file import read_bounded
from monitor.durations import format_duration
from monitor.errors import SettingsError
from monitor.section import Section, hide_password
from monitor.yaml_nodes import compose

PREFIX: Final = "MONITOR__"
_FILE: Final = "_file"

_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml's is eight times as fast; PyYAML may be built without it."""

_BOUNDS: Final = {
    "greater_than_equal": "at least",
    "greater_than": "more than",
    "less_than_equal": "at most",
    "less_than": "less than",
}
_WORDS: Final = {
    **dict.fromkeys(("bool_parsing", "bool_type"), "must be true or false"),
    **dict.fromkeys(("int_parsing", "int_from_float", "int_type"), "must be a whole number"),
    **dict.fromkeys(("float_parsing", "float_type"), "must be a number"),
    "string_type": "must be text",
    "string_too_short": "must not be empty",
    "tuple_type": "must be a list",
    **dict.fromkeys(("dict_type", "model_type", "model_attributes_type"), "must be a section of `key: value` lines"),
}


def load_settings(file: FilePath | None, environ: Mapping[str, str]) -> Settings:
    """Read the settings of a file, overridden by the environment.

    Parameters
    ----------
    file
        monitor.yaml, or None for the defaults.
    environ
        The environment variables.

    Raises
    ------
    SettingsError
        Something is wrong: one line for each thing, with the place, the key, the value and what is allowed.
    """
    tree: dict[str, Any] = {}
    places: dict[fields.Path, str] = {}
    if file is not None:
        tree = _read_yaml(file, places)
        _resolve_paths(tree, file.parent.resolve(), defaults=False)
    for variable, path, value in _environment(environ):
        _put(tree, path, value)
        places[path] = variable
    _resolve_paths(tree, FilePath.cwd(), defaults=True)
    try:
        return Settings.model_validate(tree)
    except ValidationError as error:
        lines = [_line(detail, places) for detail in error.errors(include_url=False)]
        raise SettingsError("\n".join(lines)) from error


def _read_yaml(file: FilePath, places: dict[fields.Path, str]) -> dict[str, Any]:
    try:
        text = read_bounded(file).decode()
    except OSError as error:
        raise SettingsError(
            f"cannot read {file}: {error.strerror}; `monitor config --default > {file}` writes one with all defaults"
        ) from error
    except UnicodeDecodeError as error:
        raise SettingsError(f"cannot read {file}: it is not UTF-8 (byte {error.start})") from error
    try:
        loader = _LOADER(text)
        node = compose(loader)
        if node is None:
            return {}
        _note_places(node, (), str(file), places)
        tree = loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"{file}:{mark.line + 1}:{mark.column + 1}" if mark else str(file)
        raise SettingsError(f"{where}: not valid YAML: {error.problem or error.context}") from error
    except (yaml.YAMLError, ValueError) as error:
        raise SettingsError(f"{file}: not valid YAML: {' '.join(str(error).split())}") from error
    if not isinstance(tree, dict):
        raise SettingsError(f"{file}: must be sections of `key: value` lines, got {type(tree).__name__}")
    return tree


def _note_places(node: yaml.Node, path: fields.Path, file: str, places: dict[fields.Path, str]) -> None:
    places[path] = f"{file}:{node.start_mark.line + 1}"
    if isinstance(node, yaml.MappingNode):
        names: set[str] = set()
        for key, value in node.value:
            name = str(key.value)
            where = f"{file}:{key.start_mark.line + 1}"
            if name in names and name != "<<":
                # YAML forbids it, but the library would silently take the last one.
                raise SettingsError(f"{where}: {fields.dotted((*path, name))} is given twice")
            names.add(name)
            _note_places(value, (*path, name), file, places)
            places[(*path, name)] = where
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            _note_places(value, (*path, index), file, places)


def _put(tree: dict[str, Any], path: fields.Path, value: Any) -> None:
    for part in path[:-1]:
        inner = tree.get(str(part))
        if inner is None:
            inner = tree[str(part)] = {}
        if not isinstance(inner, dict):
            # The file has a value where a section belongs; the validation reports that.
            return
        tree = inner
    tree[str(path[-1])] = value


def _resolve_paths(
    tree: dict[str, Any], folder: FilePath, *, defaults: bool, section: type[Section] = Settings
) -> None:
    """Make relative paths begin in a folder; with ``defaults``, also those that are not set.

    Values that are not text are left for the validation to refuse.
    """
    for name, field in section.model_fields.items():
        anchor, inner = fields.anchor_of(field), fields.section_in(field.annotation)
        if anchor is not None:
            value = tree.get(name, field.default if defaults else None)
            if isinstance(value, str) and value:
                tree[name] = anchor.resolve(value, folder)
        elif inner is not None:
            # An optional section, unlike others, is not there by default.
            values = tree.setdefault(name, {}) if fields.subsection(field) else tree.get(name)
            if isinstance(values, dict) and not fields.is_keyed(field.annotation):
                _resolve_paths(values, folder, defaults=defaults, section=inner)


def _line(detail: ErrorDetails, places: Mapping[fields.Path, str]) -> str:
    path = tuple(part for part in detail["loc"] if part != "[key]")
    place = next((places[path[:end]] for end in range(len(path), -1, -1) if path[:end] in places), "settings")
    return f"{place}: {_problem(detail, path)}"


def _problem(detail: ErrorDetails, path: fields.Path) -> str:
    kind, context = detail["type"], detail.get("ctx", {})
    if kind == "extra_forbidden":
        return unknown_setting(path)
    if kind == "missing":
        return f"{fields.dotted(path)} must be given"
    if kind == "value_error" and fields.section_at(path) is not None:
        # A rule about several keys, which its message names.
        message = str(context["error"])
        where = fields.dotted(path)
        return f"{where} {message}" if message.startswith("must") else f"{where}.{message}".lstrip(".")
    return f"{fields.dotted(path)} {_rule(detail, path)}, got {_shown(path, detail['input'])}"


def _rule(detail: ErrorDetails, path: fields.Path) -> str:
    kind, context = detail["type"], detail.get("ctx", {})
    if kind == "value_error":
        return str(context["error"])
    if kind == "string_pattern_mismatch":
        longest = context["pattern"].rpartition(",")[2].rstrip("}$")
        return f"must be 1 to {longest} letters, digits, '.', '_' or '-'"
    if kind == "literal_error":
        return f"must be {context['expected'].replace(chr(39), '')}"
    if kind in _WORDS:
        return _WORDS[kind]
    if kind in _BOUNDS:
        # From the field itself: pydantic shows a duration as Python writes it.
        field = fields.field_at(path)
        bound = fields.bounds(field)[_BOUNDS[kind]] if field else ""
        return f"must be {_BOUNDS[kind]} {format_duration(bound) if isinstance(bound, timedelta) else bound}"
    return re.sub(r"^.*? should ", "must ", detail["msg"])


def _shown(path: fields.Path, value: object) -> str:
    if not fields.hides(path):
        return repr(value)
    return repr(hide_password(value)) if isinstance(value, str) and "://" in value else "a value that is not shown"


def unknown_setting(path: fields.Path) -> str:
    """One line that names an unknown setting and the known one that is nearest."""
    # The first unknown part is the wrong one.
    while len(path) > 1 and fields.section_at(path[:-1]) is None:
        path = path[:-1]
    section, key = fields.section_at(path[:-1]), str(path[-1])
    siblings = list(section.model_fields) if section else []
    line = f"unknown setting {fields.dotted(path)}"
    near = difflib.get_close_matches(key, siblings, n=1)
    if near:
        return f"{line}; did you mean {fields.dotted((*path[:-1], near[0]))}?"
    elsewhere = {leaf.path[-1]: leaf.path for leaf in fields.leaves()}
    near = difflib.get_close_matches(key, list(elsewhere), n=1, cutoff=0.8)
    if near:
        return f"{line}; did you mean {fields.dotted(elsewhere[near[0]])}?"
    where = fields.dotted(path[:-1])
    return f"{line}; {f'{where} has' if where else 'there are'} {', '.join(siblings)}"


def _environment(environ: Mapping[str, str]) -> Iterator[tuple[str, fields.Path, Any]]:
    """Each variable with the path and the value of its setting, in the order of the variables' names.

    Raises
    ------
    SettingsError
        A variable begins with MONITOR__ and names no setting, or its file cannot be read. The value of such a variable
        is never shown.
    """
    for variable in sorted(name for name in environ if name.startswith(PREFIX)):
        text, path = environ[variable], _path_of(variable)
        field = fields.field_at(path)
        if field is None and str(path[-1]).endswith(_FILE):
            path = (*path[:-1], str(path[-1]).removesuffix(_FILE))
            field = fields.field_at(path)
            if field is not None:
                text = _contents(variable, text)
        # Under a key that the user chose, such as the name of a model, a whole section may be given.
        if field is None and fields.section_at(path) is None:
            raise SettingsError(f"{variable}: {unknown_setting(path)}")
        is_null = text.strip().lower() in {"", "null"}
        yield variable, path, _parse(variable, text) if field is None or is_null or not _is_text(field) else text


def _is_text(field: FieldInfo) -> bool:
    """Whether a variable of this setting is used unparsed: for text, durations, choices and lists of words."""
    annotation = field.annotation
    parsed = any(fields.mentions(annotation, kind) for kind in (bool, int, float))
    return not (parsed or fields.section_in(annotation) is not None or fields.is_keyed(annotation))


def _path_of(variable: str) -> fields.Path:
    path: fields.Path = ()
    for part in variable.removeprefix(PREFIX).split("__"):
        field = fields.field_at(path) if path else None
        is_own_key = field is not None and fields.is_keyed(field.annotation)
        path = (*path, part if is_own_key else part.lower())
    return path


def _contents(variable: str, name: str) -> str:
    try:
        return read_bounded(FilePath(name)).decode().rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise SettingsError(f"{variable}: cannot read the file {name!r}: {reason}") from error


def _parse(variable: str, text: str) -> Any:
    try:
        loader = _LOADER(text)
        node = compose(loader)
        return None if node is None else loader.construct_document(node)
    except (yaml.YAMLError, ValueError) as error:
        raise SettingsError(f"{variable}: the value is not valid YAML or JSON") from error
