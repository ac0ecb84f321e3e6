from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit

from monitor.errors import NotEnoughData
from monitor.recalibration.data import part_in_time, refit_data
from monitor.scores.labelled import LabelledEvents


def events(n: int, *, seed: int = 1, jump: float | None = None, rate: float | None = None) -> LabelledEvents:
    """A second apart; from the share ``jump`` on all logits are 1.5 too low."""
    rng = np.random.default_rng(seed)
    z = rng.normal(0.0, 1.2, n)
    true = z + (0.0 if jump is None else 1.5 * (np.arange(n) >= jump * n))
    y = rng.random(n) < (expit(true) if rate is None else rate)
    return LabelledEvents.of(
        expit(z),
        y.astype(int),
        weight=rng.exponential(1.0, n),
        time_ms=np.arange(n) * 1000,
        features=rng.normal(size=(n, 2)),
        segments={"region": rng.choice(["eu", "us"], n)},
    )


@given(
    times=st.lists(st.integers(0, 12), min_size=1, max_size=60),
    share=st.floats(0.01, 0.99),
)
def test_events_of_one_time_stay_together(times: list[int], share: float) -> None:
    n = len(times)
    p = np.linspace(0.0, 1.0, n)
    sample = LabelledEvents.of(p, np.zeros(n), time_ms=times)
    fit, held = part_in_time(sample, share)
    assert len(fit) + len(held) == n
    assert sorted([*fit.prediction, *held.prediction]) == p.tolist()
    if len(fit) and len(held):
        assert fit.time_ms[-1] < held.time_ms[0]
    # No other place between two times is nearer to what is wanted.
    wanted = round(n * (1.0 - share))
    ordered = sorted(times)
    places = [0, n, *(k for k in range(1, n) if ordered[k - 1] < ordered[k])]
    assert abs(len(fit) - wanted) == min(abs(k - wanted) for k in places)


def test_the_latest_share_is_held_out() -> None:
    sample = events(1000)
    data = refit_data(sample)
    assert (len(data.fit), len(data.held_out)) == (700, 300)
    assert data.change is None
    assert data.held_out.time_ms[0] == 700_000
    assert data.fit.weight.mean() == pytest.approx(1.0)
    # What belongs to an event goes with it.
    assert (data.held_out.features == sample.features[700:]).all()  # type: ignore[index]
    assert (data.held_out.segments["region"] == sample.segments["region"][700:]).all()
    assert len(refit_data(sample, held_out=0.5).held_out) == 500


def test_a_window_reaches_back_from_the_newest_event() -> None:
    data = refit_data(events(2000), window_ms=1_000_000)
    assert data.fit.time_ms[0] == 1_000_000  # the window is half open: the event a whole window ago is out
    assert len(data.fit) + len(data.held_out) == 1000


def test_events_are_taken_since_a_time_and_within_the_window() -> None:
    sample = events(2000)
    since_ms = int(sample.time_ms[900])
    for window_ms, first_ms in ((None, since_ms), (1_000_000_000, since_ms), (1_000_000, 1_000_000)):
        data = refit_data(sample, window_ms=window_ms, since_ms=since_ms)
        assert (data.fit.time_ms[0], data.change) == (first_ms, None)
    with pytest.raises(NotEnoughData, match=r"\(100 since 1970-01-01T00:31:40.000Z\)"):
        refit_data(sample, since_ms=1_900_000)


def test_without_a_window_events_are_taken_since_the_last_change() -> None:
    sample = events(4000, jump=0.6)
    data = refit_data(sample)
    assert data.change is not None
    assert data.fit.time_ms[0] == data.change.time_ms
    assert abs(data.change.time_ms - 2_400_000) < 100_000
    assert data.notes == ()
    assert refit_data(sample, window_ms=10_000_000).change is None


def test_a_change_with_too_little_since_is_taken_as_none_and_said() -> None:
    sample = events(3000, jump=0.93)
    data = refit_data(sample)
    assert data.change is None
    assert data.passed_over is not None
    assert abs(data.passed_over.time_ms - 2_790_000) < 70_000
    assert len(data.fit) + len(data.held_out) == 3000
    (note,) = data.notes
    assert note.startswith("Calibration seems to have changed at 1970-01-01 00:4")
    assert "held out (" in note
    assert "since the change), at least 100 are needed." in note


def test_an_earlier_change_counts_where_there_is_too_little_since_the_last() -> None:
    first = events(4000, jump=0.5)
    turned = first.outcome.copy()
    turned[3750:] = 1 - turned[3750:]
    sample = replace(first, outcome=turned)
    data = refit_data(sample)
    assert data.change is not None
    assert data.passed_over is not None
    assert abs(data.change.row - 2000) < 100
    assert abs(data.passed_over.row - 3750) < 50
    assert data.fit.time_ms[0] == data.change.time_ms
    assert len(data.notes) == 1


def test_too_little_is_said_with_numbers() -> None:
    with pytest.raises(NotEnoughData, match="there is no labelled event"):
        refit_data(events(0))
    with pytest.raises(NotEnoughData, match=r"70 labelled events to fit on \(100 in all\), at least 100 are needed"):
        refit_data(events(100))
    with pytest.raises(NotEnoughData, match=r"60 labelled events held out \(200 in all\), at least 100"):
        refit_data(events(200))
    with pytest.raises(NotEnoughData, match=r"84 labelled events to fit on \(120 of the window\)"):
        refit_data(events(1000), window_ms=120_000)
    with pytest.raises(NotEnoughData, match=r"^1 labelled event to fit on \(1 in all\), at least 100"):
        refit_data(events(1))
    with pytest.raises(NotEnoughData, match=r"only 0 of 1,400 labelled events to fit on \(2,000 in all\) have"):
        refit_data(events(2000, rate=0.0))
    with pytest.raises(NotEnoughData, match=r"only 0 of 700 .* have the outcome 1, at least 5 are needed"):
        refit_data(events(1000, rate=0.0))
    with pytest.raises(NotEnoughData, match=r"only 0 of 700 .* have the outcome 0, at least 5 are needed"):
        refit_data(events(1000, rate=1.0))


def test_all_of_one_time_cannot_be_parted() -> None:
    sample = events(1000)
    same = LabelledEvents.of(sample.prediction, sample.outcome, time_ms=np.zeros(1000, np.int64))
    with pytest.raises(NotEnoughData, match="0 labelled events"):
        refit_data(same)


def test_of_many_classes_hits_and_misses_count() -> None:
    rng = np.random.default_rng(2)
    p = rng.dirichlet(np.ones(3), 1000)
    with pytest.raises(NotEnoughData, match=r"only 0 of 700 .* have another class"):
        refit_data(LabelledEvents.of(p, p.argmax(axis=1)))
