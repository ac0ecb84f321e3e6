"""Every request has a name, and the log tells of those that changed something or failed."""

import re

import pytest
import structlog

from monitor.errors import StoreUnavailable
from monitor.http.problems import MEDIA_TYPE
from monitor.reports.evaluation.report import Report
from tests.http.service import Service

EVENT = {"type": "outcome", "model": "churn", "id": "a", "ts": 1_790_000_000_000, "y": 1}
REPORT = {"p": [0.5], "y": [1]}


def test_each_answer_names_its_request() -> None:
    client = Service().client()
    names = [client.get(path).headers["x-request-id"] for path in ("/healthz", "/v1/models", "/nothing")]
    assert len(set(names)) == 3
    assert all(re.fullmatch(r"[0-9a-f]{32}", name) for name in names)


@pytest.mark.parametrize("given", ["7f3a", "Root=1-67891233-abcdef012345678912345678", "a" * 128])
def test_the_callers_name_is_taken(given: str) -> None:
    answer = Service().client().get("/v1/models", headers={"x-request-id": given})
    assert answer.headers["x-request-id"] == given


@pytest.mark.parametrize("given", ["", "a b", 'x"}', "a" * 129, "-", "\x1b[31m", "\xe9"])
def test_a_name_that_does_not_belong_into_a_log_is_replaced(given: str) -> None:
    answer = Service().client().get("/v1/models", headers={"x-request-id": given.encode("latin-1")})
    assert re.fullmatch(r"[0-9a-f]{32}", answer.headers["x-request-id"])


def test_a_problem_carries_the_name() -> None:
    answer = Service().client().get("/v1/models/nobody/report", headers={"x-request-id": "7f3a"})
    assert answer.headers["content-type"] == MEDIA_TYPE
    assert answer.json()["request_id"] == "7f3a"


def test_a_change_is_told_of_and_what_only_reads_is_not() -> None:
    client = Service().client()
    with structlog.testing.capture_logs() as told:
        client.get("/v1/models")
        client.post("/v1/reports", json=REPORT)
        client.post("/v1/events", json=EVENT)
        client.get("/v1/models/nobody/report")
    assert {line["log_level"] for line in told if line["event"] == "request"} == {"debug"}
    with structlog.testing.capture_logs() as told:
        answer = client.post("/v1/models/churn/recalibrations", json={}, headers={"x-request-id": "7f3a"})
    assert answer.status_code == 202, answer.text
    (line,) = [line for line in told if line["event"] == "request"]
    assert line["request_id"] == "7f3a"
    assert line["log_level"] == "info"
    assert line["route"] == "/v1/models/{model}/recalibrations"
    assert line["status"] == 202
    assert line["method"] == "POST"
    assert line["duration_ms"] >= 0


def test_a_route_that_goes_on_failing_is_told_of_once_a_minute() -> None:
    def fail(*_: object, **__: object) -> Report:
        raise StoreUnavailable("no database at localhost:5432")

    service = Service()
    client = service.client(evaluate=fail)
    told: list[dict[str, object]] = []
    for seconds in (0, 0, 61):
        service.clock.advance(seconds)
        with structlog.testing.capture_logs() as lines:
            assert client.post("/v1/reports", json=REPORT).status_code == 503
        told += [dict(line) for line in lines if line["event"] == "request failed"]
    assert [line.get("unlogged") for line in told] == [None, 1]
    assert {line["status"] for line in told} == {503}


def test_a_stranger_writes_nothing_of_his_own_into_the_log() -> None:
    with structlog.testing.capture_logs() as told:
        Service().client().post("/my-password-is-secret?key=secret", json={})
    assert told
    assert "secret" not in repr(told)
