"""Files as people have them: other spellings of outcomes, logits, rows that are bad."""

import gzip
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from scipy.special import expit, softmax

from monitor.errors import InputError
from monitor.sources.tables import Columns, EventTable, SegmentColumn, read_table


def written(path: Path, content: str) -> Path:
    path.write_text(content, encoding="utf-8")
    return path


@pytest.mark.parametrize("positive", ["bad", " BAD "])
def test_the_positive_may_be_named(tmp_path: Path, positive: str) -> None:
    path = written(tmp_path / "f.csv", "p,y\n.5,bad\n.25,good\n.1,\n.2,NA\n.3,bad\n.4,so so\n")
    table = read_table(path, Columns(positive=positive))
    assert table.outcome.tolist() == [1, 0, -1, -1, 1, 0]
    assert table.notes[-1] == "outcome 'bad' is 1, and 'good', 'so so' is 0"


def test_the_positive_may_be_a_number_or_a_boolean(tmp_path: Path) -> None:
    for values, positive in (([1.0, -1.0, None], "1"), ([2, 1, 1], "2"), ([True, False, None], "true")):
        pa.parquet.write_table(pa.table({"p": [0.5, 0.5, 0.5], "y": values}), tmp_path / "f.parquet")
        assert read_table(tmp_path / "f.parquet", Columns(positive=positive)).outcome[:2].tolist() == [1, 0]


def test_a_positive_that_stands_nowhere_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "f.csv", "p,y\n.5,bad\n.25,good\n")
    with pytest.raises(InputError, match=r"column 'y': no outcome is 'bda', as --positive has it; there are 'bad', 'g"):
        read_table(path, Columns(positive="bda"))


def test_logits_become_probabilities(tmp_path: Path) -> None:
    path = written(tmp_path / "f.csv", "p,y\n-2.5,1\n0,0\n40,1\n-inf,0\n")
    assert read_table(path, Columns(logits=True)).prediction.tolist() == expit([-2.5, 0.0, 40.0, -np.inf]).tolist()
    vectors = np.array([[3.0, -1.0, 0.5], [900.0, 0.0, -900.0]])
    path = written(tmp_path / "c.csv", "a,b,c,y\n3,-1,.5,a\n900,0,-900,b\n")
    expected = softmax(vectors, axis=1).tolist()
    assert read_table(path, Columns(prediction=["a", "b", "c"], logits=True)).prediction.tolist() == expected
    path = written(tmp_path / "v.csv", 'p,y\n"[3,-1,.5]",0\n"[900,0,-900]",1\n'.replace(",.5", ",0.5"))
    assert read_table(path, Columns(logits=True)).prediction.tolist() == expected


@pytest.mark.parametrize(
    ("content", "hint"),
    [
        ("p,y\n63.7%,1\n", "; write shares without percent signs: 0.637 in place of 63.7%"),
        ("p,y\n5 %,1\n", "; write shares without percent signs: 0.05 in place of 5 %"),
        ("p,y\n0.4,1\n63.7,0\n", "; divide percentages by 100"),
        ("p,y\n0.4,1\n-3.1,0\n", "; if they are logits, add --logits"),
        ("p,y\n1.7,1\n-.1,0\n", "; if they are logits, add --logits"),
        ("p,y\n1.0000001,1\n", ", got '1.0000001' (1 such row); correct or remove them, or add --skip-bad-rows"),
        ("p,y\n0.4,-1\n0.3,1\n", "; where labels are -1 and 1, add --positive 1"),
        ("p,y\n0.4,bad\n0.3,good\n", "; --positive says which value is 1, of 'bad', 'good'"),
        ("p,y\n0.4,1\n0.3,0\n.5,2\n", "(1 such row); correct or remove them, or add --skip-bad-rows"),
    ],
)
def test_errors_say_what_is_the_cause(tmp_path: Path, content: str, hint: str) -> None:
    with pytest.raises(InputError) as caught:
        read_table(written(tmp_path / "f.csv", content))
    assert str(caught.value).endswith(hint)


def test_a_number_that_is_too_large_by_a_little_is_shown_with_all_digits(tmp_path: Path) -> None:
    pa.parquet.write_table(pa.table({"p": [0.5, 1.0 + 2**-52], "y": [0, 1]}), tmp_path / "f.parquet")
    with pytest.raises(InputError, match=r"row 2: .*, got 1\.0000000000000002 \(1 such row\)"):
        read_table(tmp_path / "f.parquet")


def test_a_command_that_reads_predictions_alone_does_not_speak_of_leaving_rows_out(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"correct or remove them$"):
        read_table(written(tmp_path / "f.csv", "p\nx\n"), labelled=False)


LINE_8 = "line 8, got '3'"
DIRTY = (
    'p,y,w,s,"a\nb"\n'
    ".5,1,1,eu,1\n"
    ".5,1,1\n"  # line 4: too few fields
    "\n"
    "x,1,1,us,2\n"  # line 6
    ".25,0,1,eu,3\n"
    ",3,1,eu,4\n"  # line 8: two faults
    ".75,1,-1,us,5\n"
    "7,1,1,us,6\n"
    ".1,,1,us,7\n"
    ".1,1,1,1,1,1\n"
)


