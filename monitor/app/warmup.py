"""Compile every numerical kernel before the first event is read.

The package is built with them: ``python -m monitor.app.warmup`` compiles those that are not on disk yet, which takes
half a minute, and puts all into the package. Where it was built without, or for another processor, the first start
compiles them. Without this, the first batch and the first evaluation would wait as long.
"""

import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from typing import Final

import numpy as np

from monitor.clock import ManualClock
from monitor.compiled.kept import ship
from monitor.events.codec import Decoder
from monitor.events.encode import encode_labelled, encode_outcome, encode_prediction
from monitor.events.formats.base import Rules
from monitor.events.model import ModelPolicy, RecordBatch
from monitor.events.partitions import partitions_of
from monitor.http.element_loops import count_elements
from monitor.loops import CompiledLoop
from monitor.maps import apply_map, choose_method, fit_map
from monitor.reports.evaluation.assess import Minimum
from monitor.reports.evaluation.evaluate import evaluate
from monitor.scores.labelled import LabelledEvents
from monitor.sources.kafka_loops import SPANS, locate_records
from monitor.sources.log_format import LogRecord
from monitor.store.base import Checkpoint, PartitionState
from monitor.stream.partition import Partition, PartitionSettings
from monitor.stream.sampling import SampleSettings
from monitor.windows.evaluator import Evaluator
from monitor.windows.panes import ClosedPanes
from monitor.windows.windows import Window

_EVENTS: Final = 1500
_BATCH: Final = 2500
"""More than a new table holds, so that the kernels that grow it are compiled, too."""
_SAMPLED: Final = 20
"""Fewer than a span has, so that the kernels that choose among them are compiled, too."""
_MODEL: Final = "warm-up"
_OF_CLASSES: Final = "warm-up-classes"
_CLASSES: Final = 5
_POLICIES: Final = {
    _MODEL: ModelPolicy(horizon_ms=60_000, lateness_ms=1000),
    _OF_CLASSES: ModelPolicy(horizon_ms=60_000, lateness_ms=1000, classes=tuple("abcde"), sketch_features=2),
}
_REPORTED: Final = 60
_DRAWS: Final = 19
_STEP_MS: Final = 100
_START_MS: Final = 1_700_000_000_000
_LENGTH_MS: Final = 300_000


@cache
def warm_up() -> None:
    """Run events of made-up models through the service: join, checkpoint, restore, and a report with its intervals.

    Then report on data and recalibrate a batch, as REST requests do. Once in a process: later calls do nothing.
    """
    window = Window("warm-up", _LENGTH_MS)
    settings = PartitionSettings(
        policy=_POLICIES.get,
        kept_ms={window.slide_ms: 2 * _LENGTH_MS},
        samples=SampleSettings(size=lambda _: _SAMPLED, span_ms=_LENGTH_MS, kept_ms=_LENGTH_MS),
    )
    decoder = Decoder(Rules(classes={_OF_CLASSES: _CLASSES}))
    # Chooses partitions for posted events and for dead letters.
    partitions_of([_MODEL.encode()], 2)
    # Counts the posted events.
    count_elements(np.frombuffer(b"[]", np.uint8), 1)
    partition = Partition(0, 0, settings)
    saved: list[Checkpoint] = []
    messages = _messages(np.random.default_rng(0))
    locate_records(np.frombuffer(bytearray(1), np.uint8), 0, np.empty((1, SPANS), np.int64))
    for at in range(0, len(messages), _BATCH):
        values = messages[at : at + _BATCH]
        records = [LogRecord(at + place, _START_MS, None, value, ()) for place, value in enumerate(values)]
        partition.apply(RecordBatch("warm-up", 0, records, at + len(records)), decoder, None)
        saved.append(partition.checkpoint())
    Partition(0, 0, settings, _state(saved))
    panes = ClosedPanes({window.slide_ms: 2 * _LENGTH_MS}, _POLICIES.get)
    for checkpoint in saved:
        panes.add_checkpoint(checkpoint)
    minimum = Minimum(events=2, positives=0, negatives=0)
    Evaluator(panes, [window], minimum=minimum, clock=ManualClock()).evaluate()
    _report_data(np.random.default_rng(0))
    _recalibrate(np.random.default_rng(0))


def _recalibrate(rng: np.random.Generator) -> None:
    """Apply the one kind of map that has kernels of its own, as a request does."""
    p, features = rng.random(_REPORTED), rng.random((_REPORTED, 2))
    events = LabelledEvents.of(p, rng.random(_REPORTED) < p, features=features)
    apply_map(fit_map(choose_method("lore"), events), p, features=features)


def _report_data(rng: np.random.Generator) -> None:
    """Report on data as a request may contain it: predictions, with and without weights, and probability vectors."""
    p = rng.dirichlet(np.ones(_CLASSES), _REPORTED)
    y = rng.integers(0, _CLASSES, _REPORTED)
    evaluate(p, y, draws=_DRAWS)
    for weight in (None, p[:, 1]):
        evaluate(p[:, 0].tolist(), y == 0, weight=weight, draws=_DRAWS)


def _state(saved: Sequence[Checkpoint]) -> PartitionState:
    """The state that a store would restore from these checkpoints."""
    last = saved[-1]
    return PartitionState(
        offsets=last.offsets,
        models=last.models,
        strata={at: stratum for checkpoint in saved for at, stratum in checkpoint.strata.items()},
        counters=last.counters,
        journal=iter([batch for checkpoint in saved for batch in checkpoint.journal]),
    )


def _messages(rng: np.random.Generator) -> list[bytes]:
    messages = []
    for event, prediction in enumerate(rng.random(_EVENTS).tolist()):
        time_ms = _START_MS + event * _STEP_MS
        outcome = int(rng.random() < prediction)
        if event % 10 == 0:
            messages.append(encode_labelled(_MODEL, str(event), time_ms, prediction, outcome))
            continue
        messages.append(encode_prediction(_MODEL, str(event), time_ms, prediction, features=rng.random(2)))
        messages.append(encode_outcome(_MODEL, str(event), time_ms, outcome))
        messages.append(encode_prediction(_OF_CLASSES, str(event), time_ms, rng.dirichlet(np.ones(_CLASSES))))
        messages.append(encode_outcome(_OF_CLASSES, str(event), time_ms, event % _CLASSES))
    # An outcome before its prediction has kernels of its own.
    messages.append(encode_outcome(_MODEL, "early", _START_MS + _EVENTS * _STEP_MS, 1))
    messages.append(encode_prediction(_MODEL, "early", _START_MS + _EVENTS * _STEP_MS, 0.5))
    return messages


def _names_called() -> set[str]:
    """Warm up, and return the names of the forms of all loops that were called."""
    warm_up()
    loops = (
        value
        for name, module in sys.modules.items()
        if name.startswith("monitor.")
        for value in vars(module).values()
        if isinstance(value, CompiledLoop)
    )
    return {name for loop in loops for name in loop.names()}


if __name__ == "__main__":
    with ProcessPoolExecutor(2) as pool:
        # The reports come last in the one, and first in the other.
        names = pool.submit(_names_called)
        pool.submit(_report_data, np.random.default_rng(0)).result()
        ship(names.result())
