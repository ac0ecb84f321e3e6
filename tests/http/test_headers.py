"""What a browser is told to make of each answer."""

import re

import pytest

from monitor.http.html import content_hashes
from monitor.http.routes.pages import docs_policy
from tests.http.keys import Keys
from tests.http.service import Client, Service
from tests.snapshots import report, snapshot

SERVICE = Service()
SERVICE.show(snapshot([report(window="24h")]))
APP = SERVICE.app()
HTTP = Client(APP)

PAGES = ("/", "/models/churn", "/alerts", "/alerts/al_1", "/recalibrations", "/recalibrations/rc_1", "/docs")
DATA = ("/v1/models", "/v1/models/churn/report", "/v1/reports", "/v1/measures", "/v1/recalibrations", "/v1/audit")


@pytest.mark.parametrize("path", [*PAGES, *DATA, "/metrics", "/healthz", "/openapi.json", "/nothing", "/v1/events"])
def test_every_answer_is_safe_in_a_browser(path: str) -> None:
    headers = HTTP.get(path).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'none'")
    assert "frame-ancestors" in policy
    assert "'unsafe-eval'" not in policy
    assert "'unsafe-inline'" not in policy.replace("style-src 'self' 'unsafe-inline'", "")
    assert "http:" not in policy
    assert "*" not in policy
    assert headers["cache-control"]


def test_what_is_behind_a_key_is_in_no_shared_cache() -> None:
    for path in DATA:
        assert HTTP.get(path).headers["cache-control"] == "private, no-cache", path
    for path in ("/metrics", "/v1/session", "/nothing", "/v1/models?x=1"):
        assert HTTP.get(path).headers["cache-control"] == "no-store", path
    keys = Keys()
    guarded = Service(authenticator=keys.authenticator()).client()
    assert guarded.get("/v1/models").headers["cache-control"] == "no-store"
    posted = HTTP.post("/v1/reports", json={"p": [0.5], "y": [1]})
    assert posted.headers["cache-control"] == "no-store"


def test_files_may_be_kept() -> None:
    asset = HTTP.get("/docs-assets/swagger-ui.css")
    assert "no-store" not in asset.headers.get("cache-control", "")
    assert asset.headers["etag"]


def test_only_https_is_asked_for_again_by_https() -> None:
    assert "strict-transport-security" not in HTTP.get("/").headers
    assert Client(APP, base_url="https://monitor").get("/").headers["strict-transport-security"] == "max-age=31536000"


@pytest.mark.parametrize("path", PAGES)
def test_each_script_of_a_page_is_named_by_its_policy(path: str) -> None:
    answer = HTTP.get(path)
    policy = answer.headers["content-security-policy"]
    # A script in the page itself: an import map, or the start of Swagger UI.
    assert len(re.findall(r"<script(?: type=\"importmap\")?>", answer.text)) == 1
    assert content_hashes(answer.text, "script") in policy
    assert content_hashes(answer.text.replace("</script>", " </script>"), "script") not in policy
    assert docs_policy("<script>1</script>") != docs_policy("<script>2</script>")
