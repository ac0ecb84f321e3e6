"""The index against a dictionary, through growth, removal and reuse."""

import numpy as np
import pytest

from monitor.stream.table_loops import MAX_LOAD, find, insert, remove, slots_for, transfer


@pytest.mark.parametrize("seed", range(5))
def test_as_a_dictionary(seed: int) -> None:
    rng = np.random.default_rng(seed)
    size = 4_000
    highs = rng.integers(0, 3, size).astype(np.uint64)  # few distinct words: keys differ in one half only
    lows = rng.permutation(size).astype(np.uint64)
    slots = np.zeros(1024, np.uint64)
    held: dict[tuple[int, int], int] = {}
    for _ in range(20_000):
        row = int(rng.integers(size))
        key = (int(highs[row]), int(lows[row]))
        if key in held:
            if rng.random() < 0.4:
                remove(slots, highs[row], lows[row], row)
                del held[key]
        else:
            wanted = slots_for(len(held) + 1, slots.size)
            if wanted > slots.size:
                larger = np.zeros(wanted, np.uint64)
                transfer(slots, larger)
                slots = larger
            insert(slots, highs[row], lows[row], row)
            held[key] = row
    assert np.count_nonzero(slots) == len(held)
    assert len(held) <= MAX_LOAD * slots.size
    for row in range(size):
        expected = held.get((int(highs[row]), int(lows[row])), -1)
        assert find(slots, highs, lows, highs[row], lows[row]) == expected


def test_removal_leaves_no_tombstones() -> None:
    """A run of colliding keys stays findable whichever of them goes, also where it wraps around the end."""
    rng = np.random.default_rng(3)
    highs, lows = np.zeros(1024, np.uint64), np.arange(1024, dtype=np.uint64)
    for _ in range(200):
        slots = np.zeros(16, np.uint64)
        rows = rng.choice(1024, 10, replace=False).tolist()
        for row in rows:
            insert(slots, highs[row], lows[row], row)
        for gone in rng.permutation(rows).tolist():
            remove(slots, highs[gone], lows[gone], gone)
            rows.remove(gone)
            assert find(slots, highs, lows, highs[gone], lows[gone]) == -1
            assert all(find(slots, highs, lows, highs[row], lows[row]) == row for row in rows)
        assert not slots.any()
