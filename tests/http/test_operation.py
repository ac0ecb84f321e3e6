import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from monitor.stream.status import Phase, PipelineStatus
from monitor.version import VERSION
from tests.http.service import Service, assert_problem
from tests.snapshots import many_reports, snapshot


def test_health_is_the_process_whatever_the_pipeline_says() -> None:
    service = Service()
    service.pipeline.status = PipelineStatus(phase=Phase.FAILED)
    answer = service.client().get("/healthz")
    assert (answer.status_code, answer.json()) == (200, {"status": "ok", "version": VERSION})


def test_ready_names_the_partitions() -> None:
    answer = Service().client().get("/readyz")
    assert (answer.status_code, answer.json()) == (200, {"status": "ready", "partitions": [0, 1]})
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("phase", [phase for phase in Phase if phase is not Phase.RUNNING])
def test_not_ready_says_why(phase: Phase) -> None:
    service = Service()
    service.pipeline.status = PipelineStatus(phase=phase, detail="no broker answers at localhost:9092")
    problem = assert_problem(service.client().get("/readyz"), 503, phase.value, "no broker answers at localhost:9092")
    assert problem["phase"] == phase


def test_metrics_come_in_the_format_asked_for() -> None:
    service = Service()
    service.show(snapshot(many_reports(3)))
    client = service.client()
    plain = client.get("/metrics", headers={"accept-encoding": "identity"})
    assert plain.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert "calibration_tce_ratio{" in plain.text
    openmetrics = client.get("/metrics", headers={"accept": "application/openmetrics-text; version=1.0.0"})
    assert openmetrics.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    assert any(family.name == "calibration_tce_ratio" for family in text_string_to_metric_families(openmetrics.text))


@pytest.mark.parametrize(
    ("accept", "openmetrics"),
    [
        ("", False),
        ("*/*", False),
        ("text/html", False),
        ("application/openmetrics-text", True),
        ("application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1", True),
        ("Application/OpenMetrics-Text; Version=1.0.0; q=0.9, text/plain; q=0.3", True),
        ("application/openmetrics-text;q=0.3,text/plain;q=0.9", False),
        ("application/openmetrics-text;q=0", False),
        ("application/openmetrics-text;version=abc", True),
        ("application/openmetrics-text;q=abc", False),
        (",;,;=,", False),
    ],
)
def test_metrics_are_in_the_format_that_accept_prefers(accept: str, openmetrics: bool) -> None:
    answer = Service().client().get("/metrics", headers={"accept": accept})
    assert ("openmetrics" in answer.headers["content-type"]) == openmetrics
    assert answer.text.endswith("# EOF\n") == openmetrics


@pytest.mark.parametrize(
    ("accepted", "compressed"),
    [("gzip", True), ("deflate, GZIP;q=0.5", True), ("identity", False), ("gzip;q=0", False), ("", False)],
)
def test_metrics_are_compressed_for_whom_they_may(accepted: str, compressed: bool) -> None:
    answer = Service().client().get("/metrics", headers={"accept-encoding": accepted})
    assert (answer.headers.get("content-encoding") == "gzip") == compressed
    assert "calibration_ready 1.0" in answer.text


def test_compressed_metrics_are_the_same() -> None:
    service = Service()
    lines = [
        {
            line
            for line in service.client().get("/metrics", headers={"accept-encoding": each}).text.splitlines()
            if not line.startswith(("process_", "calibration_http_"))
        }
        for each in ("gzip", "identity")
    ]
    assert lines[0] == lines[1]
