"""A series with its values, and the two text formats in which Prometheus reads it.

prometheus_client renders one sample in about 5 microseconds, most of them spent on escaping label names and values
anew. The windows of a thousand series are some 60,000 samples that share a thousand sets of labels, so these formats
are written here, one set of labels at a time. The tests hold the output to be the library's, byte for byte.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.utils import floatToGoString

from monitor.metrics.series import Series

Labels = tuple[str, ...]
"""Label values, in the order of the series' label names."""

_PLAIN_BELOW: Final = 1e6
"""Numbers of at least this are written with an exponent."""

_with_exponent: Callable[[float], str] = floatToGoString


class Family(NamedTuple):
    """A series and its values: one a distinct set of labels."""

    series: Series
    rows: Sequence[tuple[Labels, float]]


def to_metric(family: Family) -> Metric:
    """The family as prometheus_client's registries know it."""
    series = family.series
    if series.kind == "info":
        info = InfoMetricFamily(series.name.removesuffix("_info"), series.meaning)
        for labels, _ in family.rows:
            info.add_metric((), dict(zip(series.labels, labels, strict=True)))
        return info
    kind = CounterMetricFamily if series.kind == "counter" else GaugeMetricFamily
    metric = kind(series.name, series.meaning, labels=series.labels, unit=_openmetrics_unit(series))
    for labels, value in family.rows:
        metric.add_metric(labels, value)
    return metric


def write_families(families: Iterable[Family], *, openmetrics: bool) -> str:
    """The families in the Prometheus text format 0.0.4, or in OpenMetrics 1.0.0 without its closing ``# EOF``."""
    lines: list[str] = []
    known: dict[Labels, dict[Labels, str]] = {}
    escaped = _Escaped()
    for series, rows in families:
        lines.append(_head(series, openmetrics=openmetrics))
        name, texts = series.name, known.setdefault(series.labels, {})
        order, template = _label_template(series.labels)
        for labels, value in rows:
            text = texts.get(labels)
            if text is None:
                text = texts[labels] = template % tuple([escaped[labels[at]] for at in order])
            number = repr(float(value)) if -_PLAIN_BELOW < value < _PLAIN_BELOW else _with_exponent(value)
            lines.append(f"{name}{text} {number}\n")
    return "".join(lines)


def _head(series: Series, *, openmetrics: bool) -> str:
    name, kind = series.name, series.kind
    if not openmetrics:
        meaning = series.meaning.replace("\\", r"\\").replace("\n", r"\n")
        return f"# HELP {name} {meaning}\n# TYPE {name} {'gauge' if kind == 'info' else kind}\n"
    name = name.removesuffix("_total").removesuffix("_info")
    head = f"# HELP {name} {_escape(series.meaning)}\n# TYPE {name} {kind}\n"
    unit = _openmetrics_unit(series)
    return f"{head}# UNIT {name} {unit}\n" if unit else head


def _openmetrics_unit(series: Series) -> str:
    """The unit where OpenMetrics allows it to be declared: as the last part of the name."""
    return series.unit if series.unit and series.name.removesuffix("_total").endswith(f"_{series.unit}") else ""


def _label_template(names: Labels) -> tuple[Sequence[int], str]:
    """In which order label values are to be put into which text: the library sorts labels by name."""
    order = sorted(range(len(names)), key=names.__getitem__)
    return order, "{" + ",".join(f'{names[at]}="%s"' for at in order) + "}" if names else ""


class _Escaped(dict[str, str]):
    """Texts with what the format has other uses for escaped; each is looked through once."""

    def __missing__(self, text: str) -> str:
        found = self[text] = _escape(text)
        return found


def _escape(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
