"""Replicas: which there are, what one without the role `serve` answers, and how old a report of another one is."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from monitor.store.evaluations import Replica
from monitor.windows.snapshot import Snapshot
from tests.http.service import Service, assert_problem
from tests.snapshots import HOUR_MS, NOW_MS, many_reports, snapshot


def test_live_replicas_with_their_roles_and_models() -> None:
    live = {
        Replica("host-7-aa", NOW_MS - HOUR_MS, NOW_MS - 1000, ("consume", "evaluate")): ["churn", "fraud"],
        Replica("host-8-bb", NOW_MS, NOW_MS, ("serve",)): [],
    }
    answer = Service().client(replicas=lambda: live).get("/v1/replicas")
    assert answer.status_code == 200
    first, second = answer.json()["replicas"]
    assert first == {
        "id": "host-7-aa",
        "roles": ["consume", "evaluate"],
        "started": "2027-01-15T07:00:00.000Z",
        "seen": "2027-01-15T07:59:59.000Z",
        "models": ["churn", "fraud"],
    }
    assert (second["id"], second["models"]) == ("host-8-bb", [])


@pytest.mark.parametrize("path", ["/", "/v1/models", "/v1/reports", "/v1/models/churn/report", "/v1/events", "/docs"])
def test_without_the_role_serve_only_probes_and_metrics_answer(path: str) -> None:
    client = Service().client(roles=("consume", "evaluate"))
    assert_problem(client.get(path), 503, "/healthz, /readyz, /metrics", "[consume, evaluate]", "roles has serve")
    for probe in ("/healthz", "/readyz", "/metrics"):
        assert client.get(probe).status_code == 200


def evaluated(snapshot: Snapshot, at_ms: int, others_ms: Mapping[str, int]) -> Snapshot:
    """The snapshot with other times of evaluation."""
    models = {name: replace(model, evaluated_ms=others_ms.get(name, at_ms)) for name, model in snapshot.models.items()}
    return replace(snapshot, evaluated_ms=at_ms, models=models)


def test_a_report_says_how_old_its_model_is() -> None:
    service = Service()
    of_two = snapshot(many_reports(60))
    first, second, *_ = sorted(of_two.models)
    service.show(evaluated(of_two, service.clock.now_ms(), {second: service.clock.now_ms() - 7_400}))
    client = service.client()
    service.clock.advance(1)
    assert client.get(f"/v1/models/{first}/report").headers["age"] == "1"
    other = client.get(f"/v1/models/{second}/report")
    assert other.headers["age"] == "8"
    again = client.get(f"/v1/models/{second}/report", headers={"if-none-match": other.headers["etag"]})
    assert (again.status_code, again.headers["age"]) == (304, "8")
    assert "age" not in client.get(f"/v1/models/{second}/report?as_of=2020-01-01T00:00:00Z").headers


def test_lists_say_how_old_the_oldest_is() -> None:
    service = Service()
    of_two = snapshot(many_reports(60))
    first, second, *_ = sorted(of_two.models)
    service.show(evaluated(of_two, NOW_MS, {second: NOW_MS - 7_000}))
    client = service.client()
    models = {model["model"]: model for model in client.get("/v1/models").json()["models"]}
    assert models[first]["evaluated_at"] == "2027-01-15T08:00:00.000Z"
    assert models[second]["evaluated_at"] == "2027-01-15T07:59:53.000Z"
    assert {model["evaluated_at"] for model in models.values() if model["state"] == "waiting"} <= {None}
    assert client.get("/v1/reports").json()["evaluated_at"] == models[second]["evaluated_at"]
    assert client.get(f"/v1/reports?model={first}").json()["evaluated_at"] == models[first]["evaluated_at"]
