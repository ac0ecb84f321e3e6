"""What functions return has one shape, and types say which."""

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, assert_type

import numpy as np
import pyarrow as pa
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import monitor
from monitor import measures
from monitor.alarm_functions import AlarmSimulation
from monitor.measures import MEASURES
from monitor.results import DataClassReport, DataComparison, DataGroups, DataReport, Recalibration, Result
from monitor.scores import ScoreTable

RNG = np.random.default_rng(4)
Z = RNG.normal(0.0, 1.2, 3000)
P = 1.0 / (1.0 + np.exp(-1.6 * Z))
Y = (RNG.random(3000) < 1.0 / (1.0 + np.exp(-Z))).astype(int)
TABLE = {"p": P, "y": Y, "region": np.where(np.arange(3000) < 40, "a new one", "eu")}
VECTORS = np.column_stack([P / 2.0, 0.5 - P / 2.0, np.full(3000, 0.5)])

MADE: dict[str, Callable[[], Result]] = {
    "evaluate": lambda: monitor.evaluate(TABLE, segments=["region"], draws=19),
    "evaluate, classes": lambda: monitor.evaluate(VECTORS, Y, measures=["skce", "ece"], draws=19),
    "evaluate_by": lambda: monitor.evaluate_by(TABLE, "region", draws=19),
    "compare": lambda: monitor.compare((P, Y), (np.sqrt(P), Y), measures=["smce", "ece"], draws=19),
    "recalibrate": lambda: monitor.recalibrate(P, Y, methods=["beta"], draws=0),
    "simulate_alarms": lambda: monitor.simulate_alarms(scenario="slope=1.5", tolerance=0.05, budget=1, runs=1, days=1),
}


@pytest.fixture(scope="module", params=MADE)
def made(request: pytest.FixtureRequest) -> tuple[str, Any]:
    return request.param, MADE[request.param]()


ROWS = {
    "evaluate": ("segment", ["all", "region=eu", "region=a new one"]),
    "evaluate, classes": ("segment", ["all", "top label", "class=0", "class=1", "class=2"]),
    "evaluate_by": ("region", ["a new one", "eu"]),
    "compare": ("measure", ["smce", "ece"]),
    "recalibrate": ("method", ["none", "beta"]),
    "simulate_alarms": ("detector", ["calibration", "prevalence", "change", "any"]),
}


def test_every_result_is_a_table_a_page_a_figure_and_json(made: tuple[str, Any], tmp_path: Path) -> None:
    name, result = made
    table = result.to_arrow()
    column, values = ROWS[name]
    assert set(table[column].to_pylist()) == set(values)
    frame = result.to_pandas()
    assert list(frame.columns) == table.column_names
    assert len(frame) == table.num_rows
    assert isinstance(result.plot(), Figure)
    assert result.to_html().startswith("<!doctype html>")
    assert result.to_html(tmp_path / "page.html") is None
    assert "<table" in result._repr_html_()
    assert result.to_dict()


def test_a_table_has_the_numbers_of_the_report() -> None:
    report = monitor.evaluate(TABLE, segments=["region"], draws=19)
    assert isinstance(report, DataReport)
    whole, *segments = report.to_arrow().to_pylist()
    assert (whole["n"], whole["verdict"]) == (3000, "shape_miscalibration")
    assert whole["smce"] == report.measures["smce"].value
    assert whole["smce_null_q95"] == report.measures["smce"].null_q95
    assert [row["segment"] for row in segments] == [segment.report.segment for segment in report.segments]
    assert segments[0]["q_value"] == report.segments[0].q_value


def test_columns_do_not_depend_on_the_first_row() -> None:
    table = {"p": [0.5, *P], "y": [1, *Y], "group": ["few", *["many"] * 3000]}
    few, many = monitor.evaluate_by(table, "group", draws=19).to_arrow().to_pylist()
    assert (few["group"], few["smce"]) == ("few", None)
    assert few["insufficient"] is not None
    assert many["smce"] > 0.0


def test_a_figure_of_groups_names_those_that_it_leaves_out() -> None:
    table = {"p": np.tile(P, 2), "y": np.tile(Y, 2), "group": np.arange(6000) // 150}
    figure = monitor.evaluate_by(table, "group", draws=19).plot()
    texts = [" ".join(text.get_text().split()) for text in figure.texts]
    assert any("of 40 groups" in text and "the 30 with the least q are drawn" in text for text in texts)
    labels = [text.get_text() for text in figure.axes[0].texts]
    assert sum(label.startswith("group=") for label in labels) == 30


def test_a_notebook_breaks_no_number_and_names_the_model() -> None:
    table = monitor.read({"score": P, "y": Y, "region": TABLE["region"]}, monitor.Columns("score"))
    html = monitor.evaluate_by(table, "region", draws=19)._repr_html_()
    assert "Calibration of score by region" in html
    cells = re.findall(r'<td style="([^"]*)">([^<]*)</td>', html)
    numbers = [style for style, text in cells if re.fullmatch(r"[\d.,%<]+(?: to [\d.]+)?", text)]
    assert len(numbers) > 8
    assert all("nowrap" in style for style in numbers)
    assert any("nowrap" not in style for style, _ in cells)
    assert '<div style="overflow-x:auto"><table>' in html


def test_types_say_what_comes_back(tmp_path: Path) -> None:
    """A type checker reads this; here each is what it is said to be."""
    report = assert_type(monitor.evaluate([0.2, 0.8] * 50, [0, 1] * 50, draws=0), DataReport)
    assert_type(monitor.evaluate(VECTORS[:60], [0, 1, 2] * 20, draws=0), DataReport | DataClassReport)
    assert_type(monitor.evaluate(monitor.read(TABLE), draws=0), DataReport | DataClassReport)
    groups = assert_type(monitor.evaluate_by(TABLE, "region", draws=0), DataGroups)
    comparison = assert_type(monitor.compare((P, Y), (P, Y), measures="smce", draws=0), DataComparison)
    assert isinstance(assert_type(report.plot(), Figure), Figure)
    assert isinstance(assert_type(report.plot(Figure().add_subplot()), Axes), Axes)
    for result in (report, groups, comparison):
        assert isinstance(assert_type(result.to_html(), str), str)
    assert_type(report.to_html(tmp_path / "page.html"), None)
    assert isinstance(assert_type(measures.smce(P, Y), float), float)
    assert isinstance(assert_type(measures.smce(ScoreTable.from_events(P, Y)), float), float)
    assert isinstance(report.to_arrow(), pa.Table)
    recalibrate: Callable[..., Recalibration] = monitor.recalibrate
    simulate: Callable[..., AlarmSimulation] = monitor.simulate_alarms
    assert callable(recalibrate)
    assert callable(simulate)


@pytest.mark.parametrize("name", MEASURES)
def test_measures_are_typed_functions(name: str) -> None:
    assert inspect.isfunction(getattr(monitor.measures, name))
