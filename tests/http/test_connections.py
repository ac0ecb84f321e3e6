"""How many connections an address may hold, over real sockets, and how those that are held idly come to an end."""

import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import anyio
import httpx
import pytest
import structlog
from starlette.types import Receive, Scope, Send

from monitor.app.service import Service as WholeService
from monitor.app.settings import Settings
from monitor.clock import ManualClock
from monitor.http.connections import Connections
from monitor.http.request_log import RefusedRequests
from monitor.http.server import ApiServer
from monitor.http.tls import Certificate
from tests.http.service import Service
from tests.http.test_tls import AUTHORITY, issue
from tests.patience import PATIENCE_SECONDS, eventually

ONE, ANOTHER = "127.0.0.1", "127.0.0.2"
ASK = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"


def connect(server: ApiServer, address: str = ONE) -> socket.socket:
    return socket.create_connection((ONE, server.port), timeout=PATIENCE_SECONDS, source_address=(address, 0))


def is_answered(caller: socket.socket) -> bool:
    """Whether a request on this connection has an answer; else it was closed."""
    answer = b""
    try:
        caller.sendall(ASK)
        while not answer.endswith(b"}"):
            more = caller.recv(65_536)
            if not more:
                break
            answer += more
    except ConnectionError:
        return False
    assert answer == b"" or answer.startswith(b"HTTP/1.1 200")
    return answer != b""


@contextmanager
def serving(
    connections: Connections, *, seconds: float = PATIENCE_SECONDS, certificate: Certificate | None = None
) -> Iterator[ApiServer]:
    server = ApiServer(
        Service().app(), port=0, connections=connections, header_seconds=seconds, certificate=certificate
    )
    # Whoever pauses between two requests because the machine is slow is no less alive.
    server._server.config.timeout_keep_alive = round(PATIENCE_SECONDS)
    with server:
        yield server


# How many.


def test_an_address_may_hold_as_many_as_it_leaves_free() -> None:
    refused = RefusedRequests(ManualClock(0))
    connections = Connections(8, refused)
    held = {host: sum(connections.acquire(host) is not None for _ in range(20)) for host in ("a", "b", "c", "d", "e")}
    assert held == {"a": 4, "b": 2, "c": 1, "d": 1, "e": 0}
    assert connections.total == 8
    assert refused.counts["connections"] == 100 - 8
    for _ in range(4):
        connections.release("a")
    # What was let in stays, and what is free is shared anew.
    assert sum(connections.acquire("b") is not None for _ in range(20)) == 1
    assert sum(connections.acquire("e") is not None for _ in range(20)) == 2


def test_what_has_ended_leaves_nothing_behind() -> None:
    connections = Connections(8)
    for number in range(1000):
        origin = connections.acquire(f"2001:db8:1{number:03x}::1")
        assert origin == f"2001:db8:1{number:03x}::/64"
        connections.release(origin)
        for _ in range(9):
            connections.acquire("192.0.2.1")
        for _ in range(4):
            connections.release("192.0.2.1")
    assert connections.total == 0
    assert not connections._open._held


@pytest.mark.parametrize("most", range(1, 9))
def test_there_are_never_more_than_the_most_and_one_alone_gets_in(most: int) -> None:
    connections = Connections(most)
    assert connections.acquire("a") is not None
    for number in range(100):
        connections.acquire(f"192.0.2.{number}")
        connections.acquire("a")
    assert connections.total == most


def test_who_holds_many_keeps_nobody_else_out(caplog: pytest.LogCaptureFixture) -> None:
    refused = RefusedRequests(ManualClock(0))
    connections = Connections(16, refused)
    with ExitStack() as stack, structlog.testing.capture_logs() as logs:
        server = stack.enter_context(serving(connections))
        kept = stack.enter_context(connect(server))
        assert is_answered(kept)
        # With the one before, they are half of all.
        held = [stack.enter_context(connect(server)) for _ in range(40)]
        eventually(lambda: refused.counts["connections"] == 33)
        assert connections.total == 8
        for _ in range(50):
            with connect(server, ANOTHER) as caller:
                assert is_answered(caller)
        # Nothing is taken from those that are in, and one more is refused.
        assert is_answered(kept)
        with connect(server) as further:
            assert not is_answered(further)
        assert sum(is_answered(each) for each in held) == 7
        for each in (kept, *held):
            each.close()
        eventually(lambda: connections.total == 0)
        with connect(server) as caller:
            assert is_answered(caller)
    lines = [line for line in logs if line["log_level"] != "debug"]
    assert [(line["event"], line.get("reason"), line.get("last_address")) for line in lines] == [
        ("listening", None, None),
        # Of all those, one.
        ("requests refused", "connections", ONE),
    ]
    assert not caplog.records


def test_a_probe_gets_in_beside_several_who_hold_all_they_can() -> None:
    connections = Connections(64)
    with ExitStack() as stack:
        server = stack.enter_context(serving(connections))
        for last in range(3, 7):
            for _ in range(64):
                stack.enter_context(connect(server, f"127.0.0.{last}"))
            shares = 64 - (64 >> (last - 2))
            eventually(lambda shares=shares: connections.total == shares)  # type: ignore[misc]
        with connect(server, ANOTHER) as caller:
            assert is_answered(caller)


