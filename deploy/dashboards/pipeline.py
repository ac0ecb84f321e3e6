"""The service itself: whether it keeps up, saves and answers."""

from collections.abc import Iterator
from typing import Final

from grafana_foundation_sdk.builders import stat, timeseries
from grafana_foundation_sdk.models.dashboard import Dashboard

from deploy.dashboards.board import board, choice, namespaces
from deploy.dashboards.panels import (
    GREEN,
    ORANGE,
    RED,
    YELLOW,
    AnyPanel,
    Query,
    coloured,
    lines,
    number,
)
from monitor.stream.status import Phase

_JOB: Final = 'namespace=~"$namespace",job="calibration-monitor"'
_CHOSEN: Final = f'{_JOB},instance=~"$instance"'
_RATE: Final = "[$__rate_interval]"

_LAG: Final = f"max by (topic, partition) (calibration_consumer_lag{{{_CHOSEN}}})"
_PHASES: Final = {
    Phase.STARTING: YELLOW,
    Phase.RUNNING: GREEN,
    Phase.SOURCE_UNAVAILABLE: ORANGE,
    Phase.STORE_UNAVAILABLE: ORANGE,
    Phase.SCHEMA_UNAVAILABLE: ORANGE,
    Phase.STOPPED: RED,
    Phase.FAILED: RED,
}
_MOVED: Final = (
    "Counts go with their partition: one that moves to another replica is a dip and a peak of the same size here."
)


def pipeline() -> Dashboard:
    """The dashboard of the service."""
    return board(
        "pipeline",
        "Calibration: the service",
        "Whether the monitor keeps up with its log, saves its state, evaluates in time and answers.",
        [namespaces(), choice("instance", "Replica", f"calibration_build_info{{{_JOB}}}", several=True)],
        [
            ("Now", _now()),
            ("Reading", _reading()),
            ("Joining", _joining()),
            ("Evaluating and saving", _evaluating()),
            ("Answering", _answering()),
            ("Process", _process()),
        ],
        span="now-3h",
    )


def _now() -> Iterator[stat.Panel]:
    yield number(
        "Replicas up",
        "Replicas that Prometheus can scrape, of those that it should.",
        Query(f"sum(up{{{_CHOSEN}}})", "up"),
        Query(f"count(up{{{_CHOSEN}}})", "wanted"),
        trend=False,
    )
    yield number(
        "Ready",
        "Replicas whose partitions are assigned, restored and read. One that is up and not ready says in /readyz why.",
        Query(f"sum(calibration_ready{{{_CHOSEN}}})"),
        colours=((None, RED), (1, GREEN)),
        trend=False,
    )
    yield number(
        "Records that wait",
        "Records between what was read and the end of the log, over all topics. Steady is fine; growing means that "
        "reports are ever older than they look.",
        Query(f"sum({_LAG})"),
        unit="short",
        colours=((None, GREEN), (100_000, ORANGE), (1_000_000, RED)),
    )
    yield number(
        "Last saved",
        "How long ago state and offsets were last saved, by the replica where it is longest. A checkpoint is made "
        "every two seconds where there is anything to save; a quiet log needs none.",
        Query(f"time() - min(calibration_checkpoint_timestamp_seconds{{{_CHOSEN}}})"),
        unit="s",
        colours=((None, GREEN), (300, ORANGE), (900, RED)),
    )
    yield number(
        "Dead letters",
        "Share of all messages so far that were no valid events. `monitor dead-letters list` shows them, with reasons.",
        Query(f"sum(calibration_dead_letters_total{{{_CHOSEN}}}) / sum(calibration_events_total{{{_CHOSEN}}})"),
        unit="percentunit",
        colours=((None, GREEN), (0.01, ORANGE), (0.1, RED)),
    )
    yield number(
        "Versions",
        "Version of the service by replicas that run it: more than one only while it is rolled out.",
        Query(f"count by (version) (calibration_build_info{{{_CHOSEN}}})", "{{version}}", kind="instant"),
        trend=False,
    )


