"""Loads, where it is imported, what a service loads when it starts.

``python -m tests.real.preloaded`` compiles its loops where they are not on disk yet, and loads Kafka's classes.
"""

from concurrent.futures import ProcessPoolExecutor

import numpy as np

import monitor.cli.serve  # noqa: F401
from monitor.app import warmup
from tests.real.kafka import keep_loaded_classes

if __name__ == "__main__":
    with ProcessPoolExecutor(2) as pool:
        # The reports come last in the one, and first in the other.
        for made in (
            pool.submit(warmup.warm_up),
            pool.submit(warmup._report_data, np.random.default_rng(0)),
            pool.submit(keep_loaded_classes),
        ):
            made.result()
else:
    warmup.warm_up()
