"""GET /v1/models/{model}/history: what was measured in earlier windows."""

import itertools
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from monitor.clock import ManualClock, SystemClock
from monitor.events.codec import Decoder
from monitor.events.log import Topics
from monitor.events.model import Kind, Message, SeriesKey
from monitor.sources.embedded import EmbeddedSource
from monitor.sources.embedded_log import EmbeddedLog
from monitor.store import history as stored
from monitor.store.history import FIELDS, Points
from monitor.store.sql import SqlStore
from monitor.stream.partition import PartitionSettings
from monitor.stream.pipeline import DeadLetterSettings, Pipeline, PipelineSettings
from monitor.windows.history import History, points_of
from monitor.windows.panes import ClosedPanes
from monitor.windows.windows import Window
from tests.evaluations import Sharing
from tests.http.service import Service, assert_problem
from tests.real.mixed_log import OUTCOMES, PREDICTIONS, MixedLog, policy_of
from tests.reference.naive_windows import NaiveWindows
from tests.snapshots import HOUR_MS, NOW_MS, report, snapshot

HISTORY = "/v1/models/churn/history"
MINUTE_MS = 60_000


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqlStore]:
    with SqlStore.open(f"sqlite:///{tmp_path}/state.db", clock=SystemClock()) as store:
        yield store


@pytest.fixture
def service(store: SqlStore) -> Service:
    """Two hours of a model, a point a minute; a version that is no longer measured; and models without any."""
    made = Service()
    made.history = History(store.database)
    earlier = [
        replace(report(window="24h", seed=minute, n=900 + minute), to_ms=NOW_MS - minute * MINUTE_MS)
        for minute in range(1, 121)
    ]
    old = replace(report(version="6", window="24h"), to_ms=NOW_MS - 24 * HOUR_MS)
    with store.database.writing() as connection:
        stored.append(connection, points_of([*earlier, old]))
    made.show(snapshot([report(version="7", window="24h"), report(model="org/model", window="1h")]))
    return made


def get(service: Service, path: str = HISTORY, **query: Any) -> dict[str, Any]:
    answer = service.client().get(path, params=query)
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


def test_a_point_says_what_the_report_said(service: Service) -> None:
    body = get(service)
    assert {name: body[name] for name in body if name != "points"} == {
        "model": "churn",
        "version": "7",
        "segment": "all",
        "window": "24h",
        "step": "1m",
    }
    assert len(body["points"]) == 120
    point, said = body["points"][-1], replace(report(window="24h", seed=1, n=901), to_ms=NOW_MS - MINUTE_MS).to_dict()
    assert point["verdict"] == said["diagnosis"]["verdict"]
    assert point["severity"] == said["diagnosis"]["severity"]
    assert point["slope"] is not None
    for name in ("offset", "offset_error", "slope", "slope_lower", "slope_upper"):
        assert point[name] == pytest.approx(said["diagnosis"][name], rel=1e-3), name
    for name in ("from", "to", "n", "positives", "predictions", "prevalence"):
        assert point[name] == said[name]
    assert point["mean_prediction"] == pytest.approx(said["mean_prediction"], rel=1e-6)
    assert point["measures"].keys() == said["measures"].keys()
    for name, result in point["measures"].items():
        assert result.keys() == {"unit", *FIELDS}
        assert result.pop("unit") == said["measures"][name]["unit"]
        assert result == pytest.approx({field: said["measures"][name][field] for field in result}, rel=1e-6)


def test_the_step_fits_the_number_of_points(service: Service) -> None:
    body = get(service, points=10)
    assert body["step"] == "15m"
    assert 8 <= len(body["points"]) <= 10
    assert body["points"][-1] == get(service)["points"][-1]


