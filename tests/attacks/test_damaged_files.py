"""A log and a store that are damaged while the service stands still: no accepted event is lost, and all goes on."""

import json
from collections.abc import Callable
from pathlib import Path

from tests.attacks.service import Attacked
from tests.cli.command import inside
from tests.patience import PATIENCE_SECONDS
from tests.store.test_backup import damage


def _post(service: Attacked, *ids: str) -> tuple[int, str]:
    events = [
        {"type": "prediction", "model": "m", "version": "1", "id": id_, "ts": "2026-11-20T10:00:00Z", "p": 0.5}
        for id_ in ids
    ]
    status, body = service.ask("/v1/events", json.dumps(events).encode())
    return status, body.decode()


def test_a_damaged_log_loses_no_accepted_event(serve: Callable[..., Attacked], tmp_path: Path) -> None:
    partition = tmp_path / "log/topics/calibration-events/0"
    ids = [f"{number}" for number in range(400)]
    service = serve(source={"embedded": {"partitions": 1}})
    service.ready()
    assert _post(service, *ids[:200])[0] == 202
    service.counts(200)
    service.stop()

    # A bit of what was read flips: nothing is lost, and nothing is skipped.
    (segment,) = partition.glob("*.log")
    content = bytearray(segment.read_bytes())
    content[-1] ^= 1
    segment.write_bytes(content)
    service = serve(source={"embedded": {"partitions": 1}})
    service.ready()
    assert _post(service, *ids[200:])[0] == 202
    service.counts(400)
    service.stop()

    # What was read is cut off: the service reports it, and accepts nothing, from the first request on.
    segment.write_bytes(segment.read_bytes()[:-1])
    service = serve(source={"embedded": {"partitions": 1}})
    service.eventually(lambda: service.url)
    status, answer = _post(service, "late")
    assert status >= 500, answer
    status, detail = service.says("was never written to this log, which ends at 200")
    assert status == 503, detail
    assert _post(service, "later")[0] >= 500


def test_a_damaged_store_is_restored_and_the_log_read_on(serve: Callable[..., Attacked], tmp_path: Path) -> None:
    ids = [f"{number}" for number in range(400)]
    service = serve()
    service.ready()
    assert _post(service, *ids[:200])[0] == 202
    service.counts(200)
    service.stop()
    assert inside("backup", "backup.db", cwd=tmp_path).returncode == 0
    damage(tmp_path / "state.db", "middle")
    service = serve()
    assert service.process.wait(PATIENCE_SECONDS) == 1
    (line,) = service.output.read_text().splitlines()
    assert "is damaged: " in line
    assert "--replace state.db" in line
    done = inside("restore", "backup.db", "--replace", "state.db", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    service = serve()
    service.ready()
    assert _post(service, *ids[200:])[0] == 202
    service.counts(400)
    service.stop()
