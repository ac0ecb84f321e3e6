"""Refits of a running `monitor serve`, over REST, in a scorer and from the command line."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from monitor.client import RecalibrationClient
from monitor.errors import InputError
from monitor.maps import apply_map
from monitor.maps.artifact import from_bytes
from tests.cli.command import inside
from tests.cli.refit_service import Refitting, overconfident, replay, wait_until_sampled, write_settings
from tests.patience import PATIENCE_SECONDS

P = [0.1, 0.5, 0.9]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Refitting]:
    """A service with the events of several models, all of them sampled."""
    folder = tmp_path_factory.mktemp("refits")
    write_settings(folder)
    replay(
        folder,
        [
            *overconfident("churn", 4000),
            *overconfident("plain", 2500),
            *overconfident("few", 130),
            *overconfident("always", 2000, outcome=1),
            # A third feature was added to the model after two thirds of its events.
            *overconfident("grown", 3000, features=lambda at: 2 if at < 2000 else 3),
            *overconfident("local", 2500, slope=3.0, features=lambda _: 2),
        ],
    )
    with Refitting(folder) as running:
        running.ready()
        wait_until_sampled(
            running,
            f"sqlite:///{folder}/state.db",
            {"churn": 3300, "plain": 2100, "few": 110, "always": 1600, "grown": 1200, "local": 2000},
        )
        yield running
        running.stop()


def test_a_map_is_fitted_promoted_applied_and_taken_back(served: Refitting, tmp_path: Path) -> None:
    assert served.recalibrate("churn", P)[1]["map"] is None

    # Two at once, and then the first one's request again, as after an answer that was lost.
    def ask(key: str) -> tuple[int, dict[str, object]]:
        body = {"method": "temperature"}
        return served.ask_for("POST", "/v1/models/churn/recalibrations", body, idempotency_key=key)

    with ThreadPoolExecutor(2) as both:
        answers = list(both.map(ask, ["night-1", "night-2"]))
    assert sorted(status for status, _ in answers) == [202, 409], answers
    key = "night-1" if answers[0][0] == 202 else "night-2"
    (first,) = (body for status, body in answers if status == 202)
    (refused,) = (body for status, body in answers if status == 409)
    assert str(first["id"]) in str(refused["detail"])
    assert ask(key)[1]["id"] == first["id"]
    job = served.ended(first)
    assert ask(key)[1]["state"] == "candidate"
    other = {"method": "beta"}
    status, problem = served.ask_for("POST", "/v1/models/churn/recalibrations", other, idempotency_key=key)
    assert status == 409, problem
    assert "the idempotency key was used for another request" in problem["detail"]

    assert (job["state"], job["reason"], job["baseline"], job["attempts"]) == ("candidate", None, None, 1)
    comparison = job["comparison"]
    assert comparison["guard"]["passed"]
    assert comparison["evidence"]["against_none"]["e_value"] > 20
    assert (
        comparison["maps"]["challenger"]["measures"]["smce"]["value"]
        < (comparison["maps"]["none"]["measures"]["smce"]["value"])
    )
    assert {"reliability", "segments"} <= set(job["links"]["figures"]) | {"segments"}
    for link in job["links"]["figures"].values():
        assert served.get(link)[1]["title"]

    # Another candidate, compared with no map too: only one of the two can be promoted.
    done = inside("recalibrate", "churn", "--method", "platt", "--wait", "--url", served.url, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    rival = served.get("/v1/models/churn/recalibration")[1]["candidate"]
    assert f"monitor promote {rival['id']}" in done.stdout
    assert (rival["method"], rival["state"], rival["baseline"]) == ("platt", "candidate", None)
    status, champion = served.ask_for("POST", job["links"]["promotion"], {"note": "agreed"})
    assert (status, champion["map"], champion["revision"]) == (200, job["id"], 1)
    status, problem = served.ask_for("POST", rival["links"]["promotion"], {})
    assert status == 409
    assert f"compared with no map, and the map {job['id']} serves now" in problem["detail"]
    standing = served.get("/v1/models/churn/recalibration")[1]
    assert standing["serves"]["map"] == job["id"]
    assert standing["candidate"] is None, "what nobody may promote waits for nobody"

    status, applied = served.recalibrate("churn", P)
    assert (status, applied["map"]) == (200, job["id"])
    # Twice as sure as it may be: half the logit.
    assert applied["p"] == pytest.approx([0.25, 0.5, 0.75], abs=0.02)
    status, data = served.ask("/v1/models/churn/map")
    assert status == 200
    assert apply_map(from_bytes(data).map, P).tolist() == applied["p"]
    with RecalibrationClient(served.url, "churn", timeout_seconds=PATIENCE_SECONDS) as client:
        assert client.apply(P).tolist() == applied["p"]
        assert (client.map_id, client.about["model"], client.about["version"]) == (job["id"], "churn", "7")

        status, champion = served.ask_for("POST", "/v1/models/churn/rollback", {"note": "complaints"})
        assert (status, champion["map"], champion["revision"]) == (200, None, 2)
        assert served.recalibrate("churn", P)[1]["p"] == P
        client.refresh()
        assert client.apply(P).tolist() == P
    assert served.ask_for("POST", "/v1/models/churn/rollback", {})[0] == 409
    actions = [entry["action"] for entry in served.get("/v1/audit?model=churn")[1]["entries"]]
    assert [each for each in actions if each not in {"started", "finished"}] == [
        "requested",
        "requested",
        "promoted",
        "refused",
        "rolled_back",
        "refused",
    ]


def test_the_command_line_promotes_what_is_better_and_nothing_else(served: Refitting, tmp_path: Path) -> None:
    asked = ("recalibrate", "plain", "--method", "temperature", "--wait", "--promote", "--url", served.url)
    done = inside(*asked, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    job = json.loads(done.stdout)
    assert (job["state"], job["promote"]) == ("champion", True)
    assert job == served.job(job)
    assert served.recalibrate("plain", P)[1]["map"] == job["id"]

    # The same again is no better than what serves now, though its promotion was asked for.
    done = inside(*asked, cwd=tmp_path)
    assert done.returncode == 3, done.stdout + done.stderr
    assert "rejected" in done.stdout
    assert served.recalibrate("plain", P)[1]["map"] == job["id"]


def test_what_cannot_be_refitted_says_why(served: Refitting, tmp_path: Path) -> None:
    reasons = {
        "always": ("beta", "have the outcome 0"),
        "plain": ("lore", "lore needs features, and these events have none: send them with the predictions"),
    }
    jobs = {model: served.refit(model, method=method) for model, (method, _) in reasons.items()}
    done = inside("recalibrate", "few", "--wait", "--url", served.url, cwd=tmp_path)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("error: the refit rc_")
    assert "labelled events to fit on" in last
    for model, (_, reason) in reasons.items():
        job = served.ended(jobs[model])
        assert (job["state"], job["attempts"], job["comparison"]) == ("failed", 1, None)
        assert reason in job["reason"]
        assert served.ask_for("GET", f"{job['links']['self']}/artifact")[0] == 404
    assert served.ask_for("POST", "/v1/models/nobody/recalibrations", {})[0] == 404
    assert served.ask_for("POST", "/v1/models/plain/recalibrations", {"method": "magic"})[0] == 422


def test_features_of_another_length_are_left_out_and_counted(served: Refitting) -> None:
    grown, local = served.refit("grown", method="lore"), served.refit("local", method="lore", promote=True)
    job = served.ended(grown)
    assert job["state"] in {"candidate", "rejected"}, job["reason"]
    left_out = job["comparison"]["fit"]["left_out"]
    assert sum(left_out.values()) > 500, left_out
    assert all("feature" in reason for reason in left_out)

    job = served.ended(local)
    assert job["state"] == "champion", job["reason"]
    x = np.zeros((3, 2))
    status, applied = served.recalibrate("local", P, features=x.tolist())
    assert (status, applied["map"]) == (200, job["id"])
    # Never unchanged in silence: the map needs two features.
    for features, said in (([[0.0] * 3] * 3, "(3, 2)"), (None, "needs 2 features")):
        status, problem = served.recalibrate("local", P, features=features)
        assert status == 422
        assert said in problem["detail"]
    with RecalibrationClient(served.url, "local", timeout_seconds=PATIENCE_SECONDS) as client:
        assert client.apply(P, features=x).tolist() == applied["p"]
        with pytest.raises(InputError, match=rf"map {job['id']} of model local: .*\(3, 2\)"):
            client.apply(P, features=np.zeros((3, 5)))
