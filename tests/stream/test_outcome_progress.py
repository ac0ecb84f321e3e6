"""However far one topic is read ahead of the other, nothing is dropped that the other still answers."""

from dataclasses import replace
from functools import partial

from monitor.app.offline import OfflineStream
from monitor.events.codec import Decoder
from monitor.events.encode import encode_labelled, encode_outcome, encode_prediction
from monitor.events.formats.base import Rules
from monitor.events.model import Kind, ModelPolicy, RecordBatch
from monitor.store.base import ModelClock
from monitor.store.settled import Elsewhere
from monitor.stream.log_progress import GRACE_SECONDS, AtEnd
from monitor.stream.partition import Partition, PartitionSettings
from monitor.stream.sampling import SampleSettings
from tests.stream.support import START_MS, LogRecord

POLICY = ModelPolicy(horizon_ms=60_000, lateness_ms=60_000)
SETTINGS = PartitionSettings(policy=lambda _: POLICY, kept_ms={1_000: 3_600_000}, outcomes_apart=True)
EVENTS = 600
STEP_MS = 1_000
PREDICTIONS = [encode_prediction("m", str(at), START_MS + at * STEP_MS, 0.5) for at in range(EVENTS)]
OUTCOMES = [encode_outcome("m", str(at), START_MS + at * STEP_MS + 5, at % 2) for at in range(EVENTS)]


def batch(topic: str, values: list[bytes]) -> RecordBatch:
    return RecordBatch(topic, 0, [LogRecord(at, -1, value) for at, value in enumerate(values)], len(values))


def test_outcomes_that_are_read_after_all_predictions_find_them() -> None:
    partition = Partition(0, 1, SETTINGS)
    partition.apply(batch("p", PREDICTIONS), Decoder(), Kind.PREDICTION)
    assert not partition.checkpoint().dropped
    partition.apply(batch("y", OUTCOMES), Decoder(), Kind.OUTCOME)
    assert partition.event_counters()["outcome", "joined"] == EVENTS
    assert partition.checkpoint().dropped


def test_predictions_that_are_read_after_all_outcomes_find_them() -> None:
    partition = Partition(0, 1, SETTINGS)
    partition.apply(batch("y", OUTCOMES), Decoder(), Kind.OUTCOME)
    assert not partition.checkpoint().dropped
    partition.apply(batch("p", PREDICTIONS), Decoder(), Kind.PREDICTION)
    assert partition.event_counters()["outcome", "joined"] == EVENTS


def test_outcomes_of_many_models_may_be_read_before_any_prediction() -> None:
    samples = SampleSettings(size=lambda _: 100, span_ms=60_000, kept_ms=3_600_000)
    partition = Partition(0, 1, replace(SETTINGS, samples=samples))
    outcomes = [encode_outcome(model, "1", START_MS + 5, 1) for model in ("first", "second")]
    partition.apply(batch("y", outcomes), Decoder(), Kind.OUTCOME)
    partition.checkpoint()
    assert partition.event_counters()["outcome", "early"] == 2


def test_where_no_outcome_was_written_predictions_leave_all_the_same() -> None:
    partition = Partition(0, 1, SETTINGS)
    partition.apply(batch("p", PREDICTIONS), Decoder(), Kind.PREDICTION)
    partition.checkpoint(outcomes_read=True)
    kept_ms = 2 * POLICY.retention_ms
    assert kept_ms <= partition.join.predictions * STEP_MS < 2 * kept_ms
    assert partition.departed["expired_unlabelled"] == EVENTS - partition.join.predictions


def test_a_file_may_hold_one_topic_behind_the_other() -> None:
    stream = OfflineStream(Decoder(Rules(kind_by_keys=True)), SETTINGS, lambda _: None)
    stream.read(batch("file", PREDICTIONS))
    stream.settle(finished=False)
    stream.read(batch("file", OUTCOMES))
    stream.settle()
    assert stream.counters()["outcome", "joined"] == EVENTS


