"""Alerts over REST: lists, one alert, acknowledgements, and the stream."""

import json
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
from jsonschema import Draft202012Validator

from monitor.alarms.lifecycle import resolve
from monitor.events.times import format_time
from monitor.http.server import ApiServer
from monitor.store.alert import Alert, Resolution
from monitor.store.alerts import AlertStore, save
from tests.alarms.findings import MINUTE_MS, NOW_MS, advanced, finding
from tests.http.keys import Keys
from tests.http.refits import Refits
from tests.http.service import Client, Service, api_settings, assert_problem
from tests.patience import PATIENCE_SECONDS, eventually

KEYS = Keys()
# A key is known from the start on.
READ, READ_CHURN, WRITE_CHURN = KEYS("read"), KEYS("read:churn"), KEYS("write:churn")


class Alerts(Service):
    """A service with alerts in its store."""

    def __init__(self, folder: Path, **parts: Any) -> None:
        kept = Refits(folder)
        super().__init__(refits=kept, alerts=AlertStore(kept.database.database), **parts)
        self.database = kept.database.database
        self.close = kept.close

    def step(self, before: Alert | None, after: Alert | None) -> Alert:
        assert after is not None
        with self.database.writing() as connection:
            save(self.database, connection, [(before, after)], NOW_MS)
        return after

    def fire(self, model: str = "churn", **more: Any) -> Alert:
        return self.step(None, advanced(None, finding(7.2, model=model, **more), NOW_MS))


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Alerts]:
    with closing(Alerts(tmp_path)) as service:
        yield service


@pytest.fixture
def client(service: Alerts) -> Client:
    return service.client()


def check(client: Client, answer: httpx.Response, path: str, method: str = "get") -> Any:
    """The body, which is of its schema."""
    document = client.get("/openapi.json").json()
    assert answer.status_code == 200, answer.text
    schema = document["paths"][path][method]["responses"]["200"]["content"]["application/json"]["schema"]
    Draft202012Validator({**schema, "components": document["components"]}).validate(answer.json())
    return answer.json()


def test_without_alerts_the_list_is_empty(client: Client) -> None:
    answer = client.get("/v1/alerts")
    assert check(client, answer, "/v1/alerts") == {"alerts": [], "next_cursor": None}
    again = client.get("/v1/alerts", headers={"if-none-match": answer.headers["etag"]})
    assert again.status_code == 304


def test_an_alert_is_listed_shown_and_acknowledged(service: Alerts, client: Client) -> None:
    alert = service.fire("org/model")
    (listed,) = check(client, client.get("/v1/alerts"), "/v1/alerts")["alerts"]
    shown = check(client, client.get(f"/v1/alerts/{alert.id}"), "/v1/alerts/{id}")
    assert shown == {
        **listed,
        "document": {"slope": 1.3},
        "history": [{"at": "2026-09-21T14:13:20.000Z", "state": "firing", "actor": "service", "note": ""}],
        "together": [],
    }
    assert listed["change_point"] == {
        "at": "2026-09-21T13:13:20.000Z",
        "from": "2026-09-21T13:03:20.000Z",
        "to": "2026-09-21T13:23:20.000Z",
    }
    assert (listed["log10_evidence"], listed["log10_line"], listed["events"]) == (7.2, 5.0, 1000)
    path = f"/v1/alerts/{alert.id}/acknowledgement"
    acknowledged = check(client, client.post(path), "/v1/alerts/{id}/acknowledgement", "post")
    assert (acknowledged["state"], acknowledged["acknowledged_by"]) == ("acknowledged", "anonymous")
    again = client.post(path, json={"note": "the join was fixed"}).json()
    assert [change["note"] for change in again["history"]] == ["", "", "the join was fixed"]
    assert (again["assigned_to"], again["muted_until"]) == (None, None)
    (first, second) = client.get("/v1/audit?model=org/model").json()["entries"]
    assert (first["action"], first["subject"], first["detail"]) == ("acknowledged", alert.id, {"note": ""})
    assert second["detail"] == {"note": "the join was fixed"}


def test_an_alert_is_assigned_and_muted(service: Alerts, client: Client) -> None:
    path = f"/v1/alerts/{service.fire().id}/acknowledgement"
    terms = {"note": "the join is late", "assigned_to": "ada"}
    muted = check(client, client.post(path, json={**terms, "until": "8h"}), "/v1/alerts/{id}/acknowledgement", "post")
    until = format_time(service.clock.now_ms() + 8 * 3_600_000)
    assert (muted["state"], muted["assigned_to"], muted["muted_until"]) == ("acknowledged", "ada", until)
    note = f"assigned to ada, muted until {until[:16].replace('T', ' ')} UTC: the join is late"
    assert muted["history"][-1]["note"] == note
    assert client.get("/v1/audit").json()["entries"][-1]["detail"] == {"note": note}
    again = client.post(path, json={"until": "2126-01-01T00:00:00Z"}).json()
    assert (again["assigned_to"], again["muted_until"]) == (None, "2126-01-01T00:00:00.000Z")
    for wrong, part in [
        ({"until": "2020-01-01T00:00:00Z"}, "until must be later than now, "),
        ({"until": "0s"}, "until must be later than now, "),
        ({"until": "soon"}, "until"),
        ({"assigned_to": "a" * 129}, "assigned_to must have at most 128 characters, has 129"),
    ]:
        assert_problem(client.post(path, json=wrong), 422, part)


