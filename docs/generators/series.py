"""The list of all series, and the page that shows it: ``python -m docs.generators.series > docs/series.md``."""

import sys
from collections.abc import Iterable, Mapping
from typing import Any, Final

from monitor.measures import MEASURES
from monitor.measures.base import Measure
from monitor.metrics import alerts, evidence, refits, service, windows
from monitor.metrics.exposition import BUILD_INFO
from monitor.metrics.measures import CANONICAL, map_series, measure_series
from monitor.metrics.series import Series

_INTRODUCTION: Final = """\
# Prometheus series

Made by `python -m docs.generators.series > docs/series.md` from the declarations in `monitor/metrics` and those of
the measures. A series about a window is absent, and never 0, where there is no value. The measures that windows are
measured by are exported: `evaluation.measures` in the settings names them. Maps are measured by `brier` and `log_loss`
as well.

*level* says from which value of `exposition.level` on a series is exported: those of the level `values` always are,
those of `intervals` at that level and at `all`, those of `all` there alone. `values` is the default: what the alerts
and the dashboards of all models and of the service read.

Each model is exported by one replica, windows, refits and maps alike, over the events of all partitions: sum and
maximum over replicas are the same. Series of the pipeline are of the partitions that a replica reads, and are summed.
"""


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
        "Windows": (*windows.WINDOWS, windows.WATERMARK, windows.SETTLED),
        "Reliability diagrams": windows.RELIABILITY,
        "Coverage by age": windows.COVERAGE,
        "Evaluation and exposition": windows.EVALUATION,
        "Recalibration": (*refits.CHAMPIONS, *refits.MAPS, *refits.EVALUATION, *refits.REFITS),
        "Measures of raw and recalibrated scores": map_series(measures),
        "Sequential evidence": evidence.EVIDENCE,
        "Alerts": (*alerts.ALERTS, *alerts.OPEN_ALERTS, *alerts.WEBHOOKS),
        "Pipeline": (*service.PIPELINE, *service.BACKLOG),
        "HTTP": service.HTTP,
        "Replica": (service.ROLE,),
        "Process": (BUILD_INFO, *_PROCESS),
    }


def catalogue(measures: Iterable[Measure]) -> tuple[Series[Any], ...]:
    """Every series that the service exports."""
    return tuple(series for listed in sections(measures).values() for series in listed)


def to_markdown(measures: Iterable[Measure]) -> str:
    """The page as Markdown."""
    parts = [_INTRODUCTION]
    for title, listed in sections(measures).items():
        parts += [f"## {title}\n", "| series | kind | labels | unit | level | meaning |\n|---|---|---|---|---|---|"]
        parts += [
            f"| `{series.name}` | {series.kind} | {', '.join(f'`{label}`' for label in series.labels)} "
            f"| {series.unit} | {series.level.name.lower()} | {series.meaning} |"
            for series in listed
        ]
        parts.append("")
    return "\n".join(parts)


if __name__ == "__main__":
    sys.stdout.write(to_markdown(MEASURES.values()))
