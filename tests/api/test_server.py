import socket
import threading
import time
from collections.abc import Iterator

import httpx
import pytest

from monitor.api.parts import Limits
from monitor.api.server import ApiServer
from monitor.errors import SettingsError
from monitor.evaluation.data import evaluate
from monitor.evaluation.report import Report
from tests.api.service import Service, assert_problem
from tests.snapshots import report, snapshot


def test_port_0_takes_a_free_one_and_says_which() -> None:
    service = Service()
    service.show(snapshot([report(window="24h")]))
    with ApiServer(service.app(), port=0) as server:
        assert server.port > 0
        assert server.url == f"http://127.0.0.1:{server.port}"
        answer = httpx.get(f"{server.url}/v1/models/churn/report")
        assert answer.json()["model"] == "churn"
        assert "server" not in answer.headers


def test_after_the_stop_nothing_listens() -> None:
    server = ApiServer(Service().app(), port=0)
    server.start()
    server.stop()
    server.stop()
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{server.url}/healthz")
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


def test_a_request_under_way_is_finished() -> None:
    entered = threading.Event()
    released = threading.Event()

    def slow(*args: object, **options: object) -> Report:
        entered.set()
        released.wait(10)
        return evaluate(*args, **options)  # type: ignore[arg-type]

    server = ApiServer(Service().app(evaluate=slow), port=0)
    server.start()
    answers: list[httpx.Response] = []
    asking = threading.Thread(
        target=lambda: answers.append(httpx.post(f"{server.url}/v1/reports", json={"p": [0.5], "y": [1]}, timeout=20))
    )
    asking.start()
    assert entered.wait(10)
    stopping = threading.Thread(target=server.stop)
    stopping.start()
    time.sleep(0.1)
    released.set()
    stopping.join(20)
    asking.join(20)
    assert answers[0].status_code == 200


def test_a_request_that_never_ends_does_not_hold_up_the_stop() -> None:
    released = threading.Event()
    entered = threading.Event()

    def endless(*_: object, **__: object) -> Report:
        entered.set()
        released.wait(30)
        raise RuntimeError("late")

    server = ApiServer(Service().app(evaluate=endless), port=0, grace_seconds=1)
    server.start()

    def ask() -> None:
        with pytest.raises(httpx.HTTPError):
            httpx.post(f"{server.url}/v1/reports", json={"p": [0.5], "y": [1]}, timeout=20).raise_for_status()

    asking = threading.Thread(target=ask)
    asking.start()
    assert entered.wait(10)
    started = time.monotonic()
    server.stop()
    assert time.monotonic() - started < 6
    released.set()
    asking.join(20)


def test_a_large_body_is_refused_over_the_wire() -> None:
    service = Service(limits=Limits(report_bytes=1_000_000))
    with ApiServer(service.app(), port=0) as server:
        body = b'{"p": [' + b"0.5," * 1_000_000
        headers = {"content-type": "application/json"}
        assert_problem(httpx.post(f"{server.url}/v1/reports", content=body, headers=headers), 413, "1000000 bytes")

        def chunks() -> Iterator[bytes]:
            for _ in range(400):
                yield b"0.5," * 10_000

        assert_problem(httpx.post(f"{server.url}/v1/reports", content=chunks(), headers=headers), 413, "1000000 bytes")
        assert httpx.get(f"{server.url}/healthz").status_code == 200


def test_head_over_the_wire() -> None:
    with ApiServer(Service().app(), port=0) as server, httpx.Client() as client:
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
        assert httpx.get(f"{server.url}/healthz").status_code == 200


def test_ipv6_stands_in_brackets() -> None:
    assert ApiServer(Service().app(), host="::1", port=80).url == "http://[::1]:80"
    assert ApiServer(Service().app(), host="0.0.0.0", port=80).url == "http://localhost:80"
