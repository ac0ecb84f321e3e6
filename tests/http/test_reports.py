from dataclasses import replace

import pytest

from monitor.events.model import SeriesKey
from monitor.reports.evaluation.report import ReportKey
from tests.http.service import KEPT_FROM_MS, Service, assert_problem
from tests.snapshots import NO_EVIDENCE, NOW_MS, failing, many_reports, report, snapshot

REPORT = "/v1/models/churn/report"


@pytest.fixture
def service() -> Service:
    made = Service()
    made.show(
        snapshot(
            [
                report(version="6", window="24h", seed=1),
                report(version="7", window="24h", seed=2),
                report(version="7", window="1h", seed=3),
                report(version="7", window="24h", segment="region=eu", seed=4),
                report(model="org/model", window="24h", seed=5),
                report(model="new", window="24h", n=0, insufficient="no prediction has an outcome"),
            ]
        )
    )
    return made


def test_a_report_is_that_of_the_snapshot(service: Service) -> None:
    answer = service.client().get(REPORT, params={"version": "7", "segment": "all", "window": "1h"})
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == {**report(version="7", window="1h", seed=3).to_dict(), "evidence": NO_EVIDENCE}


@pytest.mark.parametrize("query", ["", "?version=&segment=&window=&as_of="])
def test_what_is_left_out_is_the_current_version_the_whole_model_and_the_first_window(
    service: Service, query: str
) -> None:
    found = service.client().get(REPORT + query).json()
    assert (found["version"], found["segment"], found["window"]) == ("7", "all", "24h")


def test_a_segment_and_a_version_are_chosen(service: Service) -> None:
    client = service.client()
    assert client.get(REPORT, params={"segment": "region=eu"}).json()["segment"] == "region=eu"
    assert client.get(REPORT, params={"version": "6"}).json()["version"] == "6"


@pytest.mark.parametrize("name", ["org/model", "org%2Fmodel"])
def test_a_models_name_may_hold_a_slash(service: Service, name: str) -> None:
    assert service.client().get(f"/v1/models/{name}/report").json()["model"] == "org/model"


def test_too_little_data_is_an_answer_and_no_error(service: Service) -> None:
    answer = service.client().get("/v1/models/new/report")
    assert answer.status_code == 200
    assert answer.json()["insufficient"] == "no prediction has an outcome"
    assert answer.json()["measures"] == {}


def test_an_unchanged_report_is_not_sent_twice(service: Service) -> None:
    client = service.client()
    first = client.get(REPORT)
    again = client.get(REPORT, headers={"If-None-Match": first.headers["etag"]})
    assert again.status_code == 304
    assert again.content == b""
    assert again.headers["etag"] == first.headers["etag"]
    assert client.get(REPORT, headers={"If-None-Match": f'"other", W/{first.headers["etag"]}'}).status_code == 304
    assert client.get(REPORT, headers={"If-None-Match": "*"}).status_code == 304
    assert client.get(REPORT, headers={"If-None-Match": '"other"'}).status_code == 200


def test_the_tag_follows_the_report_and_not_the_evaluation(service: Service) -> None:
    client = service.client()
    before = client.get(REPORT).headers["etag"]
    service.show(replace(service.evaluator.latest, number=2))
    assert client.get(REPORT).headers["etag"] == before
    service.show(snapshot([report(window="24h", seed=99)], number=3))
    assert client.get(REPORT).headers["etag"] != before


def test_a_second_publication_under_one_number_is_seen(service: Service) -> None:
    """An evaluation publishes its values first, and their intervals once they are there."""
    client = service.client()
    before = client.get(REPORT).json()
    service.show(snapshot([report(window="24h", seed=99)], number=service.evaluator.latest.number))
    assert client.get(REPORT).json() != before


@pytest.mark.parametrize(
    ("as_of", "n"),
    [
        (str(NOW_MS + 7), 7),
        ("2027-01-15T08:00:00.007Z", 7),
        ("2027-01-15T09:00:00.007%2B01:00", 7),
        ("2027-01-15T09:00:00.007+01:00", 7),
    ],
)
def test_an_earlier_report_is_recomputed(service: Service, as_of: str, n: int) -> None:
    answer = service.client().get(f"{REPORT}?as_of={as_of}")
    assert answer.status_code == 200
    assert answer.json()["n"] == n
    assert "etag" in answer.headers


