import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import expit

from monitor.recalibration.guard import MIN_E_VALUE, Guard, LocalExcess, MapEvidence, events_until, judge, weigh
from monitor.sequential.serving_map import SHARES
from tests.reference.naive_guard import naive_e_value

Floats = NDArray[np.float64]


def evidence(log10_e: float, value: float = -0.01, radius: float = 0.001) -> MapEvidence:
    e_value = 10.0 ** min(log10_e, 300.0)
    return MapEvidence(e_value, log10_e, value, value - radius, value + radius, None)


def judged(
    serving: MapEvidence, none: MapEvidence | None = None, local: tuple[float, float] | None = None, sd: float = 0.01
) -> Guard:
    return judge(
        against="none",
        against_serving=serving,
        against_none=none or serving,
        events=2400,
        local=None if local is None else LocalExcess(local[0], sd),
        local_serving=None if local is None else LocalExcess(local[1], sd),
    )


@given(seed=st.integers(0, 10_000), n=st.integers(1, 30), classes=st.sampled_from([1, 2, 3, 5]), weighted=st.booleans())
def test_evidence_is_the_mean_of_products_event_by_event(seed: int, n: int, classes: int, weighted: bool) -> None:
    rng = np.random.default_rng(seed)
    p, q = (rng.dirichlet(np.ones(max(classes, 2)), n) for _ in range(2))
    y = rng.integers(0, max(classes, 2), n)
    w = rng.exponential(1.0, n) if weighted else np.ones(n)
    if classes == 1:
        p, q = p[:, 1], q[:, 1]
    assert weigh(p, q, y, w).e_value == pytest.approx(naive_e_value(p, q, y, w), rel=1e-9)


def test_two_columns_say_what_one_does() -> None:
    rng = np.random.default_rng(1)
    p, q, y = rng.random(50), rng.random(50), rng.integers(0, 2, 50)
    one = weigh(p, q, y, np.ones(50))
    two = weigh(np.stack([1.0 - p, p], 1), np.stack([1.0 - q, q], 1), y, np.ones(50))
    assert two.log10_e == pytest.approx(one.log10_e)
    assert two.brier_difference == pytest.approx(one.brier_difference)
    assert two.log_loss_difference is not None
    assert one.log_loss_difference is not None
    assert two.log_loss_difference.lower == pytest.approx(one.log_loss_difference.lower)


@pytest.mark.parametrize("weights", [(1.0, 1.0, 1.0), (3.0, 1.0, 0.5)])
def test_the_mean_of_e_is_at_most_1_where_the_challenger_is_not_better(weights: tuple[float, ...]) -> None:
    """Over all outcomes, each as likely as the truth has it: exactly, for three events."""
    truth, w = np.array([0.2, 0.5, 0.9]), np.array(weights)
    rng = np.random.default_rng(2)
    for _ in range(50):
        p, q = rng.random(3), rng.random(3)
        # Expected loss differences are (p - t)^2 - (q - t)^2: the worse of the two is the challenger.
        if w @ ((p - truth) ** 2 - (q - truth) ** 2) > 0.0:
            p, q = q, p
        mean = 0.0
        for outcome in product((0, 1), repeat=3):
            y = np.array(outcome)
            mean += float(np.prod(np.where(y == 1, truth, 1.0 - truth))) * weigh(p, q, y, w).e_value
        assert mean <= 1.0 + 1e-12


def test_evidence_beyond_all_floats_is_kept_by_its_logarithm() -> None:
    n = 20_000
    y = np.arange(n) % 2
    oracle = y.astype(np.float64)
    found = weigh(np.full(n, 0.5), oracle, y, np.ones(n))
    # It gains .25 each time, and would lose .75 if it were wrong.
    expected = n * math.log10(1.0 + 0.9 / 0.75 * 0.25) - math.log10(2 * len(SHARES))
    assert found.log10_e == pytest.approx(expected, rel=1e-6)
    assert found.e_value == pytest.approx(1e300)
    back = weigh(oracle, np.full(n, 0.5), y, np.ones(n))
    # The smallest stake loses least.
    assert back.log10_e == pytest.approx(n * math.log10(1.0 - 0.05 * 0.25) - math.log10(8), rel=1e-3)
    assert back.e_value < 1e-50


