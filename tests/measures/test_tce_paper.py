"""The published numbers of TCE, from the recipe of its paper's synthetic experiments.

Every number of Tables 2, 8, 10 and 11 is reproduced. Those of quantile bins are of bins whose ends are products of
shares and size, cut to whole numbers, so that rounding ends some of them one event early. Rebuilt here, they give the
published numbers; the library's quantiles hold 6000 / bins events each and differ in six places, ``OFF_BY_AN_EVENT``.
"""

from functools import cache
from typing import Final

import numpy as np
import pytest
from numpy.typing import NDArray

from monitor.measures.error_by_tests import Bins, TceBins, tce, tce_bins
from monitor.measures.tce_tests import TESTS, Test
from monitor.scores import ScoreTable
from tests.reference import naive_tce

CALIBRATED, SHIFTED = 0.5, 0.4


@cache
def synthetic_table(train_prevalence: float, test_prevalence: float) -> ScoreTable:
    return ScoreTable.from_events(*naive_tce.synthetic_data(train_prevalence, test_prevalence))


def gaps(bins: TceBins) -> NDArray[np.float64]:
    return np.abs(bins.rate - bins.mean_prediction)


def mean_gap(bins: TceBins) -> float:
    """ECE over equal-width bins, ACE over quantiles, in the paper's words."""
    return float(gaps(bins) @ bins.sizes / bins.sizes.sum())


@pytest.mark.parametrize(
    ("train", "test", "published"),
    [
        # TCE, TCE(Q), ECE and ACE.
        (0.5, 0.5, "7.28 10.88 0.0138 0.0150"),
        (0.5, 0.4, "96.10 96.47 0.0963 0.0951"),
        (0.5, 0.6, "98.83 98.93 0.1097 0.1096"),
        (0.01, 0.01, "3.40 0.18 0.0017 0.0031"),
        (0.01, 0.0, "95.50 68.73 0.0094 0.0094"),
        (0.01, 0.02, "92.32 89.73 0.0139 0.0139"),
    ],
)
def test_table_2(train: float, test: float, published: str) -> None:
    table = synthetic_table(train, test)
    equal_width, quantile = tce_bins(table, bins="equal_width"), tce_bins(table, bins="quantile")
    found = f"{tce(table):.2f} {quantile.value:.2f} {mean_gap(equal_width):.4f} {mean_gap(quantile):.4f}"
    assert found == published


def test_the_bins_of_table_2() -> None:
    p, y = naive_tce.synthetic_data(0.5, 0.5)
    bins = tce_bins(ScoreTable.from_events(p, y))
    assert bins.sizes.tolist() == [303, 687, 313, 583, 398, 478, 530, 419, 901, 454, 561, 373]
    assert list(zip(bins.positives.tolist(), bins.sizes.tolist(), strict=True)) == naive_tce.pava_bc(
        y[np.argsort(p)].tolist(), 300, 1200
    )


@pytest.mark.parametrize(
    ("min_size", "max_size", "balanced", "shifted"),
    [
        # Tables 6 (no upper limit) and 7 (no lower limit).
        (1, 6000, 3.4500, 88.0667),
        (6, 6000, 3.3833, 88.0667),
        (30, 6000, 2.3500, 88.3333),
        (60, 6000, 2.6333, 87.8667),
        (3000, 6000, 92.2000, 93.9500),
        (0, 6, 5.8500, 5.5000),
        (0, 30, 3.0000, 9.1000),
        (0, 60, 2.3667, 14.3833),
        (0, 300, 3.7667, 79.6667),
        (0, 600, 3.3833, 85.6500),
    ],
)
def test_the_bin_sizes_of_tables_6_and_7(min_size: int, max_size: int, balanced: float, shifted: float) -> None:
    values = [tce(synthetic_table(0.5, test), min_size=min_size, max_size=max_size) for test in (CALIBRATED, SHIFTED)]
    assert [round(value, 4) for value in values] == [balanced, shifted]


