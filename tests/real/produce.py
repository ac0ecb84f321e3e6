"""Writes a log to a broker with librdkafka: fast, and a client other than the one under test."""

from collections import deque
from collections.abc import Iterable

from confluent_kafka import Producer

from tests.patience import PATIENCE_SECONDS
from tests.real.mixed_log import LogLine

_BATCH = 10_000


def produce(bootstrap: str, lines: Iterable[LogLine], suffix: str) -> None:
    """Write the lines to their topics and partitions, in order, and wait until they are durable.

    Raises
    ------
    RuntimeError
        Some are not, although the client tried for ``PATIENCE_SECONDS``. The message says what the client said.
    """
    failures: list[str] = []
    said: deque[str] = deque(maxlen=5)

    def delivered(error: object, _: object) -> None:
        if error is not None:
            failures.append(str(error))

    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "linger.ms": 20,
            # A broker that restarts meanwhile is no news.
            "log_level": 0,
            "error_cb": lambda error: said.append(str(error)),
            "message.timeout.ms": round(PATIENCE_SECONDS * 1000),
            "queue.buffering.max.messages": 2 * _BATCH,
        }
    )
    for count, line in enumerate(lines, start=1):
        topic = f"{line.topic}-{suffix}"
        producer.produce(topic, line.value, line.key, partition=line.partition, on_delivery=delivered)
        if count % _BATCH == 0:
            producer.poll(0)
            while len(producer) >= _BATCH:
                producer.poll(0.05)
        if failures:
            break
    producer.flush(PATIENCE_SECONDS)
    if failures or len(producer):
        raise RuntimeError(
            f"{len(failures)} messages were refused and {len(producer)} not sent, first: {failures[:1]}; "
            f"the client said: {list(said)}"
        )
