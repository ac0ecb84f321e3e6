"""Closed samples to test with."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from monitor.store.bottom_sample_loops import EDGES
from monitor.store.closed_samples import SCHEMA, ClosedSample
from tests.reference.naive_join import id_digest


def row(number: int, *, time_ms: int = 0, p: float = 0.3, outcome: int = 0, **changes: Any) -> dict[str, Any]:
    """An event whose hash follows from its number."""
    digest = id_digest("model", str(number))
    return {
        "id_high": int.from_bytes(digest[:8]),
        "id_low": int.from_bytes(digest[8:]),
        "time_ms": time_ms,
        "confidence": sum(edge <= p for edge in EDGES),
        "prediction": [p],
        "outcome": outcome,
        "segments": "[]",
        "features": [number / 8, 1.0],
        **changes,
    }


def closed(rows: Sequence[dict[str, Any]], capacity: int = 1_000) -> ClosedSample:
    """The sample of these events."""
    labelled = Counter(event["confidence"] for event in rows)
    return ClosedSample.of(capacity, labelled, pa.Table.from_pylist(list(rows), schema=SCHEMA))


def random_rows(count: int, seed: int, **changes: Any) -> list[dict[str, Any]]:
    """Events of any confidence; no two seeds below a thousand share one."""
    rng = np.random.default_rng(seed)
    return [
        row(1 + seed + 1_000 * at, time_ms=int(time), p=float(p), outcome=int(y), **changes)
        for at, (time, p, y) in enumerate(
            zip(rng.integers(0, 1_000, count), rng.random(count), rng.integers(0, 2, count), strict=True)
        )
    ]
