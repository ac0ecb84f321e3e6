"""Write the page that lists every series: ``python -m docs.generators.series > docs/series.md``."""

import sys
from collections.abc import Iterable
from typing import Final

from monitor.measures import MEASURES
from monitor.measures.base import Measure
from monitor.metrics.catalogue import CANONICAL, map_series, measure_series
from monitor.metrics.http_series import HTTP
from monitor.metrics.pipeline_series import PIPELINE
from monitor.metrics.refit_series import RECALIBRATION
from monitor.metrics.reliability_series import COVERAGE, RELIABILITY
from monitor.metrics.series import DIAGNOSIS, EVALUATION, PROCESS, WINDOWS

_INTRODUCTION: Final = """\
# Prometheus series

Made by `python -m docs.generators.series > docs/series.md` from `monitor/metrics/series.py`, `reliability_series.py`,
`pipeline_series.py`, `refit_series.py`, `http_series.py` and the measures' declarations. A series about a window is
absent, and never 0, where there is nothing to say. Of the measures, those are exported that windows are measured by:
`evaluation.measures` in the settings names them. Maps are measured by `brier` and `log_loss` besides.

*level* says from which value of `exposition.level` on a series is exported: those of the level `values` always are,
those of `intervals` at that level and at `all`, those of `all` there alone. By default everything is exported for up to
50 models, and `values` for more; back to everything once there are 40 or fewer. What the alerts and the dashboards of
all models and of the service read is of the level `values`. `calibration_exposition_level` says which is in force.

What is said of refits and maps is read from the store: each replica that holds events of a model says the same, so take
the maximum over replicas, and not the sum.
"""


def to_markdown(measures: Iterable[Measure]) -> str:
    """The page as Markdown."""
    measures = tuple(measures)
    parts = [_INTRODUCTION]
    sections = {
        "Measures": tuple(declaration.series for declaration in measure_series(measures)),
        "Whole probability vectors": tuple(declaration.series for declaration in CANONICAL),
        "Diagnosis": DIAGNOSIS,
        "Windows": WINDOWS,
        "Reliability diagrams": RELIABILITY,
        "Coverage by age": COVERAGE,
        "Evaluation and exposition": EVALUATION,
        "Recalibration": RECALIBRATION,
        "Measures of raw and recalibrated scores": tuple(declaration.series for declaration in map_series(measures)),
        "Pipeline": PIPELINE,
        "HTTP": HTTP,
        "Process": PROCESS,
    }
    for title, listed in sections.items():
        parts += [f"## {title}\n", "| series | kind | labels | unit | level | meaning |\n|---|---|---|---|---|---|"]
        parts += [
            f"| `{series.name}` | {series.kind} | {', '.join(f'`{label}`' for label in series.labels)} "
            f"| {series.unit} | {series.level.label} | {series.meaning} |"
            for series in listed
        ]
        parts.append("")
    return "\n".join(parts)


if __name__ == "__main__":
    sys.stdout.write(to_markdown(MEASURES.values()))
