"""What holds for every source and writer."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from structlog.testing import capture_logs

from monitor.errors import OffsetPurged, SettingsError
from monitor.events.log import LogStart, Source
from monitor.events.model import Message, TopicPartition
from monitor.events.partitions import partitions_of
from tests.sources.logs import PARTITIONS, Log, Reading, count, nothing_for, one_by_one, read, run_all

EVERY = frozenset(range(PARTITIONS))


def _values(n: int) -> list[bytes]:
    return [b"value-%d" % i for i in range(n)]


def _skipped(source: Source) -> int:
    return source.purged_offsets_skipped


def test_partitions_are_assigned_and_bring_nothing_before_they_are_started(log: Log) -> None:
    topic = log.topic()
    log.writer().write([Message(topic, value, key=value) for value in _values(30)])
    source = log.source(topic)
    reading = read(source, lambda reading: reading.assigned == EVERY)
    read(source, nothing_for(1), reading=reading)
    assert reading.assigned == EVERY
    assert reading.revoked == set()
    assert reading.count == 0
    source.start(1, {})
    reading = read(source, count(1))
    read(source, nothing_for(0.7), reading=reading)
    assert {partition for _, partition in reading.records} == {1}


def test_records_come_whole_in_order_with_their_offsets(log: Log) -> None:
    topic = log.topic()
    writer = log.writer()
    values = _values(90)
    for start in range(0, 90, 9):
        writer.write(
            [Message(topic, value, partition=n % PARTITIONS) for n, value in enumerate(values[start : start + 9])]
        )
    source = log.source(topic)
    run_all(source)
    reading = read(source, count(90))
    for partition in EVERY:
        records = reading.records[topic, partition]
        assert [record.offset for record in records] == list(range(30))
        assert [record.value for record in records] == values[partition::3]
        assert reading.next_offsets[topic, partition] == 30


@pytest.mark.parametrize("max_records", [1, 7, 1000])
def test_a_poll_brings_no_more_than_asked(log: Log, max_records: int) -> None:
    topic = log.topic()
    log.writer().write([Message(topic, value, key=value) for value in _values(60)])
    source = log.source(topic)
    run_all(source)
    reading = read(source, count(60), max_records=max_records)
    assert 0 < reading.largest_poll <= max_records
    assert sorted(value or b"" for partition in EVERY for value in reading.values(topic, partition)) == sorted(
        _values(60)
    )


def test_a_message_comes_as_it_was_written(log: Log) -> None:
    topic = log.topic()
    before_ms = time.time_ns() // 1_000_000
    messages = [
        Message(topic, b"plain", partition=0),
        Message(topic, b"keyed", key="clé".encode(), timestamp_ms=1_600_000_000_123, partition=0),
        Message(topic, None, key=b"tombstone", partition=0),
        Message(topic, b"", key=b"", partition=0),
        Message(topic, b"headed", headers=[("reason", b"not_json"), ("reason", b""), ("ü", b"\xff\x00")], partition=0),
        Message(topic, b"null", headers=[("a", None), ("", b"")], partition=0),
        Message(topic, bytes(range(256)) * 20, partition=0),
    ]
    log.writer().write(messages)
    source = log.source(topic)
    run_all(source)
    records = read(source, count(len(messages))).records[topic, 0]
    assert [record.key for record in records] == [None, "clé".encode(), b"tombstone", b"", None, None, None]
    assert [record.value for record in records] == [message.value for message in messages]
    assert [[tuple(header) for header in record.headers] for record in records] == [
        list(message.headers) for message in messages
    ]
    assert records[1].timestamp == 1_600_000_000_123
    after_ms = time.time_ns() // 1_000_000
    assert all(before_ms <= record.timestamp <= after_ms for record in records if record.key != "clé".encode())


def test_a_message_without_key_and_value_is_kept(log: Log) -> None:
    topic = log.topic()
    log.writer().write([Message(topic, None, headers=[("a", b"b")])])
    source = log.source(topic)
    run_all(source)
    reading = read(source, count(1))
    (record,) = (record for records in reading.records.values() for record in records)
    assert record.value is None
    assert record.key in {None, b""}
    assert [tuple(header) for header in record.headers] == [("a", b"b")]


def test_keys_place_messages(log: Log) -> None:
    topic = log.topic()
    keys = [b"id-%d" % n for n in range(200)]
    log.writer().write([Message(topic, key, key=key) for key in keys])
    source = log.source(topic)
    run_all(source)
    reading = read(source, count(200))
    expected = partitions_of(keys, PARTITIONS).tolist()
    for partition in EVERY:
        assert reading.values(topic, partition) == [k for k, p in zip(keys, expected, strict=True) if p == partition]


def test_messages_without_keys_reach_some_partition(log: Log) -> None:
    topic = log.topic()
    writer = log.writer()
    for value in _values(30):
        writer.write([Message(topic, value)])
    source = log.source(topic)
    run_all(source)
    reading = read(source, count(30))
    assert {value for partition in EVERY for value in reading.values(topic, partition)} == set(_values(30))
    assert sum(bool(reading.records[topic, partition]) for partition in EVERY) > 1


def test_each_topic_goes_on_from_its_stored_offset(log: Log) -> None:
    predictions, outcomes = log.topic(), log.topic()
    writer = log.writer()
    one_by_one(writer, predictions, _values(10), partition=1)
    one_by_one(writer, outcomes, _values(10), partition=1)
    source = log.source(predictions, outcomes)
    run_all(source, {1: {predictions: 4, outcomes: 9}})
    reading = read(source, count(7))
    assert reading.values(predictions, 1) == _values(10)[4:]
    assert reading.values(outcomes, 1) == _values(10)[9:]
    assert (reading.next_offsets[predictions, 1], reading.next_offsets[outcomes, 1]) == (10, 10)


def test_a_topic_that_is_new_beside_a_stored_one_begins_at_its_beginning(log: Log) -> None:
    stored, new = log.topic(), log.topic()
    one_by_one(log.writer(), stored, _values(4))
    one_by_one(log.writer(), new, _values(4))
    source = log.source(stored, new)
    run_all(source, {0: {stored: 3}})
    reading = read(source, count(5))
    assert reading.values(stored, 0) == _values(4)[3:]
    assert reading.values(new, 0) == _values(4)


def test_an_offset_at_the_end_waits_for_what_comes(log: Log) -> None:
    topic = log.topic()
    writer = log.writer()
    one_by_one(writer, topic, _values(3))
    source = log.source(topic)
    run_all(source, {0: {topic: 3}})
    assert read(source, nothing_for(0.7)).count == 0
    one_by_one(writer, topic, [b"new"])
    assert read(source, count(1)).values(topic, 0) == [b"new"]


def test_from_the_latest_only_later_records_come_and_the_beginning_is_told(log: Log) -> None:
    topic = log.topic()
    writer = log.writer()
    one_by_one(writer, topic, _values(5))
    source = log.source(topic, start=LogStart(when_new="latest"))
    run_all(source)
    # Where nothing is stored yet, this offset is what keeps a restart from skipping what comes next.
    reading = read(source, lambda reading: len(reading.next_offsets) == PARTITIONS)
    assert reading.next_offsets == {(topic, 0): 5, (topic, 1): 0, (topic, 2): 0}
    assert reading.count == 0
    one_by_one(writer, topic, [b"later"])
    assert read(source, count(1)).values(topic, 0) == [b"later"]


def test_from_the_earliest_means_what_is_left(log: Log) -> None:
    topic = log.topic()
    one_by_one(log.writer(), topic, _values(8))
    log.purge(topic, 0, 5)
    source = log.source(topic)
    run_all(source)
    reading = read(source, count(3))
    assert [record.offset for record in reading.records[topic, 0]] == [5, 6, 7]
    assert _skipped(source) == 0


def test_a_purged_offset_stops(log: Log) -> None:
    topic = log.topic()
    one_by_one(log.writer(), topic, _values(8))
    log.purge(topic, 0, 5)
    source = log.source(topic)
    run_all(source, {0: {topic: 2}})
    expected = rf"topic {topic} partition 0: the stored offset 2 was purged: the log begins at 5\..*when_purged"
    for _ in range(2):  # It does not go away by asking again.
        with pytest.raises(OffsetPurged, match=expected):
            read(source, count(1))


def test_a_purged_offset_goes_on_from_the_earliest_with_a_warning(log: Log) -> None:
    topic = log.topic()
    one_by_one(log.writer(), topic, _values(8))
    log.purge(topic, 0, 5)
    source = log.source(topic, start=LogStart(when_purged="earliest"))
    run_all(source, {0: {topic: 2}})
    with capture_logs() as logged:
        reading = read(source, count(3))
    assert [record.offset for record in reading.records[topic, 0]] == [5, 6, 7]
    assert _skipped(source) == 3
    (warning,) = (entry for entry in logged if entry["log_level"] == "warning")
    assert (warning["topic"], warning["partition"], warning["stored"], warning["skipped"]) == (topic, 0, 2, 3)


def test_an_offset_beyond_the_end_stops(log: Log) -> None:
    topic = log.topic()
    one_by_one(log.writer(), topic, _values(2))
    source = log.source(topic)
    run_all(source, {0: {topic: 40}})
    with pytest.raises(OffsetPurged, match="stored offset 40 was never written to this log, which ends at 2"):
        read(source, count(1))


def test_an_offset_beyond_the_end_goes_on_from_the_earliest(log: Log) -> None:
    topic = log.topic()
    one_by_one(log.writer(), topic, _values(2))
    source = log.source(topic, start=LogStart(when_purged="earliest"))
    run_all(source, {0: {topic: 40}})
    reading = read(source, count(2))
    assert reading.values(topic, 0) == _values(2)
    assert _skipped(source) == 0


def test_paused_partitions_bring_nothing_until_they_are_resumed(log: Log) -> None:
    topic = log.topic()
    writer = log.writer()
    for partition in EVERY:
        one_by_one(writer, topic, _values(5), partition=partition)
    source = log.source(topic)
    run_all(source)
    source.pause([TopicPartition(topic, 0), TopicPartition(topic, 2)])
    reading = read(source, count(5))
    read(source, nothing_for(0.7), reading=reading)
    assert (len(reading.records[topic, 0]), len(reading.records[topic, 1]), len(reading.records[topic, 2])) == (0, 5, 0)
    source.resume([TopicPartition(topic, 2)])
    assert read(source, count(10), reading=reading).values(topic, 2) == _values(5)
    source.resume([TopicPartition(topic, 0)])
    assert read(source, count(15), reading=reading).values(topic, 0) == _values(5)


def test_a_pause_in_the_middle_loses_and_doubles_nothing(log: Log) -> None:
    topic = log.topic()
    writer = log.writer()
    writer.write([Message(topic, value, partition=0) for value in _values(300)])
    source = log.source(topic)
    run_all(source)
    reading = Reading()
    while reading.count < 300:
        read(source, count(min(reading.count + 17, 300)), reading=reading, max_records=17)
        source.pause([TopicPartition(topic, 0)])
        before = reading.count
        for _ in range(2):
            assert not any(batch.records for batch in source.poll(0.01, 17).batches)
        assert reading.count == before
        source.resume([TopicPartition(topic, 0)])
    assert reading.values(topic, 0) == _values(300)


def test_resuming_does_not_start(log: Log) -> None:
    topic = log.topic()
    one_by_one(log.writer(), topic, _values(3))
    source = log.source(topic)
    read(source, lambda reading: bool(reading.assigned))
    source.resume([TopicPartition(topic, 0)])
    assert read(source, nothing_for(0.7)).count == 0


def test_end_offsets_show_what_is_still_to_come(log: Log) -> None:
    topic = log.topic()
    writer = log.writer()
    writer.write([Message(topic, value, partition=0) for value in _values(50)])
    source = log.source(topic)
    run_all(source)
    reading = read(source, count(10), max_records=10)
    part = TopicPartition(topic, 0)
    assert reading.next_offsets[part] < 50
    assert source.end_offsets()[part] == 50
    read(source, count(50), reading=reading)
    writer.write([Message(topic, b"one more", partition=0)])
    read(source, count(51), reading=reading)
    assert source.end_offsets()[part] == reading.next_offsets[part] == 51


def test_what_was_closed_goes_on_where_it_was(log: Log) -> None:
    topic = log.topic()
    log.writer().write([Message(topic, value, key=value) for value in _values(100)])
    seen = Reading()
    for stop in (30, 60, 100):
        source = log.source(topic)
        run_all(source, {partition: {topic: offset} for (_, partition), offset in seen.next_offsets.items()})
        read(source, count(stop), reading=seen, max_records=10)
        source.commit({TopicPartition(*part): offset for part, offset in seen.next_offsets.items()})
        source.close()
    values = [value or b"" for partition in EVERY for value in seen.values(topic, partition)]
    assert sorted(values) == sorted(_values(100))


def test_a_long_message(log: Log) -> None:
    topic = log.topic()
    long = bytes(900_000)
    log.writer().write([Message(topic, b"before", partition=0), Message(topic, long, partition=0)])
    log.writer().write([Message(topic, long, partition=0), Message(topic, b"after", partition=0)])
    source = log.source(topic)
    run_all(source)
    assert read(source, count(4)).values(topic, 0) == [b"before", long, long, b"after"]


def test_threads_write_at_the_same_time(log: Log) -> None:
    topic = log.topic()
    writer = log.writer()

    def write(thread: int) -> None:
        for number in range(10):
            writer.write([Message(topic, b"%d-%d-%d" % (thread, number, n), key=b"%d" % n) for n in range(5)])

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(write, range(4)))
    source = log.source(topic)
    run_all(source)
    reading = read(source, count(200))
    values = [value or b"" for partition in EVERY for value in reading.values(topic, partition)]
    assert sorted(values) == sorted(b"%d-%d-%d" % (t, n, m) for t in range(4) for n in range(10) for m in range(5))
    for partition in EVERY:  # What one thread wrote stands in its order.
        for thread in range(4):
            numbers = [
                v.split(b"-")[1]
                for v in values
                if v.startswith(b"%d-" % thread) and v in reading.values(topic, partition)
            ]
            assert numbers == sorted(numbers)


def test_writing_nothing_and_closing_twice_do_no_harm(log: Log) -> None:
    topic = log.topic()
    writer = log.writer()
    writer.write([])
    writer.close()
    writer.close()
    source = log.source(topic)
    run_all(source)
    source.close()
    source.close()


def test_no_topics_are_refused(log: Log) -> None:
    with pytest.raises(SettingsError, match="at least one topic"):
        log.source()
