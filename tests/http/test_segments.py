from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy

from monitor.clock import SystemClock
from monitor.events.model import SeriesKey
from monitor.reports.evaluation.report import Report
from monitor.store import history as stored
from monitor.store.history import Points
from monitor.store.sql import SqlStore
from monitor.windows.history import History, points_of
from tests.http.service import Service, assert_problem
from tests.snapshots import HOUR_MS, NOW_MS, report, snapshot

SEGMENTS = "/v1/models/churn/segments"
NAMES = ["all", "region=de", "region=eu", "region=us"]


def past(segment: str, hours: int) -> Report:
    """A window that ended so many hours before midnight."""
    made = report(segment=segment, window="24h", seed=NAMES.index(segment) * 100 + hours, n=900 + hours)
    return replace(made, to_ms=NOW_MS - 8 * HOUR_MS - hours * HOUR_MS)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqlStore]:
    with SqlStore.open(f"sqlite:///{tmp_path}/state.db", clock=SystemClock()) as store:
        yield store


@pytest.fixture
def service(store: SqlStore) -> Service:
    """Two days of four segments, of which one began late; another window, and another version."""
    made = Service()
    made.history = History(store.database)
    reports = [past(name, hours) for name in NAMES for hours in range(6 if name == "region=us" else 48)]
    others = [
        replace(past("region=eu", 0), window="1h"),
        *(replace(past(name, 0), version="6") for name in ("all", "region=eu")),
    ]
    with store.database.writing() as connection:
        stored.append(connection, points_of([*reports, *others]))
    made.show(snapshot([report(segment=name, window="24h") for name in NAMES]))
    return made


def get(service: Service, **query: Any) -> dict[str, Any]:
    answer = service.client().get(SEGMENTS, params=query)
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


@pytest.mark.parametrize("measure", ["smce", "tce"])
def test_a_value_is_what_the_report_said(service: Service, measure: str) -> None:
    body = get(service, measure=measure, step="1h")
    assert (body["model"], body["version"], body["window"], body["step"]) == ("churn", "7", "24h", "1h")
    assert body["measure"] == measure
    assert body["steps"][0] == "2027-01-13T00:00:00.000Z"
    assert body["steps"][-1] == "2027-01-14T23:00:00.000Z"
    assert [one["segment"] for one in body["segments"]] == NAMES
    for one in body["segments"]:
        for at, hours in enumerate(range(47, -1, -1)):
            if one["segment"] == "region=us" and hours >= 6:
                assert {one[name][at] for name in one if name != "segment"} == {None}
                continue
            said = past(one["segment"], hours)
            assert one["n"][at] == said.n
            assert one["value"][at] == pytest.approx(said.measures[measure].value, rel=1e-3)
            assert one["null_q95"][at] == pytest.approx(said.measures[measure].null_q95, rel=1e-3)
            gap = (said.mean_prediction or 0.0) - (said.prevalence or 0.0)
            assert one["gap"][at] == pytest.approx(gap, rel=1e-3, abs=1e-6)


def test_p_values_are_corrected_for_the_segments_of_their_step(service: Service) -> None:
    body = get(service, step="1h")
    for at, hours in enumerate(range(47, -1, -1)):
        names = [name for name in NAMES if name != "region=us" or hours < 6]
        p_values = [past(name, hours).measures["smce"].p_value for name in names]
        expected = dict(zip(names, scipy.stats.false_discovery_control(p_values), strict=True))
        for one in body["segments"]:
            if one["segment"] in expected:
                assert one["q_value"][at] == pytest.approx(expected[one["segment"]], rel=1e-3)


def test_of_each_step_the_last_window_is_shown(service: Service) -> None:
    hourly, body = get(service, step="1h"), get(service, step="6h")
    assert len(body["steps"]) == 8
    assert body["steps"][-1] == "2027-01-14T18:00:00.000Z"
    for one, every in zip(body["segments"], hourly["segments"], strict=True):
        assert one["value"] == every["value"][5::6]


def test_a_span_of_time_holds_both_of_its_ends(service: Service) -> None:
    body = get(service, step="1h", **{"from": "2027-01-14T20:00:00Z", "to": "2027-01-14T22:00:00Z"})
    assert body["steps"] == [f"2027-01-14T{hour}:00:00.000Z" for hour in (19, 20, 21)]
    assert get(service, to="2020-01-01T00:00:00Z")["segments"] == []


def test_another_version_and_window_are_chosen(service: Service) -> None:
    assert [one["segment"] for one in get(service, version="6")["segments"]] == ["all", "region=eu"]
    assert [one["segment"] for one in get(service, window="1h")["segments"]] == ["region=eu"]


@pytest.mark.parametrize(
    ("query", "status", "said"),
    [
        ({"measure": "smec"}, 422, "no measure 'smec' in windows"),
        ({"window": "25h"}, 404, "no window '25h'; windows are '1h', '24h'"),
        ({"version": "8"}, 404, "no version '8' of model 'churn'"),
        ({"step": "59s"}, 422, "step must be at least 1m"),
        ({"from": "5", "to": "4"}, 422, "from must not be later than to, got 5 and 4"),
        ({"segment": "all"}, 422, "there is no such parameter here"),
    ],
)
def test_wrong_parameters_are_named(service: Service, query: dict[str, str], status: int, said: str) -> None:
    assert_problem(service.client().get(SEGMENTS, params=query), status, said)


def test_fifty_segments_of_two_weeks_are_one_answer_of_bounded_size(store: SqlStore, service: Service) -> None:
    to_ms = NOW_MS - 400 * HOUR_MS + HOUR_MS * np.arange(1, 14 * 24 + 1)
    ones, draw = np.ones(to_ms.size, np.int64), np.random.default_rng(1)
    texts = {name: np.full(to_ms.size, name) for name in ("24h", "calibrated", "none")}
    points = {
        SeriesKey("churn", "9", f"region=r{number:02}" if number else "all"): Points(
            texts["24h"],
            to_ms,
            to_ms - 24 * HOUR_MS,
            900 * ones,
            300 * ones,
            1000 * ones,
            np.full(to_ms.size, 0.3, np.float32),
            texts["calibrated"],
            texts["none"],
            {"smce": draw.random((to_ms.size, 6)).astype(np.float32)},
        )
        for number in range(50)
    }
    with store.database.writing() as connection:
        stored.append(connection, points)
    body = get(service, version="9")
    # 50 x 336 hourly values are too many.
    assert (body["step"], len(body["segments"]), len(body["steps"])) == ("3h", 50, 113)
    answer = service.client().get(SEGMENTS, params={"version": "9", "step": "6h"})
    assert len(answer.content) < 120_000
    answer = service.client().get(SEGMENTS, params={"version": "9", "step": "1h"})
    assert_problem(answer, 422, "step=1h makes 16,800 values of 50 segments", "set a longer step")


def test_an_unchanged_answer_is_not_sent_twice(service: Service) -> None:
    client = service.client()
    tag = client.get(SEGMENTS).headers["etag"]
    assert client.get(SEGMENTS, headers={"if-none-match": tag}).status_code == 304
