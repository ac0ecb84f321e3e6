"""Predictions as near to 0 and 1 as floats get: every warning is an error in tests, and no number leaves its range."""

import math

import numpy as np
import pytest
from numpy.typing import ArrayLike

from docs.generators.witness import witness_figure
from monitor.inference.interval import interval_of_norm
from monitor.maps import METHODS, apply_map, fit_map
from monitor.measures import MEASURES
from monitor.reports.evaluation.evaluate import evaluate_binary as evaluate
from monitor.reports.evaluation.evaluate import evaluate_classes
from monitor.reports.evaluation.local import evaluate_local
from monitor.reports.figures.reliability import reliability_diagram
from monitor.scores import ScoreTable
from monitor.scores.labelled import LabelledEvents
from tests.long import short_rows

EXTREMES = [0.0, 5e-324, 1e-310, 2.3e-308, 1e-300, 1e-160, 1e-17, float(np.nextafter(1.0, 0.0)), 1.0]
RNG = np.random.default_rng(5)
MIDDLE = RNG.random(60)
MIDDLE_Y = (RNG.random(60) < MIDDLE).astype(float)


@pytest.mark.parametrize("extreme", EXTREMES)
@pytest.mark.parametrize(("outcome", "weighted"), short_rows([(1.0, False), (0.0, False), (0.0, True)], 1))
def test_every_measure(extreme: float, outcome: float, weighted: bool) -> None:
    samples: list[tuple[ArrayLike, ArrayLike]] = [
        ([extreme] * 3, [outcome, 1.0 - outcome, outcome]),
        ([extreme] * 3 + [0.3, 0.7], [outcome, 1.0 - outcome, outcome, 1.0, 0.0]),
        (np.append(MIDDLE, [extreme] * 20), np.append(MIDDLE_Y, [outcome] * 20)),
    ]
    slow = {"dce_lower": MEASURES["dce_lower"]}  # a linear program for each draw: they are made below, once
    chosen = {
        name: one for name, one in MEASURES.items() if name not in slow and not (weighted and one.needs_whole_counts)
    }
    for p, y in samples:
        weight = np.linspace(0.5, 1.5, np.size(p)) if weighted else None
        for measures, draws in ((chosen, 19), (slow, 0)):
            for name, result in evaluate(p, y, weight=weight, measures=measures, draws=draws).measures.items():
                assert math.isfinite(result.value), name
                assert result.lower is None or result.upper is None or 0.0 <= result.lower <= result.upper, name


def test_all_of_them_at_once_in_reports_and_figures() -> None:
    p = np.concatenate([np.repeat(EXTREMES, 10), MIDDLE])
    y = np.concatenate([np.tile([0.0, 1.0], 5 * len(EXTREMES)), MIDDLE_Y])
    report = evaluate(p, y, measures=MEASURES, draws=19)
    assert report.measures["smce"].value > 0.0
    of_classes = evaluate_classes(np.column_stack([p / 2.0, p / 2.0, 1.0 - p]), np.where(y == 1.0, 0, 2), draws=19)
    assert len(of_classes.each_class) == 3
    assert evaluate_local(p, y, {"p": p}, draws=0).n == p.size
    table = ScoreTable.from_events(p, y)
    assert witness_figure(table).axes
    assert reliability_diagram(table).axes


@pytest.mark.parametrize("name", [name for name, method in METHODS.items() if method.binary])
def test_every_map(name: str) -> None:
    p = np.concatenate([np.repeat(EXTREMES, 40), np.tile(MIDDLE, 4)])
    y = np.concatenate([np.tile([0.0, 1.0], 20 * len(EXTREMES)), np.tile(MIDDLE_Y, 4)])
    features = RNG.random((p.size, 2))
    segments = {"region": np.tile(["eu", "us"], p.size // 2)}
    method = METHODS[name]
    options = {"segment": "region"} if "segment" in method.options else {}
    events = LabelledEvents.of(p, y, features=features, segments=segments)
    after = apply_map(fit_map(method, events, options), p, features=features, segments=segments)
    assert ((after >= 0.0) & (after <= 1.0)).all()


@pytest.mark.parametrize("unit", [2.0**-1000, 2.0**-300, 1.0, 2.0**300, 2.0**600])
def test_the_interval_of_a_norm_has_no_unit(unit: float) -> None:
    distance = np.random.default_rng(3).gamma(4.0, size=99)
    expected = np.array(interval_of_norm(9.0, distance, 1.2))
    np.testing.assert_array_equal(interval_of_norm(9.0 * unit, distance * unit, 1.2 * unit), expected * unit)
