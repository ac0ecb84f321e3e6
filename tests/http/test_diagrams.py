from pathlib import Path
from typing import Any

import numpy as np
import pytest

from monitor.clock import ManualClock
from monitor.events.model import ModelPolicy
from monitor.events.times import format_time
from monitor.maps import apply_map
from monitor.maps.temperature import Temperature
from monitor.reports.diagrams.document import diagrams_document
from monitor.scores import GridTable
from monitor.windows.windows import Window
from tests.evaluations import Alone
from tests.http.refits import Refits
from tests.http.service import KEPT_FROM_MS, Service, assert_problem
from tests.http.test_recalibrate import serve
from tests.maps_of_refits import fitted
from tests.snapshots import NOW_MS, report, snapshot
from tests.windows.memory import CHURN, HOUR_MS, MINUTE_MS, MemoryPanes, calibrated

DIAGRAMS = "/v1/models/churn/diagrams"
START_MS = NOW_MS - 12 * HOUR_MS
CHANGE_MS = START_MS + 7 * HOUR_MS


@pytest.fixture(scope="module")
def panes() -> MemoryPanes:
    """Ten predictions a minute, every fifth without an outcome; after seven hours the model exaggerates."""
    panes = MemoryPanes(ModelPolicy(horizon_ms=HOUR_MS, lateness_ms=5 * MINUTE_MS))
    times = START_MS + np.arange(7200) * 6000
    for seed, (inside, slope) in enumerate([(times < CHANGE_MS, 1.0), (times >= CHANGE_MS, 1.8)]):
        p, y = calibrated(int(inside.sum()), seed, slope=slope)
        y[::5] = -1
        panes.add(CHURN, times[inside], p, y)
    return panes


@pytest.fixture(scope="module")
def service(panes: MemoryPanes) -> Service:
    evaluator = Alone(panes, [Window("1h", HOUR_MS), Window("5h", 5 * HOUR_MS)], draws=19, clock=ManualClock())
    evaluator.evaluate()
    return Service(evaluator=evaluator)  # type: ignore[arg-type]


def get(service: Service, path: str = DIAGRAMS, **query: Any) -> dict[str, Any]:
    answer = service.client().get(path, params=query)
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


@pytest.mark.parametrize("query", [{}, {"window": "5h"}, {"as_of": str(NOW_MS - 2 * HOUR_MS)}])
def test_the_diagrams_are_of_the_predictions_of_the_report(service: Service, query: dict[str, str]) -> None:
    body, of_report = get(service, **query), get(service, "/v1/models/churn/report", **query)
    for name in ("model", "version", "segment", "window", "from", "to", "n", "positives", "predictions"):
        assert body[name] == of_report[name]
    assert sum(body["diagrams"]["curve"]["n"]) == body["n"] > 400


def test_they_are_those_of_the_events(service: Service, panes: MemoryPanes) -> None:
    body = get(service, window="5h")
    (of_window,) = (one for one in service.evaluator.latest.reports.values() if one.window == "5h")
    events = panes.events(CHURN, of_window.from_ms or 0, of_window.to_ms or 0)
    table = GridTable.from_events(events["p"], events["y"]).to_scores()
    assert body["diagrams"] == diagrams_document(table)


def test_before_and_after_a_change_are_two_spans(service: Service, panes: MemoryPanes) -> None:
    before = get(service, **{"from": str(START_MS), "to": str(CHANGE_MS)})
    after = get(service, **{"from": str(CHANGE_MS)})
    assert (before["window"], before["from"], before["to"]) == (None, format_time(START_MS), format_time(CHANGE_MS))
    # Up to the settled edge, in whole panes of a minute.
    edge_ms = panes.edge_ms("churn")
    assert (after["from"], after["to"]) == (format_time(CHANGE_MS), format_time(edge_ms - edge_ms % MINUTE_MS))
    for body, from_ms, to_ms in ((before, START_MS, CHANGE_MS), (after, CHANGE_MS, edge_ms - edge_ms % MINUTE_MS)):
        events = panes.events(CHURN, from_ms, to_ms)
        assert body["predictions"] == events.size
        assert body["n"] == (events["y"] >= 0).sum()
        assert body["positives"] == (events["y"] == 1).sum()
    slopes = [body["diagrams"]["fit"] for body in (before, after)]
    assert slopes[0]["slope_lower"] < 1.0 < slopes[0]["slope_upper"]
    assert slopes[1]["slope_upper"] < 0.75


def test_a_span_that_ends_later_than_the_settled_edge_ends_there(service: Service) -> None:
    assert get(service, **{"from": str(CHANGE_MS), "to": str(NOW_MS)}) == get(service, **{"from": str(CHANGE_MS)})


