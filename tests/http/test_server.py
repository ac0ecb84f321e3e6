import socket
import threading
import time
from collections.abc import Callable, Iterator

import httpx
import pytest

from monitor.errors import SettingsError
from monitor.http.server import ApiServer
from monitor.http.settings import ApiSettings
from monitor.reports.evaluation.evaluate import evaluate_binary as evaluate
from monitor.reports.evaluation.report import Report
from tests.http.service import Service, api_settings, assert_problem
from tests.patience import PATIENCE_SECONDS, eventually, joined
from tests.snapshots import report, snapshot


def get(url: str) -> httpx.Response:
    return httpx.get(url, timeout=PATIENCE_SECONDS)


def listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS).close()
    except ConnectionRefusedError:
        return False
    return True


def test_port_0_takes_a_free_one_and_says_which() -> None:
    service = Service()
    service.show(snapshot([report(window="24h")]))
    with ApiServer(service.app(), port=0) as server:
        assert server.port > 0
        assert server.url == f"http://127.0.0.1:{server.port}"
        answer = get(f"{server.url}/v1/models/churn/report")
        assert answer.json()["model"] == "churn"
        assert "server" not in answer.headers


def test_the_answer_to_head_has_no_body() -> None:
    requests = b"HEAD /healthz HTTP/1.1\r\nhost: localhost\r\n\r\nGET /healthz HTTP/1.0\r\n\r\n"
    with (
        ApiServer(Service().app(), port=0) as server,
        socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_SECONDS) as caller,
    ):
        caller.sendall(requests)
        answers = b"".join(iter(lambda: caller.recv(65_536), b""))
    _, head, get = answers.split(b"HTTP/1.1 ")
    assert head.partition(b"\r\n\r\n")[2] == b""
    assert get.partition(b"\r\n\r\n")[2] != b""


def test_after_the_stop_nothing_listens() -> None:
    server = ApiServer(Service().app(), port=0)
    server.start()
    server.stop()
    server.stop()
    with pytest.raises(httpx.ConnectError):
        get(f"{server.url}/healthz")
    assert not any(thread.name == "api" for thread in threading.enumerate())


def test_a_taken_port_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SettingsError, match=rf"api\.port: cannot listen on 127\.0\.0\.1:{port}: the port is taken"):
            ApiServer(Service().app(), port=port).start()


@pytest.mark.parametrize("host", ["no.such.host.invalid", "192.0.2.1"])
def test_an_address_of_elsewhere_is_named(host: str) -> None:
    with pytest.raises(SettingsError, match=host.replace(".", r"\.")):
        ApiServer(Service().app(), host=host, port=0).start()


def ask(server: ApiServer) -> httpx.Response:
    return httpx.post(f"{server.url}/v1/reports", json={"p": [0.5], "y": [1]}, timeout=PATIENCE_SECONDS)


def test_a_request_under_way_is_finished() -> None:
    entered = threading.Event()
    released = threading.Event()

    def slow(*args: object, **options: object) -> Report:
        entered.set()
        assert released.wait(PATIENCE_SECONDS)
        return evaluate(*args, **options)  # type: ignore[arg-type]

    service = Service(api=api_settings(request_timeout=PATIENCE_SECONDS))
    server = ApiServer(service.app(evaluate=slow), port=0, grace_seconds=PATIENCE_SECONDS)
    server.start()
    answers: list[httpx.Response] = []
    asking = threading.Thread(target=lambda: answers.append(ask(server)))
    asking.start()
    assert entered.wait(PATIENCE_SECONDS)
    stopping = threading.Thread(target=server.stop)
    stopping.start()
    # Nobody else is let in: the server stops.
    eventually(lambda: not listens(server.port))
    assert not answers
    released.set()
    joined(stopping, asking)
    assert answers[0].status_code == 200


