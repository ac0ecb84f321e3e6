"""The JSON Schemas of events, for producers that validate before they send."""

import json
from functools import cache
from importlib import resources
from typing import Any, Final

from monitor.events.model import Kind

VERSION: Final = 1


@cache
def event_schema(kind: Kind) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of one type of event.

    The decoder also refuses days that no calendar has, times out of range, base64 that is
    not of finite float32, and numbers with a fraction of zero as ids or versions.
    """
    name = f"{kind.name.lower()}.v{VERSION}.json"
    text = resources.files("monitor.events").joinpath("schema", name).read_text("utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema
