import base64
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from monitor.clock import SystemClock
from monitor.events.codec import Decoder
from monitor.events.formats.base import Rules
from monitor.events.log import Topics
from monitor.events.model import Kind, Message, RecordBatch
from monitor.events.partitions import partitions_of
from monitor.events.strata import Strata
from monitor.http.settings import ApiSettings
from monitor.sources.embedded_log import EmbeddedLog
from tests.http.keys import Keys
from tests.http.service import RUNNING, Client, Service, assert_problem
from tests.snapshots import NOW_MS

PREDICTION = {"type": "prediction", "model": "churn", "version": "7", "id": "7f3a", "ts": NOW_MS, "p": 0.83}
OUTCOME = {"type": "outcome", "model": "churn", "id": "7f3a", "ts": NOW_MS, "y": 1}
LABELLED = {"type": "labelled", "model": "churn", "id": 12, "ts": NOW_MS, "p": 0.1, "y": 0}


@pytest.fixture
def service() -> Service:
    return Service()


@pytest.fixture
def client(service: Service) -> Client:
    return service.client()


def post(client: Client, body: bytes | str, media: str = "application/json", **headers: str) -> Any:
    content = body.encode() if isinstance(body, str) else body
    return client.post("/v1/events", content=content, headers={"content-type": media, **headers})


def test_one_event_is_written_as_it_was_sent_under_its_id(service: Service, client: Client) -> None:
    body = json.dumps(PREDICTION, indent=1)
    answer = post(client, body)
    assert answer.status_code == 202
    assert answer.json() == {"accepted": 1, "rejected": 0, "errors": []}
    (message,) = service.log.messages
    assert message.value == body.encode()
    assert message.key == b"7f3a"
    assert message.topic == "predictions"
    assert message.partition is None


@pytest.mark.parametrize(
    ("media", "body"),
    [
        ("application/json", json.dumps([PREDICTION, OUTCOME, LABELLED])),
        ("application/json", json.dumps([PREDICTION, OUTCOME, LABELLED], indent=2)),
        ("application/json; charset=utf-8", "\n".join(map(json.dumps, [PREDICTION, OUTCOME, LABELLED]))),
        ("application/x-ndjson", "\n".join(map(json.dumps, [PREDICTION, OUTCOME, LABELLED])) + "\n"),
        ("application/jsonl", "\r\n\r\n".join(map(json.dumps, [PREDICTION, OUTCOME, LABELLED]))),
    ],
)
def test_an_array_and_lines_are_several_events(service: Service, client: Client, media: str, body: str) -> None:
    assert post(client, body, media).json() == {"accepted": 3, "rejected": 0, "errors": []}
    assert [json.loads(message.value or b"") for message in service.log.messages] == [PREDICTION, OUTCOME, LABELLED]
    assert [message.topic for message in service.log.messages] == ["predictions", "outcomes", "all"]
    # A prediction and its outcome share the key, and so the number of their partition.
    assert [message.key for message in service.log.messages] == [b"7f3a", b"7f3a", b"12"]


def test_what_is_written_is_what_the_stream_reads(service: Service, client: Client) -> None:
    post(client, json.dumps([PREDICTION, OUTCOME, LABELLED]))

    class Stored:
        def __init__(self, offset: int, value: bytes | None) -> None:
            self.offset, self.value = offset, value
            self.timestamp, self.key, self.headers = NOW_MS, None, ()

    records = [Stored(at, message.value) for at, message in enumerate(service.log.messages)]
    decoded = Decoder(Rules(clock=service.clock)).decode(
        RecordBatch("all", 0, records, 3), Strata(service.policies.get), None
    )
    assert decoded.dead_letters == []
    assert decoded.columns.kind.tolist() == [Kind.PREDICTION, Kind.OUTCOME, Kind.LABELLED]
    assert decoded.columns.id_hash[0].tolist() == decoded.columns.id_hash[1].tolist()


def test_events_of_several_classes_are_checked_as_they_are_declared(service: Service) -> None:
    client = service.client(decoder=lambda: Decoder(Rules(classes={"churn": 3}, clock=service.clock)))
    events = [PREDICTION | {"p": [0.25, 0.5, 0.25]}, OUTCOME | {"y": 2}, OUTCOME | {"y": 3}, PREDICTION]
    answer = post(client, json.dumps(events)).json()
    assert (answer["accepted"], answer["rejected"]) == (2, 2)
    assert [error["index"] for error in answer["errors"]] == [2, 3]
    assert "y must be a class, an integer from 0 to 2, got 3" in answer["errors"][0]["detail"]
    assert [json.loads(message.value or b"") for message in service.log.messages] == events[:2]


