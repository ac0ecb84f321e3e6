import bz2
import gzip
import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import orc

from monitor.errors import InputError
from monitor.sources.formats import open_table
from monitor.sources.tables import Columns, read_table
from tests.long import examples


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def refusal(path: Path, *, labelled: bool = True, **columns: Any) -> str:
    with pytest.raises(InputError) as caught:
        read_table(path, Columns(**columns), labelled=labelled)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    return message.removeprefix(f"{path}: ")


ROWS: list[dict[str, Any]] = [
    {"p": 0.5, "y": 1, "ts": "2026-11-20T10:00:00Z", "region": "eu"},
    {"p": 0.25, "y": 0, "ts": "2026-11-20T12:00:00+02:00", "region": "NA"},
    {"p": 1.0, "y": None, "ts": "2026-11-20T10:00:00.250Z", "region": None},
]


def as_csv(path: Path) -> Path:
    fields = [[("" if value is None else str(value)) for value in row.values()] for row in ROWS]
    return written(path / "rows.csv", "\n".join(",".join(line) for line in [list(ROWS[0]), *fields]) + "\n")


def as_gzipped_csv(path: Path) -> Path:
    packed = path / "rows.csv.gz"
    packed.write_bytes(gzip.compress(as_csv(path).read_bytes()))
    return packed


def as_csv_of_two_bzip2_streams(path: Path) -> Path:
    whole, packed = as_csv(path).read_bytes(), path / "rows.csv.bz2"
    packed.write_bytes(bz2.compress(whole[:30]) + bz2.compress(whole[30:]))
    return packed


def as_csv_of_two_zstd_frames(path: Path) -> Path:
    whole, packed = as_csv(path).read_bytes(), path / "rows.csv.zst"
    packed.write_bytes(zstandard.compress(whole[:30]) + zstandard.compress(whole[30:]))
    return packed


def as_zstd_json_lines(path: Path) -> Path:
    packed = path / "rows.jsonl.zst"
    packed.write_bytes(zstandard.compress(as_json_lines(path).read_bytes()))
    return packed


def as_bzip2_json_lines(path: Path) -> Path:
    packed = path / "rows.ndjson.bz2"
    packed.write_bytes(bz2.compress(as_json_lines(path).read_bytes()))
    return packed


def as_orc(path: Path) -> Path:
    orc.write_table(pa.Table.from_pylist(ROWS), path / "rows.orc")
    return path / "rows.orc"


def as_avro(path: Path) -> Path:
    types = {"p": "double", "y": ["null", "long"]}
    fields = [{"name": name, "type": types.get(name, ["null", "string"])} for name in ROWS[0]]
    schema = fastavro.parse_schema({"type": "record", "name": "Row", "fields": fields})
    with (path / "rows.avro").open("wb") as file:
        fastavro.writer(file, schema, ROWS, codec="deflate")
    return path / "rows.avro"


def as_tsv(path: Path) -> Path:
    return written(path / "rows.tsv", as_csv(path).read_text().replace(",", "\t"))


def as_json_lines(path: Path) -> Path:
    # An unknown outcome is as good left out as null, and lines may be empty.
    lines = [json.dumps({key: value for key, value in row.items() if value is not None}) for row in ROWS]
    return written(path / "rows.jsonl", "\n\n".join(lines))


def as_gzipped_json_lines(path: Path) -> Path:
    packed = path / "rows.jsonl.gz"
    packed.write_bytes(gzip.compress(as_json_lines(path).read_bytes()))
    return packed


def as_parquet(path: Path) -> Path:
    pq.write_table(pa.Table.from_pylist(ROWS), path / "rows.parquet")
    return path / "rows.parquet"


@pytest.mark.parametrize(
    "write",
    [
        *(as_csv, as_gzipped_csv, as_csv_of_two_bzip2_streams, as_csv_of_two_zstd_frames, as_tsv),
        *(as_json_lines, as_gzipped_json_lines, as_bzip2_json_lines, as_zstd_json_lines),
        *(as_parquet, as_orc, as_avro),
    ],
    ids=lambda f: f.__name__,
)
def test_every_format_says_the_same(write: Callable[[Path], Path], tmp_path: Path) -> None:
    table = read_table(write(tmp_path), Columns(segments=["region"]))
    assert len(table) == 3
    assert table.prediction.tolist() == [0.5, 0.25, 1.0]
    assert table.outcome.tolist() == [1, 0, -1]
    assert table.time_ms is not None
    assert table.time_ms.tolist() == [1795168800000, 1795168800000, 1795168800250]
    # NA is a region here, and an empty field is not.
    assert table.segments["region"].values == ("eu", "NA", "(empty)")
    assert table.segments["region"].codes.tolist() == [0, 1, 2]
    assert table.notes == (
        "prediction read from column 'p'",
        "outcome read from column 'y'",
        "time read from column 'ts'",
    )


