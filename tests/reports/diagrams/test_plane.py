import numpy as np
import pytest

from monitor.errors import NotEnoughData
from monitor.local import LocalMap, local_error_map
from monitor.reports.diagrams.plane import map_document


def test_the_worst_place_of_a_map_is_named() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(4000, 2))
    p = np.full(4000, 0.5)
    y = rng.random(4000) < np.where(x[:, 0] > 0.7, 0.9, 0.5)
    document = map_document(local_error_map(p, y, x, size=20), "age", "income")
    shown = document["shown"]
    assert shown.startswith("Worst near age = ")
    assert "too low" in shown
    assert float(shown.split("age = ")[1].split(",")[0]) > 0.7
    (local,) = document["maps"]
    assert len(local["points"]) == len(document["near"]) == 400
    # Row by row from the lowest income; the right is where outcomes are more frequent than predicted.
    assert np.nanmean(np.array(local["points"], float).reshape(20, 20)[:, -4:]) < -20.0


def test_a_map_accuses_no_place_of_what_chance_does() -> None:
    """The largest of many noisy errors is large, and says nothing where there is no local error beyond chance."""
    rng = np.random.default_rng(3)
    x, p = rng.normal(size=(2000, 2)), rng.uniform(0.05, 0.95, 2000)
    found = local_error_map(p, rng.random(2000) < p, x, size=20)
    document = map_document(found, "age", "income", p_value=0.98)
    assert document["shown"] == "No place is worse than chance (local calibration error: p = 0.98)."
    assert document["quiet"]
    # Evidence of predictions of one size says nothing of a place at which all sizes together are within chance.
    other = map_document(found, "age", "income", p_value=0.01, variance=float((p * (1.0 - p)).mean()))
    assert other["shown"].startswith("No place of this plane stands out from chance: the worst is")
    # Nor does a level that was not drawn.
    assert map_document(found, "age", "income")["quiet"]


def test_a_map_names_only_what_is_clear() -> None:
    axis, error = np.arange(3.0), np.full((3, 3), 0.01)
    n_eff = np.full((3, 3), 60.0)
    error[0, 0], error[2, 2], n_eff[2, 2] = 0.15, -0.12, 1000.0
    document = map_document(LocalMap(axis, axis, error, n_eff), "age", "income", p_value=0.05)
    assert document["shown"] == "Worst near age = 2, income = 2: predictions are 12 points too low there."
    assert (document["quiet"], document["reach"]) == (False, 15.0)


def test_a_map_without_neighbours_says_so() -> None:
    axis = np.arange(3.0)
    lonely = LocalMap(axis, axis, np.full((3, 3), 0.5), np.full((3, 3), 2.0))
    with pytest.raises(NotEnoughData, match="the most are 2: use a larger gamma"):
        map_document(lonely, "age", "income")
