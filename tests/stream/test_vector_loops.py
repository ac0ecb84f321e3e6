"""Probabilities beside the join's table and in the journal, against lists of Python's."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from monitor.store.base import ANSWERED, CONFIRMED, CORRECTED, JOURNAL_ROW, PREDICTED, VECTOR, WAITING
from monitor.stream.table_loops import COUNT, FREE_HEAD, META, USED
from monitor.stream.vector_loops import (
    BLOCK,
    Blocks,
    ClassFanOut,
    Vectors,
    add_vector,
    block_count,
    class_rows,
    count_blocks,
    free_vectors,
    is_hit,
    write_blocks,
)


def empty(rows: int) -> Vectors:
    meta = np.zeros(META, np.int64)
    meta[FREE_HEAD] = -1
    return Vectors(np.empty((rows, BLOCK)), np.empty(rows, np.int32), np.empty(rows, np.int16), meta)


def room_for(blocks: int) -> Blocks:
    return Blocks(np.zeros((blocks, BLOCK)), *(np.zeros(blocks, np.int16) for _ in range(3)))


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
    write_blocks(heads, labels, labels - 1, vectors, blocks)
    at = 0
    for label, count, vector in zip(labels[1:].tolist(), counts[1:].tolist(), held.values(), strict=True):
        of_one = slice(at, at + count)
        assert blocks.values[of_one].ravel()[: len(vector)].tolist() == vector
        assert set(blocks.classes[of_one].tolist()) == {len(vector)}
        assert set(blocks.label[of_one].tolist()) == {label}
        assert set(blocks.before[of_one].tolist()) == {label - 1}
        at += count


def test_the_top_label_is_the_first_of_the_largest() -> None:
    vectors = empty(10)
    values = [0.1, 0.2, 0.05, 0.2, 0.05, 0.2, 0.2]
    head = add_vector(vectors, np.array(values), 0, len(values))
    assert [is_hit(vectors, head, label) for label in range(-1, 8)] == [-1, 0, 1, 0, 0, 0, 0, 0, 0]
    assert [is_hit(vectors, -1, label) for label in range(-1, 3)] == [-1, 0, 1, 0]


def journal(rng: np.random.Generator, events: int) -> tuple[NDArray[np.void], Blocks, list[tuple[Any, ...]]]:
    """Rows of a journal, what their VECTOR rows hold, and the binary rows that they stand for, by obvious loops."""
    rows: list[tuple[int, int, int]] = []
    blocks: list[tuple[list[float], int, int, int]] = []
    expected = []
    for time_ms in range(events):
        stratum = int(rng.integers(0, 3))
        entry = int(rng.choice([PREDICTED, ANSWERED, CORRECTED, CONFIRMED, WAITING]))
        rows.append((entry, stratum, time_ms))
        if entry == WAITING or rng.random() < 0.3:
            continue
        classes = int(rng.integers(2, 7))
        values = rng.random(classes).tolist()
        label, before = int(rng.integers(classes)), int(rng.integers(classes))
        if entry == PREDICTED:
            label, before = (label, -1) if rng.random() < 0.5 else (-1, -1)
        elif entry == ANSWERED:
            before = -1
        for at in range(0, classes, BLOCK):
            rows.append((VECTOR, -1, -1))
            padded = [*values[at : at + BLOCK], *[0.0] * BLOCK][:BLOCK]
            blocks.append((padded, classes, label, before))
        for k in range(min(classes, KNOWN[stratum])):
            outcome = -1 if label < 0 else int(k == label)
            place = FIRST[stratum] + k
            if entry in (PREDICTED, ANSWERED):
                expected.append((entry, place, time_ms, values[k], outcome))
            elif label != before and k in (label, before):
                expected.append((CORRECTED, place, time_ms, values[k], outcome))
    table = np.zeros(len(rows), JOURNAL_ROW)
    for name, column in zip(("entry", "stratum", "time_ms"), zip(*rows, strict=True), strict=True):
        table[name] = column
    values_of, *numbers_of = zip(*blocks, strict=True)
    held = Blocks(np.array(values_of), *(np.array(numbers, np.int16) for numbers in numbers_of))
    return table, held, expected


FIRST, KNOWN = (0, 3, 8), (3, 5, 0)
"""The classes of three strata: of the last, none."""


@pytest.mark.parametrize("room", [7, 16, 1000])
@pytest.mark.parametrize("seed", range(4))
def test_rows_of_several_classes_are_binary_rows_of_each(seed: int, room: int) -> None:
    rows, blocks, expected = journal(np.random.default_rng(seed), 100)
    fan_out = ClassFanOut(np.array(FIRST, np.int32), np.array(KNOWN, np.int32), np.arange(8, dtype=np.int32))
    found = []
    index = block = 0
    while index < rows.size:
        out = np.zeros(room, JOURNAL_ROW)
        written, index, block = class_rows(rows, blocks, fan_out, index, block, out)
        found += [
            (int(row["entry"]), int(row["stratum"]), int(row["time_ms"]), float(row["prediction"]), int(row["outcome"]))
            for row in out[:written]
        ]
    assert found == expected
    assert block == blocks.label.size
