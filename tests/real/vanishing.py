"""What tests need in which a broker vanishes while clients are connected to it."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

broker_vanishes = pytest.mark.filterwarnings(r"ignore:unclosed <socket\.socket:ResourceWarning")
"""kafka-python leaves a socket to the garbage collector whose connection came about while the attempt was given up,
which happens, rarely, where a broker goes or comes. Everywhere else a connected socket that is left is an error."""


@contextmanager
def collected() -> Iterator[None]:
    """Collects what a test left before the next one begins, which would have to answer for it."""
    try:
        yield
    finally:
        gc.collect()
