"""`monitor explain`, and the lines that name it."""

import contextlib
import csv
import io
import os
import pty
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from monitor.answers import all_answers
from monitor.cli.main import run
from tests.cli.command import TIMEOUT_SECONDS, environment, inside, monitor, one_error_line


class _Terminal(io.StringIO):
    """A stream that is one of a person."""

    def isatty(self) -> bool:
        return True


def help_line(*arguments: str, cwd: Path) -> str | None:
    """The words that the last line names at a terminal, or None if no line does."""
    terminal = _Terminal()
    with contextlib.chdir(cwd), contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(terminal):
        run(arguments)
    named = [line for line in terminal.getvalue().splitlines() if "help: " in line]
    if not named:
        return None
    (line,) = named
    assert line == terminal.getvalue().splitlines()[-1]
    return line.partition("help: monitor explain ")[2]


@pytest.fixture
def shifted(tmp_path: Path) -> Path:
    """A file of predictions that are too low by one logit."""
    rng = np.random.default_rng(1)
    logits = rng.normal(size=4000)
    outcomes = rng.random(4000) < 1.0 / (1.0 + np.exp(-logits - 1.0))
    file = tmp_path / "shifted.csv"
    with file.open("w", newline="", encoding="utf-8") as opened:
        writer = csv.writer(opened)
        writer.writerow(["p", "y"])
        writer.writerows(zip(1.0 / (1.0 + np.exp(-logits)), outcomes.astype(int), strict=True))
    return file


def test_it_prints_all_paragraphs_on_a_word(tmp_path: Path) -> None:
    done = inside("explain", "both", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Verdict both\n  All logits are off by the same number, and a fault remains")
    assert "\n\nLabel both\n  All logits are off by the same number, and the shape is wrong, too." in done.stdout


def test_words_are_found_however_they_are_spelt(tmp_path: Path) -> None:
    shown = {inside("explain", word, cwd=tmp_path).stdout for word in ("prior_shift", "prior-shift", "Prior shift")}
    assert len(shown) == 1
    assert "Verdict prior_shift" in shown.pop()


def test_several_words_are_printed_in_order_and_once(tmp_path: Path) -> None:
    done = inside("explain", "busy", "champion", "busy", cwd=tmp_path)
    assert [line for line in done.stdout.splitlines() if line and not line.startswith(" ")] == [
        "Problem busy",
        "Refit champion",
    ]


def test_without_a_word_all_are_listed(tmp_path: Path) -> None:
    done = inside("explain", cwd=tmp_path)
    listed = done.stdout.replace(",", " ").split()
    assert {answer.name for answer in all_answers()} <= set(listed)


def test_an_unknown_word_is_bad_use(tmp_path: Path) -> None:
    done = inside("explain", "busy", "bizy", cwd=tmp_path)
    assert done.returncode == 2
    assert one_error_line(done) == "there is no word 'bizy' to explain; `monitor explain` lists all"
    assert done.stdout == ""


def test_it_needs_nothing_but_the_package(tmp_path: Path) -> None:
    done = monitor("explain", "store-unavailable", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Problem store-unavailable\n  Status 503.")


def test_a_report_names_what_explains_its_verdict(shifted: Path) -> None:
    assert help_line("report", str(shifted), "--html", "page.html", cwd=shifted.parent) == "prior_shift"
    page = (shifted.parent / "page.html").read_text("utf-8")
    assert "All logits (log odds) are off by the same number" in page
    assert "docs/" not in page


def test_a_comparison_names_both_verdicts(shifted: Path) -> None:
    few = shifted.with_name("few.csv")
    few.write_text("".join(shifted.read_text("utf-8").splitlines(keepends=True)[:20]), encoding="utf-8")
    line = help_line("report", str(few), "--compare", str(shifted), cwd=shifted.parent)
    assert line == "insufficient_data prior_shift"


def test_reports_by_group_name_the_verdicts_of_significant_ones(shifted: Path) -> None:
    rows = shifted.read_text("utf-8").splitlines()
    grouped = shifted.with_name("grouped.csv")
    grouped.write_text(
        "\n".join(["p,y,group", *(f"{row},{number % 2}" for number, row in enumerate(rows[1:]))]), encoding="utf-8"
    )
    assert help_line("report", str(grouped), "--by", "group", cwd=shifted.parent) == "prior_shift"


def test_a_recalibration_names_the_words_on_its_methods(shifted: Path) -> None:
    options = ("--method", "offset", "--method", "beta", "--draws", "50")
    assert help_line("recalibrate", str(shifted), *options, cwd=shifted.parent) == "better best"


def test_an_error_names_what_explains_it_and_one_that_says_all_names_nothing(tmp_path: Path) -> None:
    assert help_line("alerts", "list", "--url", "http://127.0.0.1:1", cwd=tmp_path) == "service-unavailable"
    assert help_line("report", "none.csv", cwd=tmp_path) is None


def test_json_and_pipes_have_no_such_line(shifted: Path) -> None:
    assert help_line("report", str(shifted), "--json", cwd=shifted.parent) is None
    done = inside("report", str(shifted), cwd=shifted.parent)
    assert (done.returncode, done.stderr) == (0, "")
    assert "explain" not in done.stdout
    one_error_line(inside("alerts", "list", "--url", "http://127.0.0.1:1", cwd=shifted.parent))


def test_a_real_terminal_shows_it(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "monitor", "alerts", "list", "--url", "http://127.0.0.1:1"]
    with os.fdopen(theirs, "wb") as terminal:
        subprocess.run(command, cwd=tmp_path, env=environment(), stderr=terminal, timeout=TIMEOUT_SECONDS, check=False)
        printed = os.read(ours, 10_000).decode()
    os.close(ours)
    assert printed.splitlines()[-1] == "help: monitor explain service-unavailable"
