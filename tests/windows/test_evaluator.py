import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from structlog.testing import capture_logs

from monitor.clock import ManualClock
from monitor.errors import EvaluationFailed, InputError, NoLongerKept, SettingsError, UnknownSeries
from monitor.events.model import ALL, ModelPolicy, SeriesKey
from monitor.events.times import format_time
from monitor.measures import MEASURES, WINDOW_MEASURES
from monitor.measures.base import Measure
from monitor.measures.kernel_error import KCE as KCE_MEASURE
from monitor.reports.evaluation.assess import Minimum
from monitor.reports.evaluation.report import MeasureResult, ReportKey
from monitor.scores import GridTable, ScoreTable
from monitor.windows.windows import Window
from tests.evaluations import Alone
from tests.windows.memory import CHURN, DAY_MS, HOUR_MS, MINUTE_MS, MemoryPanes, calibrated

POLICY = ModelPolicy(horizon_ms=HOUR_MS, lateness_ms=5 * MINUTE_MS)
NEGATIVE = replace(POLICY, implied_negative=True)
START_MS = 20_000 * DAY_MS
WINDOWS = (Window("1h", HOUR_MS), Window("5h", 5 * HOUR_MS), Window("last 200", 10 * HOUR_MS, last=200))
KCE = {"kce": MEASURES["kce"]}


def key(series: SeriesKey = CHURN, window: str = "1h") -> ReportKey:
    return ReportKey(series, window)


def text_of(milliseconds: int) -> str:
    return format_time(milliseconds).replace("T", " ").replace(":00.000Z", " UTC")


def add_hours(panes: MemoryPanes, series: SeriesKey, first_hour: float, hours: float, seed: int = 1) -> None:
    """200 answered predictions an hour."""
    n = int(200 * hours)
    p, y = calibrated(n, seed)
    panes.add(series, int(START_MS + first_hour * HOUR_MS) + np.arange(n) * 18_000, p, y)


def stream(*series: SeriesKey, policy: ModelPolicy = POLICY, hours: float = 8) -> MemoryPanes:
    panes = MemoryPanes(policy)
    for seed, each in enumerate(series or (CHURN,)):
        add_hours(panes, each, 0, hours, seed)
    return panes


def many(count: int) -> list[SeriesKey]:
    return [SeriesKey("churn", "7", f"region={number:03}") for number in range(count)]


def nothing(*_: object) -> None:
    """What happens beside a measure."""


class Counted:
    """A real measure that counts how often it is asked, and during which something happens."""

    def __init__(
        self, *, on_value: Callable[[ScoreTable], None] = nothing, on_norm: Callable[[], None] = nothing
    ) -> None:
        self._real = KCE_MEASURE
        self._on_value = on_value
        self._on_norm = on_norm
        self.values = 0
        self.norms = 0

    @property
    def measures(self) -> Mapping[str, Measure]:
        return {"kce": replace(self._real, value=self.value, norms=self.norm)}

    def value(self, table: ScoreTable) -> float:
        self.values += 1
        self._on_value(table)
        return self._real.value(table)

    def norm(self, table: ScoreTable, residual: NDArray[np.float64]) -> NDArray[np.float64]:
        self.norms += 1
        self._on_norm()
        return self._real.norms(table, residual)


def test_before_the_first_evaluation_there_is_nothing() -> None:
    evaluator = Alone(stream(), WINDOWS, clock=ManualClock())
    assert evaluator.latest.number == 0
    assert evaluator.latest.reports == {}
    assert evaluator.staleness == 0


