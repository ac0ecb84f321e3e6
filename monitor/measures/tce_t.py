"""The test-based calibration error by Student's t-test."""

from functools import partial

from monitor.measures.base import Measure
from monitor.measures.tce import tce, tce_draws, tce_error_bound
from monitor.scores import ScoreTable


def tce_t(table: ScoreTable) -> float:
    """TCE with the t-test in place of the exact one: :func:`~monitor.measures.tce.tce` with ``test="t"``.

    Examples
    --------
    >>> round(tce_t(ScoreTable.from_events([0.15] * 50 + [0.35] * 50, [0, 0, 0, 0, 1] * 20)), 6)
    50.0
    """
    return tce(table, test="t")


MEASURE = Measure(
    name="tce_t",
    title="TCE (t-test)",
    help="Percentage of predictions that Student's t-test refutes, given the outcomes of similar predictions.",
    unit="percent",
    value=tce_t,
    error_bound=lambda table, _value: tce_error_bound(table, test="t"),
    error_bound_is_certain=False,
    draws=partial(tce_draws, test="t"),
    max_draws=199,
    drawn_rows=16_384,  # see :func:`~monitor.scores.table.merge_rows`
    needs_whole_counts=True,
    appears_in="request",
    rank=110,
)
