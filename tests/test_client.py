"""The client of scorers, against the real API over a real socket."""

import logging
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from fastapi import FastAPI

from monitor.client import RecalibrationClient
from monitor.clock import ManualClock
from monitor.errors import (
    Conflict,
    CorruptMap,
    Forbidden,
    InputError,
    ServiceUnavailable,
    Unauthenticated,
    UnknownRecalibration,
    UnknownSeries,
)
from monitor.http.server import ApiServer
from monitor.http_client import API_KEY, connect, send_request
from monitor.maps import RecalibrationMap, apply_map
from monitor.maps.artifact import to_bytes
from monitor.store.recalibrations import Champion
from tests.http.keys import Keys
from tests.http.refits import Refits
from tests.http.service import Service
from tests.maps_of_refits import fitted, of_classes
from tests.patience import PATIENCE_SECONDS, eventually, joined
from tests.real.child import free_ports

P = [0.1, 0.5, 0.9]


class World:
    """A service that can be ended and started again, and what serves there."""

    def __init__(self, folder: Path, keys: Keys | None = None) -> None:
        self.refits = Refits(folder)
        self.clock = ManualClock()
        self.authenticator = None if keys is None else keys.authenticator()
        # One that is still free when it is started again.
        self.server = ApiServer(self.app(), port=free_ports(1)[0])
        self.server.start()
        self.clients: list[RecalibrationClient] = []

    def app(self) -> FastAPI:
        return Service(refits=self.refits, authenticator=self.authenticator).app()

    def client(self, model: str = "churn", version: str | None = None, **options: object) -> RecalibrationClient:
        given: dict[str, Any] = {"timeout_seconds": PATIENCE_SECONDS, **options}
        made = RecalibrationClient(self.server.url, model, version, clock=self.clock, **given)
        self.clients.append(made)
        return made

    def serve(self, chosen: RecalibrationMap, version: str | None = None) -> str:
        order = self.refits.make_request("churn", version)
        job, _ = self.refits.request(order, actor="a")
        self.refits.end(job.id, chosen=chosen)
        self.refits.promote(job.id, actor="a", note="")
        return job.id

    def end(self) -> None:
        self.server.stop()

    def start_again(self) -> None:
        self.server = ApiServer(self.app(), port=self.server.port)
        self.server.start()

    def close(self) -> None:
        for client in self.clients:
            client.close()
        self.server.stop()
        self.refits.close()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


def state(client: RecalibrationClient) -> tuple[str | None, float]:
    return client.map_id, client.stale_seconds


def caught_up(client: RecalibrationClient) -> None:
    """Wait until the thread that a call started has its answer."""
    thread = client._refresher
    assert thread is not None
    joined(thread)


def test_it_applies_what_serves_and_what_serves_next(world: World) -> None:
    first = fitted("beta")
    job = world.serve(first)
    client = world.client()
    assert client.map_id is None
    assert client.stale_seconds == np.inf
    assert client.apply(P).tolist() == apply_map(first, P).tolist()
    assert state(client) == (job, 0.0)
    assert client.about["model"] == "churn"
    second = fitted("isotonic")
    other = world.serve(second)
    world.clock.advance(59)
    assert client.apply(P).tolist() == apply_map(first, P).tolist()
    assert client._refresher is None
    world.clock.advance(1)
    # The call that finds that it is time does not wait either.
    assert client.apply(P).tolist() == apply_map(first, P).tolist()
    caught_up(client)
    assert client.apply(P).tolist() == apply_map(second, P).tolist()
    assert state(client) == (other, 0.0)


def test_without_a_map_predictions_are_as_they_are_and_are_checked(world: World) -> None:
    client = world.client()
    assert client.apply(P).tolist() == P
    assert client.apply([]).tolist() == []
    assert client.apply([[0.25, 0.75]]).tolist() == [[0.25, 0.75]]
    assert client.map_id is None
    assert client.stale_seconds == 0.0
    for wrong in ([1.5], [[0.5, 0.6]], [[0.5, 0.5], [1.0]], "high"):
        with pytest.raises(InputError):
            client.apply(wrong)


@pytest.mark.parametrize("p", [[[0.5], [0.2, 0.3]], [0.5, [0.2, 0.8]], ["high"]])
def test_what_is_no_table_of_numbers_is_refused_in_plain_words(world: World, p: list[Any]) -> None:
    client = world.client()
    for _ in range(2):
        with pytest.raises(InputError, match=r"^p must be numbers, or lists of numbers that are equally long$"):
            client.apply(p)
        world.serve(fitted("beta"))
        client.refresh()


