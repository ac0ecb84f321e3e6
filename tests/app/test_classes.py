"""A log of predictions over several classes, reported on as a file and by the service."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from monitor.app.offline import report_log
from monitor.app.settings import Settings
from monitor.classes.skce import skce
from monitor.classes.sketch import sketched_interval, sketched_null, sketched_skce
from monitor.clock import ManualClock
from monitor.events.encode import encode_outcome, encode_prediction
from monitor.events.model import SeriesKey
from monitor.measures import ece, kce, smce
from monitor.reports.evaluation.report import ReportKey
from monitor.scores import ClassTable
from monitor.scores.sketch import SkceSketch, SketchPlan

START_MS = 1_790_000_000_000
EVENTS = 4000
FEATURES = 256
CLASSES = ["cat", "dog", "bird"]
TREE: dict[str, Any] = {
    "models": {
        "defaults": {"horizon": "10m", "allowed_lateness": "5m"},
        "declared": {"pets": {"classes": CLASSES, "segments": ["region"], "sketch_features": FEATURES}},
    },
    "windows": [{"length": "2h"}],
    "evaluation": {"draws": 19},
}


@pytest.fixture(scope="module")
def table() -> ClassTable:
    rng = np.random.default_rng(12)
    truth = rng.dirichlet(np.ones(len(CLASSES)), EVENTS)
    outcome = [rng.choice(len(CLASSES), p=row) for row in truth]
    sharper = truth**1.6
    return ClassTable.from_events(sharper / sharper.sum(axis=1, keepdims=True), outcome)


def test_the_reports_of_a_log_are_those_of_its_table(tmp_path: Path, table: ClassTable) -> None:
    lines = []
    for at, (p, y) in enumerate(zip(table.prediction, table.outcome, strict=True)):
        # Within one window, all of them mature.
        time_ms = START_MS + at * 1000
        lines.append(encode_prediction("pets", at, time_ms, p, segments={"region": "eu" if at % 2 else "us"}))
        lines.append(encode_outcome("pets", at, time_ms + 60_000, y))
    late = START_MS + EVENTS * 1000 + 900_000
    # The clocks of both logs pass the time by which all others are settled.
    lines.append(encode_prediction("pets", "last", late, [1.0, 0.0, 0.0]))
    lines.append(encode_outcome("pets", "last", late, 0))
    file = tmp_path / "pets.jsonl"
    file.write_bytes(b"\n".join(lines))
    found = report_log(file, Settings.model_validate(TREE), ManualClock(START_MS))
    assert found.dead_letters == []
    assert found.events["prediction", "accepted"] == EVENTS + 1
    assert found.events["outcome", "joined"] == EVENTS + 1
    views = {"all": table.top_label()}
    views |= {f"class={name}": table.one_against_rest(label) for label, name in enumerate(CLASSES)}
    reports = found.snapshot.reports
    segments = {key.series.segment for key in reports}
    assert segments == {*views, "region=eu", "region=us"}
    for segment, scores in views.items():
        report = reports[ReportKey(SeriesKey("pets", "unversioned", segment), "2h")]
        assert (report.n, report.positives) == (EVENTS, int(scores.positives.sum()))
        assert report.mean_prediction == pytest.approx(scores.mean_prediction, abs=1e-11)
        exact = {"ece": ece(scores), "kce": kce(scores), "smce": smce(scores)}
        for name, expected in exact.items():
            value = report.measures[name]
            assert value.error_bound is not None
            assert value.value == pytest.approx(expected, abs=value.error_bound + 1e-9)
            assert value.value > 0.01
        if segment != "all":
            assert report.canonical == {}
    found_skce = reports[ReportKey(SeriesKey("pets", "unversioned", "all"), "2h")].canonical["skce"]
    sketch = SkceSketch.of(table, SketchPlan(len(CLASSES), FEATURES))
    assert found_skce.value == pytest.approx(sketched_skce(sketch), rel=1e-6)
    assert (found_skce.lower, found_skce.upper) == pytest.approx(sketched_interval(sketch), rel=1e-6)
    assert found_skce.null_q95 == pytest.approx(sketched_null(sketch).q95, rel=1e-6)
    # Of all pairs of events, by no sketch.
    assert found_skce.value == pytest.approx(skce(table), rel=0.1)
    assert found_skce.p_value is not None
    assert found_skce.p_value < 1e-6