def test_a_snapshot_holds_every_series_in_every_window() -> None:
    other = SeriesKey("fraud", "1", ALL)
    panes = stream(CHURN, other, SeriesKey("churn", "7", "region=eu"))
    clock = ManualClock(123_000)
    evaluator = Alone(panes, WINDOWS, clock=clock)
    snapshot = evaluator.evaluate()
    assert evaluator.latest is snapshot
    assert list(snapshot.reports) == sorted(ReportKey(s, w.name) for s in panes.series() for w in WINDOWS)
    assert all(report.key == at for at, report in snapshot.reports.items())
    assert snapshot.number == 1
    assert snapshot.evaluated_ms == 123_000
    assert {name: model.watermark_ms for name, model in snapshot.models.items()} == {
        each: panes.watermark_ms(each) for each in ("churn", "fraud")
    }
    assert {name: model.current_version for name, model in snapshot.models.items()} == {"churn": "7", "fraud": "1"}
    assert snapshot.failures == {}
    assert evaluator.evaluations_total == 1


def test_a_report_says_what_its_predictions_say() -> None:
    panes = stream()
    report = Alone(panes, WINDOWS, clock=ManualClock()).evaluate().reports[key(window="5h")]
    assert report.from_ms is not None
    assert report.to_ms is not None
    events = panes.events(CHURN, report.from_ms, report.to_ms)
    table = GridTable.from_events(events["p"], events["y"]).to_scores()
    assert report.to_ms - report.from_ms == 5 * HOUR_MS
    assert report.n == report.predictions == events.size == 1000
    assert report.positives == events["y"].sum()
    assert report.prevalence == pytest.approx(events["y"].mean())
    assert report.mean_prediction == pytest.approx(events["p"].mean())
    assert list(report.measures) == list(WINDOW_MEASURES)
    for name, result in report.measures.items():
        assert result.value == MEASURES[name].value(table)
        assert result.unit == MEASURES[name].unit
        assert result.null_mean is not None
        assert result.null_q95 is not None
        assert result.null_mean <= result.null_q95
        assert result.p_value is not None
        assert 0.0 < result.p_value <= 1.0
        assert result.error_bound is not None
        assert result.lower is not None
        assert result.upper is not None
        assert result.lower <= result.value <= result.upper


def test_too_little_is_said_in_words_and_never_measured() -> None:
    panes = stream(hours=3)
    counted = Counted()
    evaluator = Alone(panes, WINDOWS[:1], minimum=Minimum(events=201), measures=counted.measures, clock=ManualClock())
    report = evaluator.evaluate().reports[key()]
    assert report.insufficient == "only 200 of at least 201 predictions have an outcome"
    assert report.measures == {}
    assert (report.n, report.predictions) == (200, 200)
    assert counted.values == counted.norms == 0


def test_a_window_without_predictions_has_no_means() -> None:
    panes = stream(hours=1)
    panes.advance_to("churn", START_MS + 30 * HOUR_MS)
    report = Alone(panes, WINDOWS, clock=ManualClock()).evaluate().reports[key()]
    assert report.insufficient == (f"holds no predictions: there are none since {text_of(START_MS + 28 * HOUR_MS)}")
    assert (report.n, report.prevalence, report.mean_prediction, report.label_coverage) == (0, None, None, None)


@pytest.mark.parametrize("window", [Window("7d", 7 * DAY_MS), Window("last-10000", 7 * DAY_MS, last=10_000)])
def test_a_window_that_holds_nothing_yet_says_when_it_will(window: Window) -> None:
    # 20,000 events within two hours, at panes of three hours and a horizon of one.
    panes = MemoryPanes(POLICY)
    p, y = calibrated(20_000, seed=3)
    panes.add(CHURN, START_MS + np.arange(20_000) * 360, p, y)
    evaluator = Alone(panes, (window,), measures=KCE, clock=ManualClock())
    report = evaluator.evaluate().reports[key(window=window.name)]
    due_ms = START_MS + 4 * HOUR_MS
    assert report.insufficient == (
        f"holds no predictions yet: the first ones, since {text_of(START_MS)}, will be in it once there is an event of "
        f"{text_of(due_ms)} or later, as it ends where all is settled, 60 min before the newest event, and moves on in "
        "steps of 3h"
    )
    assert report.diagnosis is not None
    assert report.insufficient in report.diagnosis.sentence
    # And so it is: not a moment before, and then with all of them.
    panes.advance_to("churn", due_ms - 1)
    assert evaluator.evaluate().reports[key(window=window.name)].predictions == 0
    panes.advance_to("churn", due_ms)
    assert evaluator.evaluate().reports[key(window=window.name)].predictions == 20_000


