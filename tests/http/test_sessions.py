"""A browser's session: its cookie, and what other sites' pages cannot do with it."""

from http.cookies import SimpleCookie
from typing import Any

import httpx
import pytest

from monitor.access.settings import AccessSettings
from monitor.http.problems import SESSION_COOKIE
from tests.http.keys import Keys
from tests.http.refits import of_this_process
from tests.http.service import Client, Service, assert_problem

KEYS = Keys()
KEY, OTHER_KEY = KEYS("write", "promote"), KEYS("read")
REFITS = of_this_process()
SERVICE = Service(refits=REFITS, access=AccessSettings(failures_per_minute=10**6), stream_seconds=100.0)
SERVICE.authenticator = KEYS.authenticator(SERVICE.clock)
APP = SERVICE.app()
HTTP = Client(APP)
HTTPS = Client(APP, base_url="https://monitor")
REFIT = "/v1/models/churn/recalibrations"


def log_in(client: Client, key: str = KEY, **headers: str) -> httpx.Response:
    return client.post("/v1/session", json={"key": key}, headers=headers)


def cookie_of(answer: httpx.Response) -> Any:
    (header,) = answer.headers.get_list("set-cookie")
    (morsel,) = SimpleCookie(header).values()
    assert morsel.key == SESSION_COOKIE
    return morsel


def with_cookie(method: str, path: str, *, value: str = KEY, **options: Any) -> httpx.Response:
    headers = {"cookie": f"{SESSION_COOKIE}={value}", **options.pop("headers", {})}
    return HTTP.request(method, path, headers=headers, **options)


def test_a_browser_logs_in_and_reads() -> None:
    answer = log_in(HTTP)
    assert (answer.status_code, answer.content) == (204, b"")
    assert answer.headers["cache-control"] == "no-store"
    cookie = cookie_of(answer)
    assert with_cookie("GET", "/v1/session", value=cookie.value).json()["name"] == "key:write promote"
    assert with_cookie("GET", "/v1/models", value=cookie.value).status_code == 200


@pytest.mark.parametrize(
    ("client", "headers", "secure"),
    [
        (HTTP, {}, False),
        (HTTPS, {}, True),
        # https ends in front of the service; what a browser says of its page, no page can say for it.
        (HTTP, {"origin": "https://monitor"}, True),
        (HTTP, {"origin": "http://monitor"}, False),
        (HTTP, {"x-forwarded-proto": "https"}, False),
    ],
)
def test_the_cookie_is_for_this_service_alone(client: Client, headers: dict[str, str], secure: bool) -> None:
    cookie = cookie_of(log_in(client, **headers))
    assert cookie["httponly"] is True
    assert cookie["samesite"] == "Strict"
    assert cookie["path"] == "/"
    assert cookie["domain"] == ""
    assert cookie["max-age"] == ""
    assert bool(cookie["secure"]) == secure


def test_a_wrong_key_makes_no_session_and_is_not_repeated() -> None:
    for key in ("cmk_000000000000_" + "A" * 43, "nonsense", KEY[:-1], "a b; Domain=example.org", "é"):
        answer = log_in(HTTP, key)
        assert_problem(answer, 401)
        assert "set-cookie" not in answer.headers
        assert key not in answer.text
    for body in (b'{"key": 5}', b'"' + KEY.encode() + b'"', b"{", b'{"key": ""}', b'{"key": "' + b"x" * 4000 + b'"}'):
        answer = HTTP.post("/v1/session", content=body, headers={"content-type": "application/json"})
        assert_problem(answer, 422, "key")
        assert KEY not in answer.text
    assert_problem(HTTP.post("/v1/session", data={"key": KEY}), 415)
    assert_problem(HTTP.post(f"/v1/session?key={KEY}", json={"key": KEY}), 422)


def test_log_out_makes_the_browser_forget() -> None:
    answer = HTTP.request("DELETE", "/v1/session", headers={"sec-fetch-site": "same-origin"})
    assert answer.status_code == 204
    cookie = cookie_of(answer)
    assert (cookie.value, cookie["max-age"], cookie["path"]) == ("", "0", "/")


