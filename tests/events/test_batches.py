"""Messages that hold a batch: each row is what it is as an event of JSON, counted once, and bad rows are named."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.app.parts import make_formats
from monitor.app.settings.load import load_settings
from monitor.clock import SystemClock
from monitor.events.formats.json_schema import make_mapped_json
from monitor.events.mapping import FieldMapping
from monitor.events.model import Kind, Reason
from monitor.stream.partition import Partition, PartitionSettings
from tests.events.messages import NOW_MS, POLICY, Message, batch_of, decode, mapping_of
from tests.events.test_avro import assert_same
from tests.events.test_mapping import JSON
from tests.events.test_schema_formats import decoder_of

MAPPING = mapping_of(
    keys={"model": "=churn", "id": "request", "ts": "$timestamp"},
    p=["scores[].positive"],
    features=["inputs[]"],
    segments={"region": "region"},
    where={"$header.kind": "response"},
)
RESPONSE: dict[str, Any] = {
    "request": "r1",
    "region": "eu",
    "scores": [{"positive": 0.25}, {"positive": 0.5}, {"positive": 0.25}],
    "inputs": [[1.0, 2.0], [3.0, 4.0], [1.0, 2.0]],
}
EVENTS = [
    {"model": "churn", "id": f"r1-{row}", "ts": NOW_MS, "p": p, "features": features, "segments": {"region": "eu"}}
    for row, (p, features) in enumerate([(0.25, [1, 2]), (0.5, [3, 4]), (0.25, [1, 2])])
]


def message(document: Any, kind: bytes = b"response") -> Message:
    return Message(document if isinstance(document, bytes) else json.dumps(document).encode(), [("kind", kind)])


def mapped(*messages: Message, mapping: FieldMapping = MAPPING) -> Any:
    return decode(*messages, default_kind=Kind.PREDICTION, decoder=decoder_of(make_mapped_json(mapping)))


def events(*documents: dict[str, Any]) -> Any:
    return decode(*(json.dumps(document).encode() for document in documents), default_kind=Kind.PREDICTION)


def test_each_row_is_an_event() -> None:
    assert_same(mapped(message(RESPONSE)), events(*EVENTS))


def test_messages_that_are_not_meant_and_empty_batches_hold_no_events() -> None:
    other = message(RESPONSE, b"request")
    empty = message(RESPONSE | {"scores": [], "inputs": []})
    assert_same(mapped(other, message(RESPONSE), empty), events(*EVENTS))


def test_rows_with_ids_of_their_own_keep_them() -> None:
    mapping = mapping_of(keys={"model": "=churn", "id": "rows[].id", "ts": "rows[].at"}, p=["rows[].p"])
    rows: list[dict[str, Any]] = [{"id": "a", "at": NOW_MS, "p": 0.5}, {"id": 7, "at": NOW_MS + 1, "p": 0.25}]
    expected = [{"model": "churn", "id": row["id"], "ts": row["at"], "p": row["p"]} for row in rows]
    assert_same(mapped(message({"rows": rows}), mapping=mapping), events(*expected))


@pytest.mark.parametrize(
    ("shape", "data"),
    [
        ([2, 2], [0.75, 0.25, 0.5, 0.5]),
        ([2, 2], [[0.75, 0.25], [0.5, 0.5]]),
        ([2, 1], [0.25, 0.5]),
        ([2, 1], [[0.25], [0.5]]),
        ([2], [0.25, 0.5]),
        (None, [0.25, 0.5]),
    ],
)
def test_tensors_of_the_open_inference_protocol_are_cut_into_rows(shape: Any, data: Any) -> None:
    mapping = mapping_of(keys={"model": "=churn", "ts": "$timestamp"}, p=["outputs[0].data[]"])
    document = {"id": "t", "outputs": [{"name": "predict_proba", "shape": shape, "datatype": "FP64", "data": data}]}
    expected = [{"model": "churn", "id": f"t-{row}", "ts": NOW_MS, "p": p} for row, p in enumerate((0.25, 0.5))]
    assert_same(mapped(message(document), mapping=mapping), events(*expected))


def test_a_bad_row_is_named_and_the_others_count() -> None:
    scores = [{"positive": 0.25}, {"positive": 1.5}, {}]
    decoded = mapped(message(RESPONSE | {"scores": scores}), message(RESPONSE | {"request": "r2"}))
    assert len(decoded.columns) == 4
    assert [(letter.offset, letter.reason) for letter in decoded.dead_letters] == [
        (0, Reason.INVALID_PREDICTION),
        (0, Reason.MISSING_KEY),
    ]
    assert decoded.dead_letters[0].detail.startswith("row 1: p must be")
    assert decoded.dead_letters[1].detail.startswith("row 2: ")
    assert {letter.value for letter in decoded.dead_letters} == {json.dumps(RESPONSE | {"scores": scores}).encode()}


@pytest.mark.parametrize(
    ("changed", "reason", "detail"),
    [
        ({"inputs": [[1.0]]}, Reason.WRONG_TYPE, "scores[].positive has 3, inputs[] has 1"),
        ({"inputs": None, "scores": 3}, Reason.MISSING_KEY, "none of the lists scores[].positive, inputs[]"),
        ({"request": None}, Reason.MISSING_KEY, "row 0: prediction must have"),
        ({"request": "x" * 10_000}, Reason.INVALID_ID, "row 0: id"),
        ({"request": ["r1"]}, Reason.INVALID_ID, "row 0: id"),
    ],
)
def test_a_message_that_is_no_batch(changed: dict[str, Any], reason: Reason, detail: str) -> None:
    letter = mapped(message(RESPONSE | changed)).dead_letters[0]
    assert letter.reason is reason
    assert detail in letter.detail


@given(st.lists(st.dictionaries(st.sampled_from(list(RESPONSE)), JSON), max_size=4))
def test_rows_of_all_sorts_become_events_or_dead_letters(changes: list[dict[str, Any]]) -> None:
    damaged = [message(RESPONSE | changed) for changed in changes]
    good = message(RESPONSE)
    decoded = mapped(good, *damaged, message(b"\xff"), good)
    rows = Counter(letter.offset for letter in decoded.dead_letters)
    assert rows[len(changes) + 1] == 1
    assert rows[0] == rows[len(changes) + 2] == 0
    assert len(decoded.columns) >= 6


def test_a_partition_counts_rows_once_and_stores_a_message_once() -> None:
    partition = Partition(3, 0, PartitionSettings(lambda _: POLICY, {1000: 60_000}))
    bad = RESPONSE | {"request": "r2", "scores": [{"positive": 2}, {"positive": 3}, {"positive": 1}]}
    batch = batch_of([message(RESPONSE), message(bad), message(RESPONSE)])
    assert partition.apply(batch, decoder_of(make_mapped_json(MAPPING)), Kind.PREDICTION).dead == 1
    counted = partition.event_counters()
    assert counted["prediction", "accepted"] == 4
    assert counted["prediction", "duplicate"] == 3
    assert counted["unknown", "dead_letter"] == 2
    checkpoint = partition.checkpoint()
    assert checkpoint.offsets == {"events": 3}
    (letter,) = checkpoint.dead_letters
    assert letter.detail.startswith("row 0: p must be")
    assert letter.detail.endswith("(and 1 more rows of this message)")


def test_the_example_of_the_documentation(tmp_path: Path) -> None:
    section = Path("docs/mapping.md").read_text("utf-8").split("## Messages that hold a batch")[1]
    document, settings = (section.split(f"```{language}\n")[1].split("```")[0] for language in ("json", "yaml"))
    (tmp_path / "monitor.yaml").write_text(settings)
    format_ = make_formats(load_settings(tmp_path / "monitor.yaml", {}), SystemClock())["inference-log"]
    headers = [
        ("ce_type", b"org.kubeflow.serving.inference.response"),
        ("ce_inferenceservicename", b"churn"),
        ("ce_time", b"2026-11-20T10:00:00Z"),
    ]
    decoded = decode(
        Message(document.encode(), headers),
        Message(b'{"inputs": []}', [("ce_type", b"org.kubeflow.serving.inference.request")]),
        default_kind=Kind.PREDICTION,
        decoder=decoder_of(format_),
    )
    expected = [{"model": "churn", "id": f"9003-{row}", "ts": NOW_MS, "p": p} for row, p in enumerate((0.25, 0.6))]
    assert_same(decoded, events(*expected))
