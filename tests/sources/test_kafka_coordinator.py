"""What a group answers between two polls is taken in at the next: on a slow machine, members have their shares too."""

import time
from collections.abc import Callable
from typing import Any

import pytest
from kafka.cluster import ClusterMetadata
from kafka.coordinator.consumer import ConsumerCoordinator

from monitor.errors import InstanceReplaced
from monitor.sources.kafka import KafkaSource
from tests.patience import eventually
from tests.sources.logs import KafkaUnderTest, Reading, count, nothing_for, one_by_one, read, run_all

pytestmark = pytest.mark.kafka

_BETWEEN_POLLS_SECONDS = 0.2
"""Longer than a broker takes to answer."""


def _coordinator(source: KafkaSource) -> Any:
    assert source._consumer is not None
    return source._consumer._coordinator


def _generation(source: KafkaSource) -> int:
    return int(_coordinator(source).group_metadata().generation_id)


def _poll_without_waiting(until: Callable[[], bool], *members: tuple[KafkaSource, Reading]) -> None:
    """Poll members in turn so that each answer of the group comes between two polls, never during one."""

    def look() -> bool:
        if until():
            return True
        for source, reading in members:
            polled = source.poll(0, 1_000)
            reading.revoked |= polled.revoked
            reading.assigned = (reading.assigned - polled.revoked) | polled.assigned
        return False

    eventually(look, shown=lambda: [reading for _, reading in members], pause_seconds=_BETWEEN_POLLS_SECONDS)


def _after_heartbeats(count: int, *members: KafkaSource) -> Callable[[], bool]:
    """Holds when each member has had so many answers to heartbeats."""
    answers: list[set[float]] = [set() for _ in members]

    def held() -> bool:
        for source, instants in zip(members, answers, strict=True):
            instants.add(_coordinator(source).heartbeat.last_receive)
        return all(len(instants) > count for instants in answers)

    return held


def _joined(source: KafkaSource) -> bool:
    """The group has dealt, and the source has not heard of it."""
    if source._consumer is None:
        return False
    join = _coordinator(source)._join_task
    return join is not None and join.is_done and join.succeeded()


def test_members_that_never_wait_in_a_poll_share_the_partitions(kafka: KafkaUnderTest) -> None:
    predictions, outcomes = kafka.topic(4), kafka.topic(4)
    first, second = kafka.source(predictions, outcomes), kafka.source(predictions, outcomes)
    kept, taken = Reading(), Reading()
    _poll_without_waiting(lambda: kept.assigned == {0, 1, 2, 3}, (first, kept))
    before = _generation(first)
    _poll_without_waiting(lambda: len(kept.assigned) == len(taken.assigned) == 2, (first, kept), (second, taken))
    assert kept.assigned | taken.assigned == {0, 1, 2, 3}
    # Dealt once. With each answer thrown away it would be dealt anew at every heartbeat.
    _poll_without_waiting(_after_heartbeats(2, first, second), (first, kept), (second, taken))
    assert _generation(first) == _generation(second) == before + 1


def test_partitions_that_are_added_to_all_topics_are_taken_in_without_waiting_in_a_poll(kafka: KafkaUnderTest) -> None:
    predictions, outcomes = kafka.topic(2), kafka.topic(2)
    source = kafka.source(predictions, outcomes)
    run_all(source)
    with kafka.broker.admin() as admin:
        admin.create_partitions({predictions: 3, outcomes: 3})
    grown = Reading(assigned={0, 1})
    cluster = _coordinator(source)._cluster

    def known() -> bool:
        if len(cluster.partitions_for_topic(predictions)) == len(cluster.partitions_for_topic(outcomes)) == 3:
            return True
        # The client asks by itself every five minutes; and the broker may not have heard of it itself yet.
        cluster.request_update()
        return False

    _poll_without_waiting(known, (source, grown))
    _poll_without_waiting(lambda: grown.assigned == {0, 1, 2}, (source, grown))
    assert grown.revoked == set()
    source.start(2, {})
    one_by_one(kafka.writer(), outcomes, [b"o"], 2)
    assert read(source, count(1)).values(outcomes, 2) == [b"o"]


