"""Reports of many classes: what is in them, and that their uncertainty is honest."""

import json
from dataclasses import replace
from itertools import permutations
from typing import Any

import numpy as np
import pytest

from monitor.classes import CLASS_MEASURES
from monitor.errors import InputError
from monitor.measures import MEASURES, REPORT_MEASURES, WINDOW_MEASURES
from monitor.reports.evaluation.assess import Minimum
from monitor.reports.evaluation.evaluate import evaluate_binary as evaluate
from monitor.reports.evaluation.evaluate import evaluate_classes
from monitor.reports.evaluation.report import MeasureResult
from monitor.scores import ClassTable, ScoreTable
from tests.reference.naive_classes import simulated

SHORT = {name: MEASURES[name] for name in ("kce", "ece")}
NORMS = {name: measure for name, measure in CLASS_MEASURES.items() if measure.prepare is not None}


def p_value_of(result: MeasureResult) -> float:
    assert result.p_value is not None
    return result.p_value


def test_a_report_holds_vectors_top_label_and_each_class() -> None:
    p, y = simulated(1, 400, 3, 1.5)
    report = evaluate_classes(p, y, model="shapes", version="2", segment="eu", time_ms=np.arange(400) + 5000)
    table = ClassTable.from_events(p, y)
    assert (report.n, report.classes) == (400, 3)
    assert report.prevalence == pytest.approx(np.bincount(y, minlength=3) / 400)
    assert report.mean_prediction == pytest.approx(p.mean(axis=0))
    assert report.accuracy == pytest.approx((p.argmax(axis=1) == y).mean())
    assert list(report.measures) == list(CLASS_MEASURES)
    for name, result in report.measures.items():
        assert result.value == pytest.approx(CLASS_MEASURES[name].value(table), abs=1e-12)
        assert result.lower is not None
        assert result.upper is not None
        assert result.null_q95 is not None
        assert result.p_value is not None
        assert result.lower <= result.value <= result.upper
        assert (result.value > result.null_q95) == (result.p_value <= 0.05)
    assert report.measures["skce"].method == "exact, all pairs of events"
    assert list(report.top_label.measures) == list(REPORT_MEASURES)
    assert [list(each.measures) for each in report.each_class] == [list(WINDOW_MEASURES)] * 3
    about: dict[str, Any] = {
        "model": "shapes",
        "version": "2",
        "segment": "eu",
        "time_ms": np.arange(400) + 5000,
        "draws": 199,
    }
    prediction = table.prediction
    alone = evaluate(prediction.max(axis=1), prediction.argmax(axis=1) == y, **about)
    assert report.top_label == replace(alone, performance=None)
    assert report.each_class[2] == evaluate(
        prediction[:, 2], y == 2, measures=WINDOW_MEASURES, **about | {"segment": "eu, class=2"}
    )
    for name, mean in report.classwise.items():
        for field in ("value", "lower", "upper"):
            each = [getattr(one.measures[name], field) for one in report.each_class]
            if field != "lower" or name == "tce" or (mean.p_value or 0.0) <= 0.05:
                assert getattr(mean, field) == pytest.approx(np.mean(each))
            else:
                assert mean.lower == 0.0
        assert mean.null_mean == pytest.approx(
            np.mean([one.measures[name].null_mean or 0.0 for one in report.each_class]), rel=0.15
        )


def test_the_report_of_a_class_is_that_of_its_column_for_any_order_of_columns() -> None:
    """Few distinct scores, on the edges of bins: moved by a last bit, ties are split and bins change."""
    rng = np.random.default_rng(8)
    votes = np.stack([rng.multinomial(10, share) for share in rng.dirichlet(np.ones(3), 600)])
    p = votes / 10.0
    y = (rng.random(600)[:, None] > p.cumsum(axis=1)[:, :2]).sum(axis=1)
    assert len(set(p.sum(axis=1).tolist())) > 1
    chosen = {name: MEASURES[name] for name in ("ece", "ece_quantile", "tce", "smce", "kce")}
    of_columns = [evaluate(p[:, k], y == k, measures=chosen, draws=19) for k in range(3)]
    for order in permutations(range(3)):
        place = np.argsort(order)
        report = evaluate_classes(p[:, order], place[y], each_class=chosen, draws=19)
        for at, k in enumerate(order):
            assert replace(report.each_class[at], segment=of_columns[k].segment) == of_columns[k]


