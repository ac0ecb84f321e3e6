"""The functions of the package: one report whatever holds the data, and the same as the command line's."""

import doctest
import importlib
import inspect
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from matplotlib.figure import Figure
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression

import monitor
import monitor.functions
from monitor.classes import CLASS_MEASURES
from monitor.cli.main import run
from monitor.errors import InputError, NotEnoughData, OptionError
from monitor.maps import METHODS, LabelledEvents, apply_map, fit_map
from monitor.maps.temperature import Temperature
from monitor.measures import MEASURES
from monitor.reports.evaluation.evaluate import evaluate as evaluate_arrays
from monitor.reports.evaluation.report import Report
from monitor.results import DataClassReport, DataReport
from monitor.scores import ScoreTable


def scores(n: int = 3000, *, seed: int = 2) -> dict[str, Any]:
    """Scores whose logits are half as large again as they should be, of customers in two regions."""
    rng = np.random.default_rng(seed)
    logit = rng.normal(0.0, 1.2, n)
    return {
        "score": 1.0 / (1.0 + np.exp(-1.6 * logit)),
        "calm": 1.0 / (1.0 + np.exp(-logit)),
        "label": (rng.random(n) < 1.0 / (1.0 + np.exp(-logit))).astype(int),
        "region": rng.choice(["eu", "us"], n),
        "age": rng.uniform(20.0, 70.0, n),
    }


NAMED: Final = monitor.Columns("score", "label", segments=["region"], features=["age"])


def named(table: Any, prediction: str = "score", **options: Any) -> monitor.Table:
    return monitor.read(table, monitor.Columns(prediction, "label"), **options)


KINDS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "arrow": pa.table,
    "arrays": dict,
}


@pytest.fixture(scope="module")
def report() -> DataReport:
    found = monitor.evaluate(monitor.read(scores(), NAMED), draws=19)
    assert isinstance(found, DataReport)
    return found


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow"])
def test_every_kind_of_table_gives_the_same_report(report: DataReport, kind: str) -> None:
    assert monitor.evaluate(monitor.read(KINDS[kind](scores()), NAMED), draws=19) == report


def test_up_to_the_tolerance_nothing_is_a_fault() -> None:
    table = scores()
    wanted: dict[str, Any] = {"measures": "smce", "draws": 19, "tolerance": 1.5}
    found = monitor.evaluate(named(table), **wanted)
    assert isinstance(found, DataReport)
    assert found.diagnosis is not None
    assert (found.diagnosis.verdict.value, found.diagnosis.tolerance) == ("calibrated", 1.5)
    two = monitor.compare(
        named(table),
        named(table, "calm"),
        **wanted,
    )
    assert [each.diagnosis.tolerance for each in (two.first, two.second) if each.diagnosis] == [1.5, 1.5]


def test_arrays_give_the_report_of_a_table_of_them(report: DataReport) -> None:
    data = scores()
    of_arrays = monitor.evaluate(
        pd.Series(data["score"], name="score"),
        data["label"],
        segments={"region": data["region"]},
        features={"age": data["age"]},
        draws=19,
    )
    assert of_arrays == report
    assert [each.report.segment for each in report.segments] in (
        ["region=eu", "region=us"],
        ["region=us", "region=eu"],
    )
    assert report.local is not None
    assert report.local.features == ("age",)


def test_the_report_of_arrays_is_the_one_it_always_was() -> None:
    data = scores(500)
    found = monitor.evaluate(pl.Series("churn", data["score"]), data["label"], draws=19)
    assert isinstance(found, Report)
    plain = evaluate_arrays(data["score"], data["label"], draws=19, model="churn")
    assert found.to_dict() == {**plain.to_dict(), "measured_on": "rows", "notes": []}