def test_an_empty_batch_is_an_empty_answer_whatever_serves(world: World) -> None:
    client = world.client()
    for chosen in (fitted("beta"), fitted("lore"), of_classes()):
        world.serve(chosen)
        client.refresh()
        assert client.apply([]).tolist() == client.apply([], [], {"region": []}).tolist() == []
    with pytest.raises(InputError, match="must have the shape"):
        client.apply([], [[1.0, 2.0]])


def test_it_logs_what_serves_and_that_nothing_does(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "monitor.client")
    client = world.client()
    client.refresh()
    job = world.serve(fitted("beta"))
    client.refresh()
    client.refresh()
    world.refits.roll_back("churn", "8", actor="a", note="")
    client.refresh()
    assert [record.getMessage() for record in caplog.records if record.name == "monitor.client"] == [
        "no map serves model churn: predictions stay unchanged",
        f"model churn is recalibrated by map {job}",
        "no map serves model churn: predictions stay unchanged",
    ]


def test_a_rollback_reaches_it(world: World) -> None:
    world.serve(fitted("beta"))
    client = world.client()
    assert client.apply(P).tolist() != P
    world.refits.roll_back("churn", "8", actor="a", note="")
    client.refresh()
    assert client.apply(P).tolist() == P
    assert client.map_id is None


def test_a_version_has_its_own_map(world: World) -> None:
    world.serve(fitted("beta"), "7")
    assert world.client(version="7").apply(P).tolist() != P
    assert world.client(version="8").apply(P).tolist() == P
    with pytest.raises(UnknownSeries, match="'9'"):
        world.client(version="9").apply(P)


def test_names_of_models_may_have_slashes(world: World) -> None:
    assert world.client("org/model").apply(P).tolist() == P
    with pytest.raises(UnknownSeries, match=r"no model 'a b/ü%2F\?'"):
        world.client("a b/ü%2F?").apply(P)


def test_an_unchanged_map_is_not_sent_again(world: World) -> None:
    world.serve(fitted("beta"))
    answers: list[httpx.Response] = []

    class Noting(httpx.HTTPTransport):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            answers.append(super().handle_request(request))
            return answers[-1]

    client = world.client(transport=Noting())
    for _ in range(3):
        client.refresh()
    assert [answer.status_code for answer in answers] == [200, 304, 304]
    world.refits.roll_back("churn", "8", actor="a", note="")
    for _ in range(2):
        client.refresh()
    assert [answer.status_code for answer in answers[3:]] == [204, 304]


def test_while_the_service_is_away_the_last_map_goes_on(world: World, caplog: pytest.LogCaptureFixture) -> None:
    chosen = fitted("beta")
    job = world.serve(chosen)
    client = world.client()
    client.apply(P)
    world.end()
    caplog.clear()
    for attempt in (1, 2):
        world.clock.advance(60)
        assert client.apply(P).tolist() == apply_map(chosen, P).tolist()
        caught_up(client)
        assert client.stale_seconds == 60 * attempt
    logged = [record for record in caplog.records if record.name == "monitor.client"]
    assert [record.levelname for record in logged] == ["WARNING", "WARNING"]
    for record, seconds in zip(logged, (60, 120), strict=True):
        said = record.getMessage()
        assert f"{seconds} s ago" in said
        assert job in said
        assert "does not answer" in said
    with pytest.raises(ServiceUnavailable, match="does not answer"):
        client.refresh()
    world.start_again()
    world.clock.advance(60)
    client.apply(P)
    caught_up(client)
    assert client.stale_seconds == 0.0
    assert client.map_id == job


def test_nothing_had_yet_is_an_error_or_predictions_as_they_are(world: World, caplog: pytest.LogCaptureFixture) -> None:
    chosen = fitted("beta")
    world.serve(chosen)
    strict, lenient = world.client(), world.client(without_map="unchanged")
    world.end()
    for _ in range(2):
        with pytest.raises(ServiceUnavailable, match=r"http://127\.0\.0\.1:\d+/? does not answer"):
            strict.apply(P)
    caplog.clear()
    for _ in range(3):
        assert lenient.apply(P).tolist() == P
    # It is not asked at each call.
    assert [record.levelname for record in caplog.records if record.name == "monitor.client"] == ["WARNING"]
    world.start_again()
    assert lenient.apply(P).tolist() == P
    world.clock.advance(5)
    assert lenient.apply(P).tolist() == apply_map(chosen, P).tolist() == strict.apply(P).tolist()


