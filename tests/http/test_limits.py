"""How often somebody may ask, or be wrong, and what is left behind of those who do it more often."""

import gc
import json
import re
import tracemalloc
from typing import Any

import anyio
import httpx
import pytest
import structlog
from starlette.types import ASGIApp, Message

from monitor.access.keys import make_key
from monitor.access.settings import AccessSettings
from monitor.clock import ManualClock
from monitor.errors import StoreUnavailable
from monitor.http import limits
from monitor.http.limits import MAX_KEYS, RateLimit
from monitor.http.request_log import RefusalReason, RefusedRequests
from monitor.reports.evaluation.report import Report
from tests.http.keys import Keys
from tests.http.service import Client, Service, api_settings, assert_problem

ATTACKER, NEIGHBOUR, ELSEWHERE = "198.51.100.7", "198.51.100.7", "203.0.113.9"


def guarded(keys: Keys, **rates: Any) -> Service:
    service = Service(access=AccessSettings(**rates), stream_seconds=100.0)
    service.authenticator = keys.authenticator(service.clock)
    return service


async def ask_often(app: ASGIApp, credentials: list[str]) -> list[int]:
    """Statuses of GET /v1/models by each of these in turn, as fast as it goes."""
    statuses: list[int] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    for credential in credentials:
        headers = [(b"host", b"monitor"), (b"authorization", f"Bearer {credential}".encode())]
        scope = {
            "type": "http",
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "path": "/v1/models",
            "raw_path": b"/v1/models",
            "query_string": b"",
            "root_path": "",
            "headers": headers,
            "client": (ATTACKER, 4711),
            "server": ("monitor", 80),
        }
        await app(scope, receive, send)
    return statuses


def test_ten_thousand_wrong_keys_leave_little_behind() -> None:
    keys = Keys()
    good, scraper = keys("read"), keys("read:churn")
    service = guarded(keys, failures_per_minute=30)
    app = service.app()
    # A neighbour of the attacker was there before: behind one address there may be many.
    assert Client(app, address=NEIGHBOUR).get("/v1/models", key=scraper).status_code == 200

    def attack(count: int) -> list[int]:
        statuses = anyio.run(ask_often, app, [make_key().text for _ in range(count)])
        logs[:] = [line for line in logs if line["log_level"] != "debug"]
        gc.collect()
        return statuses

    with structlog.testing.capture_logs() as logs:
        statuses = attack(9_000)
        tracemalloc.start()
        attack(10)
        before, _ = tracemalloc.get_traced_memory()
        late = attack(990)
        after, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert statuses[:30] == [401] * 30
    assert {*statuses[30:], *late} == {429}
    # Not one of them was kept, of some hundred bytes each, and the store was not asked for them.
    assert after - before < 30_000
    assert keys.reads <= 3
    # A line for each reason, and not for each request. The clock stands still: a minute has one each.
    assert [line["reason"] for line in logs] == ["wrong", "failures"]
    assert service.refused.counts["wrong"] == 30
    assert service.refused.counts["failures"] == 10_000 - 30
    # From elsewhere a good key is answered, and so is the neighbour's, who was right before.
    assert Client(app, address=ELSEWHERE).get("/v1/models", key=good).status_code == 200
    assert Client(app, address=NEIGHBOUR).get("/v1/models", key=scraper).status_code == 200
    # One that nobody knows yet is not looked at.
    unread = Client(app, address=NEIGHBOUR).get("/v1/models", key=keys("promote"))
    assert_problem(unread, 429, "too many wrong keys")
    assert 1 <= int(unread.headers["retry-after"]) <= 60
    assert "cmk_" not in repr(logs)


