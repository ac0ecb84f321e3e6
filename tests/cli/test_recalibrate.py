"""Refits from the command line, against the real API over a real socket."""

import contextlib
import io
import json
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from monitor.cli import recalibrate as command
from monitor.cli.options import method_options
from monitor.errors import ServiceUnavailable
from monitor.http.recalibration_schemas import RefitBody
from monitor.http.server import ApiServer
from monitor.http_client import request_document
from monitor.recalibration.refit_view import decision
from monitor.reports.progress import job_progress
from monitor.store.alerts import AlertStore, save
from monitor.store.recalibrations import Job, JobState
from tests.alarms.findings import NOW_MS, advanced, finding
from tests.cli.command import inside, one_error_line
from tests.http.keys import Keys
from tests.http.refits import Refits
from tests.http.service import Service
from tests.patience import PATIENCE_SECONDS, eventually, joined
from tests.real.child import free_ports

COMPARISON: dict[str, Any] = RefitBody.example()["comparison"]


class World:
    """A service, and a worker that ends what is asked for as a test says."""

    def __init__(self, folder: Path, keys: Keys | None = None, port: int = 0) -> None:
        self.folder = folder
        self.refits = Refits(folder)
        authenticator = None if keys is None else keys.authenticator()
        self.server = ApiServer(
            Service(
                refits=self.refits, alerts=AlertStore(self.refits.database.database), authenticator=authenticator
            ).app(),
            port=port,
        )
        self.server.start()

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return inside(*arguments, "--url", self.server.url, cwd=self.folder)

    def wait_for(self, *arguments: str, state: JobState, **told: Any) -> subprocess.CompletedProcess[str]:
        """Run ``recalibrate churn --wait`` while a worker ends the refit."""
        begun = len(self.jobs())

        def work() -> None:
            eventually(lambda: len(self.jobs()) > begun)
            self.refits.end(self.jobs()[0].id, state, **({"comparison": COMPARISON} | told))

        worker = threading.Thread(target=work)
        worker.start()
        done = self.run("recalibrate", "churn", "--wait", *arguments)
        joined(worker)
        return done

    def jobs(self) -> list[Job]:
        return list(self.refits.store.jobs(None, before=None, limit=99))

    def close(self) -> None:
        self.server.stop()
        self.refits.close()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


def test_what_is_asked_for_is_asked_for(world: World) -> None:
    done = world.run(
        *("recalibrate", "churn", "--version", "7", "--method", "histogram", "--option", "bins=10"),
        *("--option", "kind=quantile", "--window", "1h30m", "--promote", "--json"),
    )
    assert (done.returncode, done.stderr) == (0, "")
    (job,) = world.jobs()
    assert (job.version, job.method, job.window_ms, job.promote) == ("7", "histogram", 5_400_000, True)
    assert (job.options["bins"], job.options["kind"]) == (10, "quantile")
    assert json.loads(done.stdout)["id"] == job.id


def test_the_time_since_which_events_are_used_goes_with_the_request(world: World) -> None:
    done = world.run("recalibrate", "churn", "--since", "2026-09-21T14:05:00Z", "--json")
    (job,) = world.jobs()
    assert json.loads(done.stdout)["since"] == "2026-09-21T14:05:00.000Z"
    assert job.since_ms == 1_790_000_000_000 - 500_000
    refused = world.run("recalibrate", "churn", "--alert", "al_17")
    assert (refused.returncode, one_error_line(refused)) == (2, "no alert is called 'al_17'")


def test_without_wait_it_says_where_to_look(world: World) -> None:
    done = world.run("recalibrate", "churn")
    (job,) = world.jobs()
    assert done.returncode == 0
    assert done.stdout == (
        f"{job.id}: beta for churn 8 is queued; follow it at {world.server.url}/recalibrations/{job.id}\n"
    )
    assert not job.promote


def test_a_candidate_is_shown_before_and_after(world: World) -> None:
    done = world.wait_for(state=JobState.CANDIDATE)
    (job,) = world.jobs()
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == f"churn 8, beta ({job.id}): candidate"
    assert lines[1] == "fitted on 14,000 events, 2026-11-14 08:00 to 2026-11-19 05:12 UTC"
    (row,) = [line.split() for line in lines if line.startswith((" smCE", "smCE"))]
    assert row == ["smCE", "0.0317", "0.0031", "0.0000", "to", "0.0068", "0.0049"]
    assert "The guard passed it:" in lines
    assert f"Let it serve with: monitor promote {job.id} --url {world.server.url}" in lines
    assert lines[-1].endswith(f"/recalibrations/{job.id}")
    # No terminal is there: a line a step, on standard error.
    assert "queued" in done.stderr


