"""The short form of the benchmark: the same streams, methods and page, with less of each."""

import math
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from scipy.special import expit, logit

from monitor.scores.steps import Steps
from monitor.simulation.generator import HOUR_MS, DrawnEvents, Law
from tests.alarms_benchmark import oracle, ours, page, results
from tests.alarms_benchmark.methods import RUN_LENGTH, Alarm, Always, Change, Clock, Method, Never
from tests.alarms_benchmark.peer_loops import CELLS, cusum, first_alarm, rank_transforms
from tests.alarms_benchmark.peers import PEERS, Window
from tests.alarms_benchmark.scenarios import CHANGES, QUIET
from tests.alarms_benchmark.streams import (
    CHANGE_AT,
    EVENTS_PER_HOUR,
    HORIZON_MS,
    PREVALENCES,
    SPREAD,
    Panes,
    followed_by,
    parts,
)
from tests.alarms_benchmark.trial import Result, run
from tests.alarms_benchmark.tune import calibrated, false_alarms, settings


def whole(scenario: Law, prevalence: str = "balanced", seed: int = 0, events: int = 120_000) -> DrawnEvents:
    stream = list(parts(scenario, prevalence, seed, events))
    result = stream[0]
    for part in stream[1:]:
        result = followed_by(result, part)
    return result


@pytest.mark.parametrize("prevalence", PREVALENCES)
@pytest.mark.parametrize("scenario", ["stationary", "seasonal", "moving"])
def test_streams_are_calibrated_and_as_rare_as_their_name_says(scenario: str, prevalence: str) -> None:
    stream = whole(QUIET[scenario], prevalence)
    p, y = stream.prediction, stream.outcome
    deviation = math.sqrt(float((p * (1.0 - p)).sum()))
    assert abs(float((y - p).sum())) < 4.0 * deviation
    assert abs(float(((y - p) * (p > np.median(p))).sum())) < 4.0 * deviation
    if scenario == "stationary":
        assert p.mean() == pytest.approx({"balanced": 0.5, "5%": 0.05, "1%": 0.01}[prevalence], rel=0.02)
        assert p.size / stream.time_ms[-1] * HOUR_MS == pytest.approx(EVENTS_PER_HOUR, rel=0.02)
    assert (np.diff(stream.time_ms) >= 0).all()
    delay = stream.known_ms - stream.time_ms
    assert (delay[y == 0] == HORIZON_MS).all()
    assert (delay[y == 1] < HORIZON_MS).all()


@pytest.mark.parametrize("name", CHANGES)
def test_streams_change_when_they_should(name: str) -> None:
    scenario = CHANGES[name]
    stream = whole(scenario, events=200_000)
    same = whole(replace(scenario, change_at=200_000), events=200_000)
    changed, at = stream.outcome != same.outcome, scenario.change_at
    assert (stream.prediction == same.prediction).all()
    assert not changed[:at].any()
    assert changed[at + scenario.ramp :].mean() > 0.003


