from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text
from prometheus_client.registry import CollectorRegistry
from structlog.testing import capture_logs

from monitor.events import event_results
from monitor.events.model import Reason, TopicPartition
from monitor.metrics.exposition import Exposition, write_families
from monitor.metrics.series import Family, Series, WrittenFamily
from monitor.metrics.service import pipeline_families
from monitor.reports.evaluation.report import Verdict
from monitor.stream.status import Phase, PipelineStatus
from tests.metrics.library import ExpositionCollector, to_metric
from tests.real.promtool import check_metrics
from tests.snapshots import (
    MEASURES,
    Evaluations,
    Pipeline,
    cohorts,
    diagnosis,
    many_reports,
    report,
    snapshot,
    window_families,
)

RUNNING = PipelineStatus(
    phase=Phase.RUNNING,
    partitions=frozenset({0, 1}),
    counters={
        (event_results.PREDICTION, event_results.ACCEPTED): 1_234_567,
        (event_results.OUTCOME, event_results.JOINED): 40,
        (event_results.OUTCOME, event_results.EARLY): 7,
    },
    departed={event_results.EVICTED: 3},
    dead_letters={Reason.NOT_JSON: 2},
    pending=5_000_000,
    unanswered=9,
    early_outcomes=7,
    lag={TopicPartition("events", 1): 4, TopicPartition("events", 0): 3},
    checkpoint_ms=1_800_000_000_123,
    checkpoint_seconds=0.031,
    records_read=50,
)


def samples(exposition: Exposition) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Every sample of the text format, as the library's own parser reads it."""
    body, _ = exposition.render()
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in parse_text(body.decode())
        for sample in family.samples
    }


def names(exposition: Exposition) -> set[str]:
    return {name for name, _ in samples(exposition)}


def of(
    model: str = "churn", version: str = "7", segment: str = "all", window: str = "1h"
) -> frozenset[tuple[str, str]]:
    return frozenset({"model": model, "version": version, "segment": segment, "window": window}.items())


@pytest.fixture
def evaluations() -> Evaluations:
    return Evaluations()


@pytest.fixture
def pipeline() -> Pipeline:
    return Pipeline(RUNNING)


@pytest.fixture
def exposition(evaluations: Evaluations, pipeline: Pipeline) -> Exposition:
    return Exposition([window_families(evaluations, MEASURES), pipeline_families(lambda: pipeline.status)])


def test_a_report_becomes_its_series_with_percent_as_ratio(exposition: Exposition, evaluations: Evaluations) -> None:
    made = report()
    evaluations.show(snapshot([made]))
    found = samples(exposition)
    tce, kce = made.measures["tce"], made.measures["kce"]
    assert tce.lower is not None
    assert found["calibration_tce_ratio", of()] == pytest.approx(tce.value / 100, rel=1e-15)
    assert found["calibration_tce_ratio_lower", of()] == pytest.approx(tce.lower / 100, rel=1e-15)
    assert found["calibration_tce_ratio_p_value", of()] == tce.p_value
    assert found["calibration_kce", of()] == kce.value
    assert found["calibration_kce_null_q95", of()] == kce.null_q95
    assert found["calibration_kce_error_bound", of()] == kce.error_bound
    assert found["calibration_window_predictions", of()] == 1000
    assert found["calibration_window_labelled", of()] == 900
    assert found["calibration_window_positives", of()] == 300
    assert found["calibration_label_coverage_ratio", of()] == 0.9
    assert found["calibration_prevalence_ratio", of()] == made.prevalence
    assert found["calibration_mean_prediction_ratio", of()] == made.mean_prediction
    assert found["calibration_window_end_timestamp_seconds", of()] == 1_800_000_000
    assert found["calibration_watermark_timestamp_seconds", frozenset({("model", "churn")})] == 1_800_000_000.5
    assert found["calibration_settled_timestamp_seconds", frozenset({("model", "churn")})] == 1_800_000_000 - 86_400
    assert found["calibration_insufficient_data", of()] == 0
    assert found["calibration_evaluation_duration_seconds", frozenset()] == 0.25