def test_no_outcome_means_negative_where_declared() -> None:
    panes = MemoryPanes(NEGATIVE)
    p, y = calibrated(1600, seed=3)
    panes.add(CHURN, START_MS + np.arange(1600) * 18_000, p, np.where(y == 1, 1, -1))
    windows = (Window("1h", HOUR_MS), Window("1h young", HOUR_MS, mature=False))
    snapshot = Alone(panes, windows, clock=ManualClock()).evaluate()
    mature, young = snapshot.reports[key()], snapshot.reports[key(window="1h young")]
    assert mature.label_coverage == 1.0
    assert 0 < mature.positives < mature.n
    assert young.positives == young.n < young.predictions
    assert young.insufficient is not None


def test_the_same_panes_give_the_same_numbers() -> None:
    first, second = (Alone(stream(), WINDOWS, clock=ManualClock()).evaluate() for _ in range(2))
    assert first.reports == second.reports


def test_numbers_do_not_depend_on_the_evaluations_before() -> None:
    replayed = stream(hours=8)
    live = MemoryPanes(POLICY)
    evaluator = Alone(live, WINDOWS, clock=ManualClock())
    events = replayed.events(CHURN, 0, START_MS + DAY_MS)
    for part in np.array_split(events, 9):
        live.add(CHURN, part["time_ms"], part["p"], part["y"])
        evaluator.evaluate()
    assert evaluator.latest.reports == Alone(replayed, WINDOWS, clock=ManualClock()).evaluate().reports


def test_what_did_not_change_costs_nothing() -> None:
    panes, counted = stream(CHURN, *many(3)), Counted()
    evaluator = Alone(panes, WINDOWS, measures=counted.measures, clock=ManualClock())
    first = evaluator.evaluate()
    before = (counted.values, counted.norms)
    second = evaluator.evaluate()
    assert (counted.values, counted.norms) == before
    assert second.number == 2
    assert all(second.reports[at] is report for at, report in first.reports.items())


def test_panes_that_did_not_change_are_not_summed() -> None:
    series = many(3)
    panes = stream(*series)
    evaluator = Alone(panes, WINDOWS, measures=KCE, draws=0, clock=ManualClock())
    first = evaluator.evaluate()
    panes.sums = 0
    assert evaluator.evaluate().reports == first.reports
    assert panes.sums == 0
    panes.answer(series[1], np.arange(1250, 1260), 1)
    evaluator.evaluate()
    assert panes.sums == len(WINDOWS)
    panes.sums = 0
    panes.advance_to("churn", panes.watermark_ms("churn") + WINDOWS[0].slide_ms)
    moved = evaluator.evaluate()
    assert panes.sums >= len(series)
    assert moved.reports == Alone(panes, WINDOWS, measures=KCE, draws=0, clock=ManualClock()).evaluate().reports


class Hurried(MemoryPanes):
    """Panes that change between the look at their revision and their sum."""

    def sum(self, series: SeriesKey, slide_ms: int, from_ms: int, to_ms: int) -> GridTable:
        result = super().sum(series, slide_ms, from_ms, to_ms)
        if self.sums == 1:
            self.answer(series, np.arange(1200, 1250), 1)
        return result


def test_what_changes_while_it_is_summed_is_found_changed_the_next_time() -> None:
    panes = Hurried(POLICY)
    add_hours(panes, CHURN, 0, 8)
    evaluator = Alone(panes, WINDOWS[:1], measures=KCE, draws=0, clock=ManualClock())
    first = evaluator.evaluate().reports[key()]
    second = evaluator.evaluate().reports[key()]
    assert first.positives < second.positives
    assert second == Alone(panes, WINDOWS[:1], measures=KCE, draws=0, clock=ManualClock()).evaluate().reports[key()]


