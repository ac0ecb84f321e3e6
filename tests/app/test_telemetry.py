"""Spans of a running service reach a collector over HTTP, as OpenTelemetry's protocol has them."""

import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from monitor.app import telemetry
from monitor.app.service import Service
from monitor.app.settings import Settings
from monitor.app.telemetry import exports_traces, make_telemetry
from monitor.clock import SystemClock
from monitor.errors import SettingsError
from monitor.tracing import span
from tests.patience import PATIENCE_SECONDS, eventually, joined
from tests.real.child import free_ports

TRACE = "0af7651916cd43dd8448eb211c80319c"
CALLER = "b7ad6b7169203331"


class Collector:
    """Keeps what is exported to it."""

    def __init__(self) -> None:
        self.spans: list[Any] = []
        self.paths: set[str] = set()
        self.services: set[str] = set()
        received = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                received.paths.add(self.path)
                received.take_spans(body)
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self._thread = threading.Thread(target=self.server.serve_forever, args=(0.05,))
        self._thread.start()

    def take_spans(self, body: bytes) -> None:
        request = ExportTraceServiceRequest.FromString(body)
        for resource in request.resource_spans:
            names = resource.resource.attributes
            self.services |= {each.value.string_value for each in names if each.key == "service.name"}
            self.spans += [each for scope in resource.scope_spans for each in scope.spans]

    def named(self, name: str) -> list[Any]:
        return [each for each in list(self.spans) if each.name == name]

    def close(self) -> None:
        self.server.shutdown()
        joined(self._thread)
        self.server.server_close()


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    made = Collector()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", made.url)
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
    yield made
    made.close()


def attributes(of: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in of.attributes}


def request(service: Service, path: str, body: Any, **headers: str) -> Any:
    asked = urllib.request.Request(
        f"{service.server.url}{path}", json.dumps(body).encode(), {"content-type": "application/json", **headers}
    )
    with urllib.request.urlopen(asked, timeout=PATIENCE_SECONDS) as answer:
        return json.loads(answer.read())


def refits(service: Service) -> bool:
    """Ask for a refit; whether there is such a model yet."""
    try:
        request(service, "/v1/models/churn/recalibrations", {"method": "platt"})
    except urllib.error.HTTPError as error:
        error.close()
        return False
    return True


def test_a_service_exports_its_work(tmp_path: Path, patient: None, collector: Collector) -> None:
    chosen = Settings.model_validate(
        {
            "source": {"embedded": {"directory": str(tmp_path / "log"), "partitions": 1}},
            "store": {"url": f"sqlite:///{tmp_path / 'state.db'}"},
            "models": {"defaults": {"horizon": "1m", "allowed_lateness": "1m"}},
            "evaluation": {"interval": "300ms", "draws": 0},
            "pipeline": {"checkpoint_interval": "100ms"},
            "api": {"port": 0},
            "access": {"mode": "off"},
        }
    )
    service = Service(chosen, clock=SystemClock())
    service.start()
    try:
        labelled = {"type": "labelled", "model": "churn", "version": "1", "p": 0.5, "y": 1}
        events = [{**labelled, "id": str(at), "ts": f"2026-11-20T10:{at:02}:00Z"} for at in range(20)]
        request(service, "/v1/events", events, traceparent=f"00-{TRACE}-{CALLER}-01")
        eventually(lambda: [each for each in collector.named("checkpoint") if attributes(each)["rows"] > 0])
        eventually(lambda: collector.named("evaluation"))
        # It knows the model once something of it is settled.
        eventually(lambda: refits(service))
        eventually(lambda: collector.named("refit"))
    finally:
        service.stop()
    (posted,) = collector.named("POST /v1/events")
    assert (posted.trace_id.hex(), posted.parent_span_id.hex()) == (TRACE, CALLER)
    assert attributes(posted)["http.response.status_code"] == 202
    assert posted.end_time_unix_nano > posted.start_time_unix_nano
    (refit,) = collector.named("refit")
    assert attributes(refit)["model"] == "churn"
    assert collector.services == {"calibration-monitor"}
    assert collector.paths == {"/v1/traces"}
    with span("after the end") as current:
        current.set_attribute("is", "not exported")
    assert not collector.named("after the end")


def test_a_span_keeps_the_error_that_passed_it(collector: Collector) -> None:
    made = make_telemetry({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{collector.url}/v1/traces"})
    assert made is not None
    made.start()
    with pytest.raises(ZeroDivisionError), span("outer", model=None), span("inner", model="churn"):
        raise ZeroDivisionError
    made.stop(PATIENCE_SECONDS)
    ((inner,), (outer,)) = collector.named("inner"), collector.named("outer")
    assert inner.parent_span_id == outer.span_id
    assert inner.events[0].name == "exception"
    assert (attributes(inner), attributes(outer)) == ({"model": "churn"}, {})


@pytest.mark.parametrize(
    ("environ", "is_on"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c"}, True),
        ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://c"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_TRACES_EXPORTER": "none"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_SDK_DISABLED": "true"}, False),
    ],
)
def test_the_environment_says_whether_traces_are_exported(environ: dict[str, str], is_on: bool) -> None:
    assert exports_traces(environ) == is_on


def test_an_endpoint_without_the_libraries_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telemetry, "find_spec", lambda _: None)
    with pytest.raises(SettingsError, match=r"pip install 'calibration-monitor\[otel\]'"):
        make_telemetry({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c"})
    assert make_telemetry({}) is None


def test_a_collector_that_is_away_delays_neither_work_nor_end() -> None:
    (port,) = free_ports(1)
    made = make_telemetry({"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}"})
    assert made is not None
    made.start()
    with span("work"):
        pass
    began = time.monotonic()
    made.stop(0.2)
    assert time.monotonic() - began < 5.0  # the SDK alone would try for 10 s and more