def test_a_rejected_one_has_a_status_of_its_own(world: World) -> None:
    guard = {
        **COMPARISON["guard"],
        "passed": False,
        "reasons": ["Not evidently better than no map: E = 0.55."],
        "notes": ["No features."],
    }
    done = world.wait_for(state=JobState.REJECTED, reason="E = 0.55", comparison={**COMPARISON, "guard": guard})
    assert done.returncode == 3
    assert (
        "The guard did not pass it:\n  - Not evidently better than no map: E = 0.55.\nnote: No features.\n"
        in done.stdout
    )
    assert "It is rejected, and never promoted.\n" in done.stdout


def test_a_failed_one_says_why(world: World) -> None:
    done = world.wait_for("--json", state=JobState.FAILED, reason="12 labelled events, at least 100 are needed")
    assert done.returncode == 1
    assert json.loads(done.stdout)["state"] == "failed"
    assert done.stderr.splitlines()[-1] == (
        f"error: the refit {world.jobs()[0].id} failed: 12 labelled events, at least 100 are needed"
    )


def test_why_one_failed_is_said_once(world: World) -> None:
    done = world.wait_for(state=JobState.FAILED, reason="12 labelled events", comparison=None)
    (job,) = world.jobs()
    assert done.returncode == 1
    assert done.stdout.splitlines()[0] == f"churn 8, beta ({job.id}): failed"
    assert (done.stdout + done.stderr).count("12 labelled events") == 1
    assert done.stderr.splitlines()[-1] == f"error: the refit {job.id} failed: 12 labelled events"


def test_a_candidate_that_cannot_be_promoted_is_not_offered() -> None:
    candidate: dict[str, Any] = {**RefitBody.example(), "state": "candidate", "reason": None}
    waits = {**candidate, "reason": "not promoted: a map of churn 8 was taken back"}
    link = {**candidate["links"], "promotion": "/v1/recalibrations/rc_1/promotion"}
    no_link = {**candidate["links"], "promotion": None}
    assert decision({**waits, "links": link}, " --url u") == (
        f"not promoted: a map of churn 8 was taken back\nLet it serve with: monitor promote {candidate['id']} --url u"
    )
    assert decision({**waits, "links": no_link}) == (
        "It cannot be promoted now: not promoted: a map of churn 8 was taken back"
    )
    assert decision({**candidate, "links": no_link}) == (
        "It cannot be promoted now: what it was compared with serves no more, or its map is not kept: refit"
    )


def test_segments_that_were_left_out_are_counted(world: World) -> None:
    left_out = {"fewer than 50 events": 1, "beyond the 50 largest": 1200}
    done = world.wait_for(state=JobState.CANDIDATE, comparison={**COMPARISON, "segments_left_out": left_out})
    lines = done.stdout.splitlines()
    assert "left out: 1 segment, fewer than 50 events" in lines
    assert "left out: 1,200 segments, beyond the 50 largest" in lines


def test_one_that_takes_too_long_goes_on(world: World) -> None:
    done = world.run("recalibrate", "churn", "--wait", "--timeout", "1s")
    assert done.returncode == 1
    (job,) = world.jobs()
    assert f"error: --timeout: the refit {job.id} is queued after 1 seconds; it goes on" in done.stderr
    assert job.state is JobState.QUEUED