@pytest.mark.parametrize(
    ("header", "prediction", "outcome", "time"),
    [
        ("id,score,label,timestamp", "score", "label", "timestamp"),
        ("y_prob,y_true", "y_prob", "y_true", None),
        ("Probability,Target,Date", "Probability", "Target", "Date"),
        ("y_pred,y,score", "score", "y", None),
        ("proba,outcome,ts,time", "proba", "outcome", "ts"),
        ("customer,churn_probability,churned,snapshot_date", "churn_probability", "churned", "snapshot_date"),
        ("Fraud Score,is_fraud,scored_at,birth_date", "Fraud Score", "is_fraud", "scored_at"),
        ("default_proba,defaulted,birth_date", "default_proba", "defaulted", None),
        ("model_score,coord_y,final_label", "model_score", "final_label", None),
    ],
)
def test_columns_with_usual_names_are_found_and_said(
    header: str, prediction: str, outcome: str, time: str | None, tmp_path: Path
) -> None:
    values = {prediction: "0.5", outcome: "1", time: "2026-11-20", "birth_date": "1980-01-02"}
    line = ",".join(values.get(name, "x") for name in header.split(","))
    table = read_table(written(tmp_path / "f.csv", f"{header}\n{line}\n"))
    assert table.prediction.tolist() == [0.5]
    assert table.outcome.tolist() == [1]
    assert (table.time_ms is None) == (time is None)
    assert any(note.startswith(f"prediction read from column {prediction!r}") for note in table.notes)
    assert any(note.startswith(f"outcome read from column {outcome!r}") for note in table.notes)


def test_a_choice_between_several_is_said(tmp_path: Path) -> None:
    table = read_table(written(tmp_path / "f.csv", "p,y_pred,y\n.5,1,1\n"))
    assert table.notes[0] == "prediction read from column 'p' (not from 'y_pred'; --prediction chooses another)"


def test_named_columns_are_taken_without_a_word(tmp_path: Path) -> None:
    path = written(tmp_path / "f.csv", "p,q,y,z\n.5,.25,1,0\n")
    table = read_table(path, Columns(prediction=["q"], outcome="z"))
    assert (table.prediction.tolist(), table.outcome.tolist(), table.notes) == ([0.25], [0], ())


def test_a_segment_column_is_not_guessed_to_be_the_outcome(tmp_path: Path) -> None:
    path = written(tmp_path / "f.csv", "p,label,target\n.5,gold,1\n")
    table = read_table(path, Columns(segments=["label"]))
    assert table.outcome.tolist() == [1]
    assert table.segments["label"].values == ("gold",)


@pytest.mark.parametrize(
    ("words", "outcome"),
    [
        (["1", "0", ""], [1, 0, -1]),
        (["1.0", "0.0", "NaN"], [1, 0, -1]),
        (["true", "False", "null"], [1, 0, -1]),
        (["Yes", "no", "n/a"], [1, 0, -1]),
        (["t", "f", "NA"], [1, 0, -1]),
        ([" 1", "0 ", "1e0"], [1, 0, 1]),
    ],
)
def test_spellings_of_outcomes(words: list[str], outcome: list[int], tmp_path: Path) -> None:
    path = written(tmp_path / "f.csv", "p,y\n" + "".join(f".5,{word}\n" for word in words))
    assert read_table(path).outcome.tolist() == outcome


@pytest.mark.parametrize(
    "array",
    [
        pa.array([1, 0, None], pa.int8()),
        pa.array([1.0, 0.0, float("nan")]),
        pa.array([True, False, None]),
        pa.array(["yes", "no", None]).dictionary_encode(),
    ],
    ids=lambda array: str(array.type),
)
def test_types_of_outcomes(array: pa.Array, tmp_path: Path) -> None:
    pq.write_table(pa.table({"p": pa.array([0.5, 0.25, 0.75], pa.float32()), "y": array}), tmp_path / "f.parquet")
    table = read_table(tmp_path / "f.parquet")
    assert table.outcome.tolist() == [1, 0, -1]
    assert table.prediction.tolist() == [0.5, 0.25, 0.75]