def test_insufficient_data_is_an_absent_series_and_never_zero(exposition: Exposition, evaluations: Evaluations) -> None:
    evaluations.show(snapshot([report(n=0, insufficient="no prediction has an outcome yet"), report(version="8")]))
    found = samples(exposition)
    assert found["calibration_insufficient_data", of()] == 1
    assert found["calibration_insufficient_data", of(version="8")] == 0
    assert found["calibration_window_labelled", of()] == 0
    for name in ("tce_ratio", "kce", "kce_lower", "prevalence_ratio", "mean_prediction_ratio"):
        assert (f"calibration_{name}", of()) not in found
        assert (f"calibration_{name}", of(version="8")) in found


def test_the_diagnosis_is_one_verdict_of_all_there_are_with_its_numbers(
    exposition: Exposition, evaluations: Evaluations
) -> None:
    found = diagnosis(0.4)
    evaluations.show(snapshot([replace(report(), diagnosis=found)]))
    shown = samples(exposition)
    verdicts = {verdict: shown["calibration_verdict", of() | {("verdict", verdict.value)}] for verdict in Verdict}
    assert verdicts == {verdict: float(verdict is Verdict.PRIOR_SHIFT) for verdict in Verdict}
    assert shown["calibration_offset_logit", of()] == 0.4
    assert shown["calibration_offset_logit_lower", of()] == pytest.approx(0.4 - 1.96 * 0.1)
    assert shown["calibration_offset_logit_upper", of()] == pytest.approx(0.4 + 1.96 * 0.1)
    assert shown["calibration_slope", of()] == found.slope
    assert shown["calibration_slope_lower", of()] < 1.004 < shown["calibration_slope_upper", of()]
    assert shown["calibration_p_value", of()] == found.p_value
    assert shown["calibration_prior_shift_p_value", of()] == 0.4
    assert shown["calibration_error_after_offset", of()] == found.error_after_offset
    assert shown["calibration_logit_error_after_offset", of()] == found.logit_error_after_offset


def test_what_a_diagnosis_does_not_know_is_absent(exposition: Exposition, evaluations: Evaluations) -> None:
    one_value = replace(diagnosis(), slope=None, slope_error=None, slope_lower=None, slope_upper=None)
    evaluations.show(
        snapshot(
            [
                replace(report(), diagnosis=one_value),
                replace(report(version="8"), diagnosis=None),
                report(version="9", insufficient="no positives"),
            ]
        )
    )
    shown = samples(exposition)
    assert ("calibration_offset_logit", of()) in shown
    assert not any(name.startswith("calibration_slope") for name, _ in shown)
    for name in ("verdict", "p_value", "offset_logit"):
        assert not any(sample == f"calibration_{name}" and ("version", "8") in labels for sample, labels in shown), name
    assert shown["calibration_verdict", of(version="9") | {("verdict", "insufficient_data")}] == 1
    assert ("calibration_offset_logit", of(version="9")) not in shown


def test_an_interval_that_is_not_computed_yet_is_absent(exposition: Exposition, evaluations: Evaluations) -> None:
    made = report()
    bare = replace(made.measures["kce"], lower=None, upper=None, null_mean=None, null_q95=None, p_value=None)
    evaluations.show(snapshot([replace(made, measures={"kce": bare})]))
    kce = {name for name in names(exposition) if name.startswith("calibration_kce")}
    assert kce == {"calibration_kce", "calibration_kce_error_bound"}


def test_a_removed_series_vanishes(exposition: Exposition, evaluations: Evaluations) -> None:
    evaluations.show(snapshot([report(), report(model="fraud")], number=1))
    assert ("calibration_kce", of(model="fraud")) in samples(exposition)
    evaluations.show(snapshot([report()], number=2))
    assert not any(("model", "fraud") in labels for _, labels in samples(exposition))


def test_before_the_first_evaluation_and_checkpoint_their_times_are_absent() -> None:
    exposition = Exposition([window_families(Evaluations(), MEASURES), pipeline_families(PipelineStatus)])
    assert not {
        "calibration_evaluation_timestamp_seconds",
        "calibration_evaluation_duration_seconds",
        "calibration_checkpoint_timestamp_seconds",
        "calibration_checkpoint_duration_seconds",
    } & names(exposition)
    found = samples(exposition)
    assert found["calibration_evaluations_total", frozenset()] == 0
    assert found["calibration_ready", frozenset()] == 0
    assert found["calibration_pipeline_phase", frozenset({("phase", "starting")})] == 1


