"""For tests of models: an assertion that predictions are calibrated."""

from collections.abc import Sequence
from typing import Any

from monitor.data import show_progress
from monitor.functions import evaluate
from monitor.options import in_python
from monitor.reports.fail_if import FailCondition
from monitor.results import DataClassReport, DataReport


def assert_calibrated(
    p: Any, y: Any = None, *, fail_if: str | Sequence[str] = "verdict", **options: Any
) -> DataReport | DataClassReport:
    """Assert that a report on predictions meets no condition of a failure, as ``monitor report --fail-if`` does.

    Parameters
    ----------
    p, y
        Predictions and outcomes, or a table or the path of one, as of :func:`monitor.evaluate`.
    fail_if
        Conditions, of which none may hold: ``"verdict"``, a fault beyond the tolerance that chance does not explain;
        ``"severity>=moderate"``, ``"smce.lower>0.02"``, ``"segments.severity>=severe"``, ``"auc<0.7"``, ...
    options
        As of :func:`monitor.evaluate`, such as ``tolerance``, ``segments`` and ``measures``. The seed is 0 if left out,
        as on the command line.

    Returns
    -------
    DataReport or DataClassReport
        The report, for further assertions.

    Raises
    ------
    AssertionError
        A condition holds. The message is the condition with its value, and the report.
    NotEnoughData
        A condition cannot be decided: a test must not pass for lack of data.
    InputError
        A condition or an argument is wrong.

    Examples
    --------
    >>> p = [0.2, 0.8] * 100
    >>> report = assert_calibrated(p, [0, 1, 0, 1, 0, 1, 0, 1, 1, 0] * 20)
    >>> assert_calibrated(p, [0, 1] * 100, fail_if=["severity>=severe", "ece>0.3"], seed=0).n
    Traceback (most recent call last):
    ...
    AssertionError: severity>=severe (severity is severe)
    Calibration of unnamed: 200 predictions, ...
    """
    __tracebackhide__ = True  # pytest shows the line of the test
    with in_python():
        conditions = [FailCondition.parse(text) for text in ([fail_if] if isinstance(fail_if, str) else fail_if)]
        with show_progress(False):
            report: DataReport | DataClassReport = evaluate(p, y, **{"seed": 0, **options})
        document = report.to_dict()
        failures = [failure for condition in conditions if (failure := condition.failure(document))]
    if failures:
        raise AssertionError("\n".join([*failures, repr(report)]))
    return report
