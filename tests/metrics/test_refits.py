"""What Prometheus sees of recalibration."""

from typing import Any

import pytest

from monitor.measures import MEASURES, WINDOW_MEASURES, choose_measures
from monitor.metrics.exposition import Exposition
from monitor.metrics.measures import map_series
from monitor.metrics.refits import RESULTS, RefitFamilies
from monitor.metrics.series import Level
from monitor.recalibration.comparison import LiveComparison
from monitor.recalibration.live import LiveState
from monitor.store.recalibrations import UNDER_WAY, Champion, JobState, Tally
from tests.live_states import VERSION, Maps, document, map_of, state
from tests.metrics.library import ExpositionCollector
from tests.real.promtool import check_metrics
from tests.snapshots import NOW_MS

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def exposed(maps: Maps) -> Exposition:
    return Exposition(
        [RefitFamilies(lambda: maps.latest, WINDOW_MEASURES.values(), lambda: maps.known, level=Level.ALL)]
    )


def samples(maps: Maps) -> Samples:
    return {
        (each.name, frozenset(each.labels.items())): each.value
        for metric in ExpositionCollector(exposed(maps)).collect()
        for each in metric.samples
        if not each.name.startswith(("process_", "calibration_build"))
    }


def of(**labels: str) -> frozenset[tuple[str, str]]:
    return frozenset({"model": "churn", **labels}.items())


def of_map(name: str, **labels: str) -> frozenset[tuple[str, str]]:
    return of(version="7", map=name, **labels)


def test_each_map_has_its_measures_with_percent_as_ratio() -> None:
    found = samples(Maps())
    for at, (name, measure) in enumerate(WINDOW_MEASURES.items()):
        in_percent = measure.unit == "percent"
        value = ((10 if in_percent else 0.1) + at / 100) * (0.01 if in_percent else 1)
        stem = f"calibration_map_{name}" + "_ratio" * in_percent
        for which in ("none", "champion", "candidate"):
            assert found[stem, of_map(which)] == pytest.approx(value)
            assert found[f"{stem}_lower", of_map(which)] == pytest.approx(value / 2)
            assert found[f"{stem}_upper", of_map(which)] == pytest.approx(value * 2)
            assert found[f"{stem}_null_q95", of_map(which)] == pytest.approx(value / 1.5)
    assert found["calibration_map_events", of_map("candidate")] == 1234
    assert found["calibration_map_changed_timestamp_seconds", of(version="7")] == 1_800_000_000.5


def test_evidence_names_what_a_map_is_weighed_against() -> None:
    found = samples(Maps())
    assert {labels: value for (name, labels), value in found.items() if name == "calibration_map_log10_e_value"} == {
        of_map("champion", against="none"): 4.5,
        of_map("candidate", against="none"): 5.5,
        of_map("candidate", against="champion"): -0.5,
    }


def test_what_is_not_measured_is_absent_and_never_zero() -> None:
    reason = "9 labelled events since then, at least 100 are needed"
    nothing: dict[str, Any] = {"measures": {}, "insufficient": reason}
    told = document(
        n=9,
        insufficient=reason,
        maps={"none": map_of(None, **nothing), "champion": None, "candidate": map_of("rc_2", **nothing)},
        evidence=dict.fromkeys(document()["evidence"]),
    )
    found = samples(Maps(state(documents={VERSION: LiveComparison.of(told)})))
    about_maps = {(name, labels) for name, labels in found if "map" in dict(labels)}
    assert about_maps == {
        (f"calibration_map_{name}", of_map(which)) for name in ("events", "missing") for which in ("none", "candidate")
    }


def test_an_interval_that_there_is_none_of_is_absent() -> None:
    told = document(choose_measures("smce").values())
    told["maps"]["champion"]["measures"]["smce"] |= {"lower": None, "upper": None, "null_q95": None}
    found = samples(Maps(state(documents={VERSION: LiveComparison.of(told)})))
    assert ("calibration_map_smce", of_map("champion")) in found
    assert ("calibration_map_smce_lower", of_map("champion")) not in found
    assert ("calibration_map_smce_lower", of_map("none")) in found


def test_a_map_that_cannot_be_applied_is_told_by_a_series_of_its_own() -> None:
    told = document()
    told["maps"]["champion"] |= {"measures": {}, "missing": "the map cannot be applied to these events"}
    found = samples(Maps(state(documents={VERSION: LiveComparison.of(told)})))
    assert found["calibration_map_missing", of_map("champion")] == 1
    assert found["calibration_map_missing", of_map("candidate")] == 0
    assert ("calibration_map_events", of_map("champion")) not in found


def test_what_serves_is_active_until_it_is_taken_back() -> None:
    found = samples(Maps())
    assert found["calibration_champion_active", of(version="7")] == 1
    assert found["calibration_champion_timestamp_seconds", of(version="7")] == NOW_MS / 1000
    found = samples(Maps(state(champions=[Champion(*VERSION, None, NOW_MS + 1000, 2)])))
    assert found["calibration_champion_active", of(version="7")] == 0
    assert found["calibration_champion_timestamp_seconds", of(version="7")] == NOW_MS / 1000 + 1
    assert not [name for name, _ in samples(Maps(state(champions=[]))) if "champion" in name]