@pytest.mark.parametrize(
    ("array", "milliseconds"),
    [
        (pa.array([1795168800000]), 1795168800000),
        (pa.array([1795168800]), 1795168800000),
        (pa.array([1795168800.25]), 1795168800250),
        (pa.array(["1795168800000"]), 1795168800000),
        (pa.array(["2026-11-20 10:00:00"]), 1795168800000),
        (pa.array(["2026-11-20T10:00:00.123456789Z"]), 1795168800123),
        (pa.array([1795168800000], pa.timestamp("ms")), 1795168800000),
        (pa.array([1795168800000000250], pa.timestamp("ns", "Europe/Berlin")), 1795168800000),
        (pa.array([20777], pa.date32()), 20777 * 86_400_000),
    ],
    ids=str,
)
def test_spellings_of_times(array: pa.Array, milliseconds: int, tmp_path: Path) -> None:
    pq.write_table(pa.table({"p": [0.5], "y": [1], "when": array}), tmp_path / "f.parquet")
    table = read_table(tmp_path / "f.parquet", Columns(time="when"))
    assert table.time_ms is not None
    assert table.time_ms.tolist() == [milliseconds]


def test_several_spellings_of_times_in_one_column(tmp_path: Path) -> None:
    path = written(tmp_path / "f.csv", "p,y,ts\n.5,1,2026-11-20T10:00:00Z\n.5,1,2026-11-20 10:00:01\n")
    table = read_table(path)
    assert table.time_ms is not None
    assert table.time_ms.tolist() == [1795168800000, 1795168801000]


def test_seconds_are_said(tmp_path: Path) -> None:
    path = written(tmp_path / "f.csv", "p,y,at\n.5,1,1795168800\n")
    assert "time read from column 'at', taken as seconds since the epoch" in read_table(path, Columns(time="at")).notes


def test_a_guessed_time_that_is_none_is_left_out(tmp_path: Path) -> None:
    path = written(tmp_path / "f.csv", "p,y,time\n.5,1,noon\n")
    table = read_table(path)
    assert table.time_ms is None
    assert "column 'time' holds values that are not times, so it is left out" in table.notes
    assert refusal(path, time="time") == (
        "column 'time', line 2: time must be RFC 3339 or milliseconds since the epoch, got 'noon' (1 such row); "
        "correct or remove them, or add --skip-bad-rows"
    )


def test_classes_in_place_of_probabilities_are_said(tmp_path: Path) -> None:
    table = read_table(written(tmp_path / "f.csv", "y_pred,y\n1,1\n0,1\n"))
    assert "every prediction is 0 or 1: are these classes, not probabilities?" in table.cautions


NUMBER = "prediction must be a number from 0 to 1"
MEND = "correct or remove them, or add --skip-bad-rows"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("p,y\n.5,1\nabc,1\n.5,0\n1.5,0\n", f"column 'p', line 3: {NUMBER}, got 'abc' (2 such rows); {MEND}"),
        ("p,y\n.5,1\n,1\n", f"column 'p', line 3: {NUMBER}, got nothing (1 such row); {MEND}"),
        (
            "p,y\n83,1\n",
            f"column 'p', line 2: {NUMBER}, got '83' (1 such row); correct or remove them; divide percentages by 100",
        ),
        ("p,y\n-0.1,1\n", f"column 'p', line 2: {NUMBER}, got '-0.1' (1 such row); {MEND}"),
        ("p,p,y\n.5,.5,1\n", "column 'p' occurs twice in the header; rename one of them"),
        (
            "p,y\n.5,1\n.5,1,7\n",
            "cannot be read: CSV parse error: line 3: Expected 2 columns, got 3: .5,1,7; correct or remove that line",
        ),
        ("", "holds no table; its first line must name the columns"),
        ("\n\n", "holds no table; its first line must name the columns"),
    ],
)
def test_what_is_wrong_with_a_csv_file(text: str, message: str, tmp_path: Path) -> None:
    assert refusal(written(tmp_path / "f.csv", text)) == message


