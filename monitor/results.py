"""Results for callers in Python: reports, comparisons and recalibrations that show, draw and save themselves."""

import abc
import io
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, overload

import pyarrow as pa
from rich.console import Console

from monitor.clock import SystemClock
from monitor.errors import NotEnoughData
from monitor.maps import RecalibrationMap
from monitor.maps.artifact import Artifact, from_bytes
from monitor.options import in_python
from monitor.recalibration.refit_file import Trial, artifact
from monitor.recalibration.refit_view import advice, print_advice, reasons_of, trial_rows, trial_view
from monitor.reports.evaluation.classes import ClassReport
from monitor.reports.evaluation.compare import ReportComparison
from monitor.reports.evaluation.counting import CountedRows
from monitor.reports.evaluation.files import SearchReport
from monitor.reports.evaluation.groups import Group, report_row, table_of
from monitor.reports.evaluation.local import LocalReport
from monitor.reports.evaluation.report import Report
from monitor.reports.evaluation.segments import SegmentReport
from monitor.reports.findings import Findings, GroupFindings, ReportOptions, add_picture_data
from monitor.reports.progress import patient_progress
from monitor.reports.report_view import (
    comparison_sentence,
    groups_view,
    report_view,
    search_sentences,
    segments_sentence,
)
from monitor.reports.view import View
from monitor.sources.tables import EventTable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDTH = 120
_NOTEBOOK_DPI = 90


class Result(abc.ABC):
    """A result: a notebook shows it, and it can be drawn, kept as a page, and read as JSON or as a table."""

    @classmethod
    def of(cls, base: Any, **more: Any) -> Self:
        """Extend a report, a comparison or a trial."""
        return cls(**{field.name: getattr(base, field.name) for field in fields(base)}, **more)

    @abc.abstractmethod
    def _view(self) -> View: ...

    @abc.abstractmethod
    def _page(self) -> bytes: ...

    @abc.abstractmethod
    def plot(self) -> "Figure":
        """Draw the result as a figure.

        Raises
        ------
        NotEnoughData
            There is nothing to draw.
        """

    @abc.abstractmethod
    def to_arrow(self) -> pa.Table:
        """Return the numbers as a table."""

    def to_pandas(self) -> Any:
        """Return :meth:`to_arrow` as a DataFrame of pandas.

        Raises
        ------
        ImportError
            pandas is not installed.
        """
        return self.to_arrow().to_pandas()

    @overload
    def to_html(self) -> str: ...

    @overload
    def to_html(self, path: str | Path) -> None: ...

    def to_html(self, path: str | Path | None = None) -> str | None:
        """Make the page that the command line writes with ``--html``: words, tables and figures in one file.

        Parameters
        ----------
        path
            Where to write it; if left out, the page is returned.
        """
        page = self._page()
        if path is None:
            return page.decode()
        Path(path).write_bytes(page)
        return None

    def _repr_html_(self) -> str:
        # matplotlib takes a while to load, and most results are never drawn.
        from monitor.reports.figures.style import to_png  # noqa: PLC0415
        from monitor.reports.page import render_notebook  # noqa: PLC0415

        try:
            drawing = to_png(self.plot(), _NOTEBOOK_DPI)
        except NotEnoughData:
            drawing = None
        return render_notebook(self._view(), drawing)


@dataclass(frozen=True)
class Measured:
    """What a report was made of, for its pictures."""

    options: ReportOptions
    table: EventTable | CountedRows
    findings: Findings


class _MeasuredResult(Result):
    """A report or a comparison."""

    measured: Measured

    def _view(self) -> View:
        return report_view(self.measured.findings)

    def _page(self) -> bytes:
        from monitor.reports.page import report_page  # noqa: PLC0415

        with patient_progress() as progress:
            findings = add_picture_data(self.measured.findings, self.measured.options, self.measured.table, progress)
            progress("drawing", 0.0)
            return report_page(findings)


