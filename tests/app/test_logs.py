"""Every line parses, has its fields and tells no secret, whatever is written and whoever writes it."""

import io
import json
import logging
import math
import threading
import urllib.error
import urllib.request
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest
import structlog
import yaml

from monitor.app.checks import Surroundings, run_checks
from monitor.app.logs import configure_logs, log_uncaught_errors, secrets_of
from monitor.app.service import Service
from monitor.app.settings import Settings, load_settings
from monitor.app.settings.document import effective
from monitor.clock import ManualClock, SystemClock
from monitor.events.model import Reason
from monitor.stream.dead_letter_log import DeadLetterLog
from tests.cli.command import inside
from tests.patience import PATIENCE_SECONDS, eventually, joined
from tests.real.child import free_ports
from tests.real.postgres import PASSWORD, PostgresServer
from tests.store.samples import letter

CANARY = "canary-S3cret/%+\"'"
KEY = "cmk_0123456789ab_" + "k" * 43
TOKEN = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJjYW5hcnkifQ.c2lnbmF0dXJl"

Written = Callable[[], list[dict[str, Any]]]


def strict(line: str) -> dict[str, Any]:
    """A line as any parser of JSON reads it: Python's own would take NaN."""

    def refuse(constant: str) -> NoReturn:
        raise AssertionError(constant)

    found: dict[str, Any] = json.loads(line, parse_constant=refuse)
    return found


@pytest.fixture
def stream() -> io.StringIO:
    """Where logs are written to."""
    return io.StringIO()


@pytest.fixture
def written(stream: io.StringIO) -> Written:
    configure_logs("info", "json", stream=stream, instance="replica-1", secrets=[CANARY])
    return lambda: [strict(line) for line in stream.getvalue().splitlines()]


def test_whatever_is_written_is_one_object_a_line_with_the_same_fields_in_front(written: Written) -> None:
    log = structlog.get_logger("monitor.test")
    log.info("plain", partition=3)
    log.warning("line\nbreak and \x1b[31m colour", text="\ud800 half a character", data=b"\xff\n")
    log.info("numbers", nan=math.nan, infinite=[math.inf, -math.inf], nested={"a": {1: math.nan}}, path=Path("/x"))
    log.info("circle", clock=ManualClock(), keys={("a", 1): 2})
    logging.getLogger("kafka.conn").warning("of a library, with %s", "an argument")
    logging.getLogger("uvicorn.error").error("of another\n%d", 7)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("of Python", stacklevel=1)
    try:
        int("two\nlines")
    except ValueError:
        log.exception("failed")
        logging.getLogger("other").exception("failed elsewhere")
    lines = written()
    assert len(lines) == 9
    for line in lines:
        assert list(line)[:5] == ["timestamp", "level", "logger", "event", "instance"]
        assert line["instance"] == "replica-1"
        assert line["timestamp"].endswith("Z")
    assert lines[1]["event"] == "line\nbreak and \x1b[31m colour"
    assert lines[2]["nan"] == "nan"
    assert lines[-2]["exception"][0]["exc_value"].endswith(r"'two\nlines'")
    assert "locals" not in json.dumps(lines[-2])


