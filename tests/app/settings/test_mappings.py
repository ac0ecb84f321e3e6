"""Ready-made mappings read messages as the documentation of their servers shows them."""

import json
from pathlib import Path
from typing import Any

import pytest

from monitor.app.parts import make_formats
from monitor.app.settings.load import load_settings
from monitor.clock import SystemClock
from monitor.errors import SettingsError
from monitor.events.model import Kind
from monitor.events.presets import load_presets
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


CAPTURED = {
    "captureData": {
        "endpointInput": {
            "observedContentType": "text/csv",
            "mode": "INPUT",
            "data": "69,0,153.7,109,194.0",
            "encoding": "CSV",
        },
        "endpointOutput": {
            "observedContentType": "text/csv; charset=utf-8",
            "mode": "OUTPUT",
            "data": "0.0254181120544672",
            "encoding": "CSV",
        },
    },
    "eventMetadata": {"eventId": "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee", "inferenceTime": "2026-11-20T10:00:00Z"},
    "eventVersion": "0",
}
"""As the developer guide shows it, with another time."""


@pytest.mark.parametrize(
    ("data", "keys", "predictions"),
    [
        ("0.0254181120544672", "", [0.0254181120544672]),
        ("0.25\n0.5\n", "", [0.25, 0.5]),
        ("0.75,0.25\r\n0.5,0.5", "", [0.25, 0.5]),
        ("[0.25, 0.5]", "", [0.25, 0.5]),
        ("[[0.75, 0.25]]", "", [0.25]),
        ('{"predictions": [{"score": 0.25}, {"score": 0.5}]}', "data.predictions[].score", [0.25, 0.5]),
        ("yes,0.25\nno,0.5", "data[][1]", [0.25, 0.5]),
    ],
)
def test_captures_of_sagemaker(tmp_path: Path, data: str, keys: str, predictions: list[float]) -> None:
    """The answer is text within the record: CSV or JSON."""
    file = tmp_path / "monitor.yaml"
    p = f", p: 'captureData.endpointOutput.{keys}'" if keys else ""
    mapping = f"{{preset: sagemaker_capture, model: =churn{p}}}"
    file.write_text(f"source: {{topics: {{predictions: {{name: log, mapping: {mapping}}}}}}}")
    format_ = make_formats(load_settings(file, {}), SystemClock())["log"]
    capture = CAPTURED["captureData"] | {"endpointOutput": {"data": data, "encoding": "CSV"}}  # type: ignore[operator]
    identifier = CAPTURED["eventMetadata"]["eventId"]  # type: ignore[index]
    expected = [
        json.dumps({"model": "churn", "id": f"{identifier}-{row}", "ts": NOW_MS, "p": p}).encode()
        for row, p in enumerate(predictions)
    ]
    message = Message(json.dumps(CAPTURED | {"captureData": capture}).encode())
    decoded = decode(message, default_kind=Kind.PREDICTION, decoder=decoder_of(format_))
    assert [letter.detail for letter in decoded.dead_letters] == []
    assert_same(decoded, decode(*expected, default_kind=Kind.PREDICTION))


def test_a_capture_in_base64_is_refused(tmp_path: Path) -> None:
    """SageMaker writes base64 where CaptureContentTypeHeader does not name the type of the content."""
    file = tmp_path / "monitor.yaml"
    mapping = "{preset: sagemaker_capture, model: =churn}"
    file.write_text(f"source: {{topics: {{predictions: {{name: log, mapping: {mapping}}}}}}}")
    format_ = make_formats(load_settings(file, {}), SystemClock())["log"]
    capture = {"endpointOutput": {"data": "MC4wMjU0MTgx", "encoding": "BASE64"}}
    message = Message(json.dumps(CAPTURED | {"captureData": capture}).encode())
    (letter,) = decode(message, default_kind=Kind.PREDICTION, decoder=decoder_of(format_)).dead_letters
    assert letter.detail == 'row 0: p must be a number in [0, 1], got "MC4wMjU0MTgx"'


def test_a_record_of_bentoml(tmp_path: Path) -> None:
    """That of its documentation, with a column for the probability and one for the id, as docs/mapping.md says."""
    mapping = Path("docs/mapping.md").read_text("utf-8").split("`mapping: ")[1].split("`")[0]
    file = tmp_path / "monitor.yaml"
    file.write_text(f"source: {{topics: {{predictions: {{name: log, mapping: {mapping}}}}}}}")
    format_ = make_formats(load_settings(file, {}), SystemClock())["log"]
    record = {
        "sepal length": 6.3,
        "sepal width": 2.3,
        "petal length": 4.4,
        "petal width": 1.3,
        "pred": "versicolor",
        "timestamp": "2022-11-09T15:31:26.781914",
        "request_id": "10655923893485958044",
    }
    written = record | {"prediction_id": "a1", "churn_probability": 0.25}
    decoded = decode(Message(json.dumps(written).encode()), default_kind=Kind.PREDICTION, decoder=decoder_of(format_))
    expected = {"model": "iris", "id": "a1", "ts": NOW_MS, "p": 0.25}
    assert_same(decoded, decode(json.dumps(expected).encode(), default_kind=Kind.PREDICTION))


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
        SettingsError,
        match=r"preset must be one of kserve_v1, kserve_v2, mlserver, sagemaker_capture, seldon_core_1, got",
    ):
        load_settings(file, {})


def test_the_documentation_lists_them() -> None:
    table = Path("docs/mapping.md").read_text("utf-8").split("## Ready-made mappings")[1]
    assert [line.split("`")[1] for line in table.splitlines() if line.startswith("| `")] == list(load_presets())
