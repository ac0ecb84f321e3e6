import pytest
from prometheus_client.parser import text_string_to_metric_families as parse_text

from monitor.app.settings.model import ExpositionSettings
from monitor.measures import WINDOW_MEASURES
from monitor.metrics.exposition import Exposition
from monitor.metrics.refits import RefitFamilies
from monitor.metrics.series import REPORT_LABELS, Families, Level
from tests.live_states import Maps, state
from tests.snapshots import WINDOWS, Evaluations, report, snapshot, window_families

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


def body(evaluations: Evaluations, level: Level) -> str:
    maps = Maps(state(MEASURES))
    parts: list[Families] = [
        window_families(evaluations, MEASURES, level=level),
        RefitFamilies(lambda: maps.latest, MEASURES, lambda: maps.known, level=level),
    ]
    return Exposition(parts).render()[0].decode()


def names(text: str) -> set[str]:
    return {sample.name for family in parse_text(text) for sample in family.samples}


def test_the_settings_name_the_levels() -> None:
    for level in Level:
        assert Level[ExpositionSettings.model_validate({"level": level.name.lower()}).level.upper()] is level
    assert ExpositionSettings().level == "values"


def test_each_level_has_what_the_one_before_has() -> None:
    values, intervals, everything = (names(body(fleet(2), level)) for level in Level)
    assert values < intervals < everything
    assert {"calibration_tce_ratio", "calibration_verdict", "calibration_slope", "calibration_map_smce"} <= values
    assert {
        "calibration_tce_ratio_lower",
        "calibration_slope_upper",
        "calibration_map_smce_upper",
    } <= intervals - values
    assert {name for name in everything if name.startswith("calibration_bin_")} == everything - intervals


def test_the_number_of_exported_series_is_that_of_the_lines_about_windows_at_every_level() -> None:
    for level in Level:
        samples = [sample for family in parse_text(body(fleet(3), level)) for sample in family.samples]
        (exported,) = [each.value for each in samples if each.name == "calibration_series_exported"]
        assert exported == sum(set(REPORT_LABELS) <= set(each.labels) for each in samples)


@pytest.mark.parametrize("level", Level)
def test_the_cap_counts_what_the_level_exports(level: Level) -> None:
    def exported(evaluations: Evaluations, max_series: int = 1_000_000) -> float:
        text = Exposition([window_families(evaluations, MEASURES, level=level, max_series=max_series)]).render()[0]
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
