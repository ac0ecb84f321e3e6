"""What access control costs a request: with a right key, a wrong key, and without access control."""

import asyncio
import logging
import statistics
import time
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import structlog
from fastapi import FastAPI

from monitor.access.keys import KeyAuthenticator, make_key
from monitor.access.model import Grant, Role, StoredKey
from monitor.access.settings import AccessSettings
from monitor.clock import SystemClock
from monitor.store.api_keys import ApiKeys
from monitor.store.sql import SqlStore
from tests.http.service import Service
from tests.snapshots import report, snapshot

REQUESTS = 2_000
ROUNDS = 5
PATH = "/v1/models/churn/report"
LOOKED_AT = AccessSettings(failures_per_minute=10**9, requests_per_second=10**9)


class CountedKeys(ApiKeys):
    """Keys of a store, which counts how often it is read."""

    reads = 0

    def keys(self) -> Sequence[StoredKey]:
        self.reads += 1
        return super().keys()


@pytest.fixture(autouse=True)
def _usual_logs() -> Iterator[None]:
    """As the service logs: nothing of a request that went as it should."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    yield
    structlog.reset_defaults()


@pytest.mark.benchmark
def test_a_request_with_a_right_key_a_wrong_key_and_none(tmp_path: Path) -> None:
    right = make_key()
    with SqlStore.open(f"sqlite:///{tmp_path}/monitor.db", clock=SystemClock()) as store:
        keys = CountedKeys(store.database)
        # Among as many as a large installation may have made over the years.
        for number in range(200):
            new = right if number == 100 else make_key()
            keys.add_key(StoredKey(new.key_id, f"key {number}", new.digest, (Grant(Role.READ),), number), actor="cli:x")
        access = KeyAuthenticator([keys], SystemClock())
        guarded = _service().app(authenticator=access, access=LOOKED_AT)
        limited = _service().app(authenticator=access, access=AccessSettings())
        wrong = [make_key().text for _ in range(REQUESTS)]
        cases: dict[str, tuple[FastAPI, Callable[[int], str | None], int]] = {
            "no access control": (_service().app(), lambda _: None, 200),
            "right key": (guarded, lambda _: right.text, 200),
            "wrong keys, each another": (guarded, lambda number: wrong[number], 401),
            "wrong keys of an address over the limit": (limited, lambda number: wrong[number], 429),
        }
        for app, key_of, _ in cases.values():
            _microseconds(app, key_of, 50)
        keys.reads = 0
        began = time.monotonic()
        took: dict[str, list[float]] = {name: [] for name in cases}
        for _ in range(ROUNDS):
            # In turns, so that what else the machine does falls on all alike.
            for name, (app, key_of, status) in cases.items():
                microseconds, last = _microseconds(app, key_of, REQUESTS // ROUNDS)
                assert last == status, name
                took[name].append(microseconds)
        seconds = time.monotonic() - began
    medians = {name: statistics.median(each) for name, each in took.items()}
    free = medians["no access control"]
    print(f"\n{REQUESTS} requests for a report each, CPU of the process")
    for name, microseconds in medians.items():
        print(f"{name}: {microseconds:.0f} us, {microseconds / free:.2f} times that without access control")
    alone = _lookups(access, right.text)
    print(f"the look-up of a right key alone: {alone:.1f} us; {keys.reads} reads of the store in {seconds:.0f} s")
    assert keys.reads <= 2 + 2 * seconds
    assert medians["wrong keys of an address over the limit"] < medians["wrong keys, each another"]


def _service() -> Service:
    service = Service()
    service.show(snapshot([report("churn", "7", "all", "24h")]))
    return service


def _microseconds(app: FastAPI, key_of: Callable[[int], str | None], requests: int) -> tuple[float, int]:
    """CPU time of a request, and the status of the last one's answer."""
    status = 0

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: MutableMapping[str, Any]) -> None:
        nonlocal status
        status = message.get("status", status)

    async def ask() -> float:
        before = time.process_time()
        for number in range(requests):
            key = key_of(number)
            headers = [] if key is None else [(b"authorization", f"Bearer {key}".encode())]
            scope = {
                "type": "http",
                "asgi": {"version": "3.0"},
                "http_version": "1.1",
                "method": "GET",
                "scheme": "http",
                "path": PATH,
                "raw_path": PATH.encode(),
                "query_string": b"",
                "root_path": "",
                "headers": [(b"host", b"localhost"), *headers],
                "client": ("127.0.0.1", 50_000),
                "server": ("127.0.0.1", 8000),
            }
            await app(scope, receive, send)
        return time.process_time() - before

    return asyncio.run(ask()) / requests * 1e6, status


def _lookups(access: KeyAuthenticator, key: str) -> float:
    before = time.process_time()
    for _ in range(REQUESTS):
        access.authenticate(key)
    return (time.process_time() - before) / REQUESTS * 1e6
