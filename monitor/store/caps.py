"""How full caps are over all partitions, and what to do about one that is full."""

from collections.abc import Iterable
from typing import Final

from monitor.events.strata import Cap
from monitor.store.base import CapUse, CapUses

NEARLY_FULL: Final = 0.9
"""Share of a cap from which on people are warned."""
_NAMES: Final = {
    "models": "undeclared models",
    "versions": "versions",
    "segment_values": "values of the segment key {}",
    "strata": "combinations of version and segment values",
}
_REFUSED: Final = "events of further ones are refused; declare what matters under models.declared, or raise caps.models"


def join_cap_uses(parts: Iterable[tuple[Cap, CapUse]]) -> CapUses:
    """Merge caps of several partitions: the names of the fullest one, and the predictions of all."""
    merged: dict[Cap, CapUse] = {}
    for cap, use in parts:
        other = merged.get(cap, CapUse(0, use.limit))
        fullest = max(use, other, key=lambda one: one.used / one.limit)
        newest_ms = max(use.newest_ms, other.newest_ms)
        merged[cap] = fullest._replace(folded=use.folded + other.folded, newest_ms=newest_ms)
    return merged


def cap_warning(cap: Cap, use: CapUse) -> str | None:
    """Sentence on a cap that is nearly full: what becomes of names, and what to do; else None."""
    names = _NAMES[cap.setting].format(cap.segment_key)
    live = f"{use.used:,} of at most {use.limit:,} {names} live in a partition"
    if use.folded:
        return f"{use.folded:,} predictions count as `other`: {live}; raise caps.{cap.setting}, or send fewer"
    if use.used < NEARLY_FULL * use.limit:
        return None
    if cap == Cap("models"):
        return f"{live}; {_REFUSED}"
    return f"{live}; further ones will count as `other`; raise caps.{cap.setting}, or send fewer"
