import pytest

from monitor.measures import MEASURES
from tests.http.service import Service, assert_problem


def test_every_measure_says_what_it_means_in_the_order_of_a_report() -> None:
    found = Service().client().get("/v1/measures").json()["measures"]
    assert [each["name"] for each in found] == list(MEASURES)
    assert all(each["title"] and each["help"] for each in found)
    assert {each["name"]: each["unit"] for each in found}["tce"] == "percent"


def test_every_measure_says_where_it_stands() -> None:
    service = Service()
    service.evaluator.measures = {"smce": MEASURES["smce"], "log_loss": MEASURES["log_loss"]}
    found = {each["name"]: each for each in service.client().get("/v1/measures").json()["measures"]}
    assert {name for name, each in found.items() if each["in_windows"]} == {"smce", "log_loss"}
    assert {name: each["stands_in"] for name, each in found.items()} == {
        name: measure.appears_in for name, measure in MEASURES.items()
    }


def test_every_measure_of_a_report_is_listed() -> None:
    client = Service().client()
    p = [at / 40 for at in range(40)]
    report = client.post("/v1/reports", json={"p": p, "y": [int(at % 3 == 0) for at in range(40)]}).json()
    listed = {each["name"] for each in client.get("/v1/measures").json()["measures"]}
    assert set(report["measures"]) <= listed


@pytest.mark.parametrize("path", ["/v1/measures", "/v1/recalibration-methods"])
def test_a_list_is_spared_and_takes_no_parameters(path: str) -> None:
    client = Service().client()
    etag = client.get(path).headers["etag"]
    assert client.get(path, headers={"if-none-match": etag}).status_code == 304
    assert_problem(client.get(f"{path}?x=1"), 422, "x: there is no such parameter here")
    answers = client.get("/openapi.json").json()["paths"][path]["get"]["responses"]
    assert {"304", "422"} <= answers.keys()