SIZES: Final = ((6, 24, 500), (30, 120, 100), (60, 240, 50), (300, 1200, 10), (600, 2000, 5))
"""Least and most events of PAVA-BC and number of bins, of the five rows of Tables 8 and 11. The sizes are the printed
ranges of the number of bins, read as 6000 / bins; the printed [5, 20] and [10, 20] are both of 300 and 1200, and
[3, 10] is of 2000."""

TABLE_8: Final = {
    # Prevalence: a row each of TCE(P), TCE(Q), TCE(V), ECE, ACE, MCE and MCE(Q).
    CALIBRATED: (
        (3.8000, 4.2000, 3.4500, 0.0839, 0.1142, 0.8767, 0.5016),
        (1.8333, 4.3000, 3.4500, 0.0382, 0.0457, 0.8767, 0.1705),
        (0.2833, 3.5667, 3.4500, 0.0271, 0.0370, 0.2533, 0.1189),
        (7.2833, 10.8833, 3.4500, 0.0138, 0.0150, 0.1020, 0.0528),
        (13.5667, 38.7500, 3.4500, 0.0116, 0.0086, 0.1020, 0.0236),
    ),
    SHIFTED: (
        (7.7333, 8.7000, 88.0667, 0.1179, 0.1389, 0.8767, 0.4811),
        (45.7667, 32.2833, 88.0667, 0.0993, 0.0992, 0.8767, 0.2264),
        (66.1833, 56.7667, 88.0667, 0.0971, 0.0964, 0.2426, 0.1827),
        (96.1000, 96.4667, 88.0667, 0.0963, 0.0951, 0.1466, 0.1314),
        (96.6000, 96.7833, 88.0667, 0.0963, 0.0951, 0.1099, 0.1092),
    ),
}

TABLE_11_T: Final = {
    # Prevalence: a row each of TCE(P)-T, TCE(Q)-T and TCE(V)-T; the columns -B are those of Table 8.
    CALIBRATED: (
        (33.6667, 31.9167, 34.2167),
        (36.0000, 31.4333, 34.2167),
        (31.3667, 40.4333, 34.2167),
        (37.8000, 41.8500, 34.2167),
        (46.5000, 68.8167, 34.2167),
    ),
    SHIFTED: (
        (50.2833, 45.1833, 97.7333),
        (73.2667, 71.1667, 97.7333),
        (96.5333, 85.3833, 97.7333),
        (99.2667, 98.4833, 97.7333),
        (98.6333, 98.4833, 97.7333),
    ),
}

OFF_BY_AN_EVENT: Final = {
    # (test, prevalence, number of bins): ours, where it differs from the published value.
    ("binomial", CALIBRATED, 100): 4.2833,
    ("binomial", SHIFTED, 100): 31.2833,
    ("binomial", SHIFTED, 50): 57.8500,
    ("t_published", CALIBRATED, 500): 31.9000,
    ("t_published", SHIFTED, 500): 45.3833,
    ("t_published", CALIBRATED, 50): 40.4167,
}


def published_quantile_bins(prevalence: float, n_bins: int, test: Test) -> TceBins:
    """The published bins with their verdicts; the data have no ties."""
    p, y = naive_tce.synthetic_data(0.5, prevalence)
    order = np.argsort(p)
    positives, sizes = np.array(naive_tce.published_quantile_blocks(y[order], n_bins)).T
    starts = np.append(0, np.cumsum(sizes))
    refuted = TESTS[test].rejected(p[order], starts, positives, sizes, 0.05)
    below = refuted & (p[order] < np.repeat(positives / sizes, sizes))
    return TceBins(
        lower_edge=p[order][starts[:-1]],
        upper_edge=p[order][starts[1:] - 1],
        sizes=sizes,
        positives=positives,
        rejected=np.add.reduceat(refuted.astype(np.int64), starts[:-1]),
        rejected_below=np.add.reduceat(below.astype(np.int64), starts[:-1]),
        mean_prediction=np.add.reduceat(p[order], starts[:-1]) / sizes,
        alpha=0.05,
    )