def test_every_point_is_what_loops_over_the_log_compute(store: SqlStore, tmp_path: Path) -> None:
    log, parts, draws = MixedLog(8_000, 3, models=("churn",), settled=True), 6, 19
    windows = [Window("1h", HOUR_MS), Window("24h", 24 * HOUR_MS)]
    kept_ms = {window.slide_ms: 2 * window.length_ms for window in windows}
    kinds: dict[str, Kind | None] = {PREDICTIONS: Kind.PREDICTION, OUTCOMES: Kind.OUTCOME}
    clock = ManualClock(NOW_MS)
    with ExitStack() as at_the_end:
        written = EmbeddedLog(tmp_path / "log", partitions=log.partitions, clock=clock)
        at_the_end.callback(written.close)
        pipeline = Pipeline(
            EmbeddedSource(written, Topics(kinds)),
            store,
            Decoder(),
            partitions=PartitionSettings(policy=policy_of, kept_ms=kept_ms),
            settings=PipelineSettings(),
            dead_letters=DeadLetterSettings(),
            kinds=kinds,
            poll_seconds=0,
            clock=clock,
        )
        at_the_end.callback(pipeline.run)
        at_the_end.callback(pipeline.stop)
        for part in range(parts):
            lines = log.lines[len(log.lines) * part // parts : len(log.lines) * (part + 1) // parts]
            written.write([Message(line.topic, line.value, line.key, partition=line.partition) for line in lines])
            for _ in range(30):
                pipeline.step()
                clock.advance(1.0)
            # Each part is evaluated by another replica, which knows nothing of the one before.
            replica = Sharing(
                store,
                ClosedPanes(kept_ms, policy_of),
                windows,
                f"replica-{part}",
                clock=clock,
                of_closings=True,
                draws=draws,
            )
            replica.evaluate()
            replica.leases.leave()
    service = Service()
    service.history = History(store.database)
    loops, ends = NaiveWindows(log.joins), set()
    for series, window in itertools.product(loops.series, windows):
        query = {"version": series.version, "segment": series.segment, "window": window.name}
        for point in get(service, **query)["points"]:
            loops.assert_report(series, point, draws=draws)
            ends.add((window, point["to"]))
    assert len(ends) > 2 * (parts - 2)


def test_of_each_step_the_last_window_is_shown(service: Service) -> None:
    body = get(service, step="30m")
    assert body["step"] == "30m"
    ends = [point["to"] for point in body["points"]]
    # The newest is of a step that is not over.
    assert ends == [f"2027-01-15T{time}:00.000Z" for time in ("06:00", "06:30", "07:00", "07:30", "07:59")]


def test_a_span_of_time_holds_both_of_its_ends(service: Service) -> None:
    body = get(service, **{"from": "2027-01-15T07:00:00Z", "to": str(NOW_MS - 50 * MINUTE_MS)})
    ends = [point["to"] for point in body["points"]]
    assert len(ends) == 11
    assert (ends[0], ends[-1]) == ("2027-01-15T07:00:00.000Z", "2027-01-15T07:10:00.000Z")
    assert get(service, to="2020-01-01T00:00:00Z")["points"] == []


def test_one_measure_alone_is_shown(service: Service) -> None:
    body = get(service, measure="kce", step="1h")
    assert {name for point in body["points"] for name in point["measures"]} == {"kce"}


def test_a_version_that_is_no_longer_measured_has_its_history(service: Service) -> None:
    assert len(get(service, version="6")["points"]) == 1
    # After a restart nothing is measured yet.
    service.show(snapshot([]))
    assert get(service)["version"] == "7"
    assert len(get(service)["points"]) == 120


def test_a_series_that_was_never_measured_before_has_no_points(service: Service) -> None:
    assert get(service, "/v1/models/org/model/history", window="1h")["points"] == []


def test_an_unchanged_history_is_not_sent_twice(service: Service) -> None:
    client = service.client()
    tag = client.get(HISTORY).headers["etag"]
    assert client.get(HISTORY, headers={"if-none-match": tag}).status_code == 304


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/v1/models/chrun/history", "no model 'chrun'; models are 'churn', 'org/model'"),
        (f"{HISTORY}?version=8", "no version '8' of model 'churn'; versions are '6', '7'"),
        (f"{HISTORY}?segment=region=mars", "no segment 'region=mars' of model 'churn' version '7'; segments are 'all'"),
        (f"{HISTORY}?window=25h", "no window '25h'; windows are '1h', '24h'"),
    ],
)
def test_what_there_is_not_is_not_found(service: Service, path: str, said: str) -> None:
    assert assert_problem(service.client().get(path), 404, said)["type"].endswith(":unknown-series")


def test_before_the_first_event_there_is_no_model(store: SqlStore) -> None:
    service = Service()
    service.history = History(store.database)
    assert_problem(service.client().get(HISTORY), 404, "no model 'churn', and no other either yet")


@pytest.mark.parametrize(
    ("query", "said"),
    [
        (
            {"measure": "smec"},
            "no measure 'smec' in windows; measures are 'ece', 'intce', 'kce', 'skce'",
        ),
        ({"step": "fast"}, "step must be a duration such as 90s, 15m, 24h or 7d, or a number of seconds, got 'fast'"),
        ({"step": "0"}, "step must be at least 1m, got 0"),
        ({"step": "59s"}, "step must be at least 1m, got 59s"),
        ({"from": "yesterday"}, "from"),
        ({"to": "2027-01-15"}, "to"),
        ({"from": "5", "to": "4"}, "from must not be later than to, got 5 and 4"),
        ({"form": "5"}, "there is no such parameter here"),
    ],
)
def test_wrong_parameters_are_named(service: Service, query: dict[str, str], said: str) -> None:
    assert_problem(service.client().get(HISTORY, params=query), 422, said)


def test_ten_thousand_points_are_answered_quickly_and_more_name_the_step_that_fits(
    store: SqlStore, service: Service
) -> None:
    count = 12_000
    to_ms = NOW_MS + MINUTE_MS * np.arange(1, count + 1)
    ones = np.ones(count, np.int64)
    points = Points(
        np.full(count, "1h"),
        to_ms,
        to_ms - HOUR_MS,
        900 * ones,
        300 * ones,
        1000 * ones,
        np.full(count, 0.3, np.float32),
        np.full(count, "calibrated"),
        np.full(count, "none"),
        {"smce": np.full((count, 6), 0.01, np.float32)},
    )
    with store.database.writing() as connection:
        stored.append(connection, {SeriesKey("churn", "7", "all"): points})
    query: dict[str, Any] = {"window": "1h", "measure": "smce"}
    tight = {"to": str(NOW_MS + 10_000 * MINUTE_MS), "step": "1m"}
    started = time.process_time()
    assert len(get(service, **query, **tight)["points"]) == 10_000
    # 0.2 s.
    assert time.process_time() - started < 4.0
    answer = service.client().get(HISTORY, params=query | {"step": "1m"})
    assert_problem(answer, 422, "step=1m makes 12,000 values, and an answer has at most 10,000: set step=5m")
    body = get(service, **query)
    assert (body["step"], len(body["points"])) == ("5m", 2400)


def test_while_the_store_is_away_there_is_no_history(service: Service, store: SqlStore, tmp_path: Path) -> None:
    (tmp_path / "state.db").rename(tmp_path / "gone.db")
    (tmp_path / "state.db").mkdir()
    store.database.close()
    answer = service.client().get(HISTORY)
    assert assert_problem(answer, 503, "does not answer")["type"].endswith(":store-unavailable")
