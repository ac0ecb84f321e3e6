"""Exports spans by OTLP over HTTP."""

import threading
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from monitor.tracing import traced_by
from monitor.version import VERSION


class TraceExport:
    """Exports spans in a thread of its own. A collector that does not answer delays nothing; what it misses is lost.

    Endpoints, headers, certificates, sampling and time-outs are those of OpenTelemetry's environment variables, which
    its SDK reads itself.

    Parameters
    ----------
    environ
        The environment.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        name = environ.get("OTEL_SERVICE_NAME", "calibration-monitor")
        resource = Resource.create({"service.name": name, "service.version": VERSION})
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._installed = ExitStack()

    def start(self) -> None:
        """Start exporting."""
        self._installed.enter_context(traced_by(_Spans(self._provider)))

    def stop(self, seconds: float) -> None:
        """Export what is left, for that long at most."""
        self._installed.close()
        # The SDK tries for half a minute where no collector answers.
        closing = threading.Thread(target=self._provider.shutdown, name="otlp close", daemon=True)
        closing.start()
        closing.join(seconds)


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
