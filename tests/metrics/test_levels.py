import pytest
from prometheus_client.parser import text_string_to_metric_families as parse_text

from monitor.app.settings.model import ExpositionSettings
from monitor.measures import WINDOW_MEASURES
from monitor.metrics.exposition import Exposition
from monitor.metrics.refits import RefitFamilies
from monitor.metrics.series import FEW_MODELS, MANY_MODELS, REPORT_LABELS, Families, Level, LevelSwitch
from monitor.metrics.windows import MAX_SERIES, WindowFamilies
from tests.live_states import Maps, state
from tests.snapshots import WINDOWS, Evaluations, report, snapshot

MEASURES = WINDOW_MEASURES.values()


def fleet(models: int) -> Evaluations:
    """So many models in three windows, with everything that a binary model's report holds."""
    evaluations = Evaluations()
    evaluations.show(
        snapshot(
            report(model=f"model-{at:03d}", window=window, measures=MEASURES, bins=10, seed=at)
            for at in range(models)
            for window in WINDOWS
        )
    )
    return evaluations


def body(evaluations: Evaluations, levels: LevelSwitch, *, bins: bool = True) -> str:
    maps = Maps(state(MEASURES))
    parts: list[Families] = [
        WindowFamilies(evaluations, MEASURES, levels=levels, bins=bins),
        RefitFamilies(lambda: maps.latest, MEASURES, lambda: maps.known, levels=levels),
    ]
    return Exposition(parts).render()[0].decode()


def names(text: str) -> set[str]:
    return {sample.name for family in parse_text(text) for sample in family.samples}


def test_the_settings_name_the_levels() -> None:
    for level in Level:
        assert ExpositionSettings.model_validate({"level": level.label}).level == level.label
    assert ExpositionSettings().level == "auto"


def test_each_level_has_what_the_one_before_has() -> None:
    values, intervals, everything = (names(body(fleet(2), LevelSwitch(level))) for level in Level)
    assert values < intervals < everything
    assert {"calibration_tce_ratio", "calibration_verdict", "calibration_slope", "calibration_map_smce"} <= values
    assert {
        "calibration_tce_ratio_lower",
        "calibration_slope_upper",
        "calibration_map_smce_upper",
    } <= intervals - values
    assert {name for name in everything if name.startswith("calibration_bin_")} == everything - intervals


def test_the_level_in_force_is_exported() -> None:
    text = body(fleet(2), LevelSwitch(Level.INTERVALS))
    found = {
        sample.labels["level"]: sample.value
        for family in parse_text(text)
        for sample in family.samples
        if sample.name == "calibration_exposition_level"
    }
    assert found == {"values": 0, "intervals": 1, "all": 0}


def test_the_number_of_exported_series_is_that_of_the_lines_about_windows_at_every_level() -> None:
    for level in Level:
        samples = [sample for family in parse_text(body(fleet(3), LevelSwitch(level))) for sample in family.samples]
        (exported,) = [each.value for each in samples if each.name == "calibration_series_exported"]
        assert exported == sum(set(REPORT_LABELS) <= set(each.labels) for each in samples)


@pytest.mark.parametrize("level", Level)
def test_the_cap_counts_what_the_level_exports(level: Level) -> None:
    def exported(evaluations: Evaluations, max_series: int = MAX_SERIES) -> float:
        text = Exposition(
            [WindowFamilies(evaluations, MEASURES, levels=LevelSwitch(level), max_series=max_series)]
        ).render()[0]
        (found,) = [
            sample.value
            for family in parse_text(text.decode())
            for sample in family.samples
            if sample.name == "calibration_series_exported"
        ]
        return found

    evaluations = fleet(2)
    whole = exported(evaluations)
    assert exported(evaluations, max_series=int(whole)) == whole
    assert exported(evaluations, max_series=int(whole) - 1) == whole * 5 / 6


def test_without_bins_the_level_all_has_none() -> None:
    assert names(body(fleet(1), LevelSwitch(Level.ALL), bins=False)) == names(
        body(fleet(1), LevelSwitch(Level.INTERVALS))
    )


def test_many_models_are_exported_by_their_values() -> None:
    levels = LevelSwitch()
    assert "calibration_bin_labelled" in names(body(fleet(MANY_MODELS), levels))
    few = len(body(fleet(MANY_MODELS), levels))
    text = body(fleet(MANY_MODELS + 1), levels)
    assert "calibration_tce_ratio_lower" not in names(text)
    assert len(text) < few / 2


def test_a_model_that_comes_and_goes_does_not_switch_the_level_back_and_forth() -> None:
    levels = LevelSwitch()
    chosen = [levels.choose(models) for models in (MANY_MODELS, MANY_MODELS + 1, MANY_MODELS, FEW_MODELS + 1)]
    assert chosen == [Level.ALL, Level.VALUES, Level.VALUES, Level.VALUES]
    assert [levels.choose(models) for models in (FEW_MODELS, MANY_MODELS)] == [Level.ALL, Level.ALL]


def test_a_declared_level_does_not_depend_on_the_models() -> None:
    levels = LevelSwitch(Level.INTERVALS)
    assert {levels.choose(models) for models in (0, MANY_MODELS + 1, FEW_MODELS)} == {Level.INTERVALS}