def test_what_changed_together_is_named_of_models_that_the_caller_may_read(tmp_path: Path) -> None:
    """Within a horizon: then they may have one cause."""
    with closing(Alerts(tmp_path)) as service:
        service.authenticator = KEYS.authenticator(service.clock)
        alert, near = service.fire("churn"), service.fire("fraud")
        apart_ms = service.policies["churn"].horizon_ms + 21 * MINUTE_MS
        far = {name: getattr(near.finding, name) + apart_ms for name in ("since_ms", "from_ms", "to_ms")}
        service.fire("spam", **far)
        over = service.fire("shop")
        service.step(over, resolve(over, Resolution.OVER, NOW_MS))
        client = service.client()

        def together(one: Alert, key: str = READ) -> list[dict[str, str]]:
            shown = check(client, client.get(f"/v1/alerts/{one.id}", key=key), "/v1/alerts/{id}")
            return list(shown["together"])

        assert together(alert) == [{"id": near.id, "model": "fraud", "version": "7"}]
        assert (together(alert, READ_CHURN), together(over)) == ([], [])


def test_what_cannot_be_done_says_why(service: Alerts, client: Client) -> None:
    assert_problem(client.get("/v1/alerts/al_17"), 404, "no alert is called 'al_17'")
    assert_problem(client.post("/v1/alerts/al_17/acknowledgement"), 404, "no alert is called 'al_17'")
    alert = service.fire()
    service.step(alert, resolve(alert, Resolution.OVER, NOW_MS))
    path = f"/v1/alerts/{alert.id}/acknowledgement"
    assert_problem(client.post(path), 409, f"the alert {alert.id} is resolved", "firing")
    assert_problem(client.post(path, json={"note": "x" * 2001}), 422, "at most 2000 characters, got 2001")
    assert_problem(client.post(path, json={"nots": ""}), 422, '{"note": "the upstream join was fixed", "until": "8h"}')
    states = "state: must be all, open, pending, firing, acknowledged or resolved, got 'gone'"
    assert client.get("/v1/alerts?state=gone").json()["detail"] == states
    kinds = "kind: must be calibration, change or map, got 'foo'"
    assert client.get("/v1/alerts?kind=foo").json()["detail"] == kinds
    assert_problem(client.get("/v1/alerts?since=noon"), 422, "since")
    assert_problem(client.get("/v1/alerts?cursor=x"), 422, "cursor")
    assert_problem(client.get("/v1/alerts/stream", headers={"last-event-id": "x"}), 422, "Last-Event-ID")


def test_the_list_is_filtered_and_paged(service: Alerts, client: Client) -> None:
    for number in range(5):
        service.fire(f"m{number}", kind="map" if number == 1 else "calibration")
    over = service.fire("m0", version="8")
    service.step(over, resolve(over, Resolution.OVER, NOW_MS))

    def models(query: str) -> list[str]:
        return [alert["model"] for alert in client.get(f"/v1/alerts{query}").json()["alerts"]]

    assert models("") == models("?state=all") == models("?state=&kind=") == ["m0", "m4", "m3", "m2", "m1", "m0"]
    assert models("?state=open") == models("?state=firing") == ["m4", "m3", "m2", "m1", "m0"]
    assert models("?state=resolved") == ["m0"]
    assert models("?kind=map") == ["m1"]
    assert models("?model=m0") == ["m0", "m0"]
    assert models("?model=m0&version=8") == ["m0"]
    assert models(f"?since={NOW_MS + 1}") == ["m4", "m3", "m2", "m1", "m0"]
    seen: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        page = client.get("/v1/alerts", params={"limit": 4, "cursor": cursor}).json()
        seen += [alert["model"] for alert in page["alerts"]]
        cursor = page["next_cursor"]
    assert seen == models("")


