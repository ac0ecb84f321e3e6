"""Groups that are found by a search: how often wrongly, and how often at all."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from scipy.special import expit, logit

from monitor.errors import InputError
from monitor.measures import MEASURES
from monitor.reports.evaluation.files import report_table
from monitor.reports.evaluation.segment_search import find_segments
from monitor.reports.evaluation.segments import ranges_of
from monitor.sources.tables import EventTable, SegmentColumn
from tests.long import short_rows

Floats = NDArray[np.float64]


def events(n: int, seed: int, prevalence: float = 0.5) -> tuple[np.random.Generator, Floats, dict[str, SegmentColumn]]:
    """Predictions, and five columns of which two hang together with them."""
    rng = np.random.default_rng(seed)
    z = rng.normal(logit(prevalence), 1.2, n)
    columns = {name: ranges_of(name, rng.normal(size=n) + 0.3 * z) for name in ("x", "w")}
    for name, values in (("a", 3), ("b", 4), ("c", 6)):
        columns[name] = SegmentColumn(rng.integers(0, values, n).astype(np.int32), tuple("uvwxyz"[:values]))
    return rng, expit(z), columns


@pytest.mark.parametrize(("n", "prevalence"), short_rows([(1500, 0.5), (4000, 0.04)], 1))
def test_where_nothing_is_wrong_hardly_a_search_names_a_group(n: int, prevalence: float) -> None:
    searches, wrong = 80, 0
    for seed in range(searches):
        rng, p, columns = events(n, seed, prevalence)
        wrong += bool(find_segments(p, (rng.random(n) < p).astype(np.float64), columns).segments)
    # At most one in twenty, and what chance makes of that.
    assert wrong <= stats.binom.ppf(0.999, searches, 0.05)


@pytest.mark.parametrize("slope", [0.5, 1.0])
def test_what_is_wrong_with_the_whole_is_no_group(slope: float) -> None:
    wrong = 0
    for seed in range(40):
        rng, p, columns = events(3000, seed)
        y = (rng.random(p.size) < expit(slope * logit(p) + 0.6)).astype(np.float64)
        wrong += bool(find_segments(p, y, columns).segments)
    assert wrong <= stats.binom.ppf(0.999, 40, 0.05)


@pytest.mark.parametrize(
    ("kind", "size", "least"),
    short_rows([("two columns", 0.9, 18), ("one column", 0.45, 18), ("a slope", 0.45, 15)], 1),
)
def test_what_is_wrong_with_a_group_is_found(kind: str, size: float, least: int) -> None:
    hits = extra = 0
    for seed in range(20):
        rng, p, columns = events(6000, 100 + seed)
        a, b = columns["a"].codes == 1, columns["b"].codes == 2
        wrong = {
            "one column": expit(logit(p) + size * b),
            "two columns": expit(logit(p) - size * (a & b)),
            "a slope": expit(logit(p) * np.where(b, 1.0 - size, 1.0)),
        }[kind]
        result = find_segments(p, (rng.random(p.size) < wrong).astype(np.float64), columns)
        names = [each.name for each in result.segments]
        hits += ("a=v, b=w" if kind == "two columns" else "b=w") in names[:1]
        extra += len(names) > 1
    assert hits >= least
    # Groups that share rows with it are not named for what it does.
    assert extra <= 5


def test_p_values_of_small_and_large_groups_of_rare_outcomes_are_uniform() -> None:
    p_values = []
    for seed in range(300):
        rng, p, _ = events(3000, 1000 + seed, 0.05)
        codes = (np.arange(p.size) >= 2600).astype(np.int32)
        result = find_segments(
            p, (rng.random(p.size) < p).astype(np.float64), {"g": SegmentColumn(codes, ("large", "small"))}
        )
        assert result.closest is not None or result.segments
        closest = result.segments[0] if result.segments else result.closest
        assert closest is not None
        p_values.append(closest.q_value)
    # Corrected for the four tests that there are.
    assert np.mean(np.array(p_values) <= 0.05) <= 0.09


def test_weights_count_and_unknown_outcomes_do_not() -> None:
    rng, p, columns = events(6000, 7)
    b = columns["b"].codes == 2
    y = (rng.random(p.size) < expit(logit(p) + 1.0 * b)).astype(np.float64)
    assert [each.name for each in find_segments(p, y, columns).segments] == ["b=w"]
    assert not find_segments(p, y, columns, weight=np.where(b, 0.0, 2.0)).segments
    weighted = find_segments(p, y, columns, weight=rng.uniform(0.5, 2.0, p.size))
    assert weighted.segments[0].name == "b=w"
    assert not find_segments(p, np.where(b, np.nan, y), columns).segments
    rows = find_segments(p, np.where(np.arange(p.size) < 100, np.nan, y), columns).segments[0].rows
    np.testing.assert_array_equal(rows, np.flatnonzero(b & (np.arange(p.size) >= 100)))


def test_what_cannot_be_searched() -> None:
    with pytest.raises(InputError, match="there is no column to search"):
        find_segments(np.array([0.5]), np.array([1.0]), {})
    rng, p, _ = events(500, 1)
    ids = SegmentColumn(np.arange(500, dtype=np.int32), tuple(map(str, range(500))))
    none = find_segments(p, (rng.random(500) < p).astype(np.float64), {"id": ids})
    assert (none.columns, none.groups, none.segments, none.closest) == ((), 0, (), None)


def test_outcomes_that_are_parted_or_contradict_certain_predictions_end_the_search() -> None:
    p = np.r_[np.zeros(300), np.ones(300)]
    column = {"g": SegmentColumn((np.arange(600) % 3 == 0).astype(np.int32), ("u", "v"))}
    assert not find_segments(p, p, column).segments
    find_segments(p, 1.0 - p, column)


def test_a_group_that_is_right_where_the_whole_is_not_is_not_named() -> None:
    rng = np.random.default_rng(3)
    z = rng.normal(0.0, 1.0, 6000)
    codes = (rng.random(6000) < 0.3).astype(np.int32)
    y = (rng.random(6000) < expit(z + 0.8 * (codes == 0))).astype(np.int8)
    columns = {"g": SegmentColumn(codes, ("wrong", "right"))}
    assert find_segments(expit(z), y.astype(np.float64), columns).segments
    report = report_table(
        EventTable(expit(z), y), model="m", searched=columns, measures={"smce": MEASURES["smce"]}, draws=99, seed=0
    )
    assert report.search is not None
    assert "g=right" not in [each.report.segment for each in report.search.segments]
