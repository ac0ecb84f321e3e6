"""`monitor report`."""

import gzip
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from scipy.special import expit

from monitor.demo import Traffic
from monitor.evaluation.data import evaluate
from tests.cli.command import inside, monitor, one_error_line

START_MS = 1_790_000_000_000
HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def table() -> pa.Table:
    rng = np.random.default_rng(31)
    logits = rng.normal(0.0, 1.2, 4000)
    region = rng.choice(["eu", "us"], 4000)
    outcome = rng.random(4000) < expit(logits)
    prediction = expit(np.where(region == "us", 2.2, 1.0) * logits)
    return pa.table({"score": prediction, "label": outcome.astype(int), "region": region})


def test_a_table_gives_the_report_of_the_library(tmp_path: Path, table: pa.Table) -> None:
    pa.csv.write_csv(table, tmp_path / "churn.csv")
    done = monitor("report", "churn.csv", "--json", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    expected = evaluate(table["score"], table["label"], seed=0, model="churn").to_dict()
    assert found == {**expected, "notes": found["notes"]}
    assert found["measures"]["tce"]["unit"] == "percent"
    assert found["notes"][0] == "prediction read from column 'score'"


def test_columns_and_segments_may_be_named(tmp_path: Path, table: pa.Table) -> None:
    renamed = table.rename_columns(["a", "b", "c"])
    pa.parquet.write_table(renamed, tmp_path / "odd.parquet")
    done = inside(
        "report", "odd.parquet", "--prediction", "a", "--outcome", "b", "--segment", "c", "--json", cwd=tmp_path
    )
    found = json.loads(done.stdout)
    # Worst first.
    assert [each["segment"] for each in found["segments"]] == ["c=us", "c=eu"]
    assert found["n"] == sum(each["n"] for each in found["segments"]) == 4000


def test_the_text_says_the_same_in_words(tmp_path: Path, table: pa.Table) -> None:
    pa.csv.write_csv(table, tmp_path / "churn.csv")
    done = inside("report", "churn.csv", "--segment", "region", cwd=tmp_path)
    assert done.returncode == 0
    for word in ("TCE", "smCE", "intCE", "95% interval", "if calibrated", "beyond chance", "segments, worst first"):
        assert word in done.stdout
    rows = {line.split()[0]: line for line in done.stdout.splitlines() if line.strip()}
    assert "shape miscalibration" in rows["region=us"]
    assert " calibrated" in rows["region=eu"]


@pytest.mark.parametrize("packed", [False, True])
def test_a_log_of_events_is_joined_windowed_and_matured(tmp_path: Path, packed: bool) -> None:
    traffic = Traffic("events", start_ms=START_MS, change_ms=START_MS + HOUR_MS, seed=8, rate=0.5)
    lines = b"\n".join(message.value or b"" for message in traffic.until(START_MS + 3 * HOUR_MS))
    name = "events.jsonl.gz" if packed else "events.jsonl"
    (tmp_path / name).write_bytes(gzip.compress(lines) if packed else lines)
    (tmp_path / "monitor.yaml").write_text(
        "models: {defaults: {horizon: 10m, allowed_lateness: 5m}}\nwindows: [{length: 1h}]\n", encoding="utf-8"
    )
    done = inside("report", name, "--json", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    by_model = {each["model"]: each for each in found["reports"]}
    assert set(by_model) == {"calibrated", "overconfident", "prior-shift", "rare-event"}
    for each in found["reports"]:
        assert each["window"] == "1h"
        assert each["label_coverage"] == pytest.approx(0.95, abs=0.03)
    drifted = by_model["overconfident"]["measures"]["smce"]
    assert drifted["value"] > 1.5 * drifted["null_q95"]
    calibrated = by_model["calibrated"]["measures"]["smce"]
    assert calibrated["value"] < 1.2 * calibrated["null_q95"]
    assert found["events"]["prediction"]["accepted"] > 20_000
    assert sum(found["dead_letters"].values()) == found["events"]["unknown"]["dead_letter"] > 0

    text = inside("report", name, cwd=tmp_path).stdout
    assert "overconfident" in text
    assert "no valid events:" in text
    assert "the first is line" in text


def test_too_little_data_is_a_reason_and_no_zero(tmp_path: Path) -> None:
    (tmp_path / "one.csv").write_text("p,y\n0.5,1\n", encoding="utf-8")
    found = json.loads(inside("report", "one.csv", "--json", cwd=tmp_path).stdout)
    assert found["measures"] == {}
    assert "only 1 of at least 2" in found["insufficient"]
    assert "only 1 of at least 2" in inside("report", "one.csv", cwd=tmp_path).stdout


@pytest.mark.parametrize(
    ("content", "arguments", "line"),
    [
        ("a,b\n1,0\n", [], "bad.csv: no column looks like the prediction"),
        ("p,y\n0.5,1\n", ["--prediction", "score"], "bad.csv: no prediction column 'score'; columns are 'p', 'y'"),
        ("p,y\n1.5,1\n", [], "bad.csv: column 'p'"),
        ("p,y\n0.5,3\n", [], "bad.csv: column 'y'"),
    ],
)
def test_a_wrong_file_is_one_line_that_names_the_place(
    tmp_path: Path, content: str, arguments: list[str], line: str
) -> None:
    (tmp_path / "bad.csv").write_text(content, encoding="utf-8")
    done = inside("report", "bad.csv", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert one_error_line(done).startswith(line)


def test_a_directory_is_none(tmp_path: Path) -> None:
    assert one_error_line(inside("report", ".", cwd=tmp_path)) == ".: is a directory; name one file in it"