def test_a_hundred_thousand_columns_are_read_and_a_few_of_them_named(tmp_path: Path) -> None:
    names = [f"c{number}" for number in range(100_000)]
    path = written(tmp_path / "f.csv", f"p,{','.join(names)},y\n.5{',1' * len(names)},1\n")
    assert read_table(path).prediction.tolist() == [0.5]
    message = refusal(path, prediction=["q"])
    assert "columns are 'p', 'c0', " in message
    assert message.endswith("'c48', ...")


def test_a_header_longer_than_any_is_refused_by_its_length(tmp_path: Path) -> None:
    assert refusal(written(tmp_path / "f.csv", f"p,y{',x' * (1 << 21)}\n")) == (
        "its first line, which must name the columns, is longer than 4,194,304 characters: keep fewer columns, or "
        "convert it to Parquet"
    )
    assert "field larger than field limit" in refusal(written(tmp_path / "f.csv", f"p,y,{'x' * (1 << 20)}\n"))


def test_rows_of_megabytes_are_read_and_longer_ones_are_not(tmp_path: Path) -> None:
    lines = [f"{number / 300_000},{number % 2},short\n" for number in range(300_000)]
    for at in (1000, 200_000):
        lines[at] = f".5,1,{'x' * (3 << 20)}\n"
    table = read_table(written(tmp_path / "f.csv", "p,y,text\n" + "".join(lines)))
    assert table.prediction.tolist() == [float(line.split(",", 1)[0]) for line in lines]
    assert table.outcome.tolist() == [int(line.split(",", 2)[1]) for line in lines]
    lines[250_000] = f".5,1,{'x' * (5 << 20)}\n"
    assert "straddles two block boundaries" in refusal(written(tmp_path / "f.csv", "p,y,text\n" + "".join(lines)))


def test_parquet_is_held_a_row_group_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    rows = {"p": np.random.default_rng(1).random(1_000_000), "y": np.zeros(1_000_000, np.int8)}
    pq.write_table(pa.table(rows), path, row_group_size=20_000)
    before, most = pa.total_allocated_bytes(), 0
    for _ in open_table(path).pieces(["p", "y"]):
        most = max(most, pa.total_allocated_bytes() - before)
    assert 0 < most < path.stat().st_size / 2


def test_two_columns_of_one_name_in_parquet(tmp_path: Path) -> None:
    table = pa.Table.from_arrays([pa.array([0.5]), pa.array([1]), pa.array([0.75])], names=["p", "y", "p"])
    pq.write_table(table, tmp_path / "f.parquet")
    assert refusal(tmp_path / "f.parquet") == "has two columns 'p'; rename one of them"


def test_what_is_wrong_with_an_outcome(tmp_path: Path) -> None:
    assert refusal(written(tmp_path / "f.csv", "p,y\n.5,1\n.5,2\n.5,maybe\n.5,-1\n")) == (
        "column 'y', line 3: outcome must be 0 or 1 (or false/true, no/yes, or empty if unknown), got '2' "
        "(3 such rows); correct or remove them; --positive says which value is 1, of '1', '2', 'maybe', '-1'"
    )


def test_a_first_line_of_data_is_said(tmp_path: Path) -> None:
    said = refusal(written(tmp_path / "f.csv", "0.25,1\n.5,0\n"))
    assert said.endswith("columns are '0.25', '1'; the first line must name the columns")


def test_a_role_that_no_column_plays(tmp_path: Path) -> None:
    assert refusal(written(tmp_path / "f.csv", "id,y\n1,1\n")) == (
        "no column looks like the prediction (p, prediction, predictions, score, proba, ...); "
        "name it with --prediction; columns are 'id', 'y'"
    )
    assert refusal(written(tmp_path / "g.csv", "p,answer\n.5,1\n")) == (
        "no column looks like the outcome (y, outcome, outcomes, label, target, ...); "
        "name it with --outcome; columns are 'p', 'answer'"
    )


def test_a_column_a_class_is_seen(tmp_path: Path) -> None:
    said = refusal(written(tmp_path / "f.csv", "p_cat,p_dog,p_wild cat,animal\n.5,.25,.25,cat\n"))
    assert said.endswith(
        "; of many classes name the column of each: --prediction p_cat --prediction p_dog --prediction 'p_wild cat'"
    )
    many = ",".join(f"proba_{number}" for number in range(9))
    assert refusal(written(tmp_path / "g.csv", f"{many},animal\n")).endswith("--prediction proba_4 and so on")
    assert "of many classes" not in refusal(written(tmp_path / "h.csv", "p_cat,petal\n.5,1\n"))