def test_steps_hold_every_event_once() -> None:
    panes, stream = Panes(), list(parts(QUIET["seasonal"], "5%", 3, 120_000))
    steps = [panes.steps(part) for part in stream]
    end_ms = np.concatenate([part.end_ms for part in steps])
    assert (np.diff(end_ms) == 60_000).all()
    events = whole(QUIET["seasonal"], "5%", 3)
    for column, count in ((0, events.outcome), (1, 1 - events.outcome)):
        by_step = np.concatenate(
            [np.add.reduceat(np.append(part.values[:, column], 0), part.first[:-1]) for part in steps]
        )
        by_step[np.concatenate([np.diff(part.first) for part in steps]) == 0] = 0
        expected = np.bincount(events.time_ms // 60_000, count)[end_ms // 60_000 - 1]
        np.testing.assert_array_equal(by_step, expected)


def trials(scenario: str, seeds: int, events: int, make: Callable[[int], list[Method]]) -> dict[str, list[Result]]:
    found: dict[str, list[Result]] = defaultdict(list)
    for seed in range(seeds):
        for result in run(scenario, "balanced", seed, make(seed), events):
            found[result.variant].append(result)
    return found


def detectors(seed: int) -> list[Method]:
    return [peer.make("balanced", seed, None) for peer in ours.OURS.values() if not peer.only]


def test_false_alarms_on_stationary_streams_are_within_the_bound() -> None:
    found = trials("stationary", 5, 300_000, detectors)
    for variant, rows in found.items():
        expected = sum(row.events for row in rows) / ours.RUN_LENGTHS[variant.rpartition(", ")[2]]
        assert sum(row.false_alarms for row in rows) <= expected + 2.0 * math.sqrt(expected), variant
        assert all(row.delay is None for row in rows)


def test_a_slope_is_seen_as_soon_as_promised_and_sooner_than_in_windows() -> None:
    tuned = settings()["balanced"]

    def make(seed: int) -> list[Method]:
        windows = [peer.make("balanced", seed, tuned[name]) for name, peer in PEERS.items() if "window" in name]
        return [ours.OURS["D1"].make("balanced", seed, None), *windows]

    found = trials("slope 1.3", 11, 160_000, make)
    delay = {
        variant: np.median([math.inf if row.delay is None else row.delay for row in rows])
        for variant, rows in found.items()
    }
    assert delay["D1, 1e5"] <= 1_600
    assert delay["D1, a year"] <= 2_800
    assert delay["D1, 1e5"] < min(value for variant, value in delay.items() if variant.endswith("tuned"))
    rows = found["D1, a year"]
    assert np.median([abs(row.error) for row in rows if row.error is not None]) < 1_000
    assert np.mean([bool(row.covered) for row in rows]) >= 0.8


def test_an_accepted_model_alarms_only_where_calibration_is_asked_for() -> None:
    def make(seed: int) -> list[Method]:
        return [peer.make("balanced", seed, None) for peer in ours.OURS.values()]

    found = trials("accepted", 2, 150_000, make)
    assert set(found) == {f"{name}, {budget}" for name in ours.OURS for budget in ours.RUN_LENGTHS}
    assert all(row.false_alarms > 0 for row in found["D1, a year"])
    assert sum(row.false_alarms for row in found["D3, 1e5"]) <= 6
    assert sum(row.false_alarms for row in [*found["D3, a year"], *found["D4, a year"]]) == 0
    (turned,) = run("accepted, then calibrated", "balanced", 0, [ours.OURS["D4"].make("balanced", 0, None)], 150_000)[
        1:
    ]
    assert turned.false_alarms == 0
    assert turned.delay is not None


class Scripted:
    """Alarms after given events."""

    variants = ("scripted",)

    def __init__(self, *events: int) -> None:
        self._alarms = [
            Alarm("scripted", event, partial(Change, since, np.array([[since - 10, since + 10]])))
            for event, since in zip(events, (90_000, 99_995, 7), strict=False)
        ]
        self._read = 0

    def read(self, part: DrawnEvents, steps: Steps) -> list[Alarm]:
        first, self._read = self._read, self._read + part.prediction.size
        return [alarm for alarm in self._alarms if first < alarm.event <= self._read]


def test_alarms_before_the_change_are_false_and_the_first_one_after_it_counts() -> None:
    (result,) = run("slope 1.3", "balanced", 4, [Scripted(100_000, 100_001, 100_002)], 150_000)
    assert result == Result("slope 1.3", "balanced", 4, "scripted", 100_000, 1, 1, -5, covered=True)
    (result,) = run("slope 1.3", "balanced", 4, [Scripted(99_000, 130_000)], 150_000)
    assert (result.false_alarms, result.delay, result.covered) == (1, 30_000, True)
    always, never = run("slope 1.3", "balanced", 4, [Always(), Never()], 150_000)
    assert always.false_alarms == pytest.approx(100_000 / EVENTS_PER_HOUR * 60, rel=0.02)
    assert (never.false_alarms, never.delay) == (0, None)


def test_a_clock_counts_the_events_before_a_time() -> None:
    clock, times = Clock(), [np.array([3, 5, 5]), np.array([5, 9])]
    for time_ms in times:
        clock.read(DrawnEvents(time_ms, time_ms / 10.0, time_ms, time_ms, time_ms > 0))
    assert [clock.events_before(at) for at in (0, 3, 4, 5, 6, 9, 10)] == [0, 0, 1, 1, 4, 4, 5]


def test_a_window_is_measured_every_thousand_events_and_begins_anew_after_an_alarm() -> None:
    stream = list(parts(Law(offset=2.0), "balanced", 0, 100_000))
    window = Window("ECE", 0.2)
    alarms = [alarm.event for part in stream for alarm in window.read(part, Steps.of([]))]
    assert alarms == list(range(5_000, 100_001, 5_000))


def test_a_window_in_parts_is_that_in_one_go() -> None:
    stream = whole(Law(), events=60_000)
    alarms = []
    for cuts in ([0, 60_000], [0, 700, 13_000, 13_001, 59_999, 60_000]):
        window = Window("Brier", 0.183)
        pieces = [stream.take(slice(begin, end)) for begin, end in pairwise(cuts)]
        alarms.append([alarm.event for piece in pieces for alarm in window.read(piece, Steps.of([]))])
    assert alarms[0] == alarms[1]


def test_cumulative_sums_begin_anew_after_an_alarm() -> None:
    gain = np.random.default_rng(0).normal(-0.1, 1.0, (5_000, 3))
    score, expected = [0.0] * 3, []
    for event, row in enumerate(gain.tolist(), 1):
        score = [max(0.0, value + g) for value, g in zip(score, row, strict=True)]
        if max(score) >= 8.0:
            expected.append(event)
            score = [0.0] * 3
    state = np.zeros(3)
    alarms = [*cusum(gain[:2_000], state, 8.0).tolist(), *(2_000 + cusum(gain[2_000:], state, 8.0)).tolist()]
    assert alarms == expected
    assert len(expected) > 3


@pytest.mark.parametrize("once", [True, False])
def test_the_martingale_of_transforms_is_that_of_the_naive_reference(once: bool) -> None:
    rng = np.random.default_rng(1)
    transform, share = np.concatenate([rng.random(800), rng.beta(3, 1, 800)]), rng.random(1_600)
    expected: list[int] = []
    cells: list[int] = []
    bins, evidence = [0] * 10, 0.0
    for event, (value, draw) in enumerate(zip(transform.tolist(), share.tolist(), strict=True), 1):
        cell = int(value * CELLS)
        rank = (sum(old < cell for old in cells) + draw * (1 + cells.count(cell))) / (len(cells) + 1)
        weight = 1.0 / ((len(cells) + 1) * (len(cells) + 2)) if once else 1.0
        evidence = (evidence + weight) * 10 * (bins[int(rank * 10)] + 1) / (len(cells) + 10)
        bins[int(rank * 10)] += 1
        cells.append(cell)
        if evidence >= 2_000.0:
            expected.append(event)
            cells, bins, evidence = [], [0] * 10, 0.0
    alarms = rank_transforms(
        transform, share, np.zeros(CELLS + 1, np.int64), np.zeros(10, np.int64), np.zeros(2), 2_000.0, once
    )
    assert alarms.tolist() == expected
    assert expected


@pytest.mark.parametrize("peer", ["CUSUM on log odds", "PITMonitor", "window ECE"])
def test_tuned_peers_alarm_as_often_as_they_were_tuned_to(peer: str) -> None:
    streams = calibrated("balanced", 1_500_000, first_seed=2_000_000)
    alarms = false_alarms(PEERS[peer], "balanced", settings()["balanced"][peer], streams)
    assert 1_500_000 / RUN_LENGTH == 15
    assert 4 <= alarms <= 30


def test_results_are_kept_summarised_and_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "RAW", tmp_path / "raw" / "alarms.csv")
    monkeypatch.setattr(results, "SUMMARY", tmp_path / "summary.csv")
    assert results.done() == {}
    for seed, delay in enumerate((100, 300, 900, None)):
        error, covered = (None, None) if delay is None else (-delay, delay < 500)
        results.add([Result("slope 1.3", "5%", seed, "D1, 1e5", 100_000, seed, delay, error, covered)])
    assert results.done() == {("slope 1.3", "5%", seed): {"D1, 1e5"} for seed in range(4)}
    results.summarise()
    (row,) = results.load()
    assert row == results.Summary("slope 1.3", "5%", "D1, 1e5", 4, 400_000, 6, 0.25, 900.0, math.inf, 300.0, 0.667)
    results.RAW.unlink()
    results.add([Result("slope 1.3", "5%", 9, "D1, 1e5", 100_000, 7, 5, 1, covered=True)])
    results.summarise()
    assert results.load() == [row]
    results.RAW.unlink()
    results.add([Result("slope 1.5", "5%", 0, "never", 100_000, 0, None, None, None)])
    results.summarise()
    assert [row.scenario for row in results.load()] == ["slope 1.3", "slope 1.5"]


