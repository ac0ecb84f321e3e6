"""The life of a version's alarms: the same however steps are batched, and without flapping."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit

from monitor.alarms.watch import VersionWatch, lines_of
from monitor.scores.steps import Steps
from monitor.sequential.calibration import CalibrationBets
from monitor.sequential.watch import AlarmEvent
from monitor.store.evidence import decode, encode
from tests.long import examples
from tests.sequential.streams import logistic, steps_of

PANE_MS = 600_000
REFERENCE = 80
"""Panes that hold the reference of D3."""

CALIBRATED, CHANGED = (1.0, 0.0), (1.5, 0.0)
"""Slope and offset of true logits."""

LINES = dict.fromkeys(("calibration", "prevalence", "change"), 100.0)

Life = list[tuple[str, str, int]]
"""Detector, event, and the pane at whose end it was."""


@pytest.fixture
def life(monkeypatch: pytest.MonkeyPatch) -> Life:
    """What happens to alarms during the test."""
    return record(monkeypatch)


def record(monkeypatch: pytest.MonkeyPatch) -> Life:
    events: Life = []
    note = VersionWatch._note

    def noted(watch: VersionWatch, name: str, event: AlarmEvent) -> None:
        events.append((name, event.kind, event.end_ms // PANE_MS))
        note(watch, name, event)

    monkeypatch.setattr(VersionWatch, "_note", noted)
    return events


def stream(seed: int, *phases: tuple[int, tuple[float, float]], pane: int = 250) -> Steps:
    """Phases of so many panes, each with its slope and offset."""
    rng = np.random.default_rng(seed)
    parts = [logistic(rng, pane * panes, slope, offset) for panes, (slope, offset) in phases]
    p, y = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return steps_of(p, y, pane, PANE_MS)


def follow(steps: Mapping[str, Steps]) -> VersionWatch:
    watch = VersionWatch("churn", "1", 0.05, 0)
    watch.update(steps, LINES)
    return watch


def of_change(life: Life) -> list[tuple[str, int]]:
    """Events of D3, without those by which nothing changes."""
    return [(kind, at) for name, kind, at in life if name == "change" and kind != "raised again"]


@pytest.mark.parametrize("seed", range(3))
def test_a_change_that_stays_is_raised_once_and_fires_for_ever(life: Life, seed: int) -> None:
    """While events joined the reference, it was over after the change had been most of the reference."""
    watch = follow({"all": stream(seed, (REFERENCE + 20, CALIBRATED), (900, CHANGED))})
    [(kind, at)] = of_change(life)
    assert kind == "raised"
    assert at < REFERENCE + 40
    level = watch.levels(LINES)["change"]
    assert level.raised is not None
    assert level.since_ms == pytest.approx((REFERENCE + 20) * PANE_MS, abs=10 * PANE_MS)


@pytest.mark.parametrize("seed", range(3))
def test_once_the_change_is_gone_its_alarm_is_over_once(life: Life, seed: int) -> None:
    changed = REFERENCE + 20, REFERENCE + 220
    follow({"all": stream(seed, (changed[0], CALIBRATED), (200, CHANGED), (600, CALIBRATED))})
    (_, raised), (kind, over) = of_change(life)
    assert changed[0] < raised < changed[0] + 20
    assert kind == "over"
    assert changed[1] < over < changed[1] + 60


@pytest.mark.parametrize("seed", range(3))
def test_a_change_into_another_one_is_another_alarm_that_stays(life: Life, seed: int) -> None:
    """Recovery from an offset does not see that the next one has the other sign; new evidence does."""
    follow({"all": stream(seed, (REFERENCE + 20, CALIBRATED), (200, (1.0, 0.5)), (600, (1.0, -0.5)))})
    kinds = [kind for kind, _ in of_change(life)]
    assert kinds in (["raised"], ["raised", "over", "raised"])


def test_evidence_starts_at_0_again_when_an_alarm_is_over(life: Life) -> None:
    steps = stream(0, (REFERENCE + 20, CALIBRATED), (200, CHANGED), (200, CALIBRATED))
    follow({"all": steps})
    over = {name: at for name, kind, at in life if kind == "over"}
    assert over.keys() == {"calibration", "prevalence", "change"}
    for name, at in over.items():
        end_ms = at * PANE_MS
        watch = follow({"all": steps.until(end_ms)})
        level = watch.levels(LINES)[name]
        assert (level.raised, level.log10_evidence, level.since_ms) == (None, -308.0, end_ms)


LIVES = {
    "all": ((100, CALIBRATED), (60, CHANGED), (60, CALIBRATED), (60, (1.0, -0.5))),
    "region=eu": ((90, CALIBRATED), (40, (0.6, 0.3)), (150, CALIBRATED)),
    "region=us": ((280, CALIBRATED),),
}


@pytest.fixture(scope="module")
def lives() -> dict[str, Steps]:
    """A whole that changes and recovers, and segments: one that changes at another time, one that comes late."""
    made = {name: stream(at, *phases) for at, (name, phases) in enumerate(LIVES.items())}
    return {**made, "region=us": made["region=us"].after(105 * PANE_MS)}


@examples(4, 10)
@given(st.sets(st.integers(1, 279), max_size=12))
def test_batches_and_states_change_nothing(lives: dict[str, Steps], cuts: set[int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        life = record(patch)
        expected, whole = encode(follow(lives).state()), life.copy()
        life.clear()
        watch = VersionWatch("churn", "1", 0.05, 0)
        for start, stop in pairwise([0, *sorted(cuts), 280]):
            part: dict[str, Any] = {
                name: one.after(start * PANE_MS).until(stop * PANE_MS) for name, one in lives.items()
            }
            watch.update({name: one for name, one in part.items() if one.end_ms.size}, LINES)
            watch = VersionWatch.from_state("churn", "1", watch.to_ms, decode(encode(watch.state())))
    assert {(name, kind) for name, kind, _ in whole} == {
        (name, kind) for name in LINES for kind in ("raised", "raised again", "over")
    }
    assert sorted(life) == sorted(whole)
    assert encode(watch.state()) == expected


def test_what_calibration_learnt_is_held_while_its_alarm_fires(life: Life) -> None:
    """A shape that only learnt alternatives have, and an alarm in the middle of the steps that are added at once."""
    rng = np.random.default_rng(0)
    z = rng.normal(0.0, 1.5, 40 * 250)
    truth = z + 0.8 * np.where(np.floor(2.0 * z) % 2 == 0, 1.0, -1.0)
    steps = steps_of(expit(z), rng.random(z.size) < expit(truth), 250, PANE_MS)
    watch = VersionWatch("churn", "1", 0.05, 0)
    watch.update({"all": steps}, {"calibration": 100.0})
    (_, kind, at), *again = life
    assert kind == "raised"
    assert at < 30
    assert {kind for _, kind, _ in again} <= {"raised again"}
    [[_, _, state]] = watch.state()["series"]
    detector = CalibrationBets(0.05)
    detector.bet(steps.part(0, at))
    np.testing.assert_array_equal(state["learnt"], detector.state()["learnt"])
    detector.bet(steps.part(at, 40), held=True)
    assert encode(state) == encode(detector.state())


def test_dependent_outcomes_leave_the_budget_of_calibration_to_two_detectors() -> None:
    shares = {"calibration": 0.01, "prevalence": 0.02, "change": 0.01}
    assert lines_of(shares, within_horizon=False) == {"calibration": 100.0, "prevalence": 50.0, "change": 100.0}
    assert lines_of(shares, within_horizon=True) == {"calibration_even": 200.0, "calibration_odd": 200.0}
    assert lines_of({"prevalence": 0.02}, within_horizon=True) == {}


BLOCKS = dict.fromkeys(("calibration_even", "calibration_odd"), 200.0)


def test_even_and_odd_blocks_see_a_large_change(life: Life) -> None:
    watch = VersionWatch("churn", "1", 0.05, 0, block_ms=3 * PANE_MS)
    steps = stream(0, (60, CALIBRATED), (600, (2.5, 0.0)))
    for start in range(0, 660, 7):
        watch.update({"all": steps.after(start * PANE_MS).until((start + 7) * PANE_MS)}, BLOCKS)
        watch = VersionWatch.from_state("churn", "1", watch.to_ms, decode(encode(watch.state())))
    raised = {name: at for name, kind, at in reversed(life) if kind == "raised"}
    assert raised.keys() == BLOCKS.keys()
    assert all(at > 60 and (at // 3 - 1) % 2 == (name == "calibration_odd") for name, at in raised.items())
    assert not any(kind == "over" for _, kind, _ in life)


def test_other_settings_restart_the_detectors_that_are_made_from_them() -> None:
    steps = stream(0, (REFERENCE + 30, CALIBRATED))
    watch = follow({"all": steps.until((REFERENCE + 20) * PANE_MS)})
    before = watch.levels(LINES)
    watch.set(tolerance=0.05, block_ms=PANE_MS, forget_ms=watch.forget_ms)
    assert watch.levels(LINES) == before
    watch.set(tolerance=0.1, block_ms=PANE_MS, forget_ms=watch.forget_ms)
    assert watch.levels(LINES) == {"change": before["change"]}
    watch.update({"all": steps.after(watch.to_ms)}, LINES)
    assert watch.levels(LINES).keys() == LINES.keys()
    assert watch.state()["watches"]["calibration"]["evidence.to_ms"].tolist() == [(REFERENCE + 30) * PANE_MS]
    assert watch.levels(LINES)["calibration"].since_ms >= (REFERENCE + 20) * PANE_MS


def test_a_detector_without_a_line_is_dropped_and_comes_back_at_0() -> None:
    steps = stream(0, (REFERENCE + 20, CALIBRATED), (40, CHANGED))
    watch = follow({"all": steps.until((REFERENCE + 40) * PANE_MS)})
    assert watch.levels(LINES)["change"].raised is not None
    few = {"calibration": 100.0}
    assert watch.levels(few).keys() == few.keys()
    watch.update({"all": steps.after(watch.to_ms).until(watch.to_ms + PANE_MS)}, few)
    assert {name for name, _, _ in watch.state()["series"]} == few.keys()
    watch.update({"all": steps.after(watch.to_ms)}, LINES)
    level = watch.levels(LINES)["change"]
    assert (level.raised, level.log10_evidence) == (None, -308.0)


def test_a_version_that_comes_back_after_it_was_forgotten_is_a_new_one() -> None:
    steps = stream(0, (REFERENCE + 20, CALIBRATED), (300, CHANGED))
    back_ms = (REFERENCE + 200) * PANE_MS
    before, after = steps.until((REFERENCE + 40) * PANE_MS), steps.after(back_ms)
    tables = [*before.tables(), *after.tables()]
    with_gap = Steps.of(zip([*before.end_ms.tolist(), *after.end_ms.tolist()], tables, strict=True))
    watches = [
        VersionWatch("churn", "1", 0.05, at_ms, forget_ms=159 * PANE_MS) for at_ms in (0, 0, back_ms + PANE_MS - 1)
    ]
    watches[0].update({"all": with_gap}, LINES)
    for part in (before, after):
        watches[1].update({"all": part}, LINES)
    watches[2].update({"all": after}, LINES)
    assert len({encode(watch.state()) for watch in watches}) == 1
    patient = VersionWatch("churn", "1", 0.05, 0, forget_ms=160 * PANE_MS + PANE_MS)
    patient.update({"all": with_gap}, LINES)
    assert patient.levels(LINES)["calibration"].raised is not None
