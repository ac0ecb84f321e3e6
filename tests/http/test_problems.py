from collections import defaultdict
from collections.abc import AsyncIterator

import anyio
import httpx
import pytest
import structlog

from monitor.errors import MonitorError, StoreUnavailable
from monitor.reports.evaluation.report import Report
from tests.http.service import Service, api_settings, assert_problem
from tests.snapshots import NOW_MS


@pytest.mark.parametrize("path", ["/nothing", "/v1", "/v1/models/", "/v1/models/churn", "/docs-assets/none.js", "/%00"])
def test_an_unknown_path_is_a_problem(path: str) -> None:
    assert_problem(Service().client().get(path), 404, "/docs")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("DELETE", "/v1/models", "GET, HEAD"),
        ("POST", "/metrics", "GET, HEAD"),
        ("PUT", "/v1/reports", "GET, HEAD, POST"),
        ("GET", "/v1/events", "POST"),
        ("POST", "/v1/models/churn/report", "GET, HEAD"),
        ("PATCH", "/", "GET, HEAD"),
    ],
)
def test_a_wrong_method_is_a_problem_that_names_the_right_ones(method: str, path: str, allowed: str) -> None:
    answer = Service().client().request(method, path)
    assert_problem(answer, 405, method, allowed)
    assert answer.headers["allow"] == allowed


def test_every_route_refuses_parameters_that_it_does_not_know() -> None:
    service = Service()
    client = service.client()
    asked = [
        (method.upper(), path)
        for path, operations in service.app().openapi()["paths"].items()
        if path.startswith("/v1/")
        for method in operations
    ]
    assert len(asked) > 30
    for method, path in asked:
        answer = client.request(method, f"{path.format_map(defaultdict(lambda: 'churn'))}?nonsense=1", json={})
        # Who may see an alert or a refit depends on its model, which is looked for first.
        assert (answer.status_code, "nonsense" in answer.text) in {
            (422, True),
            *([(404, False)] if "{id}" in path else []),
        }, path


def test_an_unforeseen_error_is_logged_and_never_shown() -> None:
    def fail(*_: object, **__: object) -> Report:
        raise RuntimeError("the secret of the house")

    with structlog.testing.capture_logs() as logged:
        answer = Service().client(evaluate=fail).post("/v1/reports", json={"p": [0.5], "y": [1]})
    problem = assert_problem(answer, 500, "log")
    assert "secret" not in answer.text
    (entry,) = logged
    assert entry["incident"] == problem["incident"]
    assert entry["path"] == "/v1/reports"
    assert entry["exc_info"]


def test_an_error_of_ours_that_is_no_answer_is_one_of_these() -> None:
    def fail(*_: object, **__: object) -> Report:
        raise MonitorError("tables do not fit")

    with structlog.testing.capture_logs():
        answer = Service().client(evaluate=fail).post("/v1/reports", json={"p": [0.5], "y": [1]})
    assert_problem(answer, 500)


def test_a_store_that_does_not_answer_is_for_later() -> None:
    def fail(*_: object, **__: object) -> Report:
        raise StoreUnavailable("no database at localhost:5432")

    answer = Service().client(evaluate=fail).post("/v1/reports", json={"p": [0.5], "y": [1]})
    assert_problem(answer, 503, "localhost:5432")


def test_a_value_that_is_no_text_is_shown_escaped() -> None:
    answer = Service().client().get("/v1/models/churn/report?wind%ED%A0%80w=%ED%A0%80")
    assert_problem(answer, 422, "no such parameter")


def test_a_body_that_does_not_come_is_waited_for_no_longer_than_the_limit() -> None:
    app = Service(api=api_settings(body_timeout=0.5)).app()

    async def slow() -> AsyncIterator[bytes]:
        yield b"{"
        await anyio.sleep_forever()

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://monitor") as client:
            return await client.post("/v1/reports", content=slow(), headers={"content-type": "application/json"})

    assert_problem(anyio.run(ask), 408, "0.5 seconds", "1 bytes")


def test_too_much_at_once_is_for_later_and_quick_answers_stay_quick() -> None:
    service = Service(api=api_settings(1, turn_timeout=0.05))

    async def ask() -> tuple[httpx.Response, httpx.Response, list[httpx.Response]]:
        entered, released = anyio.Event(), anyio.Event()
        token = anyio.lowlevel.current_token()

        def wait(*_: object, **__: object) -> Report:
            anyio.from_thread.run_sync(entered.set, token=token)
            anyio.from_thread.run(released.wait, token=token)
            raise MonitorError("done")

        transport = httpx.ASGITransport(service.app(evaluate=wait), raise_app_exceptions=False)
        first: list[httpx.Response] = []
        async with httpx.AsyncClient(transport=transport, base_url="http://monitor") as client:

            async def occupy() -> None:
                first.append(await client.post("/v1/reports", json={"p": [0.5], "y": [1]}))

            async with anyio.create_task_group() as group:
                group.start_soon(occupy)
                await entered.wait()
                busy = await client.post("/v1/reports", json={"p": [0.5], "y": [1]})
                quick = await client.get("/healthz")
                released.set()
        return busy, quick, first

    with structlog.testing.capture_logs():
        busy, quick, first = anyio.run(ask)
    assert_problem(busy, 503, "try again")
    assert quick.status_code == 200
    assert first[0].status_code == 500


def test_head_is_get_without_the_body() -> None:
    client = Service().client()
    for path in ("/healthz", "/metrics", "/", "/v1/models", "/docs"):
        head = client.request("HEAD", path)
        assert head.status_code == 200
        assert head.content == b""
        assert head.headers["content-type"] == client.get(path).headers["content-type"]
    assert client.request("HEAD", "/v1/events").status_code == 405


def test_no_browser_guesses_a_type() -> None:
    client = Service().client()
    for path in ("/", "/v1/models", "/nothing", f"/v1/models/churn/report?as_of={NOW_MS}"):
        assert client.get(path).headers["x-content-type-options"] == "nosniff"