def test_equal_maps_have_no_evidence() -> None:
    p, y = np.array([0.1, 0.7]), np.array([0, 1])
    found = weigh(p, p, y, np.ones(2))
    assert found.log10_e == pytest.approx(0.0)
    assert (found.lower, found.brier_difference, found.upper) == (0.0, 0.0, 0.0)


def test_the_interval_of_a_difference_covers() -> None:
    rng = np.random.default_rng(3)
    held = 0
    for _ in range(400):
        t = rng.beta(2.0, 2.0, 400)
        w = rng.exponential(1.0, 400)
        p, q, y = np.clip(t + 0.1, 0.0, 1.0), t, (rng.random(400) < t).astype(np.int64)
        true = float((w @ ((q - t) ** 2 - (p - t) ** 2)) / w.sum())
        evidence = weigh(p, q, y, w)
        held += evidence.lower <= true <= evidence.upper
    assert 0.92 <= held / 400 <= 0.98


def test_an_infinite_log_loss_is_no_difference() -> None:
    found = weigh(np.array([0.5, 0.0]), np.array([0.5, 0.2]), np.array([1, 1]), np.ones(2))
    assert found.log_loss_difference is None


def exact_loss(prediction: float | list[float], outcome: int) -> Fraction:
    if isinstance(prediction, float):
        return (outcome - Fraction(prediction)) ** 2
    return sum((((k == outcome) - Fraction(one)) ** 2 for k, one in enumerate(prediction)), Fraction(0)) / 2


@pytest.mark.parametrize("classes", [1, 4])
def test_predictions_that_differ_by_their_last_bits_have_evidence_of_what_differs(classes: int) -> None:
    """Differences of their squares are rounding, larger than what can be lost: products would have factors below 0."""
    rng = np.random.default_rng(4)
    p = rng.random(300) if classes == 1 else rng.dirichlet(np.ones(classes), 300)
    q = np.nextafter(p, rng.integers(0, 2, p.shape))
    y = rng.integers(0, max(classes, 2), 300)
    pairs = list(zip(p.tolist(), q.tolist(), strict=True))
    most = max(exact_loss(new, k) - exact_loss(old, k) for old, new in pairs for k in range(max(classes, 2)))
    gains = [
        float((exact_loss(old, k) - exact_loss(new, k)) / most) for (old, new), k in zip(pairs, y.tolist(), strict=True)
    ]
    products = [math.prod(1.0 + share * gain for gain in gains) for share in SHARES]
    # The bets on the largest weight neither win nor lose: each is worth 1.
    wanted = (sum(products) + len(SHARES)) / (2 * len(SHARES))
    assert weigh(p, q, y, np.ones(300)).e_value == pytest.approx(wanted, rel=1e-9)


def test_who_can_lose_nothing_worth_a_float_stakes_nothing_on_it() -> None:
    found = weigh(np.zeros(5), np.full(5, 1e-160), np.zeros(5, np.int64), np.ones(5))
    assert found.log10_e == 0.0


def test_20_is_enough_and_less_is_not() -> None:
    passed = judged(evidence(math.log10(20.0) + 1e-9))
    assert passed.passed
    assert passed.reasons == (
        (
            "Better than no map: on 2,400 later events its Brier score is 0.01 lower "
            "(95% interval of the difference -0.011 to -0.009), evidence E = 20, where at least 20 is needed."
        ),
    )
    refused = judged(evidence(math.log10(20.0) - 1e-3))
    assert not refused.passed
    assert refused.reasons[0].startswith("Not evidently better than no map: ")
    # The interval lies below 0.
    assert refused.reasons[0].endswith(" the evidence decides, as it holds however often maps are compared.")
    assert judged(evidence(0.0, radius=0.02)).reasons[0].endswith(", and at least 20 is needed.")
    assert judged(evidence(57.3)).reasons[0].count("E = 10^57") == 1