def row(scenario: str, variant: str, false_alarms: int, delay: float = math.inf, streams: int = 20) -> results.Summary:
    return results.Summary(
        scenario, "5%", variant, streams, 1_000_000 * streams, false_alarms, 0.0, delay, delay, math.nan, math.nan
    )


def test_the_page_says_where_a_bound_is_missed_and_where_nothing_is_promised() -> None:
    kept = [row("stationary", "D1, 1e5", 200), row("shocks .1", "D1, 1e5", 5_000), row("shocks .1", "D1, a year", 26)]
    text = page.text(kept)
    assert "Within the bound: yes, in 1 of 1 cases." in text
    assert "| D1, 1e5 | 20 | 10.00 (8.66-11.49) |  |  | 250.00 |" in text
    assert "| D1, 1e5 |  |  | 25.0 |" in text
    assert "| D1, a year |  |  | 98.0 |" in text
    text = page.text([*kept, row("moving", "D3, 1e5", 240)])
    assert "Within the bound: no, in 1 of 2 cases." in text
    assert "- D3, 1e5: moving, 5%: 240 false alarms in 20 streams, where 200.0 are the bound" in text
    assert "12.00 (10.53-13.62) **over**" in text


def test_the_page_says_who_is_first() -> None:
    rows = [
        row("slope 1.3", "D1, tuned", 200, 1_000.0),
        row("slope 1.3", "D1, 1e5", 200, 10.0),
        row("slope 1.3", "CUSUM on log odds, tuned", 200, 900.0),
        row("slope 1.3", "ADWIN on y - p, tuned", 40, 700.0, streams=4),
        row("slope 1.3", "KSWIN on y - p, tuned", 3, 500.0, streams=3),
        row("slope 1.3", "window ECE, tuned", 2_000, 100.0),
    ]
    others = "KSWIN on y - p 500, of 3, CUSUM on log odds 900, of 20"
    line = f"| 5%, slope 1.3 | D1 1,000, of 20 | **ADWIN on y - p 700, of 4** | {others} |"
    assert line in page.text(rows)
    line = "| 5%, slope 1.3 | **D1 1,000, of 20** | PITMonitor 1,100, of 20 |  |"
    assert line in page.text([rows[0], row("slope 1.3", "PITMonitor, tuned", 200, 1_100.0)])


