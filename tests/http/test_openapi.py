import difflib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import pytest

from monitor.stream.status import PipelineStatus
from tests.http import openapi
from tests.http.refits import Refits
from tests.http.service import Service
from tests.snapshots import NOW_MS, report, snapshot


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    document: dict[str, Any] = Service().client().get("/openapi.json").json()
    return document


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def examples(document: dict[str, Any], content: dict[str, Any]) -> list[Any]:
    """The examples of a body: its own, or those of the schema that it refers to."""
    if "example" in content:
        return [content["example"]]
    if "examples" in content:
        return [each["value"] for each in content["examples"].values()]
    values: list[Any] = []
    for schema in content["schema"].get("oneOf", [content["schema"]]):
        name = schema["$ref"].removeprefix("#/components/schemas/")
        values += document["components"]["schemas"][name]["examples"]
    return values


def check(document: dict[str, Any], schema: dict[str, Any], value: Any) -> None:
    jsonschema.Draft202012Validator({**schema, "components": document["components"]}).validate(value)


def test_the_document_is_the_reviewed_one() -> None:
    """After a change on purpose: ``python -m tests.http.openapi``, and a line in CHANGELOG.md."""
    reviewed = openapi.FILE.read_text(encoding="utf-8")
    difference = difflib.unified_diff(
        reviewed.splitlines(), openapi.current().splitlines(), "openapi.json", "the routes", n=2, lineterm=""
    )
    assert not (lines := list(difference)), "\n".join(lines)


def test_every_operation_has_examples_and_problems(document: dict[str, Any]) -> None:
    for path, method, operation in operations(document):
        assert operation["summary"], (path, method)
        assert "500" in operation["responses"], (path, method)
        for status, response in operation["responses"].items():
            if status in ("204", "303", "304"):
                continue
            (media, content), *_ = response["content"].items()
            assert examples(document, content), (path, method, status)
            assert (media == "application/problem+json") == (int(status) >= 400), (path, method, status)
        for content in operation.get("requestBody", {}).get("content", {}).values():
            assert examples(document, content), (path, method)


def test_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    def references(value: Any) -> Iterator[str]:
        if isinstance(value, dict):
            if isinstance(value.get("$ref"), str):
                yield value["$ref"]
            for each in value.values():
                yield from references(each)
        elif isinstance(value, list):
            for each in value:
                yield from references(each)

    for reference in references(document):
        assert reference.removeprefix("#/components/schemas/") in document["components"]["schemas"], reference


def test_every_example_is_of_its_schema(document: dict[str, Any]) -> None:
    checked = 0
    for _, _, operation in operations(document):
        contents = [
            content for response in operation["responses"].values() for content in response.get("content", {}).values()
        ]
        contents += operation.get("requestBody", {}).get("content", {}).values()
        for content in contents:
            for example in examples(document, content):
                check(document, content["schema"], example)
                checked += 1
    assert checked > 20


def test_every_answer_is_of_its_schema(document: dict[str, Any]) -> None:
    service = Service()
    service.show(snapshot([report(window="24h"), report(model="new", n=0, insufficient="nothing yet")]))
    event = {"type": "prediction", "model": "churn", "id": "a", "ts": NOW_MS, "p": 0.5}
    not_ready = Service()
    not_ready.pipeline.status = PipelineStatus()
    client = service.client()
    answers = [
        ("/v1/models", "get", client.get("/v1/models")),
        ("/v1/models/{model}/report", "get", client.get("/v1/models/churn/report")),
        ("/v1/models/{model}/report", "get", client.get("/v1/models/none/report")),
        ("/v1/models/{model}/report", "get", client.get("/v1/models/churn/report?as_of=1")),
        ("/v1/models/{model}/report", "get", client.get("/v1/models/churn/report?x=1")),
        ("/v1/models/{model}/diagrams", "get", client.get("/v1/models/churn/diagrams")),
        ("/v1/models/{model}/diagrams", "get", client.get("/v1/models/new/diagrams")),
        ("/v1/models/{model}/diagrams", "get", client.get("/v1/models/churn/diagrams?to=5")),
        ("/v1/models/{model}/coverage", "get", client.get("/v1/models/churn/coverage")),
        ("/v1/reports", "get", client.get("/v1/reports")),
        ("/v1/reports", "post", client.post("/v1/reports", json={"p": [0.5, 0.1, 0.9], "y": [1, 0, 1]})),
        ("/v1/reports", "post", client.post("/v1/reports", json={"p": [], "y": []})),
        ("/v1/reports", "post", client.post("/v1/reports", json={"p": [[0.5, 0.3, 0.2]] * 9, "y": [0, 1, 2] * 3})),
        ("/v1/reports", "post", client.post("/v1/reports", content=b"x")),
        ("/v1/events", "post", client.post("/v1/events", json=[event, {}])),
        ("/v1/events", "post", client.post("/v1/events", json={})),
        ("/v1/measures", "get", client.get("/v1/measures")),
        ("/healthz", "get", client.get("/healthz")),
        ("/readyz", "get", client.get("/readyz")),
        ("/readyz", "get", not_ready.client().get("/readyz")),
    ]
    seen = set()
    for path, method, answer in answers:
        response = document["paths"][path][method]["responses"][str(answer.status_code)]
        ((media, content),) = response["content"].items()
        assert answer.headers["content-type"] == media
        check(document, content["schema"], answer.json())
        seen.add((path, answer.status_code))
    assert len(seen) == 17