def test_the_mean_over_the_classes_of_a_calibrated_model_may_be_nothing() -> None:
    """The mean of ends that are cut off at 0 lies above 0 wherever one of them does."""
    chosen = {name: MEASURES[name] for name in ("ece", "binned_ece_width", "brier")}
    lifted = excluded = 0
    for seed in range(40):
        rng = np.random.default_rng([61, seed])
        p = rng.dirichlet(np.ones(4), 200)
        y = (np.cumsum(p, axis=1) < rng.random(200)[:, None]).sum(axis=1)
        report = evaluate_classes(p, y, class_measures={}, measures={}, each_class=chosen, draws=39)
        found = report.classwise["ece"]
        assert found.lower is not None
        assert found.p_value is not None
        assert (found.lower > 0.0) <= (found.p_value <= 0.05)
        lifted += any((each.measures["ece"].lower or 0.0) > 0.0 for each in report.each_class)
        excluded += found.lower > 0.0
        within = report.classwise["binned_ece_width"]
        width = MEASURES["binned_ece_width"].smallest
        if (within.p_value or 0.0) > 0.05:
            tables = [ScoreTable.from_events(p[:, label], y == label) for label in range(4)]
            assert (within.lower or 0.0) <= np.mean([width(table) for table in tables]) + 1e-12
    assert excluded < lifted


def test_a_report_as_json() -> None:
    report = evaluate_classes(*simulated(1, 60, 3), each_class=SHORT, measures=SHORT, draws=19)
    shown = json.loads(json.dumps(report.to_dict()))
    assert shown["classes"] == 3
    assert shown["model"] == "unnamed"
    assert shown["n"] == 60
    assert shown["measures"]["skce"]["method"] == "exact, all pairs of events"
    assert shown["classwise"]["ece"]["value"] == report.classwise["ece"].value
    assert shown["top_label"] == report.top_label.to_dict()
    assert shown["each_class"] == [each.to_dict() for each in report.each_class]


def test_neither_the_order_of_events_nor_a_second_run_changes_anything() -> None:
    p, y = simulated(1, 300, 3)
    order = np.random.default_rng(0).permutation(300)
    options: dict[str, Any] = {"measures": SHORT, "each_class": SHORT, "draws": 99}
    assert evaluate_classes(p, y, **options) == evaluate_classes(p[order], y[order], **options)
    other = evaluate_classes(p, y, seed=7, **options)
    assert other.measures["sce"].null_mean != evaluate_classes(p, y, **options).measures["sce"].null_mean
    assert other.measures["sce"].value == evaluate_classes(p, y, **options).measures["sce"].value


def test_an_outcome_that_is_not_known_counts_as_a_prediction_only() -> None:
    p, y = simulated(1, 50, 3)
    with_unknown = evaluate_classes(np.vstack([p, p[:5]]), [*y.tolist(), *[float("nan")] * 5], draws=19)
    report = evaluate_classes(p, y, draws=19)
    assert with_unknown.measures == report.measures
    assert with_unknown.top_label.predictions == 55
    assert with_unknown.n == 50
    assert with_unknown.top_label.measures == report.top_label.measures


def test_nothing_and_too_little_say_so() -> None:
    nothing = evaluate_classes(np.empty((0, 3)), [])
    assert nothing.insufficient == "there are no predictions"
    assert (nothing.measures, nothing.classwise, nothing.prevalence, nothing.accuracy) == ({}, {}, (), None)
    unknown = evaluate_classes([[0.2, 0.3, 0.5]], [float("nan")])
    assert unknown.insufficient == "no prediction has an outcome: at least 2 are needed"
    few = evaluate_classes(*simulated(1, 60, 3), minimum=Minimum(), draws=19)
    assert few.insufficient == "only 60 of at least 100 predictions have an outcome"
    assert few.measures == {}
    eight = evaluate_classes(*simulated(1, 8, 3), draws=19)
    assert eight.insufficient is None
    assert eight.omitted == {"canonical_ece": "canonical ECE in bins of 10 needs at least 10 events, got 8"}
    assert "canonical_ece" not in eight.measures


def test_a_class_of_too_little_data_is_left_out_of_the_mean() -> None:
    p, y = simulated(1, 300, 3)
    y[y == 2] = 0
    report = evaluate_classes(p, y, minimum=Minimum(), each_class=SHORT, measures=SHORT, draws=19)
    assert report.each_class[2].insufficient == "no positives: at least 5 are needed"
    kept = [each.measures["ece"].value for each in report.each_class[:2]]
    assert report.classwise["ece"].value == pytest.approx(np.mean(kept))


def test_without_draws_there_are_values_alone_but_for_skce() -> None:
    report = evaluate_classes(*simulated(1, 100, 3), draws=0)
    assert report.measures["skce"].p_value is not None
    for name in NORMS:
        assert report.measures[name].p_value is None
        assert report.measures[name].upper is None
    assert all(result.p_value is None for result in report.classwise.values())


def test_single_classes_can_be_left_out() -> None:
    report = evaluate_classes(*simulated(1, 100, 40), each_class={}, measures=SHORT, draws=19)
    assert report.each_class == ()
    assert report.classwise == {}
    assert report.measures["sce"].p_value is not None


def test_levels_of_many_predictions_are_drawn_on_cells_and_are_of_the_raw_ones() -> None:
    """Beyond 5,158 distinct predictions; the level of intCE, which feels the cells, is moved accordingly."""
    chosen = {name: MEASURES[name] for name in ("ece", "intce")}
    report = evaluate_classes(*simulated(1, 6000, 2), class_measures={}, measures={}, each_class=chosen, draws=39)
    for name in chosen:
        each = [one.measures[name].null_mean or 0.0 for one in report.each_class]
        assert report.classwise[name].null_mean == pytest.approx(np.mean(each), rel=0.12)


