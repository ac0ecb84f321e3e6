import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import structlog

from monitor.alarms.alarms import Alarms
from monitor.events.times import format_time
from monitor.maps import METHODS
from monitor.maps.artifact import from_bytes, to_json
from monitor.store.alerts import AlertStore
from monitor.store.recalibrations import JobState
from tests.alarms.findings import Script, finding
from tests.http.refits import COMPARISON, FIGURE, VERSIONS, Refits
from tests.http.service import Client, Service, assert_problem

ARROW = "application/vnd.apache.arrow.file"


@pytest.fixture
def refits(tmp_path: Path) -> Iterator[Refits]:
    made = Refits(tmp_path)
    yield made
    made.close()


@pytest.fixture
def client(refits: Refits) -> Client:
    return Service(refits=refits).client()


def ask(
    client: Client, body: dict[str, Any] | None = None, model: str = "churn", *, key: str | None = None
) -> httpx.Response:
    headers = {} if key is None else {"idempotency-key": key}
    return client.post(f"/v1/models/{model}/recalibrations", json=body or {}, headers=headers)


def ended(client: Client, refits: Refits, body: dict[str, Any] | None = None, model: str = "churn") -> str:
    """A candidate; returns its id."""
    return refits.end(ask(client, body, model).json()["id"]).id


def test_a_request_is_queued_and_the_answer_says_where_it_stands(client: Client) -> None:
    answer = ask(client, {"window": "1h30m", "promote": True, "version": 7})
    assert answer.status_code == 202
    job = answer.json()
    assert (job["model"], job["version"], job["state"], job["window"]) == ("churn", "7", "queued", "90m")
    assert (job["promote"], job["trigger"], job["actor"], job["comparison"]) == (True, "request", "anonymous", None)
    assert answer.headers["location"] == job["links"]["self"] == f"/v1/recalibrations/{job['id']}"
    assert client.get(answer.headers["location"]).json() == job


def test_a_refit_is_requested_since_a_time_or_since_what_an_alert_is_about(refits: Refits) -> None:
    store = AlertStore(refits.database.database)
    with refits.database.database.writing() as connection:
        findings = Script(finding(7.2), finding(7.2, model="org/model")).now
        Alarms(refits.database.database, lambda _: False).save(connection, findings.keys(), findings)
    of = {alert.finding.model: alert.id for alert in store.alerts()}
    client = Service(refits=refits, alerts=store).client()
    job = ask(client, {"since": "2026-09-21T14:05:00Z", "window": "1h"}).json()
    assert (job["version"], job["since"], job["window"]) == ("8", "2026-09-21T14:05:00.000Z", "1h")
    refits.end(job["id"])
    # The alert is about the version before the newest.
    job = ask(client, {"alert": of["churn"]}).json()
    assert (job["version"], job["since"], job["window"]) == ("7", format_time(finding(7.2).since_ms), None)
    assert refits.store.job(job["id"]).since_ms == finding(7.2).since_ms
    refits.end(job["id"])
    assert_problem(ask(client, {"alert": of["org/model"]}), 404, "no alert about churn is called")
    assert_problem(ask(client, {"alert": "al_17"}), 404, "no alert is called 'al_17'")
    assert_problem(ask(client, {"alert": of["churn"], "version": 8}), 422, "is about version 7, got 8")
    both = {"alert": of["churn"], "since": "2026-09-21T14:05:00Z"}
    assert_problem(ask(client, both), 422, "leave out since, or alert")


def test_without_a_version_the_newest_is_meant(client: Client) -> None:
    assert ask(client).json()["version"] == "8"
    assert ask(client, {"version": ""}, "org/model").json()["links"]["model"] == "/v1/models/org/model/recalibration"


def test_the_same_key_gives_the_same_refit_and_another_order_under_it_is_refused(client: Client) -> None:
    key = "nightly-2026-11-21"
    first, again = ask(client, key=key), ask(client, key=key)
    assert (first.status_code, again.status_code) == (202, 202)
    assert first.json() == again.json()
    assert "idempotent-replayed" not in first.headers
    assert again.headers["idempotent-replayed"] == "true"
    assert_problem(ask(client, {"window": "7d"}, key=key), 409, "idempotency key", first.json()["id"])


