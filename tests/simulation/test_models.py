"""Each simulated model is, and becomes, what its story says."""

import numpy as np
import pytest
from scipy.special import logit
from sklearn.linear_model import LogisticRegression

from monitor.measures import kce, smce
from monitor.scores import ScoreTable
from monitor.simulation.models import MODELS, Drawn, Regime, SimulatedModel, mean_for

BY_NAME = {model.name: model for model in MODELS}
COUNT = 40_000


def draw(regime: Regime, seed: int) -> Drawn:
    return regime.draw(COUNT, np.random.default_rng(seed))


def ratio_to_chance(regime: Regime, seed: int) -> float:
    """The smCE over what 95% of perfectly calibrated models stay below, from resamples of the outcomes."""
    prediction, outcome, _ = draw(regime, seed)
    rng = np.random.default_rng(seed + 1000)
    null = [smce(ScoreTable.from_events(prediction, rng.random(COUNT) < prediction)) for _ in range(40)]
    return float(smce(ScoreTable.from_events(prediction, outcome)) / np.quantile(null, 0.95))


def cox(regime: Regime, seed: int) -> tuple[float, float]:
    """Slope and intercept of the outcomes' logits on the predictions'."""
    prediction, outcome, _ = draw(regime, seed)
    fitted = LogisticRegression(C=np.inf).fit(logit(prediction)[:, None], outcome)
    return float(fitted.coef_[0, 0]), float(fitted.intercept_[0])


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_every_model_is_calibrated_before_its_change(model: SimulatedModel) -> None:
    assert ratio_to_chance(model.regime(-1.0), seed=11) < 1.2


@pytest.mark.parametrize("name", ["calibrated", "prior-shift", "local-error"])
def test_who_stays_calibrated_does(name: str) -> None:
    assert ratio_to_chance(BY_NAME[name].after, seed=24) < 1.2


@pytest.mark.parametrize("name", ["overconfident", "rare-event"])
def test_who_drifts_is_far_beyond_chance(name: str) -> None:
    assert ratio_to_chance(BY_NAME[name].after, seed=13) > 5.0


def test_the_overconfident_model_has_the_slope_it_says() -> None:
    slope, intercept = cox(BY_NAME["overconfident"].after, seed=14)
    assert slope == pytest.approx(1 / 1.9, abs=0.02)
    assert intercept == pytest.approx(0.0, abs=0.04)


def test_the_prevalence_of_the_prior_shift_falls_from_50_to_10_percent() -> None:
    model = BY_NAME["prior-shift"]
    assert draw(model.before, seed=15)[1].mean() == pytest.approx(0.5, abs=0.01)
    assert draw(model.after, seed=16)[1].mean() == pytest.approx(0.1, abs=0.005)
    slope, intercept = cox(model.after, seed=16)
    assert slope == pytest.approx(1.0, abs=0.06)
    assert intercept == pytest.approx(0.0, abs=0.12)


def test_the_rare_event_is_predicted_at_1_percent_and_then_missed() -> None:
    model = BY_NAME["rare-event"]
    assert draw(model.before, seed=17)[1].mean() == pytest.approx(0.01, abs=0.002)
    prediction, outcome, _ = draw(model.after, seed=18)
    assert prediction.mean() == pytest.approx(0.01, abs=0.001)
    assert outcome.mean() > 2 * prediction.mean()


def test_the_local_error_is_hidden_on_the_whole_and_told_by_features() -> None:
    drawn = draw(BY_NAME["local-error"].after, seed=21)
    p, y, years = drawn.prediction, drawn.outcome, drawn.features[:, 0]
    assert drawn.features.shape == (COUNT, 2)
    # In each range of predictions, the two errors take each other away.
    for low in np.arange(0.1, 0.8, 0.1):
        inside = (p >= low) & (p < low + 0.1)
        assert y[inside].mean() == pytest.approx(p[inside].mean(), abs=4 * np.sqrt(0.25 / inside.sum()))
    middle = (p > 0.45) & (p < 0.55)
    assert y[middle & (years <= 2.0)].mean() == pytest.approx(0.675, abs=0.03)
    assert y[middle & (years >= 4.0)].mean() == pytest.approx(0.325, abs=0.03)
    # The kinds do not differ in what is predicted, so no range of predictions gives them away.
    assert abs(np.corrcoef(p, years)[0, 1]) < 4 / np.sqrt(COUNT)


@pytest.mark.parametrize("name", sorted(set(BY_NAME) - {"local-error"}))
def test_the_others_tell_no_features(name: str) -> None:
    assert draw(BY_NAME[name].after, seed=22).features.shape == (COUNT, 0)


def test_no_chance_leaves_its_range() -> None:
    drawn = draw(Regime(mean=0.0, spread=6.0, contrast=1.0), seed=23)
    sure = drawn.prediction > 1 - 1e-6
    assert sure.sum() > 100
    assert drawn.outcome[sure].all()


def test_a_change_takes_its_time() -> None:
    model = BY_NAME["overconfident"]
    errors = []
    for share in (0.0, 0.5, 1.0):
        table = ScoreTable.from_events(*draw(model.regime(share * model.ramp_seconds), seed=19)[:2])
        errors.append(kce(table))
    assert errors[0] < errors[1] < errors[2]
    assert model.regime(10 * model.ramp_seconds) == model.after
    assert model.regime(-10.0) == model.before


@pytest.mark.parametrize("prevalence", [0.001, 0.1, 0.5, 0.9])
def test_a_mean_gives_its_prevalence(prevalence: float) -> None:
    outcome = draw(Regime(mean=mean_for(prevalence, 1.1), spread=1.1), seed=20)[1]
    assert outcome.mean() == pytest.approx(prevalence, abs=4 * np.sqrt(prevalence * (1 - prevalence) / COUNT))
