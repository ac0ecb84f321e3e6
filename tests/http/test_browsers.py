"""What a person clicks ends in a page: reports, lists, refits, problems and the log-in."""

from contextlib import closing
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path
from typing import NoReturn

import pytest

from monitor.errors import StoreUnavailable
from monitor.store.model_evidence import EvidenceLevel, Explanation, ModelEvidence, Raised, VersionEvidence
from tests.http.keys import Keys
from tests.http.refits import Refits
from tests.http.service import BROWSER, Client, Service
from tests.snapshots import NOW_MS, report, snapshot
from tests.store.refits import queued

REPORT = "/v1/models/org/model/report?version=7&segment=region%3Deu&window=24h"
DIAGRAMS = "/v1/models/churn/diagrams"


def service() -> Service:
    made = Service()
    made.show(snapshot([report("org/model", segment="region=eu", window="24h"), report("churn", window="24h")]))
    return made


@pytest.fixture(scope="module")
def client() -> Client:
    return service().client()


def test_a_report_is_a_page_for_a_browser_alone(client: Client) -> None:
    seen = client.get(REPORT, headers=BROWSER)
    assert seen.status_code == 303
    # It lies five levels below where the service begins.
    assert seen.headers["location"] == "../../../../reports/org/model?version=7&segment=region%3Deu&window=24h"
    page = client.get("/reports/org/model?version=7&segment=region%3Deu&window=24h", headers=BROWSER)
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    for accept in ({}, {"accept": "*/*"}, {"accept": "application/json"}, {"accept": "application/json, text/html"}):
        answer = client.get(REPORT, headers=accept)
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["vary"] == "Accept"
        assert answer.json()["segment"] == "region=eu"


def test_a_report_of_now_has_the_evidence_on_its_version() -> None:
    made = service()
    shown = made.evaluator.latest
    level = EvidenceLevel(1.0, 5.1, "all", NOW_MS, Raised(NOW_MS, NOW_MS, 7.24, "all", NOW_MS, []))
    shape = Explanation("shape", "Predictions are too sure of themselves.", is_firing=True)
    evidence = ModelEvidence({"7": VersionEvidence(NOW_MS, {"calibration": level}, {"calibration": shape})})
    made.show(replace(shown, models={**shown.models, "churn": replace(shown.models["churn"], evidence=evidence)}))
    document = made.client().get("/v1/models/churn/report").json()
    assert document["evidence"]["words"] == "firing: shape"
    assert document["diagnosis"]["verdict"] == "prior_shift"
    assert made.client().get(f"/v1/models/churn/report?as_of={NOW_MS}").json()["evidence"] is None


@pytest.mark.parametrize(
    ("path", "leads_to"),
    [
        ("/v1/models", "../"),
        ("/v1/reports?model=churn", "../"),
        ("/v1/recalibrations", "../recalibrations"),
        ("/v1/models/churn/recalibrations", "../../../recalibrations"),
    ],
)
def test_lists_lead_to_the_page_that_shows_them(client: Client, path: str, leads_to: str) -> None:
    answer = client.get(path, headers=BROWSER)
    assert (answer.status_code, answer.headers["location"]) == (HTTPStatus.SEE_OTHER, leads_to)
    assert client.get(path).headers["content-type"] in {"application/json", "application/problem+json"}


def test_a_refit_is_a_page_for_a_browser(tmp_path: Path) -> None:
    with closing(Refits(tmp_path)) as refits:
        refits.kept.add_job(queued(1))
        answer = Service(refits=refits).client().get("/v1/recalibrations/rc_1", headers=BROWSER)
    assert (answer.status_code, answer.headers["location"]) == (HTTPStatus.SEE_OTHER, "../../recalibrations/rc_1")


def test_without_a_key_a_browser_gets_a_page_and_a_program_a_problem() -> None:
    keys, guarded = Keys(), service()
    guarded.authenticator = keys.authenticator(guarded.clock)
    client = guarded.client()
    for path in (REPORT, "/v1/models", "/v1/recalibrations/rc_1", "/metrics", "/v1/audit"):
        page = client.get(path, headers=BROWSER)
        assert page.status_code == HTTPStatus.UNAUTHORIZED
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert page.headers["cache-control"] == "no-store"
        assert "<h1>401 Unauthorized</h1>" in page.text
        assert "unsafe-inline" not in page.headers["content-security-policy"]
        assert client.get(path).headers["content-type"] == "application/problem+json"
    assert client.post("/v1/events", headers=BROWSER).headers["content-type"] == "application/problem+json"


def test_what_cannot_be_shown_is_said_on_a_page(client: Client) -> None:
    page = client.get("/v1/models/%3Cscript%3E/diagrams", headers=BROWSER)
    assert page.status_code == HTTPStatus.NOT_FOUND
    assert "no model &#x27;&lt;script&gt;&#x27;; models are" in page.text
    assert "<script>" not in page.text
    assert client.get("/nowhere", headers=BROWSER).text.count("there is no GET /nowhere") == 1


def test_a_failure_is_a_page_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> NoReturn:
        raise StoreUnavailable("the store does not answer {DETAIL}")

    monkeypatch.setattr("tests.http.service.Evaluator.predictions", fail)
    page = service().client().get(DIAGRAMS, headers=BROWSER)
    assert page.status_code == HTTPStatus.SERVICE_UNAVAILABLE
    assert page.headers["retry-after"] == "5"
    assert "the store does not answer {DETAIL}" in page.text

    def crash(*_: object) -> NoReturn:
        raise RuntimeError("secret")

    monkeypatch.setattr("tests.http.service.Evaluator.predictions", crash)
    page = service().client().get(DIAGRAMS, headers=BROWSER)
    assert page.status_code == HTTPStatus.INTERNAL_SERVER_ERROR
    assert "the service failed to answer" in page.text
    assert "secret" not in page.text
