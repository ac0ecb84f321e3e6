"""The body of GET /metrics: all series in the text format or in OpenMetrics.

prometheus_client renders one sample in about 5 microseconds, most of them spent on escaping label names and values
anew. The windows of a thousand series are some 60,000 samples that share a thousand sets of labels, so the samples
are written here, one set of labels at a time. The tests compare the output with the library's, byte for byte.
"""

import platform
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Final

from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, CollectorRegistry, ProcessCollector
from prometheus_client import generate_latest as generate_text
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


class Exposition:
    """Everything that is exported. Any thread.

    Nothing is kept between scrapes, so a series whose model, version or segment is gone vanishes with it.

    Parameters
    ----------
    parts
        What is exported besides the build and the process.
    """

    def __init__(self, parts: Sequence[Families]) -> None:
        self._parts = parts
        self.process = CollectorRegistry()
        """prometheus_client's own series of the process."""
        ProcessCollector(registry=self.process)

    def render(self, openmetrics: bool = False) -> tuple[bytes, str]:
        """The body and its content type: the text format 0.0.4, or OpenMetrics 1.0.0."""
        body = write_families(self.families(), openmetrics=openmetrics).encode()
        if openmetrics:
            return body + _generate_openmetrics(self.process), CONTENT_TYPE_OPENMETRICS
        return body + generate_text(self.process), CONTENT_TYPE_PLAIN_0_0_4

    def families(self) -> Iterator[Family]:
        """All families but those of the process."""
        for part in self._parts:
            yield from part()
        yield from read_families([BUILD_INFO], [((), None)])


def write_families(families: Iterable[Family], *, openmetrics: bool) -> str:
    """The families in the Prometheus text format 0.0.4, or in OpenMetrics 1.0.0 without its closing ``# EOF``."""
    lines: list[str] = []
    texts_by_names: dict[Labels, dict[Labels, str]] = {}
    escape_once = cache(_escape)
    for series, rows in families:
        lines.append(_head(series.name, series.kind, series.meaning, series.unit_in_name, openmetrics=openmetrics))
        name, texts = series.name, texts_by_names.setdefault(series.labels, {})
        # The library sorts labels by name.
        order = sorted(range(len(series.labels)), key=series.labels.__getitem__)
        template = "{" + ",".join(f'{series.labels[at]}="%s"' for at in order) + "}" if order else ""
        for labels, value in rows:
            text = texts.get(labels)
            if text is None:
                text = texts[labels] = template % tuple([escape_once(labels[at]) for at in order])
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


def _escape(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
