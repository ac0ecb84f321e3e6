"""Every route, as the OpenAPI document lists them: who gets in, and who does not."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from fastapi import APIRouter, FastAPI

from monitor.access.model import Role
from monitor.clock import SimulatedTime
from monitor.events.times import format_time
from monitor.http.authorization import Of, check_declared, needs, public
from tests.http.guarded import ALL, AUTOMATON, CLIENT, EVERYTHING, KEYS, MODEL, OTHER, REFITS, SERVICE, TWO, alert_id
from tests.http.service import Client, Service, assert_problem

PUBLIC = {
    ("GET", "/"),
    ("GET", "/alerts"),
    ("GET", "/alerts/{id}"),
    ("GET", "/models/{model}"),
    ("GET", "/healthz"),
    ("GET", "/readyz"),
    ("GET", "/recalibrations"),
    ("GET", "/recalibrations/{id}"),
    ("GET", "/reports/{model}"),
    ("POST", "/v1/session"),
    ("DELETE", "/v1/session"),
}
"""All that may be had without a key, by name: whoever adds to these does so on purpose."""

BODIES: dict[str, Any] = {
    "/v1/events": {"type": "outcome", "model": MODEL, "id": "a", "ts": 1_790_000_000_000, "y": 1},
    "/v1/reports": {"p": [0.5], "y": [1]},
    "/v1/models/{model}/recalibrate": {"p": [0.5]},
    "/v1/models/{model}/recalibrations": {"promote": False},
}


class Operation(NamedTuple):
    method: str
    path: str
    role: str
    of: str

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


def operations() -> Iterator[Operation]:
    for path, methods in CLIENT.get("/openapi.json").json()["paths"].items():
        for method, operation in methods.items():
            if operation["security"]:
                yield Operation(method.upper(), path, operation["x-required-role"], operation["x-required-of"])


GUARDED = tuple(operations())
OF_ONE_MODEL = tuple(each for each in GUARDED if each.of in ("the model", "the refit's model", "the alert's model"))


@pytest.fixture(scope="module")
def refit() -> str:
    """A refit of the model that is a candidate."""
    asked = CLIENT.post(f"/v1/models/{MODEL}/recalibrations", key=EVERYTHING, json={"promote": False})
    return REFITS.end(asked.json()["id"]).id


def item(operation: Operation, refit: str) -> str:
    """What `{id}` of its path is."""
    return alert_id() if operation.path.startswith("/v1/alerts") else refit


def ask(operation: Operation, refit: str, *, method: str | None = None, **options: Any) -> httpx.Response:
    path = operation.path.replace("{model}", MODEL).replace("{id}", item(operation, refit))
    path = path.replace("{name}", "reliability")
    if operation.method == "POST":
        options.setdefault("json", BODIES.get(operation.path, {}))
    return CLIENT.request(method or operation.method, path, **options)


def forget_refits_under_way() -> None:
    for job in REFITS.store.jobs(None, before=None, limit=1):
        if job.finished_ms is None:
            REFITS.end(job.id)


def test_what_is_public_is_listed_here() -> None:
    document = CLIENT.get("/openapi.json").json()
    open_ = {
        (method.upper(), path)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if not operation["security"]
    }
    assert open_ == PUBLIC
    assert len(GUARDED) > 20


@pytest.mark.parametrize("operation", GUARDED, ids=str)
def test_nobody_gets_in_without_a_key(operation: Operation, refit: str) -> None:
    answer = ask(operation, refit)
    assert_problem(answer, 401, "Authorization: Bearer", "monitor keys create")
    assert answer.headers["www-authenticate"].startswith("Bearer")
    if operation.method == "GET":
        assert ask(operation, refit, method="HEAD").status_code == 401
    assert ask(operation, refit, method="OPTIONS").status_code == 405


@pytest.mark.parametrize("operation", GUARDED, ids=str)
@pytest.mark.parametrize(
    "header",
    [
        "Bearer garbage",
        "Bearer cmk_000000000000_" + "A" * 43,
        "Bearer " + EVERYTHING[:-1] + ("A" if EVERYTHING[-1] != "A" else "B"),
        "Bearer",
        "Basic " + EVERYTHING,
        EVERYTHING,
        "Bearer " + "x" * 9000,
        f"Bearer {EVERYTHING}, Bearer {EVERYTHING}",
    ],
    ids=["garbage", "unknown", "forged", "empty", "basic", "bare", "long", "two"],
)
def test_nobody_gets_in_with_a_wrong_key(operation: Operation, header: str, refit: str) -> None:
    answer = ask(operation, refit, headers={"authorization": header})
    assert_problem(answer, 401)
    assert EVERYTHING not in answer.text
    assert "key:" not in answer.text


@pytest.mark.parametrize("operation", GUARDED, ids=str)
def test_roles_open_what_they_are_for_and_no_more(operation: Operation, refit: str) -> None:
    for role in ALL:
        suffices = operation.role in (role, "read")
        answer = ask(operation, refit, key=KEYS(role))
        assert (answer.status_code not in (401, 403)) == suffices, (role, answer.text)
        if suffices:
            assert answer.status_code < 500
            # 409: it was done for the role before.
            assert answer.status_code < 400 or answer.status_code == 409, (role, answer.text)
        else:
            assert_problem(answer, 403, f"role {operation.role}", f"key:{role} holds {role}")
        forget_refits_under_way()


@pytest.mark.parametrize("operation", OF_ONE_MODEL, ids=str)
def test_a_role_for_the_model_opens_its_routes(operation: Operation, refit: str) -> None:
    answer = ask(operation, refit, key=KEYS(f"{operation.role}:{MODEL}"))
    assert answer.status_code < 400 or answer.status_code == 409, answer.text
    forget_refits_under_way()
    if operation.role != "read":
        assert_problem(ask(operation, refit, key=KEYS(f"read:{MODEL}")), 403, f"role {operation.role}", MODEL)


@pytest.mark.parametrize("operation", OF_ONE_MODEL, ids=str)
def test_a_role_for_another_model_finds_nothing(operation: Operation, refit: str) -> None:
    path = operation.path.replace("{name}", "reliability")
    for role in ALL:
        hidden = ask(operation, refit, key=KEYS(f"{role}:{OTHER}"))
        absent = CLIENT.request(
            operation.method,
            path.replace("{model}", "ghost").replace("{id}", "rc_ghost"),
            key=KEYS(f"{role}:{OTHER}"),
            **({"json": BODIES.get(operation.path, {})} if operation.method == "POST" else {}),
        )
        # Word for word as where there is none.
        problems = [assert_problem(answer, 404) for answer in (hidden, absent)]
        words = [problem["detail"].replace(MODEL, "ghost") for problem in problems]
        words[0] = words[0].replace(item(operation, refit), "rc_ghost")
        assert words[0] == words[1]
        assert problems[0]["type"] == problems[1]["type"]
        assert OTHER not in hidden.text
        assert set(hidden.headers) == set(absent.headers)


def test_what_concerns_all_models_takes_a_role_for_all() -> None:
    for path in ("/metrics", "/v1/audit"):
        assert CLIENT.get(path, key=KEYS("read")).status_code == 200
        assert_problem(CLIENT.get(path, key=KEYS(f"promote:{MODEL}")), 403, "all models")


def test_the_audit_of_a_model_takes_reading_it(refit: str) -> None:
    path = f"/v1/audit?model={MODEL}"
    shown = CLIENT.get(path, key=KEYS(f"read:{MODEL}")).json()["entries"]
    assert refit in {entry["subject"] for entry in shown}
    assert_problem(CLIENT.get(path, key=KEYS(f"read:{OTHER}")), 404)
    # The value that counts is the one that is asked about.
    twice = CLIENT.get(f"/v1/audit?model={OTHER}&model={MODEL}", key=KEYS(f"read:{OTHER}"))
    assert twice.status_code in (404, 422), twice.text
    other = CLIENT.get(f"/v1/audit?model={MODEL}&model={OTHER}", key=KEYS(f"read:{OTHER}"))
    assert MODEL not in other.text


def test_lists_hold_what_may_be_read(refit: str) -> None:
    for model, others in ((MODEL, OTHER), (OTHER, MODEL)):
        key = KEYS(f"read:{model}")
        models = CLIENT.get("/v1/models", key=key).json()["models"]
        assert [each["model"] for each in models] == [model]
        reports = CLIENT.get("/v1/reports", key=key).json()
        assert {each["model"] for each in reports["reports"]} == {model}
        assert CLIENT.get(f"/v1/reports?model={others}", key=key).json()["reports"] == []
        refits = CLIENT.get("/v1/recalibrations", key=key).json()["recalibrations"]
        assert {each["model"] for each in refits} == ({MODEL} if model == MODEL else set())
    whole = CLIENT.get("/v1/models", key=KEYS("read")).json()["models"]
    assert {each["model"] for each in whole} >= {MODEL, OTHER}
    assert [each["model"] for each in CLIENT.get("/v1/models", key=KEYS("read:ghost")).json()["models"]] == []
    assert refit in {each["id"] for each in CLIENT.get("/v1/recalibrations", key=EVERYTHING).json()["recalibrations"]}


def test_several_models_make_one_list_in_one_order(refit: str) -> None:
    for model in ("org/model", MODEL):
        asked = CLIENT.post(f"/v1/models/{model}/recalibrations", key=EVERYTHING, json={"promote": False})
        REFITS.end(asked.json()["id"])
    whole = CLIENT.get("/v1/recalibrations", key=EVERYTHING).json()["recalibrations"]
    key = TWO
    seen: list[str] = []
    cursor = ""
    while True:
        page = CLIENT.get(f"/v1/recalibrations?limit=1&cursor={cursor}", key=key).json()
        seen += [each["id"] for each in page["recalibrations"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert seen == [each["id"] for each in whole]
    assert refit in seen


def test_a_cursor_finds_out_nothing(refit: str) -> None:
    first = CLIENT.get("/v1/recalibrations?limit=1", key=EVERYTHING).json()
    cursor = first["next_cursor"]
    hidden = CLIENT.get(f"/v1/recalibrations?cursor={cursor}", key=KEYS(f"read:{OTHER}"))
    absent = CLIENT.get("/v1/recalibrations?cursor=WyJyY19naG9zdCJd", key=KEYS(f"read:{OTHER}"))
    details = [re.sub(r"'[^']*'", "", assert_problem(answer, 422)["detail"]) for answer in (hidden, absent)]
    assert details[0] == details[1]
    assert refit not in hidden.text


def test_who_may_read_one_model_is_told_of_no_others() -> None:
    answer = CLIENT.get("/v1/models/ghost/report", key=KEYS("read:ghost"))
    assert_problem(answer, 404, "ghost")


def test_events_are_written_for_the_models_that_one_may_write() -> None:
    def event(model: str, **more: Any) -> dict[str, Any]:
        return {"type": "outcome", "model": model, "id": "a", "ts": 1_790_000_000_000, "y": 1, **more}

    key = KEYS(f"write:{MODEL}")
    before = len(SERVICE.log.messages)
    sent = [event(MODEL), event(OTHER), event(MODEL, y=2), event("nobodys")]
    answer = CLIENT.post("/v1/events", key=key, json=sent)
    assert answer.status_code == 202
    body = answer.json()
    assert (body["accepted"], body["rejected"]) == (1, 3)
    assert [error["index"] for error in body["errors"]] == [1, 2, 3]
    reasons = [error["reason"] for error in body["errors"]]
    assert reasons == ["forbidden_model", "invalid_outcome", "forbidden_model"]
    # Word for word the same, whether there is such a model or not.
    assert body["errors"][0]["detail"].replace(OTHER, "nobodys") == body["errors"][2]["detail"]
    assert [message.value for message in SERVICE.log.messages[before:]] == [
        httpx.Request("POST", "http://x", json=[event(MODEL)]).content[1:-1]
    ]
    counted = SERVICE.refused.counts["forbidden"]
    assert_problem(CLIENT.post("/v1/events", key=key, json=event(OTHER)), 403, OTHER, "write")
    assert SERVICE.refused.counts["forbidden"] == counted + 1
    assert_problem(CLIENT.post("/v1/events", key=KEYS(f"promote:{MODEL}"), json=event(MODEL)), 403, "write")
    assert len(SERVICE.log.messages) == before + 1


FRAUD = b'{"model": "fraud", "type": "outcome", "id": "a", "ts": 1790000000000, "y": 1}'


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (b'{"model": "churn", "model": "fraud", "type": "outcome", "id": "a", "ts": 1790000000000, "y": 1}', {}),
        (
            b'{"specversion": "1.0", "id": "a", "source": "s", "type": "t", "model": "churn", "data": %s}' % FRAUD,
            {"content-type": "application/cloudevents+json"},
        ),
        (
            FRAUD,
            {"ce-specversion": "1.0", "ce-id": "a", "ce-source": "s", "ce-type": "t", "ce-model": "churn"},
        ),
    ],
    ids=["twice", "structured", "binary"],
)
def test_an_event_is_of_the_model_that_the_stream_takes_it_for(body: bytes, headers: dict[str, str]) -> None:
    before = len(SERVICE.log.messages)
    headers = {"content-type": "application/json", **headers}
    answer = CLIENT.post("/v1/events", key=KEYS(f"write:{MODEL}"), content=body, headers=headers)
    assert answer.status_code in (403, 422), answer.text
    assert len(SERVICE.log.messages) == before
    assert CLIENT.post("/v1/events", key=KEYS(f"write:{OTHER}"), content=body, headers=headers).status_code == 202


def test_a_refit_that_promotes_by_itself_takes_promote() -> None:
    path = f"/v1/models/{MODEL}/recalibrations"
    refused = CLIENT.post(path, key=KEYS("write"), json={"promote": True})
    assert_problem(refused, 403, "role promote")
    assert_problem(CLIENT.post(path, key=KEYS("promote"), json={"promote": True}), 403, "role write")
    taken = CLIENT.post(path, key=AUTOMATON, json={"promote": True})
    assert taken.status_code == 202, taken.text
    REFITS.end(taken.json()["id"])


def test_the_audit_trail_names_the_key(refit: str) -> None:
    asked = CLIENT.post(f"/v1/models/{MODEL}/recalibrations", key=KEYS(f"write:{MODEL}"), json={}).json()
    assert asked["actor"] == f"key:write:{MODEL}"
    REFITS.end(asked["id"])
    entries = CLIENT.get("/v1/audit?limit=1000", key=KEYS("read")).json()["entries"]
    (entry,) = [each for each in entries if each["subject"] == asked["id"] and each["action"] == "requested"]
    assert entry["actor"] == f"key:write:{MODEL}"
    assert refit


def test_who_asks_may_ask_who_they_are() -> None:
    answer = CLIENT.get("/v1/session", key=TWO)
    assert answer.json() == {
        "name": "key:read:churn write:org/model",
        "roles": ["read:churn", "write:org/model"],
        "simulated_now": None,
        "simulation": None,
    }
    assert Service().client().get("/v1/session").json()["name"] == "anonymous"


def test_a_session_says_where_a_simulation_is() -> None:
    service = Service()
    simulated = SimulatedTime(service.clock.now_ms() - 5_000, 1_793_304_000_000 - 600_000, 120.0)
    answer = service.client(simulation=lambda: simulated).get("/v1/session").json()
    assert answer["simulated_now"] == "2026-10-29T20:00:00.000Z"
    began_at = format_time(simulated.began_ms)
    assert answer["simulation"] == {"began_at": began_at, "start": "2026-10-29T19:50:00.000Z", "speed": 120.0}


async def nothing() -> None:
    """Answer null."""


def test_a_route_that_declares_nothing_is_refused() -> None:
    def made(**options: Any) -> FastAPI:
        app, router = FastAPI(openapi_url=None, docs_url=None, redoc_url=None), APIRouter()
        router.get("/v1/secret", **options)(nothing)
        app.include_router(router)
        return app

    with pytest.raises(ValueError, match=r"GET /v1/secret declares no role"):
        check_declared(made(), static=())
    with pytest.raises(ValueError, match=r"GET /v1/secret declares no role"):
        check_declared(made(dependencies=[public(), needs(Role.READ, Of.ANY)]), static=())
    check_declared(made(dependencies=[public()]), static=())
    check_declared(made(dependencies=[needs(Role.READ, Of.ANY)]), static=())
    mounted = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    mounted.mount("/files", made(dependencies=[public()]))
    with pytest.raises(ValueError, match="/files declares no role"):
        check_declared(mounted, static=())


def test_a_file_in_a_folder_is_a_route_and_must_declare_a_role(tmp_path: Path) -> None:
    source = """
from fastapi import APIRouter
from monitor.http.authorization import public

router = APIRouter()

@router.get("/v1/extra", dependencies=[{declared}])
async def extra() -> dict[str, int]:
    return {{"answer": 42}}
"""
    (tmp_path / "extra.py").write_text(source.format(declared="public()"))
    client = Client(Service().app(tmp_path))
    assert client.get("/v1/extra").json() == {"answer": 42}
    (tmp_path / "open.py").write_text(source.format(declared=""))
    with pytest.raises(ValueError, match=r"GET /v1/extra declares no role"):
        Service().app(tmp_path)


def test_with_access_control_off_everybody_may() -> None:
    client = Service().client()
    assert client.get("/v1/models").status_code == 200
    assert client.get("/metrics").status_code == 200
