import pytest

from monitor.events.model import SeriesKey
from monitor.reports.evaluation.report import ReportKey
from tests.http.service import Service
from tests.snapshots import NO_EVIDENCE, failing, report, snapshot


@pytest.fixture
def service() -> Service:
    made = Service()
    made.show(
        snapshot(
            [
                report(version="6"),
                report(version="7", window="1h"),
                report(version="7", window="24h"),
                report(version="7", segment="region=eu"),
                report(model="free", n=3, insufficient="only 3 of at least 100 predictions have an outcome"),
            ]
        )
    )
    return made


def test_a_model_says_what_is_known_of_it(service: Service) -> None:
    models = {each["model"]: each for each in service.client().get("/v1/models").json()["models"]}
    assert models["churn"] == {
        "model": "churn",
        "state": "measured",
        "current_version": "7",
        "versions": [
            {"version": "6", "segments": ["all"], "windows": ["1h"], "evidence": NO_EVIDENCE},
            {"version": "7", "segments": ["all", "region=eu"], "windows": ["1h", "24h"], "evidence": NO_EVIDENCE},
        ],
        "watermark": "2027-01-15T08:00:00.500Z",
        "evaluated_at": "2027-01-15T08:00:01.000Z",
        "settled_to": "2027-01-14T08:00:00.000Z",
        "held_back_by": {
            "partition": 3,
            "reason": "outcomes_silent",
            "detail": "outcome log silent since 2027-01-13T08:00:00.000Z",
        },
        "policy": {
            "horizon_seconds": 86400.0,
            "lateness_seconds": 3600.0,
            "implied_negative": False,
            "segments": ["region"],
            "classes": [],
        },
        "report": "/v1/models/churn/report",
    }


def test_too_little_data_and_none_at_all_are_states(service: Service) -> None:
    models = {each["model"]: each for each in service.client().get("/v1/models").json()["models"]}
    assert list(models) == ["churn", "fraud", "free", "org/model"]
    assert models["free"]["state"] == "insufficient"
    assert models["free"]["policy"] is None
    assert models["fraud"]["state"] == "waiting"
    assert models["fraud"]["watermark"] is None
    assert models["fraud"]["settled_to"] is None
    assert models["free"]["held_back_by"] is None
    assert models["fraud"]["versions"] == []


def test_a_model_without_any_report_failed(service: Service) -> None:
    key = ReportKey(SeriesKey("fraud", "1", "all"), "1h")
    service.show(failing(service.evaluator.latest, key, "ValueError: torn"))
    models = {each["model"]: each for each in service.client().get("/v1/models").json()["models"]}
    assert models["fraud"]["state"] == "failed"


def test_the_link_to_the_report_leads_there(service: Service) -> None:
    service.show(snapshot([report(model="org/a b?c#d", window="24h")]))
    client = service.client()
    links = {each["model"]: each["report"] for each in client.get("/v1/models").json()["models"]}
    assert client.get(links["org/a b?c#d"]).json()["model"] == "org/a b?c#d"


def test_models_come_by_the_page(service: Service) -> None:
    client = service.client()
    first = client.get("/v1/models", params={"limit": 3}).json()
    second = client.get("/v1/models", params={"limit": 3, "cursor": first["next_cursor"]}).json()
    assert [each["model"] for each in first["models"]] == ["churn", "fraud", "free"]
    assert [each["model"] for each in second["models"]] == ["org/model"]
    assert second["next_cursor"] is None