def check_quantile_value(prevalence: float, n_bins: int, test: Test, published: float) -> None:
    assert round(published_quantile_bins(prevalence, n_bins, test).value, 4) == published
    value = round(tce(synthetic_table(0.5, prevalence), bins="quantile", n_bins=n_bins, test=test), 4)
    assert value == OFF_BY_AN_EVENT.get((test, prevalence, n_bins), published)


@pytest.mark.parametrize("prevalence", TABLE_8)
@pytest.mark.parametrize("row", range(5))
def test_table_8(prevalence: float, row: int) -> None:
    table = synthetic_table(0.5, prevalence)
    low, high, n_bins = SIZES[row]
    value, quantile_value, isotonic_value, *errors = TABLE_8[prevalence][row]
    assert round(tce(table, min_size=low, max_size=high), 4) == value
    check_quantile_value(prevalence, n_bins, "binomial", quantile_value)
    assert round(tce(table, bins="pava"), 4) == isotonic_value
    equal_width = tce_bins(table, bins="equal_width", n_bins=n_bins)
    quantile = published_quantile_bins(prevalence, n_bins, "binomial")
    found = (mean_gap(equal_width), mean_gap(quantile), gaps(equal_width).max(), gaps(quantile).max())
    assert [round(float(error), 4) for error in found] == errors


@pytest.mark.parametrize("prevalence", TABLE_11_T)
@pytest.mark.parametrize("row", range(5))
def test_table_11(prevalence: float, row: int) -> None:
    """Its binomial columns are those of Table 8."""
    table = synthetic_table(0.5, prevalence)
    low, high, n_bins = SIZES[row]
    value, quantile_value, isotonic_value = TABLE_11_T[prevalence][row]
    assert round(tce(table, min_size=low, max_size=high, test="t_published"), 4) == value
    check_quantile_value(prevalence, n_bins, "t_published", quantile_value)
    assert round(tce(table, bins="pava", test="t_published"), 4) == isotonic_value


def test_students_test_refutes_about_what_the_exact_one_does() -> None:
    """Table 11 shows the t-test to refute a third of a calibrated model's predictions; Student's own does not."""
    for prevalence in (CALIBRATED, SHIFTED):
        table = synthetic_table(0.5, prevalence)
        assert tce(table, test="t") == pytest.approx(tce(table), abs=0.5)
        assert tce(table, test="t") < tce(table, test="t_published")


@pytest.mark.parametrize(
    ("alpha", "balanced", "shifted"),
    [
        (0.001, (1.4500, 4.6833, 0.1833), (77.8000, 83.3833, 76.1000)),
        (0.005, (2.4667, 5.5667, 1.1333), (86.3000, 92.8000, 80.0833)),
        (0.010, (3.0500, 6.2000, 1.6500), (90.1833, 95.2167, 83.1167)),
        (0.050, (7.2833, 10.8833, 3.4500), (96.1000, 96.4667, 88.0667)),
        (0.100, (12.8500, 15.2000, 6.8667), (97.2167, 96.9167, 90.1667)),
        (0.500, (53.1000, 55.3333, 46.5667), (99.3000, 98.7167, 97.7500)),
    ],
)
def test_table_10(alpha: float, balanced: tuple[float, ...], shifted: tuple[float, ...]) -> None:
    """Its other columns do not depend on alpha; they are those of Table 8."""
    kinds: tuple[Bins, ...] = ("pava_bc", "quantile", "pava")
    for test, published in ((CALIBRATED, balanced), (SHIFTED, shifted)):
        table = synthetic_table(0.5, test)
        assert tuple(round(tce(table, alpha=alpha, bins=kind), 4) for kind in kinds) == published