def test_an_answer_older_than_the_session_is_not_believed(kafka: KafkaUnderTest) -> None:
    topic = kafka.topic(2)
    sources = [kafka.source(topic, session_timeout_seconds=3)]

    def joined() -> bool:
        if _joined(sources[-1]):
            return True
        if sources[-1].poll(0, 10).assigned:  # The answer came during a poll, and not between two: once more.
            sources[-1].close()
            sources.append(kafka.source(topic, session_timeout_seconds=3))
        return False

    eventually(joined, pause_seconds=0.02)
    source = sources[-1]
    answered = _generation(source)
    # No heartbeat is sent before the answer is taken in: by then the group has gone on.
    eventually(_coordinator(source).heartbeat.session_timeout_expired)
    reading, heard = Reading(), []

    def taken_in() -> bool:
        polled = source.poll(0, 1_000)
        reading.assigned = (reading.assigned - polled.revoked) | polled.assigned
        if polled.assigned:
            heard.append(_generation(source))
        return reading.assigned == {0, 1} and bool(_coordinator(source).stable())

    eventually(taken_in, shown=lambda: (reading, heard), pause_seconds=_BETWEEN_POLLS_SECONDS)
    assert heard[0] != answered
    assert _generation(source) > answered


def test_a_refusal_that_comes_between_two_polls_is_heard(kafka: KafkaUnderTest) -> None:
    topic = kafka.topic(2)
    first = kafka.source(topic, group_instance_id="replica-0")
    second = kafka.source(topic, group_instance_id="replica-0")
    run_all(first)
    run_all(second)
    _coordinator(first).request_rejoin()
    with pytest.raises(InstanceReplaced, match=r"joined the consumer group .* as replica-0 .*FencedInstanceId"):
        _poll_without_waiting(lambda: False, (first, Reading()))


def test_the_first_deal_is_the_whole_one(kafka: KafkaUnderTest, caplog: pytest.LogCaptureFixture) -> None:
    source = kafka.source(kafka.topic(2), kafka.topic(2))
    assert run_all(source) == {0, 1}
    assert _generation(source) == 1
    assert [record.getMessage() for record in caplog.records if "No partition metadata" in record.getMessage()] == []
    read(source, nothing_for(1))
    assert _generation(source) == 1


def test_answers_that_are_slow_to_say_which_partitions_there_are_leave_nobody_without_any(
    kafka: KafkaUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slow machine asks once more, before it subscribes; the answer, of no topics, comes after the first deal."""

    async def refresh_slowly(cluster: Any, node_id: object) -> None:
        answer = await cluster._manager.send(
            cluster.metadata_request(), node_id or cluster._manager.least_loaded_node()
        )
        await cluster._manager._net.sleep(0 if node_id else 0.5)
        cluster.update_metadata(answer)

    def begin_slowly(coordinator: ConsumerCoordinator, *arguments: Any, **options: Any) -> None:
        time.sleep(0.15)  # Sooner, the second question would be put off until it has subscribed.
        begin(coordinator, *arguments, **options)
        time.sleep(0.15)

    begin = ConsumerCoordinator.__init__
    monkeypatch.setattr(ConsumerCoordinator, "__init__", begin_slowly)
    monkeypatch.setattr(ClusterMetadata, "_do_refresh_metadata", refresh_slowly)
    assert run_all(kafka.source(kafka.topic(2), kafka.topic(2))) == {0, 1}


def test_a_member_can_ask_whether_its_assignment_is_still_in_force(kafka: KafkaUnderTest) -> None:
    topic = kafka.topic(2)
    first, second = kafka.source(topic), kafka.source(topic)
    assert not first.still_assigned()
    run_all(first)
    assert first.still_assigned()

    def known_to_have_changed() -> bool:
        second.poll(0.1, 1)
        return not first.still_assigned()

    # The first does not poll meanwhile: it is the group's coordinator that knows.
    eventually(known_to_have_changed)
