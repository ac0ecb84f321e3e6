"""Compiles every numerical kernel before the first event is read.

The first start on a machine takes half a minute for it, and puts what it compiled into numba's cache; later ones a
second or two. Without it, the first batch and the first evaluation would stand still for as long.
"""

from typing import Final

import numpy as np

from monitor.clock import ManualClock
from monitor.evaluation.assess import Minimum
from monitor.evaluation.evaluator import Evaluator
from monitor.evaluation.windows import Window
from monitor.events.codec import Decoder
from monitor.events.encode import encode_labelled, encode_outcome, encode_prediction
from monitor.events.model import ModelPolicy, RecordBatch
from monitor.sources.log_format import LogRecord
from monitor.stream.offline import OfflineStream
from monitor.stream.partition import PartitionSettings

_EVENTS: Final = 400
_MODEL: Final = "warm-up"
_STEP_MS: Final = 500
_START_MS: Final = 1_700_000_000_000
_LENGTH_MS: Final = 60_000


def warm_up(seed: int = 0) -> None:
    """Send some events of a made-up model all the way, from bytes to a report with its intervals."""
    stream = OfflineStream(
        Decoder(),
        PartitionSettings(
            policy=lambda _: ModelPolicy(horizon_ms=1000, lateness_ms=1000), pane_retention_ms={1000: 2 * _LENGTH_MS}
        ),
    )
    messages = _messages(np.random.default_rng(seed))
    for at in range(0, len(messages), 300):
        records = [
            LogRecord(at + place, _START_MS, None, value, ()) for place, value in enumerate(messages[at : at + 300])
        ]
        stream.read(RecordBatch("warm-up", 0, records, at + len(records)))
        stream.settle()
    windows = [Window("warm-up", _LENGTH_MS)]
    minimum = Minimum(events=2, positives=0, negatives=0)
    Evaluator(stream.panes, windows, minimum=minimum, clock=ManualClock()).evaluate()


def _messages(rng: np.random.Generator) -> list[bytes]:
    messages = []
    for event, prediction in enumerate(rng.random(_EVENTS).tolist()):
        time_ms = _START_MS + event * _STEP_MS
        outcome = int(rng.random() < prediction)
        if event % 10 == 0:
            messages.append(encode_labelled(_MODEL, str(event), time_ms, prediction, outcome))
            continue
        messages.append(encode_prediction(_MODEL, str(event), time_ms, prediction))
        messages.append(encode_outcome(_MODEL, str(event), time_ms, outcome))
    # Times that are not epoch milliseconds, and an outcome before its prediction, have kernels of their own.
    messages.append(encode_prediction(_MODEL, "rfc3339", "2023-11-14T22:13:20.5Z", 0.5))
    messages.append(encode_outcome(_MODEL, "early", _START_MS + _EVENTS * _STEP_MS, 1))
    messages.append(encode_prediction(_MODEL, "early", _START_MS + _EVENTS * _STEP_MS, 0.5))
    return messages
