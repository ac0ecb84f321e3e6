"""Findings by hand, and a source of them that a test scripts."""

from typing import Any, Final

from monitor.alarms.lifecycle import advance
from monitor.store.alert import Alert, Finding, Witness

LINE: Final = 5.0
NOW_MS: Final = 1_790_000_000_000
MINUTE_MS: Final = 60_000


def finding(
    log10_evidence: float, *, settled_minute: int = 0, model: str = "churn", version: str = "7", **more: Any
) -> Finding:
    """A finding that looks up to this minute, about a change an hour before the first one."""
    settled_ms = NOW_MS + settled_minute * MINUTE_MS
    raised_ms = more.setdefault("raised_ms", settled_ms if log10_evidence >= LINE else None)
    kind = more.setdefault("kind", "calibration")
    detector = "serving_map" if kind == "map" else kind
    firing = raised_ms is not None
    own = Witness(detector=detector, kind=kind, log10_evidence=log10_evidence, log10_line=LINE, firing=firing)
    fields: dict[str, Any] = {
        "log10_line": LINE,
        "first_raised_ms": raised_ms,
        "settled_ms": settled_ms,
        "since_ms": NOW_MS - 60 * MINUTE_MS,
        "from_ms": NOW_MS - 70 * MINUTE_MS,
        "to_ms": NOW_MS - 50 * MINUTE_MS,
        "events": 1000 + settled_minute,
        "summary": f"{model} {version} is too sure of itself",
        "witnesses": [own] if firing or log10_evidence >= LINE - 1 else [],
        "document": {"slope": 1.3},
    }
    return Finding(model=model, version=version, log10_evidence=log10_evidence, **fields | more)


def advanced(alert: Alert | None, found: Finding, now_ms: int) -> Alert | None:
    """What becomes of the only alert on a version with its only finding."""
    steps = advance([] if alert is None else [alert], [found], now_ms)
    after = [one for _, one in steps if one is not None]
    assert len(after) <= 1
    return after[0] if after else None


class Script:
    """Findings that a test sets."""

    def __init__(self, *findings: Finding) -> None:
        self.now: dict[str, list[Finding]] = {}
        self.say(*findings)

    def say(self, *findings: Finding) -> None:
        """Replace the findings of these models."""
        for model in dict.fromkeys(one.model for one in findings):
            self.now[model] = [one for one in findings if one.model == model]
