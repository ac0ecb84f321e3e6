"""What the chart's jobs run: the command of the refits in a real shell, and the test pod's program."""

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from monitor.cli.recalibrate import REJECTED, app
from tests.deploy.chart import CHART, MOUNT, ROOT, container, every, of_file, of_values, only, settings_of
from tests.patience import PATIENCE_SECONDS
from tests.real.child import free_ports, start_child, tail

# It stands where the monitor stands, tells what it was called with, and ends as it is told.
_RECORDER = """#!{python}
import json, os, sys
with open(os.environ["CALLED"], "w") as file:
    json.dump(sys.argv[1:], file)
sys.exit(int(os.environ["STATUS"]))
"""


def test_every_declared_model_is_refitted_by_its_own_name(tmp_path: Path) -> None:
    """Whatever the name holds, the command line gets it as it is."""
    written = yaml.safe_load((CHART / "ci" / "hostile-values.yaml").read_text(encoding="utf-8"))["recalibration"][
        "models"
    ]
    jobs = every(of_file("hostile"), "CronJob")
    assert len(jobs) == len(written)
    command = typer.main.get_command(app)
    for job, model in zip(jobs, written, strict=True):
        assert job["metadata"]["annotations"]["calibration-monitor/model"] == model["name"]
        called, _ = _run(_container(job), tmp_path)
        assert called[0] == "recalibrate"
        # As the real command line reads it.
        parsed = command.make_context("recalibrate", called[1:]).params
        assert parsed["target"] == model["name"]
        assert parsed["model_version"] == model.get("version")
        assert parsed["wait"] is True
        assert parsed["url"] == "http://a-name-that-takes-all-of-the-52-characters-there-are:8000"
    (options,) = (each["args"] for each in map(_container, jobs) if "--option" in each["args"])
    assert [_expanded(options[at + 1], {}) for at, word in enumerate(options) if word == "--option"] == [
        "bins=10",
        "exact=true",
        "kind=$(x)",
    ]


@pytest.mark.parametrize(("status", "ends"), [(0, 0), (REJECTED, 0), (1, 1), (2, 2)])
def test_a_refit_that_finds_nothing_better_is_no_failed_job(status: int, ends: int, tmp_path: Path) -> None:
    job = every(of_file("production"), "CronJob")[0]
    assert _run(_container(job), tmp_path, status)[1] == ends


def test_refits_of_a_model_never_overlap_and_leave_little_behind() -> None:
    churn, fraud = every(of_file("production"), "CronJob")
    assert [churn["spec"]["schedule"], fraud["spec"]["schedule"]] == ["0 3 * * *", "30 2 * * 1-5"]
    for job in (churn, fraud):
        spec = job["spec"]
        assert spec["concurrencyPolicy"] == "Forbid"
        assert (spec["successfulJobsHistoryLimit"], spec["failedJobsHistoryLimit"]) == (1, 3)
        # Longer than the command waits, twice: it may be tried again.
        assert spec["jobTemplate"]["spec"]["activeDeadlineSeconds"] > 2 * 20 * 60
        assert spec["jobTemplate"]["spec"]["template"]["spec"]["restartPolicy"] == "Never"
    assert "--promote" in _container(churn)["args"]
    assert "--no-promote" in _container(fraud)["args"]


def test_the_key_of_a_refit_is_no_argument() -> None:
    job = _container(every(of_file("production"), "CronJob")[0])
    assert job["env"] == [
        {
            "name": "MONITOR_API_KEY",
            "valueFrom": {"secretKeyRef": {"name": "calibration-refits", "key": "api-key"}},
        }
    ]
    assert "key" not in " ".join(job["args"])


@pytest.mark.parametrize(
    ("ready", "models", "status", "said"),
    [
        ([503, 200], 401, 0, "requests without a key are refused"),
        ([200], 200, 1, "answered 200 to a request without a key; 401 was expected"),
        ([503], 401, 1, "is not ready after 0 s: 503"),
    ],
)
def test_the_chart_test_asks_whether_it_is_ready_and_closed(
    ready: list[int], models: int, status: int, said: str
) -> None:
    (each,) = only(of_file("default"), "Pod")["spec"]["containers"]
    program, url, seconds = each["args"]
    assert _expanded(program, {}) == (CHART / "files" / "ready.py").read_text(encoding="utf-8")
    assert (url, seconds) == ("http://rel-calibration-monitor:8000", "120")
    with _answers({"/readyz": ready, "/v1/models": [models]}) as address:
        done = _ask(program, address, "0" if said.startswith("is not") else f"{PATIENCE_SECONDS:g}")
    assert done.returncode == status, done.stdout + done.stderr
    assert said in done.stdout + done.stderr


