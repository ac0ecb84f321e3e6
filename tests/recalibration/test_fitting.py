import json
import xml.etree.ElementTree as ET
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from monitor import evaluate
from monitor.errors import CorruptMap, InputError, NotEnoughData
from monitor.maps import METHODS, apply_map, fit_map
from monitor.maps.artifact import from_bytes, to_bytes
from monitor.maps.labelled import LabelledEvents
from monitor.recalibration.data import refit_data
from monitor.recalibration.fitting import RefitResult, refit
from monitor.recalibration.fitting_task import RefitTask
from tests.recalibration.samples import sample


def task(events: LabelledEvents, **changes: Any) -> RefitTask:
    plain = RefitTask("rc_1", "churn", "7", "beta", {}, 1_700_100_000_000, events, window_ms=10**12)
    return replace(plain, **changes)


def done(given: RefitTask, **options: Any) -> RefitResult:
    return refit(given, evaluate=evaluate, draws=39, **options)


def test_a_refit_keeps_the_map_that_was_compared() -> None:
    events = sample(3000)
    steps: list[tuple[float, str]] = []
    found = done(task(events), progress=lambda share, step: steps.append((share, step)))
    held = refit_data(events, window_ms=10**12).held_out
    kept = from_bytes(found.artifact)
    assert kept.about == {
        "id": "rc_1",
        "model": "churn",
        "version": "7",
        "method": "beta",
        "options": dict(kept.about["options"]),
        "data_hash": found.comparison["fit"]["data_hash"],
        "fitted_on": {key: found.comparison["fit"][key] for key in ("n", "from", "to")},
        "created": "2023-11-16T02:00:00.000Z",
    }
    q = apply_map(kept.map, held.prediction)
    assert (q == apply_map(found.map, held.prediction)).all()
    brier = found.comparison["maps"]["challenger"]["measures"]["brier"]["value"]
    assert brier == pytest.approx(np.mean((q - held.outcome) ** 2))
    assert found.passed is found.comparison["guard"]["passed"]
    assert [share for share, _ in steps] == sorted(share for share, _ in steps)
    assert steps[0] == (0.0, "choosing the events")
    assert steps[-1] == (1.0, "done")


def test_the_same_task_gives_the_same_bytes() -> None:
    given = task(sample(2000, weighted=True), method="lore", window_ms=None)
    first, second = done(given), done(given)
    assert first.artifact == second.artifact
    assert json.dumps(first.comparison) == json.dumps(second.comparison)
    assert first.figures == second.figures


def test_pictures_are_of_what_there_is() -> None:
    full = done(task(sample(2000))).figures
    assert list(full) == ["reliability", "mlce_by_gamma", "local_map", "segments"]
    for picture in full.values():
        assert ET.fromstring(picture).tag.endswith("svg")
    assert list(done(task(sample(2000, dimensions=None))).figures) == ["reliability", "segments"]


def test_it_stands_against_what_serves() -> None:
    events = sample(6000, slope=2.0)
    champion = to_bytes(fit_map(METHODS["offset"], events), {"id": "rc_0"})
    found = done(task(events, champion=champion))
    assert found.comparison["maps"]["champion"]["id"] == "rc_0"
    assert found.comparison["maps"]["champion"]["method"] == "offset"
    assert found.comparison["guard"]["against"] == "champion"
    assert found.passed


def test_a_change_of_calibration_is_where_the_data_begin() -> None:
    events = sample(6000, slope=1.0)
    flipped = events.outcome.copy()
    flipped[2500:] = np.where(np.random.default_rng(3).random(3500) < 0.4, 1, flipped[2500:])
    turned = replace(events, outcome=flipped)
    found = done(task(turned, window_ms=None))
    assert found.comparison["fit"]["changed_at"] == found.comparison["fit"]["from"]
    assert found.comparison["fit"]["change_p_value"] <= 0.02
    assert found.comparison["fit"]["n"] == pytest.approx(0.7 * 3500, abs=120)


def test_many_classes() -> None:
    found = done(task(sample(2000, classes=3, slope=2.0), method="temperature"))
    assert from_bytes(found.artifact).map.classes == 3
    assert "reliability" in found.figures


def test_what_cannot_be_is_refused_by_name() -> None:
    events = sample(1000)
    with pytest.raises(InputError, match="there is no recalibration method 'bete'; did you mean beta"):
        done(task(events, method="bete"))
    with pytest.raises(InputError, match="has no option 'gamma'"):
        done(task(events, options={"gamma": 1.0}))
    with pytest.raises(InputError, match="needs features, and these events have none"):
        done(task(sample(1000, dimensions=None), method="lore"))
    with pytest.raises(NotEnoughData, match="labelled events"):
        done(task(events.select(slice(0, 50))))
    with pytest.raises(CorruptMap):
        done(task(events, champion=b"no map"))
