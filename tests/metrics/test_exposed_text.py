"""The exposed text of a full service, held as a file: names, meanings, labels, values and their order."""

from dataclasses import replace
from pathlib import Path

from monitor.clock import SystemClock
from monitor.events import event_results
from monitor.events.model import Reason, TopicPartition
from monitor.events.strata import Cap
from monitor.http.request_log import RefusedRequests, RequestTraffic
from monitor.metrics.exposition import Exposition
from monitor.metrics.refits import RefitFamilies
from monitor.metrics.series import Level
from monitor.metrics.service import backlog_families, http_families, pipeline_families
from monitor.store.base import CapUse
from monitor.stream.status import Phase, PipelineStatus, Unread
from tests.live_states import Maps, state
from tests.snapshots import MEASURES, Evaluations, cohorts, report, result, snapshot, window_families

GOLDEN = Path(__file__).parent / "exposed.txt"

STATUS = PipelineStatus(
    phase=Phase.RUNNING,
    partitions=frozenset({0, 1}),
    caps={Cap("models"): CapUse(150, 200), Cap("segment_values", 'a"b', "region"): CapUse(50, 50, folded=7)},
    counters={
        (event_results.PREDICTION, event_results.ACCEPTED): 1_234_567,
        (event_results.OUTCOME, event_results.EARLY): 7,
    },
    departed={event_results.EVICTED: 3},
    dead_letters={Reason.NOT_JSON: 2},
    pending=5_000_000,
    lag={TopicPartition("events", 1): 4, TopicPartition("events", 0): 3},
    checkpoint_ms=1_800_000_000_123,
    checkpoint_seconds=0.031,
    state_bytes={"join": 70_000, "candidates": 90_000},
)


def exposed() -> str:
    """Everything but the version and what the process itself reports."""
    whole = replace(report(bins=3), canonical={"skce": result("ratio", 0.25)})
    evaluations = Evaluations(failures_total=2, series_dropped=1, staleness=3)
    outdated = replace(report(segment="region=eu"), intervals_outdated_since_ms=1_799_999_990_000)
    reports = [whole, outdated, report(version="8", n=0, insufficient="no outcomes"), report(model='a"b\\c\nd')]
    evaluations.show(snapshot(reports, coverage={("churn", "7"): cohorts(0.5)}))
    maps = Maps(state(MEASURES))
    traffic = RequestTraffic()
    traffic.count("GET", "/metrics", 200, 0.25)
    traffic.count("GET", "/healthz", 200, 0.5)
    body, _ = Exposition(
        [
            window_families(evaluations, MEASURES),
            RefitFamilies(lambda: maps.latest, MEASURES, lambda: maps.known, level=Level.ALL),
            pipeline_families(lambda: STATUS),
            backlog_families(lambda: {TopicPartition("events", 0): Unread(3, 100)}),
            http_families(traffic.requests, traffic.seconds, RefusedRequests(clock=SystemClock()).counts),
        ]
    ).render()
    lines = body.decode().splitlines(keepends=True)
    return "".join(line for line in lines if "calibration_build_info" not in line and "process_" not in line)


def test_the_exposed_text_is_the_stored_one() -> None:
    assert exposed() == GOLDEN.read_text()
