"""The series of GET /metrics as metrics of OpenTelemetry."""

from typing import Any

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from prometheus_client.parser import text_string_to_metric_families

from monitor.version import VERSION


def to_otlp(text: str, resource: Resource, started_ns: int, now_ns: int) -> MetricsData:
    """The series of the Prometheus text format; names, labels and values stay the same.

    Parameters
    ----------
    text
        The body of GET /metrics.
    resource
        What exports them.
    started_ns, now_ns
        Since when counters count, and now: nanoseconds since the epoch.
    """
    metrics = [_metric(family, started_ns, now_ns) for family in text_string_to_metric_families(text)]
    scope = ScopeMetrics(InstrumentationScope("calibration-monitor", VERSION), metrics, "")
    return MetricsData([ResourceMetrics(resource, [scope], "")])


def _metric(family: Any, started_ns: int, now_ns: int) -> Metric:
    """A counter or a gauge: there are no other series."""
    points = [NumberDataPoint(sample.labels, started_ns, now_ns, sample.value) for sample in family.samples]
    if family.type == "counter":
        # The parser takes the ending off its name.
        name = f"{family.name}_total"
        return Metric(name, family.documentation, "", Sum(points, AggregationTemporality.CUMULATIVE, is_monotonic=True))
    return Metric(family.name, family.documentation, "", Gauge(points))
