"""`monitor demo`."""

import json
import re
import signal
import socket
import urllib.request
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml

from monitor.app.settings import Settings
from monitor.cli import demo
from monitor.cli.demo import demo_settings, links
from monitor.simulation.models import MODELS
from tests.cli.command import forked, inside, one_error_line, start
from tests.patience import PATIENCE_SECONDS, eventually
from tests.real.child import free_ports
from tests.real.forked import Forked


def wait_for(output: Path, pattern: str, process: Forked) -> re.Match[str]:
    """Where the output says so, at last."""

    def look() -> re.Match[str] | None:
        found = re.search(pattern, output.read_text())
        assert found or process.poll() is None, output.read_text()
        return found

    found = eventually(look, shown=output.read_text)
    assert found is not None
    return found


@pytest.mark.long
def test_the_drift_shows_for_what_it_is_and_the_calibrated_models_stay_so(tmp_path: Path) -> None:
    output = tmp_path / "output.txt"
    with output.open("wb") as stream:
        process = start("demo", "--speed", "800", "--port", "0", "--keep", "kept", cwd=tmp_path, output=stream)
    try:
        # However busy the machine is: until both drifts are seen.
        wait_for(output, r"simulated \|.*overconfident [^|]*firing: [^|]*shape.*rare-event [^|]*firing: prior", process)
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_SECONDS) == 0, output.read_text()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    said_at_all = output.read_text()
    assert re.search(r"a report +http://127\.0\.0\.1:\d+/v1/models/overconfident/report", said_at_all)
    lines = said_at_all.splitlines()
    ends = [line.split(maxsplit=1) for line in lines if re.match(r"[a-z-]+ +[a-z: ]+\. ", line)]
    said = {model: text.partition(".")[0] for model, text in ends}
    assert set(said) == {"calibrated", "overconfident", "prior-shift", "rare-event", "local-error"}, said_at_all
    assert said["calibrated"] == "nothing found", said_at_all
    assert re.fullmatch("firing: (shape|prior and shape)", said["overconfident"]), said_at_all
    assert said["prior-shift"] == "nothing found", said_at_all  # its predictions follow the prior
    assert said["rare-event"] == "firing: prior shift", said_at_all
    assert said["local-error"] == "nothing found", said_at_all  # only features tell
    # A plain line every few seconds, as this is no terminal.
    assert sum(" simulated | " in line for line in lines) >= 2

    # What was kept can be looked at with the other commands.
    settings = tmp_path / "kept" / "monitor.yaml"
    assert yaml.safe_load(settings.read_text())["source"]["embedded"]["directory"] == str(tmp_path / "kept" / "log")
    listed = inside("dead-letters", "list", "--config", str(settings), cwd=tmp_path)
    assert listed.returncode == 0
    assert "not_json" in listed.stdout


@pytest.mark.parametrize(("port", "at"), [(8000, ""), (8123, " --url http://127.0.0.1:8123")])
def test_it_says_how_to_repair_a_model_at_its_address(port: int, at: str) -> None:
    lines = links(f"http://127.0.0.1:{port}", Path("kept")).plain.splitlines()
    commands = [line.strip() for line in lines if "monitor recalibrate" in line]
    assert commands == [
        f"monitor recalibrate overconfident --wait --promote{at}",
        f"monitor recalibrate local-error --method lore --wait{at}",
    ]
    for model in MODELS:
        assert any(line.split()[:1] == [model.name] and model.story in line for line in lines)


def test_ctrl_c_ends_it_in_order(tmp_path: Path) -> None:
    with (tmp_path / "output.txt").open("wb") as output:
        process = start("demo", "--port", "0", cwd=tmp_path, output=output, TMPDIR=str(tmp_path))
    try:
        found = wait_for(tmp_path / "output.txt", r"http://\S+/metrics", process)
        with urllib.request.urlopen(found.group(), timeout=PATIENCE_SECONDS) as answer:
            assert answer.status == 200
        session = found.group().replace("/metrics", "/v1/session")
        with urllib.request.urlopen(session, timeout=PATIENCE_SECONDS) as answer:
            assert json.load(answer)["simulated_now"]
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_SECONDS) == 0, (tmp_path / "output.txt").read_text()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    # Nothing is left of what was not to be kept.
    assert [path.name for path in tmp_path.iterdir()] == ["output.txt"]


_taken: list[socket.socket] = []


def taking(directory: Path, port: int) -> Settings:
    """The settings of the demonstration, once another program has taken the port."""
    if port:
        _taken.append(socket.create_server(("127.0.0.1", port)))
    return demo_settings(directory, port)


@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_a_taken_port_is_said(tmp_path: Path, when: str) -> None:
    assert demo._USUAL_PORT == 8000
    # Of the usual one, any program on the machine may let go in between.
    (port,) = free_ports(1)
    constants: dict[str, object] = {"monitor.cli.demo._USUAL_PORT": port}
    with ExitStack() as stack:
        if when == "before":
            stack.enter_context(socket.create_server(("127.0.0.1", port)))
        else:
            # As another program that is started at the same time takes it.
            constants["monitor.cli.demo.demo_settings"] = taking
        done = forked("demo", "--seconds", "1", "--keep", "kept", cwd=tmp_path, constants=constants)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count(f"port {port} is taken, so a free one is used; --port chooses one") == 1
    assert re.search(r"Prometheus +http://127\.0\.0\.1:\d+/metrics", done.stderr)
    assert f":{port}/" not in done.stderr
    # What is kept does not ask for it either.
    assert yaml.safe_load((tmp_path / "kept" / "monitor.yaml").read_text())["api"] == {"port": 0}


def test_a_port_that_was_asked_for_is_had_or_none(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = forked("demo", "--seconds", "1", "--port", str(port), cwd=tmp_path)
    assert done.returncode == 2
    assert one_error_line(done).startswith(f"api.port: cannot listen on 127.0.0.1:{port}: the port is taken")


def test_a_directory_that_holds_something_is_refused(tmp_path: Path) -> None:
    (tmp_path / "something").write_text("", encoding="utf-8")
    done = inside("demo", "--keep", str(tmp_path), cwd=tmp_path)
    assert done.returncode == 2
    assert one_error_line(done).startswith("--keep must name a new or empty directory")
