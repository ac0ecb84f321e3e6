"""Predictions over several classes are closed as binary ones, each class against the rest."""

import numpy as np
import pytest

from monitor.stream import closing
from monitor.stream.journal_loops import BLOCK, JOURNAL_ROW, NO_OUTCOME, PREDICTED, VECTOR, VECTOR_ROW

FIRST, KNOWN = np.array((0, 3, 8), np.int32), np.array((3, 5, 0), np.int32)
"""The classes of three strata: of the last, none."""


@pytest.mark.parametrize("chunk", [1, 16, 1 << 16])
@pytest.mark.parametrize("seed", range(4))
def test_each_class_is_a_binary_prediction(seed: int, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(closing, "_CHUNK", chunk)
    rng = np.random.default_rng(seed)
    rows, expected = [], []
    for time_ms in range(100):
        stratum = int(rng.integers(0, 3))
        row = np.zeros(1, JOURNAL_ROW)
        row["stratum"], row["time_ms"], row["entry"] = stratum, time_ms, PREDICTED
        rows.append(row)
        if rng.random() < 0.3:
            continue
        classes = int(rng.integers(2, 7))
        values, label = rng.random(classes), int(rng.integers(-1, classes))
        blocks = np.zeros(-(-classes // BLOCK), VECTOR_ROW)
        blocks["values"] = np.resize(np.append(values, np.zeros(BLOCK)), (blocks.size, BLOCK))
        blocks["classes"], blocks["label"], blocks["entry"] = classes, label, VECTOR
        rows.append(blocks.view(JOURNAL_ROW))
        for k in range(min(classes, int(KNOWN[stratum]))):
            outcome = NO_OUTCOME if label < 0 else int(k == label)
            expected.append((int(FIRST[stratum]) + k, time_ms, values[k], outcome))
    parts = list(closing._each_class(np.concatenate(rows), FIRST, KNOWN))
    assert [row for part in parts for row in zip(*(column.tolist() for column in part), strict=True)] == expected
    assert len(parts) > 1 or chunk > 100