class Asking:
    """Asks as the command does, and notes when it was answered and when it was not."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.answered, self.missed = threading.Event(), threading.Event()
        monkeypatch.setattr(command, "request_document", self)

    def __call__(self, *arguments: Any, **named: Any) -> dict[str, Any]:
        try:
            answer = request_document(*arguments, **named)
        except ServiceUnavailable:
            self.missed.set()
            raise
        self.answered.set()
        return answer


def test_a_restart_of_the_service_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "_PATIENCE_SECONDS", PATIENCE_SECONDS)
    asking = Asking(monkeypatch)
    # Not one of those that outgoing connections are given meanwhile.
    (port,) = free_ports(1)
    world = World(tmp_path, port=port)

    def restart() -> None:
        assert asking.answered.wait(PATIENCE_SECONDS)
        world.server.stop()
        assert asking.missed.wait(PATIENCE_SECONDS)
        world.refits.end(world.jobs()[0].id, JobState.CANDIDATE)
        world.server = ApiServer(Service(refits=world.refits).app(), port=port)
        world.server.start()

    thread = threading.Thread(target=restart)
    thread.start()
    try:
        done = world.run("recalibrate", "churn", "--wait")
        joined(thread)
    finally:
        world.close()
    assert done.returncode == 0, done.stderr
    assert "candidate" in done.stdout


def test_one_that_stays_away_is_given_up(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "_PATIENCE_SECONDS", 0.5)
    asking = Asking(monkeypatch)

    def end() -> None:
        assert asking.answered.wait(PATIENCE_SECONDS)
        world.server.stop()

    thread = threading.Thread(target=end)
    thread.start()
    done = world.run("recalibrate", "churn", "--wait")
    joined(thread)
    assert world.jobs()[0].state is JobState.QUEUED
    assert done.returncode == 1
    assert "does not answer" in done.stderr.splitlines()[-1]


def test_promoted_and_taken_back(world: World) -> None:
    world.wait_for(state=JobState.CANDIDATE)
    (job,) = world.jobs()
    done = world.run("promote", job.id, "--note", "agreed")
    assert (done.returncode, done.stdout) == (0, f"{job.id} serves churn 8 from now on\n")
    again = world.run("promote", job.id)
    assert again.returncode == 2
    assert one_error_line(again) == f"the refit {job.id} is no candidate: its map serves already"
    done = world.run("rollback", "churn", "--note", "complaints", "--json")
    assert (done.returncode, json.loads(done.stdout)["map"]) == (0, None)
    done = world.run("rollback", "churn", "--version", "8")
    assert done.returncode == 2
    assert "there is nothing to roll back" in one_error_line(done)
    entries = world.refits.store.audit(after=0, limit=99, model="churn")
    assert [entry.detail["note"] for entry in entries if entry.action in ("promoted", "rolled_back")] == [
        "agreed",
        "complaints",
    ]


def test_back_to_the_map_before(world: World) -> None:
    jobs = []
    for _ in range(2):
        world.wait_for(state=JobState.CANDIDATE)
        jobs.append(world.jobs()[0].id)
        world.run("promote", jobs[-1])
    alert = advanced(None, finding(7.2, model="churn", version="8"), NOW_MS)
    database = world.refits.database.database
    with database.writing() as connection:
        save(database, connection, [(None, alert)], NOW_MS)
    assert alert is not None
    done = world.run("rollback", "churn")
    assert done.stdout == f"{jobs[0]} serves churn 8 again\nresolved: {alert.id}\n"
    world.refits.clock.advance(1.0)
    assert world.run("rollback", "churn").stdout == "no map serves churn 8 any more\n"


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["recalibrate", "none"], "no model 'none'; models are 'churn', 'org/model'"),
        (["recalibrate", "churn", "--method", "betta"], "there is no recalibration method 'betta'; did you mean beta?"),
        (["recalibrate", "churn", "--method", "histogram", "--option", "bin=3"], "histogram has no option 'bin'"),
        (["recalibrate", "churn", "--option", "bins"], "--option must be like bins=10, got 'bins'"),
        (["recalibrate", "churn", "--option", "a=1", "--option", "a=2"], "--option a is given twice"),
        (["recalibrate", "churn", "--window", "soon"], "window must be a duration"),
        (["recalibrate", "churn", "--timeout", "soon"], "--timeout must be a duration"),
        (["recalibrate", "churn", "--timeout", "2s"], "--timeout 2s says how long to wait, and goes with --wait"),
        (["promote", "rc_none"], "no refit is called 'rc_none'"),
        (["rollback", "none"], "no model 'none'"),
        (["rollback", "zz/../churn"], "model must not have '.', '..' or nothing between slashes, got 'zz/../churn'"),
        (["recalibrate", "zz/../churn"], "model, as there is no such file, must not have '.', '..' or nothing"),
        (["promote", ".."], "refit must not have '.', '..' or nothing between slashes, got '..'"),
        (["alerts", "show", "."], "alert must not have '.', '..' or nothing between slashes, got '.'"),
    ],
)
def test_bad_use_is_one_line_and_status_2(world: World, arguments: list[str], line: str) -> None:
    done = world.run(*arguments)
    assert done.returncode == 2
    assert one_error_line(done).startswith(line)
    assert world.jobs() == []


def test_a_refit_under_way_is_named(world: World) -> None:
    world.run("recalibrate", "churn")
    done = world.run("recalibrate", "churn")
    assert done.returncode == 2
    assert world.jobs()[0].id in one_error_line(done)


def test_a_service_that_is_not_there_is_a_failure(tmp_path: Path) -> None:
    done = inside("promote", "rc_1", "--url", "127.0.0.1:1", cwd=tmp_path)
    assert done.returncode == 1
    assert one_error_line(done).startswith("the service at http://127.0.0.1:1 does not answer")
    done = inside("promote", "rc_1", "--url", "ftp://there", cwd=tmp_path)
    assert done.returncode == 2
    assert "must be like http://localhost:8000" in one_error_line(done)


def test_keys_are_shown_and_what_they_do_not_open_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = Keys()
    world = World(tmp_path, keys)
    (tmp_path / "writer.key").write_text(keys("write:churn") + "\n")
    (tmp_path / "wrong.key").write_text(keys("write:churn")[:-1] + "-")
    (tmp_path / "empty.key").touch()
    (tmp_path / "picture.key").write_bytes(b"\xff\xd8")
    monkeypatch.delenv("MONITOR_API_KEY", raising=False)
    try:
        said = {
            (): f"the service at {world.server.url} asks for an API key: put one into MONITOR_API_KEY, or into a file",
            ("--key-file", "wrong.key"): f"the service at {world.server.url} refuses the API key of wrong.key: ",
            ("--key-file", "gone.key"): "--key-file: cannot read gone.key: No such file or directory",
            ("--key-file", "empty.key"): "--key-file: empty.key is empty; `monitor keys create",
            ("--key-file", "picture.key"): "--key-file: picture.key holds no API key",
            ("--promote", "--key-file", "writer.key"): (
                "the API key of writer.key does not do: this needs the role promote for model 'churn'"
            ),
        }
        for arguments, line in said.items():
            done = world.run("recalibrate", "churn", *arguments)
            assert done.returncode == 2, arguments
            assert one_error_line(done).startswith(line)
            assert "cmk_" not in done.stderr
        assert world.jobs() == []
        assert world.run("recalibrate", "churn", "--key-file", "writer.key").returncode == 0
        monkeypatch.setenv("MONITOR_API_KEY", keys("write:churn"))
        # The first refit is under way still.
        assert "is under way" in one_error_line(world.run("recalibrate", "churn"))
    finally:
        world.close()


def test_values_of_options_are_those_of_json() -> None:
    found = method_options(["a=1", "b=0.5", "c=true", "d=null", "e=mass", "f=", "g=NaN", "h=[1]", 'i="3"', "j=x=y"])
    assert found == {
        "a": 1,
        "b": 0.5,
        "c": True,
        "d": None,
        "e": "mass",
        "f": "",
        "g": "NaN",
        "h": "[1]",
        "i": "3",
        "j": "x=y",
    }
    assert method_options([f"k={'[' * 100_000}"]) == {"k": "[" * 100_000}


def test_what_would_steer_a_terminal_is_spelled_out(world: World) -> None:
    told = {**COMPARISON, "guard": {**COMPARISON["guard"], "passed": False, "reasons": ["\x1b[31mred"]}}
    done = world.wait_for(state=JobState.REJECTED, reason="\x1b[31mred [bold]x", comparison=told)
    assert "\x1b" not in done.stdout
    assert "\\x1b[31mred" in done.stdout


def test_a_terminal_shows_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    screen = io.StringIO()
    with job_progress(Console(file=screen, force_terminal=True, width=80)) as show:
        show("fitting LoRe [bold]", 0.25)
        show("drawing", 0.8)
    assert "fitting LoRe [bold]" in screen.getvalue() or "drawing" in screen.getvalue()
    assert "80%" in screen.getvalue()


def test_elsewhere_a_line_a_step() -> None:
    written = io.StringIO()
    with job_progress(Console(file=written, width=20)) as show:
        for step, share in (
            ("queued", 0.0),
            ("fitting LoRe, which is long", 0.1),
            ("fitting LoRe, which is long", 0.2),
        ):
            show(step, share)
    assert written.getvalue() == "  0% queued\n 10% fitting LoRe, which is long\n"


def test_who_interrupts_is_told_that_it_goes_on(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_step: str, _share: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "job_progress", lambda _console: contextlib.nullcontext(interrupt))
    done = world.run("recalibrate", "churn", "--wait")
    (job,) = world.jobs()
    assert done.returncode == 130
    assert f"the refit {job.id} goes on; see {world.server.url}/recalibrations/{job.id}" in done.stderr
    assert job.state is JobState.QUEUED