def test_time_alone_moves_a_silent_window_without_measuring_it_again() -> None:
    panes, counted = stream(hours=2), Counted()
    window = Window("last 50", DAY_MS, last=50)
    evaluator = Alone(panes, [window], measures=counted.measures, minimum=Minimum(events=10), clock=ManualClock())
    panes.advance_to("churn", START_MS + 5 * HOUR_MS)
    first = evaluator.evaluate().reports[key(window="last 50")]
    before = counted.values
    panes.advance_to("churn", START_MS + 7 * HOUR_MS)
    second = evaluator.evaluate().reports[key(window="last 50")]
    assert counted.values == before
    assert first.to_ms is not None
    assert second.to_ms == first.to_ms + 2 * HOUR_MS
    assert second.measures == first.measures


def test_only_what_changed_is_measured() -> None:
    series = many(5)
    panes, counted = stream(*series), Counted()
    evaluator = Alone(panes, WINDOWS[:1], measures=counted.measures, draws=0, clock=ManualClock())
    evaluator.evaluate()
    counted.values = 0
    panes.answer(series[2], np.arange(1250, 1260), 1)  # late outcomes that correct earlier ones
    second = evaluator.evaluate()
    assert counted.values == 1
    fresh = Alone(panes, WINDOWS[:1], measures=KCE, draws=0, clock=ManualClock()).evaluate()
    assert second.reports == fresh.reports


def test_values_are_published_before_any_interval_is_renewed() -> None:
    series = many(4)
    panes = stream(*series)
    seen: set[tuple[int, int]] = set()
    counted = Counted(on_norm=lambda: seen.add((evaluator.latest.number, evaluator.latest.reports[key(series[3])].n)))
    window = Window("1h", 10 * HOUR_MS)
    evaluator = Alone(panes, [window], measures=counted.measures, clock=ManualClock())
    evaluator.evaluate()
    for each in series:
        add_hours(panes, each, 8, 1, seed=99)
    evaluator.evaluate()
    first, second = sorted(seen)
    assert (first[0], second[0]) == (1, 2)
    assert second[1] > first[1]


def test_values_carry_the_intervals_of_up_to_now_until_they_are_renewed() -> None:
    panes = stream(hours=8)
    carried: list[MeasureResult] = []
    counted = Counted(on_norm=lambda: carried.append(evaluator.latest.reports[key()].measures["kce"]))
    evaluator = Alone(panes, [Window("1h", 10 * HOUR_MS)], measures=counted.measures, clock=ManualClock())
    old = evaluator.evaluate().reports[key()].measures["kce"]
    add_hours(panes, CHURN, 8, 1, seed=99)
    new = evaluator.evaluate().reports[key()].measures["kce"]
    between = carried[-1]
    assert between.value == new.value != old.value
    assert (between.null_mean, between.null_q95) == (old.null_mean, old.null_q95)
    assert between.null_mean != new.null_mean
    # The p-value is of the new value, by the draws of up to now.
    for each in (old, between, new):
        assert each.p_value is not None
        assert each.null_q95 is not None
        assert (each.p_value <= 0.05) == (each.value > each.null_q95)
    assert between.p_value != old.p_value
    for each in (old, between, new):
        assert each.lower is not None
        assert each.upper is not None
        assert each.lower <= each.value <= each.upper
    radii = [each.upper - each.value for each in (old, between) if each.upper is not None]
    assert radii[0] == pytest.approx(radii[1])


def changing(series: list[SeriesKey], counted: Counted, clock: ManualClock) -> Callable[[], tuple[Alone, set[int]]]:
    """An evaluation after everything has changed; says whose levels it renewed."""
    panes = stream(*series)
    evaluator = Alone(panes, WINDOWS[:1], measures=counted.measures, interval_seconds=10.0, clock=clock)
    levels: dict[int, float | None] = {}

    def step() -> tuple[Alone, set[int]]:
        hour = 8 + evaluator.evaluations_total
        for number, each in enumerate(series):
            add_hours(panes, each, hour, 1, seed=100 * hour + number)
        snapshot = evaluator.evaluate()
        renewed = set()
        for number, each in enumerate(series):
            level = snapshot.reports[key(each)].measures["kce"].null_mean
            if level != levels.get(number):
                renewed.add(number)
            levels[number] = level
        return evaluator, renewed

    return step