def test_the_same_key_gives_the_same_refit_after_a_newer_version_came(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = ask(client, {"window": "1h"}, key="k")
    monkeypatch.setitem(VERSIONS, "churn", ["7", "8", "9"])
    again = ask(client, {"window": 3600}, key="k")
    assert (again.status_code, again.json()["id"]) == (202, first.json()["id"])
    assert (again.json()["version"], again.headers["idempotent-replayed"]) == ("8", "true")
    # Who names the version asks for something else.
    assert_problem(ask(client, {"window": "1h", "version": 8}, key="k"), 409, "idempotency key", first.json()["id"])
    # Of another model it is another key.
    assert ask(client, {"window": "1h"}, "org/model", key="k").json()["id"] != first.json()["id"]


@pytest.mark.parametrize(
    ("key", "got"),
    [("", "got ''"), ("two words", "'two words'"), ("x" * 256, "got 256 characters"), ("tab\there", "got 'tab")],
)
def test_a_wrong_key_is_named(client: Client, key: str, got: str) -> None:
    assert_problem(ask(client, key=key), 422, "Idempotency-Key must have 1 to 255", "without spaces", got)


def test_of_a_model_one_refit_is_under_way_at_a_time(client: Client, refits: Refits) -> None:
    first = ask(client).json()["id"]
    assert_problem(ask(client), 409, first, "under way")
    assert ask(client, model="org/model").status_code == 202
    refits.end(first, JobState.FAILED, reason="too few events")
    assert ask(client).status_code == 202


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ('{"method": "betta"}', ("there is no recalibration method 'betta'; did you mean beta?",)),
        ('{"method": "identity", "options": {"bins": 3}}', ("identity has no option 'bins'",)),
        ('{"window": "soon"}', ("window must be a duration such as", "'soon'")),
        ('{"window": 0}', ("window must be longer than 0",)),
        ('{"window": -3}', ("window must be between 0",)),
        ('{"window": 1e300}', ("window must be between",)),
        ('{"since": "noon"}', ("since must read like 2026-11-20T10:00:00Z, got noon",)),
        ('{"promote": "yes"}', ("$.promote",)),
        ('{"windows": "7d"}', ("`windows`",)),
        ('{"options": {"a": [1]}}', ("$.options",)),
        ("[]", ("JSON like",)),
        (" ", ("JSON like",)),
    ],
)
def test_wrong_requests_are_named(client: Client, refits: Refits, body: str, said: tuple[str, ...]) -> None:
    answer = client.post(
        "/v1/models/churn/recalibrations", content=body.encode(), headers={"content-type": "application/json"}
    )
    assert_problem(answer, 422, *said)
    assert refits.store.jobs(None, before=None, limit=1) == []


@pytest.mark.parametrize(
    "path",
    [
        "/v1/models/none/recalibrations",
        "/v1/models/none/rollback",
        "/v1/models/none/recalibrate",
        "/v1/recalibrations/rc_9/promotion",
    ],
)
def test_what_is_not_there_is_404(client: Client, path: str) -> None:
    problem = assert_problem(client.post(path, json={"p": []} if path.endswith("recalibrate") else {}), 404)
    assert problem["type"].rpartition(":")[2] in ("unknown-series", "unknown-recalibration")