def test_a_damaged_map_takes_the_place_of_none(world: World) -> None:
    chosen = fitted("beta")
    world.serve(chosen)
    client = world.client()
    client.apply(P)
    served = {"bytes": b"garbage"}

    def corrupt(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, content=served["bytes"], headers={"etag": '"x"'}, request=request)

    fresh = world.client(transport=httpx.MockTransport(corrupt))
    with pytest.raises(CorruptMap):
        fresh.apply(P)
    client._http.close()
    client._http = connect("http://monitor", timeout_seconds=1.0, transport=httpx.MockTransport(corrupt))
    with pytest.raises(CorruptMap):
        client.refresh()
    assert client.apply(P).tolist() == apply_map(chosen, P).tolist()


def test_a_map_of_another_model_is_refused_and_the_last_one_goes_on(world: World) -> None:
    """As from a cache on the way that keeps answers under the wrong name."""
    first = world.serve(fitted("platt"))
    answers = {"model": "churn"}

    def mix_up(request: httpx.Request) -> httpx.Response:
        found = httpx.get(str(request.url), headers={"accept": request.headers["accept"]}, timeout=PATIENCE_SECONDS)
        told = to_bytes(fitted("platt"), {"id": "rc_9", "model": answers["model"], "version": "8"})
        return found if answers["model"] == "churn" else httpx.Response(200, content=told, headers={"etag": '"x"'})

    client = world.client(transport=httpx.MockTransport(mix_up))
    before = client.apply(P)
    answers["model"] = "fraud"
    with pytest.raises(CorruptMap, match=r"the map rc_9 of model 'fraud', the request was for model 'churn'"):
        client.refresh()
    assert (client.map_id, client.apply(P).tolist()) == (first, before.tolist())
    with pytest.raises(CorruptMap, match="'fraud'"):
        world.client(transport=httpx.MockTransport(mix_up)).apply(P)


@pytest.mark.parametrize(
    "page", [httpx.Response(200, html="<html>Log in</html>"), httpx.Response(204)], ids=["page", "nothing"]
)
def test_an_answer_of_a_proxy_is_no_map_and_the_last_one_goes_on(world: World, page: httpx.Response) -> None:
    first = world.serve(fitted("platt"))
    in_between = False

    def answer(request: httpx.Request) -> httpx.Response:
        headers = {"accept": request.headers["accept"]}
        return page if in_between else httpx.get(str(request.url), headers=headers, timeout=PATIENCE_SECONDS)

    client = world.client(transport=httpx.MockTransport(answer))
    before = client.apply(P)
    in_between = True
    with pytest.raises(ServiceUnavailable, match=rf"is answered {page.status_code} .* which is no answer of the"):
        client.refresh()
    assert (client.map_id, client.apply(P).tolist()) == (first, before.tolist())


def test_a_map_of_another_version_is_refused_by_who_named_one(world: World) -> None:
    told = to_bytes(fitted("platt"), {"id": "rc_9", "model": "churn", "version": "8"})
    transport = httpx.MockTransport(lambda _: httpx.Response(200, content=told, headers={"etag": '"x"'}))
    assert world.client(transport=transport).apply(P).shape == (3,)
    with pytest.raises(CorruptMap, match=r"of version '8', the request was for version '7'"):
        world.client(version="7", transport=transport).apply(P)


def test_a_map_of_other_features_says_which_map_wants_what(world: World) -> None:
    chosen = fitted("lore")
    job = world.serve(chosen)
    client = world.client()
    x = np.random.default_rng(2).normal(size=(3, 2))
    assert client.apply(P, features=x).tolist() == apply_map(chosen, P, features=x).tolist()
    with pytest.raises(InputError, match=rf"map {job} of model churn: the map needs 2 features"):
        client.apply(P)
    with pytest.raises(InputError, match=r"features must have the shape \(3, 2\) for this map, got \(3, 5\)"):
        client.apply(P, features=np.zeros((3, 5)))


def test_a_map_of_groups_takes_segments_and_ignores_what_it_does_not_need(world: World) -> None:
    chosen = fitted("group_wise_platt", segment="region")
    world.serve(chosen)
    client = world.client()
    segments = {"region": ["eu", "us", "mars"], "plan": ["a", "b", "c"]}
    answer = client.apply(P, features=np.zeros((3, 1)), segments=segments)
    assert answer.tolist() == apply_map(chosen, P, segments=segments).tolist()
    with pytest.raises(InputError, match="'region'"):
        client.apply(P)


def test_classes_are_recalibrated(world: World) -> None:
    chosen = of_classes()
    world.serve(chosen)
    p = [[0.7, 0.2, 0.1]]
    assert world.client().apply(p).tolist() == apply_map(chosen, p).tolist()