def test_every_answer_about_refits_is_of_its_schema(document: dict[str, Any], tmp_path: Path) -> None:
    refits = Refits(tmp_path)
    client = Service(refits=refits).client()
    of_model, of_refit = "/v1/models/{model}/", "/v1/recalibrations/{id}"

    def post(path: str, body: dict[str, Any]) -> httpx.Response:
        return client.post(path.replace("{model}", "churn"), json=body)

    def get(path: str) -> httpx.Response:
        return client.get(path.replace("{model}", "churn"))

    asked = post(f"{of_model}recalibrations", {"window": "7d", "version": "7"})
    under_way = get(f"{of_model}recalibration")
    job = refits.end(asked.json()["id"]).id
    path = f"/v1/recalibrations/{job}"
    as_json = {"accept": "application/json"}
    answers = [
        (f"{of_model}recalibrations", "post", asked),
        (f"{of_model}recalibrations", "post", post(f"{of_model}recalibrations", {"x": 1})),
        (f"{of_model}recalibration", "get", under_way),
        (f"{of_model}recalibration", "get", get(f"{of_model}recalibration?version=7")),
        (f"{of_model}recalibrations", "get", get(f"{of_model}recalibrations")),
        ("/v1/recalibrations", "get", get("/v1/recalibrations")),
        (of_refit, "get", get(path)),
        (of_refit, "get", get("/v1/recalibrations/none")),
        (f"{of_refit}/artifact", "get", client.get(f"{path}/artifact", headers=as_json)),
        (f"{of_refit}/artifact", "get", client.get(f"{path}/artifact", headers={"accept": "image/png"})),
        (f"{of_refit}/promotion", "post", post(f"{path}/promotion", {})),
        (f"{of_refit}/promotion", "post", post(f"{path}/promotion", {})),
        (f"{of_model}map", "get", client.get("/v1/models/churn/map?version=7", headers=as_json)),
        (f"{of_model}recalibrate", "post", post(f"{of_model}recalibrate", {"p": [0.5], "version": 7})),
        (f"{of_model}recalibrate", "post", post(f"{of_model}recalibrate", {"p": [0.5]})),
        (f"{of_model}rollback", "post", post(f"{of_model}rollback", {"version": 7})),
        (f"{of_model}rollback", "post", post(f"{of_model}rollback", {"version": 7})),
        ("/v1/recalibration-methods", "get", get("/v1/recalibration-methods")),
        ("/v1/audit", "get", get("/v1/audit")),
    ]
    refits.close()
    seen = set()
    for route, method, answer in answers:
        content = document["paths"][route][method]["responses"][str(answer.status_code)]["content"]
        check(document, content[answer.headers["content-type"]]["schema"], answer.json())
        seen.add((route, answer.status_code))
    assert len(seen) == 17


def test_the_pages_of_docs_need_nothing_from_elsewhere() -> None:
    client = Service().client()
    page = client.get("/docs")
    assert page.status_code == 200
    assert "cdn" not in page.text
    assert "https://" not in page.text
    for asset in ("/docs-assets/swagger-ui-bundle.js", "/docs-assets/swagger-ui.css"):
        assert asset in page.text
        assert client.get(asset).status_code == 200