def test_a_table_and_the_command_line_give_the_same_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frame = pd.DataFrame(scores(500))
    frame.to_parquet(tmp_path / "scores.parquet")
    options = ["--prediction", "score", "--outcome", "label", "--segment", "region", "--feature", "age"]
    assert run(["report", str(tmp_path / "scores.parquet"), *options, "--draws", "19", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    found = monitor.evaluate(monitor.read(frame, NAMED, model="scores"), draws=19, seed=0)
    assert json.loads(json.dumps(found.to_dict())) == printed


def test_what_a_report_prints_is_short_and_says_what_matters(report: DataReport) -> None:
    lines = repr(report).splitlines()
    assert len(lines) <= 6
    assert lines[0].startswith("Calibration of score: 3,000 predictions, 3,000 with an outcome")
    assert lines[1].startswith("Severe shape miscalibration. ")
    assert lines[2].startswith("TCE ")
    assert len(repr(report)) < 1200


PUBLIC: Final = ("monitor", "monitor.sklearn", "monitor.testing", "monitor.spark", "monitor.client", "monitor.logging")
CALLS: Final = {
    f"{room}.{name}": value
    for room in PUBLIC
    for name in getattr(importlib.import_module(room), "__all__", ())
    for value in [getattr(importlib.import_module(room), name)]
    if callable(value)
}


@pytest.mark.parametrize("name", CALLS)
def test_a_signature_has_at_most_ten_arguments(name: str) -> None:
    signature = inspect.signature(CALLS[name])
    assert len(signature.parameters) <= 10
    assert len(str(signature)) < 900


def test_the_main_functions_are_among_those() -> None:
    names = ("evaluate", "evaluate_by", "compare", "recalibrate", "apply", "read", "simulate_alarms", "Columns")
    assert {f"monitor.{name}" for name in names} <= {*CALLS}


def test_the_functions_are_offered_before_they_are_loaded() -> None:
    assert {"evaluate", "compare", "recalibrate", "apply"} <= set(dir(monitor))


def test_plain_reports_print_shortly_too() -> None:
    assert len(repr(evaluate_arrays([0.2, 0.8] * 50, [0, 1] * 50, draws=0))) < 600
    assert len(repr(evaluate_arrays([[0.7, 0.2, 0.1]] * 50, [0, 1] * 25, draws=0))) < 900
    assert len(str(inspect.signature(evaluate_arrays))) < 3000


def test_a_notebook_shows_the_verdict_and_the_tables(report: DataReport) -> None:
    html = report._repr_html_()
    assert "Severe shape miscalibration" in html
    assert "region=eu" in html
    assert "<html" not in html


def test_a_report_draws_itself(report: DataReport) -> None:
    figure = report.plot()
    assert isinstance(figure, Figure)
    assert figure._repr_png_().startswith(b"\x89PNG")  # type: ignore[attr-defined]
    axes = Figure().add_subplot()
    assert report.plot(ax=axes) is axes
    assert axes.lines


def test_the_page_is_the_one_that_the_command_line_writes(tmp_path: Path) -> None:
    frame = pd.DataFrame(scores(500))
    frame.to_parquet(tmp_path / "scores.parquet")
    options = ["--prediction", "score", "--outcome", "label", "--segment", "region", "--draws", "19"]
    assert run(["report", str(tmp_path / "scores.parquet"), *options, "--html", str(tmp_path / "cli.html")]) == 0
    found = monitor.evaluate(
        named(frame, model="scores"),
        segments=["region"],
        draws=19,
        seed=0,
    )
    found.to_html(tmp_path / "python.html")
    page = (tmp_path / "cli.html").read_text()
    assert (tmp_path / "python.html").read_text() == page
    assert found.to_html() == page


def test_classes_are_reported_with_their_names() -> None:
    rng = np.random.default_rng(1)
    vectors = rng.dirichlet(np.ones(3), 300)
    outcome = np.array([rng.choice(3, p=vector) for vector in vectors])
    frame = pd.DataFrame(vectors, columns=["p_cat", "p_dog", "p_bird"]).assign(
        y=np.array(["cat", "dog", "bird"])[outcome]
    )
    table = monitor.read(frame, monitor.Columns(["p_cat", "p_dog", "p_bird"], "y"))
    found = monitor.evaluate(table, draws=19)
    assert isinstance(found, DataClassReport)
    assert found.class_names == ("cat", "dog", "bird")
    assert [each.segment for each in found.each_class] == ["class=cat", "class=dog", "class=bird"]
    of_arrays = monitor.evaluate(vectors, outcome, draws=19)
    assert isinstance(of_arrays, DataClassReport)
    assert of_arrays.measures == found.measures
    assert repr(found).startswith("3 classes")
    assert isinstance(found.plot(), Figure)
    with pytest.raises(InputError, match="segments is for predictions"):
        monitor.evaluate(table, segments=["y"])


def test_two_columns_of_a_table_are_compared_under_their_names() -> None:
    frame = pd.DataFrame(scores())
    found = monitor.compare(
        named(frame),
        named(frame, "calm"),
        draws=19,
    )
    assert (found.first.model, found.second.model, found.pairing) == ("score", "calm", "rows")
    assert repr(found).startswith("calm is better calibrated than score: smCE is lower by ")
    assert isinstance(found.plot(), Figure)
    assert "Calibration of calm against score" in found.to_html()
    assert "calm is better calibrated" in found._repr_html_()
    data = scores()
    of_arrays = monitor.compare((data["score"], data["label"]), (data["calm"], data["label"]), draws=19)
    assert of_arrays.differences == found.differences


@pytest.fixture(scope="module")
def recalibration() -> Any:
    return monitor.recalibrate(named(scores(12000)), draws=0)


def test_a_recalibration_says_what_to_do_and_saves_its_map(recalibration: Any, tmp_path: Path) -> None:
    assert repr(recalibration).startswith("Take ")
    assert "better than no map?" in repr(recalibration)
    assert recalibration.map is not None
    recalibration.save(tmp_path / "map.arrow")
    data = scores(10)
    after = monitor.apply(recalibration, data["score"])
    for other in (
        monitor.apply(tmp_path / "map.arrow", pd.DataFrame(data)),
        monitor.apply(
            str(tmp_path / "map.arrow"), monitor.read(pl.DataFrame(data), monitor.Columns(prediction="score"))
        ),
        monitor.apply(recalibration.map, data["score"]),
    ):
        np.testing.assert_array_equal(other, after)
    # Less sure than before, as the logits are too large.
    assert (abs(after - 0.5) < abs(data["score"] - 0.5)).mean() > 0.8
    assert isinstance(recalibration.plot(), Figure)
    assert "The methods" in recalibration.to_html()
    assert "Take " in recalibration._repr_html_()
    assert recalibration.to_dict()["best"] == recalibration.best.method.name


def test_recalibration_of_a_table_and_of_its_file_are_the_same(
    recalibration: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pd.DataFrame(scores(12_000)).to_parquet(tmp_path / "scores.parquet")
    command = ["refit", str(tmp_path / "scores.parquet"), "--prediction", "score", "--outcome", "label", "--draws", "0"]
    assert run([*command, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    found = json.loads(json.dumps(recalibration.to_dict()))
    assert found["methods"] == printed["methods"]
    assert found["advice"] == printed["advice"]


def test_without_a_better_map_there_is_none_to_save(tmp_path: Path) -> None:
    found = monitor.recalibrate(named(scores(400), "calm"), draws=0, methods="beta")
    assert found.map is None
    with pytest.raises(NotEnoughData, match="there is no map to be saved or applied"):
        found.save(tmp_path / "map.arrow")
    assert not (tmp_path / "map.arrow").exists()


def test_maps_with_groups_and_features_find_them_in_tables_and_arrays() -> None:
    data = scores(6000)
    # One region is told far too low, the other too high.
    shift = np.where(data["region"] == "eu", 1.5, -1.5)
    logit = np.log(data["calm"] / (1.0 - data["calm"])) + shift
    data["label"] = (np.random.default_rng(3).random(6000) < 1.0 / (1.0 + np.exp(-logit))).astype(int)
    found = monitor.recalibrate(
        named(data, "calm"),
        segments=["region"],
        methods=["group_wise_beta"],
        draws=0,
    )
    of_table = monitor.apply(found, data)
    np.testing.assert_array_equal(monitor.apply(found, data["calm"], segments={"region": data["region"]}), of_table)
    assert found.map is not None
    np.testing.assert_array_equal(monitor.apply(found.map, data["calm"], segments=data["region"]), of_table)
    with pytest.raises(InputError, match=r"the map needs groups; pass segments=\{'region': values\}"):
        monitor.apply(found, data["calm"])


def test_methods_may_have_options() -> None:
    data = named(scores(12_000))
    found = monitor.recalibrate(data, methods={"beta": {"parameters": "am"}, "platt": {}}, draws=0)
    assert [each.method.name for each in found.candidates] == ["beta", "platt"]
    assert found.candidates[0].map != monitor.recalibrate(data, methods="beta", draws=0).candidates[0].map


def test_a_table_shows_its_columns_and_roles() -> None:
    table = monitor.read({"s": [0.5], "y": [1]}, monitor.Columns("s", logits=True))
    assert repr(table) == "<the table: columns s, y; prediction=('s',), logits=True>"
    assert table.names() == ["s", "y"]


def test_a_map_is_applied_to_numbers() -> None:
    np.testing.assert_allclose(monitor.apply(Temperature(2.0, 2), [0.9]), 0.75)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: monitor.evaluate([0.5]), "y must hold the outcomes, or p be a table with a column of them"),
        (lambda: monitor.evaluate(scores(), [1]), "y must be left out where p is a table"),
        (
            lambda: monitor.read([0.5], monitor.Columns("p")),
            "a table must be a DataFrame, an Arrow table, or arrays by",
        ),
        (
            lambda: monitor.read({"p": [0.5]}, cast("Any", {"outcome": "y"})),
            "columns must be Columns.prediction=..., out",
        ),
        (
            lambda: monitor.read({"p": [0.5]}, monitor.Columns(outcome=cast("Any", ["y"]))),
            "outcome must be a text, got",
        ),
        (
            lambda: monitor.read({"p": [0.5]}, monitor.Columns(cast("Any", 3))),
            "prediction must name columns of the table",
        ),
        (lambda: monitor.evaluate([0.5], [1], weight="w"), "weight names a column, and p is no table"),
        (lambda: monitor.evaluate([0.5, 0.4], [1, 0], segments=["region"]), "segments must hold values where p is no"),
        (lambda: monitor.evaluate([0.5], [1], segments={"region": ["eu", "us"]}), "segment 'region' must be as long"),
        (lambda: monitor.evaluate([0.5], [1], features=["age"]), "features names columns, and p is no table"),
        (lambda: monitor.evaluate([0.5], [1], features={"age": ["old"]}), "feature 'age' must be numbers"),
        (lambda: monitor.evaluate([0.5], [1], features=[[1.0], [2.0]]), "features must be as long as p, got 2 and 1"),
        (
            lambda: monitor.evaluate({"a": [0.5], "y": [1]}),
            "name it with read\\(..., Columns\\(prediction=...\\)\\); columns are 'a', 'y'",
        ),
        (lambda: monitor.evaluate(scores(), weight=[1.0]), "weight must name a column of the table, got list"),
        (lambda: monitor.compare([0.5], [0.5]), r"must be a table, the path of one, or a pair \(p, y\)"),
        (
            lambda: monitor.evaluate([1, 0], [0.2656, 0.5]),
            "y must be 0 or 1, got 0.2656 at index 0; p and y look swapped",
        ),
        (lambda: monitor.recalibrate([1, 0], [[0.3, 0.7], [0.5, 0.5]]), "p and y look swapped, predictions come first"),
        (lambda: monitor.compare(([1, 0], [0.2, 0.5]), ([0.2, 0.5], [1, 0])), "p and y look swapped"),
        (lambda: monitor.evaluate([[0.5, 0.2]], [1]), "p must add up to 1 over the classes, got 0.7 in row 0"),
        (lambda: monitor.evaluate([[0.5, 0.5]], [2]), "y must be 0 or 1, got 2 at index 0"),
        (lambda: monitor.evaluate([[0.5, 0.5]], [1], measures=["skce", "x"]), "measures: there is no measure 'x'"),
        (lambda: monitor.evaluate([0.5, 0.4], ["no", "yes"]), r"got 'no'. Of two labels write y == 'yes', for predict"),
        (
            lambda: monitor.evaluate([[0.2, 0.8]], np.array(["no"], object)),
            r"of more, for the columns of predict_proba, np\.searchsorted\(model\.classes_, y\)",
        ),
        (
            lambda: monitor.recalibrate([0.5, 0.4], pd.Series(["no", "yes"])),
            "y must be numbers: 0 or 1, or that of a class",
        ),
        (lambda: monitor.evaluate([0.5], [1], draws=5), "^draws must be 0 or at least 19, got 5"),
        (
            lambda: monitor.evaluate({"p_a": [0.5], "p_b": [0.5], "y": [1]}),
            r"read\(..., Columns\(prediction=\['p_a', 'p_b'\]\)\)",
        ),
        (lambda: monitor.read(scores(), query="SELECT 1"), r"read\(..., query=...\) is for databases"),
        (
            lambda: monitor.apply(Temperature(2.0, 2), monitor.read({"p": [0.5]}, monitor.Columns(skip_bad_rows=True))),
            "leaves rows without a result: read the table without it",
        ),
        (
            lambda: monitor.recalibrate(named(scores()), methods={"beta": {"bins": 3}}),
            "options of methods: none of beta has an option 'bins'",
        ),
        (lambda: monitor.recalibrate([0.5], [1], held_out=2.0), "held_out must be above 0 and below 1, got 2"),
        (
            lambda: monitor.recalibrate(named(scores()), methods=["lore"]),
            "with features",
        ),
        (
            lambda: monitor.apply(cast("Any", 3), [0.5]),
            "a map must be what recalibrate returned, a map or a file, got int",
        ),
        (lambda: monitor.apply(Temperature(2.0, 2), [1.5]), r"p must be in \[0, 1\], got 1\.5 at index 0"),
    ],
)
def test_mistakes_are_named_in_the_words_of_python(call: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()


def test_an_error_of_an_option_carries_it_and_a_recalibration_names_arguments(recalibration: Any) -> None:
    with pytest.raises(OptionError) as caught:
        monitor.compare(scores(), scores(), measures="smec")
    assert caught.value.field == "measures"
    assert str(caught.value) == "measures: there is no measure 'smec'; did you mean smce?"
    reasons = " ".join(recalibration.to_dict()["reasons"])
    assert "was not tested: name columns with features." in reasons


def test_progress_may_be_told_to_a_function() -> None:
    shares: list[float] = []
    with monitor.show_progress(shares.append):
        monitor.evaluate(monitor.read(scores(500), NAMED), draws=19)
    assert shares
    assert all(0.0 <= share <= 1.0 for share in shares)


def test_the_examples() -> None:
    result = doctest.testmod(monitor.functions)
    assert result.attempted > 5
    assert result.failed == 0


def test_the_package_loads_little_until_it_is_used() -> None:
    code = (
        "import sys, monitor\n"
        "assert 'numpy' not in sys.modules\n"
        "monitor.evaluate, monitor.apply\n"
        "heavy = {'matplotlib', 'fastapi', 'sqlalchemy', 'kafka', 'pandas', 'polars'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_tables_are_searched_for_segments_and_read_as_they_are() -> None:
    rng = np.random.default_rng(3)
    z = rng.normal(0.0, 1.2, 6000)
    device, region = rng.choice(["ios", "web", "tv"], z.size), rng.choice(["eu", "us"], z.size)
    fault = (device == "tv") & (region == "us")
    y = rng.random(z.size) < 1.0 / (1.0 + np.exp(1.2 * fault - z))
    label = np.where(y, "bad", "good").astype(object)
    label[7] = "?"
    table = pd.DataFrame({"score": z, "label": label, "device": device, "region": region})
    table.loc[11, "score"] = np.nan
    report = monitor.evaluate(
        monitor.read(table, monitor.Columns("score", "label", positive="bad", logits=True, skip_bad_rows=True)),
        find_segments=True,
        draws=0,
    )
    assert isinstance(report, DataReport)
    assert report.search is not None
    assert [each.report.segment for each in report.search.segments] == ["device=tv, region=us"]
    assert "device=tv, region=us" in repr(report)
    assert report.n == z.size - 1
    assert any("score" in note or "row" in note for note in (*report.notes, *report.cautions))
    with pytest.raises(InputError, match="find_segments is for tables, and p is an array"):
        monitor.evaluate([0.1, 0.9], [0, 1], find_segments=True)


def test_without_draws_segments_are_not_said_to_be_small() -> None:
    rng = np.random.default_rng(1)
    p = rng.random(3000)
    table = {"p": p, "y": rng.random(3000) < p, "region": rng.choice(["a", "b"], 3000)}
    assert "Segments are not judged: without draws" in repr(monitor.evaluate(table, segments=["region"], draws=0))


def test_two_columns_of_predict_proba_are_a_binary_model_everywhere() -> None:
    """P(y = 1) is the second column, as scikit-learn has it and as maps take it."""
    data = scores(12_000)
    p, y = data["score"], data["label"]
    both = np.column_stack([1.0 - p, p])
    vectors = pa.table({"probability": list(both), "y": y})
    columns = {"p_stays": both[:, 0], "p_churned": both[:, 1], "y": np.where(y == 1, "churned", "stays")}
    of_both = monitor.Columns(["p_stays", "p_churned"], "y")
    plain = monitor.evaluate(p, y, draws=19)
    assert monitor.evaluate(both, y, draws=19) == plain
    assert monitor.evaluate(both.tolist(), y.tolist(), draws=19) == plain
    of_vectors = monitor.read(vectors, monitor.Columns("probability"), model="unnamed")
    assert monitor.evaluate(of_vectors, draws=19) == plain
    assert monitor.evaluate(monitor.read(columns, of_both), draws=19) == plain
    assert monitor.evaluate(monitor.read(columns, of_both._replace(positive="churned")), draws=19) == plain
    assert evaluate_arrays(both, y, draws=19) == evaluate_arrays(p, y, draws=19)
    weight = np.arange(1.0, y.size + 1.0)
    assert monitor.evaluate(both, y, weight=weight, draws=0) == monitor.evaluate(p, y, weight=weight, draws=0)
    assert monitor.evaluate_local(both, y, data["age"][:, None], draws=19) == monitor.evaluate_local(
        p, y, data["age"][:, None], draws=19
    )
    rows = {**columns, "region": data["region"]}
    groups = [
        monitor.evaluate_by(monitor.read(rows, named, model="churn"), "region", draws=0).to_arrow()
        for named in (of_both, monitor.Columns("p_churned", "y", positive="churned"))
    ]
    assert groups[0] == groups[1]

    comparison = monitor.compare((both, y), (data["calm"], y), measures=["smce"], draws=19)
    assert comparison.differences == monitor.compare((p, y), (data["calm"], y), measures=["smce"], draws=19).differences
    recalibration = monitor.recalibrate(both, y, methods=["beta"], draws=0)
    assert recalibration.map == monitor.recalibrate(p, y, methods=["beta"], draws=0).map
    after = monitor.apply(recalibration, both)
    np.testing.assert_array_equal(after[:, 1], monitor.apply(recalibration, p))
    np.testing.assert_array_equal(monitor.apply(recalibration, of_vectors), after)
    fitted = fit_map(METHODS["beta"], LabelledEvents.of(both, y))
    np.testing.assert_array_equal(apply_map(fitted, p), apply_map(fit_map(METHODS["beta"], LabelledEvents.of(p, y)), p))


def test_labels_in_words_are_written_as_the_message_says() -> None:
    x, y = make_classification(900, 8, n_informative=5, n_classes=3, random_state=1)
    for known in (y < 2, y < 3):
        words = np.array(["a", "b", "c"])[y][known]
        model = LogisticRegression().fit(x[known], words)
        p = model.predict_proba(x[known])
        with pytest.raises(InputError, match="y must be numbers: 0 or 1, or that of a class, got "):
            monitor.evaluate(p, words)
        expected = monitor.evaluate(p, y[known], draws=19)
        assert monitor.evaluate(p, np.searchsorted(model.classes_, words), draws=19) == expected
        if known.sum() < y.size:
            assert monitor.evaluate(p, words == "b", draws=19) == expected


def test_two_columns_are_two_classes_where_a_measure_of_classes_is_named() -> None:
    data = scores(300)
    both = np.column_stack([1.0 - data["score"], data["score"]])
    table = pd.DataFrame(both, columns=["p_a", "p_b"]).assign(y=data["label"])
    arguments: list[tuple[Any, Any]] = [
        (both, data["label"]),
        (monitor.read(table, monitor.Columns(["p_a", "p_b"])), None),
    ]
    for p, y in arguments:
        found = monitor.evaluate(p, y, measures=["skce", "smce"], draws=19)
        assert isinstance(found, DataClassReport)
        assert found.classes == 2
        assert found.top_label.mean_prediction == both.max(axis=1).mean()


@pytest.mark.parametrize("name", sorted({*MEASURES} & {*CLASS_MEASURES}))
def test_a_measure_of_both_kinds_is_that_of_the_predictions(name: str) -> None:
    data = scores(300)
    both = np.column_stack([1.0 - data["score"], data["score"]])
    for p in (data["score"], both):
        found = monitor.evaluate(p, data["label"], measures=[name], draws=19)
        assert isinstance(found, DataReport)
        table = ScoreTable.from_events(data["score"], data["label"])
        assert found.measures[name].value == pytest.approx(MEASURES[name].value(table))
    of_classes = monitor.evaluate(np.column_stack([both / 2.0, both[:, 0] * 0.0 + 0.5]), data["label"], measures=[name])
    assert isinstance(of_classes, DataClassReport)
    assert list(of_classes.measures) == [name]


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Two files in a folder, whose labels are words."""
    data, folder = scores(12_000), tmp_path_factory.mktemp("stored")
    table = pd.DataFrame(data).assign(label=np.where(data["label"] == 1, "bad", "good"))
    for number, rows in enumerate((table[:1000], table[1000:])):
        rows.to_parquet(folder / f"{number}.parquet")
    return str(folder)


def test_every_function_reads_what_evaluate_reads(stored: str) -> None:
    table = scores(12_000)
    eu = {name: values[table["region"] == "eu"] for name, values in table.items()}
    of_eu: dict[str, Any] = {"where": "region = 'eu'"}
    score, calm = (monitor.Columns(name, "label", positive="bad") for name in ("score", "calm"))
    options: dict[str, Any] = {"measures": ["smce"], "draws": 19, "seed": 0}
    compared = monitor.compare(monitor.read(stored, score, **of_eu), monitor.read([stored], calm, **of_eu), **options)
    assert compared.differences == monitor.compare(named(eu), named(eu, "calm"), **options).differences
    found = monitor.recalibrate(monitor.read(Path(stored), score, **of_eu), methods=["beta"], draws=0)
    assert found.map == monitor.recalibrate(named(eu), methods=["beta"], draws=0).map
    assert found.model == Path(stored).name
    with pytest.raises(InputError, match="outcome must be 0 or 1"):
        monitor.recalibrate(named(stored))
    np.testing.assert_array_equal(
        monitor.apply(found, monitor.read(stored, **of_eu)), monitor.apply(found, eu["score"])
    )
    np.testing.assert_array_equal(monitor.apply(found, stored), monitor.apply(found, table))


def test_a_map_of_log_odds_knows_its_columns() -> None:
    data = scores(12_000)
    odds = {"margin": np.log(data["score"] / (1.0 - data["score"])), "label": data["label"]}
    found = monitor.recalibrate(
        monitor.read(odds, monitor.Columns(prediction="margin", outcome="label", logits=True)),
        methods=["beta"],
        draws=0,
    )
    np.testing.assert_allclose(monitor.apply(found, odds), monitor.apply(found, data["score"]), rtol=1e-12)
    np.testing.assert_allclose(
        monitor.apply(found, monitor.read({"z": odds["margin"]}, monitor.Columns(prediction="z", logits=True))),
        monitor.apply(found, odds),
        rtol=1e-12,
    )


def test_segments_may_be_one_column() -> None:
    data = scores()
    named = monitor.evaluate(data["score"], data["label"], segments={"region": data["region"]}, draws=0)
    for column in (pd.Series(data["region"], name="region"), pl.Series("region", data["region"])):
        assert monitor.evaluate(data["score"], data["label"], segments=column, draws=0) == named
    plain = monitor.evaluate(data["score"], data["label"], segments=data["region"], draws=0)
    assert isinstance(plain, DataReport)
    assert [each.report.segment for each in plain.segments] == ["segment=eu", "segment=us"]


def test_reports_by_group_make_a_page_without_a_file(tmp_path: Path) -> None:
    groups = monitor.evaluate_by(named(scores()), "region", draws=0)
    page = groups.to_html()
    groups.to_html(tmp_path / "page.html")
    assert page == (tmp_path / "page.html").read_text("utf-8")
    assert "region=eu" in page