def test_valid_events_are_taken_and_the_others_named(service: Service, client: Client) -> None:
    events = [
        PREDICTION,
        OUTCOME | {"y": 2},
        {"type": "prediction", "model": "churn", "ts": NOW_MS, "p": 0.5},
        PREDICTION | {"model": "unheard-of"},
        5,
        OUTCOME,
    ]
    answer = post(client, json.dumps(events))
    assert answer.status_code == 202
    body = answer.json()
    assert (body["accepted"], body["rejected"]) == (2, 4)
    assert [(each["index"], each["reason"]) for each in body["errors"]] == [
        (1, "invalid_outcome"),
        (2, "missing_key"),
        (3, "refused_model"),
        (4, "not_an_object"),
    ]
    details = [each["detail"] for each in body["errors"]]
    assert "y must be 0 or 1" in details[0]
    assert "got 2" in details[0]
    assert "no id" in details[1]
    assert "model 'unheard-of' is not declared" in details[2]
    assert len(service.log.messages) == 2


def test_events_of_a_model_that_their_partition_refuses_are_refused(service: Service) -> None:
    """Partition 0 of 2 takes no more undeclared models, which is the partition of one of the two ids."""
    client = service.client(declared=("digits",))
    service.pipeline.status = replace(RUNNING, partition_count=2, full={0: {"fraud"}})
    ids = [next(number for number in range(9) if partitions_of([b"%d" % number], 2)[0] == at) for at in (0, 1)]
    events = [PREDICTION | {"model": model, "id": id_} for model in ("churn", "fraud") for id_ in ids]
    body = post(client, json.dumps([*events, {}])).json()
    assert (body["accepted"], body["rejected"]) == (3, 2)
    assert [(error["index"], error["reason"]) for error in body["errors"]] == [(0, "refused_model"), (4, "missing_key")]
    assert (
        "model 'churn' is one more than may live in a partition undeclared (caps.models)" in body["errors"][0]["detail"]
    )
    assert_problem(post(client, json.dumps(events[0])), 422, "caps.models")
    assert post(service.client(declared=("churn",)), json.dumps(events[0])).status_code == 202


def test_an_undeclared_model_that_the_key_may_write_is_refused_as_undeclared() -> None:
    keys = Keys()
    service = Service(authenticator=keys.authenticator())
    answer = service.client().post("/v1/events", key=keys("write:unknown"), json=PREDICTION | {"model": "unknown"})
    assert assert_problem(answer, 422, "'unknown' is not declared")["errors"][0]["reason"] == "refused_model"


def test_no_valid_event_is_a_problem_and_nothing_is_written(service: Service, client: Client) -> None:
    problem = assert_problem(
        post(client, json.dumps([OUTCOME | {"y": 2}] * 150)), 422, "150", "y must be 0 or 1", "got 2"
    )
    assert problem["rejected"] == 150
    assert len(problem["errors"]) == 100
    assert service.log.messages == []


def test_an_event_names_its_type(client: Client) -> None:
    event = {key: value for key, value in PREDICTION.items() if key != "type"}
    assert_problem(post(client, json.dumps(event)), 422, "type is missing")


def test_a_time_far_ahead_is_refused_by_the_services_clock(client: Client) -> None:
    problem = assert_problem(post(client, json.dumps(PREDICTION | {"ts": NOW_MS + 3 * 86_400_000})), 422, "ts")
    assert problem["errors"][0]["reason"] == "time_out_of_range"


@pytest.mark.parametrize("body", ["", "  \n ", "[]", "[ ]"])
def test_no_event_at_all_is_a_problem(client: Client, body: str) -> None:
    assert_problem(post(client, body), 422, "no event")


@pytest.mark.parametrize("body", ["[", "[1,", "[{}", "[" * 100_000, b"[\xff]"])
def test_a_torn_array_is_a_problem(client: Client, body: str | bytes) -> None:
    assert_problem(post(client, body), 422)


@pytest.mark.parametrize("body", ["{", '{"type": "predi', b"\xff\xfe", "null", "NaN", "{" * 10_000, "\ufeff{}"])
def test_what_is_no_event_is_a_problem_with_its_reason(client: Client, body: str | bytes) -> None:
    assert assert_problem(post(client, body), 422)["errors"][0]["index"] == 0


def test_topics_of_one_kind_take_their_kind_and_a_mixed_one_the_rest() -> None:
    service = Service(topics=Topics({"events": None}))
    post(service.client(), json.dumps([PREDICTION, OUTCOME, LABELLED]))
    assert {message.topic for message in service.log.messages} == {"events"}
    service = Service(topics=Topics({"outcomes": Kind.OUTCOME, "predictions": Kind.PREDICTION}))
    post(service.client(), json.dumps([PREDICTION, OUTCOME, LABELLED]))
    assert [message.topic for message in service.log.messages] == ["predictions", "outcomes", "outcomes"]


