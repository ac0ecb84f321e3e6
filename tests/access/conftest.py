"""A key, its source, and who knows it, by a clock that stands still."""

import pytest

from monitor.access import keys, provider
from monitor.access.keys import KeyAuthenticator
from monitor.clock import ManualClock
from tests.access.keys import KEY, NOW_MS, CountingSource, stored
from tests.patience import PATIENCE_SECONDS


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW_MS)


@pytest.fixture
def source() -> CountingSource:
    return CountingSource(stored(KEY))


@pytest.fixture
def access(source: CountingSource, clock: ManualClock) -> KeyAuthenticator:
    return KeyAuthenticator([source], clock)


@pytest.fixture(autouse=True)
def requests_wait_patiently(monkeypatch: pytest.MonkeyPatch) -> None:
    """Readings take as long as the machine needs, which says nothing of what is read."""
    monkeypatch.setattr(keys, "WAIT_SECONDS", PATIENCE_SECONDS)
    monkeypatch.setattr(provider, "WAIT_SECONDS", PATIENCE_SECONDS)
