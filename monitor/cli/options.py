"""What several commands have in common."""

import os
from pathlib import Path
from typing import Annotated, Final

import typer

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
