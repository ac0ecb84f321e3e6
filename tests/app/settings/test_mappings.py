"""Ready-made mappings read messages as the documentation of their servers shows them."""

import json
from pathlib import Path
from typing import Any

import pytest

from monitor.app.parts import make_formats
from monitor.app.settings.load import load_settings
from monitor.app.settings.mappings import load_presets
from monitor.clock import SystemClock
from monitor.errors import SettingsError
from monitor.events.model import Kind
from tests.events.messages import CLASSES, NOW_MS, Message, decode
from tests.events.test_avro import assert_same
from tests.events.test_schema_formats import decoder_of

NAME = next(iter(CLASSES))
TIME = "2026-11-20T10:00:00.080736102Z"
PROBABILITIES = [[0.25, 0.5, 0.25], [0.5, 0.25, 0.25]]


def kserve(kind: str) -> dict[str, str]:
    return {
        "ce_specversion": "1.0",
        "ce_type": f"org.kubeflow.serving.inference.{kind}",
        "ce_source": "http://localhost:9081/",
        "ce_id": "0009174a",
        "ce_time": TIME,
        "content-type": "application/json",
        "ce_inferenceservicename": NAME,
        "ce_namespace": "default",
        "ce_endpoint": "",
    }


def seldon(kind: str) -> dict[str, str]:
    return {
        "type": f"io.seldon.serving.{kind}",
        "content-type": "application/json",
        "modelid": "classifier",
        "requestid": "0009174a",
        "inferenceservicename": NAME,
        "namespace": "seldon",
        "endpoint": "default",
        "protocol": "seldon",
    }


def v2(**keys: Any) -> dict[str, Any]:
    flat = [p for row in PROBABILITIES for p in row]
    output = {"name": "predict_proba", "shape": [2, 3], "datatype": "FP64", "parameters": None, "data": flat}
    return {"model_name": NAME, "id": "0009174a", "parameters": None, "outputs": [output], **keys}


REQUEST = {"instances": [[6.8, 2.8, 4.8, 1.4], [6.0, 3.4, 4.5, 1.6]]}
SELDON_REQUEST = {"data": {"ndarray": REQUEST["instances"]}}
SELDON = {"data": {"names": ["t:0", "t:1", "t:2"], "ndarray": PROBABILITIES}, "meta": {}}


@pytest.mark.parametrize(
    ("name", "messages", "has_time", "version"),
    [
        (
            "kserve_v1",
            [(REQUEST, kserve("request")), ({"predictions": PROBABILITIES}, kserve("response"))],
            True,
            None,
        ),
        ("kserve_v2", [(v2(model_version="3"), kserve("response"))], True, "3"),
        ("kserve_v2", [(v2(model_version=None), kserve("response"))], True, None),
        ("mlserver", [(v2(model_version="v0.1.0"), {})], False, "v0.1.0"),
        (
            "seldon_core_1",
            [
                (SELDON_REQUEST, seldon("inference.request")),
                (SELDON, seldon("inference.response")),
                ({"reward": 1}, seldon("feedback")),
            ],
            False,
            None,
        ),
    ],
)
def test_messages_of_servers(
    tmp_path: Path, name: str, messages: list[tuple[Any, dict[str, str]]], has_time: bool, version: str | None
) -> None:
    file = tmp_path / "monitor.yaml"
    file.write_text(f"source: {{topics: {{predictions: {{name: log, mapping: {name}}}}}}}")
    format_ = make_formats(load_settings(file, {}), SystemClock())["log"]
    written = [
        Message(json.dumps(body).encode(), [(key, value.encode()) for key, value in headers.items()])
        for body, headers in messages
    ]
    at_ms = NOW_MS + 80 if has_time else NOW_MS
    expected = [
        json.dumps({"model": NAME, "version": version, "id": f"0009174a-{row}", "ts": at_ms, "p": p}).encode()
        for row, p in enumerate(PROBABILITIES)
    ]
    decoded = decode(*written, default_kind=Kind.PREDICTION, decoder=decoder_of(format_))
    assert_same(decoded, decode(*expected, default_kind=Kind.PREDICTION))
    assert len(decoded.columns) == len(PROBABILITIES)


def test_keys_beside_a_preset_replace_its_own(tmp_path: Path) -> None:
    file = tmp_path / "monitor.yaml"
    mapping = "{preset: kserve_v2, model: =churn, p: 'outputs[1].data[]'}"
    text = f"source: {{topics: {{predictions: {{name: log, mapping: {mapping}}}}}}}"
    file.write_text(text)
    topic = load_settings(file, {}).source.topics.read["predictions"]
    assert topic.mapping is not None
    assert (topic.mapping.model, topic.mapping.p) == ("=churn", ("outputs[1].data[]",))
    assert topic.mapping.id == load_presets()["kserve_v2"]["id"]
    file.write_text(text.replace("kserve_v2", "kserv"))
    with pytest.raises(
        SettingsError, match=r"preset must be one of kserve_v1, kserve_v2, mlserver, seldon_core_1, got"
    ):
        load_settings(file, {})


def test_the_documentation_lists_them() -> None:
    table = Path("docs/mapping.md").read_text("utf-8").split("## Ready-made mappings")[1]
    assert [line.split("`")[1] for line in table.splitlines() if line.startswith("| `")] == list(load_presets())