def test_a_session_that_is_over_is_forgotten() -> None:
    answer = with_cookie("GET", "/v1/models", value="cmk_000000000000_" + "A" * 43)
    assert_problem(answer, 401)
    assert cookie_of(answer)["max-age"] == "0"
    # Who sends a wrong key in the header keeps the session that they have.
    answer = with_cookie("GET", "/v1/models", headers={"authorization": "Bearer nonsense"})
    assert_problem(answer, 401)
    assert "set-cookie" not in answer.headers


def test_the_header_stands_before_the_cookie() -> None:
    answer = with_cookie("GET", "/v1/session", headers={"authorization": f"bearer  {OTHER_KEY}"})
    assert answer.json()["name"] == "key:read"
    # A proxy's own log-in is none of ours.
    answer = with_cookie("GET", "/v1/session", headers={"authorization": "Basic dXNlcjpwYXNz"})
    assert answer.json()["name"] == "key:write promote"


OWN = [
    {"sec-fetch-site": "same-origin"},
    {"sec-fetch-site": "same-origin", "origin": "http://monitor"},
    {"origin": "http://monitor"},
    # https ends in front of it.
    {"origin": "https://monitor"},
]

FOREIGN = [
    {},
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site", "origin": "http://evil.monitor"},
    {"sec-fetch-site": "none"},
    {"sec-fetch-site": "cross-site", "origin": "http://monitor"},
    {"origin": "http://evil.example.org"},
    {"origin": "http://monitor.evil.example.org"},
    {"origin": "http://monitor:8000"},
    {"origin": "null"},
    {"origin": ""},
    {"origin": "http://[::1"},
    {"referer": "http://monitor/"},
]


@pytest.mark.parametrize("headers", OWN)
def test_the_services_own_pages_change_things(headers: dict[str, str]) -> None:
    answer = with_cookie("POST", REFIT, json={"promote": False}, headers=headers)
    assert answer.status_code == 202, answer.text
    REFITS.end(answer.json()["id"])
    assert REFITS.store.job(answer.json()["id"]).actor == "key:write promote"


@pytest.mark.parametrize("headers", FOREIGN)
def test_no_other_page_changes_things(headers: dict[str, str]) -> None:
    before = SERVICE.refused.counts["cross_site"]
    for path in (REFIT, "/v1/events", "/v1/models/churn/rollback", "/v1/reports"):
        assert_problem(with_cookie("POST", path, json={}, headers=headers), 403, "Authorization: Bearer")
    assert SERVICE.refused.counts["cross_site"] == before + 4
    assert REFITS.store.jobs("churn", before=None, limit=1)[0].finished_ms is not None
    # With a key in the header it is no session's doing.
    answer = HTTP.post(REFIT, key=KEY, json={"promote": False}, headers=headers)
    assert answer.status_code == 202, answer.text
    REFITS.end(answer.json()["id"])


@pytest.mark.parametrize("media", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_no_form_changes_things(media: str) -> None:
    headers = {"sec-fetch-site": "same-origin", "content-type": media}
    for path in (REFIT, "/v1/events", "/v1/models/churn/rollback"):
        assert_problem(with_cookie("POST", path, content=b"{}", headers=headers), 415)


@pytest.mark.parametrize("headers", [each for each in FOREIGN if each.keys() & {"sec-fetch-site", "origin"}])
def test_no_other_page_logs_anybody_in_or_out(headers: dict[str, str]) -> None:
    answer = log_in(HTTP, **headers)
    assert_problem(answer, 403)
    assert "set-cookie" not in answer.headers
    assert_problem(HTTP.request("DELETE", "/v1/session", headers=headers), 403)


def test_no_other_page_reads_what_is_answered() -> None:
    headers = {"origin": "http://evil.example.org", "access-control-request-method": "POST"}
    for method in ("GET", "OPTIONS"):
        answer = HTTP.request(method, "/v1/models", headers=headers, key=KEY)
        assert not [name for name in answer.headers if name.startswith("access-control-")]


def test_without_access_control_there_is_nothing_to_log_in_to() -> None:
    answer = log_in(Service().client(), "whatever")
    assert answer.status_code == 204
    assert "set-cookie" not in answer.headers
