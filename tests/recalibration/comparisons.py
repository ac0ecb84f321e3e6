"""Comparisons for tests that read a part of one."""

from typing import Any

from monitor.events.times import format_time
from monitor.http.recalibration_schemas import RefitBody


def comparison(*, until_ms: int | None = None, n: int | None = None, **changes: Any) -> dict[str, Any]:
    """The example of the REST interface, on so many events until then."""
    document: dict[str, Any] = RefitBody.example()["comparison"]
    held_out = dict(document["held_out"])
    if until_ms is not None:
        held_out["to"] = format_time(until_ms)
    if n is not None:
        held_out["n"] = n
    return {**document, "held_out": held_out, **changes}
