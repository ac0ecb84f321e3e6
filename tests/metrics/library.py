"""The families of an exposition as prometheus_client holds them: the oracle of the text that we write ourselves."""

from collections.abc import Iterator

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.parser import text_string_to_metric_families

from monitor.metrics.exposition import Exposition
from monitor.metrics.series import Family, Rows, WrittenFamily


class ExpositionCollector:
    """A collector for the library's registries."""

    def __init__(self, exposition: Exposition, *, process: bool = True) -> None:
        self._exposition = exposition
        self._process = process

    def collect(self) -> Iterator[Metric]:
        for family in self._exposition.families():
            yield to_metric(family)
        if self._process:
            yield from self._exposition.process.collect()


def to_metric(family: Family | WrittenFamily) -> Metric:
    """The family as prometheus_client's registries hold it."""
    series = family.series
    if isinstance(family, WrittenFamily):
        family = Family(series, _parsed(family))
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


def _parsed(family: WrittenFamily) -> Rows:
    """The rows of lines, as the library reads them."""
    return [
        (tuple(sample.labels[name] for name in family.series.labels), sample.value)
        for metric in text_string_to_metric_families("".join(family.text))
        for sample in metric.samples
    ]
