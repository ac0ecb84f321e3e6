"""`monitor apply`: a map on the predictions of a file."""

import csv
import gzip
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from scipy.special import expit

from monitor.maps import METHODS, RecalibrationMap, apply_map, fit_map
from monitor.maps.artifact import to_bytes
from monitor.scores.labelled import LabelledEvents
from tests.cli.command import inside, monitor, one_error_line
from tests.maps_of_refits import of_classes, overconfident

CSV = (
    'name,score,"notes, if any",region,f1,f2\r\n'
    'a,0.10,"said ""no"", twice",eu,1.50,2e0\r\n'
    "b,.5,,us,-1,0\r\n"
    "\r\n"
    "c,9e-1,\N{SNOWMAN},,0.25,-3\r\n"
)
P = [0.1, 0.5, 0.9]
REGION = ["eu", "us", ""]
FEATURES = [[1.5, 2.0], [-1.0, 0.0], [0.25, -3.0]]


def fitted(method: str) -> RecalibrationMap:
    return fit_map(METHODS[method], overconfident(), {})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Maps with and without what they say of their columns, and files."""
    path = tmp_path_factory.mktemp("apply")
    (path / "new.csv").write_bytes(CSV.encode())
    columns = {"prediction": ["score"], "features": ["f1", "f2"]}
    for method in ("beta", "lore", "group_wise_beta"):
        (path / f"{method}.arrow").write_bytes(to_bytes(fitted(method), {"columns": columns}))
        (path / f"{method}_of_service.arrow").write_bytes(to_bytes(fitted(method), {"id": "rc_1"}))
    (path / "classes.arrow").write_bytes(to_bytes(of_classes(), {"classes": ["cat", "dog", "cow"]}))
    (path / "damaged.arrow").write_bytes(to_bytes(fitted("beta"), {})[:-40])
    return path


def written(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


def expected(method: str) -> list[float]:
    values: list[float] = apply_map(fitted(method), P, features=FEATURES, segments={"region": REGION}).tolist()
    return values


@pytest.mark.parametrize("method", ["beta", "lore", "group_wise_beta"])
def test_a_csv_file_gets_one_more_column_and_is_otherwise_as_it_was(folder: Path, tmp_path: Path, method: str) -> None:
    target = tmp_path / "out.csv"
    done = inside("apply", f"{method}.arrow", "new.csv", "-o", str(target), cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    mean = np.mean(expected(method))
    assert done.stdout == (
        f"new.csv: 3 predictions by {method}, mean 50.0% before and {100 * mean:.1f}% after\nwrote {target}\n"
    )
    text = target.read_bytes().decode()
    assert [float(row["recalibrated"]) for row in written(text)] == expected(method)
    # Cut off the new column, and the old file is left, but for the empty line.
    lines = [line.rpartition(",")[0] for line in text.split("\r\n")]
    assert "\r\n".join(lines) == CSV.replace("\r\n\r\n", "\r\n")
    assert not list(tmp_path.glob("*.part"))


def test_text_goes_to_standard_output_unless_a_file_is_named(folder: Path) -> None:
    done = inside("apply", "beta.arrow", "new.csv", cwd=folder)
    assert [float(row["recalibrated"]) for row in written(done.stdout)] == expected("beta")
    # As bytes of a process of its own, too.
    whole = monitor("apply", "beta.arrow", "new.csv", cwd=folder)
    assert (whole.returncode, whole.stderr) == (0, "")
    assert whole.stdout.replace("\r\n", "\n") == done.stdout.replace("\r\n", "\n")


def test_json_lines_keep_their_spelling(folder: Path, tmp_path: Path) -> None:
    lines = ['{"score": 1.0e-1, "n": 12345678901234567890, "region": "eu"}', '  {"score":0.50,"region":"us"}  ', ""]
    lines += ['{"more": {"a": [1]}, "score": 0.9}']
    packed = tmp_path / "new.jsonl.gz"
    packed.write_bytes(gzip.compress("\n".join(lines).encode()))
    target = tmp_path / "out.jsonl.gz"
    done = inside("apply", "group_wise_beta.arrow", str(packed), "-o", str(target), "--column", "q", cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    found = gzip.decompress(target.read_bytes()).decode().splitlines()
    values = expected("group_wise_beta")
    assert found == [
        f'{{"score": 1.0e-1, "n": 12345678901234567890, "region": "eu", "q": {values[0]!r}}}',
        f'  {{"score":0.50,"region":"us", "q": {values[1]!r}}}',
        f'{{"more": {{"a": [1]}}, "score": 0.9, "q": {values[2]!r}}}',
    ]
    twice = tmp_path / "twice.jsonl"
    twice.write_text('{"score": 0.5}\n' * 1200 + '{"score": 0.5, "q": 1}\n', encoding="utf-8")
    done = inside("apply", "beta.arrow", str(twice), "-o", str(tmp_path / "t.jsonl"), "--column", "q", cwd=folder)
    assert "has a key 'q' already" in one_error_line(done)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["new.jsonl.gz", "out.jsonl.gz", "twice.jsonl"]


def test_parquet_keeps_its_types(folder: Path, tmp_path: Path) -> None:
    n = 70_000  # more than are written at a time
    rng = np.random.default_rng(4)
    score = rng.random(n)
    table = pa.table(
        {
            "score": score,
            "day": pa.array((np.arange(n) % 30).astype(np.int32)).cast(pa.date32()),
            "region": pa.array(rng.choice(["eu", "us"], n)).dictionary_encode(),
            "tags": [["x", None]] * n,
        }
    ).replace_schema_metadata({"by": "hand"})
    pq.write_table(table, tmp_path / "new.parquet")
    done = inside("apply", "group_wise_beta.arrow", str(tmp_path / "new.parquet"), "-o", "-.parquet", cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    found = pq.read_table(folder / "-.parquet")
    assert found.drop_columns(["recalibrated"]).equals(table)
    assert found.schema.metadata[b"by"] == b"hand"
    after = apply_map(fitted("group_wise_beta"), score, segments={"region": table["region"].to_pylist()})
    assert found["recalibrated"].to_pylist() == after.tolist()


def test_a_file_may_be_replaced(folder: Path, tmp_path: Path) -> None:
    same = tmp_path / "same.csv"
    same.write_text(CSV, encoding="utf-8", newline="")
    assert inside("apply", "beta.arrow", str(same), "-o", str(same), cwd=folder).returncode == 0
    assert [float(row["recalibrated"]) for row in written(same.read_bytes().decode())] == expected("beta")
    done = inside("apply", "beta.arrow", str(same), "-o", str(same), cwd=folder)
    assert one_error_line(done) == f"{same}: has a column 'recalibrated' already; name another one with --column"
    assert inside("apply", "beta.arrow", str(same), "-o", str(same), "--column", "b", cwd=folder).returncode == 0
    assert [row["b"] for row in written(same.read_text())] == [row["recalibrated"] for row in written(same.read_text())]


def test_columns_of_a_map_of_a_service_are_named(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.csv"
    other.write_text(CSV.replace("score", "P").replace("region", "Land").replace("f1,f2", "x,y"), encoding="utf-8")
    lore = inside("apply", "lore_of_service.arrow", str(other), "--feature", "x", "--feature", "y", cwd=folder)
    assert [float(row["recalibrated"]) for row in written(lore.stdout)] == expected("lore")
    groups = inside("apply", "group_wise_beta_of_service.arrow", str(other), "--segment", "Land", cwd=folder)
    assert [float(row["recalibrated"]) for row in written(groups.stdout)] == expected("group_wise_beta")
    # What a map does not need is not read.
    beta = inside("apply", "beta_of_service.arrow", str(other), "--feature", "x", "--segment", "gone", cwd=folder)
    assert [float(row["recalibrated"]) for row in written(beta.stdout)] == expected("beta")


def test_many_classes_have_a_column_each_or_one_of_lists(folder: Path, tmp_path: Path) -> None:
    vectors = np.random.default_rng(1).dirichlet([1.0, 1.0, 1.0], 50)
    after = apply_map(of_classes(), vectors)
    text = "p_cat,p_dog,p_cow\n" + "".join(",".join(map(repr, row)) + "\n" for row in vectors.tolist())
    (tmp_path / "pets.csv").write_text(text, encoding="utf-8")
    each = [part for name in ("p_cat", "p_dog", "p_cow") for part in ("--prediction", name)]
    done = inside("apply", "classes.arrow", str(tmp_path / "pets.csv"), *each, cwd=folder)
    rows = written(done.stdout)
    assert list(rows[0])[3:] == ["recalibrated_cat", "recalibrated_dog", "recalibrated_cow"]
    assert [[float(row[f"recalibrated_{name}"]) for name in ("cat", "dog", "cow")] for row in rows] == after.tolist()
    pq.write_table(pa.table({"p": list(vectors)}), tmp_path / "pets.parquet")
    target = tmp_path / "out.parquet"
    assert inside("apply", "classes.arrow", str(tmp_path / "pets.parquet"), "-o", str(target), cwd=folder).stderr == ""
    assert pq.read_table(target)["recalibrated"].to_pylist() == after.tolist()
    (tmp_path / "pets.jsonl").write_text(
        "".join(json.dumps({"p": row}) + "\n" for row in vectors.tolist()), encoding="utf-8"
    )
    lines = inside("apply", "classes.arrow", str(tmp_path / "pets.jsonl"), cwd=folder).stdout.splitlines()
    assert [json.loads(line)["recalibrated"] for line in lines] == after.tolist()
    swapped = [each[2], each[3], each[0], each[1], *each[4:]]
    done = inside("apply", "classes.arrow", str(tmp_path / "pets.csv"), *swapped, cwd=folder)
    assert one_error_line(done) == (
        "the map is for the classes cat, dog, cow, and these are dog, cat, cow; name the columns of --prediction in "
        "that order"
    )


def test_a_file_without_rows_stays_without(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "none.csv").write_text("score,region,f1,f2\n", encoding="utf-8")
    for method in ("beta", "lore", "group_wise_beta"):
        done = inside("apply", f"{method}.arrow", str(tmp_path / "none.csv"), cwd=folder)
        assert (done.returncode, done.stdout) == (0, "score,region,f1,f2,recalibrated\n")


@pytest.mark.parametrize(
    ("arguments", "status", "line"),
    [
        (["/dev/zero", "new.csv"], 2, "/dev/zero: the map cannot be read: it is larger than 257 MiB"),
        (["gone.arrow", "new.csv"], 2, "gone.arrow: the map cannot be read: No such file or directory"),
        (["beta.arrow", "gone.csv"], 2, "gone.csv: no such file; name a file that is there"),
        (["beta.arrow", "gone.orc"], 2, "gone.orc: .orc is read and not written: convert it to Parquet or CSV"),
        (["beta.arrow", "new.csv", "-o", "new.csv.zst"], 2, "--output: new.csv.zst is written plain or packed as .gz"),
        (["beta.arrow", "beta.arrow"], 2, "beta.arrow: files ending in .csv, .tsv, .parquet"),
        (["new.csv", "new.csv"], 1, "new.csv: this is no map, or a damaged one"),
        (["damaged.arrow", "new.csv"], 1, "damaged.arrow: this is no map, or a damaged one"),
        (["beta.arrow", "new.csv", "--prediction", "q"], 2, "new.csv: no prediction column 'q'; columns are 'name', "),
        (
            ["beta.arrow", "new.csv", "--prediction", "name"],
            2,
            "new.csv: column 'name', line 2: prediction must be a num",
        ),
        (
            ["lore_of_service.arrow", "new.csv"],
            2,
            "the map needs 2 features a row, and none is named: name the columns",
        ),
        (
            ["lore.arrow", "new.csv", "--feature", "f1"],
            2,
            "the map needs 2 features a row, and --feature names 1: name the columns of those that it was fitted on (f",
        ),
        (["group_wise_beta.arrow", "new.csv", "--segment", "s"], 2, "new.csv: no segment column 's'; columns are"),
        (
            ["classes.arrow", "new.csv", "--prediction", "score"],
            2,
            "the map is for predictions of 3 classes, and these",
        ),
        (["beta.arrow", "new.csv", "-o", "out.parquet"], 2, "--output: out.parquet must be of the format of new.csv"),
        (["beta.arrow", "new.csv", "-o", "gone/out.csv"], 2, "--output: there is no directory gone; make it first"),
        (["beta.arrow", "new.csv", "-o", "."], 2, "--output: . is a directory; name a file in it"),
        (["beta.arrow", "new.csv", "--column", "name"], 2, "new.csv: has a column 'name' already; name another one"),
        (["beta.arrow", "new.csv", "--column", " "], 2, "--column must be a name, got an empty one"),
        (["beta.arrow", "some.parquet"], 2, "some.parquet is Parquet, which no terminal shows: name the file to write"),
    ],
)
def test_what_cannot_be_done_is_one_line(folder: Path, arguments: list[str], status: int, line: str) -> None:
    done = inside("apply", *arguments, cwd=folder)
    assert done.returncode == status
    assert one_error_line(done).startswith(line)
    assert done.stdout == ""


def test_a_guessed_column_is_kept_where_another_would_be_guessed_first(tmp_path: Path) -> None:
    rng = np.random.default_rng(19)
    z = rng.normal(0.0, 1.5, 3000)
    score, came = expit(2.0 * z), rng.random(3000) < expit(z)
    pq.write_table(pa.table({"score": score, "label": came}), tmp_path / "old.parquet")
    arguments = ["old.parquet", "--method", "temperature", "--draws", "0", "-o", "map.arrow"]
    assert inside("recalibrate", *arguments, cwd=tmp_path).returncode == 0
    (tmp_path / "new.csv").write_text("p,score\n0.5,0.9\n", encoding="utf-8")
    (row,) = written(inside("apply", "map.arrow", "new.csv", cwd=tmp_path).stdout)
    of = LabelledEvents.of(score[:2100], came[:2100])
    again = apply_map(fit_map(METHODS["temperature"], of), [0.9])
    assert float(row["recalibrated"]) == pytest.approx(float(again[0]))
    (tmp_path / "other.csv").write_text("p\n0.5\n", encoding="utf-8")
    done = inside("apply", "map.arrow", "other.csv", cwd=tmp_path)
    assert done.returncode == 2
    assert one_error_line(done).startswith("other.csv: no prediction column 'score'; columns are 'p'")


def test_a_map_that_was_refitted_finds_its_columns_again(tmp_path: Path) -> None:
    rng = np.random.default_rng(18)
    z, age = rng.normal(0.0, 1.2, 3000), rng.normal(0.0, 1.0, 3000)
    table: dict[str, Any] = {"s": expit(2.0 * z), "came": rng.random(3000) < expit(z + age), "Age": age}
    pq.write_table(pa.table(table), tmp_path / "old.parquet")
    arguments = ["old.parquet", "--prediction", "s", "--outcome", "came", "--feature", "Age", "--method", "lore"]
    done = inside("recalibrate", *arguments, "--draws", "0", "-o", "map.arrow", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    new = "Age,s\n" + "".join(
        f"{a!r},{p!r}\n" for a, p in zip(age[:100].tolist(), table["s"][:100].tolist(), strict=True)
    )
    (tmp_path / "new.csv").write_text(new, encoding="utf-8")
    rows = written(inside("apply", "map.arrow", "new.csv", cwd=tmp_path).stdout)
    of = LabelledEvents.of(table["s"][:2100], table["came"][:2100], features=age[:2100, None])
    again = apply_map(fit_map(METHODS["lore"], of), table["s"][:100], features=age[:100, None])
    assert [float(row["recalibrated"]) for row in rows] == pytest.approx(again.tolist())


def test_groups_of_two_columns_are_crossed_from_the_refit_to_the_new_file(tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    z = rng.normal(0.0, 1.2, 8000)
    region, device = rng.choice(["eu", "us"], z.size), rng.choice(["phone", "desktop"], z.size)
    wrong = np.where(region == "us", 1.5, -1.5) * np.where(device == "phone", 1.0, -1.0)
    outcome = np.where(rng.random(z.size) < expit(z + wrong), "bad", "good")
    columns = {"z": z, "class": outcome, "region": np.where(rng.random(z.size) < 0.01, "", region), "device": device}
    pa.csv.write_csv(pa.table(columns), tmp_path / "old.csv")
    source = ["--prediction", "z", "--logits", "--outcome", "class", "--positive", "bad", "--draws", "0"]
    two = ["--segment", "region", "--segment", "device"]
    done = inside("recalibrate", "old.csv", *source, *two, "-o", "map.arrow", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "groups are those of region*device; --option segment=COLUMN takes one column" in done.stdout
    assert done.stdout.split("Take ")[1].startswith("group_wise_beta")
    crossed = inside("recalibrate", "old.csv", *source, "--segment", "region*device", "--json", cwd=tmp_path)
    assert json.loads(crossed.stdout)["best"] == "group_wise_beta"
    one = ["--method", "group_wise_beta", "--option", "segment=region"]
    done = inside("recalibrate", "old.csv", *source, *two, *one, cwd=tmp_path)
    assert "groups are those of region; --option" in done.stdout
    # The map knows its columns, and that they hold logits.
    assert inside("apply", "map.arrow", "old.csv", "-o", "new.csv", cwd=tmp_path).returncode == 0
    after = np.array([float(row["recalibrated"]) for row in written((tmp_path / "new.csv").read_text("utf-8"))])
    known = np.array(columns["region"]) != ""
    np.testing.assert_allclose(after[known], expit(z + wrong)[known], atol=0.1)
    # One of an empty field is served by the map of all.
    assert abs(after[~known] - expit(z + wrong)[~known]).mean() > 0.1


def test_bad_rows_are_left_out_of_a_refit(tmp_path: Path) -> None:
    rng = np.random.default_rng(9)
    z = rng.normal(0.0, 1.2, 2000)
    lines = [f"{p:.5f},{y:d}" for p, y in zip(expit(2.0 * z), rng.random(z.size) < expit(z), strict=True)]
    lines[3] = "12%,1"
    (tmp_path / "f.csv").write_text("\n".join(["p,y", *lines]), encoding="utf-8")
    arguments = ["recalibrate", "f.csv", "--method", "beta", "--draws", "0"]
    assert one_error_line(inside(*arguments, cwd=tmp_path)).endswith("percent signs: 0.12 in place of 12%")
    done = inside(*arguments, "--skip-bad-rows", cwd=tmp_path)
    assert done.returncode == 0
    assert "mind: 1 of 2,000 rows are left out, which --skip-bad-rows asks for" in done.stdout