def test_the_limits_of_a_span_are_said(service: Service, panes: MemoryPanes) -> None:
    client = service.client()
    panes.kept_ms = START_MS + HOUR_MS
    try:
        answer = client.get(DIAGRAMS, params={"from": str(START_MS)})
        assert_problem(answer, 410, f"are kept since {format_time(START_MS + HOUR_MS).replace('.000', '')}", "set from")
    finally:
        panes.kept_ms = 0
    for from_ms in (NOW_MS - HOUR_MS, NOW_MS):
        answer = client.get(DIAGRAMS, params={"from": str(from_ms), "to": str(from_ms + 5)})
        assert_problem(answer, 422, "there is no whole pane", "settled up to", "1m wide")


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"to": "5"}, "to=5 needs from"),
        ({"from": "5", "window": "1h"}, "window=1h and from exclude each other"),
        ({"from": "5", "as_of": "7"}, "as_of=7 and from exclude each other"),
        ({"from": "7", "to": "7"}, "from must be earlier than to, got 7 and 7"),
        ({"from": "-7", "to": "7"}, "from must not lie before 1970"),
        ({"from": "yesterday"}, "from"),
        ({"as_of": "-1"}, "as_of must not lie before 1970"),
        ({"bins": "20"}, "there is no such parameter here"),
    ],
)
def test_wrong_parameters_are_named(service: Service, query: dict[str, str], said: str) -> None:
    assert_problem(service.client().get(DIAGRAMS, params=query), 422, said)


def test_what_there_is_not_is_not_found(service: Service) -> None:
    client = service.client()
    for query in ({"window": "25h"}, {"version": "8"}, {"segment": "region=mars"}, {"from": "5", "version": "8"}):
        assert_problem(client.get(DIAGRAMS, params=query), 404)
    assert_problem(client.get("/v1/models/chrun/diagrams"), 404, "no model 'chrun'; models are 'churn'")


def test_unchanged_diagrams_are_not_sent_twice(service: Service) -> None:
    client = service.client()
    tag = client.get(DIAGRAMS).headers["etag"]
    assert client.get(DIAGRAMS, headers={"if-none-match": tag}).status_code == 304


def test_without_outcomes_there_are_none() -> None:
    service = Service()
    service.show(snapshot([report(model="new", window="24h", n=0, insufficient="no prediction has an outcome")]))
    body = get(service, "/v1/models/new/diagrams")
    assert (body["n"], body["diagrams"]) == (0, None)
    assert body["predictions"] > 0


def test_what_is_no_longer_kept_is_gone() -> None:
    service = Service()
    service.show(snapshot([report(window="24h")]))
    answer = service.client().get(DIAGRAMS, params={"as_of": str(KEPT_FROM_MS - 1)})
    assert assert_problem(answer, 410)["type"].endswith(":no-longer-kept")


def test_predictions_are_shown_as_the_map_that_serves_makes_them(panes: MemoryPanes, tmp_path: Path) -> None:
    """Diagrams of a window and of a span, and the report: as of the events that the map made."""
    refits = Refits(tmp_path)
    evaluator = Alone(panes, [Window("1h", HOUR_MS), Window("5h", 5 * HOUR_MS)], draws=19, clock=ManualClock())
    evaluator.evaluate()
    service = Service(evaluator=evaluator, refits=refits)  # type: ignore[arg-type]
    client = service.client()
    report = "/v1/models/churn/report"
    for path in (DIAGRAMS, report):
        assert_problem(client.get(path, params={"served": "true"}), 409, "no map serves churn 7: leave served out")
    chosen = Temperature(temperature=1.8, classes=2)
    serve(client, refits, chosen, version="7")
    span = {"from": str(CHANGE_MS + HOUR_MS), "to": str(CHANGE_MS + 3 * HOUR_MS)}
    events = panes.events(CHURN, CHANGE_MS + HOUR_MS, CHANGE_MS + 3 * HOUR_MS)
    exact = GridTable.from_events(apply_map(chosen, events["p"]), events["y"])
    served = get(service, **span, served="true")
    assert (served["n"], served["predictions"]) == (exact.labelled, exact.predictions)
    fit, of_events = served["diagrams"]["fit"], diagrams_document(exact.to_scores())["fit"]
    assert fit["slope_lower"] < 1.0 < fit["slope_upper"]
    # A cell of predictions goes where the map takes their mean.
    assert fit == pytest.approx(of_events, abs=2e-3)
    assert get(service, **span)["diagrams"]["fit"]["slope_upper"] < 0.75
    for query in ({}, {"window": "5h"}, {"as_of": str(NOW_MS - 2 * HOUR_MS)}):
        body, of_report = get(service, **query, served="true"), get(service, report, **query, served="true")
        raw = get(service, report, **query)
        assert (body["n"], of_report["n"]) == (raw["n"], raw["n"])
        assert of_report["measures"]["smce"]["value"] < 0.6 * raw["measures"]["smce"]["value"]
        assert of_report["diagnosis"] != raw["diagnosis"]
    serve(client, refits, fitted("lore"), version="7")
    assert_problem(client.get(DIAGRAMS, params={"served": "true"}), 422, "features")
