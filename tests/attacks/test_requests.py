"""Oversized, malformed, hostile and slow requests to a real service, with bounds on its memory and on time.

Limits of single connections are tested in ``tests/http/test_connections.py`` and ``tests/http/test_server.py``.
"""

import http.client
import json
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from typing import Final

import pytest

from tests.attacks.service import MIB, Attacked
from tests.cli.command import inside
from tests.patience import PATIENCE_SECONDS

_BODY_BYTES: Final = 4 * MIB
_MAX_EVENTS: Final = 50_000
_MAX_RISE_MIB: Final = 64
_MAX_SECONDS: Final = 20.0
"""Far more than any request takes (a second), and about as long as one took that filled the memory."""

_SLOW: Final = 100
_HELD_MIB: Final = 128
"""What one caller may make the service hold of bodies that are not complete."""

JSON, LINES = "application/json", "application/x-ndjson"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    """One service for all tests here; it takes one model in its one partition."""
    source = {"embedded": {"directory": "log", "partitions": 1}}
    folder = tmp_path_factory.mktemp("service")
    with Attacked(folder, source=source, caps={"models": 1, "versions": 2}, api={"body_timeout": "3s"}) as started:
        started.ready()
        yield started


def event(model: str, at: int, **more: str) -> bytes:
    return json.dumps(
        {"type": "prediction", "model": model, "id": at, "ts": time.time_ns() // 1_000_000, "p": 0.5, **more}
    ).encode()


def test_a_model_beyond_the_cap_is_refused_everywhere(service: Attacked) -> None:
    # No partition is full yet when they come.
    assert service.ask("/v1/events", event("m", 1) + b"\n" + event("n", 2), LINES)[0] == 202
    service.eventually(lambda: service.counted().get(("prediction", "refused")) == 1, service.counted)
    reason = "model 'n' is one more than may live in a partition undeclared (caps.models)"
    status, answer = service.ask("/v1/events", event("n", 3))
    assert (status, json.loads(answer)["errors"][0]["reason"]) == (422, "refused_model")
    assert reason in json.loads(answer)["errors"][0]["detail"]
    assert service.ask("/v1/events", event("m", 3))[0] == 202
    (line,) = [line for line in service.log() if line["event"].startswith("events of models that are refused")]
    assert (line["events"], line["detail"].startswith(reason)) == (1, True)
    service.eventually(lambda: reason in inside("check", "--only", "store", cwd=service.folder).stdout)
    listed = inside("dead-letters", "list", "--reason", "refused_model", cwd=service.folder).stdout
    assert reason in listed


def test_invented_versions_are_folded_and_everything_says_so(service: Attacked) -> None:
    lines = b"\n".join(event("m", 10 + at, version=str(at)) for at in range(4))
    assert service.ask("/v1/events", lines, LINES)[0] == 202
    cap = frozenset({("cap", "versions"), ("model", "m"), ("segment_key", "")})
    service.eventually(lambda: ("calibration_folded_predictions_total", cap) in service.samples())
    shown = service.samples()
    assert (shown["calibration_folded_predictions_total", cap], shown["calibration_cap_used_ratio", cap]) == (3, 1)
    warning = "3 predictions count as `other`: 2 of at most 2 versions live in a partition; raise caps.versions"

    def warned() -> str | None:
        caps = [cap for model in service.get("/v1/models")[1]["models"] for cap in model["caps"] if cap["folded"]]
        return caps[0]["warning"] if caps else None

    assert (service.eventually(warned) or "").startswith(warning)
    said = inside("check", "--only", "store", cwd=service.folder).stdout
    assert f"m: {warning}" in said
    assert "1 of at most 1 undeclared models live in a partition; events of further ones are refused" in said


def filled(unit: bytes, first: bytes = b"", last: bytes = b"") -> bytes:
    """As many units as a body may have."""
    return first + unit * ((_BODY_BYTES - len(first) - len(last)) // len(unit)) + last


def test_no_request_fills_the_memory(service: Attacked) -> None:
    events = b"\n".join(event("m", at) for at in range(_MAX_EVENTS)).replace(b'": ', b'":').replace(b", ", b",")
    bodies: list[tuple[str, bytes, str, int]] = [
        ("numbers", filled(b"1,", b"[", b"1]"), JSON, 413),
        ("objects", filled(b"{},", b"[", b"{}]"), JSON, 413),
        ("bad lines", filled(b"x\n"), LINES, 413),
        ("objects in lines", filled(b"{}\n"), LINES, 413),
        ("empty lines", filled(b"\n", b"x"), LINES, 422),
        ("one deep array", filled(b"["), JSON, 422),
        ("one wide event", filled(b"[],", b"[[", b"[]]]"), JSON, 422),
        ("one number", filled(b"1"), JSON, 422),
        ("long vectors", b"[" + b",".join([b'{"p":[' + b"0," * 500_000 + b"0]}"] * 4) + b"]", JSON, 422),
        ("as many bad events as may be", b"[" + b"1," * (_MAX_EVENTS - 1) + b"1]", JSON, 422),
        ("as many good ones", events, LINES, 202),
    ]
    for name, body, media, expected in bodies:
        assert len(body) <= _BODY_BYTES
        for at_once in (1, 4):
            before, began = service.memory_mib(), time.monotonic()
            with ThreadPoolExecutor(at_once) as callers:
                statuses = callers.map(lambda _: service.ask("/v1/events", body, media)[0], range(at_once))  # noqa: B023
            assert set(statuses) == {expected}, name
            assert time.monotonic() - began < _MAX_SECONDS, name
            assert service.peak_mib() - before < at_once * _MAX_RISE_MIB, (name, at_once)
    assert service.readiness()[0] == 200


@pytest.mark.parametrize(("path", "size"), [("/v1/events", 5 * MIB), ("/v1/reports", 40 * MIB)])
def test_an_oversized_body_is_answered(service: Attacked, path: str, size: int) -> None:
    before = service.memory_mib()
    for _ in range(3):
        status, answer = service.ask(path, bytes(size))
        assert (status, json.loads(answer)["type"].rpartition(":")[2]) == (413, "body-too-large")
    assert service.peak_mib() - before < _MAX_RISE_MIB


@pytest.mark.parametrize(
    "head",
    [
        b"content-length: -1\r\n",
        b"content-length: 99999999999999999999\r\n",
        b"content-length: 5\r\ntransfer-encoding: chunked\r\n",
        b"transfer-encoding: chunked\r\n\r\nffffffffffffffff\r\n",
        b"transfer-encoding: chunked\r\n\r\n-1\r\n",
        b"content-type: \0\r\n",
        b"x: " + b"x" * MIB + b"\r\n",
    ],
)
def test_a_malformed_request_is_refused(service: Attacked, head: bytes) -> None:
    address = ("127.0.0.1", int(service.url.rpartition(":")[2]))
    answer = b""
    with socket.create_connection(address, timeout=PATIENCE_SECONDS) as raw, suppress(ConnectionError):
        raw.sendall(b"POST /v1/events HTTP/1.1\r\nhost: localhost\r\n" + head + b"\r\n{}")
        answer = raw.recv(65_536)
    assert answer == b"" or answer.startswith(b"HTTP/1.1 4"), answer[:200]
    assert service.readiness()[0] == 200


def test_slow_requests_fill_no_memory_and_keep_nobody_out(service: Attacked) -> None:
    port = int(service.url.rpartition(":")[2])
    post = b"POST /v1/events HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    before = service.memory_mib()
    with ExitStack() as stack:
        slow = [
            stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS))
            for _ in range(3 * _SLOW)
        ]
        # A third sends nothing, a third a part of its headers, and a third a part of its body.
        for raw in slow[_SLOW:]:
            raw.sendall(post)
        for raw in slow[2 * _SLOW :]:
            with suppress(ConnectionError):
                raw.sendall(b"content-length: %d\r\n\r\n" % _BODY_BYTES)
                raw.sendall(bytes(3 * MIB))
        other = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS, source_address=("127.0.0.2", 0))
        for at in range(10):
            began = time.monotonic()
            other.request("POST", "/v1/events", event("m", at), {"content-type": JSON})
            answer = other.getresponse()
            answer.read()
            assert answer.status == 202
            assert time.monotonic() - began < _MAX_SECONDS
        other.close()
        assert service.peak_mib() - before < _HELD_MIB + _MAX_RISE_MIB
        statuses = set()
        for raw in slow:
            answered = b""
            with suppress(ConnectionError):
                while more := raw.recv(65_536):
                    answered += more
            statuses.add(answered[9:12])
    assert statuses <= {b"", b"408", b"503"}
    assert b"408" in statuses
