"""What drifts in the demonstration can be repaired, by the methods that its settings name."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from monitor.cli.demo import demo_settings
from monitor.maps.artifact import from_bytes
from monitor.recalibration.worker import refit
from monitor.recalibration.worker_process import RefitResult, RefitTask
from monitor.scores.labelled import LabelledEvents
from monitor.simulation.models import MODELS
from monitor.store.recalibrations import Job, JobState, Sample

COUNT: Final = 20_000
"""About as many as the demonstration has of what a model became, two minutes after its start."""

BY_NAME: Final = {model.name: model for model in MODELS}


def comparison_of(result: RefitResult) -> Mapping[str, Any]:
    assert result.comparison is not None
    return result.comparison.to_dict()


def passed(result: RefitResult) -> bool:
    return bool(comparison_of(result)["guard"]["passed"])


def refitted(name: str, method: str, count: int = COUNT, seed: int = 41) -> RefitResult:
    """A refit on what that model does once its change is complete."""
    drawn = BY_NAME[name].after.draw(count, np.random.default_rng(seed))
    events = LabelledEvents.of(
        drawn.prediction,
        drawn.outcome,
        time_ms=np.arange(count) * 400,
        features=drawn.features if drawn.features.shape[1] else None,
    )
    job = Job(name, "1", method, {}, window_ms=10**9, id="rc_1", state=JobState.RUNNING, requested_ms=0, actor="ada")
    return refit(RefitTask(job, created_ms=0), Sample(events, count, {}), draws=19)


@pytest.fixture(scope="module")
def local() -> RefitResult:
    return refitted("local-error", "lore")


# Of a rare event, evidence takes more events: the demonstration has them after five minutes.
@pytest.mark.parametrize(
    ("name", "method", "count"), [("overconfident", "beta", COUNT), ("rare-event", "offset", 3 * COUNT)]
)
def test_a_global_error_is_repaired_by_a_global_map(name: str, method: str, count: int) -> None:
    found = refitted(name, method, count)
    assert passed(found)
    maps = comparison_of(found)["maps"]
    before, after = (maps[side]["measures"]["smce"] for side in ("none", "challenger"))
    assert before["value"] > 3 * before["null_q95"]
    assert after["value"] < before["value"] / 3


def test_no_global_map_repairs_the_local_error() -> None:
    found = refitted("local-error", "beta")
    assert not passed(found)
    assert comparison_of(found)["evidence"]["against_none"]["e_value"] < 20
    assert comparison_of(found)["maps"]["none"]["verdict"]["verdict"] == "calibrated"


def test_local_recalibration_does(local: RefitResult) -> None:
    assert passed(local)
    evidence, maps = comparison_of(local)["evidence"]["against_none"], comparison_of(local)["maps"]
    assert evidence["log10_e"] > 10
    assert evidence["upper"] < -0.01
    before, after = (maps[side]["local"]["mlce"] for side in ("none", "challenger"))
    assert before["value"] > before["null_q95"]
    assert after["excess"] < before["excess"] / 3
    assert "local_map" in local.figures


def test_the_map_finds_who_is_who(local: RefitResult) -> None:
    customers = np.array([[0.7, 6.0], [6.0, 6.0]])  # years, visits a month
    assert local.artifact is not None
    new, loyal = from_bytes(local.artifact).map.apply(np.array([0.5, 0.5]), features=customers)
    assert new == pytest.approx(0.675, abs=0.06)
    assert loyal == pytest.approx(0.325, abs=0.06)


def test_the_settings_name_these_methods(tmp_path: Path) -> None:
    models = demo_settings(tmp_path, 0).models
    asked = {name: models.of(name).recalibration.method for name in ("overconfident", "rare-event", "local-error")}
    assert asked == {"overconfident": "beta", "rare-event": "offset", "local-error": "lore"}
    assert set(models.declared) <= set(BY_NAME)
