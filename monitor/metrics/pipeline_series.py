"""The series of the pipeline, by name: what is read, joined and saved."""

from typing import Final

from monitor.metrics.series import Series

READY: Final = Series(
    "calibration_ready",
    "gauge",
    (),
    "",
    "1 while partitions are assigned, restored and read; 0 otherwise.",
)
PHASE: Final = Series(
    "calibration_pipeline_phase",
    "gauge",
    ("phase",),
    "",
    "1 for the phase in which the pipeline is, 0 for the others.",
)
PARTITIONS: Final = Series(
    "calibration_assigned_partitions",
    "gauge",
    (),
    "",
    "Partitions whose state is restored and which this process reads.",
)
RECORDS: Final = Series(
    "calibration_records_read_total",
    "counter",
    (),
    "",
    "Messages that this process has read since it started.",
)
EVENTS: Final = Series(
    "calibration_events_total",
    "counter",
    ("type", "result"),
    "",
    "Events by the fate they met, since the log's beginning, over the partitions held: it starts anew, lower, when a "
    "partition moves away. An outcome that waits for its prediction has no fate yet: see calibration_early_outcomes.",
)
DEPARTED: Final = Series(
    "calibration_departed_predictions_total",
    "counter",
    ("result",),
    "",
    "Accepted predictions that left the join, by how: with an outcome, without one, or before their time because the "
    "table was full.",
)
DEAD_LETTERS: Final = Series(
    "calibration_dead_letters_total",
    "counter",
    ("reason",),
    "",
    "Messages that were no valid events, by reason, over the partitions held.",
)
PURGED: Final = Series(
    "calibration_purged_offsets_total",
    "counter",
    (),
    "",
    "Offsets passed over because the log no longer held them when they were to be read, since the process started.",
)
PENDING: Final = Series(
    "calibration_pending_predictions",
    "gauge",
    (),
    "",
    "Predictions kept to be joined: waiting for their outcome, or answered and kept to recognise duplicates.",
)
UNANSWERED: Final = Series(
    "calibration_unanswered_predictions",
    "gauge",
    (),
    "",
    "Kept predictions that have no outcome yet.",
)
EARLY_OUTCOMES: Final = Series(
    "calibration_early_outcomes",
    "gauge",
    (),
    "",
    "Outcomes that wait for their prediction.",
)
LAG: Final = Series(
    "calibration_consumer_lag",
    "gauge",
    ("topic", "partition"),
    "",
    "Records between what was read and the end of the topic partition, of the partitions that this process reads. "
    "Absent while it reads nothing, as when the log or the store does not answer: what waits then is not known.",
)
UNREAD: Final = Series(
    "calibration_unread_records",
    "gauge",
    ("topic", "partition"),
    "",
    "Records of the topic partition that are not read and saved yet, by whichever replica or by none: every replica "
    "measures all partitions, every 15 seconds. Absent while the log or the store does not answer.",
)
SAVED_OFFSET: Final = Series(
    "calibration_saved_offset",
    "gauge",
    ("topic", "partition"),
    "",
    "Offset up to which the topic partition is read and saved, by whichever replica; 0 where nothing is saved yet. "
    "Present where calibration_unread_records is.",
)
HELD_SERIES: Final = Series(
    "calibration_held_series",
    "gauge",
    (),
    "",
    "Combinations of model, version and segment that are held.",
)
STATE_BYTES: Final = Series(
    "calibration_state_bytes",
    "gauge",
    ("table",),
    "bytes",
    "Memory of the tables of the partitions held: join grows until the horizon has passed once, panes until the "
    "longest window has, and evaluation.look_back beyond it.",
)
CHECKPOINT_TIMESTAMP: Final = Series(
    "calibration_checkpoint_timestamp_seconds",
    "gauge",
    (),
    "seconds",
    "When state and offsets were last saved, seconds since the epoch. Absent before the first time.",
)
CHECKPOINT_DURATION: Final = Series(
    "calibration_checkpoint_duration_seconds",
    "gauge",
    (),
    "seconds",
    "What saving state and offsets took the last time. Absent before the first time.",
)

PIPELINE: Final = (
    READY,
    PHASE,
    PARTITIONS,
    RECORDS,
    EVENTS,
    DEPARTED,
    DEAD_LETTERS,
    PURGED,
    PENDING,
    UNANSWERED,
    EARLY_OUTCOMES,
    LAG,
    UNREAD,
    SAVED_OFFSET,
    HELD_SERIES,
    STATE_BYTES,
    CHECKPOINT_TIMESTAMP,
    CHECKPOINT_DURATION,
)
