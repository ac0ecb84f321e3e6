"""Write the paragraphs of docs/answers.md into the package, where `monitor explain` reads them.

``python -m docs.generators.answers`` does it. A link becomes its text and, in parentheses, its target.
"""

import json
import re
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "answers.md"
FILE: Final = ROOT / "monitor" / "answers.json"

_PARAGRAPH: Final = re.compile(r"^### (\S+) (\S+)\n\n(.+?)\n(?=\n#|\Z)", re.MULTILINE | re.DOTALL)
_LINK: Final = re.compile(r"\[([^\]]+)\]\(([^)]+)\)")
_LINK_IN_PARENTHESES: Final = re.compile(rf"\({_LINK.pattern}\)")


def document() -> str:
    """Return the text of the file: a list of kind, name and paragraph."""
    rows = [[kind, name, _plain(text)] for kind, name, text in _PARAGRAPH.findall(PAGE.read_text("utf-8"))]
    return f"{json.dumps(rows, indent=1, ensure_ascii=False)}\n"


def _plain(text: str) -> str:
    line = _LINK_IN_PARENTHESES.sub(r"(\1: docs/\2)", " ".join(text.split()))
    return _LINK.sub(r"\1 (docs/\2)", line)


def main() -> None:
    """Write the file."""
    FILE.write_text(document(), encoding="utf-8")


if __name__ == "__main__":
    main()
