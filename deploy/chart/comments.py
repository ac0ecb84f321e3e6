"""The comments of values.yaml: what it says of each key."""

import re
from pathlib import Path
from typing import Final

_KEY: Final = re.compile(r"^(?P<indent> *)(?P<name>[A-Za-z][A-Za-z0-9]*):(?: |$)")

Path_ = tuple[str, ...]


def read_comments(file: Path) -> dict[Path_, str]:
    """What the lines above each key say, by the path of the key; empty where there are none.

    The file is the chart's own: two spaces a level, no comments behind values, one key a line.
    """
    found: dict[Path_, str] = {}
    path: list[str] = []
    said: list[str] = []
    for line in file.read_text(encoding="utf-8").splitlines():
        text = line.strip()
        key = _KEY.match(line)
        if text.startswith("#"):
            said.append(text.removeprefix("#").strip())
        elif key:
            level = len(key["indent"]) // 2
            path = [*path[:level], key["name"]]
            found[tuple(path)] = " ".join(said)
            said = []
        else:
            said = []
    return found
