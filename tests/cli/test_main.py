"""What holds for every command."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from monitor.cli.main import COMMANDS, OLD_NAMES, module_of
from monitor.version import VERSION
from tests.cli.command import inside, monitor, one_error_line

EACH = [*([name] for name in (*COMMANDS, *OLD_NAMES)), ["dead-letters", "list"], ["dead-letters", "replay"]]


def test_the_version() -> None:
    done = monitor("--version")
    assert (done.returncode, done.stdout) == (0, f"monitor {VERSION}\n")


def test_the_help_lists_every_command() -> None:
    done = monitor("--help")
    assert done.returncode == 0
    assert all(f" {name} " in done.stdout for name in COMMANDS)


@pytest.mark.parametrize("command", EACH, ids=" ".join)
def test_every_command_has_help_with_an_example(tmp_path: Path, command: list[str]) -> None:
    done = inside(*command, "--help", cwd=tmp_path)
    assert done.returncode == 0
    assert "Example" in done.stdout
    assert f"monitor {command[0]}" in done.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_says_of_a_command_what_it_says_of_itself(name: str) -> None:
    command = typer.main.get_command(importlib.import_module(module_of(name)).app)
    assert (command.help or "").splitlines()[0] == COMMANDS[name]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["confg"], "No such command 'confg'; see `monitor --help`"),
        (["config", "--defalt"], "No such option: --defalt (Possible options: --default); see `monitor config --help`"),
        (["report"], "Missing argument 'FILE...'; see `monitor report --help`"),
        (["replay", "x", "--rate", "fast"], "Invalid value for '--rate': "),
        (["config", "-c", "none.yaml"], "cannot read none.yaml: No such file or directory"),
        (["report", "none.csv"], "none.csv: no such file"),
        (["replay", "none.jsonl"], "none.jsonl: no such file"),
        (["dead-letters", "list", "--reason", "odd"], "--reason must be one of empty, oversized"),
    ],
)
def test_bad_use_is_one_line_and_status_2(tmp_path: Path, arguments: list[str], line: str) -> None:
    done = inside(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert one_error_line(done).startswith(line)
    assert done.stdout == ""


READING = [
    ["config"],
    ["serve"],
    ["report", "events.jsonl"],
    ["replay", "events.jsonl"],
    ["dead-letters", "list"],
    ["dead-letters", "replay"],
]


@pytest.mark.parametrize("arguments", READING, ids=" ".join)
def test_a_wrong_setting_is_said_by_every_command_that_reads_them(tmp_path: Path, arguments: list[str]) -> None:
    (tmp_path / "monitor.yaml").write_text("source:\n  kind: kafak\n", encoding="utf-8")
    (tmp_path / "events.jsonl").write_text('{"type":"outcome","model":"m","id":"1","ts":1,"y":1}\n', encoding="utf-8")
    done = inside(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert one_error_line(done) == "monitor.yaml:2: source.kind must be embedded or kafka, got 'kafak'"


def test_an_expected_error_has_no_traceback_and_ends_the_process_with_its_status(tmp_path: Path) -> None:
    done = monitor("report", "none.csv", cwd=tmp_path)
    assert done.returncode == 2
    assert one_error_line(done).startswith("none.csv: no such file")
    assert done.stdout == ""


def test_debug_shows_where_an_error_comes_from() -> None:
    done = monitor("--debug", "config", "--config", "none.yaml")
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert "SettingsError: cannot read none.yaml" in done.stderr


@pytest.mark.parametrize("arguments", [[], ["dead-letters"]])
def test_nothing_asked_for_shows_the_help(tmp_path: Path, arguments: list[str]) -> None:
    done = inside(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert "Usage: monitor" in done.stdout + done.stderr
    assert "error:" not in done.stderr


@pytest.mark.parametrize(
    ("command", "given", "threads"),
    [("report", None, 1), ("report", "2", min(2, os.cpu_count() or 1)), ("serve", None, 1)],
)
def test_openblas_has_one_thread_unless_somebody_wants_more(command: str, given: str | None, threads: int) -> None:
    script = (
        "import threadpoolctl, typer; from monitor.cli.main import app;"
        f"typer.main.get_command(app).get_command(None, {command!r});"
        "print({each['num_threads'] for each in threadpoolctl.threadpool_info()})"
    )
    environ = {
        name: value for name, value in os.environ.items() if name not in {"OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"}
    }
    environ |= {} if given is None else {"OPENBLAS_NUM_THREADS": given}
    done = subprocess.run([sys.executable, "-c", script], env=environ, capture_output=True, text=True, check=True)
    assert done.stdout == f"{{{threads}}}\n"
