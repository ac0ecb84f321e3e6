"""Exports spans and series by OTLP over HTTP."""

import threading
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from typing import Any, Final

import structlog
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from monitor.errors import SettingsError
from monitor.metrics.otlp import to_otlp
from monitor.tracing import traced_by
from monitor.version import VERSION

_INTERVAL: Final = "OTEL_METRIC_EXPORT_INTERVAL"
_DEFAULT_INTERVAL_MS: Final = "60000"

_log = structlog.get_logger(__name__)


class OtlpExport:
    """Exports in threads of its own. A collector that does not answer delays nothing; what it misses is lost.

    Endpoints, headers, certificates, sampling and time-outs are those of OpenTelemetry's environment variables, which
    its SDK reads itself.

    Parameters
    ----------
    environ
        The environment.
    signals
        What is exported: ``traces``, ``metrics``.
    metrics
        Body and content type of GET /metrics.

    Raises
    ------
    SettingsError
        A variable is wrong.
    """

    def __init__(
        self, environ: Mapping[str, str], signals: Collection[str], metrics: Callable[[], tuple[bytes, str]]
    ) -> None:
        try:
            self._interval_seconds = int(environ.get(_INTERVAL, _DEFAULT_INTERVAL_MS)) / 1000
        except ValueError:
            raise SettingsError(f"{_INTERVAL} must be milliseconds, got {environ[_INTERVAL]!r}") from None
        self._metrics = metrics
        self._resource = Resource.create(
            {"service.name": environ.get("OTEL_SERVICE_NAME", "calibration-monitor"), "service.version": VERSION}
        )
        self._started_ns = time.time_ns()
        self._stopping = threading.Event()
        self._installed = ExitStack()
        self._provider: TracerProvider | None = None
        if "traces" in signals:
            self._provider = TracerProvider(resource=self._resource, shutdown_on_exit=False)
            self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._exporter = OTLPMetricExporter() if "metrics" in signals else None
        self._thread = threading.Thread(target=self._export_metrics, name="otlp metrics", daemon=True)

    def start(self) -> None:
        """Start exporting."""
        if self._provider is not None:
            self._installed.enter_context(traced_by(_Spans(self._provider)))
        if self._exporter is not None:
            self._thread.start()

    def stop(self, seconds: float) -> None:
        """Export what is left, for that long at most."""
        self._installed.close()
        self._stopping.set()
        # The SDK tries for half a minute where no collector answers.
        closing = threading.Thread(target=self._close, name="otlp close", daemon=True)
        closing.start()
        closing.join(seconds)

    def _close(self) -> None:
        if self._provider is not None:
            self._provider.shutdown()
        if self._exporter is not None:
            if self._thread.ident is not None:
                self._thread.join()
            self._exporter.shutdown()

    def _export_metrics(self) -> None:
        while not self._stopping.wait(self._interval_seconds):
            self._export_once()
        self._export_once()

    def _export_once(self) -> None:
        assert self._exporter is not None  # noqa: S101 - the thread runs with one
        try:
            data = to_otlp(self._metrics()[0].decode(), self._resource, self._started_ns, time.time_ns())
            self._exporter.export(data)  # it logs by itself what the collector does not take
        except Exception:  # noqa: BLE001 - logged; the next export tries again
            _log.exception("metrics could not be exported")


class _Spans:
    """See :class:`monitor.tracing.Tracer`."""

    def __init__(self, provider: TracerProvider) -> None:
        self._tracer = provider.get_tracer("calibration-monitor", VERSION)
        self._propagator = TraceContextTextMapPropagator()

    def span(self, name: str, parent: Mapping[str, str], attributes: Mapping[str, Any]) -> Any:
        """Return a context manager of a span."""
        known = {key: value for key, value in attributes.items() if value is not None}
        context = self._propagator.extract(parent) if parent else None
        return self._tracer.start_as_current_span(name, context, attributes=known)