def test_a_request_that_never_ends_does_not_hold_up_the_stop() -> None:
    released = threading.Event()
    entered = threading.Event()

    ended = threading.Event()
    failed: list[httpx.HTTPError] = []

    def endless(*_: object, **__: object) -> Report:
        entered.set()
        released.wait(PATIENCE_SECONDS)
        ended.set()
        raise RuntimeError("late")

    server = ApiServer(Service().app(evaluate=endless), port=0, grace_seconds=1)
    server.start()

    def fail() -> None:
        with pytest.raises(httpx.HTTPError) as failure:
            ask(server).raise_for_status()
        failed.append(failure.value)

    asking = threading.Thread(target=fail)
    asking.start()
    assert entered.wait(PATIENCE_SECONDS)
    server.stop()
    # It has stopped, while the request goes on.
    assert not ended.is_set()
    eventually(lambda: not listens(server.port))
    released.set()
    joined(asking)
    assert len(failed) == 1


def test_a_large_body_is_refused_over_the_wire() -> None:
    service = Service(api=ApiSettings(max_report_bytes=1_000_000))
    with ApiServer(service.app(), port=0) as server, httpx.Client(timeout=PATIENCE_SECONDS) as client:
        reports = f"{server.url}/v1/reports"
        body = b'{"p": [' + b"0.5," * 1_000_000
        headers = {"content-type": "application/json"}
        assert_problem(client.post(reports, content=body, headers=headers), 413, "1000000 bytes")

        def chunks() -> Iterator[bytes]:
            for _ in range(400):
                yield b"0.5," * 10_000

        assert_problem(client.post(reports, content=chunks(), headers=headers), 413, "1000000 bytes")
        assert get(f"{server.url}/healthz").status_code == 200


@pytest.mark.parametrize("connection", [b"keep-alive", b"close"])
@pytest.mark.parametrize(("path", "status"), [(b"/v1/events", b"413"), (b"/nowhere", b"404")])
def test_whoever_sends_the_whole_body_first_reads_the_answer(connection: bytes, path: bytes, status: bytes) -> None:
    with (
        ApiServer(Service().app(), port=0) as server,
        socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_SECONDS) as raw,
    ):
        raw.sendall(
            b"POST %b HTTP/1.1\r\nhost: a\r\nconnection: %b\r\ncontent-type: application/json\r\n"
            b"content-length: %d\r\n\r\n" % (path, connection, 20 << 20)
        )
        for _ in range(20):
            raw.sendall(bytes(1 << 20))
        assert raw.recv(65_536).startswith(b"HTTP/1.1 " + status)


def test_the_rest_of_a_refused_body_is_waited_for_no_longer_than_the_limit() -> None:
    with ApiServer(Service(api=api_settings(body_timeout=0.1)).app(), port=0) as server:
        head = b"POST /nowhere HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: 100\r\n\r\n"
        assert spoken(server.port, head).startswith(b"HTTP/1.1 404")


def test_head_over_the_wire() -> None:
    with ApiServer(Service().app(), port=0) as server, httpx.Client(timeout=PATIENCE_SECONDS) as client:
        head = client.head(f"{server.url}/healthz")
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["content-length"] == client.get(f"{server.url}/healthz").headers["content-length"]


def test_broken_http_ends_no_server() -> None:
    with ApiServer(Service().app(), port=0) as server:
        with socket.create_connection(("127.0.0.1", server.port)) as raw:
            raw.sendall(b"NOT HTTP\r\n\r\n")
            raw.recv(1000)
        with socket.create_connection(("127.0.0.1", server.port)) as raw:
            raw.sendall(b"POST /v1/reports HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n")
            raw.sendall(b"content-length: 100\r\n\r\n{")
        assert get(f"{server.url}/healthz").status_code == 200


def test_ipv6_stands_in_brackets() -> None:
    assert ApiServer(Service().app(), host="::1", port=80).url == "http://[::1]:80"
    assert ApiServer(Service().app(), host="0.0.0.0", port=80).url == "http://localhost:80"


