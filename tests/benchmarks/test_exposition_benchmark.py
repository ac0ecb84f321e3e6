from collections.abc import Callable
from dataclasses import replace
from time import perf_counter

import pytest
from prometheus_client import CollectorRegistry, Gauge, generate_latest

from monitor.metrics.exposition import Exposition
from monitor.metrics.measures import measure_series
from monitor.metrics.series import Level
from monitor.metrics.service import pipeline_families
from monitor.stream.status import PipelineStatus
from tests.metrics.library import ExpositionCollector
from tests.snapshots import Evaluations, many_reports, measure, snapshot, window_families

MEASURES = tuple(
    measure(name, "percent" if name == "tce" else "ratio", rank)
    for rank, name in enumerate(("tce", "kce", "smce", "intce", "surrogate_intce", "ece", "mce"))
)


def best(of: Callable[[], object], rounds: int) -> float:
    seconds = []
    for _ in range(rounds):
        start = perf_counter()
        of()
        seconds.append(perf_counter() - start)
    return min(seconds)


@pytest.mark.benchmark
def test_rendering_a_thousand_windows_beats_a_registry_of_gauges() -> None:
    """The peer: the same numbers in one Gauge a series, set anew at each scrape, as most exporters do."""
    reports = many_reports(1000, MEASURES)
    evaluations = Evaluations()
    evaluations.show(snapshot(reports))
    exposition = Exposition([window_families(evaluations, MEASURES), pipeline_families(PipelineStatus)])

    def anew() -> tuple[bytes, str]:
        evaluations.show(snapshot([replace(report) for report in reports]))
        return exposition.render()

    registry = CollectorRegistry()
    declared = measure_series(MEASURES)
    gauges = [Gauge(series.name, series.meaning, series.labels, registry=registry) for series in declared]

    def naive() -> bytes:
        for series, gauge in zip(declared, gauges, strict=True):
            for report in reports:
                value = series.read(report)
                assert isinstance(value, float)
                gauge.labels(report.model, report.version, report.segment, report.window).set(value)
        return generate_latest(registry)

    ours, unchanged = best(anew, 5), best(exposition.render, 5)
    theirs = best(naive, 3)
    library = CollectorRegistry()
    library.register(ExpositionCollector(exposition))
    same_collector = best(lambda: generate_latest(library), 3)
    body, _ = exposition.render()
    print(
        f"\n{body.count(b'} ')} samples, {len(body) / 1e6:.1f} MB: {ours * 1e3:.0f} ms where every report changed, "
        f"{unchanged * 1e3:.1f} ms where none did; "
        f"registry of gauges {theirs * 1e3:.0f} ms ({theirs / ours:.1f} times as long); "
        f"the same collector through the library's writer {same_collector * 1e3:.0f} ms "
        f"({same_collector / ours:.1f} times)"
    )
    assert theirs > 3 * ours
    assert ours > 3 * unchanged


@pytest.mark.benchmark
def test_bins_cost_no_more_than_their_share_of_the_samples() -> None:
    """The peer: the same windows without their reliability diagrams."""
    for occupied in (5, 10):
        evaluations = Evaluations()
        evaluations.show(snapshot(many_reports(900, MEASURES, occupied)))

        def first_answer(evaluations: Evaluations = evaluations, *, level: Level) -> bytes:
            return Exposition([window_families(evaluations, MEASURES, level=level)]).render()[0]

        longer = len(first_answer(level=Level.ALL)) / len(first_answer(level=Level.INTERVALS))
        slower = best(lambda: first_answer(level=Level.ALL), 5) / best(lambda: first_answer(level=Level.INTERVALS), 5)
        print(f"\n{occupied} bins of each of 900 windows: {longer:.2f} times as long, {slower:.2f} times the time")
        assert longer < 1.6
        assert slower < 3
