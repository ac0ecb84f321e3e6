"""The short forms of ``python -m tests.simulations.service_alarms`` and ``demo_alarms``: seeded, so that they stay."""

import numpy as np
import pytest

from monitor.simulation.models import MODELS
from tests.long import longer
from tests.simulations.demo_alarms import CALIBRATED, alarms, steps
from tests.simulations.service_alarms import CHANGED, accepted, prior_shift

pytestmark = [pytest.mark.simulation, pytest.mark.longer]

DEMO = {model.name: model for model in MODELS}
RUNS = longer(6, 20)


@pytest.mark.long
def test_a_jump_of_prevalence_is_called_a_prior_shift_and_its_offset_lies_in_its_interval() -> None:
    found = [prior_shift(0.1, 2.0, seed) for seed in range(RUNS)]
    assert not any(one.false or one.robust for one in found)
    assert np.median([one.hours for one in found]) < 1.5
    for at in range(2):
        assert np.mean([one.labels[at] == "prior_shift" for one in found]) >= 0.95
        assert np.mean([one.holds[at] for one in found]) >= 0.95 - 3.0 * np.sqrt(0.05 * 0.95 / RUNS)


def test_an_accepted_model_is_left_alone_until_it_changes() -> None:
    assert [accepted(CHANGED["nothing"], 14, seed) for seed in range(2)] == [(None, None)] * 2
    for name, label in (("offset 0.25", "both"), ("calibrated", "not_worse")):
        hour, said = accepted(CHANGED[name], 12, 0)
        assert hour is not None
        assert 5 <= hour <= 8
        assert said == label


def test_the_demo_models_that_are_calibrated_raise_no_alarm() -> None:
    for name in CALIBRATED:
        assert set(alarms(DEMO[name], 5.0, 0).values()) == {None}, name


@pytest.mark.parametrize("name", ["overconfident", "rare-event"])
def test_the_demo_models_that_drift_raise_one(name: str) -> None:
    hour = alarms(DEMO[name], 0.25, 0)["calibration"]
    assert hour is not None
    assert 2.5 < hour < 4.5


def test_the_demo_models_are_read_as_the_service_joins_them() -> None:
    parts = list(steps(DEMO["prior-shift"], 0.25, 1, 60_000))
    events = [int(part.values[:, :2].sum()) for part in parts]
    assert sum(events) == pytest.approx(2.5 * 0.25 * 86_400 * 0.95, rel=0.02)
    positives = [float(part.values[:, 0].sum()) / number for part, number in zip(parts, events, strict=True)]
    assert positives[0] == pytest.approx(0.5, abs=0.06)
    assert np.mean(positives[-4:]) == pytest.approx(0.1, abs=0.02)
