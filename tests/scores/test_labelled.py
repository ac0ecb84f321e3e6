from typing import Any

import numpy as np
import pytest

from monitor.errors import InputError
from monitor.scores.labelled import LabelledEvents


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            {"segments": {"region": "eu"}},
            r"segment 'region' must be one value for each of 2 predictions, got shape \(\)",
        ),
        ({"segments": {"region": [["eu"], ["us"]]}}, r"segment 'region' must be one value .*\(2, 1\)"),
        ({"segments": {"region": ["eu"]}}, r"segment 'region' must be one value .*\(1,\)"),
        ({"weight": 2.0}, r"weight must be one value for each of 2 predictions, got shape \(\)"),
        ({"weight": [[1.0], [2.0]]}, r"weight must be one value .*\(2, 1\)"),
        ({"weight": [1.0, 1e200]}, "weight must be above 0 and at most 1e\\+100, got 1e\\+200 at index 1"),
        ({"weight": [1.0, np.nan]}, "weight must be above 0 .* got nan at index 1"),
        ({"time_ms": 3}, r"time_ms must be one value .*\(\)"),
        ({"time_ms": ["noon", "later"]}, "time_ms must be whole numbers: "),
        ({"time_ms": [1.0, np.nan]}, "time_ms must be whole numbers, got nan"),
        ({"time_ms": [1.0, 1.5]}, r"time_ms must be whole numbers, got 1\.5"),
        ({"time_ms": [0, 10**30]}, "time_ms must be whole numbers: "),
        ({"features": [[1.0]]}, "features must be as long as prediction, got 1 and 2"),
    ],
)
def test_what_does_not_fit_is_named(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        LabelledEvents.of([0.2, 0.7], [0, 1], **wrong)


def test_times_may_be_whole_floats() -> None:
    events = LabelledEvents.of([0.2, 0.7], [0, 1], time_ms=[5.0, 3.0])
    assert events.time_ms.tolist() == [3, 5]
    assert events.prediction.tolist() == [0.7, 0.2]


def test_only_equal_events_have_equal_hashes() -> None:
    def hashed(**segments: list[str]) -> str:
        return LabelledEvents.of([0.2, 0.7], [0, 1], segments=segments).content_hash()

    assert hashed(a=["x", "y"], b=["ж", "日本"]) == hashed(b=["ж", "日本"], a=["x", "y"])
    told = [
        hashed(),
        hashed(a=["x", "y"]),
        hashed(a=["y", "x"]),
        # Joined without a mark these three read alike.
        hashed(a=["x", "y"], bb=["v", "w"]),
        hashed(a=["x", "yb"], b=["v", "w"]),
        hashed(a=["x\0y", ""], bb=["v", "w"]),
    ]
    assert len(set(told)) == len(told)
