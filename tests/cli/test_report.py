"""`monitor report`."""

import gzip
import json
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.csv
import pyarrow.parquet
import pytest
from scipy.special import expit, logit

from monitor.events.encode import encode_prediction
from monitor.measures import MAIN_MEASURES, MEASURES, REPORT_MEASURES
from monitor.reports.diagrams.document import diagrams_document
from monitor.reports.evaluation.evaluate import evaluate_binary as evaluate
from monitor.scores import ScoreTable
from monitor.simulation.models import MODELS
from monitor.simulation.traffic import Traffic
from tests.cli.command import inside, one_error_line
from tests.page.document import document_of

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
    done = inside("report", "churn.csv", "--json", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    expected = evaluate(table["score"], table["label"], seed=0, model="churn").to_dict()
    assert found == {**expected, "measured_on": "rows", "notes": found["notes"]}
    assert found["measures"]["tce"]["unit"] == "percent"
    assert found["notes"][0] == "prediction read from column 'score'"


def test_diagrams_are_those_of_the_table(tmp_path: Path, table: pa.Table) -> None:
    pa.csv.write_csv(table, tmp_path / "churn.csv")
    done = inside("report", "churn.csv", "--json", "--diagrams", "--draws", "0", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    scores = ScoreTable.from_events(table["score"].to_numpy(), table["label"].to_numpy())
    assert json.loads(done.stdout)["diagrams"] == diagrams_document(scores)
    pa.csv.write_csv(table.slice(0, 5).set_column(1, "label", pa.nulls(5, pa.int64())), tmp_path / "unknown.csv")
    done = inside(
        "report", "unknown.csv", "--json", "--diagrams", "--prediction", "score", "--outcome", "label", cwd=tmp_path
    )
    assert json.loads(done.stdout)["diagrams"] is None


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
    for word in ("TCE", "smCE", "Log loss", "95% interval", "if calibrated", "beyond chance", "Segments, worst first"):
        assert word in done.stdout
    rows = {line.split()[0]: line for line in done.stdout.splitlines() if line.strip()}
    assert "shape miscalibration" in rows["region=us"]
    assert "within chance" in rows["region=eu"]


def test_five_measures_are_shown_and_the_others_on_request(tmp_path: Path, table: pa.Table) -> None:
    pa.csv.write_csv(table, tmp_path / "churn.csv")
    titles = {each.title for each in REPORT_MEASURES.values()}
    main = {MEASURES[name].title for name in MAIN_MEASURES}
    assert len(main) == 5

    def rows(page: Path) -> set[str]:
        return {row[0]["text"] for row in document_of(page)["sections"][0]["table"]["rows"]}

    def shown(text: str) -> set[str]:
        lines = [line.strip() for line in text.splitlines()]
        return {title for title in titles for line in lines if line.startswith(f"{title}  ")}

    quick = ["report", "churn.csv", "--draws", "19", "--html", "page.html"]
    text = inside(*quick, cwd=tmp_path).stdout
    assert text.index("shape miscalibration.") < text.index("TCE")
    assert shown(text) == main
    assert f"And {len(titles) - 5} more measures, which --all shows" in text
    assert rows(tmp_path / "page.html") == main
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    # Who is mailed the page has no command line, and was not told what the measures are.
    assert "--all" not in page
    assert all(MEASURES[name].help in page for name in ("tce", "smce", "ece"))
    assert re.search(r"Made on \d{4}-\d\d-\d\d \d\d:\d\d UTC, by version ", page)
    assert shown(inside(*quick, "--all", cwd=tmp_path).stdout) == titles
    assert rows(tmp_path / "page.html") == titles
    assert set(json.loads(inside(*quick, "--json", cwd=tmp_path).stdout)["measures"]) == set(REPORT_MEASURES)
    # Who names a measure sees it.
    assert shown(inside(*quick, "--measure", "intce", cwd=tmp_path).stdout) == {"intCE"}
    compared = inside("report", "churn.csv", "--compare", "churn.csv", "--draws", "19", cwd=tmp_path).stdout
    assert shown(compared) == main


def test_help_shows_the_default_of_draws(tmp_path: Path) -> None:
    shown = inside("report", "--help", cwd=tmp_path).stdout
    assert "[default: 999; 199 of many" in " ".join(re.sub(r"[^\w\[\]:;-]+", " ", shown).split())


@pytest.fixture(scope="module")
def loans(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Predictions too low for phones in the us, and too high for people of 60 and more with an income below 20,000."""
    rng = np.random.default_rng(5)
    n = 8000
    age, income = rng.integers(18, 90, n), np.round(rng.lognormal(10.2, 0.6, n), -2)
    region, device = rng.choice(["eu", "us"], n), rng.choice(["phone", "desktop", "tablet"], n)
    z = rng.normal(-0.2, 1.0, n)
    wrong = 1.2 * ((region == "us") & (device == "phone")) - 2.0 * ((age >= 60) & (income < 20_000))
    outcome = np.where(rng.random(n) < expit(z + wrong), "bad", "good")
    columns = {"logit": z, "class": outcome, "age": age, "income": income, "region": region, "device": device}
    blank = {**columns, "age": pa.array(age, mask=rng.random(n) < 0.02)}
    path = tmp_path_factory.mktemp("loans")
    pa.csv.write_csv(pa.table({**blank, "customer": [f"c{number}" for number in range(n)]}), path / "loans.csv")
    return path


LOANS = ["report", "loans.csv", "--prediction", "logit", "--logits", "--outcome", "class", "--positive", "bad"]


def test_numbers_are_cut_into_ranges_and_columns_are_crossed(loans: Path) -> None:
    segments = ["--segment", "age", "--segment", "region*device", "--measure", "smce", "--draws", "99"]
    found = json.loads(inside(*LOANS, *segments, "--json", cwd=loans).stdout)["segments"]
    named = {each["segment"]: each for each in found}
    assert found[0]["segment"] == "region=us, device=phone"
    assert {each for each in named if each.startswith("region")} == {
        f"region={region}, device={device}" for region in ("eu", "us") for device in ("phone", "desktop", "tablet")
    }
    ages = {each for each in named if each.startswith("age")}
    assert len(ages) == 6
    assert "age=(empty)" in ages
    assert sum(bool(re.fullmatch(r"age \d+ to \d+", each)) for each in ages) == 3
    assert sum(named[each]["n"] for each in ages) == 8000
    text = inside(*LOANS, *segments, cwd=loans).stdout
    assert "segments are miscalibrated" in text
    assert "region=us, device=phone; " in text


def test_segments_are_found_by_themselves(loans: Path) -> None:
    search = ["--find-segments", "--measure", "smce", "--draws", "99"]
    found = json.loads(inside(*LOANS, *search, "--json", cwd=loans).stdout)["found_segments"]
    assert found["columns"] == ["age", "income", "region", "device"]
    assert found["groups"] > 90
    names = [each["segment"] for each in found["segments"]]
    assert "region=us, device=phone" in names
    assert any("income below" in name and "age" in name for name in names)
    assert all(each["q_value"] <= 0.05 for each in found["segments"])
    done = inside(*LOANS, *search, "--html", "page.html", cwd=loans)
    assert "Segments that were found, worst first" in done.stdout
    assert f"of one and two columns (age, income, region, device), {len(names)} are off" in " ".join(
        done.stdout.split()
    )
    assert "Segments that were found, worst first" in (loans / "page.html").read_text(encoding="utf-8")
    # Of the columns that are named alone.
    named = inside(*LOANS, *search, "--segment", "region", "--segment", "age", "--json", cwd=loans)
    assert json.loads(named.stdout)["found_segments"]["columns"] == ["region", "age"]


def test_features_of_any_kind_say_where_the_worst_error_is(loans: Path) -> None:
    features = ["--feature", "age", "--feature", "income", "--feature", "region", "--feature", "device"]
    quick = ["--measure", "smce", "--draws", "99"]
    worst = json.loads(inside(*LOANS, *features, *quick, "--json", cwd=loans).stdout)["local"]["worst"]
    place = worst["place"]
    assert abs(place["prediction"] - place["outcome"]) > 0.1
    words = " ".join(place["conditions"])
    assert ("region=us" in words and "device=phone" in words) or ("age" in words and "income" in words)
    done = inside(*LOANS, *features, *quick, "--html", "page.html", cwd=loans)
    said = f"That is about where {', '.join(place['conditions'])}: of {place['n']:,} such events"
    assert said in " ".join(done.stdout.split())
    assert said in (loans / "page.html").read_text(encoding="utf-8")


def test_bad_rows_are_left_out_on_request(tmp_path: Path, table: pa.Table) -> None:
    pa.csv.write_csv(table, tmp_path / "churn.csv")
    lines = (tmp_path / "churn.csv").read_text(encoding="utf-8").splitlines()
    lines[10], lines[20] = "63.7%,1,eu", "0.5,maybe,eu,extra"
    (tmp_path / "churn.csv").write_text("\n".join(lines), encoding="utf-8")
    arguments = ["report", "churn.csv", "--measure", "smce", "--draws", "0"]
    assert inside(*arguments, cwd=tmp_path).returncode == 2
    text = inside(*arguments, "--skip-bad-rows", cwd=tmp_path).stdout
    assert "mind: 2 of 4,000 rows are left out, which --skip-bad-rows asks for" in text
    assert "mind: 1 row left out: rows must have 3 fields; the first is line 21, got 4" in text
    assert "from 0 to 1; the first is line 11, got '63.7%'" in " ".join(text.split())
    assert "churn: 3,998 predictions" in text


def test_a_log_names_the_models_that_are_refused(tmp_path: Path) -> None:
    events = [encode_prediction(model, 1, START_MS, 0.5) for model in ("a", "b", "b", "c")]
    (tmp_path / "events.jsonl").write_bytes(b"\n".join(events))
    (tmp_path / "monitor.yaml").write_text("caps: {models: 1}\nwindows: [{length: 1h}]\n", encoding="utf-8")
    text = " ".join(inside("report", "events.jsonl", cwd=tmp_path).stdout.split())
    assert "3 predictions refused" in text
    assert "no valid events" not in text
    assert "refused from line 2 on: model 'b' is one more than may live in a partition undeclared (caps.models)" in text
    assert "refused from line 4 on: model 'c'" in text


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
    assert set(by_model) == {each.name for each in MODELS}
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


def test_measures_are_chosen_by_name(tmp_path: Path, table: pa.Table) -> None:
    pa.csv.write_csv(table, tmp_path / "churn.csv")
    request = next(name for name, measure in MEASURES.items() if measure.appears_in == "request")
    arguments = ["--measure", "smce", "--measure", request, "--draws", "19", "--json"]
    found = json.loads(inside("report", "churn.csv", *arguments, cwd=tmp_path).stdout)
    assert list(found["measures"]) == ["smce", request]
    assert found["measures"]["smce"]["p_value"] >= 1 / 20


def test_without_draws_there_are_values_alone(tmp_path: Path, table: pa.Table) -> None:
    pa.csv.write_csv(table, tmp_path / "churn.csv")
    found = json.loads(inside("report", "churn.csv", "--draws", "0", "--json", cwd=tmp_path).stdout)
    assert {each["null_q95"] for each in found["measures"].values()} == {None}
    done = inside("report", "churn.csv", "--draws", "0", "--segment", "region", "--measure", "ece", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "ECE" in done.stdout


def test_weights_count(tmp_path: Path, table: pa.Table) -> None:
    weights = np.where(np.asarray(table["region"]) == "us", 1.0, 0.0)
    pa.csv.write_csv(table.append_column("w", pa.array(weights)), tmp_path / "churn.csv")
    arguments = ["report", "churn.csv", "--weight", "w", "--measure", "kce", "--draws", "0", "--json"]
    found = json.loads(inside(*arguments, cwd=tmp_path).stdout)
    us = table.filter(pa.compute.equal(table["region"], "us"))
    alone = evaluate(us["score"], us["label"], measures={"kce": MEASURES["kce"]}, draws=0)
    assert found["measures"]["kce"]["value"] == pytest.approx(alone.measures["kce"].value)


def test_segments_have_q_values_and_a_sentence(tmp_path: Path, table: pa.Table) -> None:
    small = table.slice(0, 40).set_column(2, "region", pa.array(["tiny"] * 40))
    eu = table.slice(40).filter(pa.compute.equal(table.slice(40)["region"], "eu")).slice(0, 400)
    unnamed = eu.set_column(2, "region", pa.array([""] * 400))
    pa.csv.write_csv(pa.concat_tables([table.slice(440), small, unnamed]), tmp_path / "churn.csv")
    arguments = ["report", "churn.csv", "--segment", "region", "--draws", "99"]
    segments = json.loads(inside(*arguments, "--json", cwd=tmp_path).stdout)["segments"]
    by_name = {each["segment"]: each for each in segments}
    assert set(by_name) == {"region=us", "region=eu", "region=tiny", "region=(empty)"}
    assert segments[0]["segment"] == "region=us"
    assert segments[0]["p_value"] <= segments[0]["q_value"] <= 0.05
    assert segments[-1]["segment"] == "region=tiny"
    assert segments[-1]["q_value"] is None
    text = inside(*arguments, cwd=tmp_path).stdout
    assert "too little data: only 40 of at least 100 predictions have an outcome" in " ".join(text.split())
    assert "1 of 3 segments is miscalibrated" in text
    assert "1 holds too little data to be judged" in " ".join(text.split())


def test_values_of_a_column_are_shown_as_they_stand(tmp_path: Path, table: pa.Table) -> None:
    named = pa.array(["[bold]eu" if region == "eu" else ":new: [/]" for region in table["region"].to_pylist()])
    pa.csv.write_csv(table.set_column(2, "region", named), tmp_path / "churn.csv")
    text = inside("report", "churn.csv", "--segment", "region", "--measure", "smce", "--draws", "99", cwd=tmp_path)
    assert "region=[bold]eu" in text.stdout
    assert "region=:new: [/]" in text.stdout


def test_of_groups_too_small_to_judge_a_few_are_listed(tmp_path: Path, table: pa.Table) -> None:
    cities = pa.array([f"c{number % 45}" for number in range(table.num_rows)])
    small = table.set_column(2, "city", cities)
    pa.csv.write_csv(small, tmp_path / "churn.csv")
    arguments = ["report", "churn.csv", "--segment", "city", "--measure", "smce", "--draws", "99"]
    text = inside(*arguments, cwd=tmp_path).stdout
    assert text.count("too little data: only") == 5
    assert "and 40 more of too little data, which --json lists" in text
    assert len(json.loads(inside(*arguments, "--json", cwd=tmp_path).stdout)["segments"]) == 45


def test_two_files_are_compared(tmp_path: Path, table: pa.Table) -> None:
    ids = pa.array([f"e{number}" for number in range(table.num_rows)])
    first = table.append_column("id", ids)
    calibrated = expit(np.where(np.asarray(table["region"]) == "us", 1 / 2.2, 1.0) * logit(np.asarray(table["score"])))
    second = first.set_column(0, "score", pa.array(calibrated)).take(pa.array(np.arange(3999, -1, -1)))
    pa.csv.write_csv(first, tmp_path / "old.csv")
    pa.csv.write_csv(second, tmp_path / "new.csv")
    arguments = ["report", "old.csv", "--compare", "new.csv", "--id", "id", "--draws", "199"]
    found = json.loads(inside(*arguments, "--json", cwd=tmp_path).stdout)
    assert found["pairing"] == "ids"
    assert (found["first"]["model"], found["second"]["model"]) == ("old", "new")
    assert found["differences"]["smce"]["upper"] < 0.0
    text = inside(*arguments, cwd=tmp_path).stdout
    assert "new is better calibrated than old: smCE is lower by 0.0" in text
    assert "note: 4,000 ids are in both files, and are compared event by event" in text
    alike = inside("report", "old.csv", "--compare", "old.csv", "--draws", "99", "--measure", "kce", cwd=tmp_path)
    assert "Neither is better calibrated for certain: kCE of old.csv (second) less" in alike.stdout
    assert "not certain" in alike.stdout


def test_many_classes_and_features(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    vectors = rng.dirichlet([1.0, 1.0, 1.0], 600)
    labels = np.array(["cat", "dog", "cow"])[[rng.choice(3, p=each) for each in vectors]]
    columns = {f"p_{name}": vectors[:, number] for number, name in enumerate(("cat", "dog", "cow"))}
    pa.csv.write_csv(pa.table({**columns, "y": labels, "f": rng.normal(size=600)}), tmp_path / "pets.csv")
    lists = pa.table({"probs": list(vectors), "y": labels})
    numbers = {"cat": 0, "dog": 1, "cow": 2}
    lists = lists.set_column(1, "y", pa.array([numbers[each] for each in labels]))
    pa.parquet.write_table(lists, tmp_path / "pets.parquet")
    each = [part for name in columns for part in ("--prediction", name)]
    short = ["--draws", "19", "--measure", "top_label_ece", "--measure", "smce", "--json"]
    found = json.loads(inside("report", "pets.csv", *each, "--feature", "f", *short, cwd=tmp_path).stdout)
    assert found["class_names"] == ["cat", "dog", "cow"]
    assert list(found["measures"]) == ["top_label_ece"]
    assert list(found["top_label"]["measures"]) == ["smce"]
    assert found["local"]["features"] == ["f"]
    same = json.loads(inside("report", "pets.parquet", "--prediction", "probs", *short, cwd=tmp_path).stdout)
    assert same["measures"] == found["measures"]
    assert same["class_names"] == ["0", "1", "2"]
    text = inside("report", "pets.csv", *each, "--draws", "19", cwd=tmp_path).stdout
    for word in ("600 predictions of 3 classes", "The most probable class", "Each class against the rest", "cow"):
        assert word in text


def test_features_say_where_events_alike_are_wrong(tmp_path: Path, table: pa.Table) -> None:
    with_feature = table.append_column("f", pa.array(np.where(np.asarray(table["region"]) == "us", 1.0, -1.0)))
    pa.csv.write_csv(with_feature, tmp_path / "churn.csv")
    done = inside("report", "churn.csv", "--feature", "f", "--draws", "19", "--measure", "smce", cwd=tmp_path)
    assert "Among events that are alike: f" in done.stdout
    assert "Among events alike, predictions are" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--measure", "smec"], "--measure: there is no measure 'smec'; did you mean smce?"),
        (["--measure", "zzz"], "--measure: there is no measure 'zzz'; measures are tce, kce, smce, "),
        (["--measure", "skce"], "--measure skce is of many classes; name the column of each with --prediction"),
        (["--draws", "5"], "--draws must be 0 or at least 19, got 5: with fewer, no p-value is below .05"),
        (["--id", "y"], "--id is of use only where two files are compared; add --compare OTHER"),
        (["--compare-prediction", "p"], "--compare-prediction is of use only where two files are compared"),
        (
            ["--compare", "gone.csv"],
            "gone.csv: no such file or folder; name a file that is there, or a folder of files",
        ),
        (["--compare", "f.csv", "--find-segments"], "--find-segments and --compare do not go together"),
        (["--compare", "f.csv", "--segment", "s"], "--segment and --compare do not go together"),
        (
            ["--prediction", "p", "--prediction", "q", "--prediction", "r", "--segment", "s"],
            "--segment is for predictions P(y = 1), and",
        ),
        (["--diagrams"], "--diagrams adds numbers to --json: add --json; --html and --png draw them"),
    ],
)
def test_what_cannot_be_had_is_one_line(tmp_path: Path, arguments: list[str], line: str) -> None:
    (tmp_path / "f.csv").write_text("p,q,r,y,s\n.5,.5,0,1,a\n.25,.75,0,0,b\n", encoding="utf-8")
    done = inside("report", "f.csv", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert one_error_line(done).startswith(line)
    assert done.stdout == ""


@pytest.mark.parametrize(
    "option", [["--html", "f.html"], ["--measure", "smce"], ["--draws", "99"], ["--all"], ["--diagrams", "--json"]]
)
def test_a_log_has_its_settings(tmp_path: Path, option: list[str]) -> None:
    (tmp_path / "e.jsonl").write_text('{"type":"outcome","model":"m","id":"1","ts":1,"y":1}\n', encoding="utf-8")
    said = one_error_line(inside("report", "e.jsonl", *option, cwd=tmp_path))
    assert said.startswith(f"e.jsonl: holds events of the service, and {option[0]} is for tables of predictions and")


def test_too_little_to_say_much_is_said(tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_text("p,y\n", encoding="utf-8")
    assert "mind: the file has columns and no rows" in inside("report", "f.csv", cwd=tmp_path).stdout
    (tmp_path / "f.csv").write_text("p,y\n" + ".3,1\n.3,0\n" * 10, encoding="utf-8")
    found = json.loads(inside("report", "f.csv", "--draws", "19", "--json", cwd=tmp_path).stdout)
    assert found["notes"][-2:] == [
        "only 20 predictions have an outcome: with so few, only large errors are significant",
        "every prediction is 0.3: a report can only show whether they are right on average",
    ]


def test_an_empty_directory_holds_no_table(tmp_path: Path) -> None:
    error = one_error_line(inside("report", ".", cwd=tmp_path))
    assert error == ".: no file is there; name a file, a folder with files, or a pattern that some match"


def test_weights_and_a_measure_that_takes_none_are_refused(tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_text("p,y,w\n" + ".3,1,1\n.6,0,2\n" * 30, encoding="utf-8")
    done = inside("report", "f.csv", "--weight", "w", "--measure", "tce", "--draws", "0", cwd=tmp_path)
    assert done.returncode == 2
    assert one_error_line(done).startswith(
        "tce needs whole counts, and there are weights: leave --weight out, or choose a measure that takes weights, "
    )
    both = ("--measure", "tce", "--measure", "smce")
    done = inside("report", "f.csv", "--weight", "w", *both, "--draws", "0", cwd=tmp_path)
    assert "TCE is left out: needs whole counts, not weights" in done.stdout


def test_prevalences_apart_are_minded_everywhere(tmp_path: Path) -> None:
    (tmp_path / "half.csv").write_text("p,y\n" + ".5,1\n.4,0\n.5,0\n.4,1\n" * 150, encoding="utf-8")
    (tmp_path / "rare.csv").write_text("p,y\n" + ".05,1\n.06,1\n" * 5 + ".05,0\n.06,0\n" * 450, encoding="utf-8")
    arguments = ("report", "half.csv", "--compare", "rare.csv", "--draws", "19", "--measure", "smce")
    said = "prevalences differ (50% in half and 1.1% in rare), and the same fault of the logits gives smaller values"
    text = inside(*arguments, "--html", "f.html", cwd=tmp_path).stdout
    assert f"mind: {said}" in " ".join(text.split())
    assert "slope of the logits" in text
    assert " is better calibrated than " not in text
    assert any(said in caution for caution in document_of(tmp_path / "f.html")["cautions"])
    found = json.loads(inside(*arguments, "--json", cwd=tmp_path).stdout)
    assert found["cautions"][0].startswith(said)
    assert any(note.startswith(said) for note in found["notes"])


def test_one_prediction_is_one(tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_text("p,y\n.3,1\n", encoding="utf-8")
    assert "f: 1 prediction, 1 with an outcome" in inside("report", "f.csv", cwd=tmp_path).stdout
