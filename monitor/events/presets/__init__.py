"""Ready-made mappings of messages that inference servers log: one YAML file each, found by scanning this folder."""

from functools import cache
from pathlib import Path
from typing import Any

import yaml


@cache
def load_presets() -> dict[str, dict[str, Any]]:
    """The keys of each mapping, by name."""
    files = sorted(Path(__file__).parent.glob("*.yaml"))
    return {file.stem: yaml.safe_load(file.read_text("utf-8")) for file in files}
