import numpy as np
import pytest

from monitor.measures.binned_errors import ece
from monitor.reports.evaluation.report import ReliabilityBin, reliability_bins
from monitor.scores import GridTable, ScoreTable


def events(seed: int, n: int = 4000) -> tuple[np.ndarray, np.ndarray]:
    """Predictions, every fourth of them on an edge between two bins, and outcomes."""
    draw = np.random.default_rng(seed)
    p = draw.beta(0.4, 0.7, n)
    p[::4] = draw.integers(0, 11, p[::4].size) / 10
    return p, (draw.random(n) < p).astype(np.int8)


def naive(p: np.ndarray, y: np.ndarray) -> dict[str, tuple[int, int, float]]:
    found: dict[str, tuple[int, int, float]] = {}
    for prediction, outcome in zip(p.tolist(), y.tolist(), strict=True):
        at = max(bin_ for bin_ in range(10) if bin_ / 10 <= prediction)
        n, positives, total = found.get(f"{at / 10:.1f}", (0, 0, 0.0))
        found[f"{at / 10:.1f}"] = (n + 1, positives + outcome, total + prediction)
    return found


@pytest.mark.parametrize("seed", range(3))
def test_the_bins_of_a_window_are_those_of_its_raw_predictions(seed: int) -> None:
    p, y = events(seed)
    found = {each.lower: tuple(each[1:]) for each in reliability_bins(GridTable.from_events(p, y).to_scores())}
    expected = naive(p, y)
    assert found.keys() == expected.keys()
    for lower, (n, positives, total) in expected.items():
        assert found[lower][:2] == (n, positives)
        # Sums are kept in units of 2**-40.
        assert found[lower][2] == pytest.approx(total, abs=n * 2.0**-41 + 1e-9)


def test_they_add_as_tables_do() -> None:
    parts = [GridTable.from_events(*events(seed, 500)) for seed in (5, 6)]
    whole = {each.lower: each for each in reliability_bins((parts[0] + parts[1]).to_scores())}
    of_parts = [each for part in parts for each in reliability_bins(part.to_scores())]
    for lower, found in whole.items():
        same = [each for each in of_parts if each.lower == lower]
        assert (found.labelled, found.positives) == (sum(e.labelled for e in same), sum(e.positives for e in same))
        assert found.prediction_sum == pytest.approx(sum(e.prediction_sum for e in same), rel=1e-14)


def test_ece_can_be_had_from_them() -> None:
    p, y = events(7)
    table = GridTable.from_events(p, y).to_scores()
    bins = reliability_bins(table)
    assert sum(abs(each.positives - each.prediction_sum) for each in bins) / p.size == pytest.approx(
        ece(table), rel=1e-12
    )


def test_only_bins_that_hold_something_are_there() -> None:
    table = GridTable.from_events([0.05, 0.05, 1.0, 0.3], [0, 1, 1, -1]).to_scores()
    first, last = reliability_bins(table)
    assert first[:3] == ("0.0", 2, 1)
    assert first.prediction_sum == pytest.approx(0.1)
    assert last == ReliabilityBin("0.9", 1, 1, 1.0)
    assert reliability_bins(ScoreTable.from_events([], [])) == ()
