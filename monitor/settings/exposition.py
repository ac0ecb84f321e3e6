"""What GET /metrics tells: the settings of the exposition."""

from monitor.settings.section import Positive, Section


class ExpositionSettings(Section):
    """What GET /metrics tells of windows."""

    bins: bool = True
    """Whether each window's reliability diagram is told too, as counts of ten bins: up to 30 time series a window, half
    as much again as its measures take. Without them dashboards have no reliability diagrams."""
    max_series: Positive = 150_000
    """Time series about windows in one answer. Beyond them windows are left out whole and counted, those of segments
    first."""
