"""Features that are words, as maps take them."""

from pathlib import Path

import numpy as np
import pytest

from monitor.errors import InputError
from monitor.sources.feature_columns import MAX_WORDS, read_features, read_with_words
from monitor.sources.formats import MemoryTable
from monitor.sources.tables import Columns

AGE_AND_REGION = Columns(features=("age", "region"))


def rows(regions: list[str | None]) -> dict[str, list[object]]:
    n = len(regions)
    return {"p": [0.5] * n, "y": [1] * n, "age": list(range(n)), "region": list(regions)}


def test_each_usual_word_is_a_number() -> None:
    table, columns = read_with_words(MemoryTable(rows(["us", "eu", None, "eu"])), AGE_AND_REGION)
    assert columns.features == ("age", "region=eu", "region=us", "region=(empty)")
    assert table.features is not None
    assert table.features.tolist() == [[0, 0, 1, 0], [1, 1, 0, 0], [2, 0, 0, 1], [3, 1, 0, 0]]
    assert table.segments == {}


def test_the_names_lead_back_to_the_words_of_another_table(tmp_path: Path) -> None:
    """In a file where words look like numbers, or were never seen."""
    path = tmp_path / "later.csv"
    path.write_text("p,region,age\n0.1,7,1\n0.2,eu,2\n0.3,jp,3\n", encoding="utf-8")
    columns = Columns(features=("region=eu", "age", "region=7"))
    table = read_features(path, columns, labelled=False)
    assert table.features is not None
    assert table.features.tolist() == [[0, 1, 1], [1, 2, 0], [0, 3, 0]]
    with pytest.raises(InputError, match="no feature column 'land=eu'; columns are 'p', 'region', 'age'"):
        read_features(path, Columns(features=("land=eu",)), labelled=False)


def test_rare_words_have_no_number_of_their_own() -> None:
    words = [f"w{number}" for number in range(MAX_WORDS + 5) for _ in range(1 if number >= MAX_WORDS else 2)]
    table, columns = read_with_words(MemoryTable(rows([*words])), Columns(features=("region",)))
    assert columns.features == tuple(f"region=w{number}" for number in range(MAX_WORDS))
    assert table.features is not None
    assert table.features.sum(axis=1).tolist() == [1.0] * (2 * MAX_WORDS) + [0.0] * 5


def test_a_segment_may_be_a_feature_too() -> None:
    columns = Columns(segments=("region",), features=("region",))
    table, _ = read_with_words(MemoryTable(rows(["us", "eu"])), columns)
    assert table.segments["region"].values == ("us", "eu")
    assert table.features is not None
    np.testing.assert_array_equal(table.features, np.eye(2))


def test_numbers_are_as_they_were(tmp_path: Path) -> None:
    """A word among them is an error that names the place."""
    table, columns = read_with_words(MemoryTable(rows(["us"])), Columns(features=("age",)))
    assert columns.features == ("age",)
    assert table.features is not None
    assert table.features.tolist() == [[0.0]]
    path = tmp_path / "scores.jsonl"
    first = '{"p": 0.5, "y": 1, "age": 3}\n' * 70_000
    path.write_text(first + '{"p": 0.5, "y": 1, "age": "old"}\n', encoding="utf-8")
    with pytest.raises(InputError, match="column 'age', line 70001: feature must be a finite number, got 'old'"):
        read_with_words(path, Columns(features=("age",)))