def test_a_key_that_memory_knows_comes_in_beside_one_who_guesses() -> None:
    keys = Keys()
    early, late = keys("read"), keys("write")
    client = guarded(keys, failures_per_minute=1).client()
    assert client.get("/v1/models", key=early).status_code == 200
    for status in (401, 429):
        assert client.get("/v1/models", key=make_key().text).status_code == status
    # It asks for the first time, from an address that is not listened to, as all do behind one proxy.
    assert client.get("/v1/models", key=late).status_code == 200


def test_no_credential_at_all_is_no_guess() -> None:
    keys = Keys()
    good = keys("read")
    client = guarded(keys, failures_per_minute=2).client()
    for _ in range(5):
        assert client.get("/v1/models").status_code == 401
    assert client.get("/v1/models", key=good).status_code == 200


def test_a_key_that_was_good_is_looked_at_each_time() -> None:
    keys = Keys()
    good = keys("read")
    service = guarded(keys, failures_per_minute=1)
    client = service.client()
    assert client.get("/v1/models", key=good).status_code == 200
    assert client.get("/v1/models", key="nonsense").status_code == 401
    keys.revoke("read")
    service.clock.advance(60)
    assert_problem(client.get("/v1/models", key=good), 401, "revoked")
    # It is none of those any more that are looked at from an address like this.
    assert_problem(client.get("/v1/models", key=good), 429)


def test_a_store_that_does_not_answer_blames_nobody() -> None:
    keys = Keys()
    keys.failing = StoreUnavailable("no database at localhost:5432")
    service = guarded(keys, failures_per_minute=1)
    for _ in range(3):
        assert_problem(service.client().get("/v1/models", key=keys("read")), 503, "API keys")
    assert service.refused.counts["wrong"] == 0


