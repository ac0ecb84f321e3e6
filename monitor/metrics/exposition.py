"""GET /metrics: all series in the format that the scraper accepts.

prometheus_client renders one sample in about 5 microseconds, most of them spent on escaping label names and values
anew. The windows of a thousand series are some 60,000 samples that share a thousand sets of labels, so the samples
are written here, one set of labels at a time. The tests compare the output with the library's, byte for byte.
"""

import platform
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, CollectorRegistry, ProcessCollector
from prometheus_client import generate_latest as generate_text
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST as CONTENT_TYPE_OPENMETRICS
from prometheus_client.openmetrics.exposition import generate_latest as _untyped_openmetrics
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from monitor.metrics.series import Families, Family, Labels, Series, read_families
from monitor.scores.grid import GRID_VERSION
from monitor.version import VERSION

BUILD_INFO: Final = Series[None](
    "calibration_build_info",
    "Version of the service, of the grid on which its tables merge, and of Python. Always 1.",
    lambda _: [((VERSION, str(GRID_VERSION), platform.python_version()), 1)],
    ("version", "grid_version", "python_version"),
)

_PLAIN_BELOW: Final = 1e6
"""Numbers of at least this are written with an exponent."""

_generate_openmetrics: Callable[[Collector], bytes] = _untyped_openmetrics
_with_exponent: Callable[[float], str] = floatToGoString


class Exposition(Collector):
    """Everything that is exported. It is also a collector, which any registry of prometheus_client can hold.

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
        """The families as prometheus_client's registries hold them."""
        for family in self._families():
            yield to_metric(family)
        yield from self._process.collect()

    def render(self, accept: str | None = None) -> tuple[bytes, str]:
        """The body and its content type: OpenMetrics 1.0.0 where the Accept header prefers it, else the text format."""
        openmetrics = _prefers_openmetrics(accept or "")
        body = write_families(self._families(), openmetrics=openmetrics).encode()
        if openmetrics:
            return body + _generate_openmetrics(self._process), CONTENT_TYPE_OPENMETRICS
        return body + generate_text(self._process), CONTENT_TYPE_PLAIN_0_0_4

    def _families(self) -> Iterator[Family]:
        for part in self._parts:
            yield from part()
        yield from read_families([BUILD_INFO], [((), None)])


def _prefers_openmetrics(accept: str) -> bool:
    """Whether the Accept header gives OpenMetrics a weight above 0 and no lower than plain text.

    prometheus_client's ``choose_encoder`` ignores the weights, and raises TypeError for a version such as ``abc``.
    """
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


def to_metric(family: Family) -> Metric:
    """The family as prometheus_client's registries hold it."""
    series = family.series
    if series.kind == "info":
        info = InfoMetricFamily(series.name.removesuffix("_info"), series.meaning)
        for labels, _ in family.rows:
            info.add_metric((), dict(zip(series.labels, labels, strict=True)))
        return info
    kind = CounterMetricFamily if series.kind == "counter" else GaugeMetricFamily
    metric = kind(series.name, series.meaning, labels=series.labels, unit=series.unit_in_name)
    for labels, value in family.rows:
        metric.add_metric(labels, value)
    return metric


def write_families(families: Iterable[Family], *, openmetrics: bool) -> str:
    """The families in the Prometheus text format 0.0.4, or in OpenMetrics 1.0.0 without its closing ``# EOF``."""
    lines: list[str] = []
    texts_by_names: dict[Labels, dict[Labels, str]] = {}
    escaped = _Escaped()
    for series, rows in families:
        lines.append(_head(series.name, series.kind, series.meaning, series.unit_in_name, openmetrics=openmetrics))
        name, texts = series.name, texts_by_names.setdefault(series.labels, {})
        # The library sorts labels by name.
        order = sorted(range(len(series.labels)), key=series.labels.__getitem__)
        template = "{" + ",".join(f'{series.labels[at]}="%s"' for at in order) + "}" if order else ""
        for labels, value in rows:
            text = texts.get(labels)
            if text is None:
                text = texts[labels] = template % tuple([escaped[labels[at]] for at in order])
            number = repr(float(value)) if -_PLAIN_BELOW < value < _PLAIN_BELOW else _with_exponent(value)
            lines.append(f"{name}{text} {number}\n")
    return "".join(lines)


def _head(name: str, kind: str, meaning: str, unit: str, *, openmetrics: bool) -> str:
    if not openmetrics:
        meaning = meaning.replace("\\", r"\\").replace("\n", r"\n")
        return f"# HELP {name} {meaning}\n# TYPE {name} {'gauge' if kind == 'info' else kind}\n"
    name = name.removesuffix("_total").removesuffix("_info")
    head = f"# HELP {name} {_escape(meaning)}\n# TYPE {name} {kind}\n"
    return f"{head}# UNIT {name} {unit}\n" if unit else head


class _Escaped(dict[str, str]):
    """Escaped label values; each is escaped once."""

    def __missing__(self, text: str) -> str:
        escaped = self[text] = _escape(text)
        return escaped


def _escape(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
