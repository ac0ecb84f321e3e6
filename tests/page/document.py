"""What a report in one file holds."""

import json
import re
from pathlib import Path
from typing import Any


def document_of(page: str | bytes | Path) -> Any:
    """The document that a page of one file shows."""
    text = page.read_text(encoding="utf-8") if isinstance(page, Path) else page
    html = text.decode() if isinstance(text, bytes) else text
    match = re.search(r'<script type="application/json" id="document">(.*?)</script>', html, re.DOTALL)
    assert match is not None
    return json.loads(match[1])


def titles(page: str | bytes | Path) -> list[str]:
    """The titles of its figures."""
    return [figure["title"] for figure in document_of(page)["figures"]]
