"""GET /metrics: all series in the format that the scraper asks for."""

import platform
from collections.abc import Callable, Iterable, Iterator, Sequence

from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client import generate_latest as generate_text
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST as CONTENT_TYPE_OPENMETRICS
from prometheus_client.openmetrics.exposition import generate_latest as generate_untyped
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector, CollectorRegistry

from monitor.metrics import series
from monitor.metrics.family import Family, to_metric, write_families
from monitor.scores.grid import GRID_VERSION
from monitor.version import VERSION

Families = Callable[[], Iterable[Family]]
"""One part of the exposition; called anew at each scrape. Its series are declared in series.py and its like."""

_generate_openmetrics: Callable[[Collector], bytes] = generate_untyped


class Exposition(Collector):
    """Everything that is exported. Also a collector, for whoever keeps a registry of their own.

    Nothing is kept between scrapes, so a series whose model, version or segment is gone vanishes with it. May be
    called from any thread.

    Parameters
    ----------
    parts
        What is exported besides the build and the process.
    """

    def __init__(self, parts: Sequence[Families]) -> None:
        self._parts = parts
        self._process = CollectorRegistry()
        ProcessCollector(registry=self._process)

    def collect(self) -> Iterator[Metric]:
        """The families as prometheus_client knows them."""
        for family in self._families():
            yield to_metric(family)
        yield from self._process.collect()

    def render(self, accept: str | None = None) -> tuple[bytes, str]:
        """The body and its content type.

        Parameters
        ----------
        accept
            The request's Accept header. OpenMetrics 1.0.0 where it is preferred, else the Prometheus text format.
        """
        openmetrics = _prefers_openmetrics(accept or "")
        body = write_families(self._families(), openmetrics=openmetrics).encode()
        if openmetrics:
            return body + _generate_openmetrics(self._process), CONTENT_TYPE_OPENMETRICS
        return body + generate_text(self._process), CONTENT_TYPE_PLAIN_0_0_4

    def _families(self) -> Iterator[Family]:
        for part in self._parts:
            yield from part()
        yield Family(series.BUILD_INFO, [((VERSION, str(GRID_VERSION), platform.python_version()), 1)])


def _prefers_openmetrics(accept: str) -> bool:
    """Whether the Accept header names OpenMetrics, and no plain text that it likes better."""
    weights = {"application/openmetrics-text": 0.0, "text/plain": 0.0}
    for choice in accept.split(","):
        media, *parameters = (part.strip().lower() for part in choice.split(";"))
        if media in weights:
            weights[media] = max(weights[media], _weight(parameters))
    return 0.0 < weights["application/openmetrics-text"] >= weights["text/plain"]


def _weight(parameters: Iterable[str]) -> float:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            try:
                return float(value)
            except ValueError:
                return 0.0
    return 1.0