def test_a_decimal_comma_is_seen(tmp_path: Path) -> None:
    said = refusal(written(tmp_path / "f.csv", "p;y\n0,5;1\n0,25;0\n"))
    assert said.endswith(
        "got '0,5' (2 such rows); correct or remove them; write numbers with a decimal point, not with a comma"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '{"p": 0.5, "y": 1}\n{"p": [0.5, 0.5], "y": 1}\n',
            f"column 'p', line 2: {NUMBER}, got '[0.5,0.5]' (1 such row); {MEND}",
        ),
        ('{"p": true, "y": 1}\n', f"column 'p', line 1: {NUMBER}, got True (1 such row); {MEND}"),
        ('{"p": 0.5, "y": 1}\n{"p": 0.5\n', "line 2 is not a JSON object: Input data was truncated"),
        (
            '[{"p": 0.5, "y": 1}]\n',
            "line 1 is not a JSON object: Expected `object`, got `array`; one JSON object a line is read, not one list",
        ),
    ],
)
def test_what_is_wrong_with_json_lines(text: str, message: str, tmp_path: Path) -> None:
    assert refusal(written(tmp_path / "f.jsonl", text)) == message


def test_a_column_that_is_not_there_names_those_that_are(tmp_path: Path) -> None:
    path = written(tmp_path / "f.csv", "p,y,region\n.5,1,eu\n")
    assert refusal(path, prediction=["q"]) == "no prediction column 'q'; columns are 'p', 'y', 'region'"
    assert refusal(path, time="at") == "no time column 'at'; columns are 'p', 'y', 'region'"
    with pytest.raises(InputError, match="no segment column 'country'; columns are 'p', 'y', 'region'"):
        read_table(path, Columns(segments=["country"]))


def test_bad_values_are_counted_across_pieces(tmp_path: Path) -> None:
    # Larger than one block of the CSV reader and one piece of the others.
    n = 300_000
    p = np.full(n, 0.123456789012)
    p[[200_000, 250_000, 299_999]] = 7.0
    pq.write_table(pa.table({"p": p, "y": np.ones(n, np.int8)}), tmp_path / "f.parquet")
    text = "p,y\n" + "".join(f"{value},1\n" for value in p)
    for path, place in ((tmp_path / "f.parquet", "row 200001:"), (written(tmp_path / "f.csv", text), "line 200002:")):
        message = refusal(path)
        assert place in message
        assert "(3 such rows)" in message


def test_progress_counts_rows(tmp_path: Path) -> None:
    n = 200_000
    pq.write_table(pa.table({"p": np.full(n, 0.5), "y": np.ones(n, np.int8)}), tmp_path / "f.parquet")
    seen: list[int] = []
    read_table(tmp_path / "f.parquet", progress=seen.append)
    assert len(seen) > 1
    assert seen == sorted(set(seen))
    assert seen[-1] == n


def test_a_header_alone_is_a_table_of_no_rows(tmp_path: Path) -> None:
    table = read_table(written(tmp_path / "f.csv", "p,y,ts,s\n"), Columns(segments=["s"]))
    assert len(table) == 0
    assert table.segments["s"].values == ()


def test_semicolons_and_a_byte_order_mark(tmp_path: Path) -> None:
    table = read_table(written(tmp_path / "f.csv", "\ufeffp;y\n.5;1\n"))
    assert table.prediction.tolist() == [0.5]


@pytest.mark.parametrize("name", ["rows.txt", "rows", "rows.parquet.gz", "rows.orc.zst", "rows.gz"])
def test_an_unknown_ending_names_the_known_ones(name: str, tmp_path: Path) -> None:
    assert refusal(written(tmp_path / name, "p,y\n.5,1\n")).startswith("files ending in .csv, .tsv, .parquet")


def test_rows_without_outcomes_are_read_where_none_are_needed(tmp_path: Path) -> None:
    file = written(tmp_path / "new.csv", "p,ts,y,f\n0.5,no time,no outcome,1.5\n0.25,,,2\n")
    table = read_table(file, Columns(features=("f",)), labelled=False)
    assert table.prediction.tolist() == [0.5, 0.25]
    assert table.features is not None
    assert table.features.tolist() == [[1.5], [2.0]]
    assert table.outcome.tolist() == [-1, -1]
    assert table.time_ms is None
    assert refusal(file, outcome="y", labelled=False).startswith("column 'y', line 2: outcome must be 0 or 1")