def test_only_alerts_of_ones_own_models_are_there(tmp_path: Path) -> None:
    with closing(Alerts(tmp_path)) as service:
        service.authenticator = KEYS.authenticator(service.clock)
        client = service.client()
        mine, other = service.fire("churn"), service.fire("fraud")
        assert [alert["id"] for alert in client.get("/v1/alerts", key=READ_CHURN).json()["alerts"]] == [mine.id]
        assert client.get("/v1/alerts?model=fraud", key=READ_CHURN).json()["alerts"] == []
        words = assert_problem(client.get("/v1/alerts/al_17", key=READ_CHURN), 404)["detail"].replace("al_17", other.id)
        assert_problem(client.get(f"/v1/alerts/{other.id}", key=READ_CHURN), 404, words)
        foreign = client.get("/v1/alerts?limit=1", key=READ).json()["next_cursor"]
        assert_problem(client.get(f"/v1/alerts?cursor={foreign}", key=READ_CHURN), 422, "cursor")
        path = f"/v1/alerts/{mine.id}/acknowledgement"
        assert_problem(client.post(path), 401)
        assert_problem(client.post(path, key=READ_CHURN), 403, "role write for model 'churn'")
        assert_problem(client.post(f"/v1/alerts/{other.id}/acknowledgement", key=WRITE_CHURN), 404)
        assert client.post(path, key=WRITE_CHURN).json()["acknowledged_by"] == "key:write:churn"
        stream = client.get("/v1/alerts/stream", key=READ_CHURN, headers={"last-event-id": "0"})
        assert [event["data"]["alert"]["id"] for event in events(stream.text)] == [mine.id, mine.id]
        assert_problem(client.get("/v1/alerts/stream"), 401)


def events(text: str) -> list[dict[str, Any]]:
    """The events of a stream that have data."""
    found = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if "data" in fields:
            found.append({**fields, "data": json.loads(fields["data"])})
    return found


def test_the_stream_goes_on_after_the_last_event(service: Alerts, client: Client) -> None:
    alert = service.fire()
    service.step(alert, resolve(alert, Resolution.PROMOTED, NOW_MS))
    service.fire("fraud")
    whole = client.get("/v1/alerts/stream", headers={"last-event-id": "0"})
    assert whole.headers["content-type"].startswith("text/event-stream")
    assert whole.headers["cache-control"] == "no-store"
    assert "etag" not in whole.headers
    found = events(whole.text)
    assert [(event["id"], event["event"], event["data"]["state"]) for event in found] == [
        ("1", "firing", "firing"),
        ("2", "resolved", "resolved"),
        ("3", "firing", "firing"),
    ]
    # The alert is as it is now.
    assert found[0]["data"]["alert"]["resolved_because"] == "promoted"
    rest = client.get("/v1/alerts/stream", headers={"last-event-id": "2"})
    assert [event["id"] for event in events(rest.text)] == ["3"]
    # Of a store that had more changes, and from now on.
    for headers in ({"last-event-id": "999"}, {}):
        now = client.get("/v1/alerts/stream", headers=headers)
        assert now.text.startswith("retry: 2000\nid: 3\n\n")
        assert events(now.text) == []


class Listener:
    """A client of a stream over a socket."""

    def __init__(self, server: ApiServer) -> None:
        self._client = httpx.Client(base_url=server.url, timeout=PATIENCE_SECONDS)
        self._stream = self._client.stream("GET", "/v1/alerts/stream")
        self.answer = self._stream.__enter__()
        self._lines = self.answer.iter_lines()

    def until(self, begin: str) -> Sequence[str]:
        """Read until a line begins so, which is the last one returned."""
        lines = []
        for line in self._lines:
            lines.append(line)
            if line.startswith(begin):
                return lines
        raise AssertionError(f"the stream ended without {begin!r}: {lines}")

    def rest(self) -> list[str]:
        return list(self._lines)

    def close(self) -> None:
        self._stream.__exit__(None, None, None)
        self._client.close()


def test_streams_live_over_sockets_are_bounded_and_end_with_the_service(tmp_path: Path) -> None:
    api = api_settings(request_timeout=2 * PATIENCE_SECONDS)
    stopping = False
    with (
        closing(Alerts(tmp_path, api=api, max_streams=4, stream_seconds=PATIENCE_SECONDS)) as service,
        ApiServer(service.app(is_stopping=lambda: stopping)) as server,
    ):
        first, second = Listener(server), Listener(server)
        for listener in (first, second):
            listener.until("id: 0")
        alert = service.fire()
        for listener in (first, second):
            *_, data = listener.until("data: ")
            assert alert.id in data
        with httpx.Client(base_url=server.url, timeout=PATIENCE_SECONDS) as http:
            assert_problem(http.get("/v1/alerts/stream"), 503, "2 streams of events are open")
            first.close()
            # Its place is free once the server has noticed.
            eventually(lambda: third_opens(http))
        stopping = True
        second.rest()
        second.close()


def third_opens(http: httpx.Client) -> bool:
    with http.stream("GET", "/v1/alerts/stream") as answer:
        return answer.status_code == 200


def test_a_heartbeat_comes_where_nothing_changes(service: Alerts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("monitor.http.routes.alerts.HEARTBEAT_SECONDS", 0.0)
    service.stream_seconds = 0.0
    answer = service.client().get("/v1/alerts/stream")
    assert answer.text == "retry: 2000\nid: 0\n\n: \n\n"
