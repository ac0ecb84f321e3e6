"""What all clients of a cluster have in common."""

import time

import pytest

from monitor.sources.kafka_connection import KafkaConnection


def test_a_task_of_the_library_may_take_its_time(caplog: pytest.LogCaptureFixture) -> None:
    async def slow() -> str:
        time.sleep(0.15)  # noqa: ASYNC251 - what blocks the loop, for longer than kafka-python's threshold
        return "done"

    options = KafkaConnection(("127.0.0.1:1",)).options()
    client = options["kafka_client"](**options)
    try:
        assert client._net.run(slow) == "done"
    finally:
        client.close()
    assert [record.getMessage() for record in caplog.records if "threshold" in record.getMessage()] == []