def _reading() -> Iterator[AnyPanel]:
    yield lines(
        "Records that wait",
        "Records between what was read and the end of the log, by topic. A line that climbs is a monitor that falls "
        "behind; one that falls is catching up. Of all partitions, those that no replica reads included: one that "
        "climbs alone is read by nobody.",
        Query(f"sum by (topic) ({_LAG})", "{{topic}}"),
        Query(
            f"sum by (topic) (max by (topic, partition) (calibration_unread_records{{{_CHOSEN}}}))",
            "{{topic}}, all partitions",
        ),
        unit="short",
    )
    yield lines(
        "Records read",
        "Messages that each replica reads a second.",
        Query(f"sum by (instance) (rate(calibration_records_read_total{{{_CHOSEN}}}{_RATE}))", "{{instance}}"),
        unit="cps",
    )
    yield lines(
        "Replicas by phase",
        "Where the pipelines of the replicas stand. All should be running; in any other phase nothing is read, and "
        "/readyz of the replica says why.",
        Query(f"sum by (phase) (calibration_pipeline_phase{{{_CHOSEN}}})", "{{phase}}"),
        stacked=True,
        fields={
            phase.value: [("displayName", phase.value.replace("_", " ")), coloured(colour)]
            for phase, colour in _PHASES.items()
        },
    )
    yield lines(
        "Events by what became of them",
        f"Events a second by type and fate: joined, late, duplicate and so on. {_MOVED}",
        Query(_deriv("calibration_events_total", "type, result"), "{{type}} {{result}}"),
        unit="cps",
    )
    yield lines(
        "Dead letters by reason",
        f"Messages a second that were no valid events, by reason. A sudden rise is most often a producer's "
        f"deploy. {_MOVED}",
        Query(_deriv("calibration_dead_letters_total", "reason"), "{{reason}}"),
        unit="cps",
        stacked=True,
    )
    yield lines(
        "Caps on names",
        "Share of a cap's places that names take, in the fullest partition, of caps that are at least half used. "
        "At 100% further models are refused, and further versions and segment values count as `other`.",
        Query(
            f"max by (cap, model, segment_key) (calibration_cap_used_ratio{{{_CHOSEN}}})",
            "{{cap}} {{model}} {{segment_key}}",
        ),
        unit="percentunit",
    )
    yield lines(
        "Partitions read",
        "Partitions that each replica reads. They move when replicas come and go; together they are all there are.",
        Query(f"max by (instance) (calibration_assigned_partitions{{{_CHOSEN}}})", "{{instance}}"),
        stacked=True,
    )


def _joining() -> Iterator[timeseries.Panel]:
    yield lines(
        "Predictions kept",
        "Predictions in the join: all, and those that wait for their outcome. They grow until the horizon has passed "
        "once, and then stay; about 60 bytes of memory each.",
        Query(f"sum(calibration_pending_predictions{{{_CHOSEN}}})", "kept"),
        Query(f"sum(calibration_unanswered_predictions{{{_CHOSEN}}})", "waiting for their outcome"),
        Query(f"sum(calibration_early_outcomes{{{_CHOSEN}}})", "outcomes before their prediction"),
        unit="short",
    )
    yield lines(
        "Predictions that left the join",
        "A second, by how: with an outcome, without one when their time was up, or before their time because the table "
        f"was full (evicted), which should never be. {_MOVED}",
        Query(_deriv("calibration_departed_predictions_total", "result"), "{{result}}"),
        unit="cps",
        fields={"evicted": [coloured(RED)]},
    )
    yield lines(
        "Offsets passed over",
        "Offsets that the log no longer held when they were to be read, since each process started: data that was lost "
        "before it was read. Lengthen the log's retention.",
        Query(f"sum by (instance) (calibration_purged_offsets_total{{{_CHOSEN}}})", "{{instance}}"),
        unit="short",
    )


