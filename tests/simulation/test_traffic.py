"""What the simulated models send, as the pipeline will meet it."""

import json
from collections import Counter
from typing import Any

import numpy as np
import pytest

from monitor.clock import ManualClock
from monitor.events.codec import Decoder
from monitor.events.features import read_features
from monitor.events.formats.base import Rules
from monitor.events.model import Message, ModelPolicy, RecordBatch
from monitor.events.strata import Strata
from monitor.simulation.models import MODELS, Regime
from monitor.simulation.traffic import HORIZON_MS, LATENESS_MS, STEP_MS, Cohort, Traffic, draw_cohort
from monitor.sources.log_format import LogRecord

START_MS = 1_790_000_000_000
HOUR_MS = 3_600_000


def traffic(seed: int = 3) -> Traffic:
    return Traffic("events", start_ms=START_MS, change_ms=START_MS + HOUR_MS, seed=seed)


def cohort(seed: int = 4, regime: Regime = MODELS[0].before) -> Cohort:
    return draw_cohort(regime, START_MS, HOUR_MS, 10.0, np.random.default_rng(seed))


@pytest.fixture(scope="module")
def hour() -> list[Message]:
    return traffic().until(START_MS + HOUR_MS)


def parsed(messages: list[Message]) -> list[dict[str, Any]]:
    events = []
    for message in messages:
        try:
            event = json.loads(message.value or b"")
        except json.JSONDecodeError:
            continue
        if event.get("id") != "bad":
            events.append(event)
    return events


def test_the_same_seed_gives_the_same_messages_however_they_are_asked_for(hour: list[Message]) -> None:
    again = traffic()
    rng = np.random.default_rng(5)
    pieces: list[Message] = []
    now_ms = START_MS
    while now_ms < START_MS + HOUR_MS:
        now_ms = min(now_ms + int(rng.integers(1, 300_000)), START_MS + HOUR_MS)
        pieces += again.until(now_ms)
    assert pieces == hour
    assert traffic(seed=6).until(START_MS + HOUR_MS) != hour


def test_messages_come_in_log_order_and_keyed_by_id(hour: list[Message]) -> None:
    stamps = [message.timestamp_ms or 0 for message in hour]
    assert stamps == sorted(stamps)
    assert stamps[0] >= START_MS
    for message in hour[:2000]:
        if message.key:
            assert json.loads(message.value or b"")["id"] == message.key.decode()


def test_what_is_meant_to_be_valid_is_and_the_rest_are_dead_letters(hour: list[Message]) -> None:
    records = [
        LogRecord(offset, message.timestamp_ms or 0, message.key, message.value, ())
        for offset, message in enumerate(hour)
    ]
    strata = Strata(lambda _: ModelPolicy(horizon_ms=HORIZON_MS, lateness_ms=LATENESS_MS))
    decoded = Decoder(Rules(clock=ManualClock(START_MS))).decode(
        RecordBatch("events", 0, records, len(records)), strata, None
    )
    assert len(decoded.columns) == len(parsed(hour))
    assert 0.0003 < len(decoded.dead_letters) / len(hour) < 0.003
    assert len({letter.reason for letter in decoded.dead_letters}) >= 5
    assert set(strata.models) == {model.name for model in MODELS}


def test_some_come_twice_corrected_early_late_or_never(hour: list[Message]) -> None:
    events = parsed(hour)
    predicted: dict[tuple[str, str], int] = {}
    counts: Counter[str] = Counter()
    outcomes: dict[tuple[str, str], set[tuple[int, int]]] = {}
    for event in events:
        key = event["model"], event["id"]
        counts[event["type"]] += 1
        if event["type"] == "prediction":
            counts["repeated"] += key in predicted
            predicted.setdefault(key, event["ts"])
        else:
            counts["early"] += key not in predicted
            told = outcomes.setdefault(key, set())
            counts["outcome repeated"] += (event["ts"], event["y"]) in told
            told.add((event["ts"], event["y"]))
    first = len(predicted)
    assert 0.005 < counts["repeated"] / first < 0.015
    assert 0.005 < counts["outcome repeated"] / first < 0.015
    assert counts["early"] > 20
    corrected = sum(len({y for _, y in told}) == 2 for told in outcomes.values())
    assert 0.005 < corrected / first < 0.015
    late = sum(ts - predicted[key] > HORIZON_MS for key, told in outcomes.items() for ts, _ in told if key in predicted)
    assert 0.003 < late / first < 0.02
    # Of predictions whose horizon has passed, about one in twenty has no outcome in time.
    old = [key for key, ts in predicted.items() if ts < START_MS + HOUR_MS - 2 * HORIZON_MS]
    missing = sum(key not in outcomes for key in old) / len(old)
    assert 0.03 < missing < 0.05


def test_no_event_is_later_in_the_log_than_is_allowed(hour: list[Message]) -> None:
    newest: dict[str, int] = {}
    for event in parsed(hour):
        key = event["model"]
        assert event["ts"] > newest.get(key, 0) - LATENESS_MS
        newest[key] = max(newest.get(key, 0), event["ts"])


def test_a_mature_cohort_is_unbiased_and_one_that_is_not_is_not() -> None:
    drawn = draw_cohort(MODELS[0].before, START_MS, HOUR_MS, 60.0, np.random.default_rng(7))
    residual = drawn.outcome - drawn.prediction
    spread = np.sqrt((drawn.prediction * (1 - drawn.prediction)).mean() / len(residual))
    in_time = drawn.answered & (drawn.outcome_ms <= drawn.time_ms + HORIZON_MS)
    assert abs(residual[in_time].mean()) < 3.5 * spread
    # Positives are noticed earlier: who does not wait sees too many of them.
    soon = drawn.answered & (drawn.outcome_ms <= drawn.time_ms + HORIZON_MS // 4)
    assert residual[soon].mean() > 0.1


def test_a_correction_comes_after_the_first_report_and_within_the_horizon() -> None:
    drawn = cohort()
    corrected = drawn.corrected & drawn.answered
    assert corrected.sum() > 100
    assert (drawn.corrected_ms[corrected] > drawn.outcome_ms[corrected]).all()
    assert (drawn.corrected_ms[corrected] <= drawn.time_ms[corrected] + HORIZON_MS).all()


def test_features_are_told_by_one_model_as_they_were_drawn(hour: list[Message]) -> None:
    drawn = traffic().draw(len(MODELS) - 1, 5)[0]
    told = {
        (event["model"], event["id"]): read_features(json.dumps(event["features"]).encode())
        for event in parsed(hour)
        if event["type"] == "prediction" and "features" in event
    }
    assert {model for model, _ in told} == {MODELS[-1].name}
    for row, features in enumerate(drawn.features):
        np.testing.assert_array_equal(told[MODELS[-1].name, f"5-{row}"], features, strict=True)


def test_the_truth_of_a_step_is_what_was_sent(hour: list[Message]) -> None:
    drawn = traffic().draw(1, 5)[0]
    sent = {
        event["id"]: event["p"]
        for event in parsed(hour)
        if event["type"] == "prediction" and event["model"] == MODELS[1].name and event["id"].startswith("5-")
    }
    assert sent == {f"5-{row}": p for row, p in enumerate(drawn.prediction.tolist())}
    assert (drawn.time_ms >= START_MS + 5 * STEP_MS).all()
    assert (drawn.time_ms < START_MS + 6 * STEP_MS).all()
