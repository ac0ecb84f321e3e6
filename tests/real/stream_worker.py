"""The stream as a process of its own, to be killed: Kafka to a store, until SIGTERM.

``python -m tests.real.stream_worker BOOTSTRAP GROUP STORE_URL SUFFIX``
"""

import signal
import sys

from monitor.clock import SystemClock
from monitor.events.codec import Decoder
from monitor.events.model import Kind
from monitor.sources.base import Topics
from monitor.sources.kafka import KafkaSource
from monitor.sources.kafka_connection import KafkaConnection
from monitor.store.sql import SqlStore
from monitor.stream.partition import PartitionSettings
from monitor.stream.pipeline import Pipeline, PipelineSettings
from monitor.stream.sampling import SampleSettings
from tests.real.mixed_log import (
    CLASSES,
    OF_CLASSES,
    OUTCOMES,
    PREDICTIONS,
    SAMPLE_CAPACITY,
    SAMPLE_SPAN_MS,
    SLIDE_MS,
    policy_of,
)

DAY_MS = 86_400_000
SPANS = 24
SAMPLES = SampleSettings(size=lambda _: SPANS * SAMPLE_CAPACITY, span_ms=SAMPLE_SPAN_MS, kept_ms=SPANS * SAMPLE_SPAN_MS)
"""So that each span keeps as many as the expectation of the log has."""


def topics(suffix: str) -> dict[str, Kind | None]:
    """The two topics of a log, with the types of their events."""
    return {f"{PREDICTIONS}-{suffix}": Kind.PREDICTION, f"{OUTCOMES}-{suffix}": Kind.OUTCOME}


def pipeline(
    bootstrap: str,
    group: str,
    store: SqlStore,
    kinds: dict[str, Kind | None],
    checkpoint_seconds: float = 0.5,
    *,
    samples: SampleSettings = SAMPLES,
    reads: type[KafkaSource] = KafkaSource,
) -> Pipeline:
    """A pipeline that keeps every pane of the log, and its samples."""
    # A member that was killed must not hold its partitions for long.
    source = reads(
        KafkaConnection((bootstrap,)), Topics(kinds), group_id=group, session_timeout_seconds=6, clock=SystemClock()
    )
    return Pipeline(
        source,
        store,
        Decoder(classes={OF_CLASSES: len(CLASSES)}),
        partitions=PartitionSettings(
            policy=policy_of, kept_ms={SLIDE_MS: DAY_MS}, unsettled_cells=True, samples=samples
        ),
        settings=PipelineSettings(kinds=kinds, checkpoint_seconds=checkpoint_seconds),
        clock=SystemClock(),
    )


def main() -> None:
    """Run until SIGTERM."""
    bootstrap, group, store_url, suffix = sys.argv[1:]
    with SqlStore.open(store_url) as store:
        runs = pipeline(bootstrap, group, store, topics(suffix))
        signal.signal(signal.SIGTERM, lambda *_: runs.stop())
        runs.run()
        print(runs.status.phase, runs.status.detail, flush=True)


if __name__ == "__main__":
    main()