def test_the_page_is_that_of_the_summary() -> None:
    assert page.PAGE.read_text() == page.text(results.load())


def test_the_oracle_has_as_many_false_alarms_as_its_budget() -> None:
    law, rng = CHANGES["offset .5"], np.random.default_rng(1)
    threshold = oracle.threshold_of(law, "balanced", 2_000, 300, rng)
    # Calibrated events: the likelihood ratios are those of an offset all the same.
    old, new = oracle.truths(law, "balanced", rng.normal(0.0, SPREAD, 400_000))
    p, q = expit(old), expit(new)
    ratio = np.where(rng.random(p.size) < p, q / p, (1.0 - q) / (1.0 - p))
    evidence, alarms, start = np.zeros(1), 0, 0
    while (event := first_alarm(ratio[start:], evidence, threshold)) >= 0:
        alarms, start, evidence[0] = alarms + 1, start + event + 1, 0.0
    assert alarms == pytest.approx(200, rel=0.25)


def test_the_oracle_is_no_slower_than_what_is_not_told_the_change() -> None:
    law = CHANGES["slope 1.5"]
    optima = {row.budget: row for row in oracle.optima("slope 1.5", law, "balanced", 40)}
    stored = oracle.load()
    for budget in ("1e5", "a year"):
        kept = stored["slope 1.5", "balanced", budget]
        assert optima[budget].bound == kept.bound
        assert optima[budget].delay == pytest.approx(kept.delay, rel=0.3)
        assert kept.delay < kept.bound
    measured = {(row.scenario, row.prevalence, row.variant): row for row in results.load()}
    assert (
        measured["slope 1.5", "balanced", "D1 without tolerance, tuned"].delay
        > stored["slope 1.5", "balanced", "1e5"].delay
    )


def test_a_divergence_is_the_mean_of_the_logarithm_of_the_ratio() -> None:
    rng = np.random.default_rng(0)
    for scenario in ("offset .5", "segment of 5%", "accepted, then slope 1.3"):
        law = CHANGES[scenario]
        old, new = oracle.truths(law, "5%", rng.normal(0.0, SPREAD, 400_000))
        if law.share is not None:
            new = np.where(rng.random(new.size) < law.share, new, old)
        p, q = expit(old), expit(new)
        gain = np.where(rng.random(p.size) < q, np.log(q / p), np.log((1.0 - q) / (1.0 - p)))
        assert oracle.divergence(law, "5%") == pytest.approx(gain.mean(), abs=4.0 * gain.std() / gain.size**0.5)


@pytest.mark.parametrize("name", ["slope 1.3", "bump .5", "accepted, then slope 1.3", "accepted, then offset .25"])
def test_the_oracle_knows_the_laws_of_the_streams(name: str) -> None:
    stream = whole(CHANGES[name], "5%", events=200_000)
    laws = oracle.truths(CHANGES[name], "5%", logit(stream.prediction) - PREVALENCES["5%"])
    for rows, truth in zip((slice(0, CHANGE_AT), slice(CHANGE_AT, None)), laws, strict=True):
        residual, z = stream.outcome[rows] - expit(truth[rows]), truth[rows]
        variance = expit(z) * expit(-z)
        for weight in (np.ones(z.size), z - z.mean()):
            assert abs(float(residual @ weight)) < 4.0 * math.sqrt(float(variance @ weight**2))