def _evaluating() -> Iterator[timeseries.Panel]:
    yield lines(
        "Time of an evaluation",
        "What the values of all windows took the last time. One that takes longer than its interval delays the next.",
        Query(f"max by (instance) (calibration_evaluation_duration_seconds{{{_CHOSEN}}})", "{{instance}}"),
        unit="s",
    )
    yield lines(
        "Intervals that wait",
        "For how long the longest outdated intervals, levels and verdict have been waiting to be renewed. Values are "
        "up to date all the same. Beyond five minutes, give it another processor, or declare fewer windows.",
        Query(f"max by (instance) (calibration_outdated_seconds{{{_CHOSEN}}})", "{{instance}}"),
        unit="s",
        colours=((None, "transparent"), (300, ORANGE)),
    )
    yield lines(
        "Reports that failed",
        "Reports that the last evaluation could not make, and series that it left out because there are too many. Both "
        "should be 0; the log names the cause.",
        Query(f"sum(calibration_failed_reports{{{_CHOSEN}}})", "failed"),
        Query(f"sum(calibration_unevaluated_series{{{_CHOSEN}}})", "left out"),
        fields={"failed": [coloured(RED)], "left out": [coloured(ORANGE)]},
    )
    yield lines(
        "Since the last checkpoint",
        "How long ago state and offsets were last saved. After a crash, what was read since is read again.",
        Query(f"time() - max by (instance) (calibration_checkpoint_timestamp_seconds{{{_CHOSEN}}})", "{{instance}}"),
        unit="s",
        size=(6, 8),
        colours=((None, "transparent"), (300, ORANGE)),
    )
    yield lines(
        "Time of a checkpoint",
        "What saving state and offsets took the last time. Reading rests meanwhile.",
        Query(f"max by (instance) (calibration_checkpoint_duration_seconds{{{_CHOSEN}}})", "{{instance}}"),
        unit="s",
        size=(6, 8),
    )
    yield lines(
        "Series held",
        "Combinations of model, version and segment whose panes each replica holds: what evaluations depend on.",
        Query(f"max by (instance) (calibration_held_series{{{_CHOSEN}}})", "{{instance}}"),
        unit="short",
        size=(6, 8),
    )
    yield lines(
        "Time series in /metrics",
        "Time series about windows that each replica exports, and those that `exposition.max_series` leaves out, a "
        "second. The latter should be 0.",
        Query(f"max by (instance) (calibration_series_exported{{{_CHOSEN}}})", "{{instance}}"),
        Query(f"sum(rate(calibration_series_dropped_total{{{_CHOSEN}}}{_RATE}))", "left out"),
        unit="short",
        size=(6, 8),
        fields={"left out": [coloured(RED)]},
    )


def _answering() -> Iterator[timeseries.Panel]:
    requests = f"calibration_http_requests_total{{{_CHOSEN}}}"
    yield lines(
        "Requests",
        "HTTP requests a second, by route. Scrapes of /metrics and probes are among them.",
        Query(f"sum by (method, route) (rate({requests}{_RATE}))", "{{method}} {{route}}"),
        unit="reqps",
    )
    yield lines(
        "Answers by status",
        "HTTP answers a second. 5xx are faults of the service; 4xx are of whoever asks.",
        Query(f"sum by (status) (rate({requests}{_RATE}))", "{{status}}"),
        unit="reqps",
        stacked=True,
    )
    yield lines(
        "Mean time of an answer",
        "Seconds of all requests over their number, by route. Reports of the latest evaluation take milliseconds; "
        "those of an earlier time are computed.",
        Query(
            f"sum by (method, route) (rate(calibration_http_request_seconds_total{{{_CHOSEN}}}{_RATE}))"
            f" / (sum by (method, route) (rate({requests}{_RATE})) > 0)",
            "{{method}} {{route}}",
        ),
        unit="s",
    )
    yield lines(
        "Requests refused",
        "Requests a second that were refused, by reason: no valid key, or one that does not allow it. A burst is a key "
        "that has expired, or somebody who tries keys.",
        Query(f"sum by (reason) (rate(calibration_access_refusals_total{{{_CHOSEN}}}{_RATE}))", "{{reason}}"),
        unit="reqps",
        size=(12, 7),
        stacked=True,
    )
    yield lines(
        "Refits under way",
        "Models with a refit that is queued or running. It runs in a process of its own, beside the evaluation.",
        Query('sum(max by (model) (calibration_refit_under_way{namespace=~"$namespace"}))', "under way"),
        size=(12, 7),
    )


def _process() -> Iterator[timeseries.Panel]:
    yield lines(
        "Memory",
        "Resident memory of each replica, and that of the tables of its partitions. The join's grow until the horizon "
        "has passed once; then they stay. Panes of windows are not among them.",
        Query(f"max by (instance) (process_resident_memory_bytes{{{_CHOSEN}}})", "{{instance}}"),
        Query(f"sum by (instance, table) (calibration_state_bytes{{{_CHOSEN}}})", "{{instance}}: {{table}}"),
        unit="bytes",
    )
    yield lines(
        "Processor",
        "Seconds of processor time a second, of each replica: 1 is one core.",
        Query(f"sum by (instance) (rate(process_cpu_seconds_total{{{_CHOSEN}}}{_RATE}))", "{{instance}}"),
    )
    yield lines(
        "Open files",
        "File descriptors in use, as a share of those allowed. Near 1 the service can take no more connections.",
        Query(
            f"max by (instance) (process_open_fds{{{_CHOSEN}}} / process_max_fds{{{_CHOSEN}}})",
            "{{instance}}",
        ),
        unit="percentunit",
        most=1.0,
    )


def _deriv(counter: str, by: str) -> str:
    """What a counter that goes with its partition gains a second: summed over replicas first, and compared after."""
    return f"deriv((sum by ({by}) ({counter}{{{_CHOSEN}}}))[$__rate_interval:10s])"
