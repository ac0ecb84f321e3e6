"""The page and the picture of `monitor report`."""

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from scipy.special import expit

from tests.cli.command import inside, one_error_line
from tests.long import short_of
from tests.page.document import document_of, titles
from tests.real.chromium import render

HOSTILE = [
    "<script>document.title='taken'</script>",
    '"><img src=x onerror=alert(1)>',
    "{{ 7 * 6 }}",
    "a\x1b[31m\nb",
    "&amp;",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of every kind that pages are made of."""
    path = tmp_path_factory.mktemp("pages")
    rng = np.random.default_rng(3)
    z = rng.normal(0.0, 1.2, 1000)
    y = (rng.random(1000) < expit(z)).astype(int)
    hostile = [HOSTILE[number % len(HOSTILE)] for number in range(1000)]
    table = pa.table({"p": expit(1.8 * z), "y": y, HOSTILE[0]: hostile, "q": expit(z)})
    pa.csv.write_csv(table, path / "hostile.csv")
    pa.csv.write_csv(pa.table({"p": expit(z / 2), "y": y}), path / "other.csv")
    pa.csv.write_csv(pa.table({"p": np.full(300, 0.25), "y": y[:300]}), path / "constant.csv")
    pa.csv.write_csv(pa.table({"p": expit(z[:40]), "y": y[:40]}), path / "tiny.csv")
    rare = (rng.random(5000) < 0.01).astype(int)
    pa.csv.write_csv(pa.table({"p": rng.beta(1, 99, 5000), "y": rare}), path / "rare.csv")
    (path / "empty.csv").write_text("p,y\n", encoding="utf-8")
    vectors = rng.dirichlet([1.0, 1.0, 1.0], 400)
    names = np.array(HOSTILE[:3])[[rng.choice(3, p=each) for each in vectors]]
    columns = {name: vectors[:, number] for number, name in enumerate(HOSTILE[:3])}
    pa.csv.write_csv(pa.table({**columns, "y": names, "f": z[:400]}), path / "classes.csv")
    days = 1_770_000_000_000 + 86_400_000 * np.repeat([0, 1, 2, 5], 250)
    later = pa.array(days + rng.integers(0, 80_000_000, 1000), pa.timestamp("ms", tz="UTC"))
    over_time = {"p": expit(z), "y": y, "ts": later, "a$1$\\x": z, "b": rng.normal(40.0, 9.0, 1000), "c": np.ones(1000)}
    pa.csv.write_csv(pa.table(over_time), path / "times.csv")
    pa.csv.write_csv(pa.table({"p": expit(z), "y": y}), path / r"costs$\odd$.csv")
    return path


PAGES = {
    "over time": ["times.csv", "--feature", "a$1$\\x", "--feature", "b"],
    "classes": ["classes.csv", *(part for name in HOSTILE[:3] for part in ("--prediction", name)), "--feature", "f"],
    "empty": ["empty.csv"],
    "comparison": ["hostile.csv", "--compare", "other.csv"],
    "two columns": ["hostile.csv", "--prediction", "p", "--compare", "hostile.csv", "--compare-prediction", "q"],
    "constant": ["constant.csv"],
    "tiny": ["tiny.csv"],
    "rare": ["rare.csv"],
    "segments": ["hostile.csv", "--segment", HOSTILE[0]],
    "no formulas": [r"costs$\odd$.csv", "--compare", "other.csv"],
    "no draws": ["tiny.csv", "--draws", "0"],
}


@pytest.mark.parametrize("name", short_of([*PAGES], 4))
def test_a_page_opens_in_a_browser_and_needs_nothing_else(folder: Path, tmp_path: Path, name: str) -> None:
    arguments = PAGES[name]
    quick = [] if "--draws" in arguments else ["--draws", "19"]
    page, picture = tmp_path / "page.html", tmp_path / "sheet.png"
    done = inside("report", *arguments, *quick, "--html", str(page), "--png", str(picture), cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith(f"wrote {page}\nwrote {picture}\n")
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert page.stat().st_size < 300_000
    seen = render(page)
    assert seen.complaints == []
    assert "<title>Calibration of " in seen.text
    assert ("<svg" in seen.text) == ("empty.csv" not in arguments)
    assert "<h2>How to read it</h2>" in seen.text
    assert "\x1b" not in seen.text


def test_hostile_names_are_shown_as_they_are(folder: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    done = inside("report", *PAGES["segments"], "--draws", "19", "--html", str(page), cwd=folder)
    text = render(page).text
    assert "&lt;script&gt;document.title='taken'&lt;/script&gt;" in text
    assert "&lt;img src=x onerror=alert(1)&gt;" in text
    assert "{{ 7 * 6 }}" in text
    assert "&amp;amp;" in text
    assert r"a\x1b[31m\nb" in text
    # Nor do they steer the terminal.
    assert r"a\x1b[31m\nb" in done.stdout
    assert "\x1b" not in done.stdout


def test_a_page_shows_how_it_went_over_time_and_over_two_features(folder: Path, tmp_path: Path) -> None:
    done = inside("report", *PAGES["over time"], "--draws", "19", "--html", str(tmp_path / "page.html"), cwd=folder)
    assert done.stderr == ""
    assert titles(tmp_path / "page.html")[1:] == [
        "How it went over time",
        "Where among a$1$\\x and b the model is too high or too low",
    ]
    over_time = document_of(tmp_path / "page.html")["figures"][1]
    assert re.match(r"\d+ spans of [\d.]+ (days|hours) each", over_time["text"])
    assert [plot["title"] for plot in over_time["plots"]] == [
        "What was predicted, and what came true",
        "TCE, %",
        "kCE",
        "smCE",
        "Offset of the log odds",
    ]
    spans = len(over_time["times"])
    assert all(len(line["values"]) == spans for plot in over_time["plots"] for line in plot["lines"])


def test_what_cannot_be_drawn_is_said(folder: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    inside("report", "times.csv", "--feature", "b", "--feature", "c", "--draws", "19", "--html", str(page), cwd=folder)
    assert "no map of the features: a map needs two features that vary" in page.read_text(encoding="utf-8")
    short = tmp_path / "short.csv"
    short.write_text("p,y,ts\n.2,0,2026-01-01T00:00:00Z\n.6,1,2026-01-02T00:00:00Z\n", encoding="utf-8")
    inside("report", str(short), "--draws", "19", "--html", str(page), cwd=folder)
    assert "nothing is shown over time: " in page.read_text(encoding="utf-8")


def test_pictures_change_nothing_of_what_is_printed(folder: Path, tmp_path: Path) -> None:
    arguments = ["report", *PAGES["over time"], "--draws", "19", "--json"]
    with_page = inside(*arguments, "--html", str(tmp_path / "page.html"), cwd=folder)
    assert with_page.stdout == inside(*arguments, cwd=folder).stdout


def test_a_page_of_many_classes_compares_the_gce_measures(folder: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    inside("report", *PAGES["classes"], "--draws", "19", "--html", str(page), cwd=folder)
    document = document_of(page)
    (family,) = (one for one in document["sections"] if one["title"] == "How much the choice of a measure decides")
    assert sum(len(row) - 1 for row in family["table"]["rows"]) == 32
    choices = [choice["name"] for choice in document["figures"][0]["choices"]]
    assert choices == ["The most probable class", *HOSTILE[:3]]


def test_the_page_and_the_picture_are_the_same_every_time(folder: Path, tmp_path: Path) -> None:
    again = ["report", "tiny.csv", "--draws", "19", "--html", "a.html", "--png", "a.png", "--json"]
    contents = []
    for _ in range(2):
        done = inside(*again[:1], str(folder / "tiny.csv"), *again[2:], cwd=tmp_path)
        page = re.sub(rb"Made on [^,]+", b"", (tmp_path / "a.html").read_bytes())
        contents.append((done.stdout, page, (tmp_path / "a.png").read_bytes()))
    assert contents[0] == contents[1]
    # With --json, standard output is JSON and nothing else.
    assert contents[0][0].startswith("{")
    assert contents[0][0].endswith("}\n")


@pytest.mark.parametrize(("option", "name"), [("--html", "page.html"), ("--png", "sheet.png")])
def test_where_nothing_can_be_written_is_said_before_the_work(folder: Path, option: str, name: str) -> None:
    done = inside("report", "tiny.csv", option, f"gone/{name}", cwd=folder)
    assert done.returncode == 2
    assert one_error_line(done) == f"{option}: there is no directory gone; make it first"
    done = inside("report", "tiny.csv", option, ".", cwd=folder)
    assert one_error_line(done) == f"{option}: . is a directory; name a file in it"
