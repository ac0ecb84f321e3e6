"""The service that is attacked, started with the settings that a test chooses."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.attacks.service import Attacked


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Attacked]]:
    """Start a service in the test's folder; it is killed after the test."""
    with ExitStack() as running:
        yield lambda **changes: running.enter_context(Attacked(tmp_path, **changes))