@pytest.mark.long
def test_p_values_of_calibrated_models_are_uniform() -> None:
    few = {name: MEASURES[name] for name in ("kce", "smce")}
    found: dict[str, list[float]] = {}
    for seed in range(120):
        report = evaluate_classes(*simulated(seed, 120, 3), measures={}, each_class=few, draws=39)
        for name, result in [*report.measures.items(), *report.classwise.items()]:
            found.setdefault(name, []).append(p_value_of(result))
    for name, p_values in found.items():
        # Some 5% of 120 are 6, at most 14 with a probability of .999.
        assert np.mean(np.array(p_values) <= 0.05) <= 0.12, name
        assert 0.4 <= np.mean(p_values) <= 0.6, name


def test_p_values_of_a_model_that_is_too_sure_are_small() -> None:
    few = {name: MEASURES[name] for name in ("kce", "smce")}
    report = evaluate_classes(*simulated(1, 3000, 4, 2.0), measures={}, each_class=few, draws=99)
    p_values = {name: p_value_of(result) for name, result in [*report.measures.items(), *report.classwise.items()]}
    assert p_values.pop("mce") < 0.5  # the largest gap of fifteen bins is a noisy thing
    assert max(p_values.values()) <= 0.02, p_values


def test_intervals_cover_the_error() -> None:
    """The error of data without end, of a model that is too sure by far."""
    bins = {name: NORMS[name] for name in ("mmce", "top_label_ece", "sce")}
    large = ClassTable.from_events(*simulated(999, 200_000, 3, 2.0))
    truth = {name: measure.value(large) for name, measure in bins.items()}
    covered = dict.fromkeys(bins, 0)
    for seed in range(60):
        report = evaluate_classes(
            *simulated(seed, 400, 3, 2.0), class_measures=bins, measures={}, each_class={}, draws=99
        )
        for name, result in report.measures.items():
            assert result.lower is not None
            assert result.upper is not None
            covered[name] += result.lower <= truth[name] <= result.upper
    assert all(count >= 54 for count in covered.values()), covered


def test_what_is_wrong_is_named() -> None:
    for p, y, message in (
        ([[0.5, 0.6]], [0], "p must add up to 1 over the classes, got 1.1 in row 0"),
        ([[0.5, 0.5]], [2], "y must be a class from 0 to 1, got 2 in row 0"),
        ([[0.5, 0.5]], ["a"], "y must be numbers"),
        ([0.5, 0.5], [0, 1], r"p must have the shape \(events, classes\)"),
    ):
        with pytest.raises(InputError, match=message):
            evaluate_classes(p, y)
    with pytest.raises(InputError, match="draws must be 0 or at least 19, got 5"):
        evaluate_classes([[0.5, 0.5]], [0], draws=5)


def test_progress_rises_to_the_whole() -> None:
    told: list[float] = []
    evaluate_classes(*simulated(1, 100, 3), each_class=SHORT, measures=SHORT, draws=19, progress=told.append)
    assert told == sorted(told)
    assert told[-1] == 1.0


@pytest.mark.parametrize("name", ["top_label_ece", "sce", "ace", "tace", "rmsce"])
def test_the_interval_of_a_model_that_is_off_is_no_wider_than_its_witness_varies(name: str) -> None:
    """From the norm of the bootstrap's errors alone it is 1.5 to 4 times as wide."""
    p, y = simulated(5, 3000, 3, 1.5)
    measure = NORMS[name]
    found = evaluate_classes(p, y, class_measures={name: measure}, measures={}, each_class={}, draws=99).measures[name]
    assert found.lower is not None
    assert found.upper is not None
    assert found.lower <= found.value <= found.upper
    assert measure.prepare is not None
    spread = float(np.linalg.norm(measure.prepare(ClassTable.from_events(p, y)).shares()))
    assert found.upper - found.lower <= 1.45 * 2.0 * 1.96 * spread


def test_what_chance_gives_a_calibrated_model_is_not_certainly_above_0() -> None:
    """In many bins of ten events the bootstrap varies too little: a third of samples of 3,000 events had it so."""
    chosen = {name: NORMS[name] for name in ("canonical_ece", "top_label_ece")}
    for seed in range(6):
        found = evaluate_classes(
            *simulated(seed, 3000, 3), class_measures=chosen, measures={}, each_class={}, draws=39, seed=1
        ).measures
        for name, result in found.items():
            assert result.lower is not None
            if p_value_of(result) > 0.05:
                assert result.lower == 0.0, (name, seed)
    sure = evaluate_classes(
        *simulated(1, 3000, 3, 2.0), class_measures=chosen, measures={}, each_class={}, draws=39
    ).measures
    assert all(result.lower is not None and result.lower > 0.0 for result in sure.values())
