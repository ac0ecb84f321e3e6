"""`monitor report` on data sets: exact while rows fit, on the grid beyond; text, JSON, page and Python say which."""

import json
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
        report = monitor.evaluate(folder / "scores", where=where, memory=memory, draws=19, seed=0, progress=False)
        expected = json.loads(done.stdout)
        notes = [note.replace("--memory", "memory") for note in expected["notes"]]
        assert json.loads(json.dumps(report.to_dict())) == {**expected, "notes": notes}
        assert report.n < 4000
        assert "<html" in report.to_html()
    several = monitor.evaluate([folder / "scores.parquet", str(folder / "scores")], draws=0)
    assert several.n == 2 * ROWS
    with pytest.raises(InputError, match=r"^where is for files and databases, and the data are in memory"):
        monitor.evaluate([0.5, 0.5], [0, 1], where="p > 0.2")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere"], "nowhere: no such file; name a CSV, Parquet or JSON lines file that is there"),
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
        found = monitor.evaluate_by(folder / "scores", by, draws=19, seed=0, memory=float(memory), progress=False)
        notes = [note.replace("--memory", "memory") for note in expected["notes"]]
        assert json.loads(json.dumps(found.to_dict())) == {**expected, "notes": notes}
    found.to_html(folder / "python.html")
    assert sorted(titles(folder / "python.html")) == ["region=eu", "region=us"]
    assert "region=eu, month=2026-02" in found._repr_html_()
    in_memory = monitor.evaluate_by(pq.read_table(folder / "scores"), by, draws=19, seed=0, model="scores")
    assert in_memory.to_arrow().equals(found.to_arrow())
    assert [group.values for group, _ in in_memory.reports] == [report["by"] for report in expected["reports"]]
    with pytest.raises(InputError, match=r"^by week needs times: name their column with time"):
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
