"""Refits of a `monitor serve` that is killed, ended in order, and finds its store damaged: nothing is half promoted."""

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from monitor.client import RecalibrationClient
from monitor.clock import SystemClock
from monitor.errors import ServiceUnavailable
from monitor.store.recalibration_store import RecalibrationStore
from monitor.store.recalibrations import JobState
from monitor.store.sql import SqlStore
from tests.cli.refit_service import (
    Refitting,
    overconfident,
    replay,
    wait_until_gone,
    wait_until_sampled,
    write_settings,
)
from tests.patience import PATIENCE_SECONDS

P = [0.1, 0.5, 0.9]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Settings, and a log with the events of a model."""
    made = tmp_path_factory.mktemp("crashes")
    write_settings(made)
    replay(made, list(overconfident("churn", 3000, slope=2.5, features=lambda _: 4)))
    return made


@pytest.fixture
def serve(folder: Path) -> Iterator[Callable[[], Refitting]]:
    """Starts the service on what the one before it left."""
    running: list[Refitting] = []

    def start() -> Refitting:
        served = Refitting(folder)
        running.append(served)
        served.ready()
        wait_until_sampled(served, f"sqlite:///{folder}/state.db", {"churn": 2400})
        return served

    yield start
    for served in running:
        if served.process.poll() is None:
            served.kill()


def damage(folder: Path, map_id: str) -> None:
    """Change the bytes of a map, as a disk may: it knows nothing of the triggers that refuse it."""
    connection = sqlite3.connect(folder / "state.db")
    with connection:
        data, sha256 = connection.execute(
            "SELECT artifact, sha256 FROM recalibration_maps WHERE id = ?", [map_id]
        ).fetchone()
        connection.execute("DELETE FROM recalibration_maps WHERE id = ?", [map_id])
        spoilt = data[:200] + bytes([data[200] ^ 1]) + data[201:]
        connection.execute("INSERT INTO recalibration_maps VALUES (?, ?, ?)", [map_id, spoilt, sha256])
    connection.close()


def in_the_middle(job: dict[str, Any]) -> bool:
    """Whether the worker of a refit is at work; it must not have ended."""
    assert job["finished_at"] is None, job
    return job["step"] not in {"", "starting"}


@pytest.mark.long
def test_a_refit_outlives_what_kills_its_worker_and_its_service(folder: Path, serve: Callable[[], Refitting]) -> None:
    first = serve()
    # Its worker is killed three times: somebody has to look why.
    doomed = first.refit("churn", method="temperature", promote=True)
    for attempt in (1, 2, 3):
        first.eventually(lambda attempt=attempt: first.job(doomed)["attempts"] == attempt)  # type: ignore[misc]
        worker = first.working(doomed)
        worker.kill()
        wait_until_gone(worker)
    job = first.ended(doomed)
    assert (job["state"], job["attempts"]) == ("failed", 3)
    assert job["reason"] == (
        "the worker was lost three times; the last time, it was killed by SIGKILL: the machine may have run out of"
        " memory"
    )
    assert first.recalibrate("churn", P) == (200, first.recalibrate("churn", P)[1] | {"map": None, "p": P})

    good = first.ended(first.refit("churn", method="temperature", promote=True))
    assert good["state"] == "champion", good["reason"]
    recalibrated = first.recalibrate("churn", P)[1]["p"]

    # The service is killed in the middle of a fit.
    killed = first.refit("churn", method="lore", promote=True)
    worker = first.working(killed)
    first.eventually(lambda: in_the_middle(first.job(killed)), lambda: first.job(killed))
    worker.suspend()
    first.kill()
    # A worker does not outlive its service.
    wait_until_gone(worker)
    second = serve()
    job = second.ended(killed)
    assert (job["state"] in {"champion", "rejected", "candidate"}, job["attempts"]) == (True, 2), job
    standing = second.get("/v1/models/churn/recalibration")[1]["serves"]
    assert (standing["map"] == job["id"], standing["revision"]) == (
        job["state"] == "champion",
        2 if job["state"] == "champion" else 1,
    )
    if job["state"] == "champion":
        assert second.ask_for("POST", "/v1/models/churn/rollback", {})[0] == 200
    assert second.recalibrate("churn", P)[1] == {
        "model": "churn",
        "version": "7",
        "map": good["id"],
        "p": recalibrated,
        "note": None,
    }

    # It is ended in order: the refit is given back as if it had not begun.
    interrupted = second.refit("churn", method="lore")
    worker = second.working(interrupted)
    # However slow the machine is, it is not done before its service ends.
    worker.suspend()
    with RecalibrationClient(second.url, "churn", timeout_seconds=PATIENCE_SECONDS) as client:
        assert client.apply(P).tolist() == recalibrated
    second.stop()
    wait_until_gone(worker)
    with SqlStore.open(f"sqlite:///{folder}/state.db", clock=SystemClock()) as store:
        waiting = RecalibrationStore(store.database).job(interrupted["id"])
        assert (waiting.state, waiting.attempts, waiting.started_ms) == (JobState.QUEUED, 0, None)

    # Meanwhile, a disk spoils the map that serves: that is said, and predictions are not left as they are in silence.
    damage(folder, good["id"])
    third = serve()
    status, problem = third.recalibrate("churn", P)
    assert (status, problem["type"].rpartition(":")[2]) == (500, "corrupt-map")
    assert "roll back" in problem["detail"]
    assert [line["incident"] for line in third.log() if "incident" in line] == [problem["incident"]]
    assert "p" not in problem
    assert third.ask("/v1/models/churn/map")[0] == 500
    with (
        RecalibrationClient(third.url, "churn", timeout_seconds=PATIENCE_SECONDS) as newcomer,
        pytest.raises(ServiceUnavailable, match="the stored map cannot be read: roll back"),
    ):
        newcomer.apply(P)
    # What was waiting would be compared with it, and says why it is not.
    job = third.ended(interrupted)
    assert (job["state"], job["attempts"]) == ("failed", 1)
    assert job["reason"].startswith(f"the map {good['id']} is damaged in the store")
    # The way out that is named works.
    assert third.ask_for("POST", "/v1/models/churn/rollback", {"note": "damaged"})[1]["map"] is None
    assert third.recalibrate("churn", P)[1]["map"] is None
    again = third.ended(third.refit("churn", method="temperature", promote=True))
    assert again["state"] == "champion"
    assert third.recalibrate("churn", P)[1]["p"] == recalibrated
    third.stop()
