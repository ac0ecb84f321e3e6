"""Writes labelled events at a steady rate: ``python steady_events.py LOG MODELS RATE SECONDS``, LOG an embedded log.

A process of its own, so that what is measured is the service that reads them.
"""

import sys
import time
from pathlib import Path
from typing import Final

import numpy as np

from monitor.clock import SystemClock
from monitor.events.model import Message
from monitor.sources.embedded_log import EmbeddedLog

TOPIC: Final = "calibration-events"
_STEP_SECONDS: Final = 0.25


def write_steadily(folder: Path, models: int, rate: float, seconds: float) -> None:
    """Write ``rate`` events a second, spread evenly over the models, each at the time at which it is written."""
    writer = EmbeddedLog(folder, partitions=4, clock=SystemClock())
    rng = np.random.default_rng(0)
    count = round(rate * _STEP_SECONDS)
    start = time.time()
    for step in range(round(seconds / _STEP_SECONDS)):
        now_ms = round(time.time() * 1000)
        p = 1.0 / (1.0 + np.exp(-rng.normal(-0.5, 1.5, count)))
        y = rng.random(count) < p
        model = rng.integers(0, models, count)
        writer.write(
            [
                Message(
                    TOPIC,
                    b'{"type":"labelled","model":"m%d","version":"1","id":"%d-%d","ts":%d,"p":%.6f,"y":%d}'
                    % (model[at], step, at, now_ms, p[at], y[at]),
                    key=b"%d-%d" % (step, at),
                    timestamp_ms=now_ms,
                )
                for at in range(count)
            ]
        )
        time.sleep(max(0.0, start + (step + 1) * _STEP_SECONDS - time.time()))
    writer.close()


if __name__ == "__main__":
    log, *numbers = sys.argv[1:]
    models, rate, seconds = map(float, numbers)
    write_steadily(Path(log), int(models), rate, seconds)
