"""Base of a section of the settings, and types of settings that YAML lacks: durations, lists, paths, addresses.

A room declares the section that it uses; :mod:`monitor.app.settings` puts the sections together and reads them.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import quote, unquote_plus

import httpx
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, StringConstraints

from monitor.durations import format_duration, parse_duration
from monitor.errors import InputError, SettingsError
from monitor.urls import wrong_address

Text = Annotated[str, StringConstraints(min_length=1)]
Positive = Annotated[int, Field(ge=1)]
NonNegative = Annotated[int, Field(ge=0)]


TOPIC: Final = r"^[a-zA-Z0-9._-]{1,249}$"
Topic = Annotated[str, StringConstraints(pattern=TOPIC)]


class Section(BaseModel):
    """A group of settings. Keys that it does not have are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, allow_inf_nan=False)


_PASSWORD: Final = re.compile(r"(?<=://)([^:/@]*):(.*)@")
_SQLITE_FILE: Final = re.compile(r"(sqlite(?:\+\w+)?:///)(?!:memory:|file:)([^?]+)")
# Files that libpq reads; `system` stands for the authorities that the machine trusts.
_FILE_OPTION: Final = re.compile(r"([?&](?:sslcert|sslkey|sslrootcert|sslcrl|sslcrldir|passfile)=)(?!system\b)([^&]+)")
_PASSWORD_OPTION: Final = re.compile(r"([?&](?:ssl)?password=)[^&]*")


def hide_password(address: str) -> str:
    """An address without its password: ``postgresql://monitor:***@db/calibration``."""
    return _PASSWORD_OPTION.sub(r"\1***", _PASSWORD.sub(r"\1:***@", address))


def split_names(value: Any) -> Any:
    """A line of text with commas between names as a list of them; anything else as it is."""
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


@contextmanager
def reported(before: str = "", after: str = "") -> Iterator[None]:
    """Turn an error of this package into one that pydantic collects, with text before and after its message."""
    try:
        yield
    except (InputError, SettingsError) as error:
        raise ValueError(f"{before}{error}{after}") from None


Duration = Annotated[timedelta, BeforeValidator(parse_duration), PlainSerializer(format_duration)]
"""A length of time, at a resolution of milliseconds."""

Span = Annotated[Duration, Field(ge=timedelta(seconds=1))]
"""A `Duration` of at least a second."""


Names = Annotated[tuple[str, ...], BeforeValidator(split_names)]
"""A list of names, or one line of text with commas between them."""

Address = Annotated[str, PlainSerializer(hide_password)]
"""A URL that may hold a password, which is hidden wherever it is shown."""


@dataclass(frozen=True)
class Anchor:
    """Marks a setting that names a file or a folder, and says how a relative one is made absolute."""

    resolve: Callable[[str, Path], str]
    """The value and the folder in which it begins, to the absolute value."""


def _resolve_path(text: str, folder: Path) -> str:
    """Make a path absolute; a ``~`` is left for what opens it, which knows the homes."""
    return text if text.startswith("~") else str(folder / text)


def _resolve_url(url: str, folder: Path) -> str:
    """Make the files that a store's URL names absolute: that of SQLite, and PostgreSQL's certificates."""
    file = _SQLITE_FILE.match(url)
    if file is not None:
        return f"{file[1]}{_resolve_path(file[2], folder)}{url[file.end() :]}"
    return _FILE_OPTION.sub(lambda option: option[1] + quote(_resolve_path(unquote_plus(option[2]), folder)), url)


def check_http_url(text: str, example: str) -> httpx.URL:
    """Return an http or https URL, or raise ValueError."""
    try:
        url = httpx.URL(text)
    except httpx.InvalidURL:
        url = httpx.URL()
    if url.scheme not in ("http", "https") or not url.host:
        raise ValueError(f"must be an http or https URL, such as {example}")
    wrong = wrong_address(url.host, url.port)
    if wrong:
        raise ValueError(wrong)
    return url


FilePath = Annotated[Text, Anchor(_resolve_path)]
"""A file or a folder. Where it is relative, it begins at the settings file, or at the working directory."""

StoreAddress = Annotated[Address, Anchor(_resolve_url)]
"""An `Address` of a store, which may name files."""
