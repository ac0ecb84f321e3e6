"""The compose file, as tests read it."""

from pathlib import Path
from typing import Any, Final

import yaml

DEPLOY: Final = Path(__file__).parents[2] / "deploy"


def read(path: Path) -> Any:
    """What a file in YAML says."""
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def mounts(service: dict[str, Any]) -> list[tuple[str, str, bool]]:
    """(source, target, read only) of each mount that is no tmpfs."""
    found = []
    for text in service.get("volumes", []):
        source, target, *mode = text.split(":")
        found.append((source, target, mode == ["ro"]))
    return found
