"""What only Kafka does: groups, rebalances, transactions, compression. Brokers that fail are in their own file."""

import pytest
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as KafkaTopicPartition
from kafka.admin import MemberToRemove
from kafka.errors import TopicAlreadyExistsError
from structlog.testing import capture_logs

from monitor.errors import OffsetPurged, SourceMisconfigured
from monitor.events.log import LogStart
from monitor.events.model import Message, TopicPartition
from monitor.sources.kafka import KafkaSource
from tests.patience import PATIENCE_SECONDS, eventually
from tests.real.kafka import PATIENCE_MS
from tests.sources.logs import KafkaUnderTest, Reading, count, nothing_for, one_by_one, read, run_all, unavailable

pytestmark = pytest.mark.kafka


def _share(first: KafkaSource, second: KafkaSource, partitions: int) -> tuple[Reading, Reading]:
    """Poll two members in turn until both know how the partitions, all of which the first had, are shared.

    In turn, for a rebalance waits until each of them is polled. So it does not do to poll one until it has its share,
    and then the other alone.
    """
    readings = Reading(assigned=set(range(partitions))), Reading()
    kept, taken = readings

    def look() -> bool:
        if taken.assigned and not kept.assigned & taken.assigned and len(kept.assigned | taken.assigned) == partitions:
            return True
        for source, reading in ((first, kept), (second, taken)):
            polled = source.poll(0.1, 1_000)
            reading.revoked |= polled.revoked
            reading.assigned = (reading.assigned - polled.revoked) | polled.assigned
            for batch in polled.batches:
                reading.records[batch.topic, batch.partition].extend(batch.records)
                reading.next_offsets[batch.topic, batch.partition] = batch.next_offset
        return False

    eventually(look, shown=lambda: readings, pause_seconds=0)
    return readings


def test_a_second_member_takes_over_some_partitions_and_the_others_go_on_undisturbed(kafka: KafkaUnderTest) -> None:
    predictions, outcomes = kafka.topic(4), kafka.topic(4)
    writer = kafka.writer()
    first, second = kafka.source(predictions, outcomes), kafka.source(predictions, outcomes)
    assert run_all(first) == frozenset(range(4))
    kept, taken = _share(first, second, 4)
    # Range deals two and two. What stays with the first member is never mentioned: its state need not be restored.
    assert len(taken.assigned) == 2
    assert kept.revoked == taken.assigned
    for partition in range(4):
        one_by_one(writer, predictions, [b"p%d" % partition], partition)
        one_by_one(writer, outcomes, [b"o%d" % partition], partition)
    reading = read(first, count(4))
    assert {partition for (_, partition), records in reading.records.items() if records} == set(range(4)) - kept.revoked
    assert {topic for (topic, _), records in reading.records.items() if records} == {predictions, outcomes}
    # And nothing before start.
    assert read(second, nothing_for(0.7)).count == 0
    for partition in taken.assigned:
        second.start(partition, {})
    assert {partition for _, partition in read(second, count(4)).records} == taken.assigned


def test_when_a_member_leaves_the_other_gets_its_partitions_at_once(kafka: KafkaUnderTest) -> None:
    topic = kafka.topic(4)
    first = kafka.source(topic)
    # Nobody here has the patience to wait for the end of its session.
    second = kafka.source(topic, session_timeout_seconds=4 * PATIENCE_SECONDS)
    run_all(first)
    _, taken = _share(first, second, 4)
    second.close()
    back = read(first, lambda reading: reading.assigned >= taken.assigned)
    assert back.assigned == taken.assigned


def test_records_fetched_before_the_start_are_never_brought(kafka: KafkaUnderTest) -> None:
    topic = kafka.topic(2)
    writer = kafka.writer()
    for partition in (0, 1):
        writer.write([Message(topic, b"%d" % n, partition=partition) for n in range(500)])
    first, second = kafka.source(topic), kafka.source(topic)
    run_all(first)
    # The first member now holds far more than it brought, of both partitions.
    before = read(first, lambda reading: {p for _, p in reading.records} == {0, 1}, max_records=300)
    _, taken = _share(first, second, 2)
    (moved,) = taken.assigned
    second.close()
    read(first, lambda reading: moved in reading.assigned)
    assert read(first, nothing_for(0.5)).records.get((topic, moved), []) == []
    first.start(moved, {topic: 450})
    after = read(first, lambda reading: len(reading.records[topic, moved]) == 50, max_records=300)
    assert after.values(topic, moved) == [b"%d" % n for n in range(450, 500)]
    assert before.count > 0


