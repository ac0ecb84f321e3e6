from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from monitor.events.model import SeriesKey
from monitor.events.strata import Cap
from monitor.reports.evaluation.report import Report, ReportKey
from monitor.store.base import CapUse
from tests.http.refits import Refits
from tests.http.service import Service
from tests.snapshots import HOUR_MS, NO_EVIDENCE, NOW_MS, failing, report, snapshot


@pytest.fixture
def service() -> Service:
    made = Service()
    made.show(
        snapshot(
            [
                report(version="6"),
                report(version="7", window="1h"),
                report(version="7", window="24h"),
                report(version="7", segment="region=eu"),
                report(model="free", n=3, insufficient="only 3 of at least 100 predictions have an outcome"),
            ]
        )
    )
    return made


def test_a_model_says_what_is_known_of_it(service: Service) -> None:
    models = {each["model"]: each for each in service.client().get("/v1/models").json()["models"]}
    rest = {"evidence": NO_EVIDENCE, "predictions_per_day": 24_000.0, "label_coverage": 0.9, "serves": None}
    assert models["churn"] == {
        "model": "churn",
        "state": "measured",
        "labels": {},
        "current_version": "7",
        "versions": [
            {"version": "6", "segments": ["all"], "windows": ["1h"], **rest},
            {"version": "7", "segments": ["all", "region=eu"], "windows": ["1h", "24h"], **rest},
        ],
        "watermark": "2027-01-15T08:00:00.500Z",
        "evaluated_at": "2027-01-15T08:00:01.000Z",
        "settled_to": "2027-01-14T08:00:00.000Z",
        "held_back_by": {
            "partition": 3,
            "reason": "outcomes_silent",
            "detail": "outcome log silent since 2027-01-13T08:00:00.000Z",
        },
        "policy": {
            "horizon_seconds": 86400.0,
            "lateness_seconds": 3600.0,
            "implied_negative": False,
            "segments": ["region"],
            "classes": [],
        },
        "caps": [],
        "report": "/v1/models/churn/report",
    }


def test_caps_that_are_half_used_stand_at_their_model(service: Service) -> None:
    caps = {
        Cap("models"): CapUse(100, 200),
        Cap("versions", "churn"): CapUse(20, 20, folded=1234),
        Cap("segment_values", "churn", "region"): CapUse(25, 50),
    }
    answer = service.client(caps=lambda: caps).get("/v1/models").json()
    none = {"setting": "caps.models", "segment_key": None, "folded": 0, "warning": None}
    assert answer["caps"] == [none | {"used": 100, "limit": 200}]
    models = {each["model"]: each["caps"] for each in answer["models"]}
    assert models["fraud"] == []
    assert models["churn"] == [
        {
            "setting": "caps.versions",
            "segment_key": None,
            "used": 20,
            "limit": 20,
            "folded": 1234,
            "warning": "1,234 predictions count as `other`: 20 of at most 20 versions live in a partition; "
            "raise caps.versions, or send fewer",
        },
        none | {"setting": "caps.segment_values", "segment_key": "region", "used": 25, "limit": 50},
    ]


def test_too_little_data_and_none_at_all_are_states(service: Service) -> None:
    models = {each["model"]: each for each in service.client().get("/v1/models").json()["models"]}
    assert list(models) == ["churn", "fraud", "free", "org/model"]
    assert models["free"]["state"] == "insufficient"
    assert models["free"]["policy"] is None
    assert models["fraud"]["state"] == "waiting"
    assert models["fraud"]["watermark"] is None
    assert models["fraud"]["settled_to"] is None
    assert models["free"]["held_back_by"] is None
    assert models["fraud"]["versions"] == []


def test_a_model_without_any_report_failed(service: Service) -> None:
    key = ReportKey(SeriesKey("fraud", "1", "all"), "1h")
    service.show(failing(service.evaluator.latest, key, "ValueError: torn"))
    models = {each["model"]: each for each in service.client().get("/v1/models").json()["models"]}
    assert models["fraud"]["state"] == "failed"


