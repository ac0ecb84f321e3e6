"""The figures of a compared map: what there is of every kind of data, and the numbers they show."""

import json

import numpy as np
import pytest
from scipy.special import expit

from docs.generators.recalibration_example import example
from monitor.arrays import Floats
from monitor.local import local_calibration_error
from monitor.maps import METHODS, check_options, fit_map
from monitor.recalibration.compare import Candidate, compare
from monitor.recalibration.comparison import ComparedSegment, SegmentErrors
from monitor.recalibration.data import RefitData
from monitor.recalibration.refit_figures import (
    GAMMAS,
    MAX_SEGMENTS,
    gamma_curves,
    refit_figures,
    worst_segments,
)
from monitor.reports.diagrams.plane import plane_document
from monitor.scores.labelled import LabelledEvents
from tests.recalibration.samples import sample

NAMES = ["reliability", "mlce_by_gamma", "local_map", "segments"]


def compared(
    fit: LabelledEvents, held_out: LabelledEvents, method: str = "beta", *, champion: bool = False
) -> Candidate:
    serving = ("rc_0", fit_map(METHODS["offset"], fit)) if champion else None
    chosen = METHODS["temperature"] if fit.classes > 2 else METHODS[method]
    methods = [(chosen, check_options(chosen, {}))]
    (candidate,) = compare(RefitData(fit, held_out), methods, champion=serving, left_out={}, draws=0)
    return candidate


def rare() -> LabelledEvents:
    rng = np.random.default_rng(1)
    z = rng.normal(-5.0, 1.2, 3000)
    return LabelledEvents.of(
        expit(1.4 * z), (rng.random(3000) < expit(z)).astype(int), features=rng.normal(size=(3000, 3))
    )


@pytest.mark.parametrize(
    ("held_out", "champion", "names"),
    [
        (sample(2000), True, NAMES),
        (sample(2000, weighted=True), False, NAMES),
        (rare(), True, NAMES[:3]),
        (sample(2000, dimensions=1), False, ["reliability", "mlce_by_gamma", "segments"]),
        (sample(2000, dimensions=None), False, ["reliability", "segments"]),
        (sample(2000, classes=3), False, NAMES),
        # Of forty events no neighbourhood is worth fifty, and no segment is compared.
        (sample(40), True, ["reliability"]),
    ],
)
def test_there_is_a_figure_of_what_there_is(held_out: LabelledEvents, champion: bool, names: list[str]) -> None:
    candidate = compared(held_out, held_out, champion=champion)
    figures = refit_figures(candidate, held_out)
    assert list(figures) == names
    json.dumps(figures, allow_nan=False)
    labels = [choice["name"] for choice in figures["reliability"]["choices"]]
    assert labels == ["no map", *(["champion: offset"] if champion else []), f"new: {candidate.method.name}"]
    if "mlce_by_gamma" in figures:
        assert [line["name"] for line in figures["mlce_by_gamma"]["panels"][0]["lines"]] == labels
    if "local_map" in figures:
        assert [map_["name"] for map_ in figures["local_map"]["maps"]] == labels
    if "segments" in figures:
        assert ("serves now" in [column["heading"] for column in figures["segments"]["columns"]]) == champion


def test_a_figure_and_its_comparison_are_the_same_numbers() -> None:
    events = sample(3000, local=0.5)
    candidate = compared(events, events)
    figures = refit_figures(candidate, events)
    assert candidate.comparison is not None
    measured = figures["mlce_by_gamma"]["panels"][1]["lines"]
    at = figures["mlce_by_gamma"]["at"].index(0.4)
    maps = candidate.comparison.maps.by_name().values()
    assert [line["values"][at] for line in measured] == [
        pytest.approx(100.0 * report.local.mlce.value, rel=1e-3) for report in maps if report.local is not None
    ]
    for segment, row in zip(candidate.comparison.segments, figures["segments"]["rows"], strict=True):
        assert (row["hollow"], row["value"]) == pytest.approx((segment.none.smce, segment.challenger.smce), rel=1e-3)
        assert row["chance"] > 0.0


def test_a_curve_is_the_local_error_at_each_gamma() -> None:
    events = sample(2000, local=0.5)
    p, y, phi = events.prediction, events.outcome, events.features
    assert phi is not None
    curve = gamma_curves({"p": p}, y, phi, gammas=(0.4, 3.0), max_points=5000, draws=19, seed=5)["p"]
    for place, gamma in enumerate(curve.gamma.tolist()):
        alone = local_calibration_error(p, y, phi, gamma=gamma, draws=19, seed=5)
        assert curve.mlce[place] == pytest.approx(alone.mlce)
        assert alone.mlce_excess is not None
        # Draws of their own.
        assert curve.mlce[place] - curve.null_mean[place] == pytest.approx(alone.mlce_excess, abs=0.03)
    assert {0.2, 0.4} <= {round(gamma, 12) for gamma in GAMMAS}


def test_a_curve_has_no_value_where_neighbours_are_too_few() -> None:
    events = sample(2000)
    assert events.features is not None
    curves = gamma_curves(
        {"p": events.prediction}, events.outcome, events.features, gammas=(1e-3, 3.0), max_points=200, draws=19
    )
    assert np.isnan(curves["p"].mlce).tolist() == [True, False]


def test_errors_of_a_plane_count_events_by_their_weight() -> None:
    plane = np.random.default_rng(7).normal(size=(600, 2))
    p = {"a": np.full(600, 0.5), "b": np.full(600, 0.4)}
    y = (np.arange(600) % 2).astype(np.float64)

    def errors(weight: Floats | None = None) -> list[float]:
        document = plane_document(p, {"a": y, "b": y}, plane, weight, gamma=1e6)
        return [float(np.mean(map_["points"])) for map_ in document["maps"]]

    assert errors() == pytest.approx([0.0, -10.0], abs=0.1)
    # Positives count thrice: 75% of the stream came true.
    assert errors(1.0 + 2.0 * y) == pytest.approx([-25.0, -35.0], abs=0.1)


def test_a_coordinate_that_is_the_same_for_all_is_a_strip() -> None:
    rng = np.random.default_rng(1)
    plane = np.column_stack([rng.normal(size=600), np.full(600, 7.0)])
    document = plane_document({"p": np.full(600, 0.5)}, {"p": rng.integers(0, 2, 600).astype(float)}, plane)
    assert (document["y"]["from"], document["y"]["to"]) == pytest.approx((-0.5, 0.5))


def test_segments_that_became_worst_are_shown_too() -> None:
    def errors(smce: float) -> SegmentErrors:
        return SegmentErrors(smce=smce, ece=smce, mce=smce)

    segments = [
        ComparedSegment(
            segment=f"region={k:02d}",
            n=100,
            positives=50,
            none=errors(0.3 - 0.01 * k),
            champion=None,
            challenger=errors(0.01 * k),
        )
        for k in range(20)
    ]
    shown = [segment.segment for segment in worst_segments(segments)]
    assert len(shown) == MAX_SEGMENTS
    assert shown == [f"region={k:02d}" for k in [*range(8), *range(16, 20)]]


def test_the_example_of_the_documentation_is_repaired() -> None:
    found = example()
    assert found.best is not None
    figures = refit_figures(found.best, found.data.held_out)
    assert list(figures) == NAMES
    excess, _ = figures["mlce_by_gamma"]["panels"]
    at = figures["mlce_by_gamma"]["at"].index(0.4)
    before, after = (line["values"][at] for line in excess["lines"])
    chance = excess["chance"][at]
    assert after < chance < before