def test_intervals_are_renewed_in_turn_and_in_time() -> None:
    clock = ManualClock()
    # One value a series, and its norm twice where it is renewed, for the level and the interval: 4 s, then 0.6 s each.
    counted = Counted(on_value=lambda _: clock.advance(0.2), on_norm=lambda: clock.advance(0.3))
    series = many(20)
    step = changing(series, counted, clock)
    turns = []
    for _ in range(8):
        started = clock.monotonic()
        evaluator, renewed = step()
        assert clock.monotonic() - started <= 10.0
        assert evaluator.latest.duration_seconds == pytest.approx(4.0)
        assert len(renewed) >= 2  # a tenth
        turns.append(renewed)
    assert turns[0] | turns[1] | turns[2] == set(range(20))
    assert not turns[3] & turns[4]
    assert evaluator.staleness <= 3


def test_where_values_take_all_the_time_intervals_get_as_much() -> None:
    clock = ManualClock()
    # Values alone take 15 s where an evaluation is to be made every 10 s; renewing all takes 20 s.
    counted = Counted(on_value=lambda _: clock.advance(1.5), on_norm=lambda: clock.advance(1.0))
    step = changing(many(10), counted, clock)
    turns = []
    for _ in range(6):
        started = clock.monotonic()
        evaluator, renewed = step()
        assert evaluator.latest.duration_seconds == pytest.approx(15.0)
        assert clock.monotonic() - started <= 30.0
        turns.append(renewed)
    assert all(len(renewed) == 7 for renewed in turns)
    assert all(before | after == set(range(10)) for before, after in itertools.pairwise(turns))
    assert evaluator.staleness <= 2


def test_an_interval_that_takes_longer_than_all_the_time_is_renewed_all_the_same() -> None:
    clock = ManualClock()
    step = changing(many(5), Counted(on_norm=lambda: clock.advance(30.0)), clock)
    turns = [step()[1] for _ in range(10)]
    assert [len(turn) for turn in turns] == [1] * 10
    assert set().union(*turns[:5]) == set().union(*turns[5:]) == set(range(5))


def test_a_report_says_since_when_its_intervals_lag_behind_its_values() -> None:
    clock = ManualClock(5_000)
    series = many(3)
    panes = stream(*series)
    # One interval fits into an evaluation.
    counted = Counted(on_norm=lambda: clock.advance(4.0))
    evaluator = Alone(panes, WINDOWS[:1], measures=counted.measures, interval_seconds=10.0, clock=clock)

    def outdated() -> list[int | None]:
        return [evaluator.latest.reports[key(each)].intervals_outdated_since_ms for each in series]

    evaluator.evaluate()
    assert outdated() == [None, 5_000, 5_000]
    assert evaluator.latest.reports[key(series[1])].to_dict()["intervals_outdated_since"] == "1970-01-01T00:00:05.000Z"
    second_ms = clock.now_ms()
    add_hours(panes, series[0], 8, 1, seed=99)
    evaluator.evaluate()
    # The values of the first are newer than its intervals now; those of the last have waited the longest.
    assert outdated() == [second_ms, None, 5_000]
    evaluator.evaluate()
    assert outdated() == [second_ms, None, None]
    evaluator.evaluate()
    assert outdated() == [None, None, None]
    assert evaluator.staleness == 0