def test_the_link_to_the_report_leads_there(service: Service) -> None:
    service.show(snapshot([report(model="org/a b?c#d", window="24h")]))
    client = service.client()
    links = {each["model"]: each["report"] for each in client.get("/v1/models").json()["models"]}
    assert client.get(links["org/a b?c#d"]).json()["model"] == "org/a b?c#d"


def test_rate_and_coverage_are_of_a_day_or_of_what_is_nearest_to_it() -> None:
    def version(name: str, *hours: float) -> list[Report]:
        return [
            replace(
                report(version=name, window=f"{length:g}h", n=round(90 * length * length)),
                from_ms=NOW_MS - round(length * HOUR_MS),
            )
            for length in hours
        ]

    service = Service()
    of_segment = replace(report(version="1", segment="region=eu", window="24h"), from_ms=NOW_MS - 24 * HOUR_MS)
    service.show(snapshot([*version("1", 1, 24, 168), of_segment, *version("2", 168, 48), *version("3", 0)]))
    models = {each["model"]: each for each in service.client().get("/v1/models").json()["models"]}
    versions = {each["version"]: each for each in models["churn"]["versions"]}
    # As many as in a window of n hours that has 90 n^2 labelled predictions, and 100 more.
    assert versions["1"]["predictions_per_day"] == 90 * 24 * 24 + 100
    assert versions["1"]["label_coverage"] == pytest.approx(51_840 / 51_940)
    assert versions["2"]["predictions_per_day"] == (90 * 48 * 48 + 100) / 2
    assert versions["3"]["predictions_per_day"] is None
    assert versions["3"]["label_coverage"] == 0


def test_the_map_that_serves_is_named_with_its_method(tmp_path: Path) -> None:
    with closing(Refits(tmp_path)) as refits:
        service = Service(refits=refits)
        service.show(snapshot([report(version="7"), report(version="8")]))
        job, _ = refits.request(refits.make_request("churn", "7", method="platt"), actor="ada")
        refits.end(job.id)

        def serves() -> dict[str, Any]:
            (churn,) = service.client().get("/v1/models?model=churn").json()["models"]
            return {each["version"]: each["serves"] for each in churn["versions"]}

        assert serves() == {"7": None, "8": None}
        refits.promote(job.id, actor="ada", note="")
        assert serves() == {"7": {"map": job.id, "method": "platt"}, "8": None}
        refits.roll_back("churn", "7", actor="ada", note="")
        assert serves() == {"7": None, "8": None}


def test_labels_are_those_of_the_settings(service: Service) -> None:
    answer = service.client(labels={"churn": {"team": "payments"}}).get("/v1/models").json()
    assert {each["model"]: each["labels"] for each in answer["models"] if each["labels"]} == {
        "churn": {"team": "payments"}
    }


def test_a_long_list_is_compressed_where_that_is_accepted(service: Service) -> None:
    service.show(snapshot([report(model=f"model-{at}") for at in range(100)]))
    client = service.client()
    plain = client.get("/v1/models", headers={"accept-encoding": "identity"})
    small = client.get("/v1/models", headers={"accept-encoding": "gzip"})
    assert "content-encoding" not in plain.headers
    assert small.headers["content-encoding"] == "gzip"
    assert int(small.headers["content-length"]) * 4 < int(plain.headers["content-length"])
    assert small.content == plain.content
    assert small.headers["etag"] == "W/" + plain.headers["etag"]
    assert small.headers["vary"] == plain.headers["vary"] == "Accept, Accept-Encoding"
    for answer in (small, plain):
        again = client.get("/v1/models", headers={"if-none-match": answer.headers["etag"], "accept-encoding": "gzip"})
        assert again.status_code == 304


def test_models_come_by_the_page(service: Service) -> None:
    client = service.client()
    first = client.get("/v1/models", params={"limit": 3}).json()
    second = client.get("/v1/models", params={"limit": 3, "cursor": first["next_cursor"]}).json()
    assert [each["model"] for each in first["models"]] == ["churn", "fraud", "free"]
    assert [each["model"] for each in second["models"]] == ["org/model"]
    assert second["next_cursor"] is None