@pytest.mark.parametrize(
    ("e_value", "told"), [(0.556, "0.56"), (9.96, "10"), (57.3, "57"), (99.66, "100"), (1e5, "100,000")]
)
def test_evidence_is_told_without_powers_below_a_million(e_value: float, told: str) -> None:
    assert f"evidence E = {told}, " in judged(evidence(math.log10(e_value))).reasons[0]


def test_a_map_better_than_the_champion_and_worse_than_none_is_refused() -> None:
    refused = judged(evidence(5.0), evidence(-5.0, value=0.02))
    assert not refused.passed
    assert refused.reasons == (
        "Evidently worse than no map at all: its Brier score is 0.02 higher (95% interval +0.019 to +0.021).",
    )
    assert judged(evidence(5.0), evidence(-1.0, value=0.0005)).passed  # the interval holds 0


def test_worse_among_events_alike_is_refused_beyond_chance() -> None:
    deviation = math.hypot(0.01, 0.01)
    assert judged(evidence(5.0), local=(0.05 + 0.99 * deviation, 0.05)).passed
    refused = judged(evidence(5.0), local=(0.05 + 1.01 * deviation, 0.05))
    assert not refused.passed
    assert refused.reasons == (
        (
            "Worse among events that are alike: the largest error there lies 0.064 above chance, "
            "that of no map 0.05 above it; up to 0.014 more would be chance."
        ),
    )


def test_all_that_speaks_against_it_is_said() -> None:
    refused = judged(evidence(-2.0, value=0.01), local=(0.5, 0.05))
    assert len(refused.reasons) == 3
    assert "0.01 higher" in refused.reasons[0]


@pytest.mark.parametrize(("offset", "n"), [(0.25, 20_000), (0.5, 6000), (1.0, 2000), (3.0, 500)])
def test_a_challenger_that_is_right_is_found_in_enough_data(offset: float, n: int) -> None:
    rng = np.random.default_rng(n)
    z = rng.normal(0.0, 1.0, n)
    y = (rng.random(n) < expit(z)).astype(np.int64)
    assert weigh(expit(z + offset), expit(z), y, np.ones(n)).reaches(MIN_E_VALUE)


@pytest.mark.parametrize(("slope", "events"), [(1.6, 400), (1.25, 3_000)])
def test_the_events_that_evidence_needs_are_foretold_about_right(slope: float, events: int) -> None:
    """From a sample too small to prove it: the median estimate against the median number at which E reaches 20."""
    rng = np.random.default_rng(11)
    foretold, reached = [], []
    for _ in range(40):
        z = rng.normal(size=20_000)
        true, said = expit(z), expit(slope * z)
        outcome = (rng.random(z.size) < true).astype(np.int64)
        weight = np.ones(z.size)
        first = said[:events], true[:events], outcome[:events], weight[:events]
        foretold.append(events_until(MIN_E_VALUE, *first) or 10**9)
        ends = np.unique(np.geomspace(20, z.size, 30).astype(int))
        logs = [weigh(said[:end], true[:end], outcome[:end], weight[:end]).log10_e for end in ends]
        reached.append(next((end for end, log in zip(ends, logs, strict=True) if log >= np.log10(MIN_E_VALUE)), 10**9))
    ratio = np.median(foretold) / np.median(reached)
    assert 0.6 <= ratio <= 1.7, (np.median(foretold), np.median(reached))


def test_no_number_of_events_proves_what_is_worse() -> None:
    p, outcome = np.full(200, 0.3), np.r_[np.ones(60), np.zeros(140)].astype(np.int64)
    wrong = np.full(200, 0.5)
    assert events_until(MIN_E_VALUE, p, wrong, outcome, np.ones(200)) is None
    # The same events three times bring just so much evidence.
    thrice = weigh(*(np.tile(column, 3) for column in (wrong, p, outcome, np.ones(200))))
    assert events_until(thrice.e_value, wrong, p, outcome, np.ones(200)) == pytest.approx(600, abs=1)
