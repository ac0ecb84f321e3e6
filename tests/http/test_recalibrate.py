import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from monitor.maps import RecalibrationMap, apply_map
from monitor.maps.artifact import from_bytes, to_json
from monitor.recalibration.comparison import LiveComparison
from monitor.store.recalibrations import StoredMap
from tests.http.refits import Refits
from tests.http.service import Client, Service, assert_problem
from tests.live_states import document
from tests.maps_of_refits import fitted, of_classes

P = [0.1, 0.5, 0.9]


class Counting(Refits):
    """Counts how often a whole map is read."""

    read = 0

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        artifact = self.store.artifact

        def count(map_id: str) -> StoredMap:
            self.read += 1
            return artifact(map_id)

        self.store.artifact = count  # type: ignore[method-assign]


@pytest.fixture
def refits(tmp_path: Path) -> Iterator[Counting]:
    made = Counting(tmp_path)
    yield made
    made.close()


@pytest.fixture
def client(refits: Refits) -> Client:
    return Service(refits=refits).client()


def serve(client: Client, refits: Refits, chosen: RecalibrationMap, model: str = "churn", **wanted: str) -> str:
    """Let a map serve; returns its id."""
    job = str(client.post(f"/v1/models/{model}/recalibrations", json=wanted).json()["id"])
    refits.end(job, chosen=chosen)
    assert client.post(f"/v1/recalibrations/{job}/promotion", json={}).status_code == 200
    return job


def apply(client: Client, body: dict[str, Any], model: str = "churn") -> httpx.Response:
    return client.post(f"/v1/models/{model}/recalibrate", json=body)


def test_without_a_map_predictions_are_as_they_were_and_the_answer_says_so(client: Client) -> None:
    assert apply(client, {"p": P}).json() == {
        "model": "churn",
        "version": "8",
        "map": None,
        "p": P,
        "note": "no map serves churn 8: predictions are as they were sent",
    }


def test_predictions_are_those_of_the_map_that_serves(client: Client, refits: Refits) -> None:
    chosen = fitted("beta")
    job = serve(client, refits, chosen)
    answer = apply(client, {"p": P, "version": 8}).json()
    assert (answer["map"], answer["note"]) == (job, None)
    assert answer["p"] == apply_map(chosen, P).tolist()
    assert answer["p"] != P
    assert apply(client, {"p": P, "version": "7"}).json()["map"] is None


def test_an_empty_batch_is_an_empty_answer(client: Client, refits: Refits) -> None:
    assert apply(client, {"p": []}).json()["p"] == []
    assert apply(client, {"p": [], "features": [], "segments": {"region": []}}).json()["p"] == []
    for chosen in (fitted("beta"), fitted("lore"), fitted("group_wise_platt", segment="region"), of_classes()):
        job = serve(client, refits, chosen)
        every: list[dict[str, Any]] = [{}, {"features": []}, {"segments": {"region": []}}]
        for others in every:
            answer = apply(client, {"p": [], **others})
            assert (answer.status_code, answer.json()["p"], answer.json()["map"]) == (200, [], job)


def test_an_empty_batch_with_features_is_refused(client: Client, refits: Refits) -> None:
    serve(client, refits, fitted("lore"))
    assert_problem(apply(client, {"p": [], "features": [[1.0, 2.0]]}), 422, "(0, 2)", "(1, 2)")


@pytest.mark.parametrize("p", [[0.5, [0.2, 0.8]], [[0.5], [0.2, 0.3]]])
def test_uneven_predictions_are_refused_in_plain_words(client: Client, refits: Refits, p: list[Any]) -> None:
    for _ in range(2):
        refused = assert_problem(apply(client, {"p": p, "features": [[1, 2], [1, 2]]}), 422)
        assert refused["detail"] == "p must be numbers, or lists of numbers that are equally long"
        serve(client, refits, fitted("lore"))


def test_a_refusal_names_the_map(client: Client, refits: Refits) -> None:
    job = serve(client, refits, fitted("lore"))
    features: list[list[list[float]] | None] = [None, [[1.0]] * 3]
    for each in features:
        assert_problem(apply(client, {"p": P, "features": each}), 422, f"map {job} of model churn: ", "2")
    assert_problem(apply(client, {"p": [1.5], "features": [[1.0, 2.0]]}), 422, f"map {job} of model churn: ", "1.5")


def test_class_probabilities_are_recalibrated_as_vectors(client: Client, refits: Refits) -> None:
    chosen = of_classes()
    serve(client, refits, chosen)
    p = [[0.7, 0.2, 0.1], [0.1, 0.1, 0.8]]
    assert apply(client, {"p": p}).json()["p"] == apply_map(chosen, p).tolist()
    assert_problem(apply(client, {"p": P}), 422)


def test_segments_choose_the_group(client: Client, refits: Refits) -> None:
    chosen = fitted("group_wise_platt", segment="region")
    serve(client, refits, chosen)
    segments = {"region": ["eu", "us", None], "plan": [1, True, "x"]}
    answer = apply(client, {"p": [0.5, 0.5, 0.5], "segments": segments}).json()
    expected = apply_map(chosen, [0.5, 0.5, 0.5], segments={"region": ["eu", "us", ""]})
    assert answer["p"] == expected.tolist()
    assert len(set(answer["p"])) == 3
    assert_problem(apply(client, {"p": [0.5]}), 422, "'region'")
    assert_problem(apply(client, {"p": [0.5], "segments": {"region": []}}), 422, "region")


