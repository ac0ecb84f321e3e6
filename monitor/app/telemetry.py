"""Traces and metrics to a collector of OpenTelemetry, as its standard environment variables say."""

import importlib
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Final, Protocol

from monitor.errors import SettingsError

_EVERYTHING: Final = "OTEL_EXPORTER_OTLP_ENDPOINT"
_SIGNALS: Final = ("traces", "metrics")


class Telemetry(Protocol):
    """What exports; started and stopped with the service."""

    def start(self) -> None:
        """Start exporting."""
        ...

    def stop(self, seconds: float) -> None:
        """Export what is left, for that long at most."""
        ...


def wanted_signals(environ: Mapping[str, str]) -> frozenset[str]:
    """Return which of ``traces`` and ``metrics`` are exported: those with an endpoint, unless they are turned off."""
    if environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return frozenset()
    return frozenset(
        signal
        for signal in _SIGNALS
        if (environ.get(_EVERYTHING) or environ.get(f"OTEL_EXPORTER_OTLP_{signal.upper()}_ENDPOINT"))
        and environ.get(f"OTEL_{signal.upper()}_EXPORTER", "otlp").lower() != "none"
    )


def make_telemetry(environ: Mapping[str, str], metrics: Callable[[], tuple[bytes, str]]) -> Telemetry | None:
    """Make what exports traces and metrics; None if no endpoint is named.

    Parameters
    ----------
    environ
        The environment: ``OTEL_EXPORTER_OTLP_ENDPOINT`` and other variables of OpenTelemetry.
    metrics
        Body and content type of GET /metrics.

    Raises
    ------
    SettingsError
        The libraries are not installed, or a variable is wrong.
    """
    signals = wanted_signals(environ)
    if not signals:
        return None
    if find_spec("opentelemetry.exporter") is None or find_spec("opentelemetry.sdk") is None:
        raise SettingsError(
            "OTEL_EXPORTER_OTLP_ENDPOINT is set, but OpenTelemetry is not installed; install the extra: "
            "pip install 'calibration-monitor[otel]', or unset the variable"
        )
    # It loads the libraries of the extra.
    made: Telemetry = importlib.import_module("monitor.app.otlp_export").OtlpExport(environ, signals, metrics)
    return made
