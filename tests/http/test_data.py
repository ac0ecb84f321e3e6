import json
import random
from collections.abc import AsyncIterator

import pytest

from monitor.http.settings import ApiSettings
from monitor.reports.evaluation.evaluate import evaluate_binary as evaluate
from monitor.reports.evaluation.evaluate import evaluate_classes
from tests.http.service import Service, assert_problem

P = [0.91, 0.32, 0.66, 0.67, 0.57, 0.98, 0.41, 0.19]
Y = [1, 0, 1, 1, 0, 1, 0, 0]


def draw(n: int, seed: int = 0) -> tuple[list[float], list[int]]:
    rng = random.Random(seed)
    p = [rng.random() for _ in range(n)]
    return p, [int(rng.random() < each) for each in p]


def test_the_answer_is_the_report_that_python_gives() -> None:
    p, y = draw(500)
    answer = Service().client().post("/v1/reports", json={"p": p, "y": y})
    assert answer.status_code == 200
    expected = evaluate(p, y).to_dict()
    assert answer.json() == json.loads(json.dumps(expected))
    assert answer.json()["measures"]["smce"]["value"] > 0


def test_the_papers_small_vector() -> None:
    measures = Service().client().post("/v1/reports", json={"p": P, "y": Y}).json()["measures"]
    assert measures["smce"]["value"] == pytest.approx(0.10575, abs=1e-12)
    assert measures["kce"]["value"] == pytest.approx(0.10627258027498664, abs=1e-12)


def test_weights_count_by_their_ratio() -> None:
    ask = Service().client().post
    ones, large = (ask("/v1/reports", json={"p": P, "y": Y, "weight": [each] * 8}).json() for each in (1.0, 1e300))
    assert ones["insufficient"] is None
    assert large == ones


def test_class_probabilities_have_the_report_that_python_gives() -> None:
    rng = random.Random(3)
    shares = [[rng.random() + 0.1 for _ in range(3)] for _ in range(60)]
    p = [[each / sum(row) for each in row] for row in shares]
    y = [rng.randrange(3) for _ in range(59)]
    answer = Service().client().post("/v1/reports", json={"p": p, "y": [*y, None], "model": "species"})
    assert answer.status_code == 200
    expected = evaluate_classes(p, [*y, float("nan")], model="species").to_dict()
    assert answer.json() == json.loads(json.dumps(expected))
    assert (answer.json()["classes"], answer.json()["n"], answer.json()["predictions"]) == (3, 59, 60)


def test_it_is_named_as_asked() -> None:
    names = {"model": "churn", "version": "8", "segment": "region=eu"}
    found = Service().client().post("/v1/reports", json={"p": P, "y": Y, **names}).json()
    assert {key: found[key] for key in names} == names


def test_outcomes_may_be_booleans_or_unknown() -> None:
    client = Service().client()
    as_numbers = client.post("/v1/reports", json={"p": P, "y": [1.0, *Y[1:]]}).json()
    as_booleans = client.post("/v1/reports", json={"p": P, "y": [bool(each) for each in Y]}).json()
    assert as_numbers == as_booleans
    unknown = client.post("/v1/reports", json={"p": [*P, 0.5], "y": [*Y, None]}).json()
    assert (unknown["n"], unknown["predictions"]) == (8, 9)
    assert unknown["measures"] == as_numbers["measures"]


def test_of_two_probabilities_the_second_is_that_of_one() -> None:
    """As of an event, whose model is not declared to have classes."""
    client = Service().client()
    both = [[1.0 - p, p] for p in P]
    assert (
        client.post("/v1/reports", json={"p": both, "y": Y}).json()
        == client.post("/v1/reports", json={"p": [p for _, p in both], "y": Y}).json()
    )


def test_weights_count_and_leave_out_what_needs_whole_counts() -> None:
    client = Service().client()
    weighted = client.post("/v1/reports", json={"p": P, "y": Y, "weight": [2] * 8}).json()
    plain = client.post("/v1/reports", json={"p": P, "y": Y}).json()
    assert "tce" not in weighted["measures"]
    assert weighted["measures"]["smce"]["value"] == pytest.approx(plain["measures"]["smce"]["value"])