def test_intervals_that_could_not_be_renewed_stay_outdated_since_then() -> None:
    clock = ManualClock(5_000)
    panes = stream()

    def fail() -> None:
        raise RuntimeError("no draws today")

    evaluator = Alone(panes, WINDOWS[:1], measures=Counted(on_norm=fail).measures, clock=clock)
    for hour in (8, 9):
        assert evaluator.evaluate().reports[key()].intervals_outdated_since_ms == 5_000
        clock.advance(10.0)
        add_hours(panes, CHURN, hour, 1, seed=hour)


def test_too_little_data_has_no_intervals_that_could_be_outdated() -> None:
    evaluator = Alone(stream(hours=3), WINDOWS[:1], minimum=Minimum(events=201), measures=KCE, clock=ManualClock())
    assert evaluator.evaluate().reports[key()].intervals_outdated_since_ms is None


def test_without_draws_there_are_values_and_error_bounds() -> None:
    evaluator = Alone(stream(), WINDOWS, draws=0, clock=ManualClock())
    results = evaluator.evaluate().reports[key()].measures.values()
    assert results
    assert all(each.error_bound is not None for each in results)
    assert all(each.lower is each.upper is each.null_mean is each.p_value is None for each in results)
    assert evaluator.staleness == 0


def fail_at(positives: float) -> Callable[[ScoreTable], None]:
    def fail(table: ScoreTable) -> None:
        if table.positives.sum() == positives:
            raise RuntimeError("the measure broke\nin two lines")

    return fail


def test_one_failing_report_never_stops_the_others() -> None:
    series = many(3)
    panes = stream(*series)
    healthy = Alone(panes, WINDOWS[:1], measures=KCE, clock=ManualClock()).evaluate()
    counted = Counted(on_value=fail_at(healthy.reports[key(series[1])].positives))
    evaluator = Alone(panes, WINDOWS[:1], measures=counted.measures, clock=ManualClock())
    with capture_logs() as logs:
        snapshot = evaluator.evaluate()
        evaluator.evaluate()
    assert snapshot.failures == {key(series[1]): "RuntimeError: the measure broke"}
    assert set(snapshot.reports) == {key(series[0]), key(series[2])}
    assert snapshot.reports[key(series[0])].measures == healthy.reports[key(series[0])].measures
    assert evaluator.failures_total == 2
    # It is counted every time and said once.
    assert [(each["event"], each["segment"], each["window"]) for each in logs] == [
        ("report failed", series[1].segment, "1h")
    ]
    with pytest.raises(EvaluationFailed, match="the report could not be made: RuntimeError: the measure broke"):
        evaluator.report("churn", "7", series[1].segment, "1h")


def test_an_interval_that_fails_leaves_the_value() -> None:
    def fail() -> None:
        raise RuntimeError("no draws today")

    counted = Counted(on_norm=fail)
    evaluator = Alone(stream(), WINDOWS[:1], measures=counted.measures, clock=ManualClock())
    for _ in range(2):
        snapshot = evaluator.evaluate()
        assert snapshot.failures == {key(): "RuntimeError: no draws today"}
        assert snapshot.reports[key()].measures["kce"].value > 0.0
        assert snapshot.reports[key()].measures["kce"].null_mean is None
    assert counted.norms == 1
    assert evaluator.failures_total == 1


def test_a_slow_evaluation_is_measured_and_said() -> None:
    clock = ManualClock()
    counted = Counted(on_value=lambda _: clock.advance(11.0))
    evaluator = Alone(stream(), WINDOWS[:1], measures=counted.measures, interval_seconds=10.0, clock=clock)
    with capture_logs() as logs:
        evaluator.evaluate()
    assert evaluator.latest.duration_seconds == pytest.approx(11.0)
    assert logs[0]["event"].startswith("evaluation takes longer than its interval")
    assert logs[0]["duration_seconds"] == 11.0


def test_more_series_than_allowed_lose_their_segments_first() -> None:
    whole = SeriesKey("zebra", "1", ALL)
    panes = stream(*many(3), whole)
    evaluator = Alone(panes, WINDOWS[:1], measures=KCE, max_series=2, clock=ManualClock())
    with capture_logs() as logs:
        evaluator.evaluate()
        evaluator.evaluate()
    assert [at.series for at in evaluator.latest.reports] == [many(3)[0], whole]
    assert evaluator.series_dropped == 2
    assert len(logs) == 1
    # What is not evaluated all the time is still answered.
    assert evaluator.report("churn", "7", many(3)[2].segment, "1h").n == 200


