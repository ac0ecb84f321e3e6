"""Traces to a collector of OpenTelemetry, as its standard environment variables say."""

import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack
from importlib.util import find_spec
from typing import Any

from monitor.errors import SettingsError
from monitor.tracing import Span, traced_by
from monitor.version import VERSION


def exports_traces(environ: Mapping[str, str]) -> bool:
    """Whether traces are exported: they have an endpoint, and are not turned off."""
    endpoint = environ.get("OTEL_EXPORTER_OTLP_ENDPOINT") or environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
    is_off = environ.get("OTEL_SDK_DISABLED", "").lower() == "true"
    return bool(endpoint) and not is_off and environ.get("OTEL_TRACES_EXPORTER", "otlp").lower() != "none"


def make_telemetry(environ: Mapping[str, str]) -> "TraceExport | None":
    """Make the exporter of traces; None if the environment names no endpoint.

    Raises
    ------
    SettingsError
        The libraries are not installed.
    """
    if not exports_traces(environ):
        return None
    if find_spec("opentelemetry.exporter") is None or find_spec("opentelemetry.sdk") is None:
        raise SettingsError(
            "an endpoint of OpenTelemetry is set (OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT), "
            "but its libraries are not installed; install the extra: pip install 'calibration-monitor[otel]', or unset "
            "the variable"
        )
    return TraceExport(environ)


class TraceExport:
    """Exports spans by OTLP over HTTP, in a thread of its own.

    A collector that does not answer delays nothing; what it misses is lost. Endpoints, headers, certificates, sampling
    and time-outs are those of OpenTelemetry's environment variables, which its SDK reads itself.

    Parameters
    ----------
    environ
        The environment.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        # An extra.
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
        from opentelemetry.trace.propagation import tracecontext  # noqa: PLC0415

        name = environ.get("OTEL_SERVICE_NAME", "calibration-monitor")
        resource = Resource.create({"service.name": name, "service.version": VERSION})
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("calibration-monitor", VERSION)
        self._propagator = tracecontext.TraceContextTextMapPropagator()
        self._installed = ExitStack()

    def start(self) -> None:
        """Start exporting."""
        self._installed.enter_context(traced_by(self._span))

    def stop(self, seconds: float) -> None:
        """Export what is left, for that long at most."""
        self._installed.close()
        # The SDK tries for half a minute where no collector answers.
        closing = threading.Thread(target=self._provider.shutdown, name="otlp close", daemon=True)
        closing.start()
        closing.join(seconds)

    def _span(
        self, name: str, parent: Mapping[str, str], attributes: Mapping[str, Any]
    ) -> AbstractContextManager[Span]:
        known = {key: value for key, value in attributes.items() if value is not None}
        context = self._propagator.extract(parent) if parent else None
        return self._tracer.start_as_current_span(name, context, attributes=known)
