"""Counting by batches and groups gives the integers of a grid table of the same events, also at the edges of cells."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.scores import GridTable, grid
from monitor.scores.grid_counts import GridCounts

EDGES = grid.edges()
AT_EDGES = np.unique(
    np.clip(
        np.concatenate([EDGES, np.nextafter(EDGES, 0.0), np.nextafter(EDGES, 1.0), np.arange(1 << 14) / (1 << 14)]),
        0.0,
        1.0,
    )
)


def test_every_edge_and_its_neighbours_fall_into_the_cell_of_the_grid() -> None:
    counts = GridCounts()
    outcome = (np.arange(AT_EDGES.size) % 3 - 1).astype(np.int8)
    counts.add(AT_EDGES, outcome, np.zeros(AT_EDGES.size, np.int32), 1)
    assert counts.table(0) == GridTable.from_events(AT_EDGES, outcome)


events = st.lists(
    st.tuples(
        st.one_of(st.floats(0.0, 1.0), st.sampled_from([0.0, 1.0, 0.5, 5e-324])),
        st.sampled_from([1, 0, -1]),
        st.integers(0, 3),
        st.booleans(),
    ),
    max_size=60,
)


@given(events)
def test_batches_and_groups_add_up(rows: list[tuple[float, int, int, bool]]) -> None:
    p, y, group = (np.array([row[at] for row in rows]) for at in range(3))
    p, y, group = p.astype(np.float64), y.astype(np.int8), group.astype(np.int32)
    cuts = [at for at, row in enumerate(rows) if row[3]]
    counts, known = GridCounts(), 0
    for part in np.split(np.arange(len(rows)), cuts):
        known = max(known, int(group[part].max(initial=-1)) + 1)
        counts.add(p[part], y[part], group[part], known)
    assert counts.groups == known
    for number in range(known):
        assert counts.table(number) == GridTable.from_events(p[group == number], y[group == number])
    assert counts.table(*range(known)) == GridTable.from_events(p, y)


@pytest.mark.parametrize("groups", [1, 40])
def test_memory_does_not_grow_with_events(groups: int) -> None:
    rng = np.random.default_rng(1)
    counts = GridCounts()
    sizes = []
    for _ in range(4):
        for _ in range(3):
            p, group = rng.random(200_000), rng.integers(0, groups, 200_000).astype(np.int32)
            counts.add(p, np.zeros(p.size, np.int8), group, groups)
        sizes.append(counts.nbytes)
    assert sizes[-1] == sizes[1] <= 1.3 * groups * grid.cell_count() * 52
