"""Segments before and after: who gains by a map, and who loses."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from monitor.local.calibration import confidence_and_hit
from monitor.maps.labelled import NO_SEGMENT, LabelledEvents
from monitor.measures import ece, mce, smce
from monitor.scores import ScoreTable

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LEAST_EVENTS: Final = 50
"""Of a segment that is compared."""

MOST_SEGMENTS: Final = 100
"""That are compared, those of the most events."""

_CHANCE: Final = 0.9
"""smCE of a calibrated model, in units of sqrt(mean p (1 - p) / n) (section 3 of the mathematics)."""


def compare_segments(
    held: LabelledEvents, predictions: Mapping[str, Floats]
) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """Measures of each segment by map, and how many segments are left out, by reason.

    Parameters
    ----------
    held
        n events. Those that do not tell a key belong to none of its segments.
    predictions
        ``none``, ``champion`` (or not), ``challenger`` -> float64, (n,) or (n, K).

    Returns
    -------
    list
        The worst before first: by smCE less what chance alone would show, so that the smallest are not worst for their
        noise.
    dict
        Reason, in words -> number of segments; without those of 0.
    """
    found: list[tuple[str, Ints]] = []
    few = 0
    for name, rows in _segments(held):
        if rows.size < LEAST_EVENTS:
            few += 1
        else:
            found.append((name, rows))
    found.sort(key=lambda each: (-each[1].size, each[0]))
    beyond = max(0, len(found) - MOST_SEGMENTS)
    observed = {name: confidence_and_hit(p, held.outcome) for name, p in predictions.items()}
    ranked: list[tuple[float, str, dict[str, Any]]] = []
    for name, rows in found[:MOST_SEGMENTS]:
        weight = None if held.is_whole else held.weight[rows]
        tables = {each: ScoreTable.from_events(p[rows], hit[rows], weight) for each, (p, hit) in observed.items()}
        before, hit = observed["none"]
        p, w = before[rows], held.weight[rows]
        chance = _CHANCE * float(np.sqrt((w**2 * p * (1.0 - p)).sum()) / w.sum())
        shown = {each: {"smce": smce(table), "ece": ece(table), "mce": mce(table)} for each, table in tables.items()}
        record = {
            "segment": name,
            "n": int(rows.size),
            "positives": int(hit[rows].sum()),
            "none": shown["none"],
            "champion": shown.get("champion"),
            "challenger": shown["challenger"],
        }
        ranked.append((chance - shown["none"]["smce"], name, record))
    ranked.sort(key=lambda each: each[:2])
    left_out = {f"fewer than {LEAST_EVENTS} events": few, f"beyond the {MOST_SEGMENTS} largest": beyond}
    return [record for _, _, record in ranked], {reason: count for reason, count in left_out.items() if count}


def _segments(held: LabelledEvents) -> Iterator[tuple[str, Ints]]:
    """Name and rows of each segment."""
    for key in sorted(held.segments):
        values, codes = np.unique(held.segments[key], return_inverse=True)
        order = np.argsort(codes, kind="stable")
        bounds = np.searchsorted(codes[order], np.arange(values.size + 1))
        for code, value in enumerate(values.tolist()):
            if value != NO_SEGMENT:
                yield f"{key}={value}", order[bounds[code] : bounds[code + 1]]
