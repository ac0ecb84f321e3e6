"""Loads, where it is imported, what a service loads when it starts.

``python -m tests.real.preloaded`` compiles its loops where they are not on disk yet, loads Kafka's classes, and
compiles the tests.
"""

import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor

import numpy as np

import monitor.cli.serve  # noqa: F401
from monitor.app import warmup
from monitor.scanning import scan_modules
from tests.real.kafka import keep_loaded_classes


def _compile_tests() -> None:
    """Rewrite their assertions: else each of the processes that test would, all at once. What is wrong, these say."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-qq", "--ignore=tests/spark", "tests"]
    subprocess.run(command, stdout=subprocess.DEVNULL, check=False)


if __name__ == "__main__":
    with ProcessPoolExecutor(2) as pool:
        # The reports come last in the one, and first in the other.
        for made in (
            pool.submit(warmup.warm_up),
            pool.submit(warmup._report_data, np.random.default_rng(0)),
            pool.submit(keep_loaded_classes),
            pool.submit(_compile_tests),
        ):
            made.result()
else:
    warmup.warm_up()
    scan_modules("monitor.http.routes")
