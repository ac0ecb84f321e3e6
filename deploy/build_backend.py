"""Build backend: setuptools, with the numerical loops compiled for the machine that builds.

To compile them it runs the warm-up of a service, so what that imports is required to build the package, too. pip
installs it into the environment of the build; with ``--no-build-isolation`` it takes what is installed. Why:
docs/decisions/0048-loops-compiled-when-the-package-is-built.md.
"""

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, Final

from setuptools import build_meta
from setuptools.build_meta import (
    build_sdist,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

_IMPORTED: Final = (
    *("httpx", "msgspec", "numba", "numpy", "pyarrow", "pydantic"),
    *("pyyaml", "scipy", "sqlalchemy", "structlog", "xxhash"),
)
"""Dependencies that the warm-up imports: less than half of what all of them take to install."""


def get_requires_for_build_wheel(config_settings: Any = None) -> list[str]:
    """Requirements of setuptools and of the warm-up."""
    return [*build_meta.get_requires_for_build_wheel(config_settings), *_imported()]


def get_requires_for_build_editable(config_settings: Any = None) -> list[str]:
    """Requirements of setuptools and of the warm-up."""
    return [*build_meta.get_requires_for_build_editable(config_settings), *_imported()]


def build_wheel(wheel_directory: str, config_settings: Any = None, metadata_directory: str | None = None) -> str:
    """Build a wheel with compiled loops."""
    _compile()
    return str(build_meta.build_wheel(wheel_directory, config_settings, metadata_directory))


def build_editable(wheel_directory: str, config_settings: Any = None, metadata_directory: str | None = None) -> str:
    """Build what makes the checkout an installation, with compiled loops in the checkout."""
    _compile()
    return str(build_meta.build_editable(wheel_directory, config_settings, metadata_directory))


def _imported() -> list[str]:
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [each for each in project["dependencies"] if re.split(r"[^\w-]", each)[0] in _IMPORTED]


def _compile() -> None:
    # In the folder of the sources, as every hook of a build backend is.
    done = subprocess.run([sys.executable, "-m", "monitor.app.warmup"], check=False)
    if done.returncode:
        print("no loop was compiled: the first start of this installation compiles them", file=sys.stderr)
