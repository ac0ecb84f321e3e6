"""The stream that says when to ask again, and the state of the pipeline."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from monitor.events.model import TopicPartition
from monitor.http.event_stream import POLL_SECONDS, NewestChange
from monitor.http.limits import ConcurrencyLimit
from monitor.http.server import ApiServer
from monitor.http.snapshots import DifferentSnapshots
from monitor.store.alerts import AlertStore
from monitor.stream.status import Phase, PipelineStatus
from tests.http.keys import Keys
from tests.http.service import RUNNING, api_settings, assert_problem
from tests.http.test_alerts import Alerts
from tests.patience import PATIENCE_SECONDS, eventually
from tests.snapshots import NOW_MS, evidence, evidence_level, report, snapshot, with_evidence


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Alerts]:
    api = api_settings(request_timeout=2 * PATIENCE_SECONDS)
    with closing(Alerts(tmp_path, api=api, max_streams=4, stream_seconds=PATIENCE_SECONDS)) as made:
        yield made


class Listener:
    """A client of the stream."""

    def __init__(self, server: ApiServer, **headers: str) -> None:
        self._client = httpx.Client(base_url=server.url, timeout=PATIENCE_SECONDS, headers=headers)
        self._stream = self._client.stream("GET", "/v1/updates")
        self.answer = self._stream.__enter__()
        self._lines = self.answer.iter_lines()

    def next(self) -> dict[str, Any]:
        """The next event."""
        for line in self._lines:
            if line.startswith("data: "):
                found: dict[str, Any] = json.loads(line.removeprefix("data: "))
                return found
        raise AssertionError("the stream ended")

    def close(self) -> None:
        self._stream.__exit__(None, None, None)
        self._client.close()


def test_an_event_comes_with_each_change(service: Alerts) -> None:
    first = snapshot([report()])
    service.show(first)
    stopping = False
    with ApiServer(service.app(is_stopping=lambda: stopping)) as server, closing(Listener(server)) as listener:
        assert listener.answer.headers["content-type"].startswith("text/event-stream")
        began = listener.next()
        assert began == {"evaluated_at": "2027-01-15T08:00:01.000Z", "evaluation": NOW_MS + 1, "alert": 0}
        service.show(with_evidence(first, {("churn", "7"): evidence(calibration=evidence_level(3.5))}))
        assert listener.next() == {**began, "evaluation": NOW_MS + 2}
        service.fire()
        assert listener.next() == {**began, "evaluation": NOW_MS + 2, "alert": 1}
        stopping = True
        with pytest.raises(AssertionError, match="the stream ended"):
            listener.next()


def test_an_evaluation_without_anything_new_is_no_change() -> None:
    first, count = snapshot([report()]), DifferentSnapshots(0)
    again = replace(first, number=2, models={name: replace(one, evaluated_ms=9) for name, one in first.models.items()})
    new = with_evidence(again, {("churn", "7"): evidence(calibration=evidence_level(3.5))})
    others = [snapshot([report()], number=3), snapshot([report(), report(model="fraud")])]
    assert [count.number(one) for one in (first, first, again, new, new, *others)] == [1, 1, 1, 2, 2, 3, 4]


def test_a_heartbeat_says_when_was_evaluated(service: Alerts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("monitor.http.routes.updates.HEARTBEAT_SECONDS", 0.0)
    service.show(snapshot([report()]))
    with ApiServer(service.app()) as server, closing(Listener(server)) as listener:
        assert listener.next() == listener.next()


def test_streams_are_bounded_together_with_those_of_alerts(service: Alerts) -> None:
    with ApiServer(service.app()) as server, closing(Listener(server)) as one, closing(Listener(server)) as two:
        one.next(), two.next()
        for path in ("/v1/updates", "/v1/alerts/stream"):
            assert_problem(httpx.get(server.url + path), 503, "2 streams of events are open of the 4")


def test_a_caller_with_all_its_streams_leaves_some_to_others(service: Alerts) -> None:
    keys = Keys()
    service.authenticator = keys.authenticator()
    greedy, other = ({"authorization": f"Bearer {keys(role)}"} for role in ("read", "read:churn"))
    with ApiServer(service.app()) as server, closing(Listener(server, **greedy)) as one:
        with closing(Listener(server, **greedy)):
            assert_problem(httpx.get(f"{server.url}/v1/updates", headers=greedy), 503, "2 streams of events are open")
            with closing(Listener(server, **other)) as beside:
                assert beside.next()
                assert_problem(httpx.get(f"{server.url}/v1/updates", headers=other), 503, "3 streams")
        # A place is free once the server has noticed that the stream ended.
        eventually(lambda: closes(Listener(server, **greedy)) == 200)
        assert one.next()


def closes(listener: Listener) -> int:
    """Close a stream; its status."""
    listener.close()
    return listener.answer.status_code


def test_only_alerts_of_readable_models_are_news(service: Alerts) -> None:
    keys = Keys()
    key = keys("read:churn")
    service.authenticator = keys.authenticator(service.clock)
    assert_problem(service.client().get("/v1/updates"), 401)
    with ApiServer(service.app()) as server, closing(Listener(server, authorization=f"Bearer {key}")) as listener:
        assert listener.next()["alert"] == 0
        service.fire("fraud")
        service.fire("churn")
        assert listener.next()["alert"] == 2


def test_all_streams_together_read_the_newest_change_once_in_half_a_second(service: Alerts) -> None:
    queries: list[int] = []

    class Counted(AlertStore):
        def newest_change(self) -> int:
            queries.append(1)
            return super().newest_change()

    async def streams() -> list[int]:
        newest = NewestChange(Counted(service.database), ConcurrencyLimit(8, wait_seconds=10.0))
        first = await asyncio.gather(*(newest.read() for _ in range(100)))
        service.fire()
        await asyncio.sleep(POLL_SECONDS)
        return sorted({*first, *await asyncio.gather(*(newest.read() for _ in range(100)))})

    assert asyncio.run(streams()) == [0, 1]
    assert len(queries) == 2


def test_the_pipeline_says_what_is_read(service: Alerts) -> None:
    lag = {TopicPartition("predictions", 0): 100, TopicPartition("predictions", 1): 20}
    service.pipeline.status = replace(RUNNING, lag=lag, checkpoint_ms=NOW_MS)
    assert service.client().get("/v1/pipeline").json() == {
        "phase": "running",
        "detail": "",
        "partitions": [0, 1],
        "records_behind": 120,
        "saved_at": "2027-01-15T08:00:00.000Z",
    }
    service.pipeline.status = PipelineStatus(phase=Phase.SOURCE_UNAVAILABLE, detail="no broker answers")
    down = service.client().get("/v1/pipeline").json()
    assert (down["phase"], down["detail"]) == ("source_unavailable", "no broker answers")
    assert (down["records_behind"], down["saved_at"]) == (None, None)
