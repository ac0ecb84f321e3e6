"""`monitor report` on data sets: exact while rows fit, on the grid beyond; text, JSON, page and Python say which."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import monitor
from monitor.errors import InputError
from tests.cli.command import inside, one_error_line
from tests.page.document import document_of, titles

ROWS = 8000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data sets")
    rng = np.random.default_rng(4)
    logit = rng.normal(0.0, 1.3, ROWS)
    columns = {
        "score": 1.0 / (1.0 + np.exp(-1.6 * logit)),
        "label": (rng.random(ROWS) < 1.0 / (1.0 + np.exp(-logit))).astype(np.int8),
        "ts": pa.array(1_770_000_000_000 + rng.integers(0, 10**9, ROWS), pa.timestamp("ms", "UTC")),
    }
    table = pa.table(columns)
    for number, region in enumerate(("eu", "us")):
        (path / "scores" / f"region={region}").mkdir(parents=True)
        pq.write_table(table.slice(4000 * number, 4000), path / "scores" / f"region={region}" / "part-0.parquet")
    pq.write_table(table, path / "scores.parquet")
    return path


def test_a_folder_that_fits_gives_the_report_of_one_file(folder: Path) -> None:
    reports = [inside("report", name, "--json", "--draws", "19", cwd=folder) for name in ("scores", "scores.parquet")]
    assert [done.returncode for done in reports] == [0, 0]
    of_folder, of_file = (json.loads(done.stdout) for done in reports)
    assert of_folder == of_file
    assert of_file["measured_on"] == "rows"
    assert {result["error_bound"] for result in of_file["measures"].values()} == {0.0}


def test_beyond_memory_text_json_and_page_say_that_cells_were_measured(folder: Path) -> None:
    command = ("report", "scores", "--memory", "0", "--segment", "region", "--draws", "19")
    done = inside(*command, "--html", "report.html", cwd=folder)
    assert done.returncode == 0
    note = "8,000 rows do not fit into --memory, so they were counted on the grid: a value differs from that of the raw"
    assert note in " ".join(done.stdout.split())
    assert "error bound" in done.stdout
    assert "region=us" in done.stdout
    document = document_of(folder / "report.html")
    assert any(text.startswith(note) for text in document["notes"])
    headings = [column["heading"] for column in document["sections"][0]["table"]["columns"]]
    assert "error bound" in headings
    assert titles(folder / "report.html") == ["What was predicted, and what came true"]
    found = json.loads(inside(*command, "--json", cwd=folder).stdout)
    assert found["measured_on"] == "grid"
    assert any(text.startswith(note) for text in found["notes"])
    assert {each["segment"] for each in found["segments"]} == {"region=eu", "region=us"}
    exact = json.loads(inside("report", "scores.parquet", "--json", "--draws", "0", cwd=folder).stdout)
    for name in ("kce", "smce", "ece", "log_loss"):
        result = found["measures"][name]
        assert 0.0 < result["error_bound"] < 0.01
        assert abs(result["value"] - exact["measures"][name]["value"]) <= result["error_bound"]


def test_python_takes_what_the_command_takes(folder: Path) -> None:
    for memory, options in ((0.0, ["--memory", "0"]), (1.5, [])):
        where = "region = 'us' AND score > 0.2"
        done = inside("report", "scores", "--json", "--draws", "19", "--where", where, *options, cwd=folder)
        report = monitor.evaluate(monitor.read(folder / "scores", where=where, memory=memory), draws=19, seed=0)
        expected = json.loads(done.stdout)
        notes = [note.replace("--memory", "read(..., memory=...)") for note in expected["notes"]]
        assert json.loads(json.dumps(report.to_dict())) == {**expected, "notes": notes}
        assert report.n < 4000
        assert "<html" in report.to_html()
    several = monitor.evaluate([folder / "scores.parquet", str(folder / "scores")], draws=0)
    assert several.n == 2 * ROWS
    # The table is opened once, and read by each function again.
    table = monitor.read(folder / "scores", where="region = 'us'")
    assert monitor.evaluate(table, draws=0) == monitor.evaluate(table, draws=0)
    of_memory = monitor.read(pq.read_table(folder / "scores"), where="region = 'us'", model="scores")
    assert monitor.evaluate(of_memory, draws=0) == monitor.evaluate(table, draws=0)
    with pytest.raises(InputError, match=r"^read\(..., query=...\) is for databases, and the data are in memory"):
        monitor.read({"p": [0.5], "y": [0]}, query="SELECT 1")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere"], "nowhere: no such file or folder; name a file that is there, or a folder of files"),
        (
            ["s*/nowhere"],
            "s*/nowhere: no file is there; name a file, a folder with files, or a pattern that some match",
        ),
        (["scores", "--where", "colour = 1"], "scores: --where 'colour = 1': there is no column 'colour'; columns are"),
        (["scores", "--where", "score = ="], "--where 'score = =' cannot be read: comparisons of columns"),
        (["scores", "--memory", "0", "--weight", "ts"], "and --weight need all rows at once"),
        (["scores", "--memory", "0", "--compare", "scores"], "scores: --compare needs all rows at once"),
    ],
)
def test_bad_use_is_one_line_that_says_what_to_do(arguments: list[str], words: str, folder: Path) -> None:
    done = inside("report", *arguments, cwd=folder)
    assert done.returncode == 2
    assert words in one_error_line(done)


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    """A folder of files that are wrong in one way each."""
    rng = np.random.default_rng(2)
    p = rng.random(5_000)
    columns = {"p": p, "y": (rng.random(p.size) < p).astype(np.int8), "region": ["eu"] * p.size}
    for name, number in (("first", 0), ("between", 1), ("empty", 1), ("changed", 1)):
        (tmp_path / name).mkdir()
        for part in range(3):
            pq.write_table(pa.table(columns), tmp_path / name / f"part-{part}.parquet", write_page_checksum=True)
        file = tmp_path / name / f"part-{number}.parquet"
        whole = file.read_bytes()
        file.write_bytes({"empty": b"", "changed": whole[:900] + b"\1" * 8 + whole[908:]}.get(name, whole[:2_000]))
    (tmp_path / "twice.csv").write_text("p,y,p\n.5,1,.5\n")
    (tmp_path / "twice").mkdir()
    pq.write_table(pa.table(columns), tmp_path / "twice" / "a.parquet")
    names = ["p", "y", "p"]
    pq.write_table(pa.table([p, columns["y"], p], names=names), tmp_path / "twice" / "b.parquet")
    (tmp_path / "nan.csv").write_text("p,y\n.5,1\nNaN,0\nnan,1\n")
    (tmp_path / "nan.jsonl").write_text('{"p":0.5,"y":1}\n{"p":NaN,"y":1}\n')
    pq.write_table(pa.table({"p": [0.5, np.nan, None], "y": [1, 0, 1]}), tmp_path / "nan.parquet")
    (tmp_path / "nothing").mkdir()
    pq.write_table(pa.table(columns), tmp_path / "good.parquet")
    return tmp_path


CUT_OFF = "; it is cut off, or still being written: write it again, or leave it out"


@pytest.mark.parametrize(
    ("arguments", "begin", "end"),
    [
        (["first"], "first/part-0.parquet: cannot be read: Parquet magic bytes not found", CUT_OFF),
        (["between"], "between/part-1.parquet: cannot be read: Parquet magic bytes not found", CUT_OFF),
        (["between", "--where", "region = 'eu'"], "between/part-1.parquet: cannot be read: ", CUT_OFF),
        (["between/part-1.parquet"], "between/part-1.parquet: cannot be read: ", CUT_OFF),
        (["empty"], "empty/part-1.parquet: cannot be read: Parquet file size is 0 bytes", CUT_OFF),
        (["changed"], "changed/part-1.parquet: cannot be read: could not verify page integrity, CRC", ""),
        (["changed", "--where", "region = 'eu'"], "changed/part-1.parquet: cannot be read: could not verify", ""),
        (["twice.csv"], "twice.csv: column 'p' occurs twice in the header; rename one of them", ""),
        (["twice"], "twice/b.parquet: has two columns 'p'; rename one of them", ""),
        (["nan.csv"], "nan.csv: column 'p', line 3: prediction must be a number from 0 to 1, got NaN, which is no", ""),
        (["nan.parquet"], "nan.parquet: column 'p', row 2: prediction must be a number from 0 to 1, got NaN, wh", ""),
        (["nan.parquet", "--logits"], "nan.parquet: column 'p', row 2: logit must be a number, got NaN, which", ""),
        (["nan.jsonl"], "nan.jsonl: line 2 is not a JSON object", "; NaN and Infinity are not numbers of JSON: write"),
        (["nothing"], "nothing: no file is there; name a file, a folder with files, or a pattern that some match", ""),
        (
            ["s3://scores/x?endpoint_override=http://127.0.0.1:9"],
            "s3://scores/x: cannot be read: ",
            "s address, and th",
        ),
    ],
)
def test_files_that_are_wrong_are_named_with_what_to_do(
    arguments: list[str], begin: str, end: str, bad: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    done = inside("report", *arguments, cwd=bad)
    assert done.returncode == 2
    line = one_error_line(done)
    assert line.startswith(begin)
    assert end in line


def test_a_condition_that_no_row_meets_is_named(bad: Path) -> None:
    for file in ("good.parquet", "twice/a.parquet"):
        done = inside("report", file, "--where", "region = 'mars'", cwd=bad)
        assert done.returncode == 0
        assert "mind: no row meets --where region = 'mars'" in done.stdout
        assert "the file has columns and no rows" not in done.stdout


def test_what_may_not_be_read_is_one_line(bad: Path) -> None:
    """Root reads everything, unless it gives that up."""
    (bad / "locked").mkdir()
    (bad / "good.parquet").rename(bad / "locked" / "a.parquet")
    (bad / "outer" / "inner").mkdir(parents=True)
    (bad / "secret.csv").write_text("p,y\n.5,1\n")
    capabilities = "-dac_override,-dac_read_search"
    root = ["setpriv", f"--bounding-set={capabilities}", f"--inh-caps={capabilities}"] if os.geteuid() == 0 else []
    environ = os.environ | {"PYTHONPATH": str(Path.cwd())}
    closed = [bad / "locked", bad / "outer" / "inner", bad / "secret.csv"]
    for path in closed:
        path.chmod(0)
    try:
        for name in ("locked", "locked/a.parquet", "locked/*.parquet", "outer", "secret.csv"):
            command = [*root, sys.executable, "-m", "monitor", "report", name]
            done = subprocess.run(command, cwd=bad, check=False, capture_output=True, text=True, env=environ)
            assert done.returncode == 2
            line = one_error_line(done)
            assert line.startswith(name.removesuffix("*.parquet"))
            assert "ermission denied" in line
            assert line.endswith("; it must be readable for the user who runs this")
    finally:
        for path in closed:
            path.chmod(0o700)


def test_by_writes_one_table_of_all_reports_and_their_history(folder: Path) -> None:
    command = ("report", "scores", "--by", "region", "--by", "day", "--draws", "19")
    done = inside(*command, "--html", "by.html", "--output", "by.csv", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "Reports by region and day" in done.stdout
    assert "region=eu, day=2026-02-02" in done.stdout
    found = json.loads(inside(*command, "--json", "--output", "by.parquet", cwd=folder).stdout)
    assert (found["by"], found["measured_on"]) == (["region", "day"], "rows")
    assert sum(report["predictions"] for report in found["reports"]) == ROWS
    rows = pq.read_table(folder / "by.parquet").to_pylist()
    text = pyarrow.csv.read_csv(folder / "by.csv").to_pylist()
    assert len(rows) == len(text) == len(found["reports"]) > 10
    for row, line, report in zip(rows, text, found["reports"], strict=True):
        assert {name: row[name] for name in ("region", "day")} == report["by"]
        assert row["from"].date().isoformat() == report["by"]["day"] == line["day"].isoformat()
        assert (row["n"], row["q_value"]) == (line["n"], line["q_value"]) == (report["n"], report["q_value"])
        for name, result in report["measures"].items():
            assert row[name] == result["value"]
            assert row[f"{name}_upper"] == line[f"{name}_upper"] == result["upper"]
    assert sorted(titles(folder / "by.html")) == ["region=eu", "region=us"]
    history = next(each for each in document_of(folder / "by.html")["figures"] if each["title"] == "region=eu")
    days = [report for report in found["reports"] if report["by"]["region"] == "eu"]
    assert len(history["times"]) == len(days)
    measured = [report["measures"].get("smce", {"value": None})["value"] for report in days]
    plot = next(plot for plot in history["plots"] if plot["title"] == "smCE")
    assert plot["lines"][0]["values"] == pytest.approx(measured, abs=1e-5)


def test_python_reports_by_columns_as_the_command_does(folder: Path) -> None:
    for memory in ("0", "1.5"):
        command = ("report", "scores", "--by", "region", "--by", "month", "--draws", "19", "--memory", memory)
        expected = json.loads(inside(*command, "--json", cwd=folder).stdout)
        by = ["region", "month"]
        found = monitor.evaluate_by(monitor.read(folder / "scores", memory=float(memory)), by, draws=19, seed=0)
        notes = [note.replace("--memory", "read(..., memory=...)") for note in expected["notes"]]
        assert json.loads(json.dumps(found.to_dict())) == {**expected, "notes": notes}
    found.to_html(folder / "python.html")
    assert sorted(titles(folder / "python.html")) == ["region=eu", "region=us"]
    assert "region=eu, month=2026-02" in found._repr_html_()
    in_memory = monitor.evaluate_by(
        monitor.read(pq.read_table(folder / "scores"), model="scores"), by, draws=19, seed=0
    )
    assert in_memory.to_arrow().equals(found.to_arrow())
    assert [group.values for group, _ in in_memory.reports] == [report["by"] for report in expected["reports"]]
    with pytest.raises(
        InputError, match=r"^by week needs times: name their column with read\(..., Columns\(time=...\)\)"
    ):
        monitor.evaluate_by({"p": [0.5], "y": [1]}, "week")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--by", "region", "--segment", "region"], "--segment and --by do not go together: --by makes a report of"),
        (["--by", "region", "--fail-if", "verdict"], "--fail-if is of one report, and --by makes many"),
        (["--by", "region", "--output", "by.txt"], "--output: the name of by.txt must end in .csv or .parquet"),
        (["--output", "by.csv"], "--output is for the reports of --by"),
    ],
)
def test_bad_use_of_by_is_one_line_that_says_what_to_do(arguments: list[str], words: str, folder: Path) -> None:
    done = inside("report", "scores", *arguments, cwd=folder)
    assert done.returncode == 2
    assert words in one_error_line(done)
