"""What GET /metrics tells: the settings of the exposition."""

from typing import Literal

from monitor.app.settings.section import Positive, Section


class ExpositionSettings(Section):
    """What GET /metrics tells of windows."""

    level: Literal["auto", "values", "intervals", "all"] = "auto"
    """How much is told of each window. `values`: counts, the values of the measures, the verdict and the diagnosis, and
    whatever alerts read; `intervals`: also the intervals, levels under calibration, p-values and error bounds of all
    measures; `all`: also reliability diagrams. docs/series.md says of each series from which level on it is there.
    `auto` is `all` for up to 50 models and `values` for more, and `all` again once they are 40 or fewer."""
    bins: bool = True
    """Whether each window's reliability diagram is told at the level `all`, as counts of ten bins: up to 30 time series
    a window, half as much again as its measures take. Without them dashboards have no reliability diagrams."""
    max_series: Positive = 150_000
    """Time series about windows in one answer. Beyond them windows are left out whole and counted, those of segments
    first."""
