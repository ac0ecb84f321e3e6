"""Settings from environment variables.

``MONITOR__SOURCE__KAFKA__GROUP_ID=a`` sets ``source.kafka.group_id``. With ``_FILE`` behind the name, the value is read
from the file that the variable names, as Docker and Kubernetes hand over secrets.
"""

from collections.abc import Mapping
from pathlib import Path as FilePath
from typing import Any, Final, NamedTuple

import yaml
from pydantic import SecretStr
from pydantic.fields import FieldInfo

from monitor.app.settings import fields, suggestions
from monitor.app.settings.values import Duration
from monitor.errors import SettingsError

PREFIX: Final = "MONITOR__"
_FILE: Final = "_file"


class FromVariable(NamedTuple):
    """A setting that a variable gives."""

    variable: str
    path: fields.Path
    value: Any


def read_environment(environ: Mapping[str, str]) -> list[FromVariable]:
    """The settings that the environment gives, in the order of the variables' names.

    Raises
    ------
    SettingsError
        A variable begins with MONITOR__ and names no setting, or its file cannot be read. The value of such a variable
        is never shown.
    """
    return [_read(name, environ[name]) for name in sorted(environ) if name.startswith(PREFIX)]


def _read(variable: str, text: str) -> FromVariable:
    path = _path_of(variable)
    field = fields.field_at(path)
    if field is None and str(path[-1]).endswith(_FILE):
        path = (*path[:-1], str(path[-1]).removesuffix(_FILE))
        field = fields.field_at(path)
        if field is not None:
            text = _contents(variable, text)
    if field is None:
        # The user's own keys (the names of models) have sections under them, and may be given whole.
        if fields.section_at(path) is None:
            raise SettingsError(f"{variable}: {suggestions.unknown(path)}")
        return FromVariable(variable, path, _parse(variable, text))
    as_text = any(fields.mentions(field.annotation, kind) for kind in (str, SecretStr)) and not _is_container(field)
    as_text = as_text or fields.mentions(field.annotation, Duration) or bool(fields.choices(field.annotation))
    if as_text and text.strip().lower() not in {"", "null"}:
        return FromVariable(variable, path, text)
    return FromVariable(variable, path, _parse(variable, text))


def _path_of(variable: str) -> fields.Path:
    path: fields.Path = ()
    for part in variable.removeprefix(PREFIX).split("__"):
        field = fields.field_at(path) if path else None
        own_key = field is not None and fields.is_keyed(field.annotation)
        path = (*path, part if own_key else part.lower())
    return path


def _is_container(field: FieldInfo) -> bool:
    return fields.section_in(field.annotation) is not None or fields.is_keyed(field.annotation)


def _contents(variable: str, name: str) -> str:
    try:
        return FilePath(name).read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise SettingsError(f"{variable}: cannot read the file {name!r}: {reason}") from error


def _parse(variable: str, text: str) -> Any:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise SettingsError(f"{variable}: the value is not valid YAML or JSON") from error
