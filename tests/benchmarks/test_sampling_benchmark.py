"""What a sample costs the way of an event: decode, join, closings and checkpoints, with it and without."""

import itertools
import time
from dataclasses import dataclass
from typing import Final

import numpy as np
import pytest

from monitor.events.codec import Decoder
from monitor.events.encode import encode_outcome, encode_prediction
from monitor.events.model import ModelPolicy, RecordBatch
from monitor.stream.partition import Partition, PartitionSettings
from monitor.stream.sampling import SampleSettings
from tests.stream.support import START_MS, LogRecord

PREDICTIONS: Final = 150_000
BATCH: Final = 5_000
CHECKPOINT_RECORDS: Final = 50_000
ROUNDS: Final = 3
POLICY: Final = ModelPolicy(horizon_ms=600_000, lateness_ms=60_000, segments=("region",))
SPAN_MS: Final = 1_800_000
FEATURES: Final = 20
LATER_MS: Final = START_MS + 12 * 3_600_000


@dataclass(frozen=True)
class Work:
    """A log of predictions, each answered five minutes later."""

    batches: list[RecordBatch]
    records: int


def work(features: int, every_ms: int) -> Work:
    rng = np.random.default_rng(1)
    p, y = rng.beta(0.6, 0.8, PREDICTIONS), rng.random(PREDICTIONS)
    values = rng.normal(size=(64, max(features, 1)))
    messages: list[tuple[int, bytes]] = []
    for at in range(PREDICTIONS):
        model, made_ms = ("churn", "fraud", "credit")[at % 3], START_MS + at * every_ms
        told = values[at % 64] if features else None
        segments = {"region": ("eu", "us")[at % 2]}
        identifier = f"{at:032x}"
        prediction = encode_prediction(
            model, identifier, made_ms, round(float(p[at]), 6), version="7", segments=segments, features=told
        )
        messages.append((made_ms, prediction))
        outcome_ms = made_ms + 300_000
        messages.append((outcome_ms, encode_outcome(model, identifier, outcome_ms, int(y[at] < p[at]))))
    # What comes much later lets everything before it leave the join.
    for model in ("churn", "fraud", "credit"):
        messages.append((LATER_MS, encode_prediction(model, "last", LATER_MS, 0.5, version="7")))
        messages.append((LATER_MS, encode_outcome(model, "last", LATER_MS, 1)))
    messages.sort(key=lambda pair: pair[0])
    records = [LogRecord(at, LATER_MS, value) for at, (_, value) in enumerate(messages)]
    batches = [
        RecordBatch("events", 0, records[at : at + BATCH], min(at + BATCH, len(records)))
        for at in range(0, len(records), BATCH)
    ]
    return Work(batches, len(records))


def seconds(chosen: Work, size: int) -> tuple[float, Partition]:
    """Of this process's own computing."""
    settings = PartitionSettings(
        policy=lambda _: POLICY,
        kept_ms={60_000: 86_400_000},
        samples=SampleSettings(size=lambda _: size, span_ms=SPAN_MS, kept_ms=16 * SPAN_MS),
    )
    partition, decoder = Partition(0, 0, settings), Decoder()
    read = 0
    began = time.process_time()
    for batch in chosen.batches:
        partition.apply(batch, decoder, None)
        read += len(batch.records)
        if read >= CHECKPOINT_RECORDS:
            read = 0
            for _, sample in partition.checkpoint().closed_samples:
                sample.to_bytes()
    partition.checkpoint()
    return time.process_time() - began, partition


@pytest.mark.benchmark
@pytest.mark.parametrize("every_ms", [1, 24])
@pytest.mark.parametrize("features", [0, FEATURES])
def test_what_a_sample_costs_the_stream(features: int, every_ms: int, capsys: pytest.CaptureFixture[str]) -> None:
    chosen = work(features, every_ms)
    sizes = (0, 2_000, 20_000)
    taken: dict[int, list[float]] = {size: [] for size in sizes}
    last: dict[int, Partition] = {}
    for size in sizes:
        seconds(Work(chosen.batches[:4], 0), size)  # compiled before it is timed
    # In turns, so that whatever else the machine does falls on all of them.
    for _, size in itertools.product(range(ROUNDS), sizes):
        spent, last[size] = seconds(chosen, size)
        taken[size].append(spent)
    best = {size: min(rounds) for size, rounds in taken.items()}
    with capsys.disabled():
        print(
            f"\n{chosen.records:,} records, one prediction every {every_ms} ms, with {features} features; a sample of"
        )
        for size in sizes:
            print(
                f"  {size:6,d} labelled events: {chosen.records / best[size]:9,.0f} records/s, "
                f"{best[size] / best[0]:.3f} times as long as without; {last[size].sampler.results['labelled']:7,d} "
                "of them were candidates"
            )
    # The events come to the same, with a sample or without.
    assert (
        last[0].sampler.candidates
        == 0
        < last[2_000].sampler.results["labelled"]
        < last[20_000].sampler.results["labelled"]
    )
    for size in sizes[1:]:
        assert last[size].event_counters() == last[0].event_counters()
        assert last[size].departed == last[0].departed
