"""Whatever comes in, the answer is 2xx or problem details that blame the caller, and never 5xx."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from monitor.maps import METHODS
from tests.http.refits import of_this_process
from tests.http.service import Service
from tests.long import examples
from tests.maps_of_refits import fitted
from tests.snapshots import NOW_MS, report, snapshot

REFITS = of_this_process()
SERVICE = Service(refits=REFITS)
SERVICE.show(snapshot([report(window="24h")]))
CLIENT = SERVICE.client()
SERVING = REFITS.end(CLIENT.post("/v1/models/churn/recalibrations", json={}).json()["id"], chosen=fitted("lore")).id
CLIENT.post(f"/v1/recalibrations/{SERVING}/promotion", json={})

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from([10**400, -1, 2**63, "é", "\ud800", "churn", "prediction", 0.5, 1])
)
documents = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=8), inner, max_size=5)
)
reports = st.fixed_dictionaries(
    {"p": st.lists(st.floats() | scalars, max_size=6), "y": st.lists(st.sampled_from([0, 1]) | scalars, max_size=6)},
    optional={"weight": st.lists(scalars, max_size=6) | scalars, "model": scalars, "segment": scalars},
)
events = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["prediction", "outcome", "labelled"]) | scalars,
        "model": st.just("churn") | scalars,
        "version": scalars,
        "id": scalars,
        "ts": st.just(NOW_MS) | scalars,
        "p": st.floats(0, 1) | scalars | st.lists(st.floats(), max_size=3),
        "y": st.sampled_from([0, 1]) | scalars,
        "segments": documents,
        "features": documents,
        "specversion": st.sampled_from(["1.0", None]) | scalars,
        "data": documents,
        "data_base64": scalars,
    },
)


refits = st.fixed_dictionaries(
    {},
    optional={
        "method": st.sampled_from(list(METHODS)) | scalars,
        "options": st.dictionaries(st.sampled_from(["bins", "segment", "x"]), scalars, max_size=2) | documents,
        "version": st.sampled_from(["7", 8, ""]) | scalars,
        "window": st.sampled_from(["7d", "1h30m", 3600]) | scalars,
        "promote": st.booleans() | scalars,
        "note": scalars,
    },
)
batches = st.fixed_dictionaries(
    {
        "p": st.lists(st.floats(0, 1) | scalars, max_size=4)
        | st.lists(st.lists(st.floats(0, 1), max_size=3), max_size=3)
    },
    optional={
        "features": st.lists(st.lists(st.floats(), max_size=3) | scalars, max_size=4) | scalars,
        "segments": st.dictionaries(st.sampled_from(["region", "x"]), st.lists(scalars, max_size=4)) | documents,
        "version": scalars,
    },
)

GOTTEN = tuple(
    path.replace("{model}", "churn").replace("{id}", SERVING).replace("{name}", "reliability")
    for path, methods in CLIENT.get("/openapi.json").json()["paths"].items()
    if "get" in methods
)
"""Every route that is there to be read."""

POSTED = (
    "/v1/models/churn/recalibrations",
    "/v1/models/org/model/rollback",
    "/v1/models/churn/recalibrate",
    f"/v1/recalibrations/{SERVING}/promotion",
)


def ask(path: str, content: bytes, media: str = "application/json") -> None:
    answer = CLIENT.post(path, content=content, headers={"content-type": media})
    assert answer.status_code < 500, answer.text
    if answer.status_code >= 400:
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["detail"]


def dump(value: Any) -> bytes:
    """As careless writers do it: NaN and lone surrogates included."""
    return json.dumps(value).encode()


@examples(40, 150)
@given(documents | reports)
def test_any_json_to_reports(value: Any) -> None:
    ask("/v1/reports", dump(value))


@examples(50, 200)
@given(documents | events | st.lists(events, max_size=4))
def test_any_json_to_events(value: Any) -> None:
    ask("/v1/events", dump(value))


@examples(20, 60)
@given(st.lists(documents | events, max_size=4), st.sampled_from(["application/x-ndjson", "application/json"]))
def test_any_lines_to_events(values: list[Any], media: str) -> None:
    ask("/v1/events", b"\n".join(map(dump, values)), media)


@examples(50, 200)
@given(documents | refits, st.sampled_from(POSTED))
def test_any_json_to_refits(value: Any, path: str) -> None:
    ask(path, dump(value))


@examples(40, 150)
@given(documents | batches)
def test_any_json_to_be_recalibrated(value: Any) -> None:
    ask("/v1/models/churn/recalibrate", dump(value))


@examples(20, 60)
@given(
    st.sampled_from(["/v1/reports", "/v1/events", *POSTED]),
    st.binary(max_size=60),
    st.sampled_from(["application/json", "application/x-ndjson", "application/cloudevents+json"]),
)
def test_any_bytes(path: str, content: bytes, media: str) -> None:
    ask(path, content, media)


@examples(30, 100)
@given(
    st.dictionaries(
        st.sampled_from(["version", "segment", "window", "as_of", "limit", "cursor", "model", "x"]),
        st.text(max_size=20) | st.integers().map(str) | st.sampled_from(["24h", "7", "all", "-1"]),
        max_size=4,
    ),
    st.sampled_from(GOTTEN),
)
def test_any_query(query: dict[str, str], path: str) -> None:
    # A lone surrogate cannot be written into a URL.
    query = {key: value.encode("utf-8", "replace").decode() for key, value in query.items()}
    answer = CLIENT.get(path, params=query)
    assert answer.status_code < 500, answer.text


@examples(30, 100)
@given(
    st.sampled_from(
        [f"/v1/recalibrations/{SERVING}/artifact", "/v1/models/churn/map", "/v1/models/churn/recalibrations"]
    ),
    st.sampled_from(["accept", "if-none-match", "idempotency-key", "content-type"]),
    st.text(st.characters(min_codepoint=32, max_codepoint=255), max_size=40),
)
def test_any_header(path: str, name: str, value: str) -> None:
    for method in ("GET", "POST"):
        answer = CLIENT.request(method, path, headers={name: value.strip().encode("latin-1")}, content=b"{}")
        assert answer.status_code < 500, answer.text