def test_names_of_other_models_take_no_place_of_a_declared_one(monkeypatch: pytest.MonkeyPatch) -> None:
    declared = [SeriesKey("zebra", "1", segment) for segment in (ALL, "region=eu")]
    panes = stream(SeriesKey("invented", "1", ALL), *declared)
    monkeypatch.setattr(panes, "policy", lambda model: replace(POLICY, declared=model == "zebra"))
    evaluator = Alone(panes, WINDOWS[:1], measures=KCE, max_series=2, clock=ManualClock())
    evaluator.evaluate()
    assert [at.series for at in evaluator.latest.reports] == declared


def test_a_report_comes_from_the_snapshot() -> None:
    panes = stream()
    evaluator = Alone(panes, WINDOWS, clock=ManualClock())
    snapshot = evaluator.evaluate()
    sums = panes.sums
    assert evaluator.report("churn", "7", ALL, "5h") is snapshot.reports[key(window="5h")]
    assert evaluator.report("churn") is snapshot.reports[key(window="1h")]
    assert panes.sums == sums


def test_a_report_before_the_first_evaluation_is_made_on_the_spot() -> None:
    panes = stream()
    evaluator = Alone(panes, WINDOWS, clock=ManualClock())
    report = evaluator.report("churn")
    assert report == evaluator.evaluate().reports[key()]


def test_a_report_of_then_is_what_was_reported_then() -> None:
    panes = stream(hours=6)
    evaluator = Alone(panes, WINDOWS, clock=ManualClock())
    then = panes.watermark_ms("churn")
    reported = dict(evaluator.evaluate().reports)
    add_hours(panes, CHURN, 6, 4, seed=5)
    evaluator.evaluate()
    for at, report in reported.items():
        assert evaluator.report("churn", "7", ALL, at.window, then) == report
        assert evaluator.latest.reports[at] != report


def test_a_report_of_a_time_that_is_gone_says_what_is_kept() -> None:
    panes = stream()
    panes.kept_ms = START_MS + 4 * HOUR_MS
    evaluator = Alone(panes, WINDOWS, clock=ManualClock())
    with pytest.raises(
        NoLongerKept, match="are kept since 2024-10-04T04:00:00Z: ask as of 2024-10-04T06:00:00Z or later"
    ):
        evaluator.report("churn", as_of_ms=START_MS + 5 * HOUR_MS)
    with pytest.raises(InputError, match="as_of must not lie before 1970, got -1 ms"):
        evaluator.report("churn", as_of_ms=-1)


def test_the_predictions_of_a_report_are_those_that_it_measured() -> None:
    panes = stream(hours=6)
    evaluator = Alone(panes, WINDOWS, clock=ManualClock())
    on_the_spot = {window.name: evaluator.predictions("churn", window=window.name) for window in WINDOWS}
    evaluator.evaluate()
    then = panes.watermark_ms("churn")
    for window in WINDOWS:
        report = evaluator.report("churn", window=window.name)
        at, contents = evaluator.predictions("churn", window=window.name)
        assert (at, contents.from_ms, contents.to_ms) == (report.key, report.from_ms, report.to_ms)
        assert (contents.table.labelled, contents.table.predictions) == (report.n, report.predictions)
        assert on_the_spot[window.name][1].table == contents.table
        assert evaluator.predictions("churn", window=window.name, as_of_ms=then)[1].table == contents.table
    with pytest.raises(UnknownSeries, match="no window '2h'"):
        evaluator.predictions("churn", window="2h")
    with pytest.raises(InputError, match="as_of must not lie before 1970"):
        evaluator.predictions("churn", as_of_ms=-1)


