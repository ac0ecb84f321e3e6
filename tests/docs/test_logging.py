"""The code of docs/logging.md runs, in its order, and does what the page says."""

import contextlib
import json
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from tests.docs.test_docs import DOCS, blocks


def test_the_page_runs(tmp_path: Path) -> None:
    *code, middleware, app = blocks(DOCS / "logging.md", "python")
    kafka = 'Kafka("localhost:9092", "predictions", "outcomes")'
    assert kafka in code[0]
    code[0] = code[0].replace(kafka, 'File("events.jsonl")')
    names: dict[str, Any] = {}
    with contextlib.chdir(tmp_path):
        for block in [*code, middleware, app]:
            exec(block, names)
        with TestClient(names["app"]) as client:
            answer = client.post("/score", json={"region": "eu"})
            identifier = answer.headers["x-prediction-id"]
            assert client.post(f"/outcome/{identifier}?y=1").status_code == 200
            assert "x-prediction-id" not in client.get("/docs").headers
        names["predictions"].close()
    written = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text("utf-8").splitlines()]
    assert [event["type"] for event in written] == ["prediction", "outcome", *["prediction"] * 5, "outcome"]
    assert [event["id"] for event in written] == [names["identifier"]] * 2 + ["a1", "a2", "b1", "b2"] + [identifier] * 2
    assert [event["p"] for event in written[4:6]] == names["p"][:, 1].tolist()
    assert written[6]["p"] == answer.json()["p"]
    assert written[6]["segments"] == {"region": "eu"}
