import numpy as np
import pytest
from scipy.special import expit, logit

from monitor.errors import NotEnoughData
from monitor.inference.cox import fit_cox
from monitor.maps import METHODS, apply_map, fit_map
from monitor.maps.offset import Offset
from monitor.scores import ScoreTable
from monitor.scores.labelled import LabelledEvents
from tests.maps.drawn import binary_events, class_events, softmax_of
from tests.reference.naive_maps import least, mean_log_loss_of_classes, softmax_rows


def fitted(events: LabelledEvents) -> Offset:
    found = fit_map(METHODS["offset"], events)
    assert isinstance(found, Offset)
    return found


@pytest.mark.parametrize("offset", [-4.0, 0.3, 2.0])
def test_it_is_the_offset_of_the_diagnosis(offset: float) -> None:
    events = binary_events(700, slope=0.8, offset=offset, weighted=True)
    table = ScoreTable.from_events(events.prediction, events.outcome, events.weight)
    assert fitted(events).offset == pytest.approx([fit_cox(table).offset], abs=1e-10)


def test_as_many_are_expected_as_came_true() -> None:
    events = binary_events(500, slope=0.5, offset=1.0, weighted=True)
    after = apply_map(fitted(events), events.prediction)
    assert np.average(after, weights=events.weight) == pytest.approx(np.average(events.outcome, weights=events.weight))


def test_of_each_class_too() -> None:
    events = class_events(500, offsets=[1.0, 0.0, -1.0, 0.0], weighted=True)
    after = apply_map(fitted(events), events.prediction)
    came = np.bincount(events.outcome, events.weight, 4) / events.weight.sum()
    np.testing.assert_allclose(np.average(after, axis=0, weights=events.weight), came, atol=1e-10)


@pytest.mark.parametrize("seed", [1, 2])
def test_the_offsets_of_classes_are_those_of_the_least_log_loss(seed: int) -> None:
    events = class_events(200, classes=3, offsets=[1.0, 0.0, -1.0], seed=seed, weighted=True)
    z, y, w = np.log(events.prediction), events.outcome.tolist(), events.weight.tolist()
    b = least(lambda theta: mean_log_loss_of_classes(softmax_rows(z + np.r_[theta, 0.0]), y, w), [0.0, 0.0])
    b = np.r_[b, 0.0]
    np.testing.assert_allclose(fitted(events).offset, b - b.mean(), atol=1e-6)


@pytest.mark.parametrize("shift", [-2.0, 0.5])
def test_a_shift_of_the_logits_is_taken_back(shift: float) -> None:
    events = binary_events(500)
    shifted = LabelledEvents.of(expit(logit(events.prediction) + shift), events.outcome)
    assert fitted(shifted).offset[0] == pytest.approx(fitted(events).offset[0] - shift, abs=1e-9)
    vectors = class_events(500)
    moved = softmax_of(np.log(vectors.prediction) + np.array([shift, 0.0, 0.0, 0.0]))
    before, after = fitted(vectors), fitted(LabelledEvents.of(moved, vectors.outcome))
    difference = after.offset - before.offset
    np.testing.assert_allclose(difference - difference[1], [-shift, 0.0, 0.0, 0.0], atol=1e-8)


def test_it_finds_the_ratio_of_the_priors() -> None:
    # Saerens et al.: p'_k is proportional to p_k times the new prior over the old one.
    rng = np.random.default_rng(3)
    old, new = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.3, 0.5])
    y = rng.choice(3, 100_000, p=new)
    x = rng.normal(y, 1.0)
    likelihood = np.exp(-0.5 * (x[:, None] - np.arange(3)) ** 2)
    p = old * likelihood
    found = fitted(LabelledEvents.of(p / p.sum(axis=1, keepdims=True), y))
    wanted = np.log(new / old)
    np.testing.assert_allclose(found.offset, wanted - wanted.mean(), atol=0.03)


def test_a_class_that_never_came_true_counts_half_an_event() -> None:
    events = class_events(400, classes=3, offsets=[0.0, 0.0, -50.0])
    assert 2 not in events.outcome
    found = fitted(events)
    after = apply_map(found, events.prediction)
    assert after[:, 2].sum() == pytest.approx(0.5, rel=0.01)
    assert "class 2" in found.describe()


def test_one_outcome_has_no_offset() -> None:
    with pytest.raises(NotEnoughData, match="have the outcome 0, at least 1 are needed"):
        fitted(LabelledEvents.of(np.full(10, 0.5), np.ones(10)))


def test_it_says_its_numbers() -> None:
    said = Offset(np.array([np.log(2.0)])).describe()
    assert said == "adds +0.6931 to every logit, which multiplies the odds by 2"
    assert "0.5 (class 1) to 2 (class 0)" in Offset(np.log([2.0, 0.5, 1.0])).describe()
