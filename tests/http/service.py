"""A whole API on real parts in memory, over ASGI or over a socket."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import httpx
import numpy as np
from fastapi import FastAPI

from monitor.access.model import Authenticator
from monitor.access.settings import AccessSettings
from monitor.clock import ManualClock
from monitor.errors import EvaluationFailed, NoLongerKept, SourceUnavailable, UnknownSeries
from monitor.events.codec import Decoder
from monitor.events.formats.base import Rules
from monitor.events.log import Topics
from monitor.events.model import Kind, Message, ModelPolicy, SeriesKey
from monitor.http.app import create_api
from monitor.http.request_log import RefusedRequests, RequestTraffic
from monitor.http.services import MAX_STREAMS, Services
from monitor.http.settings import ApiSettings
from monitor.metrics.exposition import Exposition
from monitor.metrics.service import http_families, pipeline_families
from monitor.recalibration.service import Recalibrations
from monitor.reports.evaluation.report import Report, ReportKey
from monitor.scores import GridTable
from monitor.store.alerts import AlertStore
from monitor.stream.status import Phase, PipelineStatus
from monitor.windows.contents import Contents
from monitor.windows.evidence_history import EvidenceHistory
from monitor.windows.history import History
from monitor.windows.snapshot import Snapshot
from monitor.windows.windows import Window
from tests.http.refits import nobodys
from tests.snapshots import HOUR_MS, MEASURES, NOW_MS, Evaluations, Pipeline, report, window_families

KEPT_FROM_MS = NOW_MS - 24 * HOUR_MS

BROWSER = {"accept": "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"}

RUNNING = PipelineStatus(phase=Phase.RUNNING, partitions=frozenset({1, 0}))


@dataclass
class Evaluator(Evaluations):
    """Answers from its snapshot; an earlier report is that of now, with the time asked for as its end."""

    windows: Sequence[Window] = (Window("24h", 24 * HOUR_MS), Window("1h", HOUR_MS))

    def predictions(
        self, model: str, version: str | None, segment: str, window: str | None, as_of_ms: int | None
    ) -> tuple[ReportKey, Contents]:
        found = self.report(model, version, segment, window, as_of_ms)
        outcomes = [1] * found.positives + [0] * (found.n - found.positives) + [-1] * (found.predictions - found.n)
        table = GridTable.from_events(np.linspace(0.1, 0.6, found.predictions), outcomes)
        return found.key, Contents(found.from_ms or 0, found.to_ms or 0, table)

    def predictions_between(
        self, model: str, version: str | None, segment: str, from_ms: int, to_ms: int | None = None
    ) -> tuple[SeriesKey, Contents]:
        key, contents = self.predictions(model, version, segment, None, max(from_ms, KEPT_FROM_MS))
        return key.series, contents._replace(from_ms=from_ms, to_ms=NOW_MS if to_ms is None else to_ms)

    def report(self, model: str, version: str | None, segment: str, window: str | None, as_of_ms: int | None) -> Report:
        chosen = version or self.latest.current_version(model) or ""
        key = ReportKey(SeriesKey(model, chosen, segment), window or self.windows[0].name)
        if as_of_ms is not None and as_of_ms < KEPT_FROM_MS:
            raise NoLongerKept(f"predictions are kept since {KEPT_FROM_MS}: ask as of then or later")
        if key in self.latest.failures:
            raise EvaluationFailed(f"the report could not be made: {self.latest.failures[key]}")
        if key not in self.latest.reports:
            raise UnknownSeries(f"no model {model!r}; models are {sorted(self.latest.models)}")
        latest = self.latest.reports[key]
        if as_of_ms is None:
            return latest
        return report(*latest.key.series, latest.window, n=as_of_ms % 1000)


@dataclass
class Log:
    """Keeps what is written; does not answer while ``down``."""

    messages: list[Message] = field(default_factory=list)
    down: bool = False

    def write(self, messages: Sequence[Message]) -> None:
        if self.down:
            raise SourceUnavailable("no broker answers at localhost:9092")
        self.messages.extend(messages)

    def close(self) -> None:
        self.down = True


def api_settings(computations: int = 2, **seconds: float) -> ApiSettings:
    """Settings with times that are shorter than a file may name."""
    times = {name: timedelta(seconds=value) for name, value in seconds.items()}
    return ApiSettings(computations=computations).model_copy(update=times)


@dataclass
class Service:
    """The parts, to be turned by tests, and the app that reads them."""

    evaluator: Evaluator = field(default_factory=Evaluator)
    pipeline: Pipeline = field(default_factory=lambda: Pipeline(RUNNING))
    log: Log = field(default_factory=Log)
    clock: ManualClock = field(default_factory=lambda: ManualClock(NOW_MS))
    policies: dict[str, ModelPolicy] = field(
        default_factory=lambda: {
            name: ModelPolicy(horizon_ms=24 * HOUR_MS, lateness_ms=HOUR_MS, segments=("region",))
            for name in ("churn", "fraud", "org/model")
        }
    )
    topics: Topics = field(
        default_factory=lambda: Topics({"predictions": Kind.PREDICTION, "outcomes": Kind.OUTCOME, "all": None})
    )
    api: ApiSettings = field(default_factory=ApiSettings)
    access: AccessSettings = field(default_factory=AccessSettings)
    stream_seconds: float = 0.0
    """Streams end at once: a client without a socket has an answer when it is complete."""
    max_streams: int = MAX_STREAMS
    alerts: AlertStore | None = None
    """Those of a store in which there is none unless a test brings its own."""
    history: History | None = None
    """That of a store in which there is none unless a test brings its own."""
    evidence_history: EvidenceHistory | None = None
    """That of a store in which there is none unless a test brings its own."""
    refits: Recalibrations | None = None
    """Those of nobody unless a test brings its own."""
    authenticator: Authenticator | None = None
    """Access control is off unless a test brings one."""
    traffic: RequestTraffic = field(default_factory=RequestTraffic)
    refused: RefusedRequests = field(init=False)

    def __post_init__(self) -> None:
        self.refused = RefusedRequests(self.clock)

    def app(self, *folders: Path, **parts: Any) -> FastAPI:
        exposition = Exposition(
            [
                window_families(self.evaluator, MEASURES),
                pipeline_families(lambda: self.pipeline.status),
                http_families(self.traffic.requests, self.traffic.seconds, self.refused.counts),
            ]
        )
        given: dict[str, Any] = {
            "reports": self.evaluator,
            "alerts": self.alerts or AlertStore(nobodys().database.database),
            "history": self.history or History(nobodys().database.database),
            "evidence_history": self.evidence_history or EvidenceHistory(nobodys().database.database),
            "status": lambda: self.pipeline.status,
            "policy": self.policies.get,
            "writer": self.log,
            "topics": self.topics,
            "metrics": exposition.render,
            "declared": tuple(self.policies),
            "clock": self.clock,
            "decoder": lambda: Decoder(Rules(clock=self.clock)),
            "api": self.api,
            "access": self.access,
            "stream_seconds": self.stream_seconds,
            "max_streams": self.max_streams,
            "recalibrations": self.refits or nobodys(),
            "authenticator": self.authenticator,
            "traffic": self.traffic,
            "refused": self.refused,
            "false_alarms_per_year": 1.0,
            "labels": {},
            "roles": ("consume", "evaluate", "serve"),
            "caps": dict,
            "replicas": dict,
            "is_stopping": lambda: False,
        }
        return create_api(Services(**(given | parts)), *folders)

    def client(self, **parts: Any) -> "Client":
        return Client(self.app(**parts))

    def show(self, snapshot: Snapshot) -> None:
        self.evaluator.show(snapshot)


class Client:
    """A client without a socket. An error inside the app is an answer here, as it is over a socket."""

    def __init__(self, app: FastAPI, *, base_url: str = "http://monitor", address: str = "192.0.2.1") -> None:
        self._transport = httpx.ASGITransport(app, raise_app_exceptions=False, client=(address, 4711))
        self._base_url = base_url

    def request(self, method: str, path: str, *, key: str | None = None, **options: Any) -> httpx.Response:
        """Ask once; with ``key`` as the bearer, if there is one."""
        if key is not None:
            options["headers"] = {"authorization": f"Bearer {key}", **options.get("headers", {})}

        async def ask() -> httpx.Response:
            async with httpx.AsyncClient(transport=self._transport, base_url=self._base_url) as client:
                return await client.request(method, path, **options)

        return anyio.run(ask)

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self.request("GET", path, **options)

    def post(self, path: str, **options: Any) -> httpx.Response:
        return self.request("POST", path, **options)


def assert_problem(answer: httpx.Response, status: int, *said: str) -> dict[str, Any]:
    """The answer is problem details of that status, whose detail says all of this."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    body: dict[str, Any] = answer.json()
    assert body["status"] == status
    assert body["type"].startswith("urn:calibration-monitor:problem:")
    assert body["title"]
    assert body["instance"] == answer.request.url.path
    for part in said:
        assert part in body["detail"]
    assert "Traceback" not in answer.text
    return body