def test_features_come_as_numbers_or_packed(client: Client, refits: Refits) -> None:
    chosen = fitted("lore")
    serve(client, refits, chosen)
    rows = np.random.default_rng(1).normal(0.0, 1.0, (3, 2)).astype(np.float32)
    packed = [base64.b64encode(row.astype("<f4").tobytes()).decode() for row in rows]
    expected = apply_map(chosen, P, features=rows).tolist()
    assert apply(client, {"p": P, "features": rows.tolist()}).json()["p"] == expected
    assert apply(client, {"p": P, "features": packed}).json()["p"] == expected
    mixed: list[Any] = [packed[0], rows[1].tolist(), packed[2]]
    assert apply(client, {"p": P, "features": mixed}).json()["p"] == expected
    assert_problem(apply(client, {"p": P}), 422, "2 features")
    assert_problem(apply(client, {"p": P, "features": [[1.0, 2.0, 3.0]] * 3}), 422, "(3, 2)")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ('{"p": [1.5]}', ("prediction must be in [0, 1]", "1.5")),
        ('{"p": [0.5], "features": [[1], [2, 3]]}', ("equally many", "at index 0", "at 1")),
        ('{"p": [0.5, 0.5], "features": [[1], null]}', ("got none at index 1",)),
        ('{"p": [0.5], "features": [[1e60]]}', ("finite", "at index 0")),
        ('{"p": [0.5], "features": ["AAA="]}', ("4 bytes", "at index 0")),
        ('{"p": [0.5], "features": ["?"]}', ("base64", "at index 0")),
        ('{"p": [0.5], "segments": {"region": [0.5]}}', ("$.segments",)),
        ('{"p": [0.5], "segment": {}}', ("`segment`",)),
        ('{"p": [[0.5, 0.6]]}', ("1.1",)),
        ('{"p": [[0.5, 0.5], 0.5]}', ()),
        ('{"p": [NaN]}', ("JSON",)),
        ('{"p": "high"}', ("$.p",)),
        ("{}", ("`p`",)),
        ("", ()),
        ("\xff", ()),
        ("[" * 100_000, ()),
    ],
)
def test_wrong_batches_are_named(client: Client, body: str, said: tuple[str, ...]) -> None:
    headers = {"content-type": "application/json"}
    answer = client.post("/v1/models/churn/recalibrate", content=body.encode("latin-1"), headers=headers)
    assert_problem(answer, 422, *said)


def test_scorers_get_the_map_that_serves_and_are_spared_it_until_it_changes(client: Client, refits: Counting) -> None:
    path = "/v1/models/churn/map"
    none = client.get(path)
    assert (none.status_code, none.content) == (204, b"")
    tag = none.headers["etag"]
    assert client.get(path, headers={"if-none-match": tag}).status_code == 304
    chosen = fitted("beta")
    job = serve(client, refits, chosen)
    sent = client.get(path, headers={"if-none-match": tag})
    assert sent.status_code == 200
    assert sent.headers["content-location"] == f"/v1/recalibrations/{job}/artifact"
    assert sent.headers["cache-control"] == "private, no-cache"
    assert apply_map(from_bytes(sent.content).map, P).tolist() == apply_map(chosen, P).tolist()
    before = refits.read
    for _ in range(3):
        again = client.get(path, headers={"if-none-match": sent.headers["etag"]})
        assert (again.status_code, again.headers["content-location"]) == (304, sent.headers["content-location"])
    assert refits.read == before
    assert client.get(path, params={"version": "7"}).status_code == 204
    client.post("/v1/models/churn/rollback", json={})
    assert client.get(path, headers={"if-none-match": sent.headers["etag"]}).status_code == 204
    assert_problem(client.get("/v1/models/none/map"), 404, "none")
    assert_problem(client.get(path, params={"versions": "7"}), 422, "versions")


def test_the_serving_map_comes_as_json_too(client: Client, refits: Refits) -> None:
    job = serve(client, refits, fitted("histogram"))
    answer = client.get("/v1/models/churn/map", headers={"accept": "application/json"})
    assert answer.json() == json.loads(json.dumps(to_json(refits.store.artifact(job).artifact)))


def test_how_a_model_stands(client: Client, refits: Refits) -> None:
    path = "/v1/models/churn/recalibration"
    before = client.get(path).json()
    assert before["serves"] == {
        "model": "churn",
        "version": "8",
        "map": None,
        "since": None,
        "revision": 0,
        "artifact": None,
    }
    assert (before["under_way"], before["candidate"], before["live"]) == (None, None, None)
    assert before["settings"]["schedule"] == "0 3 * * *"
    # It is 08:00 on the day before.
    assert before["settings"]["next"] == "2027-01-16T03:00:00.000Z"
    serving = serve(client, refits, fitted("beta"))
    candidate = refits.end(client.post("/v1/models/churn/recalibrations", json={}).json()["id"]).id
    under_way = client.post("/v1/models/churn/recalibrations", json={"version": "7"}).json()["id"]
    refits.measured = LiveComparison.of(document())
    after = client.get(path).json()
    assert after["serves"]["map"] == serving
    assert after["candidate"]["id"] == candidate
    assert after["under_way"]["id"] == under_way
    assert after["live"]["n"] == 1234
    of_the_other = client.get(path, params={"version": "7"}).json()
    assert (of_the_other["serves"]["map"], of_the_other["candidate"]) == (None, None)
    tag = client.get(path).headers["etag"]
    assert client.get(path, headers={"if-none-match": tag}).status_code == 304
    assert_problem(client.get("/v1/models/none/recalibration"), 404, "none")
    assert_problem(client.get(path, params={"version": "9"}), 404, "9")
