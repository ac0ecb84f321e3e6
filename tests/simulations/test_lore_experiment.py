"""What holds of the paper's claims, in a short form; and docs/lore.md shows what was measured in the long one."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from monitor.local import group_calibration_error
from tests.long import longer, short_of
from tests.reports.figures.tables import check_layout
from tests.simulations import lore_report
from tests.simulations.lore_data import GROUP, SETTINGS
from tests.simulations.lore_experiment import CONTENDERS, GAMMAS, LEAST_OF_GROUP, Job, main, measure, run, summarise

pytestmark = [pytest.mark.simulation, pytest.mark.longer]

DOCS: Final = Path(__file__).parents[2] / "docs"
SEEDS: Final = (100, 101, 102)[: longer(2, 3)]
GLOBAL: Final = [name for name, contender in CONTENDERS.items() if contender.kind == "global"]
SHORT: Final = ("no map", *GLOBAL, "LoRe")


@pytest.fixture(scope="module")
def summary() -> dict[str, Any]:
    jobs = [
        Job(setting, seed, SHORT, points=300)
        for setting in ("clusters", "local", "global", "useless")
        for seed in SEEDS
    ]
    return summarise(run(jobs))


def means(summary: Mapping[str, Any], setting: str, name: str) -> dict[str, float]:
    return {each: mean for each, (mean, _) in summary["settings"][setting]["measures"][name].items()}


def excess(summary: Mapping[str, Any], setting: str, contender: str) -> np.ndarray:
    curve = summary["settings"][setting]["curves"][contender]
    return np.subtract(*(np.array(curve[each], np.float64) for each in ("mlce", "null_mean")))


@pytest.mark.long
def test_lore_lowers_the_worst_local_error_below_every_global_method(summary: Mapping[str, Any]) -> None:
    """As docs/lore.md says: where neighbourhoods are narrower than the kinds of events whose errors differ."""
    narrow = [GAMMAS.index(gamma) for gamma in (0.2, 0.4, 0.8)]
    for setting, places in (("clusters", narrow), ("local", narrow[:2])):
        lore = excess(summary, setting, "LoRe")[places]
        for rival in ("no map", *GLOBAL):
            assert (lore < excess(summary, setting, rival)[places]).all(), (setting, rival)


def test_lore_lowers_the_worst_error_of_groups_that_it_was_not_told(summary: Mapping[str, Any]) -> None:
    for setting in ("clusters", "local"):
        found = means(summary, setting, "group_mce")
        assert found["LoRe"] < 0.8 * min(found[rival] for rival in ("no map", *GLOBAL))


def test_where_errors_are_local_lore_comes_nearer_to_the_truth_than_any_global_method(
    summary: Mapping[str, Any],
) -> None:
    for setting in ("clusters", "local"):
        for name, least in (("truth", 0.02), ("brier", 0.005), ("nll", 0.01)):
            found = means(summary, setting, name)
            assert found["LoRe"] < min(found[rival] for rival in ("no map", *GLOBAL)) - least, (setting, name)


def test_lore_gives_up_little_ece(summary: Mapping[str, Any]) -> None:
    for setting in summary["settings"]:
        found = means(summary, setting, "ece")
        assert found["LoRe"] < min(found[rival] for rival in GLOBAL) + 0.015


def test_where_the_error_is_global_lore_does_not_win(summary: Mapping[str, Any]) -> None:
    """As docs/lore.md says: what two numbers repair, neighbourhoods repair worse; but they do repair it."""
    for name in ("truth", "brier", "nll"):
        found = means(summary, "global", name)
        assert found["Platt"] < found["LoRe"] < found["no map"], name
    assert means(summary, "global", "brier")["LoRe"] < means(summary, "global", "brier")["Platt"] + 0.004


def test_features_that_say_nothing_cost_little_and_bring_nothing(summary: Mapping[str, Any]) -> None:
    found = means(summary, "useless", "brier")
    assert found["no map"] < found["LoRe"] < found["no map"] + 0.004
    groups = means(summary, "useless", "group_mce")
    assert groups["LoRe"] == pytest.approx(groups["no map"], abs=0.03)


def test_what_global_maps_cannot_see_is_hidden_from_them() -> None:
    """The truth of the settings: right on average at each prediction, wrong in each half."""
    for name in ("clusters", "local"):
        task = SETTINGS[name].draw(1)
        assert task.truth is not None
        p = task.test.prediction
        by_prediction = np.argsort(p)
        for part in np.array_split(by_prediction, 10):
            assert abs(float((p - task.truth)[part].mean())) < 0.02
        for group in np.unique(task.test.segments[GROUP]):
            inside = task.test.segments[GROUP] == group
            assert abs(float((p - task.truth)[inside].mean())) > 0.08


@pytest.mark.parametrize(
    "name", short_of([name for name in SETTINGS if name not in {"affairs", "happiness"}], 4)
)  # slow networks
def test_a_setting_is_the_same_each_time_and_parts_what_is_fitted_from_what_is_measured(name: str) -> None:
    first, second = (SETTINGS[name].draw(2) for _ in range(2))
    assert first.fit.content_hash() == second.fit.content_hash()
    assert first.test.content_hash() == second.test.content_hash()
    assert first.fit.content_hash() != SETTINGS[name].draw(3).fit.content_hash()
    assert first.likeness_fit.shape[0] == len(first.fit)
    assert first.likeness_test.shape[0] == len(first.test)


@pytest.mark.long
def test_a_real_setting_is_measured_by_every_contender() -> None:
    found = measure(Job("loans", 5, points=100))
    assert set(found) == set(CONTENDERS)
    task = SETTINGS["loans"].draw(5)
    worst = group_calibration_error(
        task.test.prediction,
        task.test.outcome,
        task.test.segments[GROUP],
        bins=5,
        least_neighbours=LEAST_OF_GROUP,
        max_points=None,
    )
    assert found["no map"]["group_mce"] == pytest.approx(worst.mlce)


def test_the_tables_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--seeds", "2", "--settings", "few", "--contenders", "no map", "temperature", "LoRe", "--workers", "1"])
    printed = capsys.readouterr().out
    for measured in lore_report.MEASURES.values():
        assert f"| {measured.title} | few |" in printed
    assert printed.count("**") > 0


def test_the_chapter_shows_what_was_measured() -> None:
    kept = json.loads((DOCS / "lore" / "results.json").read_text(encoding="utf-8"))
    page = (DOCS / "lore.md").read_text(encoding="utf-8")
    assert lore_report.rendered(kept, page) == page
    assert set(kept["settings"]) == set(SETTINGS)
    assert set(kept["contenders"]) == set(CONTENDERS)
    (seeds,) = {of["seeds"] for of in kept["settings"].values()}
    assert f"Each setting is drawn with {seeds} seeds" in page
    for name in ("group_mce", "mlce_excess", "ece", "nll", "brier", "prr", "reward", "differences"):
        for kind in ("synthetic", "real"):
            assert f"<!-- lore: {name} {kind} -->" in page, (name, kind)


def test_the_figures_of_the_chapter_are_drawn_there_and_shown() -> None:
    kept = json.loads((DOCS / "lore" / "results.json").read_text(encoding="utf-8"))
    drawn = lore_report.figures(kept)
    for figure in drawn.values():
        check_layout(figure)
    there = {file.stem for file in (DOCS / "lore").glob("*.svg")}
    shown = set(re.findall(r"\]\(lore/([^)]+)\.svg\)", (DOCS / "lore.md").read_text(encoding="utf-8")))
    assert set(drawn) == there == shown