@pytest.mark.parametrize(
    ("one", "another", "same"),
    [
        ("2001:db8::1", "2001:db8::ffff", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("192.0.2.1", "192.0.2.2", False),
    ],
)
def test_of_ipv6_a_network_is_one_address(one: str, another: str, same: bool) -> None:
    app = guarded(Keys(), failures_per_minute=1).app()
    assert Client(app, address=one).get("/v1/models", key="nonsense").status_code == 401
    assert Client(app, address=another).get("/v1/models", key="nonsense").status_code == (429 if same else 401)


def test_who_asks_too_often_is_told_when_to_ask_again() -> None:
    keys = Keys()
    often, seldom = keys("read"), keys("write")
    service = guarded(keys, requests_per_second=3)
    app = service.app()

    async def ask(count: int) -> list[httpx.Response]:
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://monitor") as client:
            headers = {"authorization": f"Bearer {often}"}
            return [await client.get("/v1/session", headers=headers) for _ in range(count)]

    answers = anyio.run(ask, 40)
    assert [each.status_code for each in answers[:3]] == [200] * 3
    assert {each.status_code for each in answers[3:]} == {429}
    refused = answers[3]
    assert_problem(refused, 429, "key:read", "access.requests_per_second")
    assert refused.headers["retry-after"] == "1"
    # Others are answered, from the same address too.
    assert Client(app).get("/v1/session", key=seldom).status_code == 200


def test_a_window_counts_each_key_and_forgets_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_KEYS", 3)
    clock = ManualClock(0)
    throttle = RateLimit(2, 60.0, clock)
    for name in "abc":
        assert throttle.hit(name)
        assert throttle.hit(name)
        assert not throttle.hit(name)
        assert throttle.wait_seconds(name) == 60
    assert throttle.wait_seconds("d") is None
    assert throttle.hit("a") is False
    assert throttle.hit("d")
    assert len(throttle) == 3
    # b was not heard of for longest.
    assert throttle.wait_seconds("b") is None
    clock.advance(59.5)
    assert throttle.wait_seconds("a") == 1
    assert throttle.hit("a") is False
    clock.advance(0.5)
    assert throttle.wait_seconds("a") is None
    assert throttle.hit("a")


def test_an_attackers_addresses_fill_no_memory() -> None:
    throttle = RateLimit(30, 60.0, ManualClock(0))
    for at in range(3 * MAX_KEYS):
        throttle.hit(f"10.0.{at // 256}.{at % 256}")
    assert len(throttle) == MAX_KEYS


def test_refusals_are_told_of_once_a_minute() -> None:
    clock = ManualClock(0)
    refused = RefusedRequests(clock)
    with structlog.testing.capture_logs() as logs:
        for _ in range(5):
            refused.count(RefusalReason.WRONG, ATTACKER)
        refused.count(RefusalReason.MISSING, ELSEWHERE)
        clock.advance(59)
        refused.count(RefusalReason.WRONG, ATTACKER)
        assert len(logs) == 2
        clock.advance(1)
        refused.count(RefusalReason.WRONG, ATTACKER)
        refused.count(RefusalReason.WRONG, ATTACKER)
    assert [(line["reason"], line["count"], line["log_level"]) for line in logs] == [
        ("wrong", 1, "warning"),
        ("missing", 1, "info"),
        ("wrong", 6, "warning"),
    ]
    assert logs[2]["last_address"] == ATTACKER
    assert refused.counts["wrong"] == 8


def test_what_takes_too_long_is_for_later_and_keeps_its_turn() -> None:
    released = anyio.Event()

    async def ask() -> tuple[httpx.Response, httpx.Response, httpx.Response]:
        nonlocal released
        released = anyio.Event()
        token = anyio.lowlevel.current_token()

        def wait(*_: object, **__: object) -> Report:
            anyio.from_thread.run(released.wait, token=token)
            raise StoreUnavailable("done")

        service = Service(api=api_settings(1, request_timeout=0.05, turn_timeout=0.01))
        transport = httpx.ASGITransport(service.app(evaluate=wait), raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://monitor") as client:
            slow = await client.post("/v1/reports", json={"p": [0.5], "y": [1]})
            # The thread works on: there is no room for another yet.
            busy = await client.post("/v1/reports", json={"p": [0.5], "y": [1]})
            released.set()
            for _ in range(200):
                after = await client.post("/v1/reports", json={"p": [0.5], "y": [1]})
                if "one time" not in after.text:
                    break
        return slow, busy, after

    with structlog.testing.capture_logs() as logs:
        slow, busy, after = anyio.run(ask)
    assert_problem(slow, 503, "0.05 seconds", "api.request_timeout")
    assert_problem(busy, 503, "1 requests like this")
    assert "one time" not in after.text
    assert not [line for line in logs if line.get("exc_info")]


def test_requests_are_counted_by_route_and_never_by_path() -> None:
    keys = Keys()
    key = keys("read", "write")
    service = guarded(keys)
    client = service.client()
    client.get("/v1/models/churn/report", key=key)
    client.request("HEAD", "/v1/models/fraud/report", key=key)
    client.get("/v1/models")
    for path in ("/secret", "/secret2", "/docs-assets/none.js"):
        client.get(path)
    client.request("BREW", "/v1/models")
    client.request("DELETE", "/v1/models")
    text = client.get("/metrics", key=key, headers={"accept-encoding": "identity"}).text
    seen = {
        tuple(re.findall(r'="([^"]*)"', line)): float(line.rsplit(" ", 1)[1])
        for line in text.splitlines()
        if line.startswith("calibration_http_requests_total{")
    }
    assert seen == {
        ("GET", "/v1/models/{model}/report", "404"): 2,
        ("GET", "/v1/models", "401"): 1,
        ("GET", "other", "404"): 3,
        ("other", "/v1/models", "405"): 1,
        ("DELETE", "/v1/models", "405"): 1,
    }
    assert 'calibration_access_refusals_total{reason="missing"} 1.0' in text
    assert 'calibration_access_refusals_total{reason="wrong"} 0.0' in text
    assert 'calibration_http_request_seconds_total{method="GET",route="/v1/models"} 0.0' in text
    assert "secret" not in text
    assert json.dumps(key) not in text