def test_the_service_starts_as_the_pod_starts_it_and_its_first_key_opens_it(tmp_path: Path) -> None:
    """The rendered settings, command, environment and test program, and what the notes tell to do next."""
    (port,) = free_ports(1)
    # As deploy/kind.sh installs it.
    quick = {"evaluation": {"interval": "1s"}, "models": {"defaults": {"allowed_lateness": "1m"}}}
    objects = of_values({"config": {"api": {"port": port}, **quick}})
    each = container(objects)
    volume = each["volumeMounts"][0]["mountPath"]
    (tmp_path / "data").mkdir()
    (tmp_path / "monitor.yaml").write_text(
        # Where a pod listens on all addresses, this listens on one that no other machine reaches.
        settings_of(objects).replace(volume, str(tmp_path / "data")).replace("host: 0.0.0.0", "host: 127.0.0.1"),
        encoding="utf-8",
    )
    env = {variable["name"]: variable["value"].replace(MOUNT, str(tmp_path)) for variable in each["env"]}
    env |= {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    with (tmp_path / "log").open("wb") as log:
        program = Path(sys.executable).parent / each["command"][0]
        service = start_child(
            ["env", *(f"{key}={value}" for key, value in env.items()), program, "serve"], tmp_path, log
        )
        try:
            ready = (CHART / "files" / "ready.py").read_text(encoding="utf-8")
            done = _ask(ready, f"http://127.0.0.1:{port}", f"{PATIENCE_SECONDS:g}")
            assert done.returncode == 0, done.stderr + tail(tmp_path / "log")
            made = subprocess.run(
                ["monitor", "keys", "create", "admin", "--role", "write", "--role", "promote"],
                env=env,
                capture_output=True,
                text=True,
                check=True,
                timeout=PATIENCE_SECONDS,
            )
            key = {"MONITOR_API_KEY": made.stdout.strip()}
            sent = subprocess.run(
                [sys.executable, ROOT / "deploy" / "kind_events.py", "send", "500", str(port)],
                env={**env, **key},
                capture_output=True,
                text=True,
                check=False,
                timeout=PATIENCE_SECONDS,
            )
            assert sent.returncode == 0, sent.stderr + tail(tmp_path / "log")
        finally:
            service.terminate()
            ended = service.wait(timeout=PATIENCE_SECONDS)
    assert ended == 0, tail(tmp_path / "log")


def _ask(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the test pod's program. It has a patience of its own."""
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=2 * PATIENCE_SECONDS,
    )


def _container(job: dict[str, Any]) -> dict[str, Any]:
    (found,) = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    assert isinstance(found, dict)
    return found


def _run(job: dict[str, Any], folder: Path, status: int = 0) -> tuple[list[str], int]:
    """Run a job's command as a node would: the arguments that `monitor` gets, and the status that it ends with."""
    recorder, called = folder / "monitor", folder / "called.json"
    recorder.write_text(_RECORDER.format(python=sys.executable), encoding="utf-8")
    recorder.chmod(0o755)
    env = {"MONITOR_API_KEY": "cmk_secret", "HOME": "/root"}
    done = subprocess.run(
        [_expanded(word, env) for word in (*job["command"], *job["args"])],
        env={**env, "PATH": f"{folder}:{os.environ['PATH']}", "CALLED": str(called), "STATUS": str(status)},
        check=False,
        timeout=PATIENCE_SECONDS,
    )
    return json.loads(called.read_text(encoding="utf-8")), done.returncode


def _expanded(word: str, env: dict[str, str]) -> str:
    """A word of a command as Kubernetes hands it on: $(NAME) is a variable's value, and $$ is $."""

    def value(match: re.Match[str]) -> str:
        return "$" if match[0] == "$$" else env.get(match[1], match[0])

    return re.sub(r"\$\$|\$\(([^)]*)\)", value, word)


@contextmanager
def _answers(statuses: dict[str, list[int]]) -> Iterator[str]:
    """A server on loopback that answers each path with one status after the other, and then with the last."""
    asked = {path: iter(those) for path, those in statuses.items()}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(next(asked[self.path], statuses[self.path][-1]))
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
