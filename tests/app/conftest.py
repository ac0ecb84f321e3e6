"""A service that is as quick as the machine lets it be, and shares no folder with those of other tests."""

import tempfile

import pytest

from monitor.app import service
from tests.patience import PATIENCE_SECONDS


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Let a service's end take as long as it takes: an orderly one is told from one that was cut short on any machine.

    So may the store's answer who serves, which a request after a promotion waits for.

    What it keeps in the system's folder for temporary files goes into one of its own.
    """
    monkeypatch.setattr(service, "_PIPELINE_SECONDS", PATIENCE_SECONDS)
    monkeypatch.setattr(service, "_REFIT_SECONDS", PATIENCE_SECONDS)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("temporary")))