def test_what_is_no_file(tmp_path: Path) -> None:
    assert refusal(tmp_path / "gone.csv") == "no such file; name a file that is there"
    (tmp_path / "folder.csv").mkdir()
    assert refusal(tmp_path / "folder.csv") == "is a directory; name a file that is there"


@pytest.mark.parametrize("name", ["f.parquet", "f.csv.gz", "f.jsonl.gz", "f.csv.zst", "f.jsonl.bz2", "f.orc", "f.avro"])
def test_bytes_of_another_format(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"p,y\n.5,1\n")
    assert refusal(tmp_path / name).startswith("cannot be read: ")


@pytest.mark.parametrize(
    "write", [as_csv_of_two_bzip2_streams, as_csv_of_two_zstd_frames, as_zstd_json_lines, as_orc, as_avro]
)
def test_a_file_that_is_cut_off(write: Callable[[Path], Path], tmp_path: Path) -> None:
    file = write(tmp_path)
    file.write_bytes(file.read_bytes()[:-5])
    assert refusal(file).startswith("cannot be read: ")


def test_avro_without_its_extra_and_of_other_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "texts.avro"
    with file.open("wb") as stream:
        fastavro.writer(stream, fastavro.parse_schema("string"), ["a"])
    assert refusal(file) == "its rows must be records, got string"
    monkeypatch.setitem(sys.modules, "fastavro", None)
    assert refusal(file) == "Avro needs the extra 'avro': pip install 'calibration-monitor[avro]'"


def test_logical_types_of_avro_are_read(tmp_path: Path) -> None:
    fields = {
        "p": {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2},
        "y": "boolean",
        "ts": {"type": "long", "logicalType": "timestamp-micros"},
        "id": {"type": "string", "logicalType": "uuid"},
    }
    schema = {"type": "record", "name": "Row", "fields": [{"name": k, "type": of} for k, of in fields.items()]}
    key = UUID(int=7)
    row = {"p": Decimal("0.25"), "y": True, "ts": datetime(2026, 11, 20, 10, tzinfo=UTC), "id": key}
    with (tmp_path / "a.avro").open("wb") as file:
        fastavro.writer(file, fastavro.parse_schema(schema), [row])
    table = read_table(tmp_path / "a.avro", Columns(id="id"))
    assert (table.prediction.tolist(), table.outcome.tolist()) == ([0.25], [1])
    assert table.time_ms is not None
    assert table.time_ms.tolist() == [1795168800000]
    assert table.ids is not None
    assert table.ids.to_pylist() == [str(key)]


def test_a_cut_archive(tmp_path: Path) -> None:
    packed = gzip.compress(b"p,y\n" + b".5,1\n" * 1000)
    (tmp_path / "f.csv.gz").write_bytes(packed[: len(packed) // 2])
    assert refusal(tmp_path / "f.csv.gz").startswith("cannot be read: ")


@examples(20, 50)
@given(
    rows=st.lists(
        st.tuples(st.floats(0.0, 1.0), st.sampled_from([1, 0, None]), st.sampled_from(["a", "b b", 'q"', "c,d"])),
        min_size=1,
        max_size=50,
    )
)
def test_what_is_written_is_read(
    rows: list[tuple[float, int | None, str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("tables")
    columns: dict[str, list[Any]] = {
        "p": [row[0] for row in rows],
        "y": [row[1] for row in rows],
        "s": [row[2] for row in rows],
    }
    arrow = pa.table(
        {"p": pa.array(columns["p"], pa.float64()), "y": pa.array(columns["y"], pa.int8()), "s": columns["s"]}
    )
    pq.write_table(arrow, folder / "f.parquet")
    pa.csv.write_csv(arrow, folder / "f.csv")
    (folder / "f.jsonl").write_text("\n".join(json.dumps(row) for row in arrow.to_pylist()))
    for name in ("f.parquet", "f.csv", "f.jsonl"):
        table = read_table(folder / name, Columns(segments=["s"]))
        assert table.prediction.tolist() == columns["p"]
        assert table.outcome.tolist() == [-1 if y is None else y for y in columns["y"]]
        assert [table.segments["s"].values[code] for code in table.segments["s"].codes] == columns["s"]