def test_clients_that_come_again_and_again_are_not_hurt() -> None:
    refused = RefusedRequests(ManualClock(0))
    connections = Connections(4, refused)
    with serving(connections) as server, httpx.Client(base_url=server.url, timeout=PATIENCE_SECONDS) as client:
        for _ in range(200):
            assert client.get("/healthz").status_code == 200
        assert connections.total == 1
        for _ in range(50):
            # Each on a connection of its own, whose end it waits for.
            with connect(server) as caller:
                assert is_answered(caller)
            eventually(lambda: connections.total == 1, pause_seconds=0.001)
    assert refused.counts["connections"] == 0


def test_over_https_they_are_counted_too(tmp_path: Path) -> None:
    context = ssl.create_default_context()
    AUTHORITY.configure_trust(context)
    connections = Connections(4)

    def is_answered_over_https(address: str) -> bool:
        with connect(server, address) as plain:
            try:
                with context.wrap_socket(plain, server_hostname=ONE) as caller:
                    return is_answered(caller)
            except (ConnectionError, ssl.SSLError):
                return False

    with ExitStack() as stack:
        server = stack.enter_context(serving(connections, certificate=Certificate(*issue(tmp_path))))
        for number in (1, 2):
            stack.enter_context(context.wrap_socket(connect(server), server_hostname=ONE))
            eventually(lambda number=number: connections.total == number)  # type: ignore[misc]
        assert not is_answered_over_https(ONE)
        assert is_answered_over_https(ANOTHER)


def test_the_setting_is_heeded_and_refusals_are_a_series(tmp_path: Path) -> None:
    settings = {
        "source": {"embedded": {"directory": str(tmp_path / "log")}},
        "store": {"url": f"sqlite:///{tmp_path / 'state.db'}"},
        "api": {"port": 0, "max_connections": 10},
        "access": {"mode": "off"},
    }
    whole = WholeService(Settings.model_validate(settings), ManualClock(0))
    try:
        with whole.server as server, ExitStack() as stack:
            for _ in range(9):
                stack.enter_context(connect(server))
            with httpx.Client(transport=httpx.HTTPTransport(local_address=ANOTHER), base_url=server.url) as scraper:

                def refused() -> bool:
                    text = scraper.get("/metrics", timeout=PATIENCE_SECONDS).text
                    return 'calibration_access_refusals_total{reason="connections"} 4.0' in text

                eventually(refused)
    finally:
        whole.store.close()


# How they end.


def test_those_that_say_nothing_are_let_go() -> None:
    connections = Connections(16)
    with ExitStack() as stack:
        server = stack.enter_context(serving(connections, seconds=0.2))
        held = [stack.enter_context(connect(server)) for _ in range(40)]
        for each in held:
            while each.recv(65_536):
                pass
        eventually(lambda: connections.total == 0)
        with connect(server) as caller:
            assert is_answered(caller)


def deaf(server: ApiServer) -> socket.socket:
    """A connection whose other end takes next to nothing of what is sent to it."""
    caller = socket.socket()
    caller.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    caller.settimeout(PATIENCE_SECONDS)
    caller.connect((ONE, server.port))
    return caller


def test_an_answer_that_nobody_takes_holds_no_connection() -> None:
    gone = threading.Event()

    async def endless(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(1024):
            await send({"type": "http.response.body", "body": bytes(65_536), "more_body": True})
        await send({"type": "http.response.body"})
        gone.set()

    connections = Connections(16)
    with ApiServer(endless, port=0, connections=connections, header_seconds=0.5) as server, deaf(server) as caller:
        caller.sendall(ASK)
        assert gone.wait(PATIENCE_SECONDS)
        eventually(lambda: connections.total == 0)


def test_answers_that_nobody_takes_are_let_go_with_the_requests_behind_them() -> None:
    connections = Connections(16)
    server = ApiServer(Service().app(), port=0, connections=connections, header_seconds=0.5)
    with server, deaf(server) as caller:
        # Together more than fits between the two.
        caller.sendall(b"GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n" * 60)
        # It was let in, and begins to be answered.
        assert caller.recv(1)
        eventually(lambda: connections.total == 0)


def test_whoever_leaves_while_one_of_several_requests_is_answered_is_no_fault_of_ours() -> None:
    entered, left, lost, ended = (threading.Event() for _ in range(4))
    faults: list[Exception] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        entered.set()
        try:
            await anyio.to_thread.run_sync(left.wait)
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"a", "more_body": True})
            await anyio.to_thread.run_sync(lost.wait)
            await send({"type": "http.response.body", "body": b"b"})
        except Exception as error:  # noqa: BLE001 - it is what is asked for
            faults.append(error)
        ended.set()

    connections = Connections(16)
    with ApiServer(app, port=0, connections=connections) as server:
        with connect(server) as caller:
            caller.sendall(ASK * 2)
            assert entered.wait(PATIENCE_SECONDS)
            # At once, and nothing more is taken.
            caller.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        left.set()
        eventually(lambda: connections.total == 0)
        lost.set()
        assert ended.wait(PATIENCE_SECONDS)
    assert faults == []
