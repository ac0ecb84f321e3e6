"""No path, header or parameter is a way around access control."""

from urllib.parse import unquote

import anyio
import pytest
from starlette.types import Message

from tests.http.guarded import APP, CLIENT, EVERYTHING, KEYS, MODEL, OTHER
from tests.http.service import assert_problem

PATHS = (
    "//v1/models",
    "/v1//models",
    "/v1/models/",
    "/v1/./models",
    "/v1/models/.",
    "/v1/healthz/../models",
    "/healthz/../v1/models",
    "/healthz/%2e%2e/v1/models",
    "/healthz%2F..%2Fv1%2Fmodels",
    "/v1%2Fmodels",
    "/V1/models",
    "/v1/models;/healthz",
    "/v1/models%00",
    "/v1/models%20",
    "/v1/models?/healthz",
    "/docs-assets/../v1/models",
    "/docs-assets/%2e%2e/%2e%2e/create.py",
    "/docs-assets/..%2f..%2f..%2fcore.py",
    "/v1/models/fraud/report/../../churn/report",
    "/v1/models/fraud%2f..%2fchurn/report",
    "/v1/models/churn%2freport",
    "/v1/models/churn/report/",
    "/v1/models/churn./report",
    "/v1/models/%63hurn/report",
    "/v1/models//churn/report",
    "/metrics/",
    "/%6detrics",
    "/metrics/healthz",
)


@pytest.mark.parametrize("path", PATHS)
def test_no_path_leads_around(path: str) -> None:
    """Whatever the path is made to look like, nothing about the model is told to who may read another."""
    for key in (None, KEYS(f"read:{OTHER}")):
        for method in ("GET", "HEAD"):
            status, body = raw(method, path, key)
            assert status in (401, 404) if key is None else status in (200, 403, 404, 422), body
            assert MODEL not in body or status in (401, 404), body
            assert '"measures"' not in body
            assert "calibration_tce_ratio" not in body


def raw(method: str, path: str, key: str | None) -> tuple[int, str]:
    """Status and body for a path that nobody puts in order on its way: as the server's parser hands it over."""
    before, _, query = path.partition("?")
    headers = [(b"host", b"monitor")] + ([(b"authorization", f"Bearer {key}".encode())] if key else [])
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(before),
        "raw_path": before.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": headers,
        "client": ("192.0.2.1", 4711),
        "server": ("monitor", 80),
    }
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    anyio.run(APP, scope, receive, send)
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent[1:]).decode()


@pytest.mark.parametrize("override", ["x-http-method-override", "x-method-override", "x-original-url", "x-rewrite-url"])
def test_no_header_leads_around(override: str) -> None:
    headers = {override: "/healthz", "x-forwarded-for": "127.0.0.1", "x-forwarded-user": "admin"}
    assert_problem(CLIENT.get("/v1/models", headers=headers), 401)
    assert_problem(CLIENT.get("/v1/models", headers={**headers, override: "GET"}), 401)


def test_a_key_in_the_address_is_none() -> None:
    for query in (f"key={EVERYTHING}", f"access_token={EVERYTHING}", f"authorization=Bearer%20{EVERYTHING}"):
        assert_problem(CLIENT.get(f"/v1/session?{query}"), 401)
