"""What the picture of `monitor report` says."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

from monitor.classes import CLASS_MEASURES
from monitor.measures import MEASURES
from monitor.reports.evaluation.classes import ClassReport
from monitor.reports.evaluation.inputs import Resampling
from monitor.reports.figures.style import PNG_DPI
from monitor.reports.findings import ReportOptions, measure_files
from monitor.reports.pictures import sheet_of, sheet_subtitle
from monitor.reports.report_view import report_view
from monitor.sources.tables import Columns
from tests.reports.figures.tables import check_layout, texts


def test_no_title_stands_for_two_measures() -> None:
    assert not {each.title for each in CLASS_MEASURES.values()} & {each.title for each in MEASURES.values()}


def test_the_sheet_of_many_classes_has_a_verdict_and_says_what_it_draws(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    truth = rng.dirichlet([1.0, 1.0, 1.0], 600)
    outcome = (truth.cumsum(axis=1) < rng.random((600, 1))).sum(axis=1)
    sure = truth**3 / (truth**3).sum(axis=1, keepdims=True)
    columns = {name: sure[:, number] for number, name in enumerate("abc")}
    pa.csv.write_csv(pa.table({**columns, "y": np.array(list("abc"))[outcome]}), tmp_path / "classes.csv")
    options = ReportOptions(tmp_path / "classes.csv", Columns(("a", "b", "c"), "y"), resampling=Resampling(99, 0))
    found = measure_files(options)
    assert isinstance(found.result, ClassReport)
    assert found.result.top_label.diagnosis is not None
    figure = sheet_of(found, "Calibration of classes", sheet_subtitle(found, report_view(found)))
    figure.set_dpi(PNG_DPI)
    check_layout(figure)
    written = texts(figure)
    (subtitle,) = (each for each in written if each.startswith("The most probable class: "))
    assert found.result.top_label.diagnosis.sentence in subtitle
    assert "The most probable class of each prediction" in written
    # Of other bins than ECE, RMSCE and MCE of the most probable class, which the page shows as well.
    assert {"top-label ECE, 15 bins", "top-label RMSCE, 15 bins", "top-label MCE, 15 bins"} <= set(written)