def test_every_fate_and_reason_is_there_at_zero_from_the_start() -> None:
    found = samples(Exposition([pipeline_families(PipelineStatus)]))
    for kind, results in event_results.RESULTS.items():
        for result in results:
            labels = frozenset({("type", kind), ("result", result)})
            assert found.get(("calibration_events_total", labels)) == (None if result == event_results.EARLY else 0)
    for reason in set(Reason) - {Reason.REFUSED_MODEL}:
        assert found["calibration_dead_letters_total", frozenset({("reason", reason.value)})] == 0
    for result in (
        event_results.ANSWERED,
        event_results.EXPIRED,
        event_results.IMPLIED_NEGATIVE,
        event_results.EVICTED,
    ):
        assert found["calibration_departed_predictions_total", frozenset({("result", result)})] == 0


def test_the_pipeline_says_how_it_stands(exposition: Exposition) -> None:
    found = samples(exposition)
    accepted = frozenset({("type", "prediction"), ("result", "accepted")})
    assert found["calibration_events_total", accepted] == 1_234_567
    assert found["calibration_dead_letters_total", frozenset({("reason", "not_json")})] == 2
    assert found["calibration_consumer_lag", frozenset({("topic", "events"), ("partition", "0")})] == 3
    assert found["calibration_pending_predictions", frozenset()] == 5_000_000
    assert found["calibration_checkpoint_timestamp_seconds", frozenset()] == 1_800_000_000.123
    assert found["calibration_ready", frozenset()] == 1


def test_what_can_fall_is_no_counter(exposition: Exposition) -> None:
    """An early outcome stops being early."""
    found = samples(exposition)
    assert ("calibration_events_total", frozenset({("type", "outcome"), ("result", event_results.EARLY)})) not in found
    assert found["calibration_early_outcomes", frozenset()] == 7
    assert found["calibration_departed_predictions_total", frozenset({("result", "evicted")})] == 3


def test_what_waits_to_be_renewed_is_counted_with_how_long_the_longest_has(
    exposition: Exposition, evaluations: Evaluations
) -> None:
    evaluations.show(snapshot([report(), report(version="8")]))
    found = samples(exposition)
    assert found["calibration_outdated_seconds", frozenset()] == found["calibration_outdated_reports", frozenset()] == 0
    now_ms = snapshot([]).evaluated_ms
    since = [
        replace(report(version=version), intervals_outdated_since_ms=now_ms - 1000 * ago)
        for version, ago in (("7", 90), ("8", 300))
    ]
    evaluations.show(snapshot([*since, report(version="9")]))
    found = samples(exposition)
    assert found["calibration_outdated_seconds", frozenset()] == 300
    assert found["calibration_outdated_reports", frozenset()] == 2


def test_the_cap_leaves_out_segments_first_and_counts_what_it_left_out(evaluations: Evaluations) -> None:
    evaluations.show(snapshot([report(segment=segment) for segment in ("all", "region=eu", "region=us")]))
    free = Exposition([window_families(evaluations, MEASURES)])
    a_report = int(samples(free)["calibration_series_exported", frozenset()]) // 3
    assert samples(free)["calibration_series_dropped_total", frozenset()] == 0

    evaluations.show(snapshot([report(segment="all", version=version) for version in "78"] + [report(segment="a=1")]))
    capped = Exposition([window_families(evaluations, MEASURES, max_series=2 * a_report + 1)])
    found = samples(capped)
    assert {dict(labels)["segment"] for name, labels in found if name == "calibration_kce"} == {"all"}
    assert found["calibration_series_exported", frozenset()] == 2 * a_report
    assert found["calibration_series_dropped_total", frozenset()] == a_report


