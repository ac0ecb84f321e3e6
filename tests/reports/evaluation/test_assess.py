from dataclasses import replace

import numpy as np
import pytest

from monitor.errors import InputError, NotEnoughData, SettingsError
from monitor.inference import coarsen, interval, null_level
from monitor.measures import MEASURES, REPORT_MEASURES
from monitor.reports.evaluation.assess import FILE_MINIMUM, Minimum, assess, uncertainty
from monitor.reports.evaluation.report import MeasureResult
from monitor.scores import ScoreTable
from tests.windows.memory import calibrated


def table(positives: int, negatives: int) -> ScoreTable:
    n = positives + negatives
    return ScoreTable.from_events(np.linspace(0.1, 0.9, n), np.arange(n) < positives)


@pytest.mark.parametrize(
    ("positives", "negatives", "reason"),
    [
        (0, 0, "no prediction has an outcome: at least 100 are needed"),
        (6, 6, "only 12 of at least 100 predictions have an outcome"),
        (50, 49, "only 99 of at least 100 predictions have an outcome"),
        (0, 200, "no positives: at least 5 are needed"),
        (4, 200, "only 4 positives: at least 5 are needed"),
        (200, 0, "no negatives: at least 5 are needed"),
        (200, 3, "only 3 negatives: at least 5 are needed"),
    ],
)
def test_too_little_is_said_in_words_and_never_zero(positives: int, negatives: int, reason: str) -> None:
    found = assess(table(positives, negatives), draws=0)
    assert found.insufficient == reason
    assert found.measures == {}


@pytest.mark.parametrize(("positives", "negatives"), [(5, 95), (95, 5), (50, 50)])
def test_just_enough_is_enough(positives: int, negatives: int) -> None:
    found = assess(table(positives, negatives), draws=0)
    assert found.insufficient is None
    assert set(found.measures) == set(REPORT_MEASURES)


@pytest.mark.parametrize(("name", "value"), [("events", 0), ("positives", -1), ("negatives", -1)])
def test_a_minimum_that_makes_no_sense(name: str, value: int) -> None:
    with pytest.raises(SettingsError, match=f"minimum {name} must be at least {max(value + 1, 0)}, got {value}"):
        replace(Minimum(), **{name: value})


def test_values_are_of_the_raw_table_and_draws_of_its_cells() -> None:
    p, y = calibrated(20_000, seed=1, slope=1.4)
    raw = ScoreTable.from_events(p, y)
    assert coarsen(raw).rows < raw.rows
    found = assess(raw, draws=99)
    levels = null_level(raw, MEASURES.values(), draws=99)
    for name, result in found.measures.items():
        measure, level = MEASURES[name], levels[name]
        assert result.value == measure.value(raw)
        assert result.error_bound == 0.0
        assert (result.null_mean, result.null_q95, result.p_value) == (level.mean, level.q95, level.p_value)
        expected = interval(raw, measure, draws=99)
        assert result.lower == pytest.approx(expected.lower, abs=1e-12)
        assert result.upper == pytest.approx(expected.upper, abs=1e-12)
    assert found.measures["smce"].p_value == 1 / 100


def test_what_was_found_of_one_value_says_something_of_the_next() -> None:
    raw = ScoreTable.from_events(*calibrated(400, seed=4))
    measure = MEASURES["smce"]
    found = uncertainty(raw, {"smce": measure}, {"smce": measure.value(raw)}, draws=99)["smce"]
    assert found.level is not None
    for value in (0.0, found.level.mean, found.level.q95, np.nextafter(found.level.q95, 1.0) + 1e-9, 0.9, 1.0):
        result = found.add_to(MeasureResult(value, "ratio"))
        assert result.p_value == (1 + (found.level.law >= value * (1 - 1e-9)).sum()) / 100
        assert result.p_value is not None
        assert (value > found.level.q95) == (result.p_value <= 0.05)
        assert result.lower is not None
        assert result.upper is not None
        assert 0.0 <= result.lower <= value <= result.upper <= 1.0


def test_a_seed_can_be_given() -> None:
    raw = ScoreTable.from_events(*calibrated(500, seed=2))
    assert assess(raw, seed=1) == assess(raw, seed=1)
    assert assess(raw, seed=1) != assess(raw, seed=2)
    assert assess(raw) == assess(raw)


def test_draws_are_none_or_enough() -> None:
    raw = ScoreTable.from_events(*calibrated(500, seed=2))
    with pytest.raises(InputError, match="draws must be a whole number of at least 19, got 5"):
        assess(raw, draws=5)


def test_weights_have_values_and_their_uncertainty() -> None:
    p, y = calibrated(500, seed=3)
    plain = assess(ScoreTable.from_events(p, y), draws=99, seed=1)
    found = assess(ScoreTable.from_events(p, y, np.full(500, 0.5)), draws=99, seed=1)
    assert "tce" not in found.measures
    for name, result in found.measures.items():
        # Only ratios of weights matter.
        for part in ("value", "lower", "upper", "null_mean", "null_q95", "p_value"):
            assert getattr(result, part) == pytest.approx(getattr(plain.measures[name], part), rel=1e-9), name


def test_progress_goes_from_nothing_to_all() -> None:
    seen: list[float] = []
    assess(ScoreTable.from_events(*calibrated(500, seed=3)), draws=450, progress=seen.append)
    assert seen == sorted(seen)
    assert 0.0 < seen[0] < 0.1
    assert seen[-1] == 1.0


def test_a_measure_that_is_not_defined_is_left_out() -> None:
    def refuse(_: ScoreTable) -> float:
        raise NotEnoughData("kce wants more")

    raw = table(50, 50)
    undefined = {
        "kce": replace(MEASURES["kce"], value=refuse),
        "smce": replace(MEASURES["smce"], value=lambda _: float("nan")),
    }
    found = assess(raw, measures={**undefined, "intce": MEASURES["intce"]})
    assert set(found.measures) == {"intce"}
    assert found.insufficient is None
    found = assess(raw, measures=undefined)
    assert found.measures == {}
    assert found.insufficient == "kce: kce wants more; smce: not finite on these data"


def test_data_that_is_handed_over_is_measured_from_two_outcomes_on() -> None:
    assert assess(table(1, 0), minimum=FILE_MINIMUM).insufficient == "only 1 of at least 2 predictions have an outcome"
    assert assess(table(2, 0), minimum=FILE_MINIMUM).measures