class Slow(Refits):
    """Counts who asks what serves, and lets them wait."""

    asked = 0
    gate: Callable[[], object] = staticmethod(lambda: None)

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        champion = self.serving.champion

        def wait(model: str, version: str) -> Champion:
            self.asked += 1
            self.gate()
            return champion(model, version)

        self.serving.champion = wait  # type: ignore[method-assign]


def test_many_threads_ask_once(tmp_path: Path) -> None:
    refits = Slow(tmp_path)
    go = threading.Event()
    refits.gate = lambda: go.wait(PATIENCE_SECONDS)
    clock = ManualClock()
    with (
        ApiServer(Service(refits=refits).app(), port=0) as server,
        RecalibrationClient(server.url, "churn", clock=clock, timeout_seconds=PATIENCE_SECONDS) as client,
    ):
        found: list[list[float]] = []
        threads = [threading.Thread(target=lambda: found.append(client.apply(P).tolist())) for _ in range(8)]
        for thread in threads:
            thread.start()
        go.set()
        joined(*threads)
        assert found == [P] * 8
        assert refits.asked == 1
        go.clear()
        clock.advance(60)
        # While one thread asks, nobody waits and nobody asks again.
        for _ in range(20):
            client.apply(P)
        assert client.stale_seconds == 60.0
        go.set()
        caught_up(client)
        assert refits.asked == 2
    refits.close()