def test_bad_rows_are_left_out_counted_and_listed_by_reason(tmp_path: Path) -> None:
    path = written(tmp_path / "f.csv", DIRTY)
    table = read_table(path, Columns(weight="w", segments=["s"], skip_bad_rows=True), values=["a\nb"])
    assert table.prediction.tolist() == [0.5, 0.25, 0.1]
    assert table.outcome.tolist() == [1, 0, -1]
    assert table.weight is not None
    assert table.weight.tolist() == [1.0, 1.0, 1.0]
    assert [table.segments["s"].values[code] for code in table.segments["s"].codes] == ["eu", "eu", "us"]
    numbers = table.values["a\nb"]
    assert isinstance(numbers, np.ndarray)
    assert numbers.tolist() == [1.0, 3.0, 7.0]
    assert [line.partition("; the first is ")[::2] for line in table.cautions[:5]] == [
        ("6 of 9 rows are left out, which --skip-bad-rows asks for", ""),
        ("2 rows left out: rows must have 5 fields", "line 4, got 3"),
        ("3 rows left out: column 'p': prediction must be a number from 0 to 1", "line 6, got 'x'"),
        ("1 row left out: column 'y': outcome must be 0 or 1 (or false/true, no/yes, or empty if unknown)", LINE_8),
        ("1 row left out: column 'w': weight must be a finite number of at least 0", "line 9, got '-1'"),
    ]


def test_without_it_the_same_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"Expected 5 columns, got 3"):
        read_table(written(tmp_path / "f.csv", DIRTY), Columns(weight="w"))


def same(first: EventTable, second: EventTable) -> bool:
    predictions, outcomes = (first.prediction, second.prediction), (first.outcome, second.outcome)
    return all(np.array_equal(*pair) for pair in (predictions, outcomes))


def test_every_format_and_role_leaves_bad_rows_out(tmp_path: Path) -> None:
    good = read_table(written(tmp_path / "good.csv", "p,y\n.5,1\n.25,0\n"))
    lines = '{"p":0.5,"y":1}\n[1]\n\n{"p":7,"y":1}\n{"p":0.25,"y":0}\n{"p":0.5,\n'
    table = read_table(written(tmp_path / "f.jsonl", lines), Columns(skip_bad_rows=True))
    assert same(table, good)
    assert table.cautions[1].startswith("2 rows left out: lines must hold a JSON object; the first is line 2: Expected")
    assert table.cautions[2].endswith("from 0 to 1; the first is line 4, got 7")
    (tmp_path / "f.csv.gz").write_bytes(
        gzip.compress(
            b"p,y,t,id,f\n.5,1,2026-01-01,a,1\n.3,1,noon,b,1\n.25,0,2026-01-02,c,2\n.4,1,2026-01-03,a,3\n.4,1,2026-01-03,,3\n.4,1,2026-01-03,e,x\n"
        )
    )
    table = read_table(tmp_path / "f.csv.gz", Columns(time="t", id="id", features=["f"], skip_bad_rows=True))
    assert same(table, good)
    assert table.time_ms is not None
    assert (table.time_ms[1] - table.time_ms[0]) == 86_400_000
    assert table.ids is not None
    assert table.ids.to_pylist() == ["a", "c"]
    assert "1 row left out: column 'id': id must occur in one row only; the first is line 5, got 'a'" in table.cautions
    pa.parquet.write_table(pa.table({"p": [0.5, None, 0.25], "y": [1, 1, 0]}), tmp_path / "f.parquet")
    assert same(read_table(tmp_path / "f.parquet", Columns(skip_bad_rows=True)), good)


def test_rows_of_many_classes_are_left_out_too(tmp_path: Path) -> None:
    path = written(tmp_path / "f.csv", "a,b,y\n.5,.5,a\n.5,.4,a\n.25,.75,b\n2,.5,b\n.5,.5,c\n")
    table = read_table(path, Columns(prediction=["a", "b"], skip_bad_rows=True), of_classes=True)
    assert table.prediction.tolist() == [[0.5, 0.5], [0.25, 0.75]]
    assert table.outcome.tolist() == [0, 1]
    assert table.cautions[0].startswith("3 of 5 rows are left out")
    lists = '{"p":[0.5,0.5],"y":0}\n{"p":[0.5],"y":0}\n{"p":[0.5,0.25],"y":0}\n{"p":[0.25,0.75],"y":1}'
    table = read_table(written(tmp_path / "f.jsonl", lists), Columns(skip_bad_rows=True))
    assert (table.prediction.tolist(), table.outcome.tolist()) == ([0.5, 0.75], [0, 1])


def test_a_file_of_bad_rows_alone_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"no row is left without a bad value: 2 rows left out: column 'p': .* got '63'"
    ):
        read_table(written(tmp_path / "f.csv", "p,y\n63,1\n7,0\n"), Columns(skip_bad_rows=True))


def test_columns_of_any_kind(tmp_path: Path) -> None:
    path = written(
        tmp_path / "f.csv", "p,y,age,zip,region,none,w\n.5,1,30,01234,eu,,1\n.5,0,n/a,10000,,,2\n.5,0,1e2,3,us,,3\n"
    )
    table = read_table(path, Columns(weight="w"), other_values=True)
    assert list(table.values) == ["age", "zip", "region", "none"]
    age, zipcode, region, none = table.values.values()
    assert isinstance(age, np.ndarray)
    assert isinstance(none, np.ndarray)
    np.testing.assert_array_equal(age, [30.0, np.nan, 100.0])
    assert np.isnan(none).all()
    assert isinstance(zipcode, SegmentColumn)
    assert zipcode.values == ("01234", "10000", "3")
    assert isinstance(region, SegmentColumn)
    assert [region.values[code] for code in region.codes] == ["eu", "(empty)", "us"]


def test_crossed_segments_read_their_columns(tmp_path: Path) -> None:
    path = written(tmp_path / "f.csv", "p,y,a,b,c*d\n.5,1,1,2,3\n")
    assert list(read_table(path, Columns(segments=["a*b", "b", "c*d"])).segments) == ["a", "b", "c*d"]
    with pytest.raises(InputError, match="no segment column 'z'; columns are"):
        read_table(path, Columns(segments=["a*z"]))
