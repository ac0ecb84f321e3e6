from monitor.measures import MEASURES
from tests.http.service import Service


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
