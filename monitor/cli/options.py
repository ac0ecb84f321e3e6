"""What several commands have in common."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from monitor.errors import InputError
from monitor.settings import Settings, load_settings

USUAL_FILE: Final = Path("monitor.yaml")

ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        "-c",
        envvar="MONITOR_CONFIG",
        metavar="FILE",
        help="Settings; without it, monitor.yaml in the working directory if there is one.",
    ),
]


def read_settings(config: Path | None) -> Settings:
    """The settings of a file (or of monitor.yaml, if it is there) with the environment on top."""
    if config is None and USUAL_FILE.is_file():
        config = USUAL_FILE
    return load_settings(config, os.environ)


def method_options(pairs: Sequence[str]) -> dict[str, Any]:
    """What --option NAME=VALUE says: numbers, true, false and null as JSON has them, anything else as text."""
    found: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name.strip():
            raise InputError(f"--option must be like bins=10, got {pair!r}")
        if name.strip() in found:
            raise InputError(f"--option {name.strip()} is given twice")
        found[name.strip()] = _value(text.strip())
    return found


def _value(text: str) -> Any:
    try:
        value = json.loads(text, parse_constant=str)
    except ValueError:
        return text
    return text if isinstance(value, list | dict) else value