def test_what_nobody_caught_is_a_line_too(written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.excepthook", None)
    monkeypatch.setattr("threading.excepthook", None)
    log_uncaught_errors()

    def fail() -> None:
        raise RuntimeError("nobody catches it")

    thread = threading.Thread(target=fail, name="worker")
    thread.start()
    joined(thread)
    (line,) = written()
    assert line["thread"] == "worker"
    assert line["exception"][0]["exc_value"] == "nobody catches it"


def test_a_secret_is_hidden_wherever_it_comes_from(written: Written, stream: io.StringIO) -> None:
    log = structlog.get_logger("monitor.test")
    log.info(CANARY, password=CANARY, nested={"of": [CANARY]}, key=KEY, token=f"Bearer {TOKEN}")
    logging.getLogger("kafka").error("cannot log in with %r", CANARY)
    try:
        Path(CANARY).read_text()
    except OSError:
        log.exception("failed")
    assert len(written()) == 3
    text = stream.getvalue()
    for secret in (CANARY, json.dumps(CANARY)[1:-1], KEY, TOKEN):
        assert secret not in text
    assert text.count("***") >= 6


def test_a_short_secret_does_not_mangle_the_line(stream: io.StringIO) -> None:
    configure_logs("info", "json", stream=stream, secrets=["e", "é"])
    structlog.get_logger("monitor.test").info("the broker refuses café", user="reader")
    line = strict(stream.getvalue())
    assert (line["event"], line["user"]) == ("the broker refuses café", "reader")


def test_places_in_memory_are_not_written(written: Written) -> None:
    logging.getLogger("asyncio").error("Unhandled exception in task %s:", object())
    logging.getLogger("kafka.net.selector").error("Unhandled exception in task %s:", object())
    first, second = written()
    assert first["event"] == "Unhandled exception in task <object object>:"
    assert second["detail"] == "kafka.net.selector: Unhandled exception in task <object object>:"


def test_a_logger_that_was_used_before_writes_where_it_is_told_to(stream: io.StringIO) -> None:
    log = structlog.get_logger("monitor.early")
    first = io.StringIO()
    configure_logs("info", "json", stream=first)
    log.info("one")
    configure_logs("info", "json", stream=stream)
    log.info("two")
    assert [json.loads(out.getvalue())["event"] for out in (first, stream)] == ["one", "two"]


def test_dead_letters_are_one_line_a_minute_with_where_the_first_stands(written: Written) -> None:
    clock = ManualClock()
    told = DeadLetterLog(structlog.get_logger("monitor.test"), clock)
    for offset in range(100):
        told.note([letter(offset), letter(offset, reason=Reason.INVALID_OUTCOME)])
        clock.advance(1)
    told.note([])
    first, second = written()
    assert (first["letters"], first["topic"], first["partition"], first["offset"]) == (2, "predictions", 0, 0)
    assert second["letters"] == 120
    assert second["offset"] == 1
    assert second["reasons"] == {"not_json": 60, "invalid_outcome": 60}


def canary_settings(folder: Path, url: str) -> Settings:
    tree = {
        "source": {
            "kind": "kafka",
            "kafka": {
                "bootstrap_servers": [f"127.0.0.1:{free_ports(1)[0]}"],
                "security_protocol": "SASL_PLAINTEXT",
                "sasl_mechanism": "PLAIN",
                "sasl_plain_username": "reader",
                "sasl_plain_password": CANARY,
                "ssl_password": f"{CANARY}2",
                "connect_timeout": "1s",
            },
        },
        "store": {"url": url},
        "api": {"port": 0},
        "log": {"level": "debug", "format": "json"},
    }
    (folder / "monitor.yaml").write_text(yaml.safe_dump(tree), encoding="utf-8")
    return load_settings(folder / "monitor.yaml", {})


@pytest.mark.postgres
def test_no_secret_leaves_the_service_by_any_way(
    tmp_path: Path, stream: io.StringIO, postgres_server: PostgresServer, patient: None
) -> None:
    url = postgres_server.url(postgres_server.new_database())
    chosen = canary_settings(tmp_path, url)
    secrets = secrets_of(chosen)
    assert {CANARY, f"{CANARY}2", PASSWORD} <= set(secrets)
    # Without what would hide them: they must not come as far.
    configure_logs("debug", "json", stream=stream)
    said = [effective(chosen), repr(chosen), str(chosen), inside("config", cwd=tmp_path).stdout]
    said += [repr(list(run_checks(Surroundings(chosen, tmp_path / "monitor.yaml"))))]
    key = inside("keys", "create", "ada", "--role", "read", cwd=tmp_path).stdout.strip()
    assert key.startswith("cmk_")
    configure_logs("debug", "json", stream=stream)
    service = Service(chosen, clock=SystemClock())
    service.start()
    try:
        eventually(lambda: "the source does not answer" in stream.getvalue(), shown=stream.getvalue)
        for credential in ("", f"Bearer {key}", f"Bearer {KEY}", f"Bearer {TOKEN}", f"Basic {KEY}"):
            for path in (
                "/readyz",
                "/metrics",
                "/v1/models",
                f"/v1/models/{KEY}/report",
                f"/v1/models?x={KEY}",
                "/docs",
            ):
                said.append(ask(f"{service.server.url}{path}", {"authorization": credential} if credential else {}))
    finally:
        service.stop()
    lines = [strict(line) for line in stream.getvalue().splitlines()]
    assert any(line["event"] == "the source does not answer" for line in lines)
    assert all(list(line)[:5] == ["timestamp", "level", "logger", "event", "instance"] for line in lines)
    for secret in (*secrets, key, TOKEN):
        assert secret not in stream.getvalue(), secret
        # What a caller sends along in a path or a query is repeated to nobody but that caller.
        assert not [text for text in said if secret in text], secret
    assert KEY not in stream.getvalue()


def ask(url: str, headers: dict[str, str]) -> str:
    """Headers and body."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=PATIENCE_SECONDS) as answer:
            return f"{answer.headers}{answer.read().decode()}"
    except urllib.error.HTTPError as error:
        with error:
            return f"{error.headers}{error.read().decode()}"