def test_a_model_of_an_older_version_whose_name_leads_elsewhere_is_404(
    client: Client, refits: Refits, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients and proxies send the path of another model, so that of this one is not answered either."""
    monkeypatch.setitem(VERSIONS, "zz/../churn", ["1"])
    serving = ended(client, refits)
    assert client.post(f"/v1/recalibrations/{serving}/promotion", json={}).status_code == 200
    old = refits.end(refits.request(refits.make_request("zz/../churn"), actor="key:nightly")[0].id).id
    for path in ("rollback", "recalibrations"):
        assert_problem(client.post(f"/v1/models/zz/%2e%2e/churn/{path}", json={}), 404, "no model 'zz/../churn'")
        assert_problem(client.post(f"/v1/models/zz%2F..%2Fchurn/{path}", json={}), 404, "no model 'zz/../churn'")
    assert_problem(client.get(f"/v1/recalibrations/{old}"), 404, f"no refit is called '{old}'")
    assert_problem(client.post(f"/v1/recalibrations/{old}/promotion", json={}), 404, f"no refit is called '{old}'")
    newest = client.get("/v1/recalibrations").json()["recalibrations"][0]
    assert (newest["id"], newest["links"]["model"]) == (old, None)
    assert refits.store.job(serving).state is JobState.CHAMPION
    for page in ("models/", "models/zz%2F..%2Fchurn", "reports/..%2F.."):
        assert client.get(f"/{page}").status_code == 404


@pytest.mark.parametrize("path", ["", "/artifact", "/figures/reliability"])
def test_an_unknown_refit_is_404(client: Client, path: str) -> None:
    problem = assert_problem(client.get(f"/v1/recalibrations/rc_9{path}"), 404, "rc_9")
    assert problem["type"].endswith(":unknown-recalibration")


@pytest.mark.parametrize(
    "path",
    [
        "/v1/models/churn/recalibrations",
        "/v1/models/churn/rollback",
        "/v1/models/churn/recalibrate",
        "/v1/recalibrations/{job}/promotion",
    ],
)
def test_what_any_web_page_may_send_is_refused(client: Client, refits: Refits, path: str) -> None:
    path = path.format(job=ended(client, refits))
    assert_problem(client.post(path, content=b"{}", headers={"content-type": "text/plain"}), 415, "application/json")
    large = client.post(path, content=b" " * 40_000_000, headers={"content-type": "application/json"})
    assert_problem(large, 413, "bytes")


@pytest.mark.parametrize("headers", [{}, {"content-type": "application/json"}])
def test_where_nothing_need_be_said_there_need_be_no_body(
    client: Client, refits: Refits, headers: dict[str, str]
) -> None:
    asked = client.post("/v1/models/churn/recalibrations", headers=headers)
    assert asked.status_code == 202
    job = refits.end(asked.json()["id"]).id
    assert client.post(f"/v1/recalibrations/{job}/promotion", headers=headers).json()["map"] == job
    assert client.post("/v1/models/churn/rollback", headers=headers).json()["map"] is None
    assert [entry.detail["note"] for entry in refits.store.audit(after=0, limit=99, model=None)[-2:]] == ["", ""]


@pytest.mark.parametrize(
    "headers", [{"origin": "https://elsewhere.example"}, {"origin": "null"}, {"sec-fetch-site": "cross-site"}]
)
def test_a_page_of_another_site_cannot_leave_the_body_out(
    client: Client, refits: Refits, headers: dict[str, str]
) -> None:
    job = ended(client, refits)
    refits.promote(job, actor="ada", note="")
    for path in ("/v1/models/churn/recalibrations", "/v1/models/churn/rollback", f"/v1/recalibrations/{job}/promotion"):
        assert_problem(client.post(path, headers=headers), 415, "application/json")
        assert_problem(client.post(path, content=b"{}"), 415, "application/json")
    assert refits.store.job(job).state is JobState.CHAMPION


def test_a_refit_shows_what_became_of_it(client: Client, refits: Refits) -> None:
    asked = ask(client)
    path = asked.headers["location"]
    before = client.get(path)
    assert client.get(path, headers={"If-None-Match": before.headers["etag"]}).status_code == 304
    refits.end(asked.json()["id"], reason="worth a look")
    after = client.get(path, headers={"If-None-Match": before.headers["etag"]})
    assert after.status_code == 200
    job = after.json()
    assert (job["state"], job["progress"], job["reason"], job["comparison"]) == (
        "candidate",
        1.0,
        "worth a look",
        COMPARISON,
    )
    for link in [job["links"]["artifact"], *job["links"]["figures"].values()]:
        assert client.get(link).status_code == 200


def test_a_failed_refit_has_a_reason_and_no_map(client: Client, refits: Refits) -> None:
    asked = ask(client)
    path = asked.headers["location"]
    refits.end(asked.json()["id"], JobState.FAILED, reason="12 labelled events, at least 100 are needed")
    job = client.get(path).json()
    assert (job["reason"], job["links"]["artifact"]) == ("12 labelled events, at least 100 are needed", None)
    assert_problem(client.get(f"{path}/artifact"), 404, "has no map")
    assert_problem(client.post(f"{path}/promotion", json={}), 409, "failed")


def test_refits_come_by_the_page_the_newest_first(client: Client, refits: Refits) -> None:
    assert client.get("/v1/models/churn/recalibrations").json() == {"recalibrations": [], "next_cursor": None}
    made = [refits.end(ask(client).json()["id"]).id for _ in range(5)]
    of_another = ask(client, model="org/model").json()["id"]
    seen: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        page = client.get("/v1/models/churn/recalibrations", params={"limit": 2, "cursor": cursor}).json()
        assert len(page["recalibrations"]) <= 2
        assert all("comparison" not in job for job in page["recalibrations"])
        seen += [job["id"] for job in page["recalibrations"]]
        cursor = page["next_cursor"]
    assert seen == made[::-1]
    everything = client.get("/v1/recalibrations").json()["recalibrations"]
    assert [job["id"] for job in everything] == [of_another, *made[::-1]]


@pytest.mark.parametrize("query", ["cursor=%21", "cursor=e30", "cursor=WyJyY185OSJd", "limit=0", "limit=1001", "x=1"])
def test_wrong_pages_are_refused(client: Client, query: str) -> None:
    assert_problem(client.get(f"/v1/models/churn/recalibrations?{query}"), 422, query.partition("=")[0])
    if query != "cursor=WyJyY185OSJd":
        assert_problem(client.get(f"/v1/audit?{query}"), 422, query.partition("=")[0])


def test_cursors_of_one_list_are_none_of_the_other(client: Client, refits: Refits) -> None:
    for _ in range(2):
        ended(client, refits)
    of_refits = client.get("/v1/models/churn/recalibrations?limit=1").json()["next_cursor"]
    of_audit = client.get("/v1/audit?limit=1").json()["next_cursor"]
    assert_problem(client.get("/v1/audit", params={"cursor": of_refits}), 422, "cursor")
    assert_problem(client.get("/v1/models/churn/recalibrations", params={"cursor": of_audit}), 422, "cursor")


def test_the_artifact_comes_in_two_forms_each_with_its_tag(client: Client, refits: Refits) -> None:
    job = ended(client, refits)
    path = f"/v1/recalibrations/{job}/artifact"
    stored = refits.store.artifact(job)
    arrow = client.get(path)
    assert (arrow.headers["content-type"], arrow.content) == (ARROW, stored.artifact)
    assert arrow.headers["etag"] == f'"{hashlib.sha256(arrow.content).hexdigest()}"'
    assert arrow.headers["vary"] == "Accept"
    assert "immutable" in arrow.headers["cache-control"]
    assert arrow.headers["content-disposition"] == 'attachment; filename="' + job + '.arrow"'
    assert from_bytes(arrow.content).about["id"] == job
    asked = {"accept": "text/html;q=0.9, application/json"}
    as_json = client.get(path, headers=asked)
    assert as_json.json() == json.loads(json.dumps(to_json(stored.artifact)))
    assert as_json.headers["etag"] != arrow.headers["etag"]
    for headers, tag in (({}, arrow.headers["etag"]), (asked, as_json.headers["etag"])):
        assert client.get(path, headers={**headers, "if-none-match": tag}).status_code == 304
    assert client.get(path, headers={**asked, "if-none-match": arrow.headers["etag"]}).status_code == 200


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("", ARROW),
        ("*/*", ARROW),
        ("application/*", ARROW),
        ("application/json", "application/json"),
        ("application/*;q=0.2, application/json;q=0.3", "application/json"),
        (f"{ARROW};q=0, */*", "application/json"),
        (f"application/json;q=1.0, {ARROW};q=1.0", ARROW),
        ("text/html, application/xhtml+xml, */*;q=0.8", ARROW),
        ("image/png", None),
        ("application/json;q=odd", None),
        ("application/json;q=0", None),
        (";;,,=", None),
    ],
)
def test_accept_chooses_the_form(client: Client, refits: Refits, accept: str, form: str | None) -> None:
    job = ended(client, refits)
    answer = client.get(f"/v1/recalibrations/{job}/artifact", headers={"accept": accept})
    if form is None:
        assert_problem(answer, 406, "Accept must allow")
    else:
        assert answer.headers["content-type"] == form


def test_a_figure_is_json_that_never_changes(client: Client, refits: Refits) -> None:
    job = ended(client, refits)
    path = f"/v1/recalibrations/{job}/figures/reliability"
    answer = client.get(path)
    assert (answer.headers["content-type"], answer.content) == ("application/json", FIGURE)
    assert client.get(path, headers={"if-none-match": answer.headers["etag"]}).status_code == 304
    assert_problem(client.get(f"/v1/recalibrations/{job}/figures/none"), 404, "'none'", "it has reliability")


def test_a_candidate_is_promoted_and_rolled_back(client: Client, refits: Refits) -> None:
    one, other = (ended(client, refits, {"version": "7"}) for _ in range(2))
    first = client.post(f"/v1/recalibrations/{one}/promotion", json={"note": "agreed"})
    assert first.status_code == 200
    assert {key: first.json()[key] for key in ("model", "version", "map", "revision")} == {
        "model": "churn",
        "version": "7",
        "map": one,
        "revision": 1,
    }
    assert client.get(first.json()["artifact"]).status_code == 200
    # The second was compared with no map, and a map serves now.
    problem = assert_problem(
        client.post(f"/v1/recalibrations/{other}/promotion", json={}), 409, "compared with no map", one
    )
    assert problem["type"].endswith(":conflict")
    back = client.post("/v1/models/churn/rollback", json={"version": "7", "note": "complaints"}).json()
    assert (back["map"], back["revision"], back["artifact"], back["resolved_alerts"]) == (None, 2, None, [])
    assert_problem(client.post("/v1/models/churn/rollback", json={"version": "7"}), 409, "nothing to roll back")
    notes = {entry.action: entry.detail["note"] for entry in refits.store.audit(after=0, limit=99, model=None)[-4:-1]}
    assert notes == {"promoted": "agreed", "refused": "", "rolled_back": "complaints"}
    assert client.get(f"/v1/recalibrations/{one}").json()["state"] == "rolled_back"
    served = client.get("/v1/models/churn/recalibration", params={"version": "7"}).json()["servings"]
    assert [(serving["revision"], serving["map"]) for serving in served] == [(1, one), (2, None)]
    assert served[0]["from"] <= served[1]["from"]


@pytest.mark.parametrize("state", [JobState.REJECTED, JobState.FAILED, JobState.QUEUED])
def test_nothing_but_a_candidate_is_promoted(client: Client, refits: Refits, state: JobState) -> None:
    path = ask(client).headers["location"]
    if state is not JobState.QUEUED:
        refits.end(path.rpartition("/")[2], state, reason="worse")
    assert_problem(client.post(f"{path}/promotion", json={}), 409, "no candidate")
    assert client.get(path).json()["links"]["promotion"] is None


def test_a_long_note_and_an_unknown_key_are_refused(client: Client, refits: Refits) -> None:
    job = ended(client, refits)
    path = f"/v1/recalibrations/{job}/promotion"
    assert_problem(client.post(path, json={"note": "x" * 2001}), 422, "2000", "2001")
    assert_problem(client.post(path, json={"notes": "x"}), 422, "`notes`")
    assert refits.store.job(job).state is JobState.CANDIDATE


def test_the_audit_trail_comes_by_the_page_the_oldest_first(client: Client, refits: Refits) -> None:
    ended(client, refits, model="org/model")
    job = ended(client, refits)
    client.post(f"/v1/recalibrations/{job}/promotion", json={"note": "agreed"})
    entries: list[dict[str, Any]] = []
    cursor: str | None = ""
    while cursor is not None:
        page = client.get("/v1/audit", params={"limit": 3, "cursor": cursor}).json()
        assert len(page["entries"]) <= 3
        entries += page["entries"]
        cursor = page["next_cursor"]
    numbers = [entry["number"] for entry in entries]
    assert numbers == sorted(set(numbers))
    assert [entry["action"] for entry in entries] == [*("requested", "started", "finished") * 2, "promoted"]
    assert (entries[-1]["subject"], entries[-1]["actor"], entries[-1]["detail"]["note"]) == (job, "anonymous", "agreed")
    of_one = client.get("/v1/audit", params={"model": "org/model"}).json()["entries"]
    assert of_one == [entry for entry in entries if entry["model"] == "org/model"] == entries[:3]


def test_a_map_that_cannot_be_read_is_our_fault_and_says_what_to_do(client: Client, refits: Refits) -> None:
    job = ended(client, refits)
    refits.promote(job, actor="a", note="")
    refits.damage(job)
    with structlog.testing.capture_logs() as logged:
        answer = client.post("/v1/models/churn/recalibrate", json={"p": [0.5]})
        in_json = client.get("/v1/models/churn/map", headers={"accept": "application/json"})
    problem = assert_problem(answer, 500, "roll back", "incident")
    assert problem["type"].endswith(":corrupt-map")
    assert_problem(in_json, 500, "roll back")
    assert logged[0]["incident"] == problem["incident"]


def test_the_methods_are_those_there_are(client: Client) -> None:
    methods = client.get("/v1/recalibration-methods").json()["methods"]
    assert [method["name"] for method in methods] == list(METHODS)
    for method in methods:
        assert [option["name"] for option in method["options"]] == list(METHODS[method["name"]].options)
