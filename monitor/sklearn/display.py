"""The reliability diagram of a report, made as scikit-learn makes its displays."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Self

from numpy.typing import ArrayLike

from monitor.data import show_progress
from monitor.functions import evaluate_data
from monitor.reports.evaluation.inputs import Resampling
from monitor.reports.findings import ReportOptions, chosen_measures
from monitor.results import DataClassReport, DataReport
from monitor.sklearn.labels import read_outcomes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

_MEASURES: Final = ("smce", "ece")


class CalibrationDisplay:
    """The reliability diagram: what came true against what was predicted, and where chance puts a calibrated model.

    Use :meth:`from_estimator` or :meth:`from_predictions`.

    Attributes
    ----------
    report
        The report on the predictions: verdict, smCE and ECE with their intervals.
    figure_, ax_
        What it is drawn into.
    """

    def __init__(self, report: DataReport | DataClassReport) -> None:
        self.report = report
        self.figure_: Figure | SubFigure
        self.ax_: Axes

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,  # noqa: N803 - scikit-learn's name
        y: ArrayLike,
        *,
        pos_label: Any = None,
        name: str | None = None,
        ax: "Axes | None" = None,
    ) -> Self:
        """Draw the predictions of a fitted classifier.

        Parameters
        ----------
        estimator
            A classifier with ``predict_proba``.
        X, y
            Features (n, D) and outcomes (n,), which it was not fitted on.
        pos_label
            The outcome whose predictions are drawn: the second of ``estimator.classes_`` if left out. Of more than two
            classes the most probable one is drawn.
        name
            What the report says it is about; the estimator's class if left out.
        ax
            Axes to draw into; without them the diagram is a figure of its own.
        """
        return cls.from_predictions(
            y,
            estimator.predict_proba(X),
            pos_label=pos_label,
            labels=list(estimator.classes_),
            name=name or type(estimator).__name__,
            ax=ax,
        )

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_prob: ArrayLike,
        *,
        pos_label: Any = None,
        labels: Sequence[Any] | None = None,
        name: str | None = None,
        ax: "Axes | None" = None,
    ) -> Self:
        """Draw predictions and outcomes, which are given as to a score such as ``smce_score``."""
        p, y = read_outcomes(y_true, y_prob, pos_label, labels)
        options = ReportOptions(
            measures=chosen_measures(_MEASURES), resampling=Resampling(199), models=() if name is None else (name,)
        )
        with show_progress(False):
            return cls(evaluate_data(p, y, options)).plot(ax=ax)

    def plot(self, *, ax: "Axes | None" = None) -> Self:
        """Draw the diagram, into axes or as a figure of its own with its title and how to read it."""
        if ax is None:
            figure = self.report.plot()
            self.figure_, self.ax_ = figure, figure.axes[0]
        else:
            self.ax_ = self.report.plot(ax)
            self.figure_ = self.ax_.figure
        return self

    def _repr_html_(self) -> str:
        return self.report._repr_html_()
