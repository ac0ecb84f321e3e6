"""Where a refit says that it may be promoted, it may: in lists, by itself, and on the page."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from monitor.http.recalibration_schemas import RefitBody
from monitor.store.schema import RECALIBRATION_MAPS
from tests.http.refits import Refits
from tests.http.service import Client, Service, assert_problem


@pytest.fixture
def refits(tmp_path: Path) -> Iterator[Refits]:
    made = Refits(tmp_path)
    yield made
    made.close()


@pytest.fixture
def client(refits: Refits) -> Client:
    return Service(refits=refits).client()


def candidate(refits: Refits, version: str = "8") -> str:
    queued, _ = refits.request(refits.make_request("churn", version), actor="ada")
    return refits.end(queued.id, comparison=RefitBody.example()["comparison"]).id


def links(client: Client, job: str) -> set[str | None]:
    """Where each answer that shows a refit says that it is promoted."""
    listed = [client.get(f"/v1/{path}").json() for path in ("recalibrations", "models/churn/recalibrations")]
    documents: list[dict[str, Any]] = [each for answer in listed for each in answer["recalibrations"]]
    documents.append(client.get(f"/v1/recalibrations/{job}").json())
    return {each["links"]["promotion"] for each in documents if each["id"] == job}


def standing(client: Client, version: str = "8") -> Any:
    found = client.get(f"/v1/models/churn/recalibration?version={version}").json()["candidate"]
    return None if found is None else (found["id"], found["links"]["promotion"])


def test_the_link_is_there_as_long_as_a_promotion_would_succeed(client: Client, refits: Refits) -> None:
    one, other, of_seven = candidate(refits), candidate(refits), candidate(refits, "7")
    path = "/v1/recalibrations/{}/promotion"
    for job in (one, other, of_seven):
        assert links(client, job) == {path.format(job)}
    assert standing(client) == (other, path.format(other))
    before = client.get(f"/v1/recalibrations/{other}")
    assert client.post(path.format(one), json={}).status_code == 200
    # It serves, so it is promoted no more; and the other one was compared with no map.
    assert links(client, one) == links(client, other) == {None}
    assert links(client, of_seven) == {path.format(of_seven)}
    assert standing(client) is None
    assert_problem(client.post(path.format(other), json={}), 409, "compared with no map")
    # Who asks again by the tag of the former answer has the new one.
    after = client.get(f"/v1/recalibrations/{other}", headers={"if-none-match": before.headers["etag"]})
    assert (after.status_code, after.json()["state"], after.json()["links"]["promotion"]) == (200, "candidate", None)
    # No map serves again, which is what it was compared with.
    client.post("/v1/models/churn/rollback", json={})
    assert links(client, other) == {path.format(other)}
    assert standing(client) == (other, path.format(other))
    assert client.post(path.format(other), json={}).status_code == 200


def test_a_candidate_whose_map_is_not_kept_has_no_link(client: Client, refits: Refits) -> None:
    job = candidate(refits)
    with refits.database.database.writing() as connection:
        connection.execute(sa.delete(RECALIBRATION_MAPS).where(RECALIBRATION_MAPS.c.id == job))
    assert links(client, job) == {None}
    assert standing(client) is None
    assert_problem(client.post(f"/v1/recalibrations/{job}/promotion", json={}), 409, "not kept any more")


def test_a_map_has_a_link_as_long_as_it_can_be_had(client: Client, refits: Refits) -> None:
    gone, kept = candidate(refits), candidate(refits)
    with refits.database.database.writing() as connection:
        connection.execute(sa.delete(RECALIBRATION_MAPS).where(RECALIBRATION_MAPS.c.id == gone))
    refits.request(refits.make_request("churn"), actor="ada")
    listed = client.get("/v1/recalibrations").json()["recalibrations"]
    path = f"/v1/recalibrations/{kept}/artifact"
    assert [each["links"]["artifact"] for each in listed] == [None, path, None]
    for each in listed:
        assert client.get(each["links"]["self"]).json()["links"] == each["links"]
        status = client.get(f"{each['links']['self']}/artifact").status_code
        assert status == (404 if each["links"]["artifact"] is None else 200)


def test_who_rolls_back_the_wrong_version_is_told_which_have_maps(client: Client, refits: Refits) -> None:
    nothing = assert_problem(client.post("/v1/models/churn/rollback", json={}), 409, "nothing to roll back")
    assert "versions" not in nothing["detail"]
    refits.promote(candidate(refits, "7"), actor="ada", note="")
    # Without a version that of the newest predictions is meant, and its map is another.
    assert_problem(client.post("/v1/models/churn/rollback", json={}), 409, "version '8'", "maps serve the versions '7'")