@pytest.mark.parametrize(("p", "y"), [([], []), ([0.5], [1]), ([0.5, 0.6], [None, None])])
def test_too_little_data_is_a_report_with_the_reason(p: list[float], y: list[int | None]) -> None:
    answer = Service().client().post("/v1/reports", json={"p": p, "y": y})
    assert answer.status_code == 200
    assert answer.json()["insufficient"]
    assert answer.json()["measures"] == {}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ('{"p": [1.5], "y": [1]}', ("p must be in [0, 1]", "1.5", "index 0")),
        ('{"p": [0.5], "y": [2]}', ("0 or 1", "2")),
        ('{"p": [0.5, 0.1], "y": [1]}', ("2", "1")),
        ('{"p": [0.5], "y": [1], "weight": [-1]}', ("weight", "-1")),
        ('{"p": [0.5], "y": [1], "weight": [1, 2]}', ("weight",)),
        ('{"p": ["a"], "y": [1]}', ("$.p[0]",)),
        ('{"p": [[0.5, 0.6]], "y": [1]}', ("must add up to 1", "1.1", "row 0")),
        ('{"p": [[0.5, 0.5]], "y": [2]}', ("0 or 1", "2")),
        ('{"p": [[0.5, 0.25, 0.25]], "y": [3]}', ("class from 0 to 2", "3")),
        ('{"p": [[0.5, 0.25, 0.25]], "y": [1], "weight": [1]}', ("weight", "probability vectors")),
        ('{"p": [[0.5, 0.5], [1.0]], "y": [1, 0]}', ("as many for each event",)),
        ('{"p": [[0.5, 0.5], 0.5], "y": [1, 0]}', ("as many for each event",)),
        ('{"p": [NaN], "y": [1]}', ("JSON",)),
        ('{"p": [1e999], "y": [1]}', ()),
        ('{"p": [0.5]}', ("`y`",)),
        ('{"p": [0.5], "y": [1], "z": 1}', ("`z`",)),
        ("[]", ()),
        ("", ()),
        ("{", ()),
        ("\xff", ()),
        ("[" * 100_000, ()),
        ('{"p": ' + "[" * 100_000, ()),
    ],
)
def test_wrong_data_is_named(body: str, said: tuple[str, ...]) -> None:
    headers = {"content-type": "application/json"}
    answer = Service().client().post("/v1/reports", content=body.encode("latin-1"), headers=headers)
    assert_problem(answer, 422, *said)


@pytest.mark.parametrize("media", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_what_any_web_page_may_send_is_refused(media: str) -> None:
    answer = Service().client().post("/v1/reports", content=b'{"p": [], "y": []}', headers={"content-type": media})
    assert_problem(answer, 415, "application/json", media)


def test_a_compressed_body_is_refused() -> None:
    headers = {"content-type": "application/json", "content-encoding": "gzip"}
    assert_problem(Service().client().post("/v1/reports", content=b"x", headers=headers), 415, "gzip", "uncompressed")


def test_a_body_beyond_the_limit_is_refused_by_its_declared_length() -> None:
    service = Service(api=ApiSettings(max_report_bytes=100))
    answer = service.client().post("/v1/reports", json={"p": [0.5] * 100, "y": [1] * 100})
    assert_problem(answer, 413, "100 bytes")


def test_a_body_of_undeclared_length_is_read_no_further_than_the_limit() -> None:
    service = Service(api=ApiSettings(max_report_bytes=1000))
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        while True:
            sent += 100
            yield b" " * 100

    headers = {"content-type": "application/json"}
    assert_problem(service.client().post("/v1/reports", content=endless(), headers=headers), 413, "1000 bytes", "more")
    assert sent < 2000


def test_the_measures_can_be_named() -> None:
    data = {"p": [0.2, 0.4, 0.9], "y": [0, 1, 1]}
    client = Service().client()
    found = client.post("/v1/reports", json={**data, "measures": ["log_loss", "smce"]}).json()
    assert list(found["measures"]) == ["smce", "log_loss"]
    assert_problem(
        client.post("/v1/reports", json={**data, "measures": ["smc"]}),
        422,
        "there is no measure 'smc'; did you mean smce?",
    )
    assert_problem(client.post("/v1/reports", json={**data, "measures": []}), 422, "at least one measure must be named")


def test_what_is_left_out_is_said_and_nothing_is_no_number() -> None:
    data = {"p": [0.0, 0.0, 1.0, 1.0, 0.5], "y": [0, 1, 0, 1, 1]}
    answer = Service().client().post("/v1/reports", json=data)
    report = answer.json()
    assert report["omitted"] == {"log_loss": "not finite on these data", "spiegelhalter": "not finite on these data"}
    assert set(report["decomposition"]) == {"brier"}
    assert report["diagnosis"]["verdict"] == "insufficient_data"
    said = report["diagnosis"]["sentence"]
    assert said.startswith("Too little data to tell: only 5 of at least 50 predictions have an outcome. ")
    assert "1 of 2 predictions of exactly 0 came out positive" in said
    assert "NaN" not in answer.text
    assert "Infinity" not in answer.text


def test_a_diagnosis_comes_with_the_report() -> None:
    p = [(at + 1) / 402 for at in range(400)]
    y = [int(at % 7 < 2) for at in range(400)]
    report = Service().client().post("/v1/reports", json={"p": p, "y": y, "measures": ["kce"]}).json()
    assert report["diagnosis"]["verdict"] == "both"
    assert report["diagnosis"]["slope"] < 0.5
    assert report["diagnosis"]["offset"] < -0.5
    assert set(report["decomposition"]["log_loss"]) == {"miscalibration", "discrimination", "uncertainty"}
