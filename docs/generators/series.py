"""Write the page that lists every series: ``python -m docs.generators.series > docs/series.md``."""

import sys
from collections.abc import Iterable
from typing import Final

from monitor.measures import MEASURES
from monitor.measures.base import Measure
from monitor.metrics.catalogue import sections

_INTRODUCTION: Final = """\
# Prometheus series

Made by `python -m docs.generators.series > docs/series.md` from the declarations in `monitor/metrics` and those of
the measures. A series about a window is absent, and never 0, where there is no value. The measures that windows are
measured by are exported: `evaluation.measures` in the settings names them. Maps are measured by `brier` and `log_loss`
as well.

*level* says from which value of `exposition.level` on a series is exported: those of the level `values` always are,
those of `intervals` at that level and at `all`, those of `all` there alone. By default everything is exported for up to
50 models, and `values` for more; back to everything once there are 40 or fewer. What the alerts and the dashboards of
all models and of the service read is of the level `values`. `calibration_exposition_level` says which is in force.

What is said of refits and maps is read from the store: each replica that holds events of a model says the same, so take
the maximum over replicas, and not the sum.
"""


def to_markdown(measures: Iterable[Measure]) -> str:
    """The page as Markdown."""
    parts = [_INTRODUCTION]
    for title, listed in sections(measures).items():
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
