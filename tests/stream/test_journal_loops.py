"""Probabilities beside the join's table and in the journal, against lists of Python's."""

import numpy as np
import pytest

from monitor.stream.journal_loops import (
    BLOCK,
    Blocks,
    Vectors,
    add_vector,
    block_count,
    count_blocks,
    free_vectors,
    is_hit,
    write_blocks,
)
from monitor.stream.table_loops import COUNT, FREE_HEAD, META, USED


def empty(rows: int) -> Vectors:
    meta = np.zeros(META, np.int64)
    meta[FREE_HEAD] = -1
    return Vectors(np.empty((rows, BLOCK)), np.empty(rows, np.int32), np.empty(rows, np.int16), meta)


def room_for(blocks: int) -> Blocks:
    return Blocks(np.zeros((blocks, BLOCK)), *(np.zeros(blocks, np.int16) for _ in range(2)))


@pytest.mark.parametrize("seed", range(5))
def test_vectors_come_and_go_and_their_rows_are_used_again(seed: int) -> None:
    rng = np.random.default_rng(seed)
    vectors = empty(200)
    held: dict[int, list[float]] = {}
    for _ in range(400):
        if held and (rng.random() < 0.4 or vectors.meta[COUNT] > 180):
            head = int(rng.choice(list(held)))
            del held[head]
            free_vectors(np.array([-1, head], np.int32), vectors)
        else:
            values = rng.random(int(rng.integers(2, 12)))
            padded = np.concatenate([[9.0], values, [9.0]])
            held[int(add_vector(vectors, padded, 1, values.size))] = values.tolist()
        assert vectors.meta[COUNT] == sum(block_count(len(values)) for values in held.values())
    assert vectors.meta[USED] <= 200
    heads = np.array([-1, *held], np.int32)
    labels = rng.integers(-1, 12, heads.size).astype(np.int16)
    counts = count_blocks(heads, vectors)
    assert counts.tolist() == [0, *(-(-len(values) // BLOCK) for values in held.values())]
    blocks = room_for(int(counts.sum()))
    write_blocks(heads, labels, vectors, blocks)
    at = 0
    for label, count, vector in zip(labels[1:].tolist(), counts[1:].tolist(), held.values(), strict=True):
        of_one = slice(at, at + count)
        assert blocks.values[of_one].ravel()[: len(vector)].tolist() == vector
        assert set(blocks.classes[of_one].tolist()) == {len(vector)}
        assert set(blocks.label[of_one].tolist()) == {label}
        at += count


def test_the_top_label_is_the_first_of_the_largest() -> None:
    vectors = empty(10)
    values = [0.1, 0.2, 0.05, 0.2, 0.05, 0.2, 0.2]
    head = add_vector(vectors, np.array(values), 0, len(values))
    assert [is_hit(vectors, head, label) for label in range(-1, 8)] == [-1, 0, 1, 0, 0, 0, 0, 0, 0]
    assert [is_hit(vectors, -1, label) for label in range(-1, 3)] == [-1, 0, 1, 0]
