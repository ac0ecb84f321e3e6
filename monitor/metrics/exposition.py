"""The body of GET /metrics: all series in the text format or in OpenMetrics.

prometheus_client renders one sample in about 5 microseconds, most of them spent on escaping label names and values
anew. A thousand series in four windows are some 120,000 samples that share 4,000 sets of labels, so the samples are
written here, each set of labels once, and those of a model are kept until its reports change. The tests compare the
output with the library's, byte for byte.
"""

import platform
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, CollectorRegistry, ProcessCollector
from prometheus_client import generate_latest as generate_text
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST as CONTENT_TYPE_OPENMETRICS
from prometheus_client.openmetrics.exposition import generate_latest as _untyped_openmetrics
from prometheus_client.registry import Collector

from monitor.metrics.series import Families, Family, SampleWriter, Series, WrittenFamily, escape, read_families
from monitor.scores.grid import GRID_VERSION
from monitor.version import VERSION

BUILD_INFO: Final = Series[None](
    "calibration_build_info",
    "Version of the service, of the grid on which its tables merge, and of Python. Always 1.",
    lambda _: [((VERSION, str(GRID_VERSION), platform.python_version()), 1)],
    ("version", "grid_version", "python_version"),
)

_generate_openmetrics: Callable[[Collector], bytes] = _untyped_openmetrics


class Exposition:
    """Everything that is exported. Any thread.

    A series whose model, version or segment is gone vanishes with it.

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

    def families(self) -> Iterator[Family | WrittenFamily]:
        """All families but those of the process."""
        for part in self._parts:
            yield from part()
        yield from read_families([BUILD_INFO], [((), None)])


def write_families(families: Iterable[Family | WrittenFamily], *, openmetrics: bool) -> str:
    """The families in the Prometheus text format 0.0.4, or in OpenMetrics 1.0.0 without its closing ``# EOF``."""
    lines: list[str] = []
    writer = SampleWriter()
    for family in families:
        series = family.series
        lines.append(_head(series.name, series.kind, series.meaning, series.unit_in_name, openmetrics=openmetrics))
        lines += family.text if isinstance(family, WrittenFamily) else writer.write(series, family.rows)
    return "".join(lines)


def _head(name: str, kind: str, meaning: str, unit: str, *, openmetrics: bool) -> str:
    if not openmetrics:
        meaning = meaning.replace("\\", r"\\").replace("\n", r"\n")
        return f"# HELP {name} {meaning}\n# TYPE {name} {'gauge' if kind == 'info' else kind}\n"
    name = name.removesuffix("_total").removesuffix("_info")
    head = f"# HELP {name} {escape(meaning)}\n# TYPE {name} {kind}\n"
    return f"{head}# UNIT {name} {unit}\n" if unit else head