@pytest.mark.parametrize(
    "as_of", ["yesterday", "2027-01-15", "2027-01-15T08:00:00", "--5", "9" * 5000, "١٢٣", "NaN", "1e999"]
)
def test_a_time_that_is_none_is_named(service: Service, as_of: str) -> None:
    assert_problem(service.client().get(REPORT, params={"as_of": as_of}), 422, "as_of")


def test_what_is_no_longer_kept_is_gone(service: Service) -> None:
    answer = service.client().get(REPORT, params={"as_of": str(KEPT_FROM_MS - 1)})
    assert assert_problem(answer, 410, "ask as of")["type"].endswith(":no-longer-kept")


@pytest.mark.parametrize(
    "path", ["/v1/models/chrun/report", f"{REPORT}?version=8", f"{REPORT}?window=25h", f"{REPORT}?segment=region=mars"]
)
def test_an_unknown_series_is_not_found(service: Service, path: str) -> None:
    assert assert_problem(service.client().get(path), 404, "models are")["type"].endswith(":unknown-series")


def test_a_misspelt_parameter_is_refused(service: Service) -> None:
    problem = assert_problem(service.client().get(f"{REPORT}?windw=1h"), 422, "windw", "no such parameter", "1h")
    assert problem["errors"][0]["parameter"] == "windw"


def test_a_report_that_failed_says_why_and_may_be_asked_again(service: Service) -> None:
    key = ReportKey(SeriesKey("churn", "7", "all"), "24h")
    service.show(failing(service.evaluator.latest, key, "ValueError: table is torn"))
    answer = service.client().get(REPORT)
    assert_problem(answer, 503, "table is torn")
    assert int(answer.headers["retry-after"]) > 0
    listed = service.client().get("/v1/reports").json()
    assert listed["failures"] == [
        {"model": "churn", "version": "7", "segment": "all", "window": "24h", "reason": "ValueError: table is torn"}
    ]


def test_the_reports_of_a_snapshot_are_listed_by_the_page() -> None:
    service = Service()
    made = many_reports(25)
    service.show(snapshot(made, number=4))
    client = service.client()
    found = []
    cursor: str | None = ""
    for _ in range(4):
        page = client.get("/v1/reports", params={"limit": 7, "cursor": cursor}).json()
        found += page["reports"]
        cursor = page["next_cursor"]
        assert page["evaluation"] == 4
        assert page["evaluated_at"] == "2027-01-15T08:00:04.000Z"
    assert cursor is None
    made.sort(key=lambda each: each.key)
    assert found == [{**each.to_dict(), "evidence": NO_EVIDENCE} for each in made]


def test_reports_that_come_between_two_pages_shift_nothing() -> None:
    service = Service()
    service.show(snapshot([report(model=name) for name in "bdf"]))
    client = service.client()
    first = client.get("/v1/reports", params={"limit": 2}).json()
    service.show(snapshot([report(model=name) for name in "abcdef"]))
    second = client.get("/v1/reports", params={"limit": 9, "cursor": first["next_cursor"]}).json()
    assert [each["model"] for each in first["reports"] + second["reports"]] == ["b", "d", "e", "f"]


def test_reports_are_filtered(service: Service) -> None:
    client = service.client()

    def count(**query: str) -> int:
        return len(client.get("/v1/reports", params=query).json()["reports"])

    assert count() == 6
    assert count(model="churn") == 4
    assert count(model="churn", version="7") == 3
    assert count(segment="region=eu") == 1
    assert count(window="1h") == 1
    assert count(model="none") == 0


def test_before_the_first_evaluation_the_list_is_empty() -> None:
    assert Service().client().get("/v1/reports").json() == {
        "evaluated_at": None,
        "evaluation": 0,
        "failures": [],
        "next_cursor": None,
        "reports": [],
    }


@pytest.mark.parametrize("path", ["/v1/reports", "/v1/models"])
@pytest.mark.parametrize(
    "query", ["limit=0", "limit=1001", "limit=many", "cursor=%21", "cursor=e30", "cursor=ä", "x=1"]
)
def test_a_wrong_page_is_refused(service: Service, path: str, query: str) -> None:
    assert_problem(service.client().get(f"{path}?{query}"), 422, query.partition("=")[0])


@pytest.mark.parametrize("path", ["/v1/reports", "/v1/models"])
def test_an_unchanged_list_is_not_sent_twice(service: Service, path: str) -> None:
    client = service.client()
    tag = client.get(path).headers["etag"]
    assert client.get(path, headers={"If-None-Match": tag}).status_code == 304
