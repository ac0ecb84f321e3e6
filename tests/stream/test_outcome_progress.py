"""However far one topic is read ahead of the other, nothing is dropped that the other still answers."""

import numpy as np

from monitor.events.codec import Decoder
from monitor.events.encode import encode_outcome, encode_prediction
from monitor.events.model import Kind, ModelPolicy, RecordBatch
from monitor.stream.offline import OfflineStream
from monitor.stream.partition import Partition, PartitionSettings
from monitor.stream.topic_progress import OutcomeProgress
from tests.stream.support import START_MS, LogRecord

POLICY = ModelPolicy(horizon_ms=60_000, lateness_ms=60_000)
SETTINGS = PartitionSettings(policy=lambda _: POLICY, pane_ms=1_000, kept_ms=3_600_000)
EVENTS = 600
STEP_MS = 1_000
PREDICTIONS = [encode_prediction("m", str(at), START_MS + at * STEP_MS, 0.5) for at in range(EVENTS)]
OUTCOMES = [encode_outcome("m", str(at), START_MS + at * STEP_MS + 5, at % 2) for at in range(EVENTS)]
NONE_READ = np.zeros(0, np.int64)


def batch(topic: str, values: list[bytes]) -> RecordBatch:
    return RecordBatch(topic, 0, [LogRecord(at, -1, value) for at, value in enumerate(values)], len(values))


def test_outcomes_that_are_read_after_all_predictions_find_them() -> None:
    partition = Partition(0, 1, SETTINGS)
    partition.apply(batch("p", PREDICTIONS), Decoder(), Kind.PREDICTION)
    assert not partition.checkpoint(NONE_READ).dropped
    partition.apply(batch("y", OUTCOMES), Decoder(), Kind.OUTCOME)
    assert partition.event_counters()["outcome", "joined"] == EVENTS
    assert partition.checkpoint(NONE_READ).dropped


def test_predictions_that_are_read_after_all_outcomes_find_them() -> None:
    partition = Partition(0, 1, SETTINGS)
    partition.apply(batch("y", OUTCOMES), Decoder(), Kind.OUTCOME)
    assert not partition.checkpoint(NONE_READ).dropped
    partition.apply(batch("p", PREDICTIONS), Decoder(), Kind.PREDICTION)
    assert partition.event_counters()["outcome", "joined"] == EVENTS


def test_where_no_outcome_was_written_predictions_leave_all_the_same() -> None:
    partition = Partition(0, 1, SETTINGS)
    partition.apply(batch("p", PREDICTIONS), Decoder(), Kind.PREDICTION)
    partition.checkpoint(partition.join.predictions_ms())
    kept_ms = 2 * POLICY.retention_ms
    assert kept_ms <= partition.join.predictions * STEP_MS < 2 * kept_ms
    assert partition.departed["expired_unlabelled"] == EVENTS - partition.join.predictions


def test_a_file_may_hold_one_topic_behind_the_other() -> None:
    stream = OfflineStream(Decoder(kind_by_keys=True), SETTINGS)
    stream.read(batch("file", PREDICTIONS))
    stream.settle(finished=False)
    stream.read(batch("file", OUTCOMES))
    stream.settle()
    assert stream.counters()["outcome", "joined"] == EVENTS


def test_what_was_read_just_before_does_not_count_as_answered_yet() -> None:
    progress = OutcomeProgress()
    progress.note_caught_up(100.0, np.array([7]))
    assert progress.outcomes_read_ms.size == 0
    progress.note_caught_up(104.0, np.array([8, 1]))
    assert progress.outcomes_read_ms.size == 0
    progress.note_caught_up(105.0, np.array([9, 2]))
    assert progress.outcomes_read_ms.tolist() == [7]
    progress.note_caught_up(111.0, np.array([10, 3]))
    assert progress.outcomes_read_ms.tolist() == [9, 2]


def test_what_was_noted_does_not_move_with_the_join() -> None:
    progress = OutcomeProgress()
    watermarks = np.array([7])
    progress.note_caught_up(0.0, watermarks)
    watermarks[0] = 99
    progress.note_caught_up(10.0, watermarks)
    assert progress.outcomes_read_ms.tolist() == [7]
