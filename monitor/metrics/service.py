"""The series of the service itself: what its pipeline reads, joins and saves, and the requests it answers."""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final

from monitor.events import event_results
from monitor.events.model import Reason, TopicPartition
from monitor.metrics.series import Families, Family, Series, read_families
from monitor.stream.status import Phase, PipelineStatus, Unread

_PARTITION_LABELS: Final = ("topic", "partition")
_CAP_LABELS: Final = ("cap", "model", "segment_key")

# Events of refused models are valid; calibration_events_total counts them.
_REASONS: Final = [reason for reason in Reason if reason is not Reason.REFUSED_MODEL]
# Every label value is there from the start, at 0, so that rates work.
_DEPARTURES: Final = dict.fromkeys(event_results.DEPARTURES, 0)
_EVENTS: Final = {
    (kind, result): 0
    for kind, results in event_results.RESULTS.items()
    for result in results
    if result != event_results.EARLY
}

PIPELINE: Final[tuple[Series[PipelineStatus], ...]] = (
    Series(
        "calibration_ready",
        "1 while partitions are assigned, restored and read; 0 otherwise.",
        lambda status: status.ready,
    ),
    Series(
        "calibration_pipeline_phase",
        "1 for the phase in which the pipeline is, 0 for the others.",
        lambda status: [((phase.value,), status.phase is phase) for phase in Phase],
        ("phase",),
    ),
    Series(
        "calibration_assigned_partitions",
        "Partitions whose state is restored and which this process reads.",
        lambda status: len(status.partitions),
    ),
    Series(
        "calibration_records_read_total",
        "Messages that this process has read since it started.",
        lambda status: status.records_read,
    ),
    Series(
        "calibration_events_total",
        "Events by result, since the log's beginning, over the partitions held: it starts anew, lower, when a "
        "partition moves away. An outcome that waits for its prediction has no result yet: see "
        "calibration_early_outcomes.",
        # An early outcome gets another result later: a number that falls is a gauge, and no counter.
        lambda status: list(
            (_EVENTS | {key: n for key, n in status.counters.items() if key[1] != event_results.EARLY}).items()
        ),
        ("type", "result"),
    ),
    Series(
        "calibration_cap_used_ratio",
        "Share of a cap's places that names take, in the fullest partition held: of undeclared models (`cap` models, "
        "`model` empty), or of a model's versions, segment_values of a key, or strata. Only from a half on, or where "
        "names became `other`: so a fleet whose caps suffice has none of these series.",
        lambda status: [(tuple(cap), use.used / use.limit) for cap, use in status.caps.items()],
        _CAP_LABELS,
    ),
    Series(
        "calibration_folded_predictions_total",
        "Accepted predictions of which a name became `other` because the cap was full, over the partitions held. It is "
        "forgotten, and absent, once windows no longer reach the newest of them.",
        lambda status: [(tuple(cap), use.folded) for cap, use in status.caps.items() if use.folded],
        _CAP_LABELS,
    ),
    Series(
        "calibration_departed_predictions_total",
        "Accepted predictions that left the join, by how: with an outcome, without one, or before their time because "
        "the table was full.",
        lambda status: [((result,), count) for result, count in (_DEPARTURES | dict(status.departed)).items()],
        ("result",),
    ),
    Series(
        "calibration_dead_letters_total",
        "Messages that were no valid events, by reason, over the partitions held.",
        lambda status: [((reason.value,), status.dead_letters.get(reason, 0)) for reason in _REASONS],
        ("reason",),
    ),
    Series(
        "calibration_purged_offsets_total",
        "Offsets skipped because the log no longer held their records, since the process started.",
        lambda status: status.purged_offsets,
    ),
    Series(
        "calibration_pending_predictions",
        "Predictions kept to be joined: waiting for their outcome, or answered and kept to recognise duplicates.",
        lambda status: status.pending,
    ),
    Series(
        "calibration_unanswered_predictions",
        "Kept predictions that have no outcome yet.",
        lambda status: status.unanswered,
    ),
    Series(
        "calibration_early_outcomes",
        "Outcomes that wait for their prediction.",
        lambda status: status.early_outcomes,
    ),
    Series(
        "calibration_consumer_lag",
        "Records between what was read and the end of the topic partition, of the partitions that this process reads. "
        "Absent while it reads nothing, as when the log or the store does not answer.",
        lambda status: [((topic, str(number)), lag) for (topic, number), lag in sorted(status.lag.items())],
        _PARTITION_LABELS,
    ),
    Series(
        "calibration_state_bytes",
        "Memory of the tables of the partitions held: join, which grows until the horizon has passed once, and "
        "candidates of samples for refits.",
        lambda status: [((table,), size) for table, size in status.state_bytes.items()],
        ("table",),
    ),
    Series(
        "calibration_checkpoint_timestamp_seconds",
        "When state and offsets were last saved, seconds since the epoch. Absent before the first time.",
        lambda status: status.checkpoint_ms / 1000 if status.checkpoint_ms else None,
    ),
    Series(
        "calibration_checkpoint_duration_seconds",
        "Duration of the last save of state and offsets. Absent before the first time.",
        lambda status: status.checkpoint_seconds if status.checkpoint_ms else None,
    ),
)