def test_what_was_read_just_before_does_not_count_as_answered_yet() -> None:
    at_end: AtEnd[int] = AtEnd()
    for now, known, counts in [(100.0, 7, None), (104.0, 8, None), (105.0, 9, 7), (109.0, 10, 7), (111.0, 11, 9)]:
        at_end.note(now, partial(int, known))
        assert at_end.known == counts


MINUTE_MS = 60_000
RETENTION_MS = POLICY.retention_ms


def at_ends(partition: Partition, predictions_ms: int, outcomes_ms: int) -> None:
    """Let the partition read its logs to their ends, with the model that far elsewhere."""
    partition.note_elsewhere(Elsewhere({"m": ModelClock(predictions_ms, outcomes_ms, -1)}))
    for now in (0.0, GRACE_SECONDS):
        partition.note_ends(now, outcomes=True, everything=True)


def closed_to(partition: Partition) -> int:
    partition.checkpoint(outcomes_read=True)
    return int(partition.join.closed_to_ms[0]) - START_MS


def test_a_model_that_is_idle_here_is_closed_by_its_clocks_in_other_partitions() -> None:
    """By both of them, less the lateness; and what comes late after that is refused."""
    partition = Partition(0, 1, SETTINGS)
    partition.apply(batch("p", PREDICTIONS[:1]), Decoder(), Kind.PREDICTION)
    partition.apply(batch("y", OUTCOMES[:1]), Decoder(), Kind.OUTCOME)
    elsewhere, lateness = START_MS + 10 * MINUTE_MS, POLICY.lateness_ms
    at_ends(partition, elsewhere, elsewhere)
    # It is closed to where it would be, had the newest event come here, less the lateness.
    assert closed_to(partition) == 10 * MINUTE_MS - lateness - RETENTION_MS
    assert partition.join.predictions == 0
    late = [encode_prediction("m", "late", elsewhere - lateness - RETENTION_MS - 1_000, 0.5)]
    good = [encode_prediction("m", "good", elsewhere - lateness - RETENTION_MS, 0.5)]
    partition.apply(batch("p", late + good), Decoder(), Kind.PREDICTION)
    assert partition.event_counters()["prediction", "late"] == 1
    assert partition.event_counters()["prediction", "accepted"] == 2


def test_where_outcomes_are_silent_everywhere_an_idle_model_waits_for_one_more_retention() -> None:
    partition = Partition(0, 1, SETTINGS)
    partition.apply(batch("p", PREDICTIONS[:1]), Decoder(), Kind.PREDICTION)
    at_ends(partition, START_MS + 10 * MINUTE_MS, -1)
    assert closed_to(partition) == 10 * MINUTE_MS - POLICY.lateness_ms - 2 * RETENTION_MS


def test_a_model_of_labelled_events_alone_waits_for_the_lateness_alone() -> None:
    partition = Partition(0, 1, SETTINGS)
    labelled = [encode_labelled("m", str(at), START_MS + at * STEP_MS, 0.5, 1) for at in range(EVENTS)]
    partition.apply(batch("p", labelled), Decoder(), Kind.LABELLED)
    newest = (EVENTS - 1) * STEP_MS
    assert closed_to(partition) == newest - POLICY.lateness_ms
    # One prediction by itself, and the model waits for its horizon; what is closed stays closed.
    partition.apply(
        batch("p", [encode_prediction("m", "own", START_MS + newest + 5_000, 0.5)]), Decoder(), Kind.PREDICTION
    )
    assert closed_to(partition) == newest - POLICY.lateness_ms
    later = START_MS + newest + 2 * MINUTE_MS + POLICY.horizon_ms
    partition.apply(batch("p", [encode_labelled("m", "later", later, 0.5, 1)]), Decoder(), Kind.LABELLED)
    assert closed_to(partition) == newest + 2 * MINUTE_MS - POLICY.lateness_ms
