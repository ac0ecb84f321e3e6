"""A scorer's events through the real API over a real socket: refusals, outages, keys, sizes."""

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from monitor.clock import SystemClock
from monitor.errors import InputError
from monitor.http.server import ApiServer
from monitor.http.settings import ApiSettings
from monitor.http_client import API_KEY
from monitor.logging import PredictionLogger, Rest
from tests.alarms.receiver import receiver
from tests.http.keys import Keys
from tests.http.service import Service
from tests.patience import PATIENCE_SECONDS, eventually
from tests.real.child import free_ports


class World:
    """A service that can be ended and started again."""

    def __init__(self) -> None:
        self.service = Service()
        self.server: ApiServer | None = None
        self.port = free_ports(1)[0]
        self.parts: dict[str, Any] = {"clock": SystemClock()}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        self.server = ApiServer(self.service.app(**self.parts), port=self.port)
        self.server.start()

    def end(self) -> None:
        if self.server is not None:
            self.server.stop()
            self.server = None

    def ids(self) -> list[str]:
        return [json.loads(message.value or b"")["id"] for message in self.service.log.messages]


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    made.start()
    yield made
    made.end()


def test_predictions_and_outcomes_arrive_keyed_in_their_topics(world: World) -> None:
    with PredictionLogger("churn", "7", to=Rest(world.url)) as predictions:
        identifier = predictions.log(0.83, segments={"region": "eu"})
        predictions.outcome(identifier, 1)
        many = predictions.log_many(np.full(10_000, 0.5))
        assert predictions.flush(PATIENCE_SECONDS)
    messages = world.service.log.messages
    assert [message.topic for message in messages] == ["predictions", "outcomes"] + ["predictions"] * 10_000
    assert [message.key for message in messages[:3]] == [identifier.encode(), identifier.encode(), many[0].encode()]
    assert predictions.stats().delivered == 10_002


def test_what_the_service_refuses_is_counted_with_its_reason(world: World, caplog: pytest.LogCaptureFixture) -> None:
    far = 4_000_000_000_000
    with PredictionLogger("churn", to=Rest(world.url)) as predictions:
        predictions.log(0.5, ts=far)
        predictions.flush(PATIENCE_SECONDS)
        predictions.log(0.5, id="good")
        predictions.log(0.5, ts=far)
    assert predictions.stats().dropped == {"rejected": 2}
    assert world.ids() == ["good"]
    assert "ts must lie between" in caplog.text


def test_an_outage_loses_nothing(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.end()
    with PredictionLogger("churn", to=Rest(world.url), exit_seconds=PATIENCE_SECONDS) as predictions:
        ids = predictions.log_many(np.full(3_000, 0.5))
        eventually(lambda: "does not answer" in caplog.text)
        world.service.log.down = True
        world.start()
        eventually(lambda: world.service.traffic.requests)
        world.service.log.down = False
        assert predictions.flush(PATIENCE_SECONDS)
    assert world.ids() == ids
    assert predictions.stats().dropped == {}


def test_a_page_of_a_proxy_is_an_outage_that_loses_nothing(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    with receiver() as proxy:
        proxy.page = b"<html>Log in</html>"
        world.port = proxy.server_address[1]
        predictions = PredictionLogger("churn", to=Rest(world.url), exit_seconds=PATIENCE_SECONDS)
        ids = predictions.log_many(np.full(100, 0.5))
        eventually(lambda: len(proxy.requests) >= 2)
    world.start()
    try:
        assert predictions.flush(PATIENCE_SECONDS)
        predictions.close()
    finally:
        world.end()
    assert world.ids() == ids
    assert predictions.stats().delivered == 100
    (record,) = [record for record in caplog.records if "events cannot be sent" in record.message]
    assert f"POST {world.url}/v1/events is answered 200 OK with text/html, which is no answer of" in record.message
    assert record.exc_info is None


def test_a_missing_key_is_said_and_events_wait_for_it(monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    keys = Keys()
    world = World()
    world.parts["authenticator"] = keys.authenticator()
    world.start()
    key = [""]
    try:
        given = {"write": keys("write:churn"), "none": keys("read:churn")}
        key[0] = given["none"]
        with PredictionLogger("churn", to=Rest(world.url, api_key=lambda: key[0])) as predictions:
            predictions.log(0.5, id="a")
            eventually(lambda: "needs the role write" in caplog.text)
            key[0] = given["write"]
            assert predictions.flush(PATIENCE_SECONDS)
        monkeypatch.setenv(API_KEY, given["write"] + "\n")
        with PredictionLogger("churn", to=Rest(world.url)) as predictions:
            predictions.log(0.5, id="b")
    finally:
        world.end()
    assert world.ids() == ["a", "b"]


def test_requests_that_are_too_large_are_divided() -> None:
    world = World()
    world.parts["api"] = ApiSettings(max_event_bytes=3_000)
    world.start()
    try:
        with PredictionLogger("churn", to=Rest(world.url)) as predictions:
            predictions.log_many(np.full(100, 0.5))
            predictions.log(0.5, features=np.zeros(1_000))
            predictions.log(0.5, id="last")
    finally:
        world.end()
    assert len(world.ids()) == 101
    assert world.ids()[-1] == "last"
    assert predictions.stats().dropped == {"rejected": 1}


def test_a_wrong_address_is_refused_at_once() -> None:
    with pytest.raises(InputError, match="must be like http://localhost:8000"):
        Rest("ftp://monitor")
