"""The list of all series, by the sections of docs/series.md."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from monitor.measures.base import Measure
from monitor.metrics import http, pipeline, refits, windows
from monitor.metrics.exposition import BUILD_INFO
from monitor.metrics.measures import CANONICAL, map_series, measure_series
from monitor.metrics.series import Series

# prometheus_client exports these, on Linux, under the names that every Prometheus client gives them.
_PROCESS: Final = tuple(
    Series[None](f"process_{name}", meaning, lambda _: None)
    for name, meaning in (
        ("virtual_memory_bytes", "Virtual memory size."),
        ("resident_memory_bytes", "Resident memory size."),
        ("start_time_seconds", "Start time, seconds since the epoch."),
        ("cpu_seconds_total", "User and system CPU time spent."),
        ("open_fds", "Number of open file descriptors."),
        ("max_fds", "Maximum number of open file descriptors."),
    )
)


def sections(measures: Iterable[Measure]) -> Mapping[str, tuple[Series[Any], ...]]:
    """Every series that the service exports, by the title of its section."""
    measures = tuple(measures)
    return {
        "Measures": measure_series(measures),
        "Whole probability vectors": CANONICAL,
        "Diagnosis": windows.DIAGNOSIS,
        "Windows": (*windows.WINDOWS, windows.WATERMARK),
        "Reliability diagrams": windows.RELIABILITY,
        "Coverage by age": windows.COVERAGE,
        "Evaluation and exposition": windows.EVALUATION,
        "Recalibration": (*refits.CHAMPIONS, *refits.MAPS, *refits.EVALUATION, *refits.REFITS),
        "Measures of raw and recalibrated scores": map_series(measures),
        "Pipeline": (*pipeline.PIPELINE, *pipeline.BACKLOG),
        "HTTP": (*http.TRAFFIC, *http.REFUSALS),
        "Process": (BUILD_INFO, *_PROCESS),
    }


def catalogue(measures: Iterable[Measure]) -> tuple[Series[Any], ...]:
    """Every series that the service exports."""
    return tuple(series for listed in sections(measures).values() for series in listed)
