"""The traffic of the soak, through the parts of the stream without a broker: what must come of it does."""

from collections import Counter
from collections.abc import Iterable

import numpy as np

from monitor.events.codec import Decoder
from monitor.events.model import Kind, ModelPolicy, RecordBatch
from monitor.stream.partition import Partition, PartitionSettings
from tests.soak.__main__ import Sums
from tests.soak.traffic import OUTCOMES, PREDICTIONS, Messages, Traffic
from tests.stream.support import START_MS, LogRecord

KINDS = {PREDICTIONS: Kind.PREDICTION, OUTCOMES: Kind.OUTCOME}
POLICY = ModelPolicy(horizon_ms=20_000, lateness_ms=5_000)
PANE_MS = 1_000


def test_what_is_expected_of_the_traffic_comes_of_it() -> None:
    traffic = Traffic(models=3, partitions=2, predictions=300, start_ms=START_MS)
    settings = PartitionSettings(policy=lambda _: POLICY, kept_ms={PANE_MS: 60_000})
    partitions = [Partition(number, 1, settings) for number in range(2)]
    decoder, sums, offset = Decoder(), Sums(3), 0

    def read(messages: Iterable[Messages]) -> None:
        nonlocal offset
        for topic, number, values in messages:
            records = [LogRecord(offset + at, START_MS, value) for at, value in enumerate(values)]
            offset += len(records)
            partitions[number].apply(RecordBatch(topic, number, records, offset), decoder, KINDS[topic])

    def close() -> None:
        for partition in partitions:
            for closing in partition.checkpoint().closings:
                sums.add(partition.number, closing)

    for step in range(120):
        read(traffic.step())
        if step % 7 == 0:
            close()
    read(traffic.rest())
    read(traffic.last(POLICY.retention_ms + 3 * PANE_MS))
    close()
    counted: Counter[tuple[str, str]] = Counter()
    for partition in partitions:
        counted.update(partition.event_counters())
    assert +counted == traffic.expected.counts
    assert counted["prediction", "accepted"] > 120 * 300
    assert all(
        counted[key] > 0 for key in (("outcome", "duplicate"), ("prediction", "duplicate"), ("unknown", "dead_letter"))
    )
    np.testing.assert_array_equal(sums.values, traffic.expected.closings)
