import gzip
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from monitor.measures import WINDOW_MEASURES
from monitor.reports.evaluation.evaluate import evaluate_binary as evaluate
from monitor.reports.evaluation.files import looks_like_event_log, model_of, report_table
from monitor.reports.evaluation.segments import MAX_SEGMENT_VALUES
from monitor.sources.tables import Columns, EventTable, SegmentColumn, read_table
from tests.windows.memory import calibrated


def rows(slopes: dict[str, float], n: int = 1500) -> EventTable:
    """One region a slope, mixed."""
    parts = [calibrated(n, seed, slope=slope) for seed, slope in enumerate(slopes.values())]
    codes = np.repeat(np.arange(len(slopes), dtype=np.int32), n)
    order = np.random.default_rng(9).permutation(codes.size)
    return EventTable(
        prediction=np.concatenate([p for p, _ in parts])[order],
        outcome=np.concatenate([y for _, y in parts])[order],
        time_ms=np.arange(codes.size),
        segments={"region": SegmentColumn(codes[order], tuple(slopes))},
    )


def test_segments_come_worst_first() -> None:
    table = rows({"fine": 1.0, "bad": 2.5, "poor": 1.7})
    found = report_table(table, model="m", draws=199)
    assert [each.report.segment for each in found.segments] == ["region=bad", "region=poor", "region=fine"]
    assert [each.significant for each in found.segments] == [True, True, False]
    assert found.whole.segment == "all"
    assert found.whole.n == sum(each.report.n for each in found.segments) == 4500


def test_a_segments_report_is_that_of_its_rows() -> None:
    table = rows({"a": 1.0, "b": 2.0})
    found = report_table(table, model="m", version="2", draws=199)
    in_b = table.segments["region"].codes == 1
    assert found.segments[0].report == evaluate(
        table.prediction[in_b],
        table.outcome[in_b],
        time_ms=np.flatnonzero(in_b),
        measures=WINDOW_MEASURES,
        draws=199,
        model="m",
        version="2",
        segment="region=b",
    )


def test_weights_count() -> None:
    table = replace(rows({"a": 1.0, "b": 2.0}), weight=np.linspace(0.5, 2.0, 3000))
    found = report_table(table, model="m", draws=199)
    assert found.whole == evaluate(
        table.prediction, table.outcome, weight=table.weight, time_ms=table.time_ms, draws=199, model="m"
    )
    assert found.whole.n == 3000
    assert found.whole.prevalence != evaluate(table.prediction, table.outcome, draws=0).prevalence


def test_rows_without_an_outcome_belong_to_no_n() -> None:
    table = EventTable(
        np.array([0.5, 0.25, 0.75, 0.5]),
        np.array([1, 0, -1, 1], np.int8),
        segments={"s": SegmentColumn(np.array([0, 0, 0, 1], np.int32), ("x", "(empty)"))},
    )
    found = report_table(table, model="m", draws=0)
    assert (found.whole.n, found.whole.predictions, found.whole.positives) == (3, 4, 2)
    assert {each.report.segment: (each.report.n, each.report.predictions) for each in found.segments} == {
        "s=x": (2, 3),
        "s=(empty)": (1, 1),
    }


def test_a_small_segment_says_how_small_it_is_and_comes_last() -> None:
    table = rows({"a": 1.0, "b": 2.0})
    codes = table.segments["region"].codes.copy()
    codes[np.flatnonzero(codes == 1)[:1450]] = 0
    table = EventTable(table.prediction, table.outcome, segments={"region": SegmentColumn(codes, ("a", "b"))})
    found = report_table(table, model="m", draws=199)
    assert [each.report.segment for each in found.segments] == ["region=a", "region=b"]
    small = found.segments[1]
    assert small.report.insufficient == "only 50 of at least 100 predictions have an outcome"
    assert (small.p_value, small.q_value, small.significant) == (None, None, False)


def test_values_beyond_the_most_frequent_ones_are_put_together() -> None:
    count = MAX_SEGMENT_VALUES + 10
    codes = np.repeat(np.arange(count, dtype=np.int32), np.arange(count) + 10)
    p, y = calibrated(codes.size, seed=3)
    names = tuple(f"v{number}" for number in range(count))
    table = EventTable(p, y, segments={"s": SegmentColumn(codes, names)})
    found = report_table(table, model="m", draws=0)
    by_name = {each.report.segment: each.report.predictions for each in found.segments}
    assert len(by_name) == MAX_SEGMENT_VALUES + 1
    assert by_name["s=other"] == sum(range(10, 20))
    assert sum(by_name.values()) == codes.size
    assert "s=v9" not in by_name
    assert by_name["s=v10"] == 20


@pytest.mark.parametrize(("name", "model"), [("churn.2026.csv", "churn"), ("churn.csv", "churn")])
def test_a_file_is_read_and_reported(name: str, model: str, tmp_path: Path) -> None:
    p, y = calibrated(300, seed=5)
    lines = "".join(
        f"{float(score)!r},{int(outcome)},{'ab'[number % 2]}\n"
        for number, (score, outcome) in enumerate(zip(p, y, strict=True))
    )
    (tmp_path / name).write_text("score,label,side\n" + lines)
    table = read_table(tmp_path / name, Columns(segments=["side"]))
    found = report_table(table, model=model_of(tmp_path / name), draws=19)
    assert found.whole == evaluate(p, y, draws=19, model=model)
    assert {each.report.segment: each.report.n for each in found.segments} == {"side=a": 150, "side=b": 150}
    assert table.notes == ("prediction read from column 'score'", "outcome read from column 'label'")


PREDICTION = {"type": "prediction", "model": "m", "id": "1", "ts": 1, "p": 0.5}
OUTCOME = {"type": "outcome", "model": "m", "id": "1", "ts": 2, "y": 1}


@pytest.mark.parametrize(
    ("lines", "verdict"),
    [
        ([PREDICTION, OUTCOME], True),
        ([{"type": "labelled", "model": "m", "id": "1", "ts": 1, "p": 0.5, "y": 1}], True),
        ([{"model": "m", "id": "1", "ts": 1, "p": 0.5}], True),
        ([{"model": "m", "id": "1", "ts": 1, "y": 1}], True),
        ([{"specversion": "1.0", "type": "prediction", "data": {"p": 0.5}}], True),
        (["no event", PREDICTION, OUTCOME], True),
        ([{"p": 0.5, "y": 1}], False),
        ([{"model": "m", "id": "1", "p": 0.5, "y": 1}], False),
        ([{"type": "gold", "model": "m", "id": "1", "p": 0.5, "y": 1}], False),
        ([{"p": 0.5, "y": 1}, {"p": 0.5, "y": 1}, PREDICTION], False),
        ([[1, 2]], False),
        ([], False),
    ],
)
def test_events_are_told_from_rows(lines: list[object], verdict: bool, tmp_path: Path) -> None:
    text = "\n".join(json.dumps(line) for line in lines)
    (tmp_path / "f.jsonl").write_text(text)
    (tmp_path / "f.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    assert looks_like_event_log(tmp_path / "f.jsonl") is verdict
    assert looks_like_event_log(tmp_path / "f.jsonl.gz") is verdict
    (tmp_path / "f.csv").write_text(text)
    assert not looks_like_event_log(tmp_path / "f.csv")
