"""The service as a whole, on its embedded log: what it reads is what a file of the same events says."""

import json
import math
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from monitor.access.keys import make_key
from monitor.access.model import StoredKey, parse_grants
from monitor.app import service as module
from monitor.app.offline import report_log
from monitor.app.parts import make_embedded_log, make_topics, make_writer, open_store
from monitor.app.replay import route
from monitor.app.service import Service
from monitor.app.settings import Settings
from monitor.clock import ManualClock, SystemClock
from monitor.errors import DamagedStore, SettingsError
from monitor.events.codec import Decoded, Decoder
from monitor.events.log import Topics
from monitor.events.model import Kind, Record, RecordBatch
from monitor.events.strata import Strata
from monitor.reports.evaluation.report import Report
from monitor.simulation.traffic import Traffic
from monitor.sources.embedded import EmbeddedSource
from monitor.store.api_keys import ApiKeys
from monitor.stream.status import Phase
from tests.last_events import last_events
from tests.patience import PATIENCE_SECONDS, eventually, joined

START_MS = 1_790_000_000_000
HOUR_MS = 3_600_000


def settings(folder: Path, **tree: Any) -> Settings:
    return Settings.model_validate(
        {
            "source": {"embedded": {"directory": str(folder / "log"), "partitions": 3}},
            "store": {"url": f"sqlite:///{folder / 'state.db'}"},
            "models": {"defaults": {"horizon": "10m", "allowed_lateness": "5m", "segments": ["region"]}},
            "windows": [{"length": "1h"}, {"last": 2000, "length": "6h"}],
            "evaluation": {"interval": "1s", "draws": 19},
            "pipeline": {"checkpoint_interval": "100ms"},
            "api": {"port": 0},
            "access": {"mode": "off"},
            **tree,
        }
    )


@pytest.fixture(scope="module")
def events() -> list[bytes]:
    traffic = Traffic("events", start_ms=START_MS, change_ms=START_MS + HOUR_MS, seed=8, rate=0.5)
    values = [message.value or b"" for message in traffic.until(START_MS + 2 * HOUR_MS)]
    return values + last_events(START_MS + 3 * HOUR_MS)


def write(chosen: Settings, values: list[bytes]) -> None:
    writer = make_writer(chosen, SystemClock())
    writer.write([route(value, make_topics(chosen)) for value in values])
    writer.close()


class Running:
    """A started service that is stopped at the end of its test."""

    def __init__(self) -> None:
        self.services: list[Service] = []

    def __call__(self, chosen: Settings) -> Service:
        service = Service(chosen, clock=SystemClock())
        self.services.append(service)
        service.start()
        return service


@pytest.fixture
def run(patient: None) -> Iterator[Running]:
    running = Running()
    yield running
    for service in running.services:
        service.stop()


def get(service: Service, path: str) -> tuple[int, Any]:
    try:
        with urllib.request.urlopen(f"{service.server.url}{path}", timeout=PATIENCE_SECONDS) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


def told(report: Report) -> dict[str, Any]:
    """What a report says, without the intervals that are renewed in their turn."""
    tree = report.to_dict()
    tree["measures"] = {name: result["value"] for name, result in tree["measures"].items()}
    return tree