def spoken(port: int, *pieces: bytes) -> bytes:
    """All that the server answers to these pieces, until it closes the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS) as raw:
        answer = b""
        try:
            for piece in pieces:
                raw.sendall(piece)
            while more := raw.recv(65_536):
                answer += more
        except ConnectionError:
            pass  # it was closed while more was sent
        return answer


def test_headers_have_a_limit() -> None:
    with ApiServer(Service().app(), port=0, max_header_bytes=8192) as server:
        head = b"GET /healthz HTTP/1.1\r\nhost: a\r\nconnection: close\r\n"
        fits = head + b"x-filler: " + b"x" * 7_000 + b"\r\n\r\n"
        assert spoken(server.port, fits).startswith(b"HTTP/1.1 200")
        # In one piece, in one header that never ends, in many headers, and in the address.
        for pieces in (
            (head + b"x-filler: " + b"x" * 9_000 + b"\r\n\r\n",),
            (head + b"x-filler: ", *[b"x" * 4_000] * 50),
            (head, *[b"x-filler: xxxxxxxxxxxxxxxx\r\n" * 100] * 20),
            (b"GET /healthz?" + b"x" * 9_000 + b" HTTP/1.1\r\nhost: a\r\n\r\n",),
        ):
            answer = spoken(server.port, *pieces)
            assert answer == b"" or answer.startswith((b"HTTP/1.1 400", b"HTTP/1.1 431")), answer[:80]
        # Bodies have limits of their own.
        body = b'{"p": [0.5], "y": [1], "model": "' + b"x" * 20_000 + b'"}'
        posted = b"POST /v1/reports HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-type: application/json\r\n"
        answer = spoken(server.port, posted + b"content-length: %d\r\n\r\n" % len(body) + body)
        assert answer.startswith(b"HTTP/1.1 200"), answer[:200]
        # And each request of a connection begins anew.
        kept = head.replace(b"connection: close\r\n", b"x: " + b"x" * 5_000 + b"\r\n") + b"\r\n"
        assert spoken(server.port, kept, kept, kept, fits).count(b"HTTP/1.1 200") == 4


# Limits of a fraction of a second: a machine that is slower than one of them hits it, and the same is tried again.


def test_headers_that_do_not_come_are_waited_for_no_longer_than_the_limit() -> None:
    with ApiServer(Service().app(), port=0, header_seconds=0.1) as server:
        assert spoken(server.port).startswith(b"HTTP/1.1 408")
        assert spoken(server.port, b"GET /healthz HTTP/1.1\r\nhost: a\r\n").startswith(b"HTTP/1.1 408")
        first = b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n"

        def both() -> bool:
            answers = spoken(server.port, first + b"GET /healthz HTTP/1.1\r\n")
            return answers.startswith(b"HTTP/1.1 200") and answers.endswith(b"content-length: 0\r\n\r\n")

        eventually(both)
        eventually(lambda: get(f"{server.url}/healthz").status_code == 200)


@pytest.mark.parametrize("more", [b"a", b"a" * 100, b""], ids=["begun body", "whole body", "no body"])
def test_a_body_that_was_answered_unread_holds_no_connection(more: bytes) -> None:
    def is_let_go() -> bool:
        with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_SECONDS) as caller:
            # Answered at once: there is no such route.
            caller.sendall(b"POST /nowhere HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n")
            if not caller.recv(65536).startswith(b"HTTP/1.1 404"):
                return False
            caller.sendall(more or b"\r\n")
            while caller.recv(65536):
                pass
            return True

    with ApiServer(Service().app(), port=0, header_seconds=0.2) as server:
        eventually(lambda: unless_closed(is_let_go))


def test_requests_one_after_another_are_answered_beyond_the_limit_of_one() -> None:
    def are_answered() -> bool:
        with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_SECONDS) as caller:
            for _ in range(8):
                caller.sendall(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
                answer = b""
                while not answer.endswith(b"}"):
                    more = caller.recv(65536)
                    if not more:
                        return False
                    answer += more
                assert answer.startswith(b"HTTP/1.1 200")
                time.sleep(0.1)
            return True

    with ApiServer(Service().app(), port=0, header_seconds=0.4) as server:
        eventually(lambda: unless_closed(are_answered))


def unless_closed(speak: Callable[[], bool]) -> bool:
    """What was found; False where the connection was closed while something was said."""
    try:
        return speak()
    except ConnectionError:
        return False


def test_localhost_that_is_no_loopback_address_is_not_listened_on(monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.1", 0))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: elsewhere)
    with pytest.raises(SettingsError, match=r"api\.host localhost is 192\.0\.2\.1 on this machine"):
        ApiServer(Service().app(), "localhost", 0).start()


def test_a_patience_beyond_what_the_system_takes_is_the_longest_it_takes() -> None:
    with ApiServer(Service().app(), port=0, header_seconds=100.0 * 366 * 86_400) as server:
        assert get(f"{server.url}/healthz").status_code == 200
