"""Columns that a table may have beside prediction and outcome, and where its messages point."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from monitor.errors import InputError
from monitor.sources.formats import open_table
from monitor.sources.outcome_rows import OutcomeColumns, OutcomePiece, read_outcomes
from monitor.sources.tables import FEW, Columns, read_table


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def refusal(path: Path, **columns: str | list[str]) -> str:
    with pytest.raises(InputError) as caught:
        read_table(path, Columns(**columns))  # type: ignore[arg-type]  # each test names columns of its own
    return str(caught.value).removeprefix(f"{path}: ")


def test_weights_ids_and_features_are_read(tmp_path: Path) -> None:
    path = written(tmp_path / "f.csv", "p,y,w,id,a,b\n.5,1,2,x,1,-3\n.25,0,0.5,y,1e3,0\n")
    table = read_table(path, Columns(weight="w", id="id", features=["b", "a"]))
    assert table.weight is not None
    assert table.weight.tolist() == [2.0, 0.5]
    assert table.ids is not None
    assert table.ids.to_pylist() == ["x", "y"]
    assert table.features is not None
    assert table.features.tolist() == [[-3.0, 1.0], [0.0, 1000.0]]
    bare = read_table(path)
    assert (bare.weight, bare.ids, bare.features, bare.classes) == (None, None, None, ())


def test_segments_of_bytes_are_their_text(tmp_path: Path) -> None:
    """And hexadecimal where they are none, such as digests; UUIDs are written as everywhere."""
    one = UUID("12345678-1234-5678-1234-567812345678")
    columns: dict[str, tuple[pa.Array, tuple[str, ...]]] = {
        "text": (pa.array([b"eu", b"us"]), ("eu", "us")),
        "digest": (pa.array([b"\xff\x00", b"\xfe\x01"], pa.binary(2)), ("ff00", "fe01")),
        "uuid": (pa.array([one.bytes, one.bytes], pa.uuid()), (str(one),)),
    }
    data = {"p": [0.5, 0.5], "y": [1, 0], **{name: array for name, (array, _) in columns.items()}}
    pq.write_table(pa.table(data), tmp_path / "f.parquet")
    table = read_table(tmp_path / "f.parquet", Columns(segments=[*columns]))
    for name, (_, texts) in columns.items():
        assert table.segments[name].values == texts, name


def test_ids_of_every_type(tmp_path: Path) -> None:
    for number, ids in enumerate((pa.array([7, 8]), pa.array(["7", "8"]), pa.array(["7", "8"]).dictionary_encode())):
        path = tmp_path / f"{number}.parquet"
        pq.write_table(pa.table({"p": [0.5, 0.5], "y": [1, 0], "id": ids}), path)
        found = read_table(path, Columns(id="id")).ids
        assert found is not None
        assert found.to_pylist() == ["7", "8"]


_UUIDS = ["1ad0a4c5-95f5-4b41-8b8e-42a4ee6f29dc", "000000c5-95f5-4b41-8b8e-42a4ee6f29dd"]
_BYTES = [UUID(text).bytes for text in _UUIDS]


@pytest.mark.parametrize(
    ("ids", "texts"),
    [
        (pa.array(_BYTES, pa.uuid()), _UUIDS),
        (pa.array([b"a1", b"\xc3\xa9"], pa.binary()), ["a1", "\u00e9"]),
        (pa.array([b"a1", b"b2"], pa.large_binary()), ["a1", "b2"]),
    ],
)
def test_ids_of_bytes_are_those_of_events(ids: pa.Array, texts: list[str], tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table({"p": [0.5, 0.5], "y": [1, 0], "id": ids}), path)
    assert values(read_table(path, Columns(id="id")).ids) == texts
    (piece,) = outcomes_of(path)
    assert [json.loads(event)["id"] for event in piece.events.values()] == texts


@pytest.mark.parametrize("kind", [pa.binary(), pa.binary(16), pa.large_binary()])
def test_ids_of_other_bytes_are_refused_by_name(kind: pa.DataType, tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table({"p": [0.5, 0.5], "y": [1, 0], "id": pa.array(_BYTES, kind)}), path)
    message = re.escape(
        f"column 'id': ids are bytes that are no text ({kind}); write them as the texts that the events"
    )
    with pytest.raises(InputError, match=message):
        read_table(path, Columns(id="id"))
    with pytest.raises(InputError, match=message):
        list(outcomes_of(path))


def outcomes_of(path: Path) -> Iterator[OutcomePiece]:
    columns = OutcomeColumns("id", "y", None, None)
    return read_outcomes(
        open_table(path), columns, "m", classes=(), lateness_ms=0, since=None, now_ms=1_700_000_000_000
    )


def values(ids: pa.ChunkedArray | None) -> list[str]:
    assert ids is not None
    texts: list[str] = ids.to_pylist()
    return texts


@pytest.mark.parametrize(
    ("role", "message"),
    [
        ("weight", "column 'x', line 3: weight must be a finite number of at least 0, got '-1' (2 such rows)"),
        ("id", "column 'x', line 5: id must occur in one row only, got '1' (1 such row)"),
        ("features", "column 'x', line 4: feature must be a finite number, got 'inf' (1 such row)"),
    ],
)
def test_what_is_wrong_with_them(role: str, message: str, tmp_path: Path) -> None:
    path = written(tmp_path / "f.csv", "p,y,x\n.5,1,1\n.5,1,-1\n.5,1,inf\n.5,1,1\n")
    assert refusal(path, **{role: ["x"] if role == "features" else "x"}).startswith(message)


def test_an_id_that_is_missing(tmp_path: Path) -> None:
    path = written(tmp_path / "f.csv", "p,y,id\n.5,1,a\n.5,1,\n")
    assert refusal(path, id="id").startswith("column 'id', line 3: id must be there, got nothing (1 such row)")


@pytest.mark.parametrize("role", ["weight", "id", "features", "segments"])
def test_a_column_that_is_not_there(role: str, tmp_path: Path) -> None:
    path = written(tmp_path / "f.csv", "p,y\n.5,1\n")
    columns = ["z"] if role in {"features", "segments"} else "z"
    assert refusal(path, **{role: columns}) == f"no {role.removesuffix('s')} column 'z'; columns are 'p', 'y'"


def test_lines_are_counted_as_editors_do(tmp_path: Path) -> None:
    # The note of the first row runs over three lines, and an empty line is no row.
    path = written(tmp_path / "f.csv", 'p,y,note\n.5,1,"a\nb\nc"\n\n.5,0,d\n7,0,e\n')
    assert refusal(path).startswith("column 'p', line 7: ")
    lines = written(tmp_path / "f.jsonl", '{"p": 0.5, "y": 1}\n\n{"p": 0.5, "y": 1}\n{"p": 7, "y": 1}\n')
    assert refusal(lines).startswith("column 'p', line 4: ")
    pq.write_table(pa.table({"p": [0.5, 7.0], "y": [1, 1]}), tmp_path / "f.parquet")
    assert refusal(tmp_path / "f.parquet").startswith("column 'p', row 2: ")


def test_a_line_that_cannot_be_found_is_a_row(tmp_path: Path) -> None:
    # The reader that counts lines refuses so long a field; the one that reads tables does not.
    path = written(tmp_path / "f.csv", f"p,y,note\n.5,1,{'x' * 200_000}\n7,0,e\n")
    assert refusal(path).startswith("column 'p', row 2: ")


def test_what_to_mind_is_said(tmp_path: Path) -> None:
    def cautions(rows: str) -> tuple[str, ...]:
        return read_table(written(tmp_path / "f.csv", f"p,y\n{rows}")).cautions

    assert cautions("") == ("the file has columns and no rows",)
    mixed = "".join(f"{p},{i % 2}\n" for i, p in enumerate(np.linspace(0.1, 0.9, FEW)))
    assert cautions(mixed) == ()
    assert cautions(mixed.partition("\n")[2]) == (
        f"only {FEW - 1} predictions have an outcome: with so few, only large errors are significant",
    )
    assert cautions(".4,1\n")[0].startswith("only 1 prediction has an outcome: with so few")
    assert cautions("0.3,1\n0.3,0\n" * FEW) == (
        "every prediction is 0.3: a report can only show whether they are right on average",
    )
    assert cautions(mixed.replace(",1\n", ",0\n")) == ("every outcome is 0: are outcomes of the other kind missing?",)
    assert cautions("1,1\n0,0\n" * FEW) == ("every prediction is 0 or 1: are these classes, not probabilities?",)