class _ReportResult(_MeasuredResult):
    """A report on one set of predictions."""

    @property
    def local(self) -> LocalReport | None:
        """Local calibration over the features; None where none were named."""
        return self.measured.findings.local

    @property
    def notes(self) -> tuple[str, ...]:
        """What was assumed about the data, a line each."""
        return self.measured.findings.notes

    @property
    def cautions(self) -> tuple[str, ...]:
        """What to mind when reading the report, a line each."""
        return self.measured.findings.cautions

    def _repr(self, *lines: str) -> str:
        return "\n".join([*lines, *([] if self.local is None else [self.local.sentence])])

    def to_dict(self) -> dict[str, Any]:
        """Return the report as ``monitor report --json`` prints it."""
        return self.measured.findings.to_dict()

    @overload
    def plot(self) -> "Figure": ...

    @overload
    def plot(self, ax: "Axes") -> "Axes": ...

    def plot(self, ax: "Axes | None" = None) -> "Figure | Axes":
        """Draw the reliability diagram; of many classes, that of the most probable one.

        Parameters
        ----------
        ax
            Axes to draw into; without them the diagram is a figure of its own, with its title and how to read it.

        Returns
        -------
        Figure, or ``ax``

        Raises
        ------
        NotEnoughData
            No outcome is known.
        """
        from monitor.reports.pictures import reliability_of  # noqa: PLC0415

        return reliability_of(self.measured.findings, ax)


@dataclass(frozen=True, repr=False)
class DataReport(_ReportResult, Report):
    """A report on data at hand.

    Attributes
    ----------
    segments
        A report of each segment, worst first.
    search
        The segments that a search found; None where there was no search.
    measured
        What the report was made of.
    """

    segments: tuple[SegmentReport, ...] = ()
    search: SearchReport | None = None
    measured: Measured = field(kw_only=True, compare=False)

    def to_arrow(self) -> pa.Table:
        """Return a table with a row for the whole, then for each segment: columns of :meth:`DataGroups.to_arrow`."""
        found = () if self.search is None else self.search.segments
        rows = (SegmentReport(self), *self.segments, *found)
        return table_of([{"segment": row.report.segment, "model": row.report.model, **report_row(row)} for row in rows])

    def __repr__(self) -> str:
        segments = [segments_sentence(self.segments)] if self.segments else []
        search = [] if self.search is None else search_sentences(self.search)
        return self._repr(Report.__repr__(self), *segments, *search)


@dataclass(frozen=True, repr=False)
class DataClassReport(_ReportResult, ClassReport):
    """A report on data of many classes at hand.

    Attributes
    ----------
    class_names
        Names of the classes.
    measured
        What the report was made of.
    """

    class_names: tuple[str, ...] = ()
    measured: Measured = field(kw_only=True, compare=False)

    def to_arrow(self) -> pa.Table:
        """Return a table with the columns of :meth:`DataGroups.to_arrow`.

        The first row, of the segment ``all``, has the measures of whole vectors; ``top label`` and each class follow.
        """
        vectors = replace(self.top_label, measures=self.measures, diagnosis=None, prevalence=None, mean_prediction=None)
        named = {"all": vectors, "top label": self.top_label, **{each.segment: each for each in self.each_class}}
        rows = [
            {"segment": name, "model": report.model, **report_row(SegmentReport(report))}
            for name, report in named.items()
        ]
        return table_of(rows)

    def __repr__(self) -> str:
        return self._repr(ClassReport.__repr__(self))


@dataclass(frozen=True, repr=False)
class DataGroups(Result):
    """Reports on data at hand by columns and spans of time.

    Attributes
    ----------
    findings
        The reports, with what was assumed about the data.
    """

    findings: GroupFindings

    @property
    def reports(self) -> tuple[tuple[Group, SegmentReport], ...]:
        """Each combination of values with its report, in order of the values, spans of time last."""
        return self.findings.result.groups

    def to_dict(self) -> dict[str, Any]:
        """Return the reports as ``monitor report --by --json`` prints them."""
        return self.findings.to_dict()

    def to_arrow(self) -> pa.Table:
        """Return a table with a row for each report, as ``--output`` writes it.

        Columns are the values of the group, ``model``, ``from`` and ``to``, counts, the verdict with its numbers,
        ``p_value`` and ``q_value``, and each measure: ``smce``, ``smce_lower``, ``smce_upper``, ``smce_null_mean``,
        ``smce_null_q95``, ``smce_p_value``, ``smce_error_bound``.
        """
        return self.findings.result.to_arrow()

    def plot(self) -> "Figure":
        """Draw smCE of each group, or the first measure that was named, beside what chance shows."""
        from monitor.reports.pictures import groups_of  # noqa: PLC0415 - most results are never drawn

        return groups_of(self.findings)

    def _view(self) -> View:
        return groups_view(self.findings)

    def _page(self) -> bytes:
        from monitor.reports.page import groups_page  # noqa: PLC0415 - most results are never drawn

        return groups_page(self.findings)

    def __repr__(self) -> str:
        return self._view().lead.sentence


