"""Traces to a collector of OpenTelemetry, as its standard environment variables say."""

import importlib
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING

from monitor.errors import SettingsError

if TYPE_CHECKING:  # it loads the libraries of the extra
    from monitor.app.trace_export import TraceExport


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
    made: TraceExport = importlib.import_module("monitor.app.trace_export").TraceExport(environ)
    return made
