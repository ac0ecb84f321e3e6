"""A series of /metrics: its name, meaning and reader, from which level on it is exported, and its samples as text."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final, Generic, Literal, NamedTuple, TypeVar

from prometheus_client.utils import floatToGoString

T = TypeVar("T")

Labels = tuple[str, ...]
"""Label values, in the order of the series' label names."""

Rows = list[tuple[Labels, float]]
Value = float | None | Rows
"""A number; None where the series is absent; or one number for each value of further labels."""

REPORT_LABELS: Final = ("model", "version", "segment", "window")
VERSION_LABELS: Final = ("model", "version")

_UNITS: Final = frozenset({"ratio", "seconds", "bytes"})

_PLAIN_BELOW: Final = 1e6
"""Numbers of at least this are written with an exponent."""

_with_exponent: Callable[[float], str] = floatToGoString


class Level(IntEnum):
    """What is exported of each window. Each level contains the one before."""

    VALUES = 0
    """Counts, values, the verdict, and whatever alerts and the tables of dashboards read."""
    INTERVALS = 1
    """Also intervals, levels under calibration, p-values and error bounds of all measures, and of maps."""
    ALL = 2
    """Also the bins of reliability diagrams."""


@dataclass(frozen=True)
class Series(Generic[T]):
    """One series as the documentation and GET /metrics show it.

    Attributes
    ----------
    name
        ``..._total`` is a counter, ``..._info`` always 1, anything else a gauge.
    meaning
        One sentence or two. It is also the HELP text.
    read
        Returns the value of what the series describes, such as a report or the status of the pipeline.
    labels
        Names of its labels.
    level
        Lowest level at which it is exported.
    is_ratio
        Whether it is a share although its name does not end in ``_ratio``.
    """

    name: str
    meaning: str
    read: Callable[[T], Value]
    labels: Labels = ()
    level: Level = Level.VALUES
    is_ratio: bool = False

    @property
    def kind(self) -> Literal["gauge", "counter", "info"]:
        """The type as Prometheus names it."""
        if self.name.endswith("_total"):
            return "counter"
        return "info" if self.name.endswith("_info") else "gauge"

    @property
    def unit_in_name(self) -> str:
        """The unit that the name ends in, which is the only one that OpenMetrics allows; or empty."""
        last = self.name.removesuffix("_total").rpartition("_")[2]
        return last if last in _UNITS else ""

    @property
    def unit(self) -> str:
        """``ratio``, ``seconds``, ``bytes``, or empty for a count or a number without unit."""
        return self.unit_in_name or ("ratio" if self.is_ratio else "")


class Family(NamedTuple):
    """A series and its values: one for each distinct set of labels."""

    series: Series[Any]
    rows: Rows


class WrittenFamily(NamedTuple):
    """A series and its samples as text, which an earlier scrape may have written: see :class:`SampleWriter`."""

    series: Series[Any]
    text: Sequence[str]


Families = Callable[[], Iterable[Family | WrittenFamily]]
"""Collects some of the families; called at each scrape."""


def read_families(group: Iterable[Series[T]], subjects: Sequence[tuple[Labels, T]]) -> Iterator[Family]:
    """Read a group of series from the same subjects, each with the values of its first labels."""
    for series in group:
        rows: Rows = []
        for labels, subject in subjects:
            value = series.read(subject)
            if isinstance(value, list):
                rows += [(labels + further, number) for further, number in value]
            elif value is not None:
                rows.append((labels, value))
        yield Family(series, rows)


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
