"""Samples as lines of text, in the form that the Prometheus text format and OpenMetrics have in common."""

from collections.abc import Callable, Iterable
from typing import Final

from prometheus_client.utils import floatToGoString

from monitor.metrics.series import Labels, Rows, Series

_PLAIN_BELOW: Final = 1e6
"""Numbers of at least this are written with an exponent."""

_with_exponent: Callable[[float], str] = floatToGoString


class SampleWriter:
    """Writes samples. Sets of labels that series share are escaped once, so use one for a whole answer or model."""

    def __init__(self) -> None:
        self._texts_by_names: dict[Labels, dict[Labels, str]] = {}

    def write(self, series: Series[object], rows: Rows) -> Iterable[str]:
        """One line for each row."""
        texts = self._texts_by_names.setdefault(series.labels, {})
        # The library sorts labels by name.
        order = sorted(range(len(series.labels)), key=series.labels.__getitem__)
        template = "{" + ",".join(f'{series.labels[at]}="%s"' for at in order) + "}" if order else ""
        for labels, value in rows:
            text = texts.get(labels)
            if text is None:
                text = texts[labels] = template % tuple([escape(labels[at]) for at in order])
            number = repr(float(value)) if -_PLAIN_BELOW < value < _PLAIN_BELOW else _with_exponent(value)
            yield f"{series.name}{text} {number}\n"


def escape(text: str) -> str:
    """Escape the value of a label, or a help text of OpenMetrics."""
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