class Watched:
    """A lock that counts who came for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.came = 0

    def __enter__(self) -> None:
        self.came += 1
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def test_those_who_waited_for_the_first_answer_share_its_failure() -> None:
    asked = 0
    entered, go = threading.Event(), threading.Event()

    def fail(request: httpx.Request) -> httpx.Response:
        nonlocal asked
        asked += 1
        entered.set()
        go.wait(PATIENCE_SECONDS)
        raise httpx.ConnectError("refused", request=request)

    with RecalibrationClient("http://monitor", "churn", transport=httpx.MockTransport(fail)) as client:
        watched = Watched()
        client._request_lock = watched  # type: ignore[assignment]
        failures: list[str] = []

        def call() -> None:
            try:
                client.apply(P)
            except ServiceUnavailable as error:
                failures.append(str(error))

        first = threading.Thread(target=call)
        first.start()
        assert entered.wait(PATIENCE_SECONDS)
        others = [threading.Thread(target=call) for _ in range(4)]
        for thread in others:
            thread.start()
        eventually(lambda: watched.came >= 5)
        go.set()
        joined(first, *others)
    assert len(failures) == 5
    assert set(failures) == {"the service at http://monitor does not answer: refused"}
    assert asked == 1


def test_a_closed_client_asks_no_more(world: World) -> None:
    client = world.client()
    client.apply(P)
    client.close()
    world.clock.advance(1000)
    assert client.apply(P).tolist() == P
    assert client._refresher is None
    with pytest.raises(InputError, match="closed"):
        client.refresh()


@pytest.mark.parametrize(
    ("url", "options", "said"),
    [
        ("ftp://localhost:8000", {}, "must be like http://localhost:8000, got 'ftp://localhost:8000'"),
        ("http://a", {"api_key": "cmk_ä"}, "one word of ASCII letters, .*, got 5 characters of which some are others"),
        ("http://a", {"api_key": "two words"}, "one word of ASCII letters"),
        ("http://", {}, "must be like"),
        ("http://a:b", {}, "is no URL"),
        ("http://a:99999", {}, "must have a port from 1 to 65535, got 99999"),
        (f"http://{'a' * 70}/", {}, "must have a host whose parts between dots have 1 to 63 characters"),
        ("http://a", {"model": ""}, "model must not be empty"),
        ("http://a", {"model": "zz/../churn"}, "model must not have '.', '..' or nothing between slashes"),
        ("http://a", {"refresh_seconds": 0}, "refresh_seconds must be above 0, got 0"),
        ("http://a", {"without_map": "ignore"}, "without_map must be raise or unchanged"),
    ],
)
def test_wrong_arguments_are_named(url: str, options: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        RecalibrationClient(url, **({"model": "m"} | options))  # type: ignore[arg-type]


def answering(status: int, body: object) -> httpx.Client:
    transport = httpx.MockTransport(lambda request: httpx.Response(status, json=body, request=request))
    return connect("http://monitor/prefix", timeout_seconds=1.0, transport=transport)


@pytest.mark.parametrize(
    ("status", "kind", "error"),
    [
        (404, "unknown-series", UnknownSeries),
        (404, "unknown-recalibration", UnknownRecalibration),
        (409, "conflict", Conflict),
        (422, "invalid-input", InputError),
        (503, "busy", ServiceUnavailable),
        (500, "internal", ServiceUnavailable),
    ],
)
def test_problems_are_errors_in_the_services_own_words(status: int, kind: str, error: type[Exception]) -> None:
    body = {"type": f"urn:calibration-monitor:problem:{kind}", "detail": "the words"}
    with answering(status, body) as http, pytest.raises(error, match="the words") as raised:
        send_request(http, "GET", "v1/x")
    assert type(raised.value) is error


@pytest.mark.parametrize("body", ["<html>", None, [], {"detail": 1}])
def test_what_something_in_between_says_is_named_by_its_status(body: object) -> None:
    with (
        answering(403, body) as http,
        pytest.raises(InputError, match="GET http://monitor/prefix/v1/x is answered 403"),
    ):
        send_request(http, "GET", "v1/x")


def test_the_example_of_the_documentation_runs(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    chosen = fitted("group_wise_platt", segment="region")
    job = world.serve(chosen)
    page = (Path(__file__).parents[1] / "docs" / "serving.md").read_text(encoding="utf-8")
    example = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)[0]
    assert "http://localhost:8000" in example
    exec(example.replace("http://localhost:8000", world.server.url), {})
    expected = apply_map(chosen, [0.12, 0.55, 0.93], segments={"region": ["eu", "us", "apac"]})
    assert f"{job} {expected.round(3)} 0.0 s" in capsys.readouterr().out


@pytest.fixture
def locked(tmp_path: Path) -> Iterator[tuple[World, Keys]]:
    """A service that asks for a key."""
    keys = Keys()
    # A key that is made later is not known at once.
    for role in ("read", "read:churn"):
        keys(role)
    world = World(tmp_path, keys)
    yield world, keys
    world.close()


def test_a_key_opens_what_it_is_for(locked: tuple[World, Keys], monkeypatch: pytest.MonkeyPatch) -> None:
    world, keys = locked
    monkeypatch.delenv(API_KEY, raising=False)
    with pytest.raises(Unauthenticated):
        world.client().apply(P)
    assert world.client(api_key=keys("read")).apply(P).tolist() == P
    monkeypatch.setenv(API_KEY, keys("read:churn") + "\n")
    assert world.client().apply(P).tolist() == P
    with pytest.raises(UnknownSeries):
        world.client("fraud").apply(P)
    with pytest.raises(Unauthenticated):
        world.client(api_key="cmk_no_key").apply(P)


def test_a_key_that_changes_is_asked_for_each_time(locked: tuple[World, Keys]) -> None:
    world, keys = locked
    held = [keys("read:churn")]
    client = world.client(api_key=lambda: held[-1])
    client.refresh()
    keys.revoke("read:churn")
    world.authenticator = keys.authenticator()
    world.end()
    world.start_again()
    with pytest.raises(Unauthenticated):
        client.refresh()
    held.append(keys("read"))
    client.refresh()
    held.append("two words")
    with pytest.raises(InputError, match="one word of ASCII letters"):
        client.refresh()


def test_what_a_key_does_not_allow_is_said(locked: tuple[World, Keys]) -> None:
    world, keys = locked
    with (
        connect(world.server.url, timeout_seconds=PATIENCE_SECONDS, api_key=keys("read")) as http,
        pytest.raises(Forbidden, match=r"needs the role promote for model 'churn', and .* holds read"),
    ):
        send_request(http, "POST", "v1/models/churn/rollback", json={})


def test_a_key_is_not_shown_to_another_host() -> None:
    seen: list[tuple[str, str | None]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append((request.url.host, request.headers.get("authorization")))
        if request.url.host == "monitor.example.org":
            return httpx.Response(307, headers={"location": "https://elsewhere.example.org/"}, request=request)
        return httpx.Response(200, json={}, request=request)

    transport = httpx.MockTransport(answer)
    with connect("https://monitor.example.org", timeout_seconds=1.0, api_key="secret", transport=transport) as http:
        send_request(http, "GET", "v1/models")
    assert seen == [("monitor.example.org", "Bearer secret"), ("elsewhere.example.org", None)]


def test_a_service_that_is_asked_too_often_is_asked_again_later() -> None:
    body = {"type": "urn:calibration-monitor:problem:too-many-requests", "detail": "500 a second"}
    with answering(429, body) as http, pytest.raises(ServiceUnavailable, match="500 a second"):
        send_request(http, "GET", "v1/models")


def test_an_address_may_lack_its_scheme(world: World) -> None:
    world.clients.append(client := RecalibrationClient(world.server.url.removeprefix("http://"), "churn"))
    assert client.apply(P).tolist() == P