@dataclass(frozen=True, repr=False)
class DataComparison(_MeasuredResult, ReportComparison):
    """A comparison of data at hand; ``measured`` is what it was made of."""

    measured: Measured = field(kw_only=True, compare=False)

    def __repr__(self) -> str:
        return "\n".join([comparison_sentence(self), f"({self.note})", repr(self.first), repr(self.second)])

    def to_arrow(self) -> pa.Table:
        """Return a table with a row for each measure: its value for both, and the difference with its interval."""
        return table_of([{"measure": name, **row.to_dict()} for name, row in self.differences.items()])

    def plot(self) -> "Figure":
        """Draw the measures of both, with the interval of their difference."""
        from monitor.reports.pictures import comparison_of  # noqa: PLC0415

        return comparison_of(self)


@dataclass(frozen=True, eq=False, repr=False)
class Recalibration(Result, Trial):
    """Recalibration methods, fitted on the earlier rows of some data and compared on the later ones.

    Attributes
    ----------
    model
        What the predictions are of.
    columns
        Columns that a map needs: ``prediction`` and ``features``, lists of names. They are saved with it.
    """

    model: str = field(kw_only=True)
    columns: Mapping[str, Any] = field(kw_only=True)

    @property
    def map(self) -> RecalibrationMap | None:
        """The map of the best method; None if no method is better than no map."""
        return None if self.best is None else self.best.map

    @property
    def artifact(self) -> Artifact:
        """The map of the best method, with its provenance.

        Raises
        ------
        NotEnoughData
            No method is better than no map.
        """
        return from_bytes(self._bytes())

    def save(self, path: str | Path) -> None:
        """Write the map of the best method, for :func:`monitor.apply`, ``monitor apply`` and scorers.

        Raises
        ------
        NotEnoughData
            No method is better than no map.
        """
        Path(path).write_bytes(self._bytes())

    @in_python()
    def _bytes(self) -> bytes:
        if self.best is None:
            raise NotEnoughData(f"there is no map to be saved or applied. {advice(self)}")
        now_ms = SystemClock().now_ms()
        return artifact(self, self.best, model=self.model, created_ms=now_ms, columns=self.columns)

    @in_python()
    def to_dict(self) -> dict[str, Any]:
        """Return the recalibration as ``monitor recalibrate --json`` prints it."""
        return {"advice": advice(self), "reasons": reasons_of(self), **super().to_dict()}

    def to_arrow(self) -> pa.Table:
        """Return a table with a row for no map and for each method: measures and losses of the later rows."""
        return table_of(trial_rows(self))

    @in_python()
    def __repr__(self) -> str:
        text = io.StringIO()
        # rich would show the text in a notebook by itself.
        console = Console(
            file=text, width=_WIDTH, highlight=False, markup=False, emoji=False, force_jupyter=False, color_system=None
        )
        print_advice(console, self, self.model)
        return text.getvalue().rstrip()

    @in_python()
    def _view(self) -> View:
        return trial_view(self, self.model)

    @in_python()
    def _page(self) -> bytes:
        from monitor.recalibration.refit_figures import refit_page  # noqa: PLC0415

        return refit_page(self, self.model)

    def plot(self) -> "Figure":
        """Draw the reliability diagrams of the later rows before and after the best method."""
        from monitor.recalibration.refit_figures import before_and_after  # noqa: PLC0415

        return before_and_after(self)
