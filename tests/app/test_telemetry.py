"""Spans and series of a running service reach a collector over HTTP, as OpenTelemetry's protocol has them."""

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
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from prometheus_client.parser import text_string_to_metric_families

from monitor.app import telemetry
from monitor.app.service import Service
from monitor.app.settings import Settings
from monitor.app.telemetry import make_telemetry, wanted_signals
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
        self.metrics: dict[str, Any] = {}
        self.services: set[str] = set()
        received = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.path == "/v1/traces":
                    received.take_spans(body)
                else:
                    received.take_metrics(body)
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
            self._take_resource(resource.resource)
            self.spans += [each for scope in resource.scope_spans for each in scope.spans]

    def take_metrics(self, body: bytes) -> None:
        request = ExportMetricsServiceRequest.FromString(body)
        for resource in request.resource_metrics:
            self._take_resource(resource.resource)
            self.metrics |= {metric.name: metric for scope in resource.scope_metrics for metric in scope.metrics}

    def _take_resource(self, resource: Any) -> None:
        self.services |= {each.value.string_value for each in resource.attributes if each.key == "service.name"}

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
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "500")
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


def test_a_service_exports_its_work_and_its_series(tmp_path: Path, patient: None, collector: Collector) -> None:
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
    service = Service(chosen)
    service.start()
    try:
        labelled = {"type": "labelled", "model": "churn", "version": "1", "p": 0.5, "y": 1}
        events = [{**labelled, "id": str(at), "ts": f"2026-11-20T10:{at:02}:00Z"} for at in range(20)]
        request(service, "/v1/events", events, traceparent=f"00-{TRACE}-{CALLER}-01")
        eventually(lambda: [each for each in collector.named("checkpoint") if attributes(each)["rows"] > 0])
        eventually(lambda: collector.named("evaluation"))
        eventually(lambda: "calibration_events_total" in collector.metrics)
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
    # What was last exported is what Prometheus would read.
    with_rows = collector.metrics["calibration_events_total"]
    assert with_rows.sum.is_monotonic
    points = {tuple(sorted(attributes(point).items())): point.as_double for point in with_rows.sum.data_points}
    assert sum(points.values()) == 20
    assert "process_resident_memory_bytes" in collector.metrics
    with span("after the end") as current:
        current.set_attribute("is", "not exported")
    assert not collector.named("after the end")


def test_every_series_is_exported_with_its_labels_and_value(collector: Collector) -> None:
    text = (
        '# HELP a_total Counts.\n# TYPE a_total counter\na_total{model="x"} 3.0\n'
        '# HELP b Holds.\n# TYPE b gauge\nb{w="1h"} NaN\nb{w="6h"} -0.5\n'
    )
    made = make_telemetry(
        {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "OTEL_METRIC_EXPORT_INTERVAL": "60000"},
        lambda: (text.encode(), ""),
    )
    assert made is not None
    made.start()
    made.stop(PATIENCE_SECONDS)
    assert set(collector.metrics) == {
        family.name + "_total" * (family.type == "counter") for family in text_string_to_metric_families(text)
    }
    assert collector.metrics["a_total"].sum.data_points[0].as_double == 3.0
    values = {attributes(point)["w"]: point.as_double for point in collector.metrics["b"].gauge.data_points}
    assert values["6h"] == -0.5
    assert values["1h"] != values["1h"]


def test_a_span_keeps_the_error_that_passed_it(collector: Collector) -> None:
    made = make_telemetry({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{collector.url}/v1/traces"}, lambda: (b"", ""))
    assert made is not None
    made.start()
    with pytest.raises(ZeroDivisionError), span("outer", model=None), span("inner", model="churn"):
        raise ZeroDivisionError
    made.stop(PATIENCE_SECONDS)
    ((inner,), (outer,)) = collector.named("inner"), collector.named("outer")
    assert inner.parent_span_id == outer.span_id
    assert inner.events[0].name == "exception"
    assert (attributes(inner), attributes(outer)) == ({"model": "churn"}, {})
    assert collector.metrics == {}


@pytest.mark.parametrize(
    ("environ", "signals"),
    [
        ({}, set()),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c"}, {"traces", "metrics"}),
        ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://c"}, {"metrics"}),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_TRACES_EXPORTER": "none"}, {"metrics"}),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_SDK_DISABLED": "true"}, set()),
    ],
)
def test_the_environment_says_what_is_exported(environ: dict[str, str], signals: set[str]) -> None:
    assert wanted_signals(environ) == signals


def test_what_cannot_be_exported_is_said_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_METRIC_EXPORT_INTERVAL": "often"}
    with pytest.raises(SettingsError, match="OTEL_METRIC_EXPORT_INTERVAL must be milliseconds, got 'often'"):
        make_telemetry(environ, lambda: (b"", ""))
    monkeypatch.setattr(telemetry, "find_spec", lambda _: None)
    with pytest.raises(SettingsError, match=r"pip install 'calibration-monitor\[otel\]'"):
        make_telemetry(environ, lambda: (b"", ""))
    assert make_telemetry({}, lambda: (b"", "")) is None


def test_a_collector_that_is_away_delays_neither_work_nor_end() -> None:
    (port,) = free_ports(1)
    made = make_telemetry({"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}"}, lambda: (b"a 1.0\n", ""))
    assert made is not None
    made.start()
    with span("work"):
        pass
    began = time.monotonic()
    made.stop(0.2)
    assert time.monotonic() - began < 5.0  # the SDK alone would try for 10 s and more