def test_a_structured_cloudevent_is_taken(service: Service, client: Client) -> None:
    data = {key: value for key, value in PREDICTION.items() if key != "type"}
    event = {"specversion": "1.0", "id": "d-1", "source": "/scorer", "type": "com.example.prediction", "data": data}
    assert post(client, json.dumps(event), "application/cloudevents+json").json()["accepted"] == 1
    assert post(client, json.dumps([event, event]), "application/cloudevents-batch+json").json()["accepted"] == 2
    packed = {**event, "data_base64": base64.b64encode(json.dumps(data).encode()).decode()}
    del packed["data"]
    assert post(client, json.dumps(packed)).json()["accepted"] == 1
    assert {message.key for message in service.log.messages} == {b"7f3a"}
    assert {message.topic for message in service.log.messages} == {"predictions"}


def test_a_binary_cloudevent_stays_one_in_the_log(service: Service, client: Client) -> None:
    data = {key: value for key, value in OUTCOME.items() if key not in ("type", "ts")}
    attributes = {
        "ce-specversion": "1.0",
        "ce-id": "d-1",
        "ce-source": "/scorer",
        "ce-type": "com.example.outcome",
        "ce-time": "2027-01-15T08:00:00Z",
    }
    assert post(client, json.dumps(data), **attributes).json()["accepted"] == 1
    (message,) = service.log.messages
    assert ("ce_type", b"com.example.outcome") in message.headers
    assert (message.topic, message.key) == ("outcomes", b"7f3a")


def test_a_log_that_does_not_answer_says_that_sending_again_is_safe(service: Service, client: Client) -> None:
    service.log.down = True
    answer = post(client, json.dumps(PREDICTION))
    assert_problem(answer, 503, "localhost:9092", "again", "changes nothing")
    assert "retry-after" in answer.headers


def test_a_damaged_log_is_unavailable_and_says_where(service: Service, tmp_path: Path) -> None:
    log = EmbeddedLog(tmp_path / "log", partitions=1, clock=SystemClock())
    log.write([Message("predictions", b"x")])
    (segment,) = tmp_path.glob("log/topics/predictions/0/*.log")
    segment.write_bytes(segment.read_bytes() + bytes(range(1, 201)))
    answer = post(service.client(writer=log), json.dumps(PREDICTION))
    assert_problem(answer, 503, str(segment), "is damaged", "put back a copy")


def test_a_form_may_not_write_events(service: Service, client: Client) -> None:
    assert_problem(post(client, json.dumps(PREDICTION), "text/plain"), 415, "application/json", "text/plain")
    assert service.log.messages == []


def test_too_many_bytes_are_refused() -> None:
    service = Service(api=ApiSettings(max_event_bytes=1000))
    assert_problem(post(service.client(), json.dumps([PREDICTION] * 20)), 413, "1000 bytes", "several requests")


@pytest.mark.parametrize("media", ["application/json", "application/x-ndjson"])
def test_too_many_events_are_refused_and_commas_are_no_events(media: str) -> None:
    service = Service(api=ApiSettings(max_events=3))
    odd = PREDICTION | {"id": 'a,"],\\', "more": [[1, {"a": [2, 3]}], "\\"]}

    def body(count: int) -> str:
        events = [json.dumps(odd) for _ in range(count)]
        return f"[{','.join(events)}]" if media == "application/json" else "\n \r\n\n".join(events)

    assert post(service.client(), body(3), media).json()["accepted"] == 3
    problem = assert_problem(post(service.client(), body(4), media), 413, "at most 3 events", "api.max_events")
    assert problem["limit_events"] == 3
    assert len(service.log.messages) == 3


def test_of_many_events_each_keeps_its_place_and_the_first_hundred_errors_are_listed(
    service: Service, client: Client
) -> None:
    """Events are checked in pieces, of which there are several here."""
    ids = range(6_500)
    wrong = [at for at in ids if at % 50 == 3]
    body = json.dumps([PREDICTION | {"id": at} | ({"p": 2} if at in wrong else {}) for at in ids])
    answer = post(client, body).json()
    assert (answer["accepted"], answer["rejected"]) == (6_500 - 130, 130)
    assert [error["index"] for error in answer["errors"]] == wrong[:100]
    assert [json.loads(message.value or b"")["id"] for message in service.log.messages] == [
        at for at in ids if at not in wrong
    ]


def test_an_invented_name_stays_nowhere(service: Service, client: Client) -> None:
    """A caller's names go into an object of the request's own: a thousand versions now, and none is refused later."""
    events = [PREDICTION | {"version": str(at)} for at in range(1000)]
    assert post(client, json.dumps(events)).json()["accepted"] == 1000
