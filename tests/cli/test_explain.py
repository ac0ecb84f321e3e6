"""`monitor explain`, and the lines that name it."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from monitor.answers import all_answers
from tests.cli.command import inside, monitor, one_error_line


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
    assert done.stdout.startswith("Verdict both\n  There is an offset, and a fault that remains after it.")
    assert "\n\nLabel both\n  There is an offset, and the shape is wrong, too." in done.stdout


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
    done = inside("report", str(shifted), "--html", "page.html", cwd=shifted.parent)
    assert done.stderr == "help: monitor explain prior_shift\n"
    assert "explain" not in done.stdout
    page = (shifted.parent / "page.html").read_text("utf-8")
    assert "All logits are off by the same number" in page

    done = inside("report", str(shifted), "--json", cwd=shifted.parent)
    assert done.stderr == ""
    assert json.loads(done.stdout)["diagnosis"]["verdict"] == "prior_shift"


def test_a_comparison_names_both_verdicts(shifted: Path) -> None:
    few = shifted.with_name("few.csv")
    few.write_text("".join(shifted.read_text("utf-8").splitlines(keepends=True)[:20]), encoding="utf-8")
    done = inside("report", str(few), "--compare", str(shifted), cwd=shifted.parent)
    assert done.stderr == "help: monitor explain insufficient_data prior_shift\n"


def test_a_recalibration_names_the_words_on_its_methods(shifted: Path) -> None:
    done = inside(
        "recalibrate", str(shifted), "--method", "offset", "--method", "beta", "--draws", "50", cwd=shifted.parent
    )
    assert done.returncode == 0
    assert done.stderr == "help: monitor explain better best\n"


def test_an_error_names_what_explains_it_and_one_that_says_all_names_nothing(tmp_path: Path) -> None:
    done = inside("alerts", "list", "--url", "http://127.0.0.1:1", cwd=tmp_path)
    assert done.stderr.splitlines()[1:] == ["help: monitor explain service-unavailable"]
    done = inside("report", "none.csv", cwd=tmp_path)
    assert len(done.stderr.splitlines()) == 1