def test_a_static_member_that_comes_back_in_time_disturbs_nobody(kafka: KafkaUnderTest) -> None:
    topic = kafka.topic(4)
    first = kafka.source(topic, group_instance_id="replica-0")
    # However long it takes to come back, that is in time.
    in_time = 4 * PATIENCE_SECONDS
    second = kafka.source(topic, group_instance_id="replica-1", session_timeout_seconds=in_time)
    run_all(first)
    _, taken = _share(first, second, 4)
    second.close()
    again = kafka.source(topic, group_instance_id="replica-1", session_timeout_seconds=in_time)
    disturbed = Reading()
    back = Reading()

    def look() -> set[int]:
        polled = first.poll(0.1, 100)
        disturbed.revoked |= polled.revoked
        disturbed.assigned |= polled.assigned
        back.assigned |= again.poll(0.1, 100).assigned
        return back.assigned

    eventually(look, pause_seconds=0)
    read(first, nothing_for(1), reading=disturbed)
    assert back.assigned == taken.assigned
    assert (disturbed.revoked, disturbed.assigned) == (set(), set())


def test_a_member_that_fell_silent_learns_that_its_partitions_went(kafka: KafkaUnderTest) -> None:
    topic = kafka.topic(2)
    source = kafka.source(topic)
    run_all(source)
    one_by_one(kafka.writer(), topic, [b"a", b"b"])
    read(source, count(2))
    # Somebody removes it from the group, as the coordinator does with one whose heartbeats stop.
    assert source._consumer is not None
    member = source._consumer.group_metadata().member_id
    with kafka.broker.admin() as admin:
        admin.remove_group_members(kafka.group_id, [MemberToRemove(member_id=member)])
    reading = read(source, lambda reading: reading.assigned == {0, 1})
    assert reading.revoked == {0, 1}
    source.start(0, {topic: 1})
    assert read(source, count(1)).values(topic, 0) == [b"b"]


def test_commits_are_for_other_tools_to_see(kafka: KafkaUnderTest) -> None:
    topic = kafka.topic(2)
    one_by_one(kafka.writer(), topic, [b"a", b"b", b"c"], 1)
    source = kafka.source(topic)
    run_all(source)
    read(source, count(3))
    source.commit({TopicPartition(topic, 1): 2, TopicPartition("elsewhere", 0): 7})
    consumer = KafkaConsumer(bootstrap_servers=kafka.broker.bootstrap, group_id=kafka.group_id)
    try:

        def look() -> bool:
            source.poll(0.1, 10)
            return bool(consumer.committed(KafkaTopicPartition(topic, 1)) == 2)

        eventually(look)
    finally:
        consumer.close()
    source.close()
    # Reading resumes from the store, which holds nothing here, and not from the commit.
    again = kafka.source(topic)
    run_all(again)
    assert read(again, count(3)).values(topic, 1) == [b"a", b"b", b"c"]


def test_a_commit_that_fails_is_logged_and_reading_goes_on(kafka: KafkaUnderTest) -> None:
    topic = kafka.topic(1)
    one_by_one(kafka.writer(), topic, [b"a"])
    source = kafka.source(topic)
    run_all(source)
    read(source, count(1))
    assert source._consumer is not None
    member = source._consumer.group_metadata().member_id
    with kafka.broker.admin() as admin:
        admin.remove_group_members(kafka.group_id, [MemberToRemove(member_id=member)])
    with capture_logs() as logged:
        source.commit({TopicPartition(topic, 0): 1})
        read(source, lambda reading: reading.assigned == {0})
    assert [entry["event"] for entry in logged if entry["log_level"] == "warning"] == [
        "commit to the consumer group failed"
    ]


def test_aborted_transactions_are_passed_over_and_markers_move_the_offset(kafka: KafkaUnderTest) -> None:
    topic = kafka.topic(1)
    producer = KafkaProducer(
        bootstrap_servers=kafka.broker.bootstrap, transactional_id=f"tx-{topic}", max_block_ms=PATIENCE_MS
    )
    producer.init_transactions()
    for value, commit in ((b"kept", True), (b"aborted", False), (b"kept too", True)):
        producer.begin_transaction()
        producer.send(topic, value, partition=0).get(PATIENCE_SECONDS)
        producer.commit_transaction() if commit else producer.abort_transaction()
    producer.close()
    source = kafka.source(topic)
    run_all(source)
    # Three records and the marker behind each of them.
    reading = read(source, lambda reading: reading.next_offsets.get((topic, 0)) == 6)
    assert reading.values(topic, 0) == [b"kept", b"kept too"]
    assert source.end_offsets()[TopicPartition(topic, 0)] == 6


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_batches_from_their_middle(kafka: KafkaUnderTest, codec: str) -> None:
    topic = kafka.topic(1)
    producer = KafkaProducer(bootstrap_servers=kafka.broker.bootstrap, compression_type=codec, linger_ms=100)
    for n in range(200):
        producer.send(topic, b"value-%03d" % n)
    producer.flush()
    producer.close()
    source = kafka.source(topic)
    run_all(source, {0: {topic: 77}})
    assert read(source, count(123)).values(topic, 0) == [b"value-%03d" % n for n in range(77, 200)]


