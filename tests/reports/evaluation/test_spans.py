"""Data cut by time: where the cuts are, what each part says, and whether anything changed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit

from monitor.errors import NotEnoughData
from monitor.measures import MEASURES
from monitor.progress import no_progress
from monitor.reports.evaluation import spans as module
from monitor.reports.evaluation.evaluate import evaluate_binary as evaluate
from monitor.reports.evaluation.inputs import Resampling
from monitor.reports.evaluation.spans import MAX_SPANS, SPAN_MEASURES, duration, spans_of
from monitor.reports.findings import ReportOptions, add_picture_data, measure_table
from monitor.sources.columns import UNLABELLED
from monitor.sources.tables import EventTable

DAY = 86_400_000


def events(n: int, days: float = 12.0, shift: float = 0.0, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Predictions that are right until half of the time has passed; then the logits of what comes true go up."""
    rng = np.random.default_rng(seed)
    time = rng.integers(0, round(days * DAY), n)
    time[:2] = 0, round(days * DAY) - 1
    z = rng.normal(0.0, 1.0, n)
    y = rng.random(n) < expit(z + shift * (time >= 0.5 * days * DAY))
    return expit(z), y.astype(np.float64), time


def test_each_span_is_the_report_of_its_rows() -> None:
    p, y, time = events(6000)
    found = spans_of(p, y, time, draws=19, seed=0)
    assert len(found.reports) == MAX_SPANS
    assert found.length_ms == DAY
    for day, report in enumerate(found.reports):
        rows = time // DAY == day
        alone = evaluate(p[rows], y[rows], measures=SPAN_MEASURES, draws=19, seed=0)
        assert (report.from_ms, report.to_ms) == (day * DAY, (day + 1) * DAY)
        assert (report.n, report.measures, report.diagnosis) == (alone.n, alone.measures, alone.diagnosis)


def test_the_order_of_rows_does_not_matter_and_unknown_outcomes_do_not_count() -> None:
    p, y, time = events(3000)
    order = np.random.default_rng(1).permutation(3000)
    table = EventTable(
        np.r_[p[order], np.full(500, 0.5)],
        np.r_[y[order], np.full(500, UNLABELLED)].astype(np.int8),
        np.r_[time[order], np.full(500, 99 * DAY)],
    )
    options = ReportOptions(resampling=Resampling(0, 0))
    findings = measure_table(options, table, None, no_progress)
    spans = add_picture_data(findings, options, table, no_progress).pictures.spans
    assert spans is not None
    assert spans.reports == spans_of(p, y, time, draws=0, seed=0).reports


def test_there_are_fewer_spans_where_they_would_hold_too_little() -> None:
    p, y, time = events(700)
    number = len(spans_of(p, y, time, draws=0).reports)
    assert 3 <= number <= 7
    with pytest.raises(NotEnoughData, match="outcomes of two spans at least"):
        spans_of(*(each[:150] for each in (p, y, time)), draws=0)
    with pytest.raises(NotEnoughData):
        spans_of(p, y, np.zeros(700, np.int64), draws=0)
    with pytest.raises(NotEnoughData):
        spans_of(*(each[:0] for each in (p, y, time)), draws=0)


def test_a_time_without_events_stays_as_an_empty_span() -> None:
    p, y, time = events(6000)
    kept = (time < 3 * DAY) | (time >= 6 * DAY)
    found = spans_of(p[kept], y[kept], time[kept], draws=0)
    assert [each.n == 0 for each in found.reports] == [day in {3, 4, 5} for day in range(12)]
    assert all(each.insufficient for each in found.reports[3:6])


def test_a_shift_is_a_change_and_a_steady_offset_is_none() -> None:
    p, y, time = events(6000, shift=0.8)
    changed = spans_of(p, y, time, draws=19, seed=0)
    assert changed.change_p_value is not None
    assert changed.change_p_value < 1e-6
    assert "changed by more than chance" in changed.sentence
    assert changed.sentence.startswith("12 spans of 1 day each. From the first to the last, the share that came true")
    # Wrong all the time, but no more so at the end than at the beginning.
    p, y, time = events(6000)
    steady = spans_of(expit(np.log(p / (1.0 - p)) - 1.0), y, time, draws=19, seed=0)
    assert steady.change_p_value is not None
    assert steady.change_p_value > 0.05
    assert "did not change by more than chance" in steady.sentence


def test_without_draws_nothing_is_said_of_chance() -> None:
    found = spans_of(*events(3000), draws=0)
    assert found.change_p_value is None
    assert "chance" not in found.sentence


@pytest.mark.long
def test_changes_are_found_by_chance_as_often_as_said() -> None:
    """Cochran's Q of calibrated spans; 200 of them, so that 5% are 10 with a standard deviation of 3."""
    found = 0
    for seed in range(200):
        p, y, time = events(1200, days=3.0, seed=seed)
        reports = tuple(
            evaluate(p[rows], y[rows], measures={"brier": MEASURES["brier"]}, draws=19, seed=seed)
            for rows in (time // DAY == day for day in range(3))
        )
        p_value = module.Spans(DAY, reports).change_p_value
        assert p_value is not None
        found += p_value <= 0.05
    assert 2 <= found <= 20


@given(st.lists(st.integers(0, 10**15), min_size=1, max_size=50), st.integers(1, MAX_SPANS))
def test_every_event_lies_in_one_span_and_edges_are_even(times: list[int], number: int) -> None:
    time = np.array(times, np.int64)
    edges, place = module._edges(time, number), module._places(time, number)
    assert (edges[place] <= time).all()
    assert (time < edges[place + 1]).all()
    assert np.ptp(np.diff(edges)) <= 1


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (1, "1 millisecond"),
        (1500, "1.5 seconds"),
        (60_000, "1 minute"),
        (5_400_000, "1.5 hours"),
        (DAY, "1 day"),
        (30 * DAY + DAY // 2, "30.5 days"),
        (12_345 * DAY, "12,345 days"),
        (0, "0 milliseconds"),
    ],
)
def test_a_length_of_time_in_words(milliseconds: int, text: str) -> None:
    assert duration(milliseconds) == text