def test_without_a_version_the_newest_predictions_decide() -> None:
    old, new = SeriesKey("churn", "9", ALL), SeriesKey("churn", "10", ALL)
    panes = stream(old, hours=6)
    add_hours(panes, new, 5, 3)
    evaluator = Alone(panes, WINDOWS, measures=KCE, clock=ManualClock())
    assert evaluator.evaluate().current_version("churn") == "10"
    assert evaluator.report("churn").version == "10"
    assert evaluator.report("churn", as_of_ms=START_MS + 4 * HOUR_MS).version == "9"
    # Both predict: the one that predicts more.
    add_hours(panes, old, 8, 3)
    p, y = calibrated(20, 1)
    panes.add(new, START_MS + 11 * HOUR_MS - np.arange(1, 21) * 18_000, p, y)
    assert evaluator.evaluate().current_version("churn") == "9"


def test_what_is_unknown_names_what_is_there() -> None:
    panes = stream(
        CHURN, SeriesKey("churn", "8", ALL), SeriesKey("churn", "7", "region=eu"), SeriesKey("fraud", "1", ALL)
    )
    evaluator = Alone(panes, WINDOWS, measures=KCE, clock=ManualClock())
    evaluator.evaluate()
    for arguments, message in (
        (("chrun",), "no model 'chrun'; models are 'churn', 'fraud'"),
        (("churn", "9"), "no version '9' of model 'churn'; versions are '7', '8'"),
        (
            ("churn", "7", "region=us"),
            "no segment 'region=us' of model 'churn' version '7'; segments are 'all', 'region=eu'",
        ),
        (("churn", "7", ALL, "2h"), "no window '2h'; windows are '1h', '5h', 'last 200'"),
    ):
        with pytest.raises(UnknownSeries) as caught:
            evaluator.report(*arguments)
        assert str(caught.value) == message


def test_long_lists_of_names_are_cut() -> None:
    evaluator = Alone(stream(*many(30), hours=1), WINDOWS, clock=ManualClock())
    with pytest.raises(UnknownSeries, match=r"'region=019' and 10 more$"):
        evaluator.report("churn", "7", "region=x")


def test_a_series_that_is_gone_leaves_the_snapshot() -> None:
    panes = stream(CHURN, *many(1))
    evaluator = Alone(panes, WINDOWS[:1], measures=KCE, clock=ManualClock())
    evaluator.evaluate()
    del panes._events[CHURN]
    assert [at.series for at in evaluator.evaluate().reports] == many(1)


@pytest.mark.parametrize(
    ("windows", "arguments", "message"),
    [
        ([], {}, "windows must hold at least one window"),
        ([WINDOWS[0], WINDOWS[0]], {}, "windows must differ in name, got '1h' twice"),
        (WINDOWS, {"interval_seconds": 0.0}, "interval_seconds must be positive, got 0.0"),
        (WINDOWS, {"draws": 5}, "draws must be 0 or at least 19, got 5"),
        (WINDOWS, {"max_series": 0}, "max_series must be at least 1, got 0"),
    ],
)
def test_settings_that_make_no_sense(windows: Sequence[Window], arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        Alone(stream(hours=1), windows, clock=ManualClock(), **arguments)
    assert str(caught.value) == message


@pytest.mark.parametrize("policy", [POLICY, NEGATIVE])
def test_the_scores_of_a_report_are_those_that_it_counts(policy: ModelPolicy) -> None:
    panes = stream(policy=policy)
    panes.add(CHURN, START_MS + np.arange(50) * MINUTE_MS, np.full(50, 0.5), np.full(50, -1))
    evaluator = Alone(panes, WINDOWS, measures=KCE, clock=ManualClock(0))
    for report in evaluator.evaluate().reports.values():
        _, contents = evaluator.predictions(report.model, report.version, report.segment, report.window, None)
        scores = contents.table.to_scores()
        assert (scores.total, float(scores.positives.sum())) == (report.n, report.positives)
        assert scores.mean_prediction == report.mean_prediction
