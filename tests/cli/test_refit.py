"""`monitor recalibrate FILE`: which recalibration method repairs a file best."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from scipy.special import expit
from scipy.stats import norm
from sklearn.metrics import log_loss

from monitor.maps import METHODS, apply_map, fit_map
from monitor.maps.artifact import from_bytes
from monitor.measures import mce, smce
from monitor.reports.evaluation.evaluate import evaluate_binary as evaluate
from monitor.scores import ScoreTable
from monitor.scores.labelled import LabelledEvents
from tests.cli.command import inside, monitor, one_error_line
from tests.long import short_of
from tests.page.document import document_of, titles
from tests.real.chromium import render, screenshot

HOSTILE = "<script>document.title='taken'</script> $\\x$ \x1b[31m"
QUICK = ["--draws", "19"]
START_MS = 1_780_000_000_000


def rows(n: int = 3000, seed: int = 18, slope: float = 1.8) -> dict[str, Any]:
    """Predictions that are too sure, if the slope is above 1, with a feature that they miss, in two regions."""
    rng = np.random.default_rng(seed)
    z, age = rng.normal(0.0, 1.2, n), rng.normal(45.0, 10.0, n)
    region = rng.choice(["eu", HOSTILE], n)
    y = rng.random(n) < expit(z + (0.0 if slope == 1.0 else 0.08) * (age - 45.0))
    at = START_MS + np.sort(rng.integers(0, 864_000_000, n))
    return {
        "score": expit(slope * z),
        "label": y.astype(int),
        "ts": pa.array(at, pa.timestamp("ms", "UTC")),
        "age": age,
        "region": region,
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("refit")
    pa.parquet.write_table(pa.table(rows()), path / "scores.parquet")
    order = np.random.default_rng(1).permutation(3000)
    pa.csv.write_csv(pa.table(rows()).take(pa.array(order)), path / "shuffled.csv")
    fine = rows(slope=1.0)
    pa.csv.write_csv(pa.table({"p": fine["score"], "y": fine["label"]}), path / "calibrated.csv")
    pa.csv.write_csv(pa.table({"p": fine["score"][:120], "y": fine["label"][:120]}), path / "tiny.csv")
    rng = np.random.default_rng(2)
    vectors = rng.dirichlet([1.0, 1.0, 1.0], 1500)
    truth = vectors**0.4 / (vectors**0.4).sum(axis=1, keepdims=True)
    came = (truth.cumsum(axis=1) < rng.random((1500, 1))).sum(axis=1)
    named = {f"p_{name}": vectors[:, at] for at, name in enumerate(("cat", "dog", "cow"))}
    pa.csv.write_csv(
        pa.table({**named, "animal": np.array(["cat", "dog", "cow"])[came], "size": rng.normal(size=1500)}),
        path / "pets.csv",
    )
    return path


def found(*arguments: str, folder: Path, status: int = 0) -> dict[str, Any]:
    done = inside("recalibrate", *arguments, *([] if "--draws" in arguments else QUICK), "--json", cwd=folder)
    assert (done.returncode, done.stderr) == (status, "")
    tree = json.loads(done.stdout)
    assert isinstance(tree, dict)
    return tree


def test_later_rows_are_predicted_by_maps_of_earlier_ones(folder: Path) -> None:
    told = found("scores.parquet", "--method", "platt", "--method", "isotonic", folder=folder)
    data = rows()
    p, y = data["score"], data["label"]
    for each in told["methods"]:
        fitted = fit_map(METHODS[each["method"]], LabelledEvents.of(p[:2100], y[:2100]))
        q = apply_map(fitted, p[2100:])
        maps = each["comparison"]["maps"]
        assert maps["challenger"]["measures"]["log_loss"]["value"] == pytest.approx(log_loss(y[2100:], q))
        assert maps["none"]["measures"]["log_loss"]["value"] == pytest.approx(log_loss(y[2100:], p[2100:]))
        assert maps["challenger"]["measures"]["smce"]["value"] == pytest.approx(
            smce(ScoreTable.from_events(q, y[2100:]))
        )
        assert (each["comparison"]["fit"]["n"], each["comparison"]["held_out"]["n"]) == (2100, 900)
        assert each["better"]
    losses = {
        each["method"]: each["comparison"]["maps"]["challenger"]["measures"]["log_loss"]["value"]
        for each in told["methods"]
    }
    assert told["best"] == min(losses, key=lambda name: losses[name])


def test_rows_are_parted_by_their_time_whatever_their_order(folder: Path) -> None:
    first = found("scores.parquet", "--method", "beta", folder=folder)
    second = found("shuffled.csv", "--method", "beta", folder=folder)
    assert first["methods"][0]["comparison"] == second["methods"][0]["comparison"]
    assert first["methods"][0]["comparison"]["fit"]["from"].startswith("2026-05-28T")


def test_without_times_the_order_of_the_file_counts(folder: Path, tmp_path: Path) -> None:
    data = rows()
    pa.csv.write_csv(pa.table({"p": data["score"], "y": data["label"]}), tmp_path / "plain.csv")
    one_time = {"p": data["score"], "y": data["label"], "ts": ["2026-01-01"] * 3000}
    pa.csv.write_csv(pa.table(one_time), tmp_path / "day.csv")
    timed = found("scores.parquet", "--method", "beta", folder=folder)["methods"][0]["comparison"]
    for name, why in (("plain.csv", "have no times"), ("day.csv", "are all of one time")):
        told = found(name, "--method", "beta", folder=tmp_path)
        comparison = told["methods"][0]["comparison"]
        assert comparison["maps"] == timed["maps"]
        assert comparison["fit"]["from"] is comparison["held_out"]["to"] is None
        assert any(note.startswith(f"the rows {why}, so the last ones of the file") for note in told["notes"])
    text = inside("recalibrate", "plain.csv", "--method", "beta", *QUICK, cwd=tmp_path).stdout
    assert "1970" not in text


def test_rows_that_tell_nothing_are_left_out(tmp_path: Path) -> None:
    data = rows()
    weight = np.where(np.arange(3000) % 5 == 0, 0.0, 1.0)
    label = [None if number % 10 == 1 else int(y) for number, y in enumerate(data["label"])]
    pa.csv.write_csv(pa.table({"p": data["score"], "y": label, "w": weight}), tmp_path / "weights.csv")
    told = found("weights.csv", "--weight", "w", "--method", "beta", folder=tmp_path)
    assert told["methods"][0]["comparison"]["fit"]["left_out"] == {"no outcome": 300, "a weight of 0": 600}
    assert {"300 rows left out: no outcome", "600 rows left out: a weight of 0"} <= set(told["notes"])
    used = np.array([y is not None for y in label]) & (weight > 0.0)
    fit = fit_map(METHODS["beta"], LabelledEvents.of(data["score"][used][:1470], data["label"][used][:1470]))
    assert told["methods"][0]["comparison"]["maps"]["challenger"]["describe"] == fit.describe()


def test_the_usual_methods_follow_from_what_there_is(folder: Path) -> None:
    told = found("scores.parquet", "--feature", "age", "--segment", "region", folder=folder)
    assert [each["method"] for each in told["methods"]] == [
        *("offset", "temperature", "beta", "isotonic", "group_wise_beta", "lore"),
    ]
    assert told["best"] == "lore"
    assert told["advice"].startswith("Take lore: on 900 later rows its log loss is 0.")
    segments = told["methods"][-1]["comparison"]["segments"]
    assert {each["segment"] for each in segments} == {"region=eu", f"region={HOSTILE}"}
    worst = segments[0]
    of = np.char.add("region=", rows()["region"][2100:]) == worst["segment"]
    held = ScoreTable.from_events(rows()["score"][2100:][of], rows()["label"][2100:][of])
    assert worst["none"]["mce"] == pytest.approx(mce(held))


def test_the_more_methods_the_more_evidence_is_needed(folder: Path, tmp_path: Path) -> None:
    """A gain that would do for one method, and does not for six."""
    data = rows(seed=4)
    pa.csv.write_csv(pa.table({"p": data["score"], "y": data["label"]}), tmp_path / "some.csv")
    alone = found("some.csv", "--method", "temperature", folder=tmp_path)
    e_value = alone["methods"][0]["comparison"]["evidence"]["against_none"]["e_value"]
    assert 20.0 <= e_value < 120.0
    assert (alone["best"], alone["e_value_needed"]) == ("temperature", 20.0)
    six = [
        part
        for name in ("temperature", "platt", "beta", "offset", "isotonic", "histogram")
        for part in ("--method", name)
    ]
    together = found("some.csv", *six, folder=tmp_path, status=3)
    assert together["e_value_needed"] == 120.0
    assert together["best"] is None
    (reason,) = [each for each in together["reasons"] if each.startswith("temperature: ")]
    assert "120 is needed of each of 6 methods" in reason
    assert found("scores.parquet", *six, folder=folder)["best"] is not None


def test_where_no_method_is_better_nothing_is_written(folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "map.arrow"
    done = inside("recalibrate", "calibrated.csv", "-o", str(target), *QUICK, cwd=folder)
    assert (done.returncode, done.stderr) == (3, "")
    assert "there is no miscalibration beyond chance to correct" in " ".join(done.stdout.split())
    assert done.stdout.endswith(f"{target} is not written: no map is better than none (--unguarded writes one)\n")
    assert not target.exists()
    told = found("calibrated.csv", "-o", str(target), folder=folder, status=3)
    assert (told["best"], told["written"]) == (None, [])


def test_a_method_by_name_is_written_unguarded_and_marked(folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "map.arrow"
    chosen = ["calibrated.csv", "--unguarded", "-o", str(target), *QUICK]
    done = inside("recalibrate", *chosen, "--method", "platt", cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("mind: platt is not proven better than no map, and the file says so\n")
    assert from_bytes(target.read_bytes()).about["guard_passed"] is False
    applied = inside("apply", str(target), "calibrated.csv", "-o", str(tmp_path / "after.csv"), cwd=folder)
    assert "mind: the map was not proven better than no map (--unguarded)" in applied.stdout
    for methods in ([], ["--method", "platt", "--method", "beta"]):
        refused = inside("recalibrate", *chosen, *methods, cwd=folder)
        assert (refused.returncode, "--unguarded writes the map of one method" in refused.stderr) == (2, True)


def test_errors_that_are_local_are_not_said_to_be_none(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    z = rng.normal(size=(4000, 2))
    y = rng.random(4000) < expit(0.7 * z[:, 0] + np.where(z[:, 1] > 0.0, 1.0, -1.0))
    pa.csv.write_csv(pa.table({"p": expit(0.7 * z[:, 0]), "u": z[:, 0], "v": z[:, 1], "y": y}), tmp_path / "local.csv")
    arguments = ["local.csv", "--method", "offset"]
    without = found(*arguments, folder=tmp_path, status=3)["advice"]
    assert without.endswith("as they are. Errors among rows that are alike were not tested: name --feature.")
    told = found(*arguments, "--feature", "u", "--feature", "v", folder=tmp_path, status=3)["advice"]
    assert "no miscalibration beyond chance (smCE, p = " in told
    assert "but among rows that are alike they do (MLCE, p = " in told
    assert told.endswith("try lore.")


def test_the_map_is_the_one_that_was_compared(folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "map.arrow"
    arguments = ["--method", "lore", "--option", "gamma=0.4", "--feature", "age", "-o", str(target)]
    told = found("scores.parquet", *arguments, folder=folder)
    assert told["written"] == [str(target)]
    artifact = from_bytes(target.read_bytes())
    (method,) = told["methods"]
    assert method["options"]["gamma"] == artifact.about["options"]["gamma"] == 0.4
    assert artifact.map.describe() == method["comparison"]["maps"]["challenger"]["describe"]
    assert artifact.about["fitted_on"]["n"] == 2100
    assert artifact.about["data_hash"] == method["comparison"]["fit"]["data_hash"]
    assert artifact.about["columns"] == {"prediction": ["score"], "features": ["age"]}
    data = rows()
    q = apply_map(artifact.map, data["score"][2100:], features=data["age"][2100:, None])
    value = method["comparison"]["maps"]["challenger"]["measures"]["brier"]["value"]
    assert value == pytest.approx(np.mean((q - data["label"][2100:]) ** 2))


def test_words_are_features_of_a_map_and_of_its_file(tmp_path: Path) -> None:
    """Where the error is by region, a map of local errors finds it, and the file knows the words."""
    rng = np.random.default_rng(3)
    z, region = rng.normal(0.0, 1.2, 3000), rng.choice(["eu", "us", "jp"], 3000)
    y = rng.random(3000) < expit(z + np.select([region == "eu", region == "us"], [1.2, -1.2]))
    data = pa.table({"p": expit(z), "y": y.astype(int), "region": region})
    pa.csv.write_csv(data, tmp_path / "scores.csv")
    told = found("scores.csv", "--feature", "region", "--method", "lore", "-o", "map.arrow", *QUICK, folder=tmp_path)
    assert told["best"] == "lore"
    artifact = from_bytes((tmp_path / "map.arrow").read_bytes())
    assert artifact.about["columns"]["features"] == ["region=eu", "region=jp", "region=us"]
    done = inside("apply", "map.arrow", "scores.csv", "-o", "after.csv", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    after = pa.csv.read_csv(tmp_path / "after.csv")["recalibrated"].to_numpy()
    for name in ("eu", "us", "jp"):
        inside_it = region == name
        before_error = abs(expit(z)[inside_it].mean() - y[inside_it].mean())
        assert abs(after[inside_it].mean() - y[inside_it].mean()) < max(0.25 * before_error, 0.02), name


def test_the_table_says_what_a_person_needs(folder: Path) -> None:
    done = inside("recalibrate", "scores.parquet", "--feature", "age", "--segment", "region", *QUICK, cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    at = next(number for number, line in enumerate(lines) if line.split()[:1] == ["lore"])
    assert lines[at].split()[-1] == "best"
    data = rows()
    held = slice(2100, None)
    p, y = data["score"][held], data["label"][held]
    # The interval of no map, by the central limit theorem.
    losses = -np.log(np.where(y == 1, p, 1.0 - p))
    radius = norm.ppf(0.975) * losses.std() / np.sqrt(900)
    none = next(number for number, line in enumerate(lines) if line.strip().startswith("no map"))
    assert lines[none].split()[2] == f"{losses.mean():.4f}"
    assert lines[none + 1].split()[:3] == [f"{losses.mean() - radius:.4f}", "to", f"{losses.mean() + radius:.4f}"]
    assert "Segments, worst first" in done.stdout
    # Prior or shape: that of a report on the same rows.
    verdict = evaluate(p, y, draws=99).diagnosis
    assert verdict is not None
    words = next(line for line in lines if line.startswith("with no map, later rows show: "))
    assert words.split(": ", 1)[1].split(".")[0] == verdict.sentence.split(".")[0]
    assert "\x1b" not in done.stdout
    # In a narrow terminal the Brier score makes room.
    narrow = monitor("recalibrate", "calibrated.csv", "--method", "offset", *QUICK, cwd=folder)
    assert (narrow.returncode, narrow.stderr) == (3, "")
    assert "not certain" in narrow.stdout


def test_many_classes(folder: Path, tmp_path: Path) -> None:
    each = [part for name in ("p_cat", "p_dog", "p_cow") for part in ("--prediction", name)]
    target = tmp_path / "pets.arrow"
    arguments = [*each, "--outcome", "animal", "-o", str(target), "--html", str(tmp_path / "pets.html")]
    told = found("pets.csv", *arguments, folder=folder)
    assert [method["method"] for method in told["methods"]] == ["temperature", "vector_scaling"]
    assert told["best"] in {"temperature", "vector_scaling"}
    assert from_bytes(target.read_bytes()).about["classes"] == ["cat", "dog", "cow"]
    assert "smCE is that of the most probable class" in (tmp_path / "pets.html").read_text(encoding="utf-8")


def test_a_change_is_told_and_may_be_left_behind(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    z = rng.normal(0.0, 1.2, 3000)
    p = expit(np.where(np.arange(3000) < 1500, 1.0, 2.4) * z)
    y = (rng.random(3000) < expit(z)).astype(int)
    pa.csv.write_csv(pa.table({"p": p, "y": y}), tmp_path / "change.csv")
    told = found("change.csv", "--method", "temperature", folder=tmp_path)
    assert told["methods"][0]["comparison"]["fit"]["n"] == 2100
    (note,) = [each for each in told["notes"] if each.startswith("there is a change of calibration after 1,")]
    (after,) = re.findall(r"--since-change takes the ([\d,]+) rows since then alone", note)
    since = found("change.csv", "--method", "temperature", "--since-change", folder=tmp_path)
    used = since["methods"][0]["comparison"]
    assert used["fit"]["n"] + used["held_out"]["n"] == int(after.replace(",", "")) == pytest.approx(1500, abs=150)
    assert used["fit"]["changed_at"] is None  # there are no times
    assert any(re.fullmatch(r"the [\d,]+ rows before a change .* are left out", each) for each in since["notes"])


def test_a_method_that_has_too_little_leaves_the_others_alone(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    vectors = rng.dirichlet(np.full(20, 0.2), 590)
    truth = vectors**0.4 / (vectors**0.4).sum(axis=1, keepdims=True)
    came = np.minimum((truth.cumsum(axis=1) < rng.random((590, 1))).sum(axis=1), 19)
    pa.parquet.write_table(pa.table({"p": list(vectors), "y": came}), tmp_path / "many.parquet")
    arguments = ["--method", "matrix_scaling", "--method", "temperature"]
    told = found("many.parquet", *arguments, folder=tmp_path)
    first, second = told["methods"]
    assert first["comparison"] is None
    assert "are needed" in first["failure"]
    assert second["better"]
    text = inside("recalibrate", "many.parquet", *arguments, *QUICK, cwd=tmp_path).stdout
    assert re.search(r"matrix_scaling +- .* not fitted", text)
    done = inside("recalibrate", "many.parquet", *arguments[:2], cwd=tmp_path)
    assert done.returncode == 1
    assert one_error_line(done).startswith("no method could be fitted: matrix_scaling: ")


def test_too_few_rows_are_a_failure_with_numbers(folder: Path) -> None:
    done = inside("recalibrate", "tiny.csv", cwd=folder)
    assert done.returncode == 1
    assert one_error_line(done) == "84 labelled events to fit on (120 in all), at least 100 are needed"


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["gone.csv"], "gone.csv: no such file; name a CSV"),
        (["."], ".: is a directory; name one file in it"),
        (["--method", "bta"], "there is no recalibration method 'bta'; did you mean beta?"),
        (["--method", "lore"], "--method lore needs features; name the columns with --feature"),
        (["--method", "group_wise_beta"], "--method group_wise_beta needs groups; name the columns with --segment"),
        (["--method", "vector_scaling"], "--method vector_scaling is not for predictions P(y = 1); for these there"),
        (["--method", "beta", "--option", "gamma=1"], "--option: none of beta has an option 'gamma'; there are param"),
        (
            ["--method", "beta", "--option", "parameters=x"],
            "option parameters of beta must be one of abm",
        ),
        (["--option", "gamma"], "--option must be like bins=10, got 'gamma'"),
        (["--held-out", "1"], "--held-out must be above 0 and below 1, got 1; 0.3 holds out the latest 30%"),
        (["--draws", "5"], "--draws must be 0 or at least 19, got 5: with fewer, no p-value is below .05"),
        (["--feature", "size"], "calibrated.csv: no feature column 'size'; columns are 'p', 'y'"),
        (["-o", "gone/map.arrow"], "--output: there is no directory gone; make it first"),
        (["--png", "page.html"], "--png: the name of page.html must end in .png"),
        (["events.jsonl"], "events.jsonl: holds events of the service, and maps are fitted on tables of predictions"),
    ],
)
def test_bad_use_is_one_line(folder: Path, arguments: list[str], line: str) -> None:
    (folder / "events.jsonl").write_text('{"type":"outcome","model":"m","id":"1","ts":1,"y":1}\n', encoding="utf-8")
    file = [] if not arguments[0].startswith("-") else ["calibrated.csv"]
    done = inside("recalibrate", *file, *arguments, cwd=folder)
    assert done.returncode == 2
    assert one_error_line(done).startswith(line)
    assert done.stdout == ""


PAGES = {
    "local": ["scores.parquet", "--feature", "age", "--segment", "region"],
    "none better": ["calibrated.csv", "--method", "beta"],
}


@pytest.mark.parametrize("name", short_of([*PAGES], 1))
def test_a_page_opens_in_a_browser_and_needs_nothing_else(folder: Path, tmp_path: Path, name: str) -> None:
    page, picture = tmp_path / "page.html", tmp_path / "picture.png"
    done = inside("recalibrate", *PAGES[name], *QUICK, "--html", str(page), "--png", str(picture), cwd=folder)
    assert done.stderr == ""
    assert f"wrote {page}\nwrote {picture}\n" in done.stdout
    assert picture.read_bytes().startswith(b"\x89PNG")
    seen = render(page)
    assert seen.complaints == []
    assert "<title>Recalibration of " in seen.text
    # One feature makes no map of two.
    local = ["The largest error among rows that are alike", "The worst segments, before and after"]
    drawn = [title.partition(":")[0] for title in titles(page)]
    assert drawn == ["Later rows, before and after", *(local if name == "local" else [])]
    lead = document_of(page)["lead"]["text"]
    assert ("No method" in lead or "is not better" in lead) == (name == "none better")
    screenshot(page, tmp_path / "shot.png", width=800)
    assert (tmp_path / "shot.png").stat().st_size > 10_000


def test_the_same_file_gives_the_same_page(folder: Path, tmp_path: Path) -> None:
    pages = []
    for name in ("a.html", "b.html"):
        inside("recalibrate", "scores.parquet", "--method", "beta", *QUICK, "--html", str(tmp_path / name), cwd=folder)
        pages.append((tmp_path / name).read_bytes())
    assert pages[0] == pages[1]