def test_refits_are_counted_by_how_they_ended() -> None:
    found = samples(Maps())
    counts = {result: found["calibration_refits_total", of(result=result)] for result in RESULTS}
    assert counts == {"failed": 1, "rejected": 1, "passed": 3}
    assert found["calibration_refit_under_way", of()] == 1
    # The last of those that passed is the candidate, not the champion.
    assert found["calibration_refit_timestamp_seconds", of(result="passed")] == NOW_MS / 1000 + 2
    assert found["calibration_refit_duration_seconds", of(result="passed")] == 2
    assert found["calibration_refit_duration_seconds", of(result="failed")] == 3
    assert found["calibration_maps_evaluation_timestamp_seconds", frozenset()] == NOW_MS / 1000 + 3
    assert found["calibration_maps_evaluation_duration_seconds", frozenset()] == 0.75


def test_a_promotion_or_rollback_does_not_change_the_count() -> None:
    """A counter never falls, whatever becomes of a map."""
    ends = [each for each in JobState if each not in UNDER_WAY]
    assert sorted(each for states in RESULTS.values() for each in states) == sorted(ends)
    totals = {
        samples(Maps(state(tallies=[Tally("churn", each, 1, 1, 1)])))["calibration_refits_total", of(result="passed")]
        for each in (JobState.CANDIDATE, JobState.CHAMPION, JobState.RETIRED, JobState.ROLLED_BACK)
    }
    assert totals == {1.0}


def test_every_result_is_there_at_zero_for_a_model_that_was_never_refitted() -> None:
    found = samples(Maps(state(tallies=[], champions=[], documents={})))
    assert {result: found["calibration_refits_total", of(result=result)] for result in RESULTS} == dict.fromkeys(
        RESULTS, 0
    )
    assert found["calibration_refit_under_way", of()] == 0
    assert not [name for name, _ in found if name.startswith("calibration_refit_timestamp")]


def test_before_the_first_look_nothing_is_said_of_refits() -> None:
    assert samples(Maps(LiveState())) == {("calibration_maps_left_out", frozenset()): 0}


def test_series_vanish_with_their_model_although_the_store_remembers_it() -> None:
    maps = Maps()
    assert [labels for _, labels in samples(maps) if ("model", "churn") in labels]
    maps.known = {("fraud", "1"): None}
    assert {dict(labels).get("model") for _, labels in samples(maps)} == {None, "fraud"}
    # A version whose last event is gone takes its maps along, and not its model's refits.
    maps.known = {("churn", "8"): None}
    assert {name for name, labels in samples(maps) if ("model", "churn") in labels} == {
        *("calibration_refits_total", "calibration_refit_under_way"),
        *("calibration_refit_timestamp_seconds", "calibration_refit_duration_seconds"),
    }


def test_versions_beyond_the_cap_are_left_out_and_counted() -> None:
    versions = [("churn", version) for version in "789"]
    maps = Maps(state(documents=dict.fromkeys(versions, LiveComparison.of(document()))), dict.fromkeys(versions))
    of_one = 3 * (4 * len(WINDOW_MEASURES) + 2) + 4
    for cap, kept in ((3 * of_one, "789"), (3 * of_one - 1, "78"), (of_one, "7"), (of_one - 1, "")):
        capped = Exposition(
            [
                RefitFamilies(
                    lambda: maps.latest, WINDOW_MEASURES.values(), lambda: maps.known, level=Level.ALL, max_series=cap
                )
            ]
        )
        found = [each for metric in ExpositionCollector(capped).collect() for each in metric.samples]
        about = [each for each in found if each.name.startswith("calibration_map_")]
        assert {each.labels["version"] for each in about} == set(kept)
        assert len(about) == len(kept) * of_one <= cap
        assert [each.value for each in found if each.name == "calibration_maps_left_out"] == [3 - len(kept)]


def test_no_label_is_an_id() -> None:
    values = {value for _, labels in samples(Maps()) for _, value in labels}
    assert values <= {"churn", "7", "none", "champion", "candidate", "failed", "rejected", "passed"}


def test_one_declaration_adds_the_series_of_a_map() -> None:
    names = {series.name for series in map_series(MEASURES.values())}
    assert {f"calibration_map_brier{end}" for end in ("", "_lower", "_upper", "_null_q95")} <= names
    assert not [name for name in names if name.endswith(("_p_value", "_error_bound", "_null_mean"))]


@pytest.mark.timeout(1800)  # the first time, promtool may have to be built
def test_promtool_finds_nothing_to_say() -> None:
    said = check_metrics(exposed(Maps()).render()[0])
    assert (said.returncode, said.stdout, said.stderr) == (0, "", "")
