import pytest

from tests.http.service import Service, assert_problem
from tests.snapshots import cohorts, report, snapshot

COVERAGE = "/v1/models/churn/coverage"


@pytest.fixture
def service() -> Service:
    made = Service()
    counted = {("churn", "7"): cohorts(), ("churn", "6"): cohorts(0.5)}
    made.show(snapshot([report(version="7", window="24h"), report(version="6", window="24h")], coverage=counted))
    return made


def test_coverage_is_by_version_and_age(service: Service) -> None:
    body = service.client().get(COVERAGE).json()
    assert (body["model"], body["evaluated_at"]) == ("churn", "2027-01-15T08:00:01.000Z")
    assert [version["version"] for version in body["versions"]] == ["6", "7"]
    of_cohorts = body["versions"][1]["cohorts"]
    assert [tuple(cohort.values()) for cohort in of_cohorts] == [
        ("0-25%", 0.0, 21600.0, 400, 80),
        ("25-50%", 21600.0, 43200.0, 400, 160),
        ("50-75%", 43200.0, 64800.0, 400, 240),
        ("75-100%", 64800.0, 86400.0, 400, 320),
        ("mature", 86400.0, None, 400, 400),
    ]
    assert body["versions"][0]["cohorts"][0]["labelled"] == 40


def test_a_declared_model_without_events_has_none(service: Service) -> None:
    body = service.client().get("/v1/models/fraud/coverage").json()
    assert body == {"model": "fraud", "evaluated_at": None, "versions": []}


def test_an_unknown_model_is_not_found(service: Service) -> None:
    answer = service.client().get("/v1/models/chrun/coverage")
    assert_problem(answer, 404, "no model 'chrun'; models are 'churn', 'fraud', 'org/model'")
    assert_problem(service.client().get(f"{COVERAGE}?version=7"), 422, "version")


def test_unchanged_coverage_is_not_sent_twice(service: Service) -> None:
    client = service.client()
    tag = client.get(COVERAGE).headers["etag"]
    assert client.get(COVERAGE, headers={"if-none-match": tag}).status_code == 304