def test_records_longer_than_a_fetch(kafka: KafkaUnderTest) -> None:
    topic = kafka.topic(1, max_message_bytes="6000000")
    long = bytes(range(256)) * 20_000
    kafka.writer().write([Message(topic, long, partition=0), Message(topic, b"after", partition=0)])
    source = kafka.source(topic)
    run_all(source)
    assert read(source, count(2)).values(topic, 0) == [long, b"after"]


def test_a_message_longer_than_its_topic_allows_is_refused(kafka: KafkaUnderTest) -> None:
    topic = kafka.topic(1)
    with pytest.raises(SourceMisconfigured, match=rf"5000000 bytes for topic {topic}; raise its max\.message\.bytes"):
        kafka.writer().write([Message(topic, bytes(5_000_000), partition=0)])


def test_partition_counts_that_differ_are_refused(kafka: KafkaUnderTest) -> None:
    three, four = kafka.topic(3), kafka.topic(4)
    with pytest.raises(SourceMisconfigured, match=rf"same number of partitions.*got {three}: 3, {four}: 4; create"):
        kafka.source(three, four).poll(1, 10)


def test_a_topic_that_does_not_exist_yet_is_waited_for(kafka: KafkaUnderTest) -> None:
    there, missing = kafka.topic(3), "not-yet-" + kafka.group_id
    source = kafka.source(there, missing)
    unavailable(lambda: source.poll(0.1, 10), rf"do not exist yet: {missing}; .*{there}: 3, {missing}: 0")
    kafka.broker.create_topic(missing, 3)
    assert run_all(source) == {0, 1, 2}


def test_no_topic_is_made_by_asking_for_it(kafka: KafkaUnderTest) -> None:
    source = kafka.source(kafka.topic(1))
    assert run_all(source) == {0}
    assert source._client is not None
    asked = source._client.cluster.metadata_request()
    assert asked.topics
    assert not asked.allow_auto_topic_creation


def test_partitions_that_are_added_to_one_topic_only_are_noticed(kafka: KafkaUnderTest) -> None:
    predictions, outcomes = kafka.topic(2), kafka.topic(2)
    source = kafka.source(predictions, outcomes)
    run_all(source)
    with kafka.broker.admin() as admin:
        admin.create_partitions({outcomes: 3})
    consumer = source._consumer
    assert consumer is not None

    def never(_: Reading) -> bool:
        # The client asks by itself every five minutes; and the broker may not have heard of it itself yet.
        consumer._cluster.request_update()
        return False

    with pytest.raises(SourceMisconfigured, match=rf"{predictions}: 2, {outcomes}: 3"):
        read(source, never)
    assert source.poll(0.1, 10).revoked == {0, 1}


def test_a_topic_made_anew_is_noticed(kafka: KafkaUnderTest) -> None:
    topic = kafka.topic(1)
    one_by_one(kafka.writer(), topic, [b"%d" % n for n in range(5)])
    with kafka.broker.admin() as admin:
        admin.delete_topics([topic])

    def make() -> bool:
        try:
            kafka.broker.create_topic(topic, 1)
        except TopicAlreadyExistsError:  # Its deletion is still under way.
            return False
        return True

    eventually(make)
    source = kafka.source(topic, start=LogStart(when_purged="stop"))
    run_all(source, {0: {topic: 5}})
    with pytest.raises(OffsetPurged, match="stored offset 5 was never written to this log, which ends at 0: the topic"):
        read(source, count(1))


def test_writing_to_a_topic_that_does_not_exist(kafka: KafkaUnderTest) -> None:
    writer = kafka.writer(connect_seconds=1)
    unavailable(
        lambda: writer.write([Message("no-such-topic", b"x", key=b"k")]),
        r"did not take 1 messages for no-such-topic.*does the topic exist",
    )
