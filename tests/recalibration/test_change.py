import numpy as np
import pytest
from scipy.special import expit

from monitor.inference.cox import fit_cox, logits
from monitor.recalibration.change import _bends, _ends, _Search, last_change
from monitor.scores import ScoreTable
from monitor.scores.labelled import LabelledEvents
from tests.long import short_of
from tests.reference.naive_change import naive_statistics


def events(
    n: int,
    *,
    seed: int,
    slope: float = 1.0,
    offset: float = 0.0,
    jumps: dict[float, tuple[float, float]] | None = None,
    mean: float = 0.0,
    trend: float = 0.0,
) -> LabelledEvents:
    """True logits are (z - offset) / slope, and from each share of ``jumps`` on times its first plus its second."""
    rng = np.random.default_rng(seed)
    z = rng.normal(mean, 1.2, n) + trend * np.linspace(-1.0, 1.0, n)
    true = (z - offset) / slope
    for share, (factor, term) in (jumps or {}).items():
        rows = slice(int(share * n), None)
        true[rows] = ((z - offset) / slope)[rows] * factor + term
    return LabelledEvents.of(expit(z), (rng.random(n) < expit(true)).astype(int), time_ms=np.arange(n) * 1000)


def test_the_statistic_is_that_of_every_place_one_by_one() -> None:
    sample = events(400, seed=1, slope=1.5)
    w = np.random.default_rng(2).exponential(1.0, 400)
    y = sample.outcome.astype(np.float64)
    found = _Search.of(sample.prediction, y, w, sample.time_ms)
    assert found is not None
    z = logits(sample.prediction)
    z = np.clip(z, *np.quantile(z, [0.01, 0.99]))
    cox = fit_cox(ScoreTable.from_events(expit(z), y, w))
    assert cox.slope is not None
    assert cox.intercept is not None
    bends = _bends(z, y, w, expit(cox.intercept + cox.slope * z))
    assert bends.size == 1
    expected = naive_statistics(sample.prediction, y, w, bends)
    statistics = found._statistics(y, np.arange(1, 401))
    held = statistics > 0.0
    assert held.sum() > 300
    assert statistics[held] == pytest.approx(expected[np.arange(1, 401) % 400][held], rel=1e-5)
    place, latest = found.places()
    assert place == 1 + np.argmax(statistics)
    assert latest == 1 + np.flatnonzero(statistics >= statistics.max() - 7.352)[-1]


@pytest.mark.parametrize("seed", short_of(range(4), 1))
@pytest.mark.parametrize(
    ("jump", "share", "n", "within"),
    [((1.0, 1.0), 0.6, 3000, 0.05), ((0.5, 0.0), 0.7, 6000, 0.1), ((1.0, -1.0), 0.85, 6000, 0.05)],
)
def test_a_jump_is_found_where_it_is(seed: int, jump: tuple[float, float], share: float, n: int, within: float) -> None:
    found = last_change(events(n, seed=seed, slope=1.4, offset=0.3, jumps={share: jump}))
    assert found is not None
    assert found.p_value <= 0.02
    assert abs(found.row / n - share) <= within
    assert found.time_ms == found.row * 1000


def test_the_last_of_two_changes_counts() -> None:
    n = 8000
    found = last_change(events(n, seed=3, jumps={0.3: (1.0, 1.0), 0.75: (1.0, -1.0)}))
    assert found is not None
    assert abs(found.row / n - 0.75) <= 0.03


@pytest.mark.parametrize("seed", range(3))
def test_a_model_that_is_always_wrong_alike_has_not_changed(seed: int) -> None:
    assert last_change(events(3000, seed=seed, slope=2.0, offset=0.5)) is None


@pytest.mark.parametrize("seed", range(3))
def test_predictions_that_drift_are_no_change_of_calibration(seed: int) -> None:
    assert last_change(events(3000, seed=seed, slope=1.5, offset=0.5, trend=1.0)) is None


def test_one_score_for_all_has_an_offset_that_may_change() -> None:
    y = np.repeat([0, 1, 0, 1, 1, 1], 200)[np.argsort(np.tile(np.arange(200), 6), kind="stable")]
    steady = LabelledEvents.of(np.full(1200, 0.3), y)
    assert last_change(steady) is None
    turned = LabelledEvents.of(np.full(1200, 0.3), np.concatenate([y[:700], np.tile([0, 0, 0, 1], 125)]))
    found = last_change(turned)
    assert found is not None
    assert abs(found.row - 700) <= 30


def test_of_many_classes_the_hits_of_the_top_label_count() -> None:
    rng = np.random.default_rng(4)
    p = rng.dirichlet(np.ones(3), 4000)
    y = np.array([rng.choice(3, p=each) for each in p])
    y[2500:] = rng.integers(0, 3, 1500)
    found = last_change(LabelledEvents.of(p, y))
    assert found is not None
    assert abs(found.row - 2500) <= 150


def test_too_few_or_parted_events_tell_of_no_change() -> None:
    assert last_change(events(30, seed=5)) is None
    assert last_change(LabelledEvents.of(np.zeros(0), np.zeros(0))) is None
    p = np.linspace(0.0, 1.0, 2000)
    shuffled = np.random.default_rng(6).permutation(p)
    assert last_change(LabelledEvents.of(shuffled, shuffled > 0.5)) is None
    one_time = events(2000, seed=7)
    assert last_change(LabelledEvents.of(one_time.prediction, one_time.outcome, time_ms=np.zeros(2000))) is None


def test_nearly_certain_outcomes_are_searched_too() -> None:
    rng = np.random.default_rng(12)
    p = np.where(rng.random(3000) < 0.5, 1e-6, 1.0 - 1e-6)
    y = (p > 0.5).astype(int)
    steady = y.copy()
    steady[::100] = 1 - steady[::100]
    assert last_change(LabelledEvents.of(p, steady)) is None
    turned = y.copy()
    turned[::400] = 1 - turned[::400]
    turned[2000::4] = 1 - turned[2000::4]
    found = last_change(LabelledEvents.of(p, turned))
    assert found is not None
    assert abs(found.row - 2000) <= 30


def test_a_change_lies_between_two_times() -> None:
    sample = events(3000, seed=8, jumps={0.5: (1.0, 1.5)})
    coarse = LabelledEvents.of(sample.prediction, sample.outcome, time_ms=np.arange(3000) // 100)
    found = last_change(coarse)
    assert found is not None
    assert found.row % 100 == 0
    assert abs(found.row - 1500) <= 100


def test_blocks_hold_whole_times() -> None:
    times = np.sort(np.random.default_rng(9).integers(0, 700, 5000))
    ends = _ends(times)
    assert ends[-1] == 5000
    assert (np.diff(ends) > 0).all()
    assert (times[ends[:-1] - 1] < times[ends[:-1]]).all()


def test_the_same_sample_gives_the_same_answer() -> None:
    sample = events(3000, seed=10, jumps={0.5: (1.0, 0.3)})
    assert last_change(sample, seed=1) == last_change(sample, seed=1)