BACKLOG: Final[tuple[Series[Unread], ...]] = (
    Series(
        "calibration_unread_records",
        "Records of the topic partition that are not read and saved yet, by whichever replica or by none: every "
        "replica measures all partitions, every 15 seconds. Absent while the log or the store does not answer.",
        lambda unread: unread.records,
        _PARTITION_LABELS,
    ),
    Series(
        "calibration_saved_offset",
        "Offset up to which the topic partition is read and saved, by whichever replica; 0 where nothing is saved yet. "
        "Present where calibration_unread_records is.",
        lambda unread: unread.saved_offset,
        _PARTITION_LABELS,
    ),
)


# Requests are counted meanwhile: list() copies a dict's items at once, before they are sorted.
HTTP: Final[tuple[Series[Mapping[Any, float]], ...]] = (
    Series(
        "calibration_http_requests_total",
        "HTTP requests since the process started, by the template of the route; HEAD counts as GET. Paths without a "
        "route are `other`; status `none` is of requests whose connection ended before the answer.",
        lambda counts: sorted(list(counts.items())),  # noqa: C414
        ("method", "route", "status"),
    ),
    Series(
        "calibration_http_request_seconds_total",
        "Total duration of these requests, from their headers to the end of their answer.",
        lambda seconds: sorted(list(seconds.items())),  # noqa: C414
        ("method", "route"),
    ),
    Series(
        "calibration_access_refusals_total",
        "Refused requests by reason: `missing` without a key or token, `wrong` with an invalid one, `forbidden` for "
        "lack of a role, `cross_site` from a page of another site, `failures` unchecked after too many wrong keys from "
        "its address, `requests` beyond the requests per second of one caller, `connections` closed at once because "
        "too many were open.",
        lambda counts: [((str(reason),), count) for reason, count in counts.items()],
        ("reason",),
    ),
)


ROLE: Final = Series[Collection[str]](
    "calibration_replica_role",
    "1 for the roles of this replica, 0 for the others. Without consume there are no series of the pipeline, without "
    "evaluate none of models.",
    lambda roles: [((role,), role in roles) for role in ("consume", "evaluate", "serve")],
    ("role",),
)


def role_families(roles: Collection[str]) -> Families:
    """The family of this replica's roles."""
    return lambda: read_families([ROLE], [((), roles)])


def pipeline_families(status: Callable[[], PipelineStatus]) -> Families:
    """The families of the pipeline's status."""
    return lambda: read_families(PIPELINE, [((), status())])


def backlog_families(unread: Callable[[], Mapping[TopicPartition, Unread]]) -> Families:
    """The families of unread records, of all partitions, as last measured."""
    return lambda: read_families(
        BACKLOG, [((topic, str(number)), backlog) for (topic, number), backlog in sorted(unread().items())]
    )


def http_families(
    requests: Mapping[tuple[str, str, str], int], seconds: Mapping[tuple[str, str], float], refusals: Mapping[str, int]
) -> Families:
    """The families of the HTTP server.

    Parameters
    ----------
    requests, seconds
        Numbers by (method, route, status), and durations by (method, route).
    refusals
        Numbers by reason. All reasons are there from the start, at 0, so that rates work.
    """
    all_counts: tuple[Mapping[Any, float], ...] = (requests, seconds, refusals)

    def families() -> Iterator[Family]:
        for series, counts in zip(HTTP, all_counts, strict=True):
            yield from read_families((series,), [((), counts)])

    return families