def test_the_service_says_what_a_file_of_its_events_says(tmp_path: Path, run: Running, events: list[bytes]) -> None:
    chosen = settings(tmp_path)
    write(chosen, events[: len(events) // 2])
    service = run(chosen)
    eventually(lambda: service.status.records_read == len(events) // 2, shown=lambda: service.status)
    assert service.stop()
    service = run(chosen)
    write(chosen, events[len(events) // 2 :])
    # Counts are published at the end of a turn, by which all else has been taken up.
    eventually(
        lambda: service.status.ready and sum(service.status.counters.values()) >= len(events),
        shown=lambda: service.status,
    )
    assert service.status.records_read == len(events) - len(events) // 2

    file = tmp_path / "events.jsonl"
    file.write_bytes(b"\n".join(value or b"-" for value in events))
    offline = report_log(file, chosen, SystemClock())
    expected = [told(report) for report in offline.snapshot.reports.values()]

    # What is settled is published by the next checkpoint.
    def evaluated() -> bool:
        service.evaluation.tick()
        return [told(report) for report in service.snapshots.latest.reports.values()] == expected

    eventually(evaluated)
    live = service.snapshots.latest
    assert sum(len(report.measures) > 0 for report in live.reports.values()) >= 16
    counted = {key: count for key, count in service.status.counters.items() if count}
    assert counted == {key: count for key, count in offline.events.items() if count}
    assert sum(counted.values()) == len(events)


def test_it_is_ready_once_it_reads_and_answers_with_reports(tmp_path: Path, run: Running, events: list[bytes]) -> None:
    chosen = settings(tmp_path)
    write(chosen, events)
    service = run(chosen)
    assert get(service, "/healthz")[0] == 200
    eventually(lambda: get(service, "/readyz")[0] == 200)
    eventually(lambda: get(service, "/v1/models/overconfident/report?window=1h")[0] == 200)
    status, body = get(service, "/v1/models/overconfident/report?window=1h")
    assert status == 200
    assert {"tce", "kce", "smce", "intce"} <= body["measures"].keys() or body["insufficient"]
    with urllib.request.urlopen(f"{service.server.url}/metrics", timeout=PATIENCE_SECONDS) as answer:
        assert b"calibration_events_total" in answer.read()


def test_too_many_dead_letters_stop_reading_and_nothing_else(tmp_path: Path, run: Running) -> None:
    chosen = settings(tmp_path, dead_letters={"block": 50, "max_ratio": 0.2})
    write(chosen, [b"garbage"] * 100)
    service = run(chosen)
    eventually(lambda: service.status.phase is Phase.FAILED)
    status, body = get(service, "/readyz")
    assert status == 503
    assert "no valid events" in body["detail"]
    assert "monitor dead-letters list" in body["detail"]
    assert get(service, "/healthz")[0] == 200
    # Whoever supervises the process need not restart it: that would change nothing.
    assert not service.wait(0.2)
    assert not service.stop()
    with open_store(chosen, SystemClock()) as store:
        assert sum(store.count_dead_letters().values()) > 0


class Broken(Decoder):
    """A decoder with a bug."""

    def decode(self, batch: RecordBatch, strata: Strata, default_kind: Kind | None) -> Decoded:
        raise ZeroDivisionError("a bug")


def test_an_unexpected_error_ends_the_process_so_that_it_is_started_again(tmp_path: Path, run: Running) -> None:
    chosen = settings(tmp_path)
    write(chosen, [b"garbage"])
    service = Service(chosen, clock=SystemClock())
    assert service.pipeline is not None
    service.pipeline._decoder = Broken()
    run.services.append(service)
    service.start()
    assert service.wait(PATIENCE_SECONDS)
    assert service.status.detail == "unexpected ZeroDivisionError: a bug"
    assert not service.stop()


def test_a_taken_port_is_said_and_nothing_stays_behind(tmp_path: Path, run: Running) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        chosen = settings(tmp_path, api={"port": taken.getsockname()[1]})
        with pytest.raises(SettingsError, match=r"api\.port"):
            Service(chosen, clock=SystemClock()).start()
    run(settings(tmp_path))


def test_a_store_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state.db").write_bytes(b"no database at all" * 100)
    with pytest.raises(DamagedStore, match="not a SQLite file"):
        Service(settings(tmp_path), clock=SystemClock())


def test_dead_letters_go_to_their_topic_too(tmp_path: Path, run: Running) -> None:
    chosen = settings(tmp_path, dead_letters={"topic": "dead"})
    write(chosen, [b"garbage", b'{"type":"outcome"}'])
    service = run(chosen)
    eventually(
        lambda: service.status.checkpoint_ms > 0 and service.status.records_read == 2, shown=lambda: service.status
    )
    assert service.stop()
    source = EmbeddedSource(make_embedded_log(chosen, SystemClock()), Topics({"dead": None}))
    records: list[Record] = []

    def both() -> bool:
        records.extend(record for batch in source.poll(0.0, 10).batches for record in batch.records)
        return len(records) >= 2

    try:
        for partition in source.poll(0.0, 10).assigned:
            source.start(partition, {})
        eventually(both, shown=lambda: records)
    finally:
        source.close()
    assert sorted(record.value or b"" for record in records) == [b"garbage", b'{"type":"outcome"}']
    reasons = {dict(record.headers)["calibration-dead-letter-reason"] for record in records}
    assert reasons == {b"not_json", b"missing_key"}


def test_stopping_before_the_kernels_are_compiled_does_not_wait_for_them(
    tmp_path: Path, patient: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = threading.Event()
    monkeypatch.setattr(module, "warm_up", compiled.wait)
    service = Service(settings(tmp_path), ManualClock(START_MS))
    service.start()
    try:
        assert service.stop()
        assert service._pipeline_thread.is_alive()
    finally:
        compiled.set()
        joined(service._pipeline_thread)


class Busy:
    """A thread that ends at a time of the clock; waiting for it turns the clock."""

    ident = 1

    def __init__(self, clock: ManualClock, until: float = math.inf) -> None:
        self._clock = clock
        self._until = until

    def is_alive(self) -> bool:
        return self._clock.monotonic() < self._until

    def join(self, seconds: float) -> None:
        self._clock.advance(max(0.0, min(seconds, self._until - self._clock.monotonic())))


@pytest.mark.parametrize(
    ("stuck", "said"),
    [
        ("pipeline", ["the pipeline did not end in time; what it has not saved is read again at the next start"]),
        ("refit", ["a refit could not be released in time; it starts again when its lease has expired"]),
        ("evaluation", []),
    ],
)
def test_what_does_not_end_is_waited_for_ten_seconds_at_the_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stuck: str, said: list[str]
) -> None:
    clock = ManualClock(START_MS)
    service = Service(settings(tmp_path), clock)
    service._warm.set()
    over = threading.Thread(target=int)
    over.start()
    joined(over)
    for name in ("pipeline", "evaluation"):
        monkeypatch.setattr(service, f"_{name}_thread", Busy(clock) if name == stuck else over)
    if stuck == "refit":
        monkeypatch.setattr(service.recalibration.runner, "_threads", [Busy(clock)])
    try:
        with structlog.testing.capture_logs() as logged:
            assert service.stop() is (said == [])
    finally:
        service.store.close()
    assert [line["event"] for line in logged if line["log_level"] == "error"] == said
    assert 0.0 < clock.monotonic() <= 10.0


def test_a_refit_is_released_after_the_pipeline_has_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock(START_MS)
    service = Service(settings(tmp_path), clock)
    service._warm.set()
    # The last checkpoint holds SQLite's lock for five seconds, and the refit needs it.
    monkeypatch.setattr(service, "_pipeline_thread", Busy(clock, 5.0))
    monkeypatch.setattr(service.recalibration.runner, "_threads", [Busy(clock, 6.0)])
    assert service.stop()


def test_an_event_may_be_posted(tmp_path: Path, run: Running) -> None:
    service = run(settings(tmp_path))
    eventually(lambda: service.status.ready)
    event = {"type": "prediction", "model": "m", "id": "1", "ts": "2026-11-20T10:00:00Z", "p": 0.5}
    request = urllib.request.Request(
        f"{service.server.url}/v1/events",
        json.dumps(event).encode(),
        {"content-type": "application/json"},
        method="POST",
    )
    with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as answer:
        assert answer.status == 202
    eventually(lambda: service.status.counters.get(("prediction", "accepted")) == 1)


def test_a_second_service_waits_for_the_log(tmp_path: Path, run: Running) -> None:
    first = run(settings(tmp_path))
    eventually(lambda: first.status.ready)
    second = run(settings(tmp_path))
    eventually(lambda: second.status.phase is Phase.SOURCE_UNAVAILABLE)
    assert "another process reads" in get(second, "/readyz")[1]["detail"]
    assert first.stop()
    eventually(lambda: second.status.ready)


def test_nobody_may_ask_until_there_is_a_key(tmp_path: Path, run: Running) -> None:
    with structlog.testing.capture_logs() as logged:
        service = run(settings(tmp_path, access={}))
    assert [line for line in logged if "monitor keys create" in line["event"]]
    assert get(service, "/healthz")[0] == 200
    for path in ("/v1/models", "/metrics", "/v1/audit"):
        status, problem = get(service, path)
        assert (status, problem["type"].rsplit(":")[-1]) == (401, "unauthenticated")
    # As `monitor keys create` does it, beside the running service.
    new = make_key()
    key = StoredKey(new.key_id, "prometheus", new.digest, parse_grants(["read"]), created_ms=0)
    ApiKeys(service.store.database).add_key(key, actor="cli:tests")
    asked = urllib.request.Request(f"{service.server.url}/metrics", headers={"authorization": f"Bearer {new.text}"})
    with urllib.request.urlopen(asked, timeout=PATIENCE_SECONDS) as answer:
        text = answer.read().decode()
    assert 'calibration_access_refusals_total{reason="missing"} 3.0' in text
    assert 'calibration_http_requests_total{method="GET",route="/v1/audit",status="401"} 1.0' in text


def test_access_control_is_off_on_this_machine_alone(tmp_path: Path) -> None:
    loopback = settings(tmp_path, access={}, api={"host": "0.0.0.0", "port": 0})
    assert loopback.access.mode == "required"
    with pytest.raises(ValueError, match=r"access\.mode must be required where api\.host is 0\.0\.0\.0"):
        settings(tmp_path, api={"host": "0.0.0.0", "port": 0})
