"""Files of predictions for many classes."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from monitor.errors import InputError
from monitor.sources.class_columns import class_names
from monitor.sources.tables import Columns, EventTable, read_table

VECTORS = [[0.25, 0.5, 0.25], [0.125, 0.125, 0.75], [1.0, 0.0, 0.0]]
COLUMNS = ["p_cat", "p_dog", "p_cow"]


def as_columns(
    path: Path, outcomes: list[Any], names: list[str] = COLUMNS, vectors: list[list[float]] = VECTORS
) -> Path:
    header = ",".join([*names, "y"])
    rows = [",".join(map(str, [*vector, outcome])) for vector, outcome in zip(vectors, outcomes, strict=True)]
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return path


def read(path: Path, names: list[str] = COLUMNS) -> EventTable:
    return read_table(path, Columns(prediction=names))


def refusal(path: Path, prediction: Sequence[str] = ()) -> str:
    with pytest.raises(InputError) as caught:
        read_table(path, Columns(prediction=prediction))
    return str(caught.value).removeprefix(f"{path}: ")


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        ([1, 2, 0], [1, 2, 0]),
        ([1.0, 2.0, ""], [1, 2, -1]),
        (["dog", "cow", "cat"], [1, 2, 0]),
        (["p_dog", "NA", "p_cat"], [1, -1, 0]),
        (["dog", "", "null"], [1, -1, -1]),
    ],
)
def test_several_columns_are_the_classes(outcomes: list[Any], expected: list[int], tmp_path: Path) -> None:
    table = read(as_columns(tmp_path / "f.csv", outcomes))
    assert table.prediction.tolist() == VECTORS
    assert table.outcome.tolist() == expected
    assert table.classes == ("cat", "dog", "cow")


def test_numbers_are_the_columns_own_where_they_have_some(tmp_path: Path) -> None:
    names = ["p1", "p2", "p3"]
    assert read(as_columns(tmp_path / "one.csv", [1, 2, 3], names), names).outcome.tolist() == [0, 1, 2]
    # No column is called p0, so these count from 0.
    assert read(as_columns(tmp_path / "nought.csv", [0, 1, 2], names), names).outcome.tolist() == [0, 1, 2]


def test_one_column_of_lists_in_every_format(tmp_path: Path) -> None:
    rows = [{"probs": vector, "y": outcome} for vector, outcome in zip(VECTORS, [1, 2, None], strict=True)]
    (tmp_path / "f.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    (tmp_path / "f.csv").write_text(
        "probs;y\n" + "".join(f"{row['probs']};{'' if row['y'] is None else row['y']}\n" for row in rows), "utf-8"
    )
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "f.parquet")
    fixed = pa.table({"probs": pa.array(VECTORS, pa.list_(pa.float32(), 3)), "y": [1, 2, None]})
    pq.write_table(fixed, tmp_path / "fixed.parquet")
    for name in ("f.jsonl", "f.csv", "f.parquet", "fixed.parquet"):
        table = read_table(tmp_path / name, Columns(prediction=["probs"]))
        assert table.prediction.tolist() == VECTORS, name
        assert table.outcome.tolist() == [1, 2, -1], name
        assert table.classes == ("0", "1", "2"), name


def test_lists_need_no_name_where_the_column_has_a_usual_one(tmp_path: Path) -> None:
    (tmp_path / "f.jsonl").write_text('{"p": [0.5, 0.25, 0.25], "y": 1}\n', encoding="utf-8")
    table = read_table(tmp_path / "f.jsonl")
    assert (table.prediction.tolist(), table.outcome.tolist()) == ([[0.5, 0.25, 0.25]], [1])


@pytest.mark.parametrize(
    ("outcomes", "vectors", "message"),
    [
        (
            ["dog", "ox", "cat"],
            VECTORS,
            (
                "column 'y', line 3: outcome must be one of the 3 classes cat, dog, cow, got 'ox' (1 such row); "
                "correct or remove them, or add --skip-bad-rows"
            ),
        ),
        (
            [0, 1, 3],
            VECTORS,
            (
                "column 'y', line 4: outcome must be one of the 3 classes 0, 1, 2, got '3' (1 such row); "
                "correct or remove them, or add --skip-bad-rows"
            ),
        ),
        (
            [0, 1, 2],
            [[0.5, 0.25, 0.25], [0.5, 0.5, 0.5], [1, 0, 0]],
            (
                "columns 'p_cat', 'p_dog', 'p_cow', line 3: predictions must add up to 1 over the classes, got 1.5 "
                "(1 such row); correct or remove them; name the column of every class"
            ),
        ),
        (
            [0, 1, 2],
            [[0.5, 0.25, 0.25], [0.5, 1.5, 0.0], [1, 0, 0]],
            (
                "column 'p_dog', line 3: prediction must be a number from 0 to 1, got '1.5' (1 such row); "
                "correct or remove them, or add --skip-bad-rows"
            ),
        ),
    ],
)
def test_what_is_wrong_with_columns_of_classes(
    outcomes: list[Any], vectors: list[list[float]], message: str, tmp_path: Path
) -> None:
    assert refusal(as_columns(tmp_path / "f.csv", outcomes, vectors=vectors), COLUMNS) == message


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            ['{"p": [0.5, 0.5], "y": 1}', '{"p": [0.5, 0.25, 0.25], "y": 1}'],
            (
                "column 'p', line 2: prediction must be a list of numbers from 0 to 1, of one length in all rows, got "
                "[0.5, 0.25, 0.25] (1 such row); correct or remove them, or add --skip-bad-rows"
            ),
        ),
        (
            ['{"p": [0.5, 0.5], "y": 1}', '{"p": [0.5, -0.5], "y": 1}', '{"p": null, "y": 1}'],
            (
                "column 'p', line 2: prediction must be a list of numbers from 0 to 1, of one length in all rows, got "
                "[0.5, -0.5] (2 such rows); correct or remove them, or add --skip-bad-rows"
            ),
        ),
        (['{"p": [1.0], "y": 0}'], "column 'p': prediction lists must hold two classes or more, got one"),
        (
            ['{"p": [0.5, 0.5], "y": 1}', '{"p": [0.5, 0.25], "y": 1}'],
            (
                "column 'p', line 2: predictions must add up to 1 over the classes, got 0.75 (1 such row); "
                "correct or remove them; name the column of every class"
            ),
        ),
    ],
)
def test_what_is_wrong_with_lists(lines: list[str], message: str, tmp_path: Path) -> None:
    (tmp_path / "f.jsonl").write_text("\n".join(lines), encoding="utf-8")
    assert refusal(tmp_path / "f.jsonl") == message


def test_a_column_named_twice(tmp_path: Path) -> None:
    path = as_columns(tmp_path / "f.csv", [1, 2, 0])
    assert refusal(path, ["p_cat", "p_cat"]) == (
        "--prediction names column 'p_cat' twice; name the column of each class once"
    )


@pytest.mark.parametrize(
    ("columns", "names"),
    [
        (["p_cat", "p_dog"], ("cat", "dog")),
        (["p0", "p1", "p10"], ("0", "1", "10")),
        (["p10", "p11"], ("10", "11")),
        (["cat", "car"], ("cat", "car")),
        (["class a", "class b"], ("a", "b")),
        (["p", "p1"], ("p", "p1")),
        (["0", "1"], ("0", "1")),
    ],
)
def test_what_tells_columns_apart(columns: list[str], names: tuple[str, ...]) -> None:
    assert class_names(columns) == names
