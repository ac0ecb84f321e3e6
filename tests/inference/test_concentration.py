"""What holds without resampling."""

import numpy as np
import pytest

from monitor.errors import InputError, NotEnoughData
from monitor.inference import deviation_probability, deviation_radius
from monitor.measures import smce
from monitor.scores import ScoreTable


def test_the_bound_holds_of_samples() -> None:
    rng = np.random.default_rng(1)
    values = []
    for _ in range(400):
        p = rng.random(100)
        table = ScoreTable.from_events(p, rng.random(100) < p**2)
        values.append(smce(table))
    away = np.abs(np.array(values) - np.mean(values))
    for distance in (0.05, 0.1, 0.2, 0.3):
        assert (away >= distance).mean() <= deviation_probability(table, distance)


def test_the_radius_is_where_the_probability_is_the_level() -> None:
    table = ScoreTable.from_events(np.linspace(0.1, 0.9, 500), np.arange(500) % 2)
    assert deviation_probability(table, 0.1) == pytest.approx(2 * np.exp(-500 * 0.01 / 2))
    for level in (1.0, 0.05, 1e-6):
        assert deviation_probability(table, deviation_radius(table, level)) == pytest.approx(level)
    assert deviation_probability(table, 0.0) == 1.0


def test_equal_weights_count_as_events() -> None:
    p, y = np.linspace(0.1, 0.9, 50), np.arange(50) % 2
    plain = deviation_radius(ScoreTable.from_events(p, y))
    assert deviation_radius(ScoreTable.from_events(p, y, np.full(50, 3.0))) == pytest.approx(plain)
    unequal = np.where(np.arange(50) < 25, 1.0, 5.0)
    assert deviation_radius(ScoreTable.from_events(p, y, unequal)) > plain


def test_what_makes_no_sense_is_refused() -> None:
    table = ScoreTable.from_events([0.5], [1])
    with pytest.raises(InputError, match="distance must be at least 0, got -1"):
        deviation_probability(table, -1.0)
    with pytest.raises(InputError, match="level must be above 0 and at most 1, got 0"):
        deviation_radius(table, 0.0)
    with pytest.raises(NotEnoughData, match="at least 1 event, got 0"):
        deviation_radius(ScoreTable.from_events([], []))
