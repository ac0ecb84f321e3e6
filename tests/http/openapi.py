"""The OpenAPI document as it was reviewed: ``python -m tests.http.openapi`` writes it anew."""

import json
from pathlib import Path

from tests.http.service import Service

FILE = Path(__file__).with_name("openapi.json")


def current() -> str:
    """The document of the routes as they are, pretty-printed."""
    return json.dumps(Service().app().openapi(), indent=1, sort_keys=True, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FILE.write_text(current(), encoding="utf-8")
