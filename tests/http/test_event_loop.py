"""What goes through a whole snapshot is done beside the event loop, so that probes are answered meanwhile."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from monitor.reports.evaluation.report import Report, ReportKey
from tests.http.service import Service
from tests.snapshots import many_reports, snapshot


class Watched(dict[ReportKey, Report]):
    """Reports that note which threads go through all of them."""

    def __init__(self, reports: dict[ReportKey, Report]) -> None:
        super().__init__(reports)
        self.threads: set[int] = set()

    def __iter__(self) -> Iterator[ReportKey]:
        self.threads.add(threading.get_ident())
        return super().__iter__()

    def values(self) -> Any:
        self.threads.add(threading.get_ident())
        return super().values()

    def items(self) -> Any:
        self.threads.add(threading.get_ident())
        return super().items()


@pytest.fixture
def service() -> Service:
    return Service()


@pytest.fixture
def reports(service: Service) -> Watched:
    made = snapshot(many_reports(60))
    watched = Watched(dict(made.reports))
    made.__dict__["reports"] = watched  # in place of the cached property
    service.show(made)
    return watched


@pytest.mark.parametrize("path", ["/v1/models", "/v1/reports?limit=1000", "/v1/reports?model=model-000", "/metrics"])
def test_no_route_goes_through_a_snapshot_on_the_event_loop(service: Service, reports: Watched, path: str) -> None:
    assert service.client().get(path).status_code == 200
    assert reports.threads
    assert threading.get_ident() not in reports.threads


@pytest.mark.parametrize("path", ["/readyz", "/v1/models/model-000/report?window=24h"])
def test_a_probe_and_a_single_report_go_through_no_snapshot(service: Service, reports: Watched, path: str) -> None:
    assert service.client().get(path).status_code == 200
    assert not reports.threads


def test_the_openapi_document_is_made_once(service: Service) -> None:
    app = service.app()
    first = app.openapi()
    assert "Needs the role" in str(first)
    assert app.openapi() is first
    client = service.client()
    assert client.get("/openapi.json").content == client.get("/openapi.json").content
