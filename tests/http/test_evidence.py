"""GET /v1/evidence and /v1/models/{model}/evidence."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jsonschema import Draft202012Validator

from monitor.alarms.watch import DETECTORS as FOLLOWED
from monitor.clock import SystemClock
from monitor.store import evidence_history as stored
from monitor.store.evidence_history import DETECTORS, POINT, Points
from monitor.store.model_evidence import NO_EVIDENCE, ModelEvidence, Shock
from monitor.store.sql import SqlStore
from monitor.windows.evidence_history import EvidenceHistory, evidence_points
from tests.http.keys import Keys
from tests.http.service import Service, assert_problem
from tests.snapshots import HOUR_MS, NOW_MS, evidence, evidence_level, report, snapshot, with_evidence

MINUTE_MS = 60_000
DAY_MS = 24 * HOUR_MS
SETTLED_MS = NOW_MS - HOUR_MS
CHURN = "/v1/models/churn/evidence"
FLEET = "/v1/evidence"
KEYS = Keys()
READ, READ_FRAUD = KEYS("read"), KEYS("read:fraud")

BUDGET = "one false alarm a year of all models together is 10^4.0"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqlStore]:
    with SqlStore.open(f"sqlite:///{tmp_path}/state.db", clock=SystemClock()) as store:
        yield store


@pytest.fixture
def service(store: SqlStore) -> Service:
    """Two versions of a model, of which one fires, and another model; with two days of history."""
    made = Service(evidence_history=EvidenceHistory(store.database))
    seven = evidence(
        Shock(0.08, 0.03, 0.15, 14, 0.05),
        calibration=evidence_level(-1.0, raised=True, segment="region=eu"),
        change=evidence_level(NO_EVIDENCE),
    )
    versions = {
        ("churn", "7"): seven,
        ("churn", "8"): evidence(calibration=evidence_level(1.0), prevalence=evidence_level(2.5)),
        ("fraud", "1"): evidence(calibration=evidence_level(3.5)),
    }
    of = snapshot([report(), report(model="fraud", version="1"), report(model="org/model")])
    made.show(with_evidence(of, versions))
    append(store, {("churn", "7"): history(48 * 6), ("fraud", "1"): history(6), ("gone", "1"): history(3)})
    return made


def history(count: int) -> Points:
    """A point each ten minutes up to now; it fires in the last half of an hour."""
    made = np.zeros(count, POINT)
    made["to_ms"] = SETTLED_MS - 10 * MINUTE_MS * np.arange(count)[::-1]
    made["log10_evidence"][:], made["log10_line"][:] = np.nan, np.nan
    made["log10_evidence"][:, 0] = np.linspace(0.0, 3.0, count)
    made["log10_evidence"][-3:, 0] = -2.0
    made["log10_line"][:, 0] = 4.0
    made["firing"][-3:, 0] = True
    return made


def append(store: SqlStore, points: dict[tuple[str, str], Points]) -> None:
    with store.database.writing() as connection:
        stored.append(connection, points)


def get(service: Service, path: str, **query: Any) -> dict[str, Any]:
    """The body, which is of its schema."""
    client = service.client()
    answer = client.get(path, params=query)
    assert answer.status_code == 200, answer.text
    document = client.get("/openapi.json").json()
    template = FLEET if path == FLEET else "/v1/models/{model}/evidence"
    schema = document["paths"][template]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    Draft202012Validator({**schema, "components": document["components"]}).validate(answer.json())
    body: dict[str, Any] = answer.json()
    return body


def test_the_evidence_on_a_model_is_shown(service: Service) -> None:
    body = get(service, CHURN)
    assert (body["model"], body["step"]) == ("churn", None)
    seven, eight = body["versions"]
    assert seven == {
        "version": "7",
        "settled_to": "2027-01-15T07:00:00.000Z",
        "detectors": [
            {
                "detector": "calibration",
                "log10_evidence": -1.0,
                "log10_line": 4.0,
                "segment": "region=eu",
                "since": "2027-01-15T03:00:00.000Z",
                "sentence": f"evidence since 2027-01-15T03:00:00.000Z: 10^-1.0; {BUDGET}",
                "alarm": {
                    "at": "2027-01-15T06:00:00.000Z",
                    "log10_evidence": 4.5,
                    "segment": "region=eu",
                    "since": "2027-01-15T03:00:00.000Z",
                    "segments": ["region=eu"],
                },
            },
            {
                "detector": "change",
                "log10_evidence": None,
                "log10_line": 4.0,
                "segment": "all",
                "since": "2027-01-15T03:00:00.000Z",
                "sentence": f"evidence since 2027-01-15T03:00:00.000Z: 0; {BUDGET}",
                "alarm": None,
            },
        ],
        "resting": None,
        "shock": {
            "deviation": 0.08,
            "lower": 0.03,
            "upper": 0.15,
            "periods": 14,
            "covered": False,
            "sentence": Shock(0.08, 0.03, 0.15, 14, 0.05).sentence,
        },
        "history": None,
    }
    assert (eight["version"], eight["shock"]) == ("8", None)
    assert [one["version"] for one in get(service, CHURN, version="8")["versions"]] == ["8"]
    assert get(service, "/v1/models/org/model/evidence")["versions"] == []
    sentence = service.client(false_alarms_per_year=2.5).get(CHURN).json()["versions"][0]["detectors"][0]["sentence"]
    assert sentence.endswith("2.5 false alarms a year of all models together is 10^4.0")


def test_its_history_is_thinned_to_a_step(service: Service) -> None:
    body = get(service, CHURN, **{"from": str(SETTLED_MS - 12 * HOUR_MS)})
    assert body["step"] == "15m"
    seven, eight = body["versions"]
    assert eight["history"] == {"to": [], "detectors": {}}
    body = get(service, CHURN, version="7", step="6h", to=str(SETTLED_MS - 20 * MINUTE_MS), **{"from": "0"})
    (seven,) = body["versions"]
    past = seven["history"]
    assert past["to"][-2:] == ["2027-01-15T06:00:00.000Z", "2027-01-15T06:40:00.000Z"]
    assert len(past["to"]) == 9
    assert past["detectors"].keys() == {"calibration"}
    of_detector = past["detectors"]["calibration"]
    assert of_detector["log10_evidence"][-1] == -2.0
    assert of_detector["log10_evidence"][-2] == pytest.approx(3.0 * (48 * 6 - 7) / (48 * 6 - 1), abs=6e-4)
    assert of_detector["log10_line"] == [4.0] * 9
    assert of_detector["firing"] == [False] * 8 + [True]


def test_the_fleet_is_shown_in_one_answer(service: Service) -> None:
    body = get(service, FLEET, step="6h", **{"from": str(SETTLED_MS - 2 * DAY_MS)})
    assert [(row["model"], row["version"], row["detector"]) for row in body["versions"]] == [
        ("churn", "7", "calibration"),
        ("fraud", "1", "calibration"),
        ("churn", "8", "prevalence"),
    ]
    first, second, third = body["versions"]
    assert {name: first[name] for name in first if name != "above_line"} == {
        "model": "churn",
        "version": "7",
        "settled_to": "2027-01-15T07:00:00.000Z",
        "detector": "calibration",
        "log10_evidence": -1.0,
        "log10_line": 4.0,
        "firing": True,
        "segment": "region=eu",
        "since": "2027-01-15T03:00:00.000Z",
    }
    assert body["times"][-2:] == ["2027-01-15T06:00:00.000Z", "2027-01-15T12:00:00.000Z"]
    assert len(body["times"]) == len(first["above_line"]) == 9
    # The largest of a step; at least 0 while an alarm fires.
    assert first["above_line"][-1] == 0.0
    assert first["above_line"][-2] == pytest.approx(3.0 * (48 * 6 - 7) / (48 * 6 - 1) - 4.0, abs=6e-4)
    assert second["above_line"][-2:] == [None, 0.0]
    assert third["above_line"] == [None] * 9
    usual = get(service, FLEET)
    assert (usual["step"], len(usual["times"])) == ("3h", 113)


def test_a_point_is_saved_when_a_step_is_over_or_an_alarm_changes() -> None:
    before = evidence(calibration=evidence_level(1.0), change=evidence_level(NO_EVIDENCE))
    new = evidence_points(ModelEvidence({"7": before}), ModelEvidence())
    (point,) = new["7"].tolist()
    assert point[0] == SETTLED_MS
    calibration, change = DETECTORS.index("calibration"), DETECTORS.index("change")
    assert (point[1][calibration], point[2][change]) == (1.0, 4.0)
    assert np.isnan(point[1][change])
    assert not point[3].any()
    same = before._replace(to_ms=SETTLED_MS - 10 * MINUTE_MS + 1)
    assert evidence_points(ModelEvidence({"7": before}), ModelEvidence({"7": same})) == {}
    earlier = before._replace(to_ms=SETTLED_MS - 10 * MINUTE_MS)
    assert evidence_points(ModelEvidence({"7": before}), ModelEvidence({"7": earlier})).keys() == {"7"}
    firing = evidence(calibration=evidence_level(1.0, raised=True), change=evidence_level(NO_EVIDENCE))
    (point,) = evidence_points(ModelEvidence({"7": firing}), ModelEvidence({"7": same}))["7"].tolist()
    assert point[3].tolist() == [name == "calibration" for name in DETECTORS]
    # Every detector of the service has a column.
    assert FOLLOWED.keys() <= set(DETECTORS)


def test_only_models_that_one_may_read_are_there(service: Service) -> None:
    service.authenticator = KEYS.authenticator(service.clock)
    client = service.client()
    assert client.get(FLEET).status_code == 401
    assert [row["model"] for row in client.get(FLEET, key=READ_FRAUD).json()["versions"]] == ["fraud"]
    assert len(client.get(FLEET, key=READ).json()["versions"]) == 3
    assert_problem(client.get(CHURN, key=READ_FRAUD), 404, "churn")
    assert client.get(CHURN, key=READ).status_code == 200


def test_what_has_not_changed_is_not_sent_twice(service: Service) -> None:
    client = service.client()
    for path in (CHURN, f"{CHURN}?from=0", FLEET):
        tag = client.get(path).headers["etag"]
        assert client.get(path, headers={"if-none-match": tag}).status_code == 304


def test_wrong_requests_are_refused(service: Service) -> None:
    client = service.client()
    assert_problem(client.get("/v1/models/chrun/evidence"), 404, "no model 'chrun'", "'churn', 'fraud', 'org/model'")
    assert_problem(client.get(f"{CHURN}?version=9"), 404, "no evidence on version '9'", "'7', '8'")
    assert_problem(client.get(f"{CHURN}?step=1h"), 422, "name from as well")
    assert_problem(client.get(f"{CHURN}?from=0&step=9m"), 422, "step must be at least 10m, got 9m")
    assert_problem(client.get(f"{CHURN}?from=5&to=4"), 422, "from must not be later than to, got 5 and 4")
    assert_problem(client.get(f"{FLEET}?from={NOW_MS}"), 422, "from must not be later than to", "07:00:00")
    assert_problem(client.get(f"{FLEET}?step=1h"), 422, "step must be at least 3h, got 1h")
    assert_problem(client.get(f"{FLEET}?step=4h"), 422, "step must be a multiple of 3h, got 4h")
    long = f"{FLEET}?from={NOW_MS - 60 * DAY_MS}&step=3h"
    assert_problem(client.get(long), 422, "points of a version, and an answer has at most 240: set step=12h")
    assert_problem(client.get(f"{FLEET}?from=noon"), 422, "from")
    assert_problem(client.get(f"{FLEET}?models=churn"), 422, "there is no such parameter here")


def test_too_many_points_name_the_step_that_fits(store: SqlStore, service: Service) -> None:
    made = np.zeros(2_000, POINT)
    made["to_ms"] = SETTLED_MS + 10 * MINUTE_MS * np.arange(1, 2_001)
    append(store, {("churn", "8"): made})
    query = {"from": str(SETTLED_MS), "to": str(SETTLED_MS + 20_000 * MINUTE_MS)}
    answer = service.client().get(CHURN, params=query | {"step": "10m"})
    assert_problem(answer, 422, "2,000 points of a version, and an answer has at most 1,000: set step=1h")
    assert get(service, CHURN, **query)["step"] == "1h"


def test_fourteen_days_of_a_thousand_models_are_one_quick_answer(store: SqlStore) -> None:
    """As they are kept: ten minutes apart for two days, an hour before."""
    times = [SETTLED_MS - at * 10 * MINUTE_MS for at in range(2 * 144)]
    times += [SETTLED_MS - 2 * DAY_MS - at * HOUR_MS for at in range(12 * 24)]
    points = np.resize(history(1), len(times))
    points["to_ms"] = sorted(times)
    names = [f"model-{at:04}" for at in range(1_000)]
    append(store, {(name, "1"): points for name in names})
    service = Service(evidence_history=EvidenceHistory(store.database))
    of = snapshot([report(model=name, version="1") for name in names])
    service.show(with_evidence(of, {(name, "1"): evidence(calibration=evidence_level()) for name in names}))
    client = service.client()
    body = client.get(FLEET)
    assert len(body.json()["versions"]) == 1_000
    taken = []
    for _ in range(3):
        started = time.process_time()
        client.get(FLEET)
        taken.append(time.process_time() - started)
    print(f"14 days of 1,000 models: {min(taken) * 1000:.0f} ms, {len(body.content) / 1e6:.1f} MB")
    # 0.1 s.
    assert min(taken) < 2.0