def test_the_cap_leaves_out_declared_models_last(evaluations: Evaluations) -> None:
    evaluations.show(snapshot([report(model="a"), report(model="b"), report(model="b", segment="region=eu")]))
    whole = samples(Exposition([window_families(evaluations, MEASURES)]))["calibration_series_exported", frozenset()]
    capped = window_families(evaluations, MEASURES, max_series=int(whole) * 2 // 3 + 1, declared=["b"])
    kept = {dict(labels)["model"] for name, labels in samples(Exposition([capped])) if name == "calibration_kce"}
    assert kept == {"b"}


def test_exported_counts_the_lines_about_windows(evaluations: Evaluations) -> None:
    evaluations.show(snapshot([*many_reports(10), report(n=0, insufficient="nothing yet")]))
    found = samples(Exposition([window_families(evaluations, MEASURES)]))
    about_windows = [name for name, labels in found if "window" in dict(labels)]
    assert found["calibration_series_exported", frozenset()] == len(about_windows)


def test_bins_are_exported_with_their_report_or_not_at_all(evaluations: Evaluations) -> None:
    evaluations.show(snapshot([report(bins=3), report(segment="region=eu", bins=3)]))
    free = samples(Exposition([window_families(evaluations, MEASURES)]))
    assert free["calibration_bin_labelled", of() | {("bin", "0.1")}] == 90
    assert free["calibration_bin_positives", of() | {("bin", "0.2")}] == 32
    assert 18 <= free["calibration_bin_summed_predictions", of() | {("bin", "0.2")}] <= 19
    assert ("calibration_bin_labelled", of() | {("bin", "0.3")}) not in free
    whole = free["calibration_series_exported", frozenset()]
    about_windows = [name for name, labels in free if "window" in dict(labels)]
    assert whole == len(about_windows)

    capped = samples(Exposition([window_families(evaluations, MEASURES, max_series=int(whole) - 1)]))
    assert {dict(labels)["segment"] for name, labels in capped if name.startswith("calibration_bin_")} == {"all"}
    assert capped["calibration_series_dropped_total", frozenset()] == whole / 2


def test_coverage_by_age_goes_with_the_first_report_of_a_whole_version(evaluations: Evaluations) -> None:
    reports = [report(), report(window="24h"), report(version="8"), report(segment="region=eu")]
    evaluations.show(snapshot(reports, coverage={("churn", "7"): cohorts(0.5), ("churn", "8"): cohorts()}))
    free = samples(Exposition([window_families(evaluations, MEASURES)]))
    youngest = frozenset({("model", "churn"), ("version", "7"), ("cohort", "0-25%")})
    assert free["calibration_cohort_predictions", youngest] == 400
    assert free["calibration_cohort_labelled", youngest] == 40
    about_coverage = [labels for name, labels in free if name.startswith("calibration_cohort_")]
    assert len(about_coverage) == 20
    whole = free["calibration_series_exported", frozenset()]
    assert whole == len(about_coverage) + sum("window" in dict(labels) for _, labels in free)

    evaluations.show(snapshot([report(), report(version="8")], coverage={("churn", "7"): cohorts()}))
    with_it = int(
        samples(Exposition([window_families(evaluations, MEASURES)]))["calibration_series_exported", frozenset()]
    )
    capped = samples(Exposition([window_families(evaluations, MEASURES, max_series=with_it // 2)]))
    assert not [name for name, _ in capped if name.startswith("calibration_cohort_")]


def test_dropped_series_count_once_an_evaluation_however_often_they_are_scraped(evaluations: Evaluations) -> None:
    exposition = Exposition([window_families(evaluations, MEASURES, max_series=0)])

    def dropped() -> float:
        return samples(exposition)["calibration_series_dropped_total", frozenset()]

    evaluations.show(snapshot([report()], number=1))
    with capture_logs() as logged:
        once = dropped()
        assert dropped() == once
    assert once > 0
    assert [(line["series"], line["max_series"]) for line in logged] == [(once, 0)]
    assert "raise exposition.max_series, or lower exposition.level" in logged[0]["event"]
    with capture_logs() as logged:
        evaluations.show(snapshot([report()], number=2))
        assert dropped() == 2 * once
    assert logged == []


def test_the_text_is_the_librarys_own_to_the_byte(exposition: Exposition, evaluations: Evaluations) -> None:
    odd = report(model='a"b\\c\nd', version="größer", segment="k=v,w={}")
    evaluations.show(snapshot([odd, *many_reports(20, bins=2)], coverage={("churn", "7"): cohorts()}))
    windows_and_pipeline = CollectorRegistry()
    windows_and_pipeline.register(ExpositionCollector(exposition, process=False))
    process = CollectorRegistry()
    body, content_type = exposition.render()
    assert content_type.startswith("text/plain; version=0.0.4")
    assert body.startswith(generate_latest(windows_and_pipeline))
    body, content_type = exposition.render(openmetrics=True)
    assert content_type.startswith("application/openmetrics-text; version=1.0.0")
    assert body.startswith(generate_openmetrics(windows_and_pipeline).removesuffix(generate_openmetrics(process)))


@given(
    labels=st.tuples(st.text(), st.text()),
    value=st.floats(allow_nan=True, allow_infinity=True),
    openmetrics=st.booleans(),
)
def test_any_label_and_number_is_written_as_the_library_writes_it(
    labels: tuple[str, str], value: float, openmetrics: bool
) -> None:
    series = Series[None]("calibration_x_ratio", 'A "b" \\ c.', lambda _: None, ("b", "a"))
    family = Family(series, [(labels, value)])

    class One:
        def collect(self) -> Iterator[Metric]:
            yield to_metric(family)

    registry = CollectorRegistry()
    registry.register(One())
    generate = generate_openmetrics if openmetrics else generate_latest
    written = write_families([family], openmetrics=openmetrics) + ("# EOF\n" if openmetrics else "")
    assert written.encode() == generate(registry)


def test_openmetrics_parses_and_says_the_units(exposition: Exposition, evaluations: Evaluations) -> None:
    evaluations.show(snapshot(many_reports(5)))
    body, _ = exposition.render(openmetrics=True)
    families = {family.name: family for family in parse_openmetrics(body.decode())}
    assert families["calibration_tce_ratio"].unit == "ratio"
    assert families["calibration_checkpoint_timestamp_seconds"].unit == "seconds"
    assert families["calibration_events"].type == "counter"
    assert families["calibration_build"].type == "info"


@pytest.mark.timeout(1800)  # the first time, promtool may have to be built
def test_promtool_finds_nothing_to_say(exposition: Exposition, evaluations: Evaluations) -> None:
    reports = [*many_reports(12, bins=10), report(n=0, insufficient="nothing yet")]
    evaluations.show(snapshot(reports, coverage={("churn", "7"): cohorts()}))
    body, _ = exposition.render()
    said = check_metrics(body)
    assert said.returncode == 0, said.stderr
    assert said.stderr == ""
    assert said.stdout == ""


@pytest.mark.timeout(1800)
def test_promtool_would_say_something() -> None:
    said = check_metrics(b"# TYPE requests counter\nrequests 1\n")
    assert said.returncode != 0
    assert "_total" in said.stderr + said.stdout


def test_what_is_kept_between_scrapes_is_what_a_first_scrape_writes(evaluations: Evaluations) -> None:
    """Reports and coverage change, come and go: the text is that of an exposition made anew."""
    kept = Exposition([window_families(evaluations, MEASURES, max_series=900)])
    first, second, third = report(bins=2), report(model="fraud"), report(model="fraud", segment="region=eu")
    many = [report(model=f"model {at}") for at in range(60)]
    for number, (reports, coverage) in enumerate(
        [
            ([first, second], cohorts()),
            ([first, third, second], cohorts()),
            ([replace(first, n=7), second], cohorts(0.5)),
            ([second], cohorts(0.5)),
            ([first, *many], cohorts()),
            ([first, *many[:3]], cohorts()),
            ([], cohorts()),
        ],
        start=1,
    ):
        evaluations.show(snapshot(reports, number, coverage={("churn", "7"): coverage, ("fraud", "7"): coverage}))
        anew = Exposition([window_families(evaluations, MEASURES, max_series=900)])
        assert _windows(kept) == _windows(anew)
        assert _windows(kept) == _windows(anew)


def _windows(exposition: Exposition) -> list[str]:
    """The samples about windows."""
    return [line for line in exposition.render()[0].decode().splitlines() if "model=" in line]


def test_a_model_is_written_again_only_where_a_report_of_it_changed(evaluations: Evaluations) -> None:
    families = window_families(evaluations, MEASURES)

    def texts() -> list[str]:
        (written,) = [family for family in families() if family.series.name == "calibration_kce"]
        assert isinstance(written, WrittenFamily)
        return list(written.text)

    churn, fraud = report(), report(model="fraud")
    evaluations.show(snapshot([churn, fraud]))
    before = texts()
    evaluations.show(snapshot([churn, replace(fraud, n=1)], number=2))
    after = texts()
    assert after == before
    assert after[0] is before[0]
    assert after[1] is not before[1]
