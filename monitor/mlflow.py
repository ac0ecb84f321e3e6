"""Reports as metrics, tags and artifacts of an MLflow run. Needs ``mlflow``, or ``mlflow-skinny``."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import mlflow

from monitor.errors import InputError, NotEnoughData
from monitor.reports.evaluation.report import Diagnosis, MeasureResult
from monitor.results import DataClassReport, DataReport

_FIELDS: Final = ("value", "lower", "upper", "null_q95", "p_value")
_COUNTS: Final = ("n", "positives", "prevalence", "mean_prediction")


def log_report(report: DataReport | DataClassReport, prefix: str = "calibration") -> None:
    """Log a report to the active run.

    Metrics are ``calibration/smce`` and so on, with ``calibration/smce.lower``, ``.upper``, ``.null_q95`` (the 95%
    point of a calibrated model) and ``.p_value``; counts, such as ``calibration/n``; and scores such as
    ``calibration/auc``. Of many classes the measures of the top label are ``calibration/top_label/smce``. Tags are
    ``calibration.verdict`` and ``calibration.severity``. Artifacts in the folder ``calibration`` are ``report.html``,
    ``report.json`` and, where an outcome is known, the diagram ``reliability.png``.

    Parameters
    ----------
    report
        Of :func:`monitor.evaluate`.
    prefix
        What metrics, tags and the folder are called by: another one for each report of a run.

    Raises
    ------
    InputError
        There is no active run.
    """
    if mlflow.active_run() is None:
        raise InputError("there is no active run to log the report to: write `with mlflow.start_run():` around it")
    mlflow.log_metrics({f"{prefix}/{name}": value for name, value in _metrics(report)})
    diagnosis = _diagnosis(report)
    if diagnosis is not None:
        mlflow.set_tag(f"{prefix}.verdict", diagnosis.verdict.value)
        if diagnosis.severity is not None:
            mlflow.set_tag(f"{prefix}.severity", diagnosis.severity.value)
    mlflow.log_text(report.to_html(), f"{prefix}/report.html")
    mlflow.log_dict(report.to_dict(), f"{prefix}/report.json")
    try:
        figure = report.plot()
    except NotEnoughData:
        return  # without outcomes there is nothing to draw, and the page says so
    mlflow.log_figure(figure, f"{prefix}/reliability.png")


def _diagnosis(report: DataReport | DataClassReport) -> Diagnosis | None:
    return report.top_label.diagnosis if isinstance(report, DataClassReport) else report.diagnosis


def _metrics(report: DataReport | DataClassReport) -> Iterator[tuple[str, float]]:
    """Name and value of each number that is known."""
    whole = report.top_label if isinstance(report, DataClassReport) else report
    yield from _of_measures(report.measures)
    if isinstance(report, DataClassReport):
        yield from ((f"top_label/{name}", value) for name, value in _of_measures(whole.measures))
    document: dict[str, Any] = {name: getattr(whole, name) for name in _COUNTS}
    performance = whole.to_dict()["performance"] or {}
    yield from ((name, value) for name, value in {**document, **performance}.items() if value is not None)


def _of_measures(measures: Mapping[str, MeasureResult]) -> Iterator[tuple[str, float]]:
    for name, result in measures.items():
        for field in _FIELDS:
            value = getattr(result, field)
            if value is not None:
                yield (name if field == "value" else f"{name}.{field}"), value
